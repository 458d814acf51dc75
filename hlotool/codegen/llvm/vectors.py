"""Lanes and numbers rearranged: squares of vectors transposed, and quotients rounded down."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["from_lanes", "quotient", "remainder", "transposed"]


def from_lanes(scalars: Sequence[Vector]) -> Vector:
    """The vector of these lanes; a scalar stays one."""
    first = scalars[0]
    if len(scalars) == 1:
        return first
    whole = Vector(first.f, first.element, len(scalars), "poison")
    for lane, scalar in enumerate(scalars):
        whole = whole.insert(lane, scalar)
    return whole


def quotient(value: Vector, divisor: int, negative: bool) -> Vector:
    """By a positive constant, rounded down; `negative` says that the value may be."""
    if divisor & (divisor - 1) == 0:
        return value.ashr(divisor.bit_length() - 1)
    if not negative:
        return value.binary("udiv", "udiv", divisor)
    below = value.binary("srem", "srem", divisor).lt(0)
    return value / divisor + below.cast("sext", value.element)


def remainder(value: Vector, divisor: int, negative: bool) -> Vector:
    """What is left of `quotient`."""
    if divisor & (divisor - 1) == 0:
        return value & (divisor - 1)
    if not negative:
        return value.binary("urem", "urem", divisor)
    rest = value.binary("srem", "srem", divisor)
    below = rest.lt(0)
    return where(below, rest + divisor, rest)


def transposed(rows: Sequence[Vector], lanes: int = 1) -> list[Vector]:
    """Transpose a square of vectors whose elements are `lanes` lanes each.

    Poison rows cost nothing.  All shuffles are ones that x86 and ARM have instructions for without tables of lanes, and
    LLVM finds those in half the time: rows of a group are interleaved within 128 bits, then 128 bits at a time dealt
    out among the groups.
    """
    size, rows = len(rows), list(rows)
    group = max(1, min(size, 128 // (lanes * max(8, BITS[rows[0].element]))))
    pieces = range(0, size, group)
    low = [at + k // 2 + k % 2 * size for at in pieces for k in range(group)]
    high = [lane + group // 2 for lane in low]
    for at in pieces:
        for _ in range(group.bit_length() - 1):
            pairs = zip(rows[at : at + group // 2], rows[at + group // 2 : at + group], strict=True)
            rows[at : at + group] = [_shuffled(x, y, order, lanes) for x, y in pairs for order in (low, high)]
    even = [half + at + k for half in (0, size) for at in pieces[::2] for k in range(group)]
    odd = [lane + group for lane in even]
    distance = group
    while distance < size:
        for k in range(size):
            if not k & distance:
                x, y = rows[k], rows[k + distance]
                rows[k], rows[k + distance] = _shuffled(x, y, even, lanes), _shuffled(x, y, odd, lanes)
        distance *= 2
    return rows


def _shuffled(x: Vector, y: Vector, order: Sequence[int], lanes: int) -> Vector:
    if x.name == y.name == "poison":
        return x
    return x.shuffle([at * lanes + lane for at in order for lane in range(lanes)], y)
