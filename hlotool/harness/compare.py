"""Comparing outputs with a reference or with the truth: per type, with the worst element named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hlotool.display import shown_by
from hlotool.ir import element_type, element_type_of
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hlotool.evaluate.bounds import Bounded

__all__ = [
    "DRAWS",
    "MAX_UNDECIDED",
    "Comparison",
    "Tolerance",
    "compare",
    "compare_all",
    "compare_with_truth",
    "default_tolerance",
    "may_be_chance",
    "tolerance_of",
    "verdict_of",
]

DRAWS = 4
"""How often runs are drawn to confirm that results are wrong."""

_BY_CHANCE, _FEW = 0.01, 3
"""The share of an output that may lie outside of the bounds of one draw by chance, or so many elements of a small one.
Four normal deviations are all smaller than a sixth of a fifth one once in a thousand times."""

MAX_UNDECIDED = 0.01
"""The share of an output that may be undecided: comparisons too close to call, of which real programs have a few (the
tie of an argmax, a number on the edge of a mask), while a wrong program is wrong in more places than those."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``|got - want| <= absolute + relative * |want|``.  `absolute` is scaled by the output's root mean square."""

    absolute: float
    relative: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one output compares: `bad` of `count` elements are off; `worst` is the index of the largest excess, `first`
    that of the first of them, row by row.

    Of `undecided` elements nothing is known, so that they may be anything; `ok` says that no others are off, and that
    they are no more than may be.
    """

    ok: bool
    why: str
    bad: int
    count: int
    max_absolute: float
    max_relative: float
    worst: tuple[int, ...] = ()
    undecided: int = 0
    first: tuple[int, ...] = ()

    @property
    def verdict(self) -> str:
        """``ok``, ``UNDECIDED`` or ``MISMATCH``."""
        return "ok" if self.ok else "MISMATCH" if self.bad or self.why else "UNDECIDED"

    def __repr__(self) -> str:
        return f"Comparison({self.verdict}: {one_line(str(self), 120)})"

    _repr_html_ = shown_by("comparison_html")

    def row(self) -> dict[str, Any]:
        """For reports."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "bad": self.bad,
            "undecided": self.undecided,
            "count": self.count,
            "first_bad": list(self.first) if self.bad and not self.why else None,
            "worst": list(self.worst) if self.bad and not self.why else None,
            "comparison": str(self),
        }

    def __str__(self) -> str:
        if self.why:
            return self.why
        where = f" at {list(self.worst)}" if self.bad else ""
        open_ = f"; undecided: {self.undecided} of {self.count}" if self.undecided else ""
        return (
            f"{self.bad} of {self.count} elements differ, largest difference {self.max_absolute:.3g} "
            f"({self.max_relative:.3g} relative){where}{open_}"
        )


def tolerance_of(absolute: float | None, relative: float | None) -> Tolerance | None:
    """The tolerance that two numbers make, either of them 0 where it is None; None where both are."""
    return None if absolute is None and relative is None else Tolerance(absolute or 0.0, relative or 0.0)


def verdict_of(comparisons: Sequence[Comparison]) -> str:
    """Of all outputs: the gravest."""
    found = {comparison.verdict for comparison in comparisons}
    return next((word for word in ("MISMATCH", "UNDECIDED") if word in found), "ok")


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


