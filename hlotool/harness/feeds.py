"""Queues of infeed, outfeed and host transfers in ``.npz`` files.

They hold ``infeed0, infeed1, ...`` in the order of reading (``outfeed0, ...`` of writing), and ``channel7_0,
channel7_1, ...`` for transfers on channel 7; with ``@3`` after it an array is for device 3 alone.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from typing import IO, Any

import numpy.typing as npt

from hlotool.evaluate.feeds import Feeds
from hlotool.harness.archive import DAMAGED, members, read_member, write_named
from hlotool.ir import InputError

__all__ = ["read_feeds", "write_feeds"]

_QUEUED = re.compile(r"(?:infeed|channel(\d+)_)(\d+)(?:@(\d+))?")


def read_feeds(path: str, devices: int) -> Feeds:
    """The queues in the archive `path`; InputError names what is none, and what is missing in one."""
    found: dict[tuple[str | None, int, int | None], npt.NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(members(archive)):
                match = _QUEUED.fullmatch(name)
                if match is None:
                    raise InputError(f"{path}: {name} is no queue; names are infeed0, infeed0@DEVICE and channelN_0")
                channel, number, device = match.groups()
                found[channel, int(number), None if device is None else int(device)] = read_member(archive, path, name)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DAMAGED as error:
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
