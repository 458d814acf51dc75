"""Partitioning of elementwise operations, and of data movement that keeps whole dimensions together."""

from __future__ import annotations

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
    "iota": _iota,
    "constant": _constant,
}
