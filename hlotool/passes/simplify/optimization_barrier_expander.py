"""Remove optimisation barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module

__all__ = ["OptimizationBarrierExpander"]


@dataclass(frozen=True, slots=True)
class OptimizationBarrierExpander:
    """Replaces each ``opt-barrier`` by its operand: for the end of a pipeline, when no simplification follows."""

    name: ClassVar[str] = "optimization-barrier-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"opt-barrier"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for instruction in computation:
                if instruction.opcode == "opt-barrier" and log.allow():
                    log.rewrite("barrier", instruction, instruction.operands[0])
                    instruction.replace_all_uses(instruction.operands[0])
                    computation.erase(instruction)
                    changed = True
        return changed
