"""Comparing outputs with a reference: per type, with the worst element named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import element_type, element_type_of

__all__ = ["Comparison", "Tolerance", "compare", "compare_all", "default_tolerance"]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``|got - want| <= absolute + relative * |want|``.  `absolute` is scaled by the output's root mean square."""

    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one output compares: `bad` of `count` elements are off; `worst` is the index of the largest excess."""

    ok: bool
    why: str
    bad: int
    count: int
    max_absolute: float
    max_relative: float
    worst: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.why:
            return self.why
        where = f" at {list(self.worst)}" if self.bad else ""
        return (
            f"{self.bad} of {self.count} elements differ, largest difference {self.max_absolute:.3g} "
            f"({self.max_relative:.3g} relative){where}"
        )


def default_tolerance(kind: str) -> Tolerance:
    """For floats 64 units in the last place (16 bits: 4, 8 bits: 1), relative and of the root mean square; else exact.

    Generous enough for another order of summation over some thousand elements, which is all that a correct compiler
    may change.
    """
    row = element_type(kind)
    if row.is_float or row.is_complex:
        part = {"c64": np.float32, "c128": np.float64}.get(kind) or row.dtype
        import ml_dtypes

        epsilon = float(ml_dtypes.finfo(part).eps)  # type: ignore[no-untyped-call]
        bound = epsilon * (64 if row.bits > 16 else 4 if row.bits == 16 else 1)
        return Tolerance(bound, bound)
    return Tolerance(0, 0)


def compare_all(
    got: Sequence[npt.NDArray[Any]], want: Sequence[npt.NDArray[Any]], tolerance: Tolerance | None = None
) -> list[Comparison]:
    """Compare output by output; a wrong number of outputs is a ValueError."""
    if len(got) != len(want):
        raise ValueError(f"{len(got)} outputs to compare with {len(want)}")
    return [compare(g, w, tolerance) for g, w in zip(got, want, strict=True)]


def compare(got: npt.NDArray[Any], want: npt.NDArray[Any], tolerance: Tolerance | None = None) -> Comparison:
    """Compare two arrays.  Infinities must match in sign, NaNs in place (payloads do not count)."""
    if got.shape != want.shape or got.dtype != want.dtype:
        why = f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        return Comparison(False, why, got.size, got.size, 0.0, 0.0)
    if got.size == 0:
        return Comparison(True, "", 0, 0, 0.0, 0.0)
    kind = element_type_of(want.dtype)
    limit = tolerance or default_tolerance(kind)
    row = element_type(kind)
    if not (row.is_float or row.is_complex):
        different = np.asarray(got != want)
        if not tolerance or row.kind == "pred":
            return _result(different, different.astype(np.float64), np.zeros(got.shape))
    wide: Any = np.complex128 if row.is_complex else np.float64
    with np.errstate(all="ignore"):
        g, w = got.astype(wide), want.astype(wide)
        finite = np.isfinite(g) & np.isfinite(w)
        same = (np.isnan(g) & np.isnan(w)) | (g == w)
        difference = np.where(finite, np.abs(np.where(finite, g, 0) - np.where(finite, w, 0)), 0.0)
        size = np.where(finite, np.abs(np.where(finite, w, 0)), 0.0)
        scale = float(np.sqrt(np.mean(size**2))) if row.is_float or row.is_complex else 1.0
        bad = np.where(finite, difference > limit.absolute * scale + limit.relative * size, ~same)
        relative = np.where(size > 0, difference / np.where(size > 0, size, 1), 0.0)
        excess = np.where(finite, difference, np.where(same, 0.0, np.inf))
    return _result(bad, excess, relative)


def _result(bad: npt.NDArray[Any], difference: npt.NDArray[Any], relative: npt.NDArray[Any]) -> Comparison:
    count = int(bad.sum())
    worst = np.unravel_index(int(np.argmax(np.where(bad, difference, -1.0))), bad.shape)
    return Comparison(
        count == 0, "", count, bad.size, float(difference.max()), float(relative.max()), tuple(int(i) for i in worst)
    )
