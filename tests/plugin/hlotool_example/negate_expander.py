"""Expand negate of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.expansion import expand_each

__all__ = ["NegateExpander"]


@dataclass(frozen=True, slots=True)
class NegateExpander:
    """Subtracts integers from 0 in place of negating them, or those of one element type only, if `type` names one."""

    name: ClassVar[str] = "negate-expander"
    type: str = ""

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, {"negate"}, self._expanded, "negate", "there is no negative without a zero")

    def _expanded(self, build: Builder, instruction: Instruction) -> Instruction | None:
        (x,) = instruction.operands
        element_type = x.shape.element_type
        if not ELEMENT_TYPES[element_type].is_integer or self.type not in ("", element_type):
            return None
        return build.binary("subtract", build.splat(0, x.shape), x)
