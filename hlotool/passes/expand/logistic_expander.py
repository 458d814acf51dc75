"""Logistic expander: the logistic function as 1 / (1 + exp(-x))."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["LogisticExpander"]


@dataclass(frozen=True, slots=True)
class LogisticExpander:
    """Rewrites ``logistic(x)`` as ``1 / (1 + exp(-x))``.

    Not in the default pipeline: the CPU code generator has the function itself.
    """

    name: ClassVar[str] = "logistic-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"logistic"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _expanded, "expand", "in terms of the exponential")


def _expanded(build: Builder, instruction: Instruction) -> Instruction:
    one = build.splat(1, instruction.shape)
    negated = build.unary("negate", instruction.operands[0])
    divisor = build.binary("add", one, build.unary("exponential", negated))
    return build.binary("divide", one, divisor)
