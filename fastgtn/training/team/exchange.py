"""Values between the processes of a team: JSON and the bytes of tensors, never pickled objects."""

import dataclasses
import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from fastgtn.data.metrics import Tally, metrics_of

_LENGTH = struct.Struct("<Q")


def encode(value: Any) -> bytes:
    """None, numbers, texts, paths, lists, tuples, dictionaries by text, tensors, tallies, and data classes of these."""
    tensors: list[bytes] = []
    head = json.dumps(_plain(value, tensors)).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *tensors])


def decode(data: bytes) -> Any:
    """The value again."""
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    return _rebuilt(json.loads(data[_LENGTH.size : start]), memoryview(data)[start:])


def gathered(data: bytes, size: int) -> list[bytes]:
    """The bytes of every process, in the order of the processes."""
    lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(data)]))
    longest = max(int(length) for length in lengths)
    rows = [torch.empty(longest, dtype=torch.uint8) for _ in range(size)]
    dist.all_gather(rows, _row(data, longest))
    return [bytes(row[: int(length)].numpy()) for row, length in zip(rows, lengths, strict=True)]


def broadcast(data: bytes) -> bytes:
    """The bytes of the first process, in all of them."""
    length = torch.tensor([len(data)])
    dist.broadcast(length, 0)
    row = _row(data, int(length))
    dist.broadcast(row, 0)
    return bytes(row.numpy())


def _row(data: bytes, length: int) -> Tensor:
    row = torch.zeros(length, dtype=torch.uint8)
    kept = min(len(data), length)
    row[:kept] = torch.frombuffer(bytearray(data[:kept]), dtype=torch.uint8) if kept else row[:0]
    return row


def _plain(value: Any, tensors: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_plain(item, tensors) for item in value]
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return _class(value, fields, tensors) if fields else {"tuple": [_plain(item, tensors) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _plain(item, tensors) for key, item in value.items()}}
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, Tensor):
        array = value.detach().cpu().contiguous().numpy()
        start = sum(map(len, tensors))
        tensors.append(array.tobytes())
        return {"tensor": [str(array.dtype), list(array.shape), start]}
    if isinstance(value, Tally):
        counts = [_plain(value.counts.get(count), tensors) for count in _functions(value.kind)]
        return {"tally": [value.kind, value.rows, counts]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _class(value, [field.name for field in dataclasses.fields(value)], tensors)
    raise TypeError(
        f"a {type(value).__name__} cannot be sent between processes; counts of a metric are tensors, numbers, or data "
        "classes of these."
    )


def _class(value: Any, names: Sequence[str], tensors: list[bytes]) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in names}
    return {"class": [type(value).__module__, type(value).__qualname__, _plain(fields, tensors)]}


def _rebuilt(value: Any, tensors: memoryview) -> Any:
    if isinstance(value, list):
        return [_rebuilt(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "dict":
        return {key: _rebuilt(item, tensors) for key, item in content.items()}
    if kind == "tuple":
        return tuple(_rebuilt(content, tensors))
    if kind == "path":
        return Path(content)
    if kind == "tensor":
        dtype, shape, start = content
        count = int(np.prod(shape, dtype=np.int64))
        stop = start + count * np.dtype(dtype).itemsize
        return torch.from_numpy(np.frombuffer(bytearray(tensors[start:stop]), dtype).reshape(shape))
    if kind == "tally":
        name, rows, counts = content
        rebuilt = zip(_functions(name), _rebuilt(counts, tensors), strict=True)
        return Tally(name, rows, {count: part for count, part in rebuilt if part is not None})
    module, name, fields = content
    return _data_class(module, name)(**_rebuilt(fields, tensors))


def _functions(kind: Any) -> list[Any]:
    """The counting functions of a kind of task, in an order that all processes share."""
    return list(dict.fromkeys(metric.count for metric in metrics_of(kind)))


def _data_class(module: str, name: str) -> Any:
    """A data class or named tuple that this process has loaded: nothing is imported because another one says so."""
    found = getattr(sys.modules.get(module), name, None)
    is_named_tuple = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    if not is_named_tuple and not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise TypeError(f"{module}.{name} is not a data class at the top of a loaded module.")
    return found
