"""Helpers of shape inference: the error with the part of the instruction that is wrong, and common conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hlotool.ir.attributes import WindowDimension
from hlotool.ir.errors import HloError
from hlotool.ir.module import Instruction
from hlotool.ir.shape import UNBOUNDED, Shape, row_major, tuple_shape
from hlotool.ir.types import ELEMENT_TYPES

__all__ = [
    "Rule",
    "ShapeError",
    "agree",
    "any_dynamic",
    "check_aliasing",
    "expect",
    "flags_of",
    "in_range",
    "like",
    "numeric_kind",
    "plain",
    "positions",
    "require",
    "require_array",
    "require_count",
    "require_token",
    "results",
    "same_dimensions",
    "with_dynamic",
]


Rule = Callable[[str, Sequence[Shape], Mapping[str, Any]], Shape]
"""The result shape of an opcode from the shapes of its operands and its attributes."""


class ShapeError(HloError):
    """The operands, attributes and result of an operation do not fit together.

    `part` says where to point: ``opcode``, ``shape``, ``operand:N``, ``attribute:NAME`` or ``attribute:NAME:N`` (one
    entry of a list).  `expected` is the result shape that would be right, where that is the mistake; `related` is
    another instruction that has to do with it.  The code follows from the part unless it is given.
    """

    def __init__(
        self,
        message: str,
        part: str = "opcode",
        expected: Shape | None = None,
        related: Instruction | None = None,
        code: str | None = None,
    ) -> None:
        self.code = code or _CODES[part.partition(":")[0]]
        super().__init__(message)
        self.part = part
        self.expected = expected
        self.related = related


_CODES = {"opcode": "HLO0200", "shape": "HLO0201", "operand": "HLO0202", "attribute": "HLO0203"}


def require(condition: bool, message: str, part: str = "opcode") -> None:
    if not condition:
        raise ShapeError(message, part)


def plain(count: int, noun: str) -> str:
    """``1 operand``, ``2 operands``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def require_count(opcode: str, operands: Sequence[Shape], least: int, most: int | None = None) -> None:
    """The number of operands lies in a range (`most` None: no upper bound)."""
    if least <= len(operands) <= (len(operands) if most is None else most):
        return
    wanted = plain(least, "operand") if least == most else f"at least {plain(least, 'operand')}"
    if most is not None and least != most:
        wanted = f"{least} to {plain(most, 'operand')}"
    given = f"{len(operands)} {'is' if len(operands) == 1 else 'are'} given"
    part = f"operand:{most}" if most is not None and len(operands) > most else "opcode"
    raise ShapeError(f"{opcode} takes {wanted}, {given}", part, code="HLO0205")


def require_array(opcode: str, shape: Shape, index: int) -> None:
    if not shape.is_array:
        raise ShapeError(f"operand {index} of {opcode} must be an array, not {shape}", f"operand:{index}")


def require_token(opcode: str, shape: Shape, index: int) -> None:
    if not shape.is_token:
        raise ShapeError(f"operand {index} of {opcode} must be a token, not {shape}", f"operand:{index}")


def numeric_kind(shape: Shape) -> str:
    """The kind of an array's element type: pred, signed, unsigned, float or complex."""
    return ELEMENT_TYPES[shape.element_type].kind


def same_dimensions(a: Shape, b: Shape) -> bool:
    """Equal ranks and sizes; an unbounded dimension fits any."""
    if a.dimensions == b.dimensions:
        return True
    return len(a.dimensions) == len(b.dimensions) and all(
        m == n or m < 0 or n < 0 for m, n in zip(a.dimensions, b.dimensions, strict=True)
    )


def in_range(
    name: str, dimensions: Sequence[int], rank: int, what: str = "dimension", unique: bool = True
) -> tuple[int, ...]:
    """Check a list of dimension numbers against a rank: in range, and each at most once."""
    for index, dimension in enumerate(dimensions):
        part = f"attribute:{name}:{index}"
        require(dimension >= 0, f"{what} {dimension} is negative", part)
        require(dimension < rank, f"{what} {dimension} is out of range for rank {rank}", part)
        if unique and dimension in dimensions[:index]:
            raise ShapeError(f"{what} {dimension} is given twice", f"attribute:{name}")
    return tuple(dimensions)


