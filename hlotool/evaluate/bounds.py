"""Values with error bounds, and what one rounding adds to a bound.

A `Bounded` stands for everything that a correct program may compute where the text has one value: `value` comes from
arithmetic in a wider type without any rounding to the declared one, and `error` bounds how far arithmetic in the
declared type may be from it, element by element, in whatever order sums are taken.  Bounds are those of running error
analysis: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition (2002), sections 2.2, 3.1 and 3.3.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hlotool.evaluate.rounding import round_to
from hlotool.evaluate.values import AnyArray
from hlotool.ir import ELEMENT_TYPES, dtype_of
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Bounded",
    "bounded",
    "exact",
    "growth",
    "is_inexact",
    "largest",
    "merged",
    "narrow",
    "relative",
    "rounded",
    "smallest",
    "unit",
    "wide_dtype",
]

_UNDERFLOW = 4 * float(np.finfo(np.float64).smallest_subnormal)
"""What errors that are themselves computed in f64 may lose where they are too small for it."""

_CONFIDENCE = 8.0
"""Of `growth`: the chance that a sum of random roundings leaves its bound is below 2 exp(-32)."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """`value` in the wide type; `error` in f64, of the same dimensions, None where every element is exact.

    An infinite error is an undecided element: nothing is known of it.  Elements that are infinite or NaN and not
    undecided are so in every correct computation.
    """

    value: AnyArray
    error: AnyArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        sizes: tuple[int, ...] = self.value.shape
        return sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.value.dtype
        return dtype

    def errors(self) -> AnyArray:
        """The error of every element, also where all are exact."""
        return np.broadcast_to(np.float64(0), self.value.shape) if self.error is None else self.error

    def item(self) -> Any:
        """The value of a scalar."""
        return self.value.item()


@dataclass(frozen=True, slots=True)
class _Format:
    """Of a floating-point type (of its parts, if complex): unit roundoff with that of the wide type, and its range."""

    unit: float
    smallest: float
    largest: float
    wide: np.dtype[Any]


def _formats() -> dict[str, _Format]:
    found = {}
    for name, row in ELEMENT_TYPES.items():
        if row.is_float or row.is_complex:
            part: Any = {"c64": np.float32, "c128": np.float64}.get(name) or row.dtype
            double = np.dtype(part) == np.float64
            real: Any = np.longdouble if double else np.float64
            wide = np.dtype((np.clongdouble if double else np.complex128) if row.is_complex else real)
            info: Any = ml_dtypes.finfo(part)  # type: ignore[no-untyped-call]
            unit = float(info.eps) / 2 + float(np.finfo(real).eps)
            found[name] = _Format(unit, float(info.smallest_subnormal), float(info.max), wide)
    return found


_FORMATS = _formats()


def wide_dtype(kind: str) -> np.dtype[Any]:
    """The NumPy type of the values of an element type: f64 for floats, extended precision for f64 where NumPy has
    more, complex numbers alike; all others as they are."""
    own = _FORMATS.get(kind)
    return dtype_of(kind) if own is None else own.wide


def is_inexact(kind: str) -> bool:
    """Whether arithmetic on the type rounds."""
    return kind in _FORMATS


def unit(kind: str) -> float:
    """The unit roundoff: half the distance from one to the next number, and what the wide arithmetic errs itself."""
    return _FORMATS[kind].unit


def largest(kind: str) -> float:
    """The largest number of the type (of the parts, if complex)."""
    return _FORMATS[kind].largest


def smallest(kind: str) -> float:
    """The smallest number above zero of the type (of the parts, if complex)."""
    return _FORMATS[kind].smallest


def relative(kind: str, ulps: float) -> float:
    """The relative error of a function that is good to `ulps` units in the last place; types below f32 compute in f32
    and round once more."""
    if ELEMENT_TYPES[kind].bits <= 16:
        return unit(kind) + 2 * ulps * unit("f32")
    return 2 * ulps * unit(kind)


def growth(count: float, roundoff: float, often: float = 1.0) -> float:
    """The relative error of a sum of `count` terms in any order (of their absolute values, that is), `often` of which
    may round alike.

    The smaller of Higham's gamma (section 3.1), which holds always, and the bound of Higham and Mary, "A new approach
    to probabilistic rounding error analysis" (SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4), which holds for
    roundings that are independent and of mean zero, with their lambda = 8.  Long sums make the first one useless.
    """
    steps = max(0.0, count - 1)
    total = steps * roundoff
    worst = total / (1 - total) if total < 0.5 else np.inf
    likely = float(np.expm1(min(700.0, (_CONFIDENCE * (steps * often) ** 0.5 + total) * roundoff * (1 + roundoff))))
    return min(worst, likely)


def exact(array: AnyArray, kind: str) -> Bounded:
    """An array of the declared type as it is."""
    return Bounded(np.asarray(array).astype(wide_dtype(kind), copy=False))


def bounded(value: AnyArray, error: AnyArray | None) -> Bounded:
    """With no errors at all where every one is zero, which saves work on them."""
    return Bounded(value, error if error is not None and error.any() else None)


def narrow(x: Bounded, kind: str) -> AnyArray:
    """The value rounded to the declared type."""
    return round_to(x.value, kind) if is_inexact(kind) else x.value


def merged(*operands: Bounded) -> AnyArray | None:
    """For results that an undecided element leaves undecided and others do not touch: the sum of errors."""
    errors = [o.error for o in operands if o.error is not None]
    if not errors:
        return None
    total: AnyArray = errors[0]
    for error in errors[1:]:
        total = total + error
    return total


def rounded(value: AnyArray, error: AnyArray | None, kind: str, ulps: float | None = None) -> Bounded:
    """A result in the wide type, rounded to `kind`: once, or to within `ulps` units in the last place.

    `error` is what the operands' errors make of it; None when they are exact, and then so are results that the type
    can hold.  Results beyond the type's largest number are what the type makes of them, or undecided where the bound
    lies across that border.
    """
    own = _FORMATS[kind]
    value = np.asarray(value)
    if value.dtype.kind == "c" and own.wide.kind != "c":
        value = value.real
    value = value.astype(own.wide, copy=False)
    if kind.endswith("fnuz"):
        value = value + 0  # these types have one zero
    size = np.abs(value).astype(np.float64, copy=False)
    once = ulps is None
    under = max(own.smallest * (ulps or 0.5), _UNDERFLOW)
    bound = size * (own.unit if ulps is None else relative(kind, ulps)) + under
    near: AnyArray | None = None
    if error is not None:
        bound = bound + error
    elif once:
        near = round_to(value, kind).astype(own.wide)
        bound = np.where(near == value, 0.0, bound)
    reach = float((size + bound).max(initial=0.0))
    if not reach <= own.largest or kind == "f8e8m0fnu":
        value, bound = _at_the_ends(value, size, bound, error, near, kind)
    return Bounded(value) if error is None and not bound.any() else Bounded(value, bound)


def _at_the_ends(
    value: AnyArray, size: AnyArray, bound: AnyArray, error: AnyArray | None, near: AnyArray | None, kind: str
) -> tuple[AnyArray, AnyArray]:
    """Infinities, NaN, overflow, and the type that has neither zero nor sign."""
    own = _FORMATS[kind]
    finite = np.isfinite(value)
    decided = np.isfinite(error) if error is not None else np.ones(value.shape, np.bool_)
    rest: Any = 0.0
    if value.dtype.kind == "c":  # one part may be infinite, NaN or too large, and the other an ordinary number
        parts = [np.abs(np.where(np.isfinite(part), part, 0)).astype(np.float64) for part in (value.real, value.imag)]
        rest = (parts[0] + parts[1]) * 16 * own.unit + (0.0 if error is None else error)
        size = np.maximum(*parts)
    bound = np.where(finite, np.where(np.isnan(bound), np.inf, bound), np.where(decided, rest, np.inf))
    beyond = finite & ~(size + bound <= own.largest)
    sure = beyond & (size - bound > own.largest)
    if kind == "f8e8m0fnu":
        beyond, sure = beyond | ~(value - bound >= own.smallest), sure | (value + bound < 0)
    if near is not None:
        # Below the least number of a type without zero it matters whether f32 still holds the result.
        sure = beyond & ~((value >= 0) & (value < own.smallest)) if kind == "f8e8m0fnu" else beyond
    held = round_to(value, kind).astype(own.wide) if near is None else near
    # Types without infinity or NaN have other numbers for them.
    return np.where(sure | ~finite, held, value), np.where(sure, rest, np.where(beyond, np.inf, bound))
