"""Logistic expander: the logistic function as 1 / (1 + exp(-x))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import replace_with

__all__ = ["LogisticExpander"]


@dataclass(frozen=True, slots=True)
class LogisticExpander:
    """Rewrites ``logistic(x)`` as ``1 / (1 + exp(-x))``.

    Not in the default pipeline: the CPU code generator has the function itself.
    """

    name: ClassVar[str] = "logistic-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"logistic"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for instruction in computation:
                if instruction.opcode == "logistic" and log.allow():
                    build = Builder(computation, instruction, like=instruction)
                    one = build.splat(1, instruction.shape)
                    negated = build.unary("negate", instruction.operands[0])
                    divisor = build.binary("add", one, build.unary("exponential", negated))
                    result = build.binary("divide", one, divisor)
                    log.rewrite("expand", instruction, result, "in terms of the exponential")
                    replace_with(instruction, result)
                    changed = True
        return changed