def positions(dimension: WindowDimension, size: int) -> int:
    """How many positions a window has along a dimension of `size`."""
    require(dimension.size > 0, "a window cannot be empty", "attribute:window")
    steps = (dimension.stride, dimension.base_dilation, dimension.window_dilation)
    require(min(steps) > 0, "strides and dilations of a window must be positive", "attribute:window")
    return UNBOUNDED if size == UNBOUNDED else dimension.output_size(size)


def like(shape: Shape, element_type: str | None = None) -> Shape:
    """An array of the dimensions of `shape` with the default layout."""
    layout = row_major(shape.rank)
    if element_type in (None, shape.element_type) and shape.layout is layout and shape.is_array:
        return shape
    return Shape(element_type or shape.element_type, shape.dimensions, layout, (), shape.dynamic)


def with_dynamic(shape: Shape, flags: Iterable[bool]) -> Shape:
    """`shape` with these dimensions dynamic."""
    known = tuple(flags)
    known = known if any(known) else ()
    return shape if known == shape.dynamic else replace(shape, dynamic=known)


def flags_of(shape: Shape) -> tuple[bool, ...]:
    """Which dimensions of an array are dynamic."""
    return shape.dynamic or (False,) * shape.rank


def any_dynamic(shape: Shape, others: Iterable[Shape]) -> Shape:
    """`shape` with the dynamic dimensions of all arrays of its rank among `others`."""
    flags = [flags_of(one) for one in (shape, *others) if one.is_array and one.rank == shape.rank]
    return with_dynamic(shape, map(any, zip(*flags, strict=True)))


def results(shapes: Sequence[Shape]) -> Shape:
    """One array, or a tuple of several."""
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)


def expect(opcode: str, declared: Shape, inferred: Shape) -> None:
    """The declared shape must be the inferred one, layouts and dynamic dimensions aside."""
    if not agree(declared, inferred):
        raise ShapeError(f"{opcode} gives {inferred}, {declared} is declared", "shape", inferred)


def agree(a: Shape, b: Shape) -> bool:
    """Equal types and sizes; layouts, dynamic flags and unbounded dimensions are not compared."""
    if a.element_type != b.element_type or len(a.elements) != len(b.elements):
        return False
    if a.elements:
        return all(agree(x, y) for x, y in zip(a.elements, b.elements, strict=True))
    return same_dimensions(a, b)


def check_aliasing(shape: Shape, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    """``output_to_operand_aliasing`` names parts of the result and of the operands, of one shape."""
    part = "attribute:output_to_operand_aliasing"
    for alias in attributes.get("output_to_operand_aliasing", ()):
        known = 0 <= alias.operand < len(operands)
        require(known, f"there is no operand {alias.operand}", part)
        output, operand = _part(shape, alias.output), _part(operands[alias.operand], alias.index)
        require(output is not None, f"the result {shape} has no part {_path(alias.output)}", part)
        message = f"operand {alias.operand} is {operands[alias.operand]}, which has no part {_path(alias.index)}"
        require(operand is not None, message, part)
        same = output is not None and operand is not None and agree(_pinned(output), _pinned(operand))
        require(same, f"{output} cannot replace {operand}", part)


def _pinned(shape: Shape) -> Shape:
    """What is in a buffer, which takes the place of the array that it is made of."""
    return shape.elements[0] if shape.element_type == "buffer" else shape


def _part(shape: Shape, path: Sequence[int]) -> Shape | None:
    for index in path:
        if not 0 <= index < len(shape.elements):
            return None
        shape = shape.elements[index]
    return shape


def _path(path: Sequence[int]) -> str:
    return "{" + ",".join(map(str, path)) + "}"
