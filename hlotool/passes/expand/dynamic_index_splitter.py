"""Dynamic index splitter: one scalar index for each dimension instead of a vector of indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import replace_with

__all__ = ["DynamicIndexSplitter"]


@dataclass(frozen=True, slots=True)
class DynamicIndexSplitter:
    """Rewrites dynamic-slice and dynamic-update-slice with a vector of indices, the old form, to scalar indices."""

    name: ClassVar[str] = "dynamic-index-splitter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dynamic-slice", "dynamic-update-slice"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for instruction in computation:
                first = {"dynamic-slice": 1, "dynamic-update-slice": 2}.get(instruction.opcode)
                if first is None or len(instruction.operands) != first + 1:
                    continue
                indices = instruction.operands[first]
                if indices.shape.rank != 1 or not log.allow():
                    continue
                build = Builder(computation, instruction, like=instruction)
                scalars = [
                    build.reshape(build.slice(indices, [d], [d + 1]), ()) for d in range(indices.shape.dimensions[0])
                ]
                operands = [*instruction.operands[:first], *scalars]
                result = build.add(instruction.opcode, instruction.shape, operands, instruction.attributes)
                log.rewrite("split", instruction, result, "an index for each dimension")
                replace_with(instruction, result)
                changed = True
        return changed
