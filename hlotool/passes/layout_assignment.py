"""Layout assignment: every array becomes row-major."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, Shape, UnsupportedError, row_major
from hlotool.ir.builder import Builder
from hlotool.passes.graph import replace_with

__all__ = ["LayoutAssignment"]


@dataclass(frozen=True, slots=True)
class LayoutAssignment:
    """Gives every array the row-major layout, the only one that the code generator knows.

    Layouts say where elements lie, not which they are, so for all opcodes but one this changes nothing.  A bitcast
    reads the bytes of one layout in another: it becomes the transposes and the reshape that do the same to the
    elements.  Products read transposed operands through strides and loops through their indices, so
    transposes need no layouts in order to vanish.
    """

    name: ClassVar[str] = "layout-assignment"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for instruction in computation:
                if instruction.opcode == "bitcast":
                    changed |= _expand_bitcast(instruction, log)
        for instruction in module.instructions():
            shape = _row_major(instruction.shape)
            if shape != instruction.shape:
                log.note("row-major", instruction, "the code generator works on row-major arrays")
                instruction.shape = shape
                changed = True
        return _entry_layout(module) or changed


def _expand_bitcast(bitcast: Instruction, log: DecisionLog) -> bool:
    source, target = bitcast.operands[0].shape, bitcast.shape
    if source.element_type != target.element_type or source.size != target.size:
        raise UnsupportedError(f"{bitcast.name}: a bitcast from {source} to {target} changes the elements")
    if source.layout is None or target.layout is None or (source.layout.is_row_major and target.layout.is_row_major):
        return False
    assert bitcast.parent is not None
    build = Builder(bitcast.parent, bitcast, like=bitcast)
    down = tuple(reversed(source.layout.minor_to_major))
    up = tuple(reversed(target.layout.minor_to_major))
    memory = build.transpose(bitcast.operands[0], down)
    memory = build.reshape(memory, [target.dimensions[d] for d in up])
    result = build.transpose(memory, sorted(range(len(up)), key=up.__getitem__))
    log.rewrite("bitcast-to-transpose", bitcast, result, "its layouts differ")
    replace_with(bitcast, result)
    return True


def _row_major(shape: Shape) -> Shape:
    if shape.elements:
        elements = tuple(_row_major(e) for e in shape.elements)
        return shape if elements == shape.elements else replace(shape, elements=elements)
    if not shape.is_array or shape.layout == row_major(shape.rank):
        return shape
    return shape.with_layout(row_major(shape.rank))


def _entry_layout(module: Module) -> bool:
    """The boundary speaks of logical arrays: its layouts are row-major too."""
    declared = module.attributes.get("entry_computation_layout")
    if declared is None:
        return False
    parameters, result = declared
    new = (tuple(_row_major(p) for p in parameters), _row_major(result))
    module.attributes["entry_computation_layout"] = new
    return bool(new != declared)
