"""Dynamic index splitter: one scalar index for each dimension instead of a vector of indices."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["DynamicIndexSplitter"]


@dataclass(frozen=True, slots=True)
class DynamicIndexSplitter:
    """Rewrites dynamic-slice and dynamic-update-slice with a vector of indices, the old form, to scalar indices."""

    name: ClassVar[str] = "dynamic-index-splitter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dynamic-slice", "dynamic-update-slice"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _split, "split", "an index for each dimension")


def _split(build: Builder, instruction: Instruction) -> Instruction | None:
    first = 1 if instruction.opcode == "dynamic-slice" else 2
    arrays, indices = instruction.operands[:first], instruction.operands[first:]
    if len(indices) != 1 or indices[0].shape.rank != 1:
        return None
    count = indices[0].shape.dimensions[0]
    scalars = [build.reshape(build.slice(indices[0], [d], [d + 1]), ()) for d in range(count)]
    return build.add(instruction.opcode, instruction.shape, [*arrays, *scalars], instruction.attributes)
