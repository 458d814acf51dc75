"""Arrays in ``.npz`` files: ``arg0, arg1, ...`` for inputs, ``out0, out1, ...`` for outputs.

One array per leaf, tuples flattened depth first.  Types that NumPy lacks (bf16, f8*, s4...) are stored as
the unsigned integers of their bits.  Of a program on several devices ``arg0@3`` is for device 3, ``arg0`` for all that
have none of their own; results are ``out0@0, out0@1, ...``.  Queues hold ``infeed0, infeed1, ...`` in the order of
reading (``outfeed0, ...`` of writing), and ``channel7_0, channel7_1, ...`` for transfers on channel 7.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.feeds import Feeds
from hlotool.ir import InputError, Shape, dtype_of

__all__ = [
    "from_bits",
    "read_array",
    "read_arrays",
    "read_feeds",
    "to_bits",
    "write_arrays",
    "write_feeds",
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
                arrays.append(from_bits(_read(archive, path, name), shape))
            extra = f"{prefix}{len(shapes)}"
            if extra in names:
                raise InputError(f"{path}: {extra} is one too many: {len(shapes)} arrays are expected")
            return arrays
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGED as error:
        raise InputError(f"{path}: not an .npz archive of arrays") from error


_QUEUED = re.compile(r"(?:infeed|channel(\d+)_)(\d+)(?:@(\d+))?")


def read_feeds(path: str, devices: int) -> Feeds:
    """The queues in the archive `path`; InputError names what is none, and what is missing in one."""
    found: dict[tuple[str | None, int, int | None], npt.NDArray[Any]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                match = _QUEUED.fullmatch(name)
                if match is None:
                    raise InputError(f"{path}: {name} is no queue; names are infeed0, infeed0@DEVICE and channelN_0")
                channel, number, device = match.groups()
                found[channel, int(number), None if device is None else int(device)] = _read(archive, path, name)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGED as error:
        raise InputError(f"{path}: not an .npz archive of arrays") from error
    queues: dict[str | None, dict[int, list[npt.NDArray[Any]]]] = {}
    for channel in dict.fromkeys((None, *(key[0] for key in found))):
        queues[channel] = {device: _queue(found, channel, device) for device in range(devices)}
    used = {id(array) for queue in queues.values() for arrays in queue.values() for array in arrays}
    for (channel, number, device), array in found.items():
        if id(array) not in used:
            stem = "infeed" if channel is None else f"channel{channel}_"
            name = f"{stem}{number}" + ("" if device is None else f"@{device}")
            raise InputError(f"{path}: {name} follows nothing, or is for a device that is not there")
    infeed = queues.pop(None)
    return Feeds(infeed, {int(channel): queue for channel, queue in queues.items() if channel is not None})


def _queue(found: Any, channel: str | None, device: int) -> list[npt.NDArray[Any]]:
    """The arrays numbered from 0 on that are for `device`, or for all."""
    arrays: list[npt.NDArray[Any]] = []
    while True:
        number = len(arrays)
        array = found.get((channel, number, device), found.get((channel, number, None)))
        if array is None:
            return arrays
        arrays.append(array)


def write_feeds(stream: IO[bytes], feeds: Feeds, devices: int) -> None:
    """Write what a run left in its outfeed and its channels to the host."""

    def named() -> Iterable[tuple[str, npt.NDArray[Any]]]:
        for channel, device, arrays in feeds.written():
            stem = "outfeed" if channel is None else f"channel{channel}_"
            for number, array in enumerate(arrays):
                yield f"{stem}{number}" + (f"@{device}" if devices > 1 else ""), array

    write_named(stream, named())


def read_array(path: str, shape: Shape) -> npt.NDArray[Any]:
    """The array in the ``.npy`` file `path`; InputError when there is none."""
    try:
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except _DAMAGED as error:
        raise InputError(f"{path}: not an .npy file of numbers") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise InputError(f"{path}: an .npz archive, where an .npy file with one array is expected")
    return from_bits(found, shape)


def _read(archive: Any, path: str, name: str) -> npt.NDArray[Any]:
    try:
        found: npt.NDArray[Any] = archive[name]
    except (OSError, *_DAMAGED) as error:
        raise InputError(f"{path}: the array {name} is damaged, or no array of numbers") from error
    return found


_DAMAGED = (
    ValueError, EOFError, zipfile.BadZipFile, AttributeError, TypeError, KeyError, zlib.error, NotImplementedError,
    RuntimeError, struct.error, UnicodeDecodeError, MemoryError, OverflowError, SyntaxError,
)  # fmt: skip
"""What NumPy and zipfile raise for files that are not what they should be."""


def _natural(name: str) -> tuple[str, int]:
    """Sorts arg10 after arg9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)
