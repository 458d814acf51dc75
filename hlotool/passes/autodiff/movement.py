"""Derivatives of opcodes that move elements: linear, so that forward mode is the opcode itself, on tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir import Instruction, clone_instruction
from hlotool.ir.shape import scalar
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import refusal

__all__ = ["RULES", "each", "jointly"]


def jointly(operands: Callable[[Instruction], Sequence[int]]) -> Callable[[Forward, Instruction], ByLeaf]:
    """Forward mode of what is linear in some operands together: their tangents take their places."""

    def forward(at: Forward, instruction: Instruction) -> ByLeaf:
        moved = set(operands(instruction))
        sources = [
            at.tangent_or_zeros(operand) if number in moved else at.primal(operand)
            for number, operand in enumerate(instruction.operands)
        ]
        return {(): at.build.put(clone_instruction(instruction, sources))}

    return forward


def each(*operands: int) -> Callable[[Forward, Instruction], ByLeaf]:
    """Forward mode of what is linear in each of some operands: a sum over the tangents that there are."""

    def forward(at: Forward, instruction: Instruction) -> ByLeaf:
        total: Instruction | None = None
        for number in operands:
            tangent = at.tangent(instruction.operands[number])
            if tangent is not None:
                sources = [tangent if n == number else at.primal(o) for n, o in enumerate(instruction.operands)]
                part = at.build.put(clone_instruction(instruction, sources))
                total = part if total is None else at.add(total, part)
        return {} if total is None else {(): total}

    return forward


_FIRST = jointly(lambda instruction: (0,))
_FIRST_TWO = jointly(lambda instruction: (0, 1))
_ALL = jointly(lambda instruction: range(len(instruction.operands)))


def _broadcast(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    """The sum over what is repeated, with dimensions in the operand's order."""
    (operand,) = instruction.operands
    dimensions = instruction.attributes["dimensions"]
    total = at.sum_over(cotangents[()], [d for d in range(instruction.shape.rank) if d not in dimensions])
    if list(dimensions) != sorted(dimensions):
        kept = sorted(dimensions)
        total = at.build.transpose(total, [kept.index(d) for d in dimensions])
    repeated = [
        n for n, d in enumerate(dimensions) if operand.shape.dimensions[n] != instruction.shape.dimensions[d]
    ]
    if repeated:  # of one element, in the written form that XLA no longer makes
        total = at.build.reshape(at.sum_over(total, repeated), operand.shape.dimensions)
    at.give(operand, total)


def _reshape(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    (operand,) = instruction.operands
    if operand.shape.element_type != instruction.shape.element_type:
        raise refusal(instruction, "it reads the bits of one type as another")
    at.give(operand, at.build.reshape(cotangents[()], operand.shape.dimensions))


def _bitcast_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    (operand,) = instruction.operands
    if operand.shape.element_type != instruction.shape.element_type:
        raise refusal(instruction, "it reads the bits of one type as another")
    return _FIRST(at, instruction)


def _transpose(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    order = list(instruction.attributes["dimensions"])
    at.give(instruction.operands[0], at.build.transpose(cotangents[()], [order.index(d) for d in range(len(order))]))


def _reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    at.give(instruction.operands[0], at.build.reverse(cotangents[()], instruction.attributes["dimensions"]))


def _copy(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    for path, cotangent in cotangents.items():
        at.give(instruction.operands[0], cotangent, path)


def _copy_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    return at.tangents(instruction.operands[0])


def _concatenate(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    (dimension,) = instruction.attributes["dimensions"]
    g = cotangents[()]
    start = 0
    for operand in instruction.operands:
        end = start + operand.shape.dimensions[dimension]
        if at.wants(operand):
            starts, limits = [0] * g.shape.rank, list(g.shape.dimensions)
            starts[dimension], limits[dimension] = start, end
            at.give(operand, at.build.slice(g, starts, limits))
        start = end


def _slice(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    (operand,) = instruction.operands
    g = cotangents[()]
    padding = []
    for row, size, taken in zip(
        instruction.attributes["slice"], operand.shape.dimensions, g.shape.dimensions, strict=True
    ):
        covered = (taken - 1) * row.stride + 1 if taken else 0
        padding.append((row.start, size - row.start - covered, row.stride - 1))
    at.give(operand, at.build.pad(g, at.zeros(scalar(g.shape.element_type)), padding))


def _pad(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    operand, value = instruction.operands
    g = cotangents[()]
    rows = instruction.attributes["padding"]
    if at.wants(operand):
        at.give(operand, _unpadded(at, g, instruction))
    if at.wants(value):
        inside = at.build.pad(
            at.splat(1.0, operand.shape), at.zeros(value.shape), [(r.low, r.high, r.interior) for r in rows]
        )
        outside = at.build.compare(inside, at.zeros(g.shape), "EQ")
        at.give(value, at.sum_over(at.build.select(outside, g, at.zeros(g.shape)), range(g.shape.rank)))


def _unpadded(at: Reverse, g: Instruction, pad: Instruction) -> Instruction:
    """What lies where the operand does: negative edges are padded, positive ones cut off, holes left out."""
    rows, sizes = pad.attributes["padding"], pad.operands[0].shape.dimensions
    if 0 in sizes:
        return at.zeros(pad.operands[0].shape)
    grown = at.build.pad(g, at.zeros(pad.operands[1].shape), [(max(0, -r.low), max(0, -r.high), 0) for r in rows])
    starts = [max(0, r.low) for r in rows]
    limits = [start + (size - 1) * (r.interior + 1) + 1 for start, r, size in zip(starts, rows, sizes, strict=True)]
    return at.build.slice(grown, starts, limits, [r.interior + 1 for r in rows])


def _dynamic_slice(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    """Added where it was taken from: in place, where the sum is made element by element anyway."""
    operand, *places = instruction.operands
    g, starts = cotangents[()], [at.primal(place) for place in places]

    def update(total: Instruction) -> Instruction:
        there = at.build.dynamic_slice(total, starts, g.shape.dimensions)
        return at.build.dynamic_update_slice(total, at.add(there, g), starts)

    at.give_into(operand, update)


def _dynamic_update_slice(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    operand, update, *places = instruction.operands
    g, starts = cotangents[()], [at.primal(place) for place in places]
    if at.wants(operand):
        at.give(operand, at.build.dynamic_update_slice(g, at.zeros(update.shape), starts))
    if at.wants(update):
        at.give(update, at.build.dynamic_slice(g, starts, update.shape.dimensions))


RULES: dict[str, Rule] = {
    "broadcast": Rule(_broadcast, _FIRST),
    "reshape": Rule(_reshape, _FIRST),
    "bitcast": Rule(_reshape, _bitcast_forward),
    "transpose": Rule(_transpose, _FIRST),
    "reverse": Rule(_reverse, _FIRST),
    "copy": Rule(_copy, _copy_forward),
    "concatenate": Rule(_concatenate, _ALL),
    "slice": Rule(_slice, _FIRST),
    "pad": Rule(_pad, _FIRST_TWO),
    "dynamic-slice": Rule(_dynamic_slice, _FIRST),
    "dynamic-update-slice": Rule(_dynamic_update_slice, _FIRST_TWO),
}
