"""Reduce-window rewriter: cumulative reductions over long dimensions in two levels."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, Window, WindowDimension
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.simplify.algebra.contraction import is_identity, reducer_opcode

__all__ = ["ReduceWindowRewriter"]


@dataclass(frozen=True, slots=True)
class ReduceWindowRewriter:
    """Rewrites cumulative reduce-windows longer than `base` as those of blocks of `base` and of the blocks' totals.

    The cost of a window reduction written as a loop over each window falls from n^2 to n * base.  Floats add up in
    another order.  Not in the default pipeline: the CPU code generator has kernels for cumulative reductions.
    """

    name: ClassVar[str] = "reduce-window-rewriter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"reduce-window"})
    base: int = 16

    def run(self, module: Module, log: DecisionLog) -> bool:
        base = max(2, self.base)

        def two_levels(build: Builder, instruction: Instruction) -> Instruction | None:
            axis = _cumulative_axis(instruction)
            if axis is None or instruction.shape.dimensions[axis] <= base:
                return None
            return _Levels(build, instruction, axis, base).cumulative(instruction.operands[0])

        reason = f"blocks of {base}, and the totals of the blocks"
        return expand_each(module, log, self.opcodes, two_levels, "two-levels", reason, static=True)


def _cumulative_axis(instruction: Instruction) -> int | None:
    """The dimension along which each result covers all elements up to it, or all from it on; None for other windows."""
    opcode = reducer_opcode(instruction.attributes["to_apply"]) if len(instruction.operands) == 2 else None
    if opcode is None or not is_identity(opcode, instruction.operands[1]):
        return None
    window: Window | None = instruction.attributes.get("window")
    rows = window.dimensions if window else ()
    long = [axis for axis, row in enumerate(rows) if row != WindowDimension(1)]
    if len(long) != 1:
        return None
    size = instruction.shape.dimensions[long[0]]
    ends = (WindowDimension(size, padding_low=size - 1), WindowDimension(size, padding_high=size - 1))
    return long[0] if rows[long[0]] in ends else None


class _Levels:
    """What the levels of one reduction have in common."""

    def __init__(self, build: Builder, instruction: Instruction, axis: int, base: int) -> None:
        self.build = build
        self.axis = axis
        self.base = base
        self.initial = instruction.operands[1]
        self.reducer = instruction.attributes["to_apply"]
        self.opcode = self.reducer.root.opcode
        self.forward = instruction.attributes["window"].dimensions[axis].padding_low > 0

    def cumulative(self, array: Instruction) -> Instruction:
        size = array.shape.dimensions[self.axis]
        if size <= self.base:
            return self.windows(array, self.axis)
        axis, before, after = self.axis, array.shape.dimensions[: self.axis], array.shape.dimensions[self.axis + 1 :]
        blocks = -(-size // self.base)
        padded = self.padded(array, 0, blocks * self.base - size)
        within = self.windows(self.build.reshape(padded, (*before, blocks, self.base, *after)), axis + 1)
        sizes = within.shape.dimensions
        starts, limits = [0] * len(sizes), list(sizes)
        starts[axis + 1] = self.base - 1 if self.forward else 0
        limits[axis + 1] = starts[axis + 1] + 1
        totals = self.build.reshape(self.build.slice(within, starts, limits), (*before, blocks, *after))
        totals = self.cumulative(totals)
        others = self.padded(totals, 1, -1) if self.forward else self.padded(totals, -1, 1)
        spread = self.build.broadcast(others, [d for d in range(len(sizes)) if d != axis + 1], sizes)
        joined = self.build.binary(self.opcode, spread, within)
        flat = self.build.reshape(joined, (*before, blocks * self.base, *after))
        return self.build.slice(flat, [0] * array.shape.rank, array.shape.dimensions)

    def padded(self, array: Instruction, low: int, high: int) -> Instruction:
        rows = [(low, high) if d == self.axis else (0, 0) for d in range(array.shape.rank)]
        return self.build.pad(array, self.initial, rows) if low or high else array

    def windows(self, array: Instruction, axis: int) -> Instruction:
        """The cumulative reduction along `axis`, by windows."""
        size = array.shape.dimensions[axis]
        row = (
            WindowDimension(size, padding_low=size - 1)
            if self.forward
            else WindowDimension(size, padding_high=size - 1)
        )
        rows = tuple(row if d == axis else WindowDimension(1) for d in range(array.shape.rank))
        attributes = {"window": Window(rows), "to_apply": self.reducer}
        return self.build.add("reduce-window", array.shape, [array, self.initial], attributes)
