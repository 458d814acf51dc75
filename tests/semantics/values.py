"""Values to try an opcode with: edges of its element type, and what lies between.

A filler makes an array of a shape from a NumPy generator; every round of a test draws new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from hlotool.ir import dtype_of, element_type

__all__ = ["Array", "Filler", "anything", "below", "edges", "modest", "small", "within"]

Array: TypeAlias = np.ndarray[Any, Any]
Filler: TypeAlias = Callable[[np.random.Generator, str, tuple[int, ...]], Array]
"""(generator, element type, dimensions) to an array."""


def integer_range(kind: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type (of pred: 0 and 1)."""
    row = element_type(kind)
    if row.kind == "signed":
        return -(1 << row.bits - 1), (1 << row.bits - 1) - 1
    return 0, (1 << row.bits) - 1


def edges(kind: str) -> Array:
    """Every value of types of up to 8 bits; of wider ones those at which rules change."""
    row = element_type(kind)
    dtype = dtype_of(kind)
    if row.is_complex:
        part = edges("f32" if kind == "c64" else "f64")
        return _grid(part, dtype)
    if row.is_float:
        if row.bits <= 8:
            return np.arange(1 << row.bits, dtype=np.uint8).view(dtype)
        info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        smallest, tiny, largest, eps = (float(v) for v in (info.smallest_subnormal, info.tiny, info.max, info.eps))
        positive = [
            0.0, smallest, 3 * smallest, tiny - smallest, tiny, eps, 0.25, 0.5, 1 - eps / 2, 1.0, 1 + eps, 1.5, 2.0,
            2.5, 3.0, 3.5, np.pi / 2, np.pi, 10.0, 88.0, 127.5, 128.0, 255.5, 2.0**15, 65504.0, largest / 2, largest,
            2.0**31, 2.0**32, 2.0**52 + 0.5, 2.0**63, 2.0**64, np.inf, np.nan,
        ]  # fmt: skip
        with np.errstate(all="ignore"):
            return np.array([*positive, *(-v for v in positive)]).astype(dtype)
    low, high = integer_range(kind)
    if row.bits <= 8:
        return np.arange(low, high + 1).astype(dtype)
    middle = [v for n in (1, 7, 8, 15, 16, row.bits - 2) for v in (1 << n, (1 << n) - 1, -(1 << n))]
    chosen = sorted({v for v in (0, 1, 2, 3, -1, -2, low, low + 1, high, high - 1, *middle) if low <= v <= high})
    return np.array(chosen, dtype)


def _grid(part: Array, dtype: np.dtype[Any]) -> Array:
    """Complex numbers with every pair of some edges of the parts."""
    real, imaginary = np.meshgrid(part, part)
    made = np.empty(real.shape, dtype)
    made.real, made.imag = real, imaginary
    return made.ravel()


def anything(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Edges, random bits and modest numbers, a third each."""
    table = edges(kind)
    chosen = table[generator.integers(0, len(table), sizes)]
    which = generator.integers(0, 3, sizes)
    found = np.where(
        which == 0, chosen, np.where(which == 1, _bits(generator, kind, sizes), modest(generator, kind, sizes))
    )
    return np.asarray(found, dtype_of(kind))


def _bits(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    row = element_type(kind)
    dtype = dtype_of(kind)
    if row.bits < 8 or kind in ("pred",):
        table = edges(kind)
        return table[generator.integers(0, len(table), sizes)]
    raw = generator.integers(0, 256, (*sizes, dtype.itemsize), np.uint8)
    made = np.ascontiguousarray(raw).view(dtype).reshape(sizes)
    if kind == "f16":  # a processor that loads a signalling NaN makes it quiet
        made = np.where(np.isnan(made), (made.view(np.uint16) | np.uint16(0x200)).view(dtype), made)
    return made


def modest(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Numbers of ordinary size: normal floats, integers from -8 to 8 as far as the type has them."""
    row = element_type(kind)
    dtype = dtype_of(kind)
    if row.is_complex:
        return np.asarray(generator.standard_normal(sizes) + 1j * generator.standard_normal(sizes)).astype(dtype)
    if row.is_float:
        return np.asarray(generator.standard_normal(sizes)).astype(dtype)
    low, high = integer_range(kind)
    return np.asarray(generator.integers(max(low, -8), min(high, 8) + 1, sizes)).astype(dtype)


def small(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Whole numbers from -2 to 2: sums of some of them are exact in every order in all but the narrowest types."""
    row = element_type(kind)
    low, high = (-2, 2) if row.is_float or row.is_complex else integer_range(kind)
    return np.asarray(generator.integers(max(low, -2), min(high, 2) + 1, sizes)).astype(dtype_of(kind))


def within(low: int, high: int) -> Filler:
    """Whole numbers from `low` to `high`, both included, as far as the type has them."""

    def fill(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
        least, most = integer_range(kind)
        values = generator.integers(max(low, least), min(high, most), sizes, endpoint=True)
        return np.asarray(values).astype(dtype_of(kind))

    return fill


def below(size: int) -> Filler:
    """Indices of a dimension of `size`: mostly inside, some out of bounds, some far out."""

    def fill(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
        least, most = integer_range(kind)
        near = within(-2, size + 2)(generator, kind, sizes)
        inside = within(0, max(0, size - 1))(generator, kind, sizes)
        far = np.where(generator.integers(0, 2, sizes) == 0, least, most).astype(dtype_of(kind))
        which = generator.integers(0, 10, sizes)
        return np.asarray(np.where(which < 7, inside, np.where(which < 9, near, far)), dtype_of(kind))

    return fill
