"""Scan expander: scan as a loop, or as a windowed reduction."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import applied, blank, counted_loop

__all__ = ["ScanExpander", "scan"]

Values = list[Instruction]


@dataclass(frozen=True, slots=True)
class ScanExpander:
    """Rewrites scan as a loop over the places of its dimension, which carries the outputs and the carries."""

    name: ClassVar[str] = "scan-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"scan"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        expand = partial(scan, module)
        changed = expand_each(module, log, self.opcodes, expand, "expand", "a loop over the places of the dimension")
        if changed:
            module.remove_unreachable()
        return changed


def scan(module: Module, build: Builder, instruction: Instruction) -> Instruction:
    """What has the value of a scan, of its operands."""
    attributes = instruction.attributes
    (axis,) = attributes["dimensions"]
    split = len(instruction.operands) - attributes["num_carries"]
    inputs, carries = instruction.operands[:split], instruction.operands[split:]
    shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
    outputs = [blank(build, shape.element_type, shape.dimensions) for shape in shapes[: len(shapes) - len(carries)]]
    length = (inputs or outputs)[0].shape.dimensions[axis]
    first, second = len(outputs), len(outputs) + len(carries)

    def step(build: Builder, number: Instruction, state: Values) -> Values:
        if attributes.get("is_reverse"):
            number = build.binary("subtract", build.scalar_constant(length - 1, "s32"), number)
        arguments = [*(_at(build, one, axis, number) for one in state[second:]), *state[first:second]]
        values = applied(build, attributes["to_apply"], arguments)
        made = [_set(build, one, axis, number, value) for one, value in zip(state, values[:first], strict=False)]
        return [*made, *values[first:], *state[second:]]

    state = [*outputs, *carries, *inputs]
    after = counted_loop(module, build, length, state, step) if length else state
    return build.tuple(after[:second]) if instruction.shape.is_tuple else after[0]


def _starts(build: Builder, rank: int, axis: int, place: Instruction) -> Values:
    zero = build.scalar_constant(0, "s32")
    return [place if dimension == axis else zero for dimension in range(rank)]


def _at(build: Builder, whole: Instruction, axis: int, place: Instruction) -> Instruction:
    """The elements at a place along an axis, without it."""
    sizes = whole.shape.dimensions
    one = build.dynamic_slice(whole, _starts(build, len(sizes), axis, place), (*sizes[:axis], 1, *sizes[axis + 1 :]))
    return build.reshape(one, (*sizes[:axis], *sizes[axis + 1 :]))


def _set(build: Builder, whole: Instruction, axis: int, place: Instruction, value: Instruction) -> Instruction:
    sizes = value.shape.dimensions
    one = build.reshape(value, (*sizes[:axis], 1, *sizes[axis:]))
    return build.dynamic_update_slice(whole, one, _starts(build, whole.shape.rank, axis, place))
