"""Arrays without elements are constants."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Literal, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import drop_dead, is_pure
from hlotool.passes.framework.rewriter import Rewriter

__all__ = ["ZeroSizedHloElimination"]


@dataclass(frozen=True, slots=True)
class ZeroSizedHloElimination:
    """Replaces everything that computes an array without elements by an empty constant."""

    name: ClassVar[str] = "zero-sized-hlo-elimination"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for instruction in computation:
                if not _is_computed_empty(instruction) or not log.allow():
                    continue
                constant = Rewriter(instruction).make("constant", instruction.shape, literal=Literal(instruction.shape))
                log.rewrite("empty", instruction, constant, instruction.opcode)
                instruction.replace_all_uses(constant)
                drop_dead(instruction)
                changed = True
        return changed


def _is_computed_empty(instruction: Instruction) -> bool:
    return (
        0 in instruction.shape.dimensions
        and instruction.shape.is_array
        and instruction.shape.is_static
        and instruction.opcode not in ("constant", "parameter")
        and not instruction.control_predecessors
        and is_pure(instruction)
    )
