"""Cholesky factors by blocks of threads: one for each matrix of a batch.

As for the processor (`hlotool.codegen.algorithms.linear`) a matrix is worked on as the upper factor U of ``A = U^H U``
in scratch memory.  Row after row is scaled, and taken from all that is below it; threads wait in between.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hlotool.codegen.algorithms.linear import Matrix, conjugate, multiply_subtract, write_number
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import Grid, open_grid
from hlotool.codegen.gpu.items import THREADS
from hlotool.codegen.gpu.spaces import counters
from hlotool.codegen.kernel import Kernel, Note
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.arrays import aligned, load
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.math.elements import is_complex, is_float, parts
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, either, number, zeros
from hlotool.codegen.llvm.writer import Unit
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_cholesky"]

_SIDE = 16
"""Threads of a block along the rows that are updated, and along their columns."""


def emit_cholesky(name: str, instruction: Instruction, chip: Chip) -> Kernel:
    """The kernel of ``cholesky(a), lower=``; the other triangle of the result is zero."""
    shape = instruction.shape
    kind = shape.element_type
    if not is_complex(kind) and not is_float(kind):
        raise UnsupportedError(f"{instruction.name}: cholesky of {kind}")
    if shape.size == 0:
        return empty_kernel(name, chip.machine)
    n, lower = shape.dimensions[-1], bool(instruction.attributes.get("lower"))
    batch, slot = prod(shape.dimensions[:-2]), aligned(Matrix.bytes(kind, n, n))
    unit = Unit(chip.machine)
    grid = open_grid(unit, name, chip, batch, THREADS, 3)
    item = grid.block
    matrix = Matrix(grid.argument(2) + item * slot, kind, n, n)
    _bring(grid, matrix, item * (n * n), lower)
    row = begin_loop(grid.f, 0, n)
    _scale(grid, matrix, row.index)
    _take_from_below(grid, matrix, row.index)
    row.end()
    _write(grid, matrix, item * (n * n), lower)
    note = Note("block-per-matrix", "its threads share the rows of a matrix", (("blocks", batch), ("rows", n)))
    scratch = batch * slot
    kernel = finish_kernel(unit, [grid.finish()], scratch, (("matrices that are being factored", scratch),))
    return replace(kernel, notes=(note,))


def _bring(grid: Grid, matrix: Matrix, base: Index, lower: bool) -> None:
    """The triangle that counts, as the upper one."""
    n = matrix.rows
    with grid.phase() as thread:
        own = begin_loop(grid.f, thread, n * n, THREADS)
        row, column = counters(own.index, [n, n])

        def bring() -> None:
            place = number(grid.f, base) + (column * n + row if lower else row * n + column)
            entry = parts(load(grid.argument(0), matrix.type, place))
            matrix.put(row, column, conjugate(entry) if lower else entry)

        when(number(grid.f, column) >= row, bring)
        own.end()


def _scale(grid: Grid, matrix: Matrix, row: Index) -> None:
    """Divide what is right of the diagonal by the root of what is on it, which stays until all have read it."""
    with grid.phase() as thread:
        root = matrix.get(row, row)[0].sqrt()
        column = begin_loop(grid.f, number(grid.f, row).plus(1).plus(thread), matrix.rows, THREADS)
        matrix.put(row, column.index, tuple(part / root for part in matrix.get(row, column.index)))
        column.end()


def _take_from_below(grid: Grid, matrix: Matrix, row: Index) -> None:
    """Subtract the part of a row from all rows below it; put the root to the diagonal."""
    f, n = grid.f, matrix.rows
    with grid.phase() as thread:

        def put_root() -> None:
            root = matrix.get(row, row)[0].sqrt()
            matrix.put(row, row, (root, root.like(0.0))[: matrix.parts])

        when(thread.eq(0), put_root)
        first = number(f, row).plus(1)
        below = begin_loop(f, first.plus(thread // _SIDE), n, THREADS // _SIDE)
        factor = conjugate(matrix.get(row, below.index))
        column = begin_loop(f, first + thread % _SIDE, n, _SIDE)

        def subtract() -> None:
            old = matrix.get(below.index, column.index)
            matrix.put(below.index, column.index, multiply_subtract(old, factor, matrix.get(row, column.index)))

        when(number(f, column.index) >= below.index, subtract)
        column.end()
        below.end()


def _write(grid: Grid, matrix: Matrix, base: Index, lower: bool) -> None:
    """Write the factor and the zeros opposite; NaN everywhere when a pivot is NaN."""
    f, n = grid.f, matrix.rows
    with grid.phase(last=True) as thread:
        check = begin_loop(f, 0, n, 1, zeros(f, "i1"))
        (failed,) = check.values
        (failed,) = check.end(failed | matrix.get(check.index, check.index)[0].isnan())
        own = begin_loop(f, thread, n * n, THREADS)
        row, column = counters(own.index, [n, n])
        i, j = (column, row) if lower else (row, column)
        inside = number(f, i) <= j
        entry = matrix.get(i, j)
        factor = conjugate(entry) if lower else entry
        bad = failed.bit()
        values = [either(bad, part.like(float("nan")), either(inside, part, part.like(0.0))) for part in factor]
        write_number(grid.argument(1), matrix.type, number(f, base) + own.index, values)
        own.end()
