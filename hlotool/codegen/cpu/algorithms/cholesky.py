"""cholesky: the triangular factor of each Hermitian positive definite matrix of a batch.

The matrix is worked on as the upper factor U of ``A = U^H U`` in scratch, whose rows are contiguous for both triangles
asked for: panels of rows are factored, then subtracted from the rows below in register tiles (right-looking
blocked algorithm, Golub and Van Loan, Matrix Computations, 4.2).
A matrix that is not positive definite gives NaN throughout, as XLA's expander does.
"""

from __future__ import annotations

from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.linear import Matrix, conjugate, multiply_subtract, read, write
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function
from hlotool.codegen.llvm.arrays import aligned, share
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, is_float
from hlotool.codegen.llvm.memory import address_type
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr, constants, either, minimum, number, where
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_cholesky"]

_PANEL: Annotated[int, Threshold("columns")] = 16
"""Columns that are factored together; what is right of them is updated once for all of them."""
_ROWS: Annotated[int, Threshold("rows")] = 4  # that are updated together
_TASKS: Annotated[int, Threshold("matrices")] = 16  # that are factored at the same time


def emit_cholesky(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``cholesky(a), lower=``; the other triangle of the result is zero."""
    shape = instruction.shape
    element_type = shape.element_type
    if not is_complex(element_type) and not is_float(element_type):
        raise UnsupportedError(f"{instruction.name}: cholesky of {element_type}")
    if shape.size == 0:
        return empty_kernel(name, machine)
    n, batch = shape.dimensions[-1], prod(shape.dimensions[:-2])
    kind = compute_element(element_type)
    lanes = machine.lanes(BITS[kind])
    tile = lanes * (1 if is_complex(element_type) else 2)
    pitch, rows = -(-n // tile) * tile, n + _ROWS
    slot = aligned(Matrix.bytes(element_type, rows, pitch))
    tasks = min(batch, _TASKS)
    unit = Unit(machine)
    lower = bool(instruction.attributes.get("lower"))
    f, (source, target, scratch) = step_function(unit, name, 3)
    task = begin_tasks(f)
    own = scratch + task.index * slot
    item = begin_loop(f, *share(task.index, batch, tasks))
    own.clear(slot)
    matrix = Matrix(own, kind, rows, pitch, 2 if is_complex(element_type) else 1)
    base = item.index * (n * n)
    _load(matrix, element_type, source, base, n, lower)
    panel = begin_loop(f, 0, n, _PANEL)
    stop = minimum(panel.index + _PANEL, n)
    _factor_panel(matrix, panel.index, stop, lanes)
    _update(matrix, panel.index, stop, n, lanes, tile // lanes)
    panel.end()
    _store(matrix, element_type, target, base, n, lower)
    item.end()
    task.end()
    f.finish()
    work = n**3 / 3 / lanes * (4 if is_complex(element_type) else 1)
    return finish_kernel(unit, [Step(name, tasks, batch * (work * 0.5 + n * n))], slot * tasks)


def _load(matrix: Matrix, element_type: str, source: Ptr, base: Index, n: int, lower: bool) -> None:
    """The triangle that counts, as the upper one."""
    kind = address_type(element_type)
    row = begin_loop(matrix.f, 0, n)
    start = source.at(kind, base + row.index * (n + 1))
    column = begin_loop(matrix.f, row.index, n, 1, start)
    (place,) = column.values
    entry = read(place, element_type, 0)
    matrix.put(row.index, column.index, conjugate(entry) if lower else entry)
    column.end(place.at(kind, n if lower else 1))
    row.end()


def _factor_panel(matrix: Matrix, first: Index, stop: Index, lanes: int) -> None:
    """Rows [first, stop): every row is scaled, then taken from the rows of the panel below it."""
    f = matrix.f
    pivot = begin_loop(f, first, stop)
    k = pivot.index
    start = k & -lanes
    root = matrix.get(k, k)[0].sqrt()
    wide = root.spread(lanes)
    scale = begin_loop(f, start, matrix.pitch, lanes)
    matrix.put(k, scale.index, [part / wide for part in matrix.get(k, scale.index, lanes)])
    scale.end()
    matrix.put(k, k, [root, root.like(0.0)][: matrix.parts])
    row = begin_loop(f, k + 1, stop)
    factor = conjugate(matrix.spread(k, row.index, lanes))
    column = begin_loop(f, row.index & -lanes, matrix.pitch, lanes)
    old = matrix.get(row.index, column.index, lanes)
    matrix.put(row.index, column.index, multiply_subtract(old, factor, matrix.get(k, column.index, lanes)))
    column.end()
    row.end()
    pivot.end()


def _update(matrix: Matrix, first: Index, stop: Index, n: int, lanes: int, vectors: int) -> None:
    """Subtract the panel's part of ``U^H U`` from all rows below it, in tiles of rows by vectors."""
    f = matrix.f
    rows = begin_loop(f, stop, n, _ROWS)
    columns = begin_loop(f, rows.index & -lanes * vectors, matrix.pitch, lanes * vectors)
    ahead = [r * matrix.pitch + v * lanes for r in range(_ROWS) for v in range(vectors)]
    tile = [matrix.get(rows.index, columns.index, lanes, distance) for distance in ahead]
    inner = begin_loop(f, first, stop, 1, *(part for entry in tile for part in entry))
    tile = matrix.numbers(inner.values)
    right = [matrix.get(inner.index, columns.index, lanes, v * lanes) for v in range(vectors)]
    result = []
    for r in range(_ROWS):
        left = conjugate(matrix.spread(inner.index, rows.index, lanes, r))
        for v in range(vectors):
            result += multiply_subtract(tile[r * vectors + v], left, right[v])
    for entry, distance in zip(matrix.numbers(inner.end(*result)), ahead, strict=True):
        matrix.put(rows.index, columns.index, entry, distance)
    columns.end()
    rows.end()


def _store(matrix: Matrix, element_type: str, target: Ptr, base: Index, n: int, lower: bool) -> None:
    """Write the factor and the zeros opposite; NaN everywhere when a pivot is NaN."""
    f = matrix.f
    check = begin_loop(f, 0, n, 1, constants(f, "i1", [False]))
    (failed,) = check.values
    bad = matrix.get(check.index, check.index)[0].isnan()
    (failed,) = check.end(failed | bad)
    kind = address_type(element_type)
    row = begin_loop(f, 0, n)
    start = target.at(kind, base + row.index * n)
    column = begin_loop(f, 0, n, 1, number(f, row.index if lower else row.index * matrix.pitch), start)
    position, place = column.values
    i, j = (column.index, row.index) if lower else (row.index, column.index)
    entry = matrix.get(0, position)
    outside = i > j
    nan = entry[0].like(float("nan"))
    result = []
    for part in conjugate(entry) if lower else entry:
        inside = either(outside, part.like(0.0), part)
        result.append(where(failed, nan, inside))
    write(place, element_type, 0, result)
    column.end(position + (matrix.pitch if lower else 1), place.at(kind, 1))
    row.end()
