"""Look through tuples."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import drop_dead

__all__ = ["TupleSimplifier"]


@dataclass(frozen=True, slots=True)
class TupleSimplifier:
    """Removes tuples that are only taken apart again.

    ``get-tuple-element(tuple(a, b), index=i)`` is the element; ``tuple(get-tuple-element(t, 0), ...)`` over all
    elements of t in order is t.  The root of the entry stays a tuple when `entry-root` is false.
    """

    name: ClassVar[str] = "tuple-simplifier"
    opcodes: ClassVar[frozenset[str]] = frozenset({"tuple", "get-tuple-element"})
    entry_root: bool = False

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for instruction in computation if not self.opcodes.isdisjoint(computation.opcodes) else ():
                found = self._replacement(instruction, module.entry)
                if found is None or instruction.control_predecessors or not log.allow():
                    continue
                log.rewrite(
                    "tuple-of-elements" if instruction.opcode == "tuple" else "element-of-tuple", instruction, found
                )
                instruction.replace_all_uses(found)
                drop_dead(instruction)
                changed = True
        return changed

    def _replacement(self, instruction: Instruction, entry: Computation) -> Instruction | None:
        if instruction.opcode == "get-tuple-element" and instruction.operands[0].opcode == "tuple":
            index: int = instruction.attributes["index"]
            return instruction.operands[0].operands[index]
        if instruction.opcode == "tuple" and instruction.operands:
            if instruction.is_root and instruction.parent is entry and not self.entry_root:
                return None
            return _whole(instruction)
        return None


def _whole(instruction: Instruction) -> Instruction | None:
    """The tuple whose elements, all and in order, `instruction` puts together again."""
    first = instruction.operands[0]
    if first.opcode != "get-tuple-element":
        return None
    source = first.operands[0]
    if len(source.shape.elements) != len(instruction.operands) or source.shape != instruction.shape:
        return None
    for index, operand in enumerate(instruction.operands):
        if (
            operand.opcode != "get-tuple-element"
            or operand.operands[0] is not source
            or operand.attributes["index"] != index
        ):
            return None
    return source
