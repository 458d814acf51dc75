"""Evaluating a module after every pass: which is the first to change its numbers?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import MAX_UNDECIDED, Comparison, Tolerance, compare_all, compare_with_truth
from hlotool.ir import Module, UnsupportedError, clone_module
from hlotool.passes.framework.manager import changes_program, drops_roundings
from hlotool.passes.framework.steps import Pass

__all__ = ["CheckEach", "NumbersChanged", "NumbersUndecided"]


class NumbersChanged(Exception):  # noqa: N818
    """After the `run`-th pass the module no longer computes what it did: `comparisons` has one row per output."""

    def __init__(self, pass_: Pass, run: int, comparisons: list[Comparison]) -> None:
        self.pass_, self.run, self.comparisons = pass_, run, comparisons
        number = next(n for n, c in enumerate(comparisons) if not c.ok)
        super().__init__(f"pass {pass_.name} (run {run}) changes out{number}: {comparisons[number]}")


class NumbersUndecided(Exception):  # noqa: N818
    """Nothing is known of so much of what the module computes that no pass could be told from a wrong one."""

    def __init__(self, comparisons: list[Comparison]) -> None:
        self.comparisons = comparisons
        number = next(n for n, c in enumerate(comparisons) if not c.ok)
        super().__init__(f"out{number} of the module itself: {comparisons[number]}")


class CheckEach:
    """An instrument: evaluates the module after every pass that changed it, and compares with the true values that it
    had at first: within their error bounds, or, of programs that have none (dynamic sizes), with `Tolerance`.

    From a pass on that leaves out roundings, the bounds are those of excess precision; after one that makes another
    program, a gradient, the values to compare with are those of that program.

    Raises NumbersChanged, naming the pass, and, when it begins to compare with bounds, NumbersUndecided where more than
    the share `max_undecided` of an output is undecided.
    """

    def __init__(
        self,
        module: Module,
        arguments: Sequence[npt.NDArray[Any]],
        tolerance: Tolerance | None = None,
        max_undecided: float = MAX_UNDECIDED,
    ) -> None:
        self.arguments = [np.asarray(a) for a in arguments]
        self.tolerance, self.max_undecided = tolerance, max_undecided
        self.original = clone_module(module)
        self.expected = evaluate(module, self.arguments)
        self.excess_precision = False
        self.truth = self._truth() if tolerance is None else None
        self.runs = self.checked = 0
        self._decide()

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.runs += 1
        if not changed:
            return
        if changes_program(pass_):
            self._begin_anew(pass_, module)
            return
        self.checked += 1
        if drops_roundings(pass_) and self.truth is not None and not self.excess_precision:
            self.excess_precision = True
            self.truth = self._truth()
            self._decide()
        comparisons = self._compared(evaluate(module, self.arguments))
        if not all(c.ok for c in comparisons):
            raise NumbersChanged(pass_, self.runs, comparisons)

    def _begin_anew(self, pass_: Pass, module: Module) -> None:
        """From here on the program is another one."""
        given = [parameter.shape for parameter in self.original.entry.parameters]
        if [parameter.shape for parameter in module.entry.parameters] != given:
            raise UnsupportedError(f"{pass_.name} makes a program that takes other arrays: check what comes after it")
        self.original = clone_module(module)
        self.expected = evaluate(module, self.arguments)
        self.truth = None if self.truth is None else self._truth()
        self._decide()

    def _truth(self) -> tuple[Bounded, ...] | None:
        """The true values, with bounds; None where there are none."""
        try:
            return self._bounds(1)
        except UnsupportedError:
            return None

    def _bounds(self, draws: int) -> tuple[Bounded, ...]:
        return bounded_results(
            self.original, self.arguments, excess_precision=self.excess_precision, draws=draws
        )

    def _decide(self) -> None:
        comparisons = self._compared(self.expected)
        if any(c.verdict == "UNDECIDED" for c in comparisons):
            raise NumbersUndecided(comparisons)

    def _compared(self, outputs: Sequence[npt.NDArray[Any]]) -> list[Comparison]:
        if self.truth is None:
            return compare_all(outputs, self.expected, self.tolerance)
        return compare_with_truth(outputs, self.truth, max_undecided=self.max_undecided, again=self._bounds)
