"""Cholesky expander: the factor, column after column, in a loop."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.expand.triangular_solve_expander import conjugated, swapped
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import counted_loop

__all__ = ["CholeskyExpander"]


@dataclass(frozen=True, slots=True)
class CholeskyExpander:
    """Rewrites cholesky as a loop over columns (Golub and Van Loan, Matrix Computations, 4.2).

    ``c = a[:, j] - l @ conj(l[j, :])`` with the columns that are not yet known at zero, then ``l[j:, j] = c[j:] /
    sqrt(c[j])``.  A matrix that is not positive semidefinite gives NaN throughout.  Floats narrower than f32 are
    computed in f32.  Not in the default pipeline: the CPU code generator has a blocked kernel.
    """

    name: ClassVar[str] = "cholesky-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"cholesky"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "one column after the other"
        return expand_each(module, log, self.opcodes, partial(_expanded, module), "expand", reason, static=True)


def _expanded(module: Module, build: Builder, cholesky: Instruction) -> Instruction:
    kind = cholesky.shape.element_type
    wide = "f32" if ELEMENT_TYPES[kind].bits < 32 else kind
    lower = bool(cholesky.attributes.get("lower"))
    matrix = cholesky.operands[0] if wide == kind else build.convert(cholesky.operands[0], wide)
    if not matrix.shape.size:
        return cholesky.operands[0]
    if not lower:
        matrix = conjugated(build, swapped(build, matrix))
    factor = _factor(module, build, matrix)
    if not lower:
        factor = conjugated(build, swapped(build, factor))
    return factor if wide == kind else build.convert(factor, kind)


def _factor(module: Module, build: Builder, matrix: Instruction) -> Instruction:
    """Lower factors from lower triangles."""
    sizes, kind = matrix.shape.dimensions, matrix.shape.element_type
    size, rank = sizes[-1], len(sizes)
    batch = list(range(rank - 2))
    column_sizes = (*sizes[:-1], 1)
    real = {"c64": "f32", "c128": "f64"}.get(kind, kind)

    def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        factor, matrix = state
        zero = build.scalar_constant(0, "s32")
        none = [zero for _ in batch]
        column = build.dynamic_slice(matrix, [*none, zero, number], column_sizes)
        row = conjugated(build, build.dynamic_slice(factor, [*none, number, zero], (*sizes[:-2], 1, size)))
        product = build.dot(factor, row, ([rank - 1], [rank - 1]), (batch, batch))
        rest = build.binary("subtract", column, product)
        pivot = build.dynamic_slice(rest, [*none, number, zero], (*sizes[:-2], 1, 1))
        root = build.unary("sqrt", pivot if kind == real else build.unary("real", pivot))
        root = root if kind == real else build.convert(root, kind)
        divisor = build.broadcast(build.reshape(root, sizes[:-2]), tuple(batch), column_sizes)
        place = build.iota(array("s32", column_sizes), rank - 2)
        at = build.broadcast(number, (), column_sizes)
        below = build.select(
            build.compare(place, at, "GT"), build.binary("divide", rest, divisor),
            build.splat(0, array(kind, column_sizes)),
        )  # fmt: skip
        found = build.select(build.compare(place, at, "EQ"), divisor, below)
        return [build.dynamic_update_slice(factor, found, [*none, zero, number]), matrix]

    nothing = build.splat(0, array(kind, sizes))
    factor = counted_loop(module, build, size, [nothing, matrix], step)[0]
    return _spoiled(module, build, factor, real)


def _spoiled(module: Module, build: Builder, factor: Instruction, real: str) -> Instruction:
    """The factor, NaN throughout where its diagonal has a NaN."""
    sizes, kind = factor.shape.dimensions, factor.shape.element_type
    rank = len(sizes)
    row, column = (build.iota(array("s32", sizes), rank - 2 + axis) for axis in (0, 1))
    parts = factor if kind == real else build.unary("real", factor)
    failed = build.binary("and", build.compare(parts, parts, "NE"), build.compare(row, column, "EQ"))
    false = build.constant(False, "pred")
    any_failed = build.reduce(failed, false, [rank - 2, rank - 1], module.add(binary_computation("or", "pred")))
    everywhere = build.broadcast(any_failed, tuple(range(rank - 2)), sizes)
    return build.select(everywhere, build.splat(float("nan"), array(kind, sizes)), factor)
