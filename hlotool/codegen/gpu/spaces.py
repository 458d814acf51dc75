"""From the number of a thread to the settings of loop variables."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hlotool.codegen.llvm.values import Index, Int, Truth, Vector
from hlotool.codegen.loops.loops import LoopSpec
from hlotool.codegen.nests.scope import Scope

__all__ = ["bind_all", "counters", "size_of", "within"]


def size_of(loops: Sequence[LoopSpec]) -> int:
    """The settings of the variables of some loops."""
    return prod(loop.extent for loop in loops)


def counters(linear: Index, extents: Sequence[int]) -> list[Index]:
    """The coordinates of element number `linear` of a row-major space; dimensions of extent 1 give 0.

    They are found in 32 bits where that will do: chips divide those many times as fast.
    """
    if isinstance(linear, int):
        found: list[Index] = []
        for extent in reversed(extents):
            linear, own = divmod(linear, extent)
            found.append(own)
        return found[::-1]
    kind = "i32" if prod(extents) < 1 << 31 else "i64"
    left = linear.vector().resize(kind, signed=False)
    results: list[Index] = []
    first = next((n for n, extent in enumerate(extents) if extent > 1), 0)
    for number in range(len(extents) - 1, -1, -1):
        extent = extents[number]
        if extent == 1:
            results.append(0)
        elif number == first:
            results.append(_index(left))
        else:
            results.append(_index(left.urem(extent)))
            left = left.binary("udiv", "udiv", extent)
    return results[::-1]


def _index(value: Vector) -> Int:
    return value.resize("i64", signed=False).index()


def bind_all(scope: Scope, loops: Sequence[LoopSpec], linear: Index) -> None:
    """Let the variables of `loops` have the values of setting number `linear`."""
    for loop, counter in zip(loops, counters(linear, [loop.extent for loop in loops]), strict=True):
        scope.bind(loop, counter)


def within(a: Int, extent: int, step: int, b: Int, other: int, width: int) -> Truth:
    """Whether `a`, within a multiple of `step`, is below `extent`, and `b`, within one of `width`, below `other`."""
    first: Truth = True if extent % step == 0 else a < extent
    second: Truth = True if other % width == 0 else b < other
    return second & first if isinstance(first, bool) and not isinstance(second, bool) else first & second
