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
from hlotool.codegen.cpu.algorithms.linear import Matrix, Number, conjugate, multiply_subtract, read, rounded, write
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import (
    Index,
    add,
    address,
    empty_kernel,
    minimum,
    multiply,
    quotient,
    splat,
    step_function,
)
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, is_float
from hlotool.codegen.llvm.memory import address_type
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector
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
    slot = -(-Matrix.bytes(element_type, rows, pitch) // 64) * 64
    tasks = min(batch, _TASKS)
    unit = Unit(machine)
    lower = bool(instruction.attributes.get("lower"))
    f, (source, target, scratch) = step_function(unit, name, 3)
    task = f.begin_loop("%begin", "%end")
    own = address(f, scratch, "i8", multiply(f, task.index, slot))
    first = quotient(f, multiply(f, task.index, batch), tasks)
    after = quotient(f, multiply(f, add(f, task.index, 1), batch), tasks)
    item = f.begin_loop(first, after)
    f.clear(own, slot)
    matrix = Matrix(f, own, kind, rows, pitch, 2 if is_complex(element_type) else 1)
    base = multiply(f, item.index, n * n)
    _load(matrix, element_type, source, base, n, lower)
    panel = f.begin_loop(0, n, _PANEL)
    stop = minimum(f, add(f, panel.index, _PANEL), n)
    _factor_panel(matrix, panel.index, stop, lanes)
    _update(matrix, panel.index, stop, n, lanes, tile // lanes)
    f.end_loop(panel)
    _store(matrix, element_type, target, base, n, lower)
    f.end_loop(item)
    f.end_loop(task)
    f.finish()
    work = n**3 / 3 / lanes * (4 if is_complex(element_type) else 1)
    return finish_kernel(unit, [Step(name, tasks, batch * (work * 0.5 + n * n))], slot * tasks)


def _load(matrix: Matrix, element_type: str, source: str, base: Index, n: int, lower: bool) -> None:
    """The triangle that counts, as the upper one."""
    f = matrix.f
    kind = address_type(element_type)
    row = f.begin_loop(0, n)
    start = address(f, source, kind, add(f, base, multiply(f, row.index, n + 1)))
    column = f.begin_loop(row.index, n, 1, [("ptr", start)])
    number = read(f, element_type, column.values[0], 0)
    matrix.put(row.index, column.index, conjugate(number) if lower else number)
    f.end_loop(column, [address(f, column.values[0], kind, n if lower else 1)])
    f.end_loop(row)


def _factor_panel(matrix: Matrix, first: Index, stop: Index, lanes: int) -> None:
    """Rows [first, stop): every row is scaled, then taken from the rows of the panel below it."""
    f = matrix.f
    pivot = f.begin_loop(first, stop)
    k = pivot.index
    start = f.let(f"and i64 {k}, {-lanes}")
    root = matrix.get(k, k)[0].sqrt()
    wide = Vector(f, matrix.kind, lanes, splat(f, matrix.kind, lanes, root.name))
    scale = f.begin_loop(start, matrix.pitch, lanes)
    matrix.put(k, scale.index, [part / wide for part in matrix.get(k, scale.index, lanes)])
    f.end_loop(scale)
    matrix.put(k, k, [root, root.like(0.0)][: matrix.parts])
    row = f.begin_loop(add(f, k, 1), stop)
    factor = conjugate(matrix.spread(k, row.index, lanes))
    own = f.let(f"and i64 {row.index}, {-lanes}")
    column = f.begin_loop(own, matrix.pitch, lanes)
    old = matrix.get(row.index, column.index, lanes)
    matrix.put(row.index, column.index, multiply_subtract(old, factor, matrix.get(k, column.index, lanes)))
    f.end_loop(column)
    f.end_loop(row)
    f.end_loop(pivot)


def _update(matrix: Matrix, first: Index, stop: Index, n: int, lanes: int, vectors: int) -> None:
    """Subtract the panel's part of ``U^H U`` from all rows below it, in tiles of rows by vectors."""
    f = matrix.f
    rows = f.begin_loop(stop, n, _ROWS)
    start = f.let(f"and i64 {rows.index}, {-lanes * vectors}")
    columns = f.begin_loop(start, matrix.pitch, lanes * vectors)
    tile: list[Number] = [
        matrix.get(rows.index, columns.index, lanes, r * matrix.pitch + v * lanes)
        for r in range(_ROWS)
        for v in range(vectors)
    ]
    kinds = [part.type for number in tile for part in number]
    inner = f.begin_loop(first, stop, 1, list(zip(kinds, [p.name for number in tile for p in number], strict=True)))
    names = iter(inner.values)
    tile = [[Vector(f, matrix.kind, lanes, next(names)) for _ in number] for number in tile]
    right = [matrix.get(inner.index, columns.index, lanes, v * lanes) for v in range(vectors)]
    result = []
    for r in range(_ROWS):
        left = conjugate(matrix.spread(inner.index, rows.index, lanes, r))
        result += [multiply_subtract(tile[r * vectors + v], left, right[v]) for v in range(vectors)]
    names = iter(f.end_loop(inner, [p.name for number in result for p in number]))
    for r in range(_ROWS):
        for v in range(vectors):
            done = [Vector(f, matrix.kind, lanes, next(names)) for _ in range(matrix.parts)]
            matrix.put(rows.index, columns.index, done, r * matrix.pitch + v * lanes)
    f.end_loop(columns)
    f.end_loop(rows)


def _store(matrix: Matrix, element_type: str, target: str, base: Index, n: int, lower: bool) -> None:
    """Write the factor and the zeros opposite; NaN everywhere when a pivot is NaN."""
    f = matrix.f
    check = f.begin_loop(0, n, 1, [("i1", "false")])
    bad = matrix.get(check.index, check.index)[0].isnan()
    (failed,) = f.end_loop(check, [f.let(f"or i1 {check.values[0]}, {bad.name}")])
    kind = address_type(element_type)
    row = f.begin_loop(0, n)
    start = address(f, target, kind, add(f, base, multiply(f, row.index, n)))
    first = row.index if lower else multiply(f, row.index, matrix.pitch)
    column = f.begin_loop(0, n, 1, [("i64", str(first)), ("ptr", start)])
    i, j = (column.index, row.index) if lower else (row.index, column.index)
    number = matrix.get(0, column.values[0])
    outside = f.let(f"icmp sgt i64 {i}, {j}")
    nan = number[0].like(float("nan"))
    result = []
    for part in conjugate(number) if lower else number:
        inside = part.let(f"select i1 {outside}, {part.type} {part.like(0.0).name}, {part.type} {part.name}")
        result.append(part.let(f"select i1 {failed}, {part.type} {nan.name}, {part.type} {inside.name}"))
    write(f, element_type, column.values[1], 0, rounded(element_type, result))
    following = add(f, column.values[0], matrix.pitch if lower else 1)
    f.end_loop(column, [str(following), address(f, column.values[1], kind, 1)])
    f.end_loop(row)
