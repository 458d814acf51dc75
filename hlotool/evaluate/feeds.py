"""Queues between a run and its caller: what infeed and recv take, and what outfeed and send give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hlotool.evaluate.values import AnyArray, Value, leaves_of, value_from_leaves
from hlotool.ir import ExecutionError, InputError, Shape, dtype_of

__all__ = ["Feeds"]

Queue: TypeAlias = "Sequence[Any] | Mapping[int, Sequence[Any]]"
"""Arrays in order: for every device the same, or by device."""

_FEED = None  # the key of infeed and outfeed among the channels


class Feeds:
    """What a run finds in its infeed and host channels, and what it leaves in its outfeed and host channels.

    `infeed` holds arrays, one per leaf that the ``infeed`` instructions take in the order of execution; `received` has
    such queues by channel id, for ``recv`` from the host.  A queue is a sequence, which every device reads from
    its beginning, or a mapping from device to sequence.  Types that NumPy lacks may come as unsigned integers of
    their bits.  What was read is gone: a second run with the same feeds reads on.
    """

    __slots__ = ("_given", "_read", "_written")

    def __init__(self, infeed: Queue = (), received: Mapping[int, Queue] | None = None) -> None:
        self._given: dict[int | None, Queue] = {_FEED: infeed}
        for channel, queue in (received or {}).items():
            self._given[channel] = queue
        for queue in self._given.values():
            if isinstance(queue, np.ndarray) or not isinstance(queue, Sequence | Mapping):
                raise InputError(f"a queue is a sequence of arrays, or has one for each device, not a {_kind(queue)}")
        self._read: dict[tuple[int | None, int], int] = {}
        self._written: dict[tuple[int | None, int], list[AnyArray]] = {}

    def outfeed(self, device: int = 0) -> list[AnyArray]:
        """All arrays that the ``outfeed`` instructions of `device` gave so far, one per leaf."""
        return self._written.get((_FEED, device), [])

    def sent(self, channel: int, device: int = 0) -> list[AnyArray]:
        """All arrays that `device` sent to the host on `channel` so far."""
        return self._written.get((channel, device), [])

    def written(self) -> list[tuple[int | None, int, list[AnyArray]]]:
        """(channel, device, arrays) of every queue that was written, in order; channel None is the outfeed."""
        order = sorted(self._written, key=lambda key: (-1 if key[0] is None else key[0], key[1]))
        return [(channel, device, self._written[channel, device]) for channel, device in order]

    def take(self, name: str, shape: Shape, device: int, channel: int | None = None) -> Value:
        """The next value of `shape` for instruction `name`; ExecutionError where the queue holds none or another."""
        return value_from_leaves(shape, iter(self._leaves(name, shape, device, channel)))

    def give(self, value: Value, device: int, channel: int | None = None) -> None:
        """Add the arrays of `value` to what `device` wrote."""
        arrays = [np.array(leaf, order="C", copy=True) for leaf in leaves_of(value)]  # all of them, or none
        self._written.setdefault((channel, device), []).extend(arrays)

    def _leaves(self, name: str, shape: Shape, device: int, channel: int | None) -> list[AnyArray]:
        what = "infeed of" if channel is _FEED else f"channel {channel} from the host to"
        what = f"{what} device {device}"
        queue = self._given.get(channel, ())
        arrays = queue.get(device, ()) if isinstance(queue, Mapping) else queue
        read, found = self._read.get((channel, device), 0), list[AnyArray]()
        for leaf in shape.leaves():
            if not leaf.is_array:
                continue
            if read >= len(arrays):
                given = f"{len(arrays)} array{'' if len(arrays) == 1 else 's'}"
                raise ExecutionError(f"{name}: the {what} is empty: all of {given} were read, {leaf} is wanted next")
            found.append(_fitting(np.asarray(arrays[read]), leaf, f"{name}: array {read} in the {what}"))
            read += 1
        self._read[channel, device] = read  # what does not fit stays where it is
        return found


def _fitting(array: AnyArray, shape: Shape, where: str) -> AnyArray:
    dtype = dtype_of(shape.element_type)
    if array.dtype != dtype and dtype.isbuiltin != 1 and array.dtype == np.dtype(f"u{dtype.itemsize}"):
        array = np.ascontiguousarray(array).reshape(array.shape).view(dtype)
    if array.dtype != dtype or array.shape != shape.dimensions:
        raise ExecutionError(f"{where} is {array.dtype}{list(array.shape)}, {shape} is wanted")
    return array


def _kind(value: object) -> str:
    return type(value).__name__
