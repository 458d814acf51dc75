"""The algebraic simplifier: many small identities."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.passes.framework.rewriter import RuleTable, apply_rules, rule_table
from hlotool.passes.simplify.algebra import RECIPROCAL_RULES, RULES

__all__ = ["AlgebraicSimplifier"]


@dataclass(frozen=True, slots=True)
class AlgebraicSimplifier:
    """Applies the rules in `hlotool.passes.simplify.algebra` until none fits.

    With `reciprocal`, divisions by any constant become multiplications, at up to one more rounding.  `only` and
    `without` name rules, separated by spaces: to try a single one, or to find the one to blame.
    """

    name: ClassVar[str] = "algebraic-simplifier"
    reciprocal: bool = False
    only: str = ""
    without: str = ""

    def run(self, module: Module, log: DecisionLog) -> bool:
        table = _table(self.reciprocal, self.only, self.without)
        changed = False
        for computation in module.callees_first():
            changed |= apply_rules(computation, table, log)
        return changed


@cache
def _table(reciprocal: bool, only: str, without: str) -> RuleTable:
    wanted, unwanted = only.split(), without.split()
    rules = (*RULES, *RECIPROCAL_RULES) if reciprocal else RULES
    return rule_table(r for r in rules if (not wanted or r.name in wanted) and r.name not in unwanted)
