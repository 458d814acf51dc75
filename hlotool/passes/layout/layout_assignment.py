"""Layout assignment: every array becomes row-major."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import (
    ELEMENT_TYPES,
    Instruction,
    Module,
    Move,
    Shape,
    UnsupportedError,
    array,
    row_major,
    storage_moves,
)
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import has_sizes, replace_with

__all__ = ["LayoutAssignment"]


@dataclass(frozen=True, slots=True)
class LayoutAssignment:
    """Gives every array the row-major layout, the only one that the code generator knows.

    Layouts say where elements lie, not which they are, so for all opcodes but one this changes nothing.  A bitcast
    reads the bytes of one layout and type in another: it becomes the transposes, reshapes and bitcast-convert that do
    the same to the elements.  Products read transposed operands through strides and loops through their indices, so
    transposes need no layouts in order to vanish.
    """

    name: ClassVar[str] = "layout-assignment"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        kept = set[Instruction]()
        for computation in module.computations.values():
            for instruction in computation:
                if instruction.opcode != "bitcast":
                    continue
                if has_sizes(instruction):  # a matter for dynamic-padder, which needs the layouts
                    kept |= {instruction, *instruction.operands}
                else:
                    changed |= _expand_bitcast(instruction, log)
        for instruction in module.instructions():
            shape = _row_major(instruction.shape)
            if shape is not instruction.shape and instruction not in kept:
                log.note("row-major", instruction, "the code generator works on row-major arrays")
                instruction.shape = shape
                changed = True
        return _entry_layout(module) or changed


def _expand_bitcast(bitcast: Instruction, log: DecisionLog) -> bool:
    source, target = bitcast.operands[0].shape, bitcast.shape
    down, up = storage_moves(source), storage_moves(target)
    if source.element_type == target.element_type and not down and not up:
        return False
    assert bitcast.parent is not None
    build = Builder(bitcast.parent, bitcast, like=bitcast)
    if source.size * target.size == 0:
        result = build.splat(0, target)
    else:
        memory = _to_memory(build, bitcast.operands[0], down)
        if source.element_type != target.element_type:
            memory = _reinterpreted(build, memory, target.element_type)
        if memory.shape.size != prod(up[-1].result if up else target.dimensions):
            message = f"{bitcast.name}: a bitcast from {source} to {target} whose layouts take different space"
            raise UnsupportedError(message)
        result = _from_memory(build, memory, target, up)
    log.rewrite("bitcast-to-transpose", bitcast, result, "its layouts or types differ")
    replace_with(bitcast, result)
    return True


def _to_memory(build: Builder, value: Instruction, moves: Sequence[Move]) -> Instruction:
    for move in moves:
        if move.kind == "transpose":
            value = build.transpose(value, move.argument)
        elif move.kind == "pad":
            filler = build.scalar_constant(0, value.shape.element_type)
            ends = zip(move.argument, move.sizes, strict=True)
            value = build.pad(value, filler, [(0, full - size) for full, size in ends])
        else:
            value = build.reshape(value, move.argument)
    return value


def _from_memory(build: Builder, memory: Instruction, target: Shape, moves: Sequence[Move]) -> Instruction:
    value = build.reshape(memory, moves[-1].result if moves else target.dimensions)
    for move in reversed(moves):
        if move.kind == "transpose":
            value = build.transpose(value, sorted(range(len(move.argument)), key=move.argument.__getitem__))
        elif move.kind == "pad":
            value = build.slice(value, [0] * len(move.sizes), move.sizes)
        else:
            value = build.reshape(value, move.sizes)
    return value


def _reinterpreted(build: Builder, memory: Instruction, element_type: str) -> Instruction:
    """The elements of a row-major array, in groups where they are narrower, as a vector of another type."""
    if memory.shape.element_type == "pred":  # a byte each
        memory = build.convert(memory, "u8")
    own = "u8" if element_type == "pred" else element_type
    have, want = (ELEMENT_TYPES[t].bits for t in (memory.shape.element_type, own))
    count = memory.shape.size
    if have < want:
        memory = build.reshape(memory, (count * have // want, want // have))
        result = build.bitcast_convert(memory, array(own, memory.shape.dimensions[:1]))
    else:
        memory = build.reshape(memory, (count,))
        result = build.bitcast_convert(memory, array(own, (count,) if have == want else (count, have // want)))
    return build.convert(result, "pred") if element_type == "pred" else result


def _row_major(shape: Shape) -> Shape:
    if shape.elements:
        elements = tuple([_row_major(e) for e in shape.elements])
        same = all(new is old for new, old in zip(elements, shape.elements, strict=True))
        return shape if same else replace(shape, elements=elements)
    layout = row_major(len(shape.dimensions))
    if shape.layout is layout or not shape.is_array or shape.layout == layout:
        return shape
    return shape.with_layout(layout)


def _entry_layout(module: Module) -> bool:
    """The boundary speaks of logical arrays: its layouts are row-major too."""
    declared = module.attributes.get("entry_computation_layout")
    if declared is None:
        return False
    parameters, result = declared
    new = (tuple(_row_major(p) for p in parameters), _row_major(result))
    module.attributes["entry_computation_layout"] = new
    return bool(new != declared)
