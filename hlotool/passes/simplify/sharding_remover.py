"""Remove annotations that mean nothing on one device."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.xla_annotations import IDENTITY_TARGETS, is_sink
from hlotool.ir import Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import erase

__all__ = ["ShardingRemover"]


@dataclass(frozen=True, slots=True)
class ShardingRemover:
    """Replaces sharding and placement custom calls by their operand, where the shapes agree, and drops sharding
    attributes, groups and sinks: the program runs on one device."""

    name: ClassVar[str] = "sharding-remover"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for instruction in computation:
                changed |= instruction.attributes.pop("sharding", None) is not None
                if is_sink(instruction) and not instruction.users and not instruction.is_root:
                    if log.allow():
                        log.rewrite("annotation", instruction, (), instruction.attributes["custom_call_target"])
                        erase(instruction)
                        changed = True
                    continue
                if not _is_annotation(instruction):
                    continue
                operand = instruction.operands[0]
                if not operand.shape.compatible(instruction.shape):
                    log.refuse("shapes-differ", instruction, f"{operand.shape} becomes {instruction.shape}")
                elif log.allow():
                    log.rewrite("annotation", instruction, operand, instruction.attributes["custom_call_target"])
                    instruction.replace_all_uses(operand)
                    computation.erase(instruction)
                    changed = True
        return changed


def _is_annotation(instruction: Instruction) -> bool:
    return (
        instruction.opcode == "custom-call"
        and len(instruction.operands) == 1
        and instruction.attributes.get("custom_call_target") in IDENTITY_TARGETS
    )
