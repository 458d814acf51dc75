"""Smaller arrays: every dimension of one size gets another, and what follows from that is inferred anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np

from hlotool.harness.reduce.draft import Draft, Edit, EditFailed
from hlotool.ir import Instruction, Literal, Module, Shape
from hlotool.ir.attributes import SliceDimension
from hlotool.ir.shape_checks import ShapeError
from hlotool.ir.shape_inference import infer

__all__ = ["halves", "small_sizes", "to_one", "to_two"]

_SMALL = 5
"""Sizes up to this stay where all others become different small ones."""


def small_sizes(module: Module) -> Sequence[Edit]:
    """All large sizes become small ones, different ones different: trials of what is left take no time."""
    large = [size for size in _sizes(module) if size > _SMALL]
    new = {size: _SMALL + 1 + number for number, size in enumerate(large)}
    if all(size <= small for size, small in new.items()):
        return []
    return [Edit(("all", *map(str, large)), _map, (new,))]


def to_one(module: Module) -> Sequence[Edit]:
    return [_edit(size, 1) for size in _sizes(module) if size > 1]


def to_two(module: Module) -> Sequence[Edit]:
    return [_edit(size, 2) for size in _sizes(module) if size > 2]


def halves(module: Module) -> Sequence[Edit]:
    return [_edit(size, size // 2) for size in reversed(_sizes(module)) if size > 3]


def _sizes(module: Module) -> list[int]:
    """The sizes that dimensions have, from small to large."""
    shapes = {instruction.shape for instruction in module.instructions()}
    leaves = {leaf for shape in shapes for leaf in shape.leaves() if leaf.is_array}
    return sorted({size for leaf in leaves for size in leaf.dimensions if size > 0})


def _edit(old: int, new: int) -> Edit:
    return Edit((str(old),), _map, ({old: new},))


def _map(draft: Draft, sizes: Mapping[int, int]) -> None:
    """Give dimensions other sizes, where others follow from theirs those that follow."""
    try:
        for computation in draft.module.computations.values():
            for instruction in computation:
                _resize(instruction, sizes)
    except (IndexError, ValueError):  # of shapes that did not fit together before
        raise EditFailed from None


def _resize(instruction: Instruction, sizes: Mapping[int, int]) -> None:
    attributes, old = instruction.attributes, instruction.shape
    instruction.shape = shape = _resized(old, sizes)
    for name in ("dynamic_slice_sizes", "slice_sizes"):
        if name in attributes:
            attributes[name] = tuple(sizes.get(size, size) for size in attributes[name])
    match instruction.opcode:
        case "constant":
            attributes["literal"] = _cut(instruction.literal, sizes)
        case "slice":
            given = instruction.operands[0].shape.dimensions
            rows = zip(attributes["slice"], old.dimensions, shape.dimensions, given, strict=True)
            attributes["slice"] = tuple(_slice(*row) for row in rows)
        case "reshape":
            instruction.shape = _reshaped(shape, instruction.operands[0].shape.size)
        case "broadcast":
            dimensions = list(shape.dimensions)
            for to, size in zip(attributes["dimensions"], instruction.operands[0].shape.dimensions, strict=True):
                dimensions[to] = size
            instruction.shape = replace(shape, dimensions=tuple(dimensions))
        case "convert" | "copy":
            instruction.shape = replace(shape, dimensions=instruction.operands[0].shape.dimensions)
    with suppress(ShapeError):
        shapes = [operand.shape for operand in instruction.operands]
        instruction.shape = infer(instruction.opcode, shapes, attributes)


def _resized(shape: Shape, sizes: Mapping[int, int]) -> Shape:
    if shape.elements:
        return replace(shape, elements=tuple(_resized(element, sizes) for element in shape.elements))
    if not any(size in sizes for size in shape.dimensions):
        return shape
    return replace(shape, dimensions=tuple(sizes.get(size, size) for size in shape.dimensions))


def _cut(literal: Literal, sizes: Mapping[int, int]) -> Literal:
    shape = _resized(literal.shape, sizes)
    if literal.elements:
        return Literal(shape, elements=tuple(_cut(element, sizes) for element in literal.elements))
    if shape is literal.shape:
        return literal
    return Literal(shape, np.resize(literal.value(), shape.dimensions), elided=literal.elided)


def _slice(row: SliceDimension, before: int, size: int, given: int) -> SliceDimension:
    """The slice of so many elements where the array has another size."""
    if size == before and row.limit <= given:
        return row
    start = min(row.start, max(given - size, 0))
    return SliceDimension(start, min(start + size, given))


def _reshaped(shape: Shape, count: int) -> Shape:
    """Of as many elements as there are: by the last dimension that can see to it."""
    for at in reversed(range(shape.rank)):
        rest = prod(shape.dimensions[:at] + shape.dimensions[at + 1 :])
        if rest and count % rest == 0:
            return replace(shape, dimensions=(*shape.dimensions[:at], count // rest, *shape.dimensions[at + 1 :]))
    return shape
