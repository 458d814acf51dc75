"""Evaluating a module after every pass: which is the first to change its numbers?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate import evaluate
from hlotool.harness.compare import Comparison, Tolerance, compare_all
from hlotool.ir import Module
from hlotool.passes.manager import Pass

__all__ = ["CheckEach", "NumbersChanged"]


class NumbersChanged(Exception):  # noqa: N818
    """After the `run`-th pass the module no longer computes what it did: `comparisons` has one row per output."""

    def __init__(self, pass_: Pass, run: int, comparisons: list[Comparison]) -> None:
        self.pass_, self.run, self.comparisons = pass_, run, comparisons
        number = next(n for n, c in enumerate(comparisons) if not c.ok)
        super().__init__(f"pass {pass_.name} (run {run}) changes out{number}: {comparisons[number]}")


class CheckEach:
    """An instrument: evaluates the module after every pass that changed it and compares with what it gave at first.

    Raises NumbersChanged, naming the pass.  `tolerance` is that of `compare`.
    """

    def __init__(
        self, module: Module, arguments: Sequence[npt.NDArray[Any]], tolerance: Tolerance | None = None
    ) -> None:
        self.arguments, self.tolerance = [np.asarray(a) for a in arguments], tolerance
        self.expected = evaluate(module, self.arguments)
        self.runs = self.checked = 0

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        self.runs += 1
        if not changed:
            return
        self.checked += 1
        comparisons = compare_all(evaluate(module, self.arguments), self.expected, self.tolerance)
        if not all(c.ok for c in comparisons):
            raise NumbersChanged(pass_, self.runs, comparisons)
