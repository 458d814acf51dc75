"""Random shapes, layouts and literals of every element type."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from hlotool.ir import ELEMENT_TYPES, UNBOUNDED, Layout, Literal, Shape, dtype_of

__all__ = ["FLOATS", "INTEGERS", "NUMBERS", "TYPES", "any_shape", "random_layout", "random_literal"]

TYPES = [name for name, row in ELEMENT_TYPES.items() if row.is_array]
INTEGERS = [name for name in TYPES if ELEMENT_TYPES[name].is_integer]
FLOATS = [name for name in TYPES if ELEMENT_TYPES[name].is_float]
NUMBERS = [name for name in TYPES if name != "pred"]


def any_shape(rng: Random, types: list[str] | Any = TYPES, rank: int | None = None, static: bool = True) -> Shape:
    """An array shape, with a layout or without; with bounded or unbounded dimensions unless `static`."""
    sizes = [rng.randint(0, 4) for _ in range(rng.randint(0, 3) if rank is None else rank)]
    dynamic = [False] * len(sizes)
    if not static and sizes and rng.random() < 0.3:
        place = rng.randrange(len(sizes))
        dynamic[place] = True
        if rng.random() < 0.3:
            sizes[place] = UNBOUNDED
    shape = Shape(rng.choice(types), tuple(sizes), None, (), tuple(dynamic) if any(dynamic) else ())
    return random_layout(rng, shape) if rng.random() < 0.7 or not sizes else shape


def random_layout(rng: Random, shape: Shape) -> Shape:
    """The shape with random layouts at its leaves."""
    if shape.elements:
        return replace(shape, elements=tuple(random_layout(rng, element) for element in shape.elements))
    if not shape.is_array:
        return shape
    order = list(range(shape.rank - 1, -1, -1))
    if rng.random() < 0.5:
        rng.shuffle(order)
    layout = Layout(tuple(order))
    if rng.random() < 0.4:
        layout = replace(
            layout,
            tiles=rng.choice(((), ((8, 128),), ((8, 128), (2, 1)), ((128,),), ((None, 4),))),
            tail_padding_alignment=rng.choice((1, 1, 128)),
            index_type=rng.choice((None, None, "u32")),
            pointer_type=rng.choice((None, None, "u8")),
            element_size_bits=rng.choice((0, 0, 4, 1)),
            memory_space=rng.choice((0, 1, 5)),
            splits=rng.choice(((), (), ((0, (2, 4)),), ((0, (1,)), (1, (3,))))[: 2 + min(shape.rank, 2)]),
            dynamic_metadata_bytes=rng.choice((0, 0, 8)),
        )
    return shape.with_layout(layout)


def random_literal(rng: Random, shape: Shape) -> Literal:
    """A literal of a static shape: random bits, small numbers, or elided."""
    if shape.is_tuple:
        return Literal(shape, elements=tuple(random_literal(rng, element) for element in shape.elements))
    if shape.dimensions and rng.random() < 0.05:
        return Literal(shape, elided=True)
    row, dtype = ELEMENT_TYPES[shape.element_type], dtype_of(shape.element_type)
    count = shape.size
    if row.kind == "pred" or rng.random() < 0.5 or row.bits < 8:
        low, high = {"pred": (0, 1), "signed": (-(1 << row.bits - 1), (1 << row.bits - 1) - 1)}.get(
            row.kind, (0, (1 << min(row.bits, 4)) - 1)
        )
        numbers = [rng.randint(low, high) for _ in range(count)]
        with np.errstate(all="ignore"):
            flat = np.array(numbers, dtype=np.int64).astype(dtype)
        return Literal(shape, flat.reshape(shape.dimensions))
    raw = np.array([rng.randrange(256) for _ in range(count * dtype.itemsize)], dtype=np.uint8)
    if rng.random() < 0.3:
        raw |= np.uint8(0x7C)  # makes infinities and NaNs likely
    return Literal(shape, raw.view(dtype).reshape(shape.dimensions))
