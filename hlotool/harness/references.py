"""What outputs are compared with, and by which rule: the engine of ``compare`` and of ``run --compare``.

A reference is the truth of a module, what its evaluator gives, arrays of a file, or what another program gives on the
same inputs.  Without a tolerance the outputs of two programs are both held against the error bounds of the truth, which
says more than their distance does: either may be the one that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.harness.compare import MAX_UNDECIDED, Comparison, Tolerance, compare_all, compare_with_truth
from hlotool.ir import Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hlotool.evaluate.bounds import Bounded

__all__ = ["Judgement", "Rules", "Truth", "judge", "judge_by_arrays", "judge_by_truth"]

Arrays: TypeAlias = Sequence[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as equal: within `tolerance`, or else within error bounds, of which so much may be undecided."""

    tolerance: Tolerance | None = None
    max_undecided: float = MAX_UNDECIDED


@dataclass(slots=True)
class Truth:
    """The true outputs of `module` on `arrays`, with error bounds; they are computed when somebody asks.

    UnsupportedError, from what asks, for programs that bounds are not defined for (dynamic sizes).
    """

    module: Module
    arrays: Arrays
    excess_precision: bool = False
    _once: tuple[Bounded, ...] | None = None

    def bounds(self, draws: int = 1) -> tuple[Bounded, ...]:
        """Those of so many draws (`hlotool.evaluate.truth.bounded_results`)."""
        from hlotool.evaluate.truth import bounded_results

        if draws == 1 and self._once is not None:
            return self._once
        found = bounded_results(self.module, self.arrays, excess_precision=self.excess_precision, draws=draws)
        if draws == 1:
            self._once = found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How outputs compare, one row each.  `by` is ``bounds`` or ``tolerance``; `wanted` are the reference's values,
    `of_reference` how these compare with the truth themselves, where both were held against it."""

    by: str
    comparisons: list[Comparison]
    wanted: list[npt.NDArray[Any]]
    of_reference: list[Comparison] = field(default_factory=list)

    @property
    def all(self) -> list[Comparison]:
        """Of both sides."""
        return [*self.comparisons, *self.of_reference]


def judge_by_truth(outputs: Arrays, truth: Truth, rules: Rules) -> Judgement:
    """Outputs within the bounds of the true ones."""
    found = truth.bounds()
    rows = compare_with_truth(outputs, found, max_undecided=rules.max_undecided, again=truth.bounds)
    return Judgement(by="bounds", comparisons=rows, wanted=[one.value for one in found])


def judge_by_arrays(outputs: Arrays, wanted: Arrays, rules: Rules, truth: Truth | None = None) -> Judgement:
    """Outputs within the tolerance of others; without one and with a `truth`, both within the bounds of that."""
    if truth is not None and rules.tolerance is None:
        try:
            found = judge_by_truth(outputs, truth, rules)
        except UnsupportedError:
            pass  # what bounds are not defined for is left to the tolerance
        else:
            others = judge_by_truth(wanted, truth, rules).comparisons
            return Judgement(
                by="bounds", comparisons=found.comparisons, wanted=list(map(np.asarray, wanted)), of_reference=others
            )
    rows = compare_all(outputs, wanted, rules.tolerance)
    return Judgement(by="tolerance", comparisons=rows, wanted=list(map(np.asarray, wanted)))


def judge(outputs: Arrays, truth: Truth | None, evaluated: Callable[[], Arrays], rules: Rules) -> Judgement:
    """Outputs against the meaning of a module: the truth where there is one and no tolerance is given, else what the
    evaluator gives in the declared types."""
    if truth is not None and rules.tolerance is None:
        try:
            return judge_by_truth(outputs, truth, rules)
        except UnsupportedError:
            pass  # of programs that bounds are not defined for
    return judge_by_arrays(outputs, evaluated(), rules)
