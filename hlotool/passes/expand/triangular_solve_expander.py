"""Triangular-solve expander: substitution, row after row, in a loop."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import counted_loop

__all__ = ["TriangularSolveExpander", "conjugated", "swapped"]


@dataclass(frozen=True, slots=True)
class TriangularSolveExpander:
    """Rewrites triangular-solve as substitution (Golub and Van Loan, Matrix Computations, 3.1).

    One iteration solves one row of the unknowns: ``x[i] = (b[i] - a[i] @ x) / a[i, i]`` with the rows that are not
    yet solved at zero.  Floats narrower than f32 are computed in f32.  Not in the default pipeline: the CPU code
    generator has a blocked kernel.
    """

    name: ClassVar[str] = "triangular-solve-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"triangular-solve"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "substitution, row after row"
        return expand_each(module, log, self.opcodes, partial(_expanded, module), "expand", reason, static=True)


def swapped(build: Builder, a: Instruction) -> Instruction:
    """With the last two dimensions exchanged."""
    rank = a.shape.rank
    return build.transpose(a, [*range(rank - 2), rank - 1, rank - 2])


def conjugated(build: Builder, a: Instruction) -> Instruction:
    if not ELEMENT_TYPES[a.shape.element_type].is_complex:
        return a
    return build.binary("complex", build.unary("real", a), build.unary("negate", build.unary("imag", a)))


def _expanded(module: Module, build: Builder, solve: Instruction) -> Instruction:
    attributes = solve.attributes
    kind = solve.shape.element_type
    wide = "f32" if ELEMENT_TYPES[kind].bits < 32 else kind
    matrix, right = (o if o.shape.element_type == wide else build.convert(o, wide) for o in solve.operands)
    lower, left_side = bool(attributes.get("lower")), bool(attributes.get("left_side"))
    transpose = attributes.get("transpose_a") or "NO_TRANSPOSE"
    if transpose == "ADJOINT":
        matrix = conjugated(build, matrix)
    if (transpose != "NO_TRANSPOSE") == left_side:  # x op(a) = b is op(a)^T x^T = b^T
        matrix, lower = swapped(build, matrix), not lower
    columns = right if left_side else swapped(build, right)
    found = _substituted(module, build, matrix, columns, lower, bool(attributes.get("unit_diagonal")))
    found = found if left_side else swapped(build, found)
    return found if wide == kind else build.convert(found, kind)


def _substituted(
    module: Module, build: Builder, matrix: Instruction, right: Instruction, lower: bool, unit_diagonal: bool
) -> Instruction:
    sizes = matrix.shape.dimensions
    size, rank = sizes[-1], len(sizes)
    if not right.shape.size:
        return right
    row, column = (build.iota(array("s32", sizes), rank - 2 + axis) for axis in (0, 1))
    known = build.compare(row, column, "GT" if lower else "LT")
    others = build.select(known, matrix, build.splat(0, matrix.shape))
    batch = range(rank - 2)

    def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        solution, right, matrix, others = state
        zero = build.scalar_constant(0, "s32")
        index = number if lower else build.binary("subtract", build.scalar_constant(size - 1, "s32"), number)
        starts = [*(zero for _ in batch), index, zero]
        wanted = build.dynamic_slice(right, starts, (*sizes[:-2], 1, right.shape.dimensions[-1]))
        factors = build.dynamic_slice(others, starts, (*sizes[:-2], 1, size))
        sums = build.dot(factors, solution, ([rank - 1], [rank - 2]), (list(batch), list(batch)))
        solved = build.binary("subtract", wanted, sums)
        if not unit_diagonal:
            place = [*(zero for _ in batch), index, index]
            pivot = build.dynamic_slice(matrix, place, (*sizes[:-2], 1, 1))
            narrow = build.reshape(pivot, sizes[:-2])
            solved = build.binary("divide", solved, build.broadcast(narrow, tuple(batch), solved.shape.dimensions))
        return [build.dynamic_update_slice(solution, solved, starts), right, matrix, others]

    nothing = build.splat(0, array(right.shape.element_type, right.shape.dimensions))
    return counted_loop(module, build, size, [nothing, right, matrix, others], step)[0]
