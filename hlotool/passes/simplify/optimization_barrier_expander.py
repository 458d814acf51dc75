"""Remove optimisation barriers."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["OptimizationBarrierExpander"]


@dataclass(frozen=True, slots=True)
class OptimizationBarrierExpander:
    """Replaces each ``opt-barrier`` by its operand: for the end of a pipeline, when no simplification follows."""

    name: ClassVar[str] = "optimization-barrier-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"opt-barrier"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, lambda build, barrier: barrier.operands[0], "barrier", "")
