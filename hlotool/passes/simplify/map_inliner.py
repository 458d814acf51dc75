"""Turn maps into elementwise operations on whole arrays."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, Shape
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import can_grow, drop_dead, has_sizes
from hlotool.passes.framework.rewriter import Rewriter

__all__ = ["MapInliner"]


@dataclass(frozen=True, slots=True)
class MapInliner:
    """Replaces a map by the operations of its computation, each on whole arrays.

    Needs a computation of elementwise operations and constants; other maps stay and are recorded.
    """

    name: ClassVar[str] = "map-inliner"
    opcodes: ClassVar[frozenset[str]] = frozenset({"map"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for instruction in calls_of(module, "map"):
            if has_sizes(instruction):
                continue
            callee: Computation = instruction.attributes["to_apply"]
            obstacle = _obstacle(callee)
            if obstacle is not None:
                log.refuse("not-elementwise", instruction, f"{obstacle.opcode} {obstacle.name} in {callee.name}")
            elif instruction.parent is not None and not can_grow(instruction.parent, callee):
                log.refuse("too-large", instruction, f"{callee.name} has grown by maps inside of it")
            elif log.allow():
                root = _spread(instruction, callee)
                log.rewrite("inline", instruction, root, f"maps {callee.name}")
                instruction.replace_all_uses(root)
                drop_dead(instruction)
                changed = True
        return changed


def _obstacle(callee: Computation) -> Instruction | None:
    """The first instruction that has no form on whole arrays."""
    for instruction in callee:
        simple = instruction.opcode in ("parameter", "constant") or instruction.has("elementwise")
        if not simple or not instruction.shape.is_scalar or instruction.called:
            return instruction
    return None


def _spread(instruction: Instruction, callee: Computation) -> Instruction:
    rewriter = Rewriter(instruction)
    sizes = instruction.shape.dimensions
    values: dict[Instruction, Instruction] = {}
    for inner in callee:
        shape = Shape(inner.shape.element_type, sizes, instruction.shape.layout)
        if inner.opcode == "parameter":
            values[inner] = instruction.operands[inner.parameter_number]
        elif inner.opcode == "constant":
            scalar = rewriter.make("constant", inner.shape, **inner.attributes)
            values[inner] = rewriter.broadcast(scalar, (), shape)
        else:
            operands = [values[o] for o in inner.operands]
            values[inner] = rewriter.make(inner.opcode, shape, *operands, **inner.attributes)
    return values[callee.root]
