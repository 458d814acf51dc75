"""What lowerings of reductions, windows and indices share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.ir.shape import array, scalar
from hlotool.ir.types import ELEMENT_TYPES, dtype_of
from hlotool.torch.lowering import Context

__all__ = [
    "better_pair", "constant", "count_along", "dimension_of", "element", "highest", "is_complex", "is_float", "is_nan",
    "is_narrow", "lowest", "narrow", "per_dimension", "positions", "second_of", "sizes", "spread", "squeeze",
]  # fmt: skip


def element(a: Instruction) -> str:
    """Its element type."""
    return a.shape.element_type


def sizes(a: Instruction) -> tuple[int, ...]:
    return a.shape.dimensions


def is_float(element_type: str) -> bool:
    return ELEMENT_TYPES[element_type].is_float


def is_narrow(element_type: str) -> bool:
    """A float of less than 32 bits, which is computed in f32."""
    return ELEMENT_TYPES[element_type].is_float and ELEMENT_TYPES[element_type].bits < 32


def is_complex(element_type: str) -> bool:
    return ELEMENT_TYPES[element_type].is_complex


def lowest(element_type: str) -> float | int:
    """The maximum of nothing."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        return 0
    return -np.inf if row.is_float else int(np.iinfo(dtype_of(element_type)).min)


def highest(element_type: str) -> float | int:
    """The minimum of nothing."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        return 1
    return np.inf if row.is_float else int(np.iinfo(dtype_of(element_type)).max)


def dimension_of(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim % max(rank, 1)


def per_dimension(values: int | Sequence[int], count: int) -> tuple[int, ...]:
    """`values` for `count` dimensions: a single one stands for all."""
    given = (values,) if isinstance(values, int) else tuple(values)
    return given * count if len(given) == 1 else given


def count_along(a: Instruction, dimensions: Iterable[int]) -> int:
    """Elements along these dimensions."""
    return prod(sizes(a)[d] for d in dimensions)


def narrow(c: Context, a: Instruction, dimension: int, start: int, limit: int) -> Instruction:
    """Elements `start` up to `limit` along a dimension."""
    if (start, limit) == (0, sizes(a)[dimension]):
        return a
    starts, limits = [0] * len(sizes(a)), list(sizes(a))
    starts[dimension], limits[dimension] = start, limit
    return c.builder.slice(a, starts, limits)


def squeeze(c: Context, a: Instruction, dimensions: Iterable[int]) -> Instruction:
    """Without these dimensions, which have one element."""
    gone = set(dimensions)
    return c.builder.reshape(a, [size for d, size in enumerate(sizes(a)) if d not in gone]) if gone else a


def spread(c: Context, a: Instruction, kept: Sequence[int], dimensions: Sequence[int]) -> Instruction:
    """An array whose dimensions are the `kept` ones of `dimensions`, in every place along the others."""
    return a if sizes(a) == tuple(dimensions) else c.builder.broadcast(a, kept, dimensions)


def positions(c: Context, dimensions: Sequence[int], along: int, element_type: str = "s64") -> Instruction:
    """The place of every element along a dimension."""
    return c.builder.iota(array(element_type, dimensions), along)


def is_nan(c: Context, a: Instruction) -> Instruction:
    """Where a float is NaN."""
    return c.builder.compare(a, a, "NE")


def constant(c: Context, values: np.ndarray[Any, Any]) -> Instruction:
    return c.builder.constant(values)


def better_pair(
    c: Context, element_type: str, index_type: str, *, largest: bool, last: bool = False, last_nan: bool = False
) -> Computation:
    """Of two pairs (value, index) the one with the greater value (the smaller one unless `largest`).

    NaN is above all.  Of equals the first one counts, or the `last` one; of NaN the first one, or with `last_nan` the
    last.
    """
    computation = Computation(f"{'greater' if largest else 'smaller'}_pair_{element_type}")
    b = Builder(computation)
    types = (element_type, index_type, element_type, index_type)
    value, index, other, place = (b.parameter(n, scalar(t)) for n, t in enumerate(types))
    earlier, later = b.compare(place, index, "LT"), b.compare(place, index, "GT")
    better = b.compare(other, value, "GT" if largest else "LT")
    equal = b.compare(other, value, "EQ")
    take = b.binary("or", better, b.binary("and", equal, later if last else earlier))
    if is_float(element_type):
        number = b.compare(value, value, "EQ")
        sooner = b.binary("or", number, later if last_nan else earlier)
        take = b.binary("or", take, b.binary("and", b.compare(other, other, "NE"), sooner))
    computation.root = b.tuple((b.select(take, other, value), b.select(take, place, index)))
    return c.own(computation)


def second_of(c: Context, element_type: str) -> Computation:
    """Gives the second of two scalars: what scatter does where new elements take the place of old ones."""
    computation = Computation(f"second_{element_type}")
    b = Builder(computation)
    b.parameter(0, scalar(element_type))
    computation.root = b.parameter(1, scalar(element_type))
    return c.own(computation)
