"""Values of a partitioned program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from hlotool.ir import Instruction, Shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.tiling import Tiling

__all__ = ["Part", "Value", "parts_of", "rebuilt"]


@dataclass(frozen=True, slots=True)
class Part:
    """An array of `shape`, of which each device has in `local` what `tiling` says.

    Behind the end of the array, in the last tiles of a dimension that is not divided evenly, anything may stand.
    """

    local: Instruction
    shape: Shape
    tiling: Tiling


Value: TypeAlias = "Part | tuple[Value, ...]"
"""An array (or a token), or a tuple of values."""


def parts_of(value: Value) -> Iterator[Part]:
    """The arrays and tokens of a value, depth first."""
    if isinstance(value, Part):
        yield value
        return
    for one in value:
        yield from parts_of(one)


def rebuilt(shape: Shape, parts: Iterator[Part]) -> Value:
    """A value of `shape` from its parts, depth first."""
    if not shape.is_tuple:
        return next(parts)
    return tuple([rebuilt(element, parts) for element in shape.elements])