def compare_with_truth(
    got: Sequence[npt.NDArray[Any]],
    truth: Sequence[Bounded],
    wanted: Sequence[npt.NDArray[Any]] | None = None,
    max_undecided: float = MAX_UNDECIDED,
    again: Callable[[int], Sequence[Bounded]] | None = None,
) -> list[Comparison]:
    """Compare output by output with the truth: an element is right when it is no further from the true value than its
    bound.

    Statistical bounds of a few runs may be small by chance: where results lie outside of them, those that `again` gives
    for so many draws decide (`hlotool.evaluate.truth.bounded_results`).

    With `wanted` outputs, which err as well, each element may be that far from the wanted one and its error from the
    truth more.  Infinities of a decided element must match in sign, NaNs in place; the parts of complex numbers are
    compared each with the bound of the number.  An output of which more than the share `max_undecided` is undecided is
    not ok.
    """
    if len(got) != len(truth) or (wanted is not None and len(wanted) != len(truth)):
        raise ValueError(f"{len(got)} outputs to compare with {len(truth)}")
    references = [None] * len(truth) if wanted is None else wanted
    found = [_compare_bounded(g, t, w, max_undecided) for g, t, w in zip(got, truth, references, strict=True)]
    wrong = [row for row in found if row.verdict == "MISMATCH"]
    if again is None or not wrong or not all(may_be_chance(row) for row in wrong):
        return found
    return compare_with_truth(got, again(DRAWS), wanted, max_undecided)


def may_be_chance(row: Comparison) -> bool:
    """Whether so few elements are off that the bounds of one draw may be to blame."""
    return not row.why and row.bad <= max(_FEW, _BY_CHANCE * row.count)


def _compare_bounded(
    got: npt.NDArray[Any], truth: Bounded, wanted: npt.NDArray[Any] | None, max_undecided: float
) -> Comparison:
    reference = truth.value if wanted is None else wanted
    if got.shape != reference.shape or (wanted is not None and got.dtype != wanted.dtype):
        why = f"{got.dtype}{list(got.shape)} instead of {reference.dtype}{list(reference.shape)}"
        return Comparison(False, why, got.size, got.size, 0.0, 0.0)
    if got.size == 0:
        return Comparison(True, "", 0, 0, 0.0, 0.0)
    wide = truth.value.dtype
    if wide.kind not in "fc":
        wide = np.dtype(np.float64) if wide.kind not in "iu" or wide.itemsize < 8 else np.dtype(np.longdouble)
    with np.errstate(all="ignore"):
        g, w, true = (np.asarray(a).astype(wide) for a in (got, reference, truth.value))
        bound = truth.errors()
        if wanted is not None:
            bound = bound + np.where(np.isfinite(true) & np.isfinite(w), np.abs(w - true), np.inf).astype(np.float64)
            bound = np.where(_same(w, true), truth.errors(), bound)
        difference, same = _largest_part(g, w)
        bad = ~same & ~(difference <= bound) & np.isfinite(bound)
        size = np.abs(w).astype(np.float64)
        relative = np.where(same, 0.0, np.where((size > 0) & np.isfinite(size), difference / size, 0.0))
    undecided = np.isinf(bound)
    open_ = int(undecided.sum())
    shown = np.where(same | undecided, 0.0, np.where(np.isnan(difference), np.inf, difference))
    relative = np.where(undecided | ~np.isfinite(relative), 0.0, relative)
    found = _result(bad, shown, relative)
    return replace(found, ok=found.ok and open_ <= max_undecided * got.size, undecided=open_)


def _same(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Where numbers are equal or both NaN."""
    return np.asarray((left == right) | (np.isnan(left) & np.isnan(right)))


def _largest_part(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The difference (of complex numbers: of the part that differs more), and where the numbers are the same."""
    if got.dtype.kind != "c":
        same = _same(got, want)
        return np.where(same, 0.0, np.abs(got - want)).astype(np.float64), same
    parts = [(got.real, want.real), (got.imag, want.imag)]
    alike = [_same(g, w) for g, w in parts]
    far = [np.where(s, 0.0, np.abs(g - w)).astype(np.float64) for (g, w), s in zip(parts, alike, strict=True)]
    return np.maximum(*far), alike[0] & alike[1]


def _result(bad: npt.NDArray[Any], difference: npt.NDArray[Any], relative: npt.NDArray[Any]) -> Comparison:
    count = int(bad.sum())
    worst, first = (
        tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), bad.shape))
        for where in (np.where(bad, difference, -1.0), bad)
    )
    largest = float(difference.max()), float(relative.max())
    return Comparison(count == 0, "", count, bad.size, *largest, worst, first=first)
