"""Tree reduction rewriter: long sums in two levels, which lose less."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.simplify.algebra.contraction import is_identity, reducer_opcode

__all__ = ["TreeReductionRewriter"]


@dataclass(frozen=True, slots=True)
class TreeReductionRewriter:
    """Rewrites reductions of more than `window` elements of a dimension as a reduction of rows, and one of the rest.

    For targets that add one element after the other: the error of a sum grows with the square root of its length
    (Higham, "The accuracy of floating point summation", 1993).  Not in the default pipeline: the CPU kernels add in
    many lanes, and the algebraic simplifier joins the two levels again.
    """

    name: ClassVar[str] = "tree-reduction-rewriter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"reduce"})
    window: int = 32

    def run(self, module: Module, log: DecisionLog) -> bool:
        width = max(2, self.window)

        def tree(build: Builder, reduce: Instruction) -> Instruction | None:
            axis = _long_axis(reduce, width)
            return None if axis is None else _levels(build, reduce, axis, width)

        return expand_each(module, log, self.opcodes, tree, "tree", f"rows of {width}, then their results", static=True)


def _long_axis(reduce: Instruction, width: int) -> int | None:
    """The longest reduced dimension, where it is longer than `width` and the initial value changes nothing."""
    if len(reduce.operands) != 2:
        return None
    opcode = reducer_opcode(reduce.attributes["to_apply"])
    if opcode is None or not is_identity(opcode, reduce.operands[1]):
        return None
    sizes = reduce.operands[0].shape.dimensions
    longest = max(reduce.attributes["dimensions"], key=sizes.__getitem__, default=None)
    return longest if longest is not None and sizes[longest] > width else None


def _levels(build: Builder, reduce: Instruction, axis: int, width: int) -> Instruction:
    operand, initial = reduce.operands
    reducer = reduce.attributes["to_apply"]
    while (size := operand.shape.dimensions[axis]) > width:
        before, after = operand.shape.dimensions[:axis], operand.shape.dimensions[axis + 1 :]
        rows = -(-size // width)
        padding = [(0, rows * width - size if d == axis else 0) for d in range(operand.shape.rank)]
        padded = build.pad(operand, initial, padding) if rows * width > size else operand
        split = build.reshape(padded, (*before, rows, width, *after))
        operand = build.reduce(split, initial, [axis + 1], reducer)
    return build.reduce(operand, initial, list(reduce.attributes["dimensions"]), reducer)
