"""Literals: constant values of a shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hlotool.ir.brief import listed, one_line
from hlotool.ir.shape import Shape, array, brief_shape, tuple_shape
from hlotool.ir.types import ELEMENT_TYPES, dtype_of, element_type_of

__all__ = ["Literal", "brief_literal", "literal"]


class Literal:
    """An immutable value: an array, a tuple of literals, or an array whose contents were elided (``{...}``).

    `array` is a read-only NumPy array of the shape's type; it is None for tuples.  An elided literal
    has `elided` set and zeros as its array.
    """

    __slots__ = ("_hash", "_number", "_splat", "array", "elements", "elided", "shape")

    def __init__(
        self,
        shape: Shape,
        value: np.ndarray[Any, Any] | None = None,
        elements: tuple[Literal, ...] = (),
        elided: bool = False,
    ) -> None:
        self.shape = shape
        self.elements = elements
        self.elided = elided
        self._hash: int | None = None
        self._splat: bool | None = None
        self._number: bool | int | float | complex | None = None
        self.array: np.ndarray[Any, Any] | None = None
        if not shape.is_tuple:
            source = np.zeros(shape.dimensions, dtype_of(shape.element_type)) if value is None else value
            if source.shape != shape.dimensions or source.dtype != dtype_of(shape.element_type):
                raise ValueError(f"a {source.dtype} array of shape {source.shape} is no literal of {shape}")
            if source.flags.writeable:
                source = source.copy()
                source.flags.writeable = False
            self.array = source

    def leaves(self) -> Iterator[Literal]:
        """Array literals, depth first."""
        if self.shape.is_tuple:
            for element in self.elements:
                yield from element.leaves()
        else:
            yield self

    def value(self) -> np.ndarray[Any, Any]:
        """The array of a non-tuple literal."""
        if self.array is None:
            raise ValueError("a tuple literal has no single array")
        return self.array

    @property
    def is_splat(self) -> bool:
        """All elements have the same bits (true for scalars, false for empty arrays, tuples and what was elided)."""
        if self._splat is None:
            self._splat = self.array is not None and self.array.size > 0 and not self.elided
            if self._splat and self.array is not None and self.array.size > 1:
                flat = np.ascontiguousarray(self.array).reshape(-1)
                raw = flat.view(np.uint8).reshape(flat.size, -1)
                self._splat = bool((raw == raw[0]).all())
        return self._splat

    @property
    def number(self) -> bool | int | float | complex | None:
        """The value of a scalar as a Python number; None for anything else, and where the contents were elided."""
        if self._number is None and self.array is not None and not self.array.ndim and not self.elided:
            value: Any = self.array
            match ELEMENT_TYPES[self.shape.element_type].kind:
                case "float":
                    self._number = float(value)
                case "pred":
                    self._number = bool(value)
                case "complex":
                    self._number = complex(value)
                case _:
                    self._number = int(value)
        return self._number

    def _key(self) -> tuple[object, ...]:
        own = None if self.array is None or self.elided else np.ascontiguousarray(self.array).tobytes()
        return (self.shape.without_layout(), own, self.elided, *(e._key() for e in self.elements))

    def __eq__(self, other: object) -> bool:
        """Same shape (layouts aside) and same bits."""
        return self is other or (isinstance(other, Literal) and self._key() == other._key())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def __repr__(self) -> str:
        return f"Literal({brief_shape(self.shape)}, {brief_literal(self)})"


def brief_literal(value: Literal) -> str:
    """The number of a scalar; the first elements of an array."""
    if value.elided:
        return "{...}"
    if value.array is None:
        return f"({listed((brief_shape(one.shape) for one in value.elements), len(value.elements))})"
    first = (one_line(str(value.array[at]), 24) for at in np.ndindex(value.array.shape))
    inside = listed(first, value.array.size)
    return f"{{{inside}}}" if value.array.ndim else inside


def literal(value: Any, element_type: str | None = None) -> Literal:
    """A literal from a NumPy array, a Python scalar with `element_type`, or a tuple of literals."""
    if isinstance(value, tuple) and all(isinstance(v, Literal) for v in value):
        return Literal(tuple_shape([v.shape for v in value]), elements=value)
    own = np.asarray(value) if element_type is None else np.asarray(value).astype(dtype_of(element_type))
    return Literal(array(element_type or element_type_of(own.dtype), own.shape), own)
