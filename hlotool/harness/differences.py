"""How far two arrays are apart, in numbers: quantiles, classes of what is not finite, a histogram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.bounds import is_inexact, smallest, unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["LAST_BAR", "QUANTILES", "Differences", "Quantiles", "differences", "units"]

QUANTILES = (0.5, 0.9, 0.99, 1.0)

LAST_BAR = 26
"""The last bar of a histogram holds all that are 2^(this - 3) units apart or more."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of `QUANTILES`, over the elements that are finite on both sides."""

    median: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """`absolute` and `relative` differences (the latter where the reference is not zero), and `ulp`, in units in the
    last place of the element type at the reference's value; None where no element is finite on both sides, `ulp` also
    for types whose arithmetic is exact.

    `classes` counts elements: ``equal``, ``different`` (finite on both sides), ``nan_in_both``, ``nan_only_here``,
    ``nan_only_in_reference``, ``inf_in_both``, ``inf_of_other_sign``, ``inf_only_here``, ``inf_only_in_reference``.
    `histogram` counts those that are finite on both sides: equal, up to half a unit apart, up to 1, up to 2, up to 4
    and so on, twice as far each; of exact types, by their difference.
    """

    count: int
    absolute: Quantiles | None
    relative: Quantiles | None
    ulp: Quantiles | None
    classes: Mapping[str, int]
    histogram: tuple[int, ...]

    @property
    def bits(self) -> float:
        """How many of the last bits are wrong where most of them are; infinite where a NaN or infinity is."""
        special = ("nan_only_here", "nan_only_in_reference", "inf_of_other_sign", "inf_only_here")
        if any(self.classes[name] for name in (*special, "inf_only_in_reference")):
            return float("inf")
        worst = self.ulp or self.absolute
        return float(np.log2(1 + worst.largest)) if worst is not None else 0.0


def differences(got: npt.NDArray[Any], reference: npt.NDArray[Any], kind: str) -> Differences:
    """How far `got`, an array of element type `kind`, is from a `reference` of the same sizes, which may be of a wider
    type: true values, say.  A difference of complex numbers is the distance between them."""
    with np.errstate(all="ignore"):
        return _differences(got, reference, kind)


def _differences(got: npt.NDArray[Any], reference: npt.NDArray[Any], kind: str) -> Differences:
    wide = _wide(got.dtype, reference.dtype)
    g, r = got.astype(wide), reference.astype(wide)
    same = (g == r) | (np.isnan(g) & np.isnan(r))
    finite = np.isfinite(g) & np.isfinite(r)
    apart = np.abs(g[finite] - r[finite]).astype(np.float64)
    size = np.abs(r[finite]).astype(np.float64)
    steps = units(apart, size, kind) if is_inexact(kind) else None
    return Differences(
        count=got.size,
        absolute=_quantiles(apart),
        relative=_quantiles(apart[size > 0] / size[size > 0]),
        ulp=None if steps is None else _quantiles(steps),
        classes=_classes(g, r, same, finite),
        histogram=_histogram(apart if steps is None else steps),
    )


def units(apart: npt.NDArray[Any], size: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    """Differences in units in the last place that numbers of the `size` have in the element type."""
    _, exponent = np.frexp(size)
    last = np.ldexp(_precision(kind), exponent - 1)
    return np.asarray(apart / np.maximum(np.where(size > 0, last, 0.0), smallest(kind)))


def _precision(kind: str) -> float:
    """The unit in the last place of 1, a power of two."""
    return float(2.0 ** np.round(np.log2(2 * unit(kind))))


def _wide(*dtypes: np.dtype[Any]) -> Any:
    if any(dtype.kind == "c" for dtype in dtypes):
        return np.clongdouble if any(dtype.itemsize > 8 for dtype in dtypes) else np.complex128
    exact = any(dtype.kind in "iuf" and dtype.itemsize >= 8 for dtype in dtypes)
    return np.longdouble if exact else np.float64


def _classes(
    g: npt.NDArray[Any], r: npt.NDArray[Any], same: npt.NDArray[Any], finite: npt.NDArray[Any]
) -> dict[str, int]:
    nan, also = np.isnan(g), np.isnan(r)
    inf, too = np.isinf(g) & ~nan, np.isinf(r) & ~also
    found = {
        "equal": same & finite,
        "different": ~same & finite,
        "nan_in_both": nan & also,
        "nan_only_here": nan & ~also,
        "nan_only_in_reference": also & ~nan,
        "inf_in_both": inf & too & same,
        "inf_of_other_sign": inf & too & ~same,
        "inf_only_here": inf & ~too & ~also,
        "inf_only_in_reference": too & ~inf & ~nan,
    }
    return {name: int(np.count_nonzero(where)) for name, where in found.items()}


def _quantiles(values: npt.NDArray[Any]) -> Quantiles | None:
    if not values.size:
        return None
    places = [min(values.size - 1, int(np.ceil(q * values.size)) - 1) for q in QUANTILES]
    chosen = np.partition(values, sorted(set(places)))[places]
    return Quantiles(*(float(value) for value in chosen))


def _histogram(steps: npt.NDArray[Any]) -> tuple[int, ...]:
    """Counts of 0, (0, 0.5], (0.5, 1], (1, 2], (2, 4] and so on; bars above the last that counts some are left out."""
    if not steps.size:
        return ()
    bars = np.where(steps > 0, np.clip(np.ceil(np.log2(np.where(steps > 0, steps, 1.0))) + 2, 1, LAST_BAR), 0)
    return tuple(int(count) for count in np.bincount(bars.astype(np.intp)))
