"""Names and modules that are imported on first use, so that ``import fastgtn`` and the command line start fast."""

import ast
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose imports are under ``if TYPE_CHECKING:``.

    Type checkers and editors read these imports as usual. At run time, the first use of a name performs its import,
    so there is only one list of names.
    """
    sources: dict[str, tuple[str, str]] = {}

    def known() -> dict[str, tuple[str, str]]:
        if not sources:
            sources.update(_deferred_imports(Path(file).read_text(encoding="utf-8")))
        return sources

    def get(name: str) -> Any:
        if name.startswith("__") or name not in known():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = known()[name]
        value = getattr(importlib.import_module(module), original)
        setattr(sys.modules[package], name, value)  # later uses do not call this function
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *known()})

    return get, names


def _deferred_imports(text: str) -> dict[str, tuple[str, str]]:
    """For each name that is imported under ``if TYPE_CHECKING:``, its module and its name there."""
    found: dict[str, tuple[str, str]] = {}
    for block in ast.parse(text).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found


def defer(modules: Mapping[str, Mapping[str, Any]]) -> None:
    """Import these modules of other packages when one of their names is used, instead of when they are imported.

    For a standalone program, such as the command line: large packages import all of their parts, of which a command
    uses few. A module that was imported before stays as it is.

    Args:
        modules: For each module, the values of names whose use does not need the module.
    """
    sys.meta_path.insert(0, _Deferring(dict(modules)))


class _Deferring:
    """Answers an import with an empty module, which imports the real one when it is asked for a name.

    It finds and loads modules without the base classes of `importlib.abc`, which would import a dozen modules.
    """

    def __init__(self, waiting: dict[str, Mapping[str, Any]]) -> None:
        self.waiting = waiting

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        loader: Any = self
        return ModuleSpec(fullname, loader) if fullname in self.waiting else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import make an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.waiting[module.__name__])
        module.__class__ = _Waiting  # only now: the import itself has asked for __path__ already

    def load(self, name: str) -> ModuleType:
        self.waiting.pop(name, None)
        if isinstance(sys.modules.get(name), _Waiting):
            sys.modules.pop(name, None)  # of several threads, the lock of the import lets one run the module
        return importlib.import_module(name)


class _Waiting(ModuleType):
    """The empty module. It looks names up in the real one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__path__", "__all__", "__version__"):
            raise AttributeError(name)  # tools that look for source files ask every module for it
        loader = self.__spec__.loader if self.__spec__ else None
        assert isinstance(loader, _Deferring)
        return getattr(loader.load(self.__name__), name)


@contextmanager
def standing_in(packages: Sequence[str]) -> Iterator[None]:
    """Import modules of this package without these packages and modules, whose names all stand for nothing.

    For a standalone program that reads signatures and options, calls no model, and ends. Elsewhere, and where one of
    the packages is imported already, this does nothing.
    """
    is_standalone = any(isinstance(finder, _Deferring) for finder in sys.meta_path)
    if not is_standalone or any(name in sys.modules for name in packages):
        yield
        return
    finder = _StandingIn(tuple(packages))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Hollow)]:
            del sys.modules[name]


class _StandingIn:
    """Answers every import of some packages, and of their parts, with a hollow module."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        loader: Any = self
        is_one = any(fullname == name or fullname.startswith(f"{name}.") for name in self.packages)
        return ModuleSpec(fullname, loader, is_package=True) if is_one else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import make an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Hollow


class _Nothing:
    """Whatever a module needs while it is imported: a base class, a decorator, a type, a value."""

    def __getattr__(self, name: str) -> "_Nothing":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        is_decorator = len(arguments) == 1 and not options and callable(arguments[0])
        return arguments[0] if is_decorator else self

    def __mro_entries__(self, bases: Any) -> tuple[()]:
        return ()  # a class that inherits from it keeps its own signature

    def __getitem__(self, _: Any) -> "_Nothing":
        return self

    def __or__(self, _: Any) -> "_Nothing":
        return self

    __ror__ = __or__


class _Hollow(ModuleType):
    """A module in which every name is there."""

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()
