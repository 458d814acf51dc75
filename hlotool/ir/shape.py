"""Shapes and layouts: frozen values, compared by content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from math import prod

from hlotool.ir.brief import listed, one_line
from hlotool.ir.types import ELEMENT_TYPES, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "UNBOUNDED", "Layout", "Shape", "UnknownShape", "array", "brief_shape", "is_countable", "row_major", "scalar",
    "token", "tuple_shape",
]  # fmt: skip

UNBOUNDED = -1
"""The size of a dimension written ``?``."""


_MOST_BYTES = 1 << 60


def is_countable(element_type: str, dimensions: Sequence[int]) -> bool:
    """Whether an array has less than an exbibyte, a dimension of 0 taken for one of 1: even an array without elements
    has strides, and is widened on the way."""
    return prod([abs(size) or 1 for size in dimensions]) * byte_size(element_type) < _MOST_BYTES


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory (XLA's layout text in brackets)."""

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int | None, ...], ...] = ()  # T(8,128); None is '*'
    tail_padding_alignment: int = 1  # L(n)
    index_type: str | None = None  # #(u32)
    pointer_type: str | None = None  # *(u32)
    element_size_bits: int = 0  # E(4)
    memory_space: int = 0  # S(1)
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()  # SC(dim:i,j)
    dynamic_metadata_bytes: int = 0  # M(n)

    def __hash__(self) -> int:
        return hash(self.minor_to_major)

    @property
    def is_row_major(self) -> bool:
        """Dimensions descend from minor to major and nothing else is said."""
        return self == row_major(len(self.minor_to_major))


@lru_cache(maxsize=64)
def row_major(rank: int) -> Layout:
    """The default layout: the last dimension is minor."""
    return Layout(tuple(range(rank - 1, -1, -1)))


@dataclass(frozen=True, slots=True)
class Shape:
    """An array, tuple, token, opaque or buffer shape.

    Arrays: `element_type`, `dimensions` (upper bounds; `UNBOUNDED` for ``?``), `dynamic` (one flag per
    dimension, or empty when all are static) and `layout` (None where the text says none).
    Tuples: element_type ``tuple`` and `elements`.  Buffers ``b(f32[2])``: element_type ``buffer``, one element.

    What follows from these is found once, since it is asked for all the time: whether it `is_array` and `is_static`;
    the `size`, the number of elements of an array (of its upper bound when dynamic); and the `byte_size`, bytes in
    memory, tuples summed over leaves (tokens and opaques take none).
    """

    element_type: str
    dimensions: tuple[int, ...] = ()
    layout: Layout | None = None
    elements: tuple[Shape, ...] = ()
    dynamic: tuple[bool, ...] = ()
    is_array: bool = field(init=False, repr=False, compare=False)
    is_static: bool = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    byte_size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        elements, is_array, size = self.elements, ELEMENT_TYPES[self.element_type].is_array, prod(self.dimensions)
        own = size * byte_size(self.element_type) if is_array else 0
        put = object.__setattr__  # as the fields of what is frozen are set
        put(self, "is_array", is_array)
        put(self, "is_static", all(e.is_static for e in elements) if elements else True not in self.dynamic)
        put(self, "size", size)
        put(self, "byte_size", sum([e.byte_size for e in elements]) if elements else own)

    def __hash__(self) -> int:
        """Of what tells most shapes apart: shapes are keys of many tables."""
        return hash((self.element_type, self.dimensions, self.elements))

    @property
    def is_tuple(self) -> bool:
        return self.element_type == "tuple"

    @property
    def is_token(self) -> bool:
        return self.element_type == "token"

    @property
    def is_scalar(self) -> bool:
        return self.is_array and not self.dimensions

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    def leaves(self) -> Iterator[Shape]:
        """Non-tuple shapes, depth first."""
        stack = [self]
        while stack:
            shape = stack.pop()
            if shape.is_tuple:
                stack.extend(reversed(shape.elements))
            else:
                yield shape

    def with_layout(self, layout: Layout | None) -> Shape:
        return Shape(self.element_type, self.dimensions, layout, self.elements, self.dynamic)

    def with_type(self, element_type: str) -> Shape:
        return Shape(element_type, self.dimensions, self.layout, self.elements, self.dynamic)

    def without_layout(self) -> Shape:
        """The shape with no layouts at all, for comparing what a value *is*."""
        if self.elements:
            return replace(self, elements=tuple(e.without_layout() for e in self.elements))
        return self if self.layout is None else self.with_layout(None)

    def compatible(self, other: Shape) -> bool:
        """Same type and dimensions, layouts aside."""
        if self is other:
            return True
        return (
            self.dimensions == other.dimensions
            and self.element_type == other.element_type
            and self.dynamic == other.dynamic
            and len(self.elements) == len(other.elements)
            and all(map(Shape.compatible, self.elements, other.elements))
        )

    def __str__(self) -> str:
        """The shape in HLO text without layout: ``f32[2,<=3]``, ``(s32[], pred[])``."""
        if self.is_tuple:
            return f"({', '.join(map(str, self.elements))})"
        if self.element_type == "buffer":
            return f"b({self.elements[0]})"
        dynamic = self.dynamic or (False,) * len(self.dimensions)
        sizes = [
            "?" if size == UNBOUNDED else f"<={size}" if flag else str(size)
            for size, flag in zip(self.dimensions, dynamic, strict=True)
        ]
        return f"{self.element_type}[{','.join(sizes)}]"

    def __repr__(self) -> str:
        return f"Shape('{brief_shape(self)}')"


@dataclass(frozen=True, slots=True, repr=False)
class UnknownShape(Shape):
    """The shape of a text that is only looked at, kept as it is `written`: nothing is known of it."""

    written: str = ""

    def __str__(self) -> str:
        return self.written


def brief_shape(shape: Shape, depth: int = 2) -> str:
    """The text of a shape without layout; of large tuples only their first elements."""
    if not shape.is_tuple:
        return one_line(str(shape))
    inside = (brief_shape(element, depth - 1) for element in shape.elements) if depth else ()
    return f"({listed(inside, len(shape.elements))})"


def array(element_type: str, dimensions: Sequence[int] = (), layout: Layout | None = None) -> Shape:
    """An array shape with static dimensions; the row-major layout unless one is given."""
    dimensions = tuple(dimensions)
    return Shape(element_type, dimensions, layout or row_major(len(dimensions)))


def scalar(element_type: str) -> Shape:
    return array(element_type)


def token() -> Shape:
    return Shape("token")


def tuple_shape(elements: Sequence[Shape]) -> Shape:
    return Shape("tuple", elements=tuple(elements))
