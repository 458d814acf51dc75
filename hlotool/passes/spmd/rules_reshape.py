"""Partitioning of reshapes: dimensions that become others, with all elements in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod

from hlotool.ir import Instruction, Shape
from hlotool.passes.spmd.axes import Axes, Chosen, cheapest
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.reshard import bytes_moved, reshard
from hlotool.passes.spmd.tiling import Axis, Tiling, tiled_by
from hlotool.passes.spmd.values import Part, Value

__all__ = ["RULES", "carried"]


def _reshape(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """What a device has is what it is to have, or becomes that first, where this moves the fewest bytes; else, of
    dimensions that become others, the first of each stay divided, if evenly."""
    given, made = i.operands[0].shape, i.shape
    if given.element_type != made.element_type or given.size == 0 or not (given.is_static and made.is_static):
        return None
    before: list[int | None] = [None] * given.rank
    after: list[int | None] = [None] * made.rank
    divides: dict[int, int] = {}
    for label, (mine, others) in enumerate(_segments(given.dimensions, made.dimensions)):
        a = next((d for d in mine if given.dimensions[d] > 1), None)
        b = next((d for d in others if made.dimensions[d] > 1), None)
        if a is not None and b is not None:
            before[a] = after[b] = label
            if given.dimensions[a] != made.dimensions[b]:
                divides[label] = gcd(given.dimensions[a], made.dimensions[b])
    axes = Axes((tuple(before),), (tuple(after),), divides=divides)
    return _as_it_is(p, i, values[0], axes) or p.divided(i, values, axes, _reshaped)


def _reshaped(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
    return p.build.reshape(parts[0].local, shape)


def _as_it_is(p: Partitioner, i: Instruction, value: Value, axes: Axes) -> Value | None:
    """By the tiling that the operand has, or the one that is asked for, with all of its tiles; None where a division of
    `axes` moves no more bytes."""
    assert isinstance(value, Part)
    if not value.tiling.is_tiled:
        return None
    before, after, wanted = value.shape.dimensions, i.shape.dimensions, p.wanted(i)
    target = wanted[0] if wanted is not None else None
    ways: list[tuple[Tiling | None, Tiling | None]] = [(value.tiling, carried(value.tiling, before, after))]
    if target is not None and target.worlds == value.tiling.worlds:
        ways.append((carried(target, after, before), target))
    _, least = cheapest(axes, [value], [i.shape], wanted, p.worlds([value], wanted))
    best: tuple[Tiling, Tiling] | None = None
    for source, result in ways:
        if source is None or result is None:
            continue
        made = Part(value.local, i.shape, result)
        moved = bytes_moved(value, source) + (bytes_moved(made, target) if target is not None else 0)
        if moved < least:
            least, best = moved, (source, result)
    if best is None:
        return None
    source, result = best
    given = reshard(p, value, source)
    return Part(p.build.reshape(given.local, result.local(i.shape)), i.shape, result)


def carried(tiling: Tiling, before: Sequence[int], after: Sequence[int]) -> Tiling | None:
    """The tiling of an array after a reshape of what each device has; None where a device would have no tile then."""
    if any(size == 1 and axis.count > 1 for size, axis in zip(before, tiling.axes, strict=True)):
        return None
    made: list[Axis | None] = [None] * len(after)
    for mine, others in _segments(before, after):
        old, new = [d for d in mine if before[d] > 1], [d for d in others if after[d] > 1]
        axes: Sequence[Axis] | None = [tiling.axes[d] for d in old]
        if len(old) != 1 or len(new) != 1:
            flat = _joined([before[d] for d in old], axes or ())
            axes = None if flat is None else _parted(flat, [after[d] for d in new])
        if axes is None:
            return None
        for d, axis in zip(new, axes, strict=True):
            made[d] = axis
    return tiled_by(made, tiling.worlds)


def _joined(sizes: Sequence[int], axes: Sequence[Axis]) -> Axis | None:
    """Dimensions as one; None where tiles are not even, or not elements that follow each other."""
    count, places, ends = 1, [0] * len(axes[0].places) if axes else [], False
    for size, axis in zip(sizes, axes, strict=True):
        if axis.count > 1 and (ends or size % axis.count):
            return None
        count *= axis.count
        places = [place * axis.count + own for place, own in zip(places, axis.places, strict=True)]
        ends = axis.count != size
    return Axis(count, tuple(places))


def _parted(flat: Axis, sizes: Sequence[int]) -> list[Axis] | None:
    """One dimension as several, of which the first are divided; None where tiles would be parts of several rows."""
    left, found = flat.count, []
    for size in sizes:
        count = min(left, size)
        if left % count or size % count:
            return None
        left //= count
        found.append(Axis(count, tuple([place // left % count for place in flat.places])))
    return found if left == 1 else None


def _segments(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Dimensions before and after a reshape that have as many elements together, as few of them as possible."""
    a = b = 0
    while a < len(before) or b < len(after):
        first_a, first_b = a, b
        x, y = prod(before[a : a + 1]), prod(after[b : b + 1])
        a, b = min(a + 1, len(before)), min(b + 1, len(after))
        while x != y:
            if x < y:
                x, a = x * before[a], a + 1
            else:
                y, b = y * after[b], b + 1
        yield range(first_a, a), range(first_b, b)


def _bitcast(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """A reshape where the layouts are the usual ones; else every device needs that of the operand."""
    given = i.operands[0].shape
    if all(s.layout is None or s.layout.is_row_major for s in (i.shape, given)):
        return _reshape(p, i, values)
    whole = p.whole(values[0])
    assert isinstance(whole, Part)
    if whole.local.shape == given:
        return None
    laid_out = p.build.add("copy", given, [whole.local])
    return p.fallback(i, [Part(laid_out, given, whole.tiling)], "its layout is not the usual one")


RULES: dict[str, Rule] = {"reshape": _reshape, "bitcast": _bitcast}
