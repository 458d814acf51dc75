"""What stands for a value in a batched computation: an array and where its batch axis is, or parts of a tuple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from hlotool.ir import Instruction, Layout, Shape, row_major, tuple_shape
from hlotool.lazy_dataclass import dataclass

__all__ = ["Leaf", "Value", "batched_shape", "batched_tuple", "inserted", "is_batched", "shifted"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array with a batch axis.  Without one (None) it is of all examples, and may be a token, or a whole tuple."""

    instruction: Instruction
    axis: int | None = None


Value: TypeAlias = "Leaf | tuple[Value, ...]"


def is_batched(value: Value) -> bool:
    """Whether any part has a batch axis."""
    if isinstance(value, Leaf):
        return value.axis is not None
    return any(map(is_batched, value))


def shifted(dimensions: Sequence[int], axis: int) -> tuple[int, ...]:
    """The numbers of dimensions once an axis stands among them."""
    return tuple([d + (d >= axis) for d in dimensions])


def inserted(sizes: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    """Sizes with one more in place `axis`."""
    return (*sizes[:axis], size, *sizes[axis:])


def batched_shape(shape: Shape, axis: int, size: int) -> Shape:
    """The shape of a batch of arrays; a layout that is not row-major keeps the order of theirs, one after the other."""
    layout = shape.layout
    if layout is None or layout.is_row_major:
        own: Layout | None = row_major(shape.rank + 1)
    else:
        own = replace(layout, minor_to_major=(*shifted(layout.minor_to_major, axis), axis))
    return Shape(shape.element_type, inserted(shape.dimensions, axis, size), own)


def batched_tuple(shape: Shape, flags: Iterator[bool], size: int) -> Shape:
    """The shape with the batch in front of those leaves whose flag says so."""
    if shape.is_tuple:
        return tuple_shape([batched_tuple(element, flags, size) for element in shape.elements])
    return batched_shape(shape, 0, size) if next(flags) else shape
