"""Partitioning of elementwise operations, and of data movement that keeps whole dimensions together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod

from hlotool.ir import Instruction, Shape
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.passes.spmd.axes import Axes, Chosen, Labels
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.values import Part, Value

__all__ = ["RULES", "elementwise"]


def elementwise(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """All dimensions are independent; an operand may be a single number."""
    every = tuple(range(i.shape.rank))
    operands = tuple([every if o.shape.rank == i.shape.rank else () for o in i.operands])
    return p.divided(i, values, Axes(operands, (every,)))


def _bitcast_convert(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """A last dimension comes or goes where the types have other sizes."""
    given, made = i.operands[0].shape.rank, i.shape.rank
    common = tuple(range(min(given, made)))
    return p.divided(i, values, Axes((_up_to(common, given),), (_up_to(common, made),)))


def _up_to(labels: Labels, rank: int) -> Labels:
    return (*labels, *(None,) * (rank - len(labels)))


def _broadcast(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    return p.divided(i, values, Axes((tuple(i.attributes["dimensions"]),), (tuple(range(i.shape.rank)),)))


def _transpose(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    return p.divided(i, values, Axes((tuple(range(i.shape.rank)),), (tuple(i.attributes["dimensions"]),)))


def _reshape(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Where dimensions become others of as many elements together, the first of each stay divided, if evenly."""
    given, made = i.operands[0].shape, i.shape
    if given.element_type != made.element_type or given.size == 0:
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
    return p.divided(i, values, Axes((tuple(before),), (tuple(after),), divides=divides), _reshaped)


def _reshaped(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
    return p.build.reshape(parts[0].local, shape)


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


def _iota(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    along = i.attributes["iota_dimension"]

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        made = p.emit(i, shape, [])
        if along not in chosen.axes:
            return made
        offset = p.offset(chosen.axes[along], i.shape.dimensions[along])
        start = p.build.broadcast(p.build.convert(offset, shape.element_type), (), shape.dimensions)
        return p.build.binary("add", made, start)

    row = i.shape.element_type
    exact = row in ("s32", "s64", "u32", "u64", "f32", "f64") and i.shape.dimensions[along] <= 1 << 24
    labels = tuple([d if d != along or exact else None for d in range(i.shape.rank)])
    return p.divided(i, values, Axes((), (labels,)), local)


def _constant(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """A constant of one number is a smaller one; others are whole, and what a device needs is cut out."""
    wanted = p.wanted(i)
    literal = i.literal
    if wanted is None or not i.shape.is_array or not wanted[0].is_tiled or not literal.is_splat:
        return None
    tiling = wanted[0]
    single = p.build.constant(literal.value().reshape(-1)[0], i.shape.element_type)
    return Part(p.build.broadcast(single, (), tiling.local(i.shape).dimensions), i.shape, tiling)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE_OPCODES, elementwise),
    "bitcast-convert": _bitcast_convert,
    "copy": elementwise,
    "map": elementwise,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "iota": _iota,
    "constant": _constant,
}
