"""Named arrays in one `.npz` file or a folder of `.npy` files: no pickle, sizes checked before use.

The same arrays always give the same bytes. Files are written under a temporary name and then renamed.
"""

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from fastgtn.errors import InputError, check_regular
from fastgtn.leftovers import OLD_SECONDS, sweep, temporary_name

Array = np.ndarray[Any, np.dtype[Any]]

ALLOWED_KINDS = "biufU"  # bool, integers, floats, text: nothing that could hold an object
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file: the current time must not change the bytes
CHUNK = 1 << 22
BOMB_BYTES = 1 << 30  # above this size, an archive that is compressed more than BOMB_RATIO times is refused
BOMB_RATIO = 200


@dataclass(frozen=True)
class Header:
    """The header of an array file, read before its numbers."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers alone, as a Python integer that cannot overflow."""
        count = 1
        for length in self.shape:
            count *= length
        return count * self.dtype.itemsize


class ArrayFile(Mapping[str, Array]):
    """The arrays of one archive by name. Headers are read at once, numbers on request."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise InputError(f"no graph archive at {self.path}: give a .npz file or a folder of .npy files.")
        check_regular(self.path)
        with naming(self.path), _reading("its list of arrays"):
            self.headers = _folder_headers(self.path) if self.is_folder else _zip_headers(self.path)
        if not self.headers:
            raise InputError(f"{self.path} contains no arrays: it is not a graph archive.")

    @property
    def is_folder(self) -> bool:
        """True for a folder of .npy files, whose arrays are memory-mapped."""
        return self.path.is_dir()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together, uncompressed."""
        return sum(header.nbytes for header in self.headers.values())

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.headers))

    def __len__(self) -> int:
        return len(self.headers)

    def __contains__(self, name: object) -> bool:
        return name in self.headers

    def __getitem__(self, name: str) -> Array:
        header = self.headers[name]
        with _reading(f'array "{name}"'):
            array = _mapped(self.path, name, header) if self.is_folder else _unzipped(self.path, name, header)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Prefix an error message with the file name. Only public functions use this, so the name appears once."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def memory_bytes() -> int:
    """Memory of this machine; a small amount is assumed if the system does not report it (Windows)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def write_arrays(path: str | Path, arrays: Mapping[str, Array], *, overwrite: bool = False) -> None:
    """Write the arrays to a `.npz` file, or to a folder if the path has another ending."""
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} already exists: choose another name, or overwrite it with --force.")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist: create it first.")
    for name, array in arrays.items():
        if array.dtype.kind not in ALLOWED_KINDS:
            raise InputError(f'array "{name}" has type {array.dtype}; only numbers and text can be stored.')
    partial = temporary_name(path)
    try:
        if path.suffix == ".npz":
            _write_zip(partial, arrays)
            partial.replace(path)
        else:
            _write_folder(partial, arrays)
            _replace_folder(partial, path)
        sweep(path.parent, stem=path.stem, older_than=OLD_SECONDS)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Turn every error of a damaged file into one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy fail in a dozen ways on damaged bytes
        raise InputError(f"{what} cannot be read ({error}); the file is damaged or not an archive.") from error


def is_bomb(packed: int, unpacked: int) -> bool:
    """Whether the compression ratio is too high for a real graph."""
    return unpacked > memory_bytes() or unpacked > max(BOMB_BYTES, BOMB_RATIO * packed)


def _zip_headers(path: Path) -> dict[str, Header]:
    headers: dict[str, Header] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename or name in headers:
                raise InputError(f'the member "{entry.filename}" is unexpected; each must be one .npy array.')
            with archive.open(entry) as stream:
                headers[name] = _header(stream, name, entry.file_size)
    unpacked = sum(header.nbytes for header in headers.values())
    packed = path.stat().st_size
    if is_bomb(packed, unpacked):
        raise InputError(
            f"a file of {packed:,} bytes that unpacks to {unpacked:,} bytes is refused; "
            "store a graph of this size as a folder of .npy files."
        )
    return headers


def _folder_headers(path: Path) -> dict[str, Header]:
    headers: dict[str, Header] = {}
    for file in sorted(path.glob("*.npy")):
        if file.is_symlink():  # it could lead to any file of the user
            raise InputError(f"{file} is a symbolic link: an archive that is a folder holds its arrays itself.")
        check_regular(file)
        with file.open("rb") as stream:
            headers[file.stem] = _header(stream, file.stem, file.stat().st_size)
    return headers


def _header(stream: IO[bytes], name: str, file_size: int) -> Header:
    """Read the header and compare it with the file size before an array is allocated."""
    if npy.read_magic(stream) != (1, 0):  # later versions allow headers of gigabytes
        raise InputError(f'array "{name}" is not in version 1.0 of the .npy format.')
    shape, fortran_order, dtype = npy.read_array_header_1_0(stream)
    if dtype.kind not in ALLOWED_KINDS:
        raise InputError(f'array "{name}" has type {dtype}; numbers and text are read, objects are refused.')
    offset = stream.tell()
    header = Header(dtype, shape, fortran_order, offset)
    if min(shape, default=0) < 0 or header.nbytes != file_size - offset:
        raise InputError(
            f'array "{name}" has a header with shape {shape} of {dtype} but contains {file_size - offset:,} bytes; '
            "the file is truncated or forged."
        )
    return header


def _unzipped(path: Path, name: str, header: Header) -> Array:
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        stream.read(header.offset)
        data = np.empty(header.nbytes, np.uint8)
        filled = 0
        while piece := stream.read(CHUNK):  # read to the end, because zipfile compares the CRC only there
            if filled + len(piece) > header.nbytes:
                raise InputError(f'array "{name}" is longer than the archive states: the file is forged.')
            data[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
    if filled != header.nbytes:
        raise InputError(f'array "{name}" ends after {filled:,} of {header.nbytes:,} bytes.')
    flat = data.view(header.dtype) if header.nbytes else np.empty(0, header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def _mapped(path: Path, name: str, header: Header) -> Array:
    if header.nbytes == 0:
        return np.empty(header.shape, header.dtype)
    order: Any = "F" if header.fortran_order else "C"
    # copy-on-write: torch wants writable memory, the file must not change
    return np.memmap(path / f"{name}.npy", header.dtype, "c", header.offset, header.shape, order)


def _write_zip(path: Path, arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(path, "x") as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w", force_zip64=arrays[name].nbytes > 1 << 30) as stream:
                _write_array(stream, arrays[name])


def _write_folder(path: Path, arrays: Mapping[str, Array]) -> None:
    path.mkdir()
    for name in sorted(arrays):
        with (path / f"{name}.npy").open("wb") as stream:
            _write_array(stream, arrays[name])


def _write_array(stream: IO[bytes], array: Array) -> None:
    # ascontiguousarray alone would turn a single number into a list of one
    npy.write_array(stream, np.ascontiguousarray(array).reshape(array.shape), (1, 0), allow_pickle=False)


def _replace_folder(new: Path, path: Path) -> None:
    """Put the new folder in place; only a folder that is itself an archive may be replaced."""
    if not path.exists():
        new.rename(path)
        return
    if not (path / "num_nodes.npy").is_file() or any(file.suffix != ".npy" for file in path.iterdir()):
        raise InputError(f"{path} is not a graph archive, so it is not overwritten: choose another name.")
    old = temporary_name(path)  # it is swept if this process is killed before it deletes it
    path.rename(old)
    new.rename(path)
    shutil.rmtree(old)
