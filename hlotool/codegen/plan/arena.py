"""The arena: one block of memory for all values that are neither arguments, constants nor results.

Steps that move are run earlier or later than they stand: their storage is taken for longer, if that is not too much.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import field
from heapq import heappop, heappush
from itertools import accumulate
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.plan.buffers import occupy
from hlotool.codegen.plan.dependencies import touched
from hlotool.codegen.plan.steps import Steps, last_position
from hlotool.codegen.plan.values import Assignment, Value
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["ALIGNMENT", "Reservations", "place"]

ALIGNMENT = 64

_MORE_BYTES: Annotated[int, Threshold("bytes")] = 256 << 10  # that may be alive at once beyond the peak
_MORE_SHARE: Annotated[float, Threshold("share")] = 1 / 16  # of the peak, likewise
"""What may be alive at once beyond the peak: so many bytes, and this share of the peak."""


def place(result: Assignment) -> None:
    """Give every value that is neither parameter, constant nor output an offset in the arena.

    Values are placed in order of their first position; storage whose values are all past is reused, best fit
    first.  Deterministic, and near-linear in the number of values.
    """
    pending = sorted(
        (v for v in {value.find() for value in result.values} if _is_temporary(v) and v.size > 0 and v.intervals),
        key=lambda v: (v.intervals[0][0], -v.size, v.number),
    )
    free = _Holes()
    alive: list[tuple[int, int, int]] = []  # (end, offset, size), a heap
    top = 0
    for value in pending:
        start, end = value.intervals[0][0], value.intervals[-1][1]
        while alive and alive[0][0] < start:
            _, offset, size = heappop(alive)
            free.give(offset, size)
        size = -(-value.size // ALIGNMENT) * ALIGNMENT
        found = free.take(size)
        if found is None:
            found = free.take_end(top)
            top = found + size
        value.offset = found
        heappush(alive, (end, found, size))
    result.arena_bytes = top


def _is_temporary(value: Value) -> bool:
    """Whether a value that stands for others lies in the arena."""
    return value.writable and value.output is None and value.parameter is None


@dataclass(frozen=True, slots=True)
class _Holes:
    """The free storage below the top: holes that do not touch each other, in two orders."""

    by_offset: list[tuple[int, int]] = field(default_factory=list)  # (offset, size)
    by_size: list[tuple[int, int]] = field(default_factory=list)  # (size, offset)

    def take(self, size: int) -> int | None:
        """The offset of `size` bytes of the smallest hole that has them, the first of several; None: there is none."""
        index = bisect_left(self.by_size, (size, 0))
        if index == len(self.by_size):
            return None
        hole, offset = self.by_size[index]
        self._remove(bisect_left(self.by_offset, (offset, hole)))
        if hole > size:
            self._insert(offset + size, hole - size)
        return offset

    def take_end(self, top: int) -> int:
        """Where storage that grows beyond `top` begins: at `top`, or at the hole that ends there."""
        if self.by_offset and sum(self.by_offset[-1]) == top:
            return self._remove(-1)[0]
        return top

    def give(self, offset: int, size: int) -> None:
        """Free `size` bytes, and make them one with the holes next to them."""
        index = bisect_left(self.by_offset, (offset, 0))
        if index < len(self.by_offset) and self.by_offset[index][0] == offset + size:
            size += self._remove(index)[1]
        if index > 0 and sum(self.by_offset[index - 1]) == offset:
            offset, before = self._remove(index - 1)
            size += before
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        insort(self.by_offset, (offset, size))
        insort(self.by_size, (size, offset))

    def _remove(self, index: int) -> tuple[int, int]:
        offset, size = self.by_offset.pop(index)
        del self.by_size[bisect_left(self.by_size, (size, offset))]
        return offset, size


class Reservations:
    """The storage of a program, of which some is taken for longer where steps move."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.alive: list[int] = []  # bytes of the arena, by position
        self.most = 0

    def reserve(self, moved: list[Instruction]) -> bool:
        """Take the storage of what moves for as long as it moves, if that is not too much."""
        if not self.alive:
            self._count()
        positions = self.steps.assignment.positions
        start = min(positions[i] for i in moved)
        end = max(last_position(i, self.steps.assignment) for i in moved)
        storage = dict.fromkeys(value for i in moved for value in touched(i, self.steps).storage() if value.intervals)
        longer = [value for value in storage if value.intervals[0][0] > start or value.intervals[-1][1] < end]
        more = self.alive[start : end + 1]
        for value in filter(_is_temporary, longer):
            alive = range(value.intervals[0][0], value.intervals[-1][1] + 1)
            for position in range(start, end + 1):
                if position not in alive:
                    more[position - start] += value.size
        if max(more) > self.most * (1 + _MORE_SHARE) + _MORE_BYTES:
            return False
        self.alive[start : end + 1] = more
        for value in longer:
            occupy(value, start, end)
        return True

    def _count(self) -> None:
        """Count the bytes that are alive at each position."""
        roots = {value.find() for value in self.steps.assignment.values}
        changes = [0] * (max(value.intervals[-1][1] for value in roots if value.intervals) + 2)
        for value in roots:
            if _is_temporary(value) and value.intervals:
                changes[value.intervals[0][0]] += value.size
                changes[value.intervals[-1][1] + 1] -= value.size
        self.alive = list(accumulate(changes))
        self.most = max(self.alive)
