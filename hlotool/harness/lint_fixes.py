"""The fixes of `hlotool.lint`, applied and tried: no result may be further from the truth than it was."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import Comparison, compare_with_truth
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module, clone_module
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.lint import Rule, apply_fixes, lint
from hlotool.lint.comments import Silence

__all__ = ["Fixed", "fixed", "no_worse"]

_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Fixed:
    """A module with the fixes of rules, by code how often each was applied."""

    module: Module
    applied: dict[str, int]


def fixed(module: Module, rules: Collection[Rule], silence: Silence) -> Fixed:
    """A copy of `module` in which the fixes of these rules are applied, until they find nothing more to fix; it is
    verified."""
    result, applied = clone_module(module), dict[str, int]()
    for _ in range(_ROUNDS):
        found = [(rule.code, f) for rule, f in lint(result, rules) if not silence.hides(rule.code, f.instruction)]
        if not apply_fixes(result, [finding for _, finding in found]):
            break
        for code, finding in found:
            applied[code] = applied.get(code, 0) + (finding.fix is not None)
    check(result)
    return Fixed(result, applied)


def no_worse(before: Module, after: Module, seed: int = 0) -> Sequence[Comparison]:
    """How the results of `after` on made-up inputs compare with the truth of `before`: within its bounds, or no further
    from it than the results of `before` are.  UnsupportedError where truth mode cannot tell."""
    arrays = random_inputs(before, seed)
    truth = bounded_results(before, arrays)
    with np.errstate(all="ignore"):
        return compare_with_truth(evaluate(after, arrays), truth, evaluate(before, arrays))
