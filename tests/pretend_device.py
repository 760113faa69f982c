"""A device that is not there: tensors that compute on the processor, but claim another device as a GPU's would.

Within ``PretendDevice()``, ``.to("meta")`` gives such tensors. Reading one with ``.numpy()``, or mixing it with tensors
of the processor, fails as it would on a GPU; everything else gives the true numbers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")


class Far(Tensor):
    """A tensor on the device that is not there; `near` has its numbers."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> "Far":
        options = {"dtype": near.dtype, "device": DEVICE, "strides": near.stride(), "requires_grad": False}
        made = Tensor._make_wrapper_subclass(cls, near.shape, **options)  # type: ignore[attr-defined]
        made.near = near
        return made

    def __repr__(self, **_: Any) -> str:
        return f"Far({self.near!r})"

    def numpy(self, **_: Any) -> Any:
        raise AssertionError("numpy() of a tensor that is not in the memory of the processor")

    def __array__(self, *_: Any) -> Any:
        raise AssertionError("an array of a tensor that is not in the memory of the processor")

    def data_ptr(self) -> int:
        raise AssertionError("the address of a tensor that is not in the memory of the processor")

    def tolist(self) -> Any:
        return self.near.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation where the numbers are; the result is as far as what it was computed from."""
    given = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    is_far = any(isinstance(value, Far) for value in given)
    asked = kwargs.get("device")
    if is_far and func not in (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default):
        # a GPU takes indices from the processor, but no processor takes those of a GPU
        mixed = [args[0], *args[2:]] if func in INDEXING else given
        near = [value for value in mixed if isinstance(value, Tensor) and not isinstance(value, Far) and value.dim()]
        assert not near, f"{func} mixes tensors of two devices"
    is_far = torch.device(asked) == DEVICE if asked is not None else is_far
    if asked is not None:
        kwargs = kwargs | {"device": torch.device("cpu"), "pin_memory": None} if "pin_memory" in kwargs else kwargs
        kwargs = kwargs | {"device": torch.device("cpu")}
    if func is torch.ops.aten.copy_.default:
        args[0].near.copy_(_near(args[1])) if isinstance(args[0], Far) else args[0].copy_(_near(args[1]))
        return args[0]
    result = func(*tree_map(_near, args), **tree_map(_near, kwargs))
    if is_far and func._schema.is_mutable and isinstance(args[0], Far):
        return args[0]
    return tree_map(lambda value: Far(value) if isinstance(value, Tensor) else value, result) if is_far else result


INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)


def _near(value: Any) -> Any:
    return value.near if isinstance(value, Far) else value


class _Making(TorchFunctionMode):
    """`torch.tensor`, which makes its result without a dispatched operation."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and kwargs.get("device") == DEVICE:
            return Far(torch.tensor(*args, **kwargs | {"device": "cpu"}))
        return func(*args, **kwargs)


class PretendDevice(TorchDispatchMode):
    """Within it the device ``meta`` computes."""

    def __init__(self) -> None:
        super().__init__()
        self.making = _Making()

    def __enter__(self) -> "PretendDevice":
        self.making.__enter__()
        entered: PretendDevice = super().__enter__()
        return entered

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.making.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        values = tree_flatten((args, kwargs))[0]
        if any(isinstance(value, Far) for value in values) or kwargs.get("device") == DEVICE:
            return compute(func, args, kwargs)
        return func(*args, **kwargs)
