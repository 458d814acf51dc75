"""The algebraic simplifier: many small identities."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import HloError, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.rewriter import Rule, RuleTable, rewrite, rule_table
from hlotool.passes.simplify.algebra import SUBJECTS, all_rules, rules_for
from hlotool.plugins import load_plugin, plugin_names

__all__ = ["AlgebraicSimplifier"]


@dataclass(frozen=True, slots=True)
class AlgebraicSimplifier:
    """Applies the rules in `hlotool.passes.simplify.algebra` until none fits.

    With `reciprocal`, divisions by any constant become multiplications, at up to one more rounding.  `only` and
    `without` name rules, separated by spaces: to try a single one, or to find the one to blame.  `also` names rules of
    other packages, which come after all others.
    """

    name: ClassVar[str] = "algebraic-simplifier"
    reciprocal: bool = False
    only: str = ""
    without: str = ""
    also: str = ""

    def __post_init__(self) -> None:
        for name in self.also.split():
            _installed(name)

    def run(self, module: Module, log: DecisionLog) -> bool:
        return rewrite(module, _table(self.reciprocal, self.only, self.without, self.also), log)


def _installed(name: str) -> Rule:
    """The rule of that name of another package; HloError where there is none, UnsupportedError where it has no use."""
    own = {rule.name for rule in (*all_rules(), *_reciprocal_rules())}
    names = plugin_names("rule", own)
    if name not in names:
        there = f"there are {', '.join(names)}" if names else "there are none"
        raise HloError(f"no other package adds a rule {name!r}; {there}")
    found = load_plugin("rule", name, Rule)
    if found.name != name:
        raise UnsupportedError(f"the rule that is installed as {name!r} calls itself {found.name!r}")
    return found


def _reciprocal_rules() -> tuple[Rule, ...]:
    from hlotool.passes.simplify.algebra.arithmetic import RECIPROCAL_RULES

    return RECIPROCAL_RULES


@cache
def _table(reciprocal: bool, only: str, without: str, also: str) -> RuleTable:
    wanted, unwanted = only.split(), without.split()
    more = rule_table((*(_reciprocal_rules() if reciprocal else ()), *map(_installed, also.split())))

    def rules(opcode: str, element_type: str) -> list[Rule]:
        rows = (*rules_for(opcode, element_type), *more.rules(opcode, element_type))
        return [row for row in rows if (not wanted or row.name in wanted) and row.name not in unwanted]

    return RuleTable(more.opcodes.union(*[opcodes.split() for _, opcodes in SUBJECTS.values()]), rules)
