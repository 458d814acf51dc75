"""Reduce-window splitter: windows of many elements in steps of few."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod
from typing import Annotated, ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Module, Window, WindowDimension, array
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import places
from hlotool.passes.framework.graph import replace_with
from hlotool.passes.simplify.algebra.contraction import is_identity, reducer_opcode

__all__ = ["ReduceWindowSplitter"]

_IDEMPOTENT = frozenset({"maximum", "minimum", "and", "or"})
_PASS: Annotated[int, Threshold("cost")] = 3
"""What going over an array costs, in operations on its elements."""
_GAIN: Annotated[float, Threshold("times")] = 1.3
"""How many times as long one step takes that is worth splitting."""
_MOST: Annotated[int, Threshold("elements")] = 32
"""Elements of a window that are taken in one step, at most, where it has several."""
_WHOLE: Annotated[int, Threshold("elements")] = 8
"""A dimension of a window with fewer elements is taken in one step."""


@dataclass(frozen=True, slots=True)
class ReduceWindowSplitter:
    """Rewrites a reduce-window with many elements in each window as several with few, one after the other.

    A window over several dimensions is one over each of them; a window of a * b elements is one of a, and one of b
    results of those, which lie a apart.  Windows of w elements cost about 2 * sqrt(w) operations that way, or less,
    where one after the other they cost w.  That holds for one array, and for sums, products, extremes and bit
    operations from a value that changes nothing; sums and products of narrow floats are kept in f32 between the steps
    (floats add up in another order).  Cumulative reductions stay: they have a kernel of their own.

    Windows of fewer than `least` elements stay, and those for which the steps would not pay.
    """

    name: ClassVar[str] = "reduce-window-splitter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"reduce-window"})
    least: int = 16

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for build, instruction in places(module, log, self.opcodes):
            axes = _axes(instruction, max(4, self.least))
            if axes is None:
                continue
            taps = prod(row.size for row in instruction.attributes["window"].dimensions)
            result, steps = _split(module, build, instruction, axes)
            log.rewrite("steps", instruction, result, "windows of fewer elements", elements=taps, steps=steps)
            replace_with(instruction, result)
            changed = True
        return changed


@dataclass(frozen=True, slots=True)
class _Split:
    """A window of `first` elements, then one of `second` results of it that lie `apart`, and `rest` more elements.

    `cost` is that of each result, in operations.  A window that stays whole has `second` 1.
    """

    cost: int
    first: int
    second: int = 1
    apart: int = 1
    rest: int = 0


def _axes(instruction: Instruction, least: int) -> list[int] | None:
    """The dimensions to go along, in order, where that costs clearly less than the whole window; else None."""
    if len(instruction.operands) != 2 or not instruction.shape.is_static or instruction.shape.size == 0:
        return None
    opcode = reducer_opcode(instruction.attributes["to_apply"])
    window: Window | None = instruction.attributes.get("window")
    if opcode is None or window is None or not is_identity(opcode, instruction.operands[1]):
        return None
    rows = window.dimensions
    taps = prod(row.size for row in rows)
    if taps < least or any(row.base_dilation != 1 for row in rows):
        return None
    sizes = list(instruction.operands[0].shape.dimensions)
    axes = [axis for axis, row in enumerate(rows) if row != WindowDimension(1)]
    axes.sort(key=lambda axis: instruction.shape.dimensions[axis] / sizes[axis])  # what leaves fewer elements first
    cost = 0
    for axis in axes:
        row = rows[axis]
        one_by_one = _is_cumulative(row, sizes[axis])
        sizes[axis] = row.output_size(sizes[axis])
        each = _PASS if one_by_one else _best(row.size, row.stride, opcode in _IDEMPOTENT).cost
        cost += prod(sizes) * each
        if one_by_one and len(axes) == 1:
            return None
    return axes if instruction.shape.size * (taps + _PASS) >= _GAIN * cost else None


def _is_cumulative(row: WindowDimension, size: int) -> bool:
    """Whether all windows reach over the beginning of the array, or over its end."""
    if row.stride != 1 or row.window_dilation != 1:
        return False
    return row.output_size(size) - 1 <= row.padding_low or row.size - 1 - row.padding_low >= size - 1


@cache
def _best(size: int, stride: int, overlapping: bool) -> _Split:
    """The cheapest way to reduce windows of `size`; where elements may count twice, its parts may overlap."""
    best = _Split(size + _PASS, size)
    if size < _WHOLE:
        return best
    for first in range(2, min(size // 2, _MOST) + 1):
        second, rest, apart = size // first, size % first, first
        if overlapping and rest:
            second = -(-size // first)
            if (size - first) % (second - 1):
                continue
            rest, apart = 0, (size - first) // (second - 1)
        cost = (first + _PASS) * stride + _best(second, stride, overlapping).cost
        if rest:
            cost += _best(rest, stride, overlapping).cost
        if cost < best.cost:
            best = _Split(cost, first, second, apart, rest)
    return best


class _Steps:
    """The steps of one reduce-window."""

    def __init__(self, build: Builder, reducer: Computation, initial: Instruction) -> None:
        self.build = build
        self.reducer = reducer
        self.initial = initial
        self.opcode = reducer.root.opcode
        self.count = 0

    def along(self, operand: Instruction, axis: int, row: WindowDimension) -> Instruction:
        """The windows `row` of `operand` along a dimension."""
        size = operand.shape.dimensions[axis]
        split = _best(row.size, row.stride, self.opcode in _IDEMPOTENT)
        if split.second == 1 or _is_cumulative(row, size):
            return self.window(operand, axis, row)
        step = row.window_dilation
        short = replace(row, size=split.first, stride=1, padding_high=row.padding_high - split.rest * step)
        inner = self.window(operand, axis, short)
        outer = WindowDimension(split.second, row.stride, window_dilation=step * split.apart)
        result = self.along(inner, axis, outer)
        if split.rest:
            skipped = split.first * split.second * step
            left = replace(row, size=split.rest, padding_low=row.padding_low - skipped)
            result = self.build.binary(self.opcode, result, self.along(operand, axis, left))
        return result

    def window(self, operand: Instruction, axis: int, row: WindowDimension) -> Instruction:
        rows = tuple(row if d == axis else WindowDimension(1) for d in range(operand.shape.rank))
        sizes = [one.output_size(n) for one, n in zip(rows, operand.shape.dimensions, strict=True)]
        attributes = {"window": Window(rows), "to_apply": self.reducer}
        self.count += 1
        shape = array(operand.shape.element_type, sizes)
        return self.build.add("reduce-window", shape, (operand, self.initial), attributes)


def _split(module: Module, build: Builder, instruction: Instruction, axes: list[int]) -> tuple[Instruction, int]:
    """The result of the steps, and their number."""
    operand, initial = instruction.operands
    reducer: Computation = instruction.attributes["to_apply"]
    opcode, kind = reducer.root.opcode, instruction.shape.element_type
    row = ELEMENT_TYPES[kind]
    if opcode in ("add", "multiply") and row.is_float and row.bits < 32:
        operand, initial = build.convert(operand, "f32"), build.convert(initial, "f32")
        reducer = module.add(binary_computation(opcode, "f32", module.unique_name(f"{opcode}_f32")))
    steps = _Steps(build, reducer, initial)
    for axis in axes:
        operand = steps.along(operand, axis, instruction.attributes["window"].dimensions[axis])
    return (operand if operand.shape.element_type == kind else build.convert(operand, kind)), steps.count
