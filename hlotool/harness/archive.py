"""Arrays in ``.npz`` files: ``arg0, arg1, ...`` for inputs, ``out0, out1, ...`` for outputs.

One array per leaf, tuples flattened depth first.  Types that NumPy lacks (bf16, f8*, s4...) are stored as
the unsigned integers of their bits.  Of a program on several devices ``arg0@3`` is for device 3, ``arg0`` for all that
have none of their own; results are ``out0@0, out0@1, ...``.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import InputError, Shape, dtype_of

__all__ = [
    "DAMAGED",
    "from_bits",
    "members",
    "natural",
    "read_array",
    "read_arrays",
    "read_member",
    "to_bits",
    "write_arrays",
    "write_named",
]


def to_bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array in a type that NumPy can store."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def from_bits(array: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
    """The array as elements of `shape`, undoing `to_bits`."""
    wanted = dtype_of(shape.element_type)
    if wanted.isbuiltin != 1 and array.dtype == np.dtype(f"u{wanted.itemsize}"):
        return array.view(wanted)
    return array


def write_arrays(stream: IO[bytes], arrays: Sequence[npt.NDArray[Any]], prefix: str) -> None:
    """Write ``prefix0, prefix1, ...`` to a binary stream."""
    write_named(stream, ((f"{prefix}{number}", array) for number, array in enumerate(arrays)))


def write_named(stream: IO[bytes], arrays: Iterable[tuple[str, npt.NDArray[Any]]]) -> None:
    """Write arrays with their names to a binary stream, uncompressed; equal arrays give equal bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays:
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, unlike np.savez's
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(to_bits(array)).reshape(array.shape))


def read_arrays(path: str, prefix: str, shapes: Sequence[Shape], device: int | None = None) -> list[npt.NDArray[Any]]:
    """Read ``prefix0...`` for `shapes`, those of `device` where it has its own.

    InputError names the one that is missing or unreadable.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = members(archive)
            arrays = []
            for number, shape in enumerate(shapes):
                name = f"{prefix}{number}"
                name = f"{name}@{device}" if f"{name}@{device}" in names else name
                if name not in names:
                    there = ", ".join(sorted(names, key=natural)) or "none"
                    raise InputError(f"{path}: no array {name} (a {shape}); there are {there}")
                arrays.append(from_bits(read_member(archive, path, name, shape), shape))
            extra = f"{prefix}{len(shapes)}"
            if extra in names:
                raise InputError(f"{path}: {extra} is one too many: {len(shapes)} arrays are expected")
            return arrays
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: not an .npz archive of arrays") from error


def read_array(path: str, shape: Shape) -> npt.NDArray[Any]:
    """The array in the ``.npy`` file `path`; InputError when there is none."""
    try:
        with open(path, "rb") as stream:
            if stream.read(2) == b"PK":
                raise InputError(f"{path}: an .npz archive, where an .npy file with one array is expected")
            stream.seek(0)
            return from_bits(_read(stream, shape), shape)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: not an .npy file of numbers") from error


def members(archive: zipfile.ZipFile) -> set[str]:
    """The names of the arrays in an archive."""
    return {name.removesuffix(".npy") for name in archive.namelist()}


def read_member(archive: zipfile.ZipFile, path: str, name: str, shape: Shape | None = None) -> npt.NDArray[Any]:
    """Array `name` of an open archive, which is to be a `shape`; InputError where it is none.

    What is much larger than a `shape` is not read: the array then has no elements of its own, but type and sizes to
    complain about.
    """
    try:
        with archive.open(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name) as stream:
            return _read(stream, shape)
    except (OSError, *DAMAGED) as error:
        raise InputError(f"{path}: the array {name} is damaged, or no array of numbers") from error


def _read(stream: IO[bytes], shape: Shape | None) -> npt.NDArray[Any]:
    """The array in a stream of the ``.npy`` format; its header says what is to come before any memory is taken."""
    start = BytesIO(stream.read(8))
    version = np.lib.format.read_magic(start)
    prefix = stream.read(2 if version == (1, 0) else 4)
    length = int.from_bytes(prefix, "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    header = BytesIO(prefix + stream.read(length))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    sizes, columns, dtype = read(header)
    if dtype.hasobject:
        raise ValueError("objects are no numbers")
    count = math.prod(sizes)
    if shape is not None and count * dtype.itemsize > max(_SMALL, _FEW * shape.byte_size):
        return np.broadcast_to(np.zeros((), dtype), sizes)
    found = np.empty(count, dtype)
    room = found.view(np.uint8).data if found.nbytes else memoryview(b"")
    while room:
        got = stream.readinto(room)  # type: ignore[attr-defined]
        if not got:
            raise EOFError("it ends before its array does")
        room = room[got:]
    return found.reshape(sizes, order="F" if columns else "C")


_LONGEST_HEADER = 10_000

_SMALL = 1 << 20
"""Bytes that are read whatever they are."""

_FEW = 16
"""Arrays that are so many times too large are read, to say what is wrong with them."""

DAMAGED = (
    ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, KeyError, zlib.error, NotImplementedError,
    RuntimeError, struct.error, UnicodeDecodeError, MemoryError, OverflowError, SyntaxError,
)  # fmt: skip
"""What NumPy and zipfile raise for files that are not what they should be."""


def natural(name: str) -> tuple[str, int]:
    """Sorts arg10 after arg9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)
