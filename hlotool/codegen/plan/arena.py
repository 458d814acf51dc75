"""The arena: one block of memory for all values that are neither arguments, constants nor results."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush

from hlotool.codegen.plan.values import Assignment, Value

__all__ = ["ALIGNMENT", "is_temporary", "place"]

ALIGNMENT = 64


def place(result: Assignment) -> None:
    """Give every value that is neither parameter, constant nor output an offset in the arena.

    Values are placed in order of their first position; storage whose values are all past is reused, best fit
    first.  Deterministic, and near-linear in the number of values.
    """
    pending = sorted(
        (v for v in _roots(result.values) if is_temporary(v) and v.size > 0 and v.intervals),
        key=lambda v: (v.intervals[0][0], -v.size, v.number),
    )
    free: list[tuple[int, int]] = []  # (offset, size), sorted by offset
    alive: list[tuple[int, int, int]] = []  # (end, offset, size), a heap
    top = 0
    for value in pending:
        start, end = value.intervals[0][0], value.intervals[-1][1]
        while alive and alive[0][0] < start:
            _, offset, size = heappop(alive)
            _release(free, offset, size)
        size = -(-value.size // ALIGNMENT) * ALIGNMENT
        found = _best_fit(free, size)
        if found is None:
            found = top
            if free and sum(free[-1]) == top:  # grow the last hole instead of leaving it
                found = free.pop()[0]
            top = found + size
        value.offset = found
        heappush(alive, (end, found, size))
    result.arena_bytes = top


def is_temporary(value: Value) -> bool:
    """Whether a value that stands for others lies in the arena."""
    return value.writable and value.output is None and value.parameter is None


def _roots(values: list[Value]) -> Iterator[Value]:
    seen: set[int] = set()
    for value in values:
        root = value.find()
        if id(root) not in seen:
            seen.add(id(root))
            yield root


def _best_fit(free: list[tuple[int, int]], size: int) -> int | None:
    best = min(((hole, i) for i, (_, hole) in enumerate(free) if hole >= size), default=None)
    if best is None:
        return None
    hole, index = best
    offset = free[index][0]
    if hole == size:
        del free[index]
    else:
        free[index] = (offset + size, hole - size)
    return offset


def _release(free: list[tuple[int, int]], offset: int, size: int) -> None:
    index = bisect_left(free, (offset, 0))
    if index < len(free) and offset + size == free[index][0]:
        size += free.pop(index)[1]
    if index > 0 and sum(free[index - 1]) == offset:
        previous = free.pop(index - 1)
        offset, size = previous[0], previous[1] + size
        index -= 1
    free.insert(index, (offset, size))
