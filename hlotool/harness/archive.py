"""Arrays in ``.npz`` files: ``arg0, arg1, ...`` for inputs, ``out0, out1, ...`` for outputs.

One array per leaf, tuples flattened depth first.  Types that NumPy lacks (bf16, f8*, s4...) are stored as
the unsigned integers of their bits.  Of a program on several devices ``arg0@3`` is for device 3, ``arg0`` for all that
have none of their own; results are ``out0@0, out0@1, ...``.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import InputError, Shape, dtype_of

__all__ = [
    "DAMAGED",
    "from_bits",
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
        with np.load(path, allow_pickle=False) as archive:
            names = set(archive.files)
            arrays = []
            for number, shape in enumerate(shapes):
                name = f"{prefix}{number}"
                name = f"{name}@{device}" if f"{name}@{device}" in names else name
                if name not in names:
                    there = ", ".join(sorted(names, key=_natural)) or "none"
                    raise InputError(f"{path}: no array {name} (a {shape}); there are {there}")
                arrays.append(from_bits(read_member(archive, path, name), shape))
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
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: not an .npy file of numbers") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise InputError(f"{path}: an .npz archive, where an .npy file with one array is expected")
    return from_bits(found, shape)


def read_member(archive: Any, path: str, name: str) -> npt.NDArray[Any]:
    """Array `name` of an open archive; InputError where it is none."""
    try:
        found: npt.NDArray[Any] = archive[name]
    except (OSError, *DAMAGED) as error:
        raise InputError(f"{path}: the array {name} is damaged, or no array of numbers") from error
    return found


DAMAGED = (
    ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, KeyError, zlib.error, NotImplementedError,
    RuntimeError, struct.error, UnicodeDecodeError, MemoryError, OverflowError, SyntaxError,
)  # fmt: skip
"""What NumPy and zipfile raise for files that are not what they should be."""


def _natural(name: str) -> tuple[str, int]:
    """Sorts arg10 after arg9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)
