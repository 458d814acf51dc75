"""triangular-solve: ``op(a) x = b`` or ``x op(a) = b`` for a batch of triangular matrices.

The right-hand sides are the lanes: a block of them is brought into scratch (transposed for the right-side form, which
is ``op(a)^T x^T = b^T``), solved by substitution in tiles of rows, and written back.  Only the named triangle of `a`
is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.linear import Matrix, Number, conjugate, divide, multiply_subtract, read, write
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function
from hlotool.codegen.llvm.arrays import aligned, share
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, is_float
from hlotool.codegen.llvm.memory import address_type
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr, minimum
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_triangular_solve"]

_ROWS: Annotated[int, Threshold("rows")] = 4  # that are solved together
_TASKS: Annotated[int, Threshold("tasks")] = 16  # into which the right-hand sides are divided, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solve:
    """``t x = b`` with ``t[i][k] = a[k][i]`` when `swapped`, conjugated when `conjugated`; x is m by n."""

    type: str
    m: int
    n: int
    left: bool
    swapped: bool
    conjugated: bool
    forward: bool
    unit: bool
    lanes: int
    vectors: int

    @property
    def block(self) -> int:
        return self.lanes * self.vectors

    @property
    def parts(self) -> int:
        return 2 if is_complex(self.type) else 1


def emit_triangular_solve(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``triangular-solve(a, b)`` with left_side, lower, unit_diagonal and transpose_a."""
    shape, attributes = instruction.shape, instruction.attributes
    element_type = shape.element_type
    if not is_complex(element_type) and not is_float(element_type):
        raise UnsupportedError(f"{instruction.name}: triangular-solve of {element_type}")
    if shape.size == 0:
        return empty_kernel(name, machine)
    left = bool(attributes.get("left_side"))
    transpose = attributes.get("transpose_a") or "NO_TRANSPOSE"
    m, n = shape.dimensions[-2:] if left else shape.dimensions[:-3:-1]
    swapped = (transpose != "NO_TRANSPOSE") == left
    widest = machine.lanes(BITS[compute_element(element_type)])
    lanes = min(widest, 1 << (n - 1).bit_length())
    solve = _Solve(
        type=element_type, m=m, n=n, left=left, swapped=swapped, conjugated=transpose == "ADJOINT",
        forward=bool(attributes.get("lower")) != swapped, unit=bool(attributes.get("unit_diagonal")),
        lanes=lanes, vectors=2 if n > lanes and not is_complex(element_type) else 1,
    )  # fmt: skip
    blocks, batch = -(-n // solve.block), prod(shape.dimensions[:-2])
    items = batch * blocks
    tasks = min(items, _TASKS)
    slot = aligned(Matrix.bytes(element_type, m, solve.block))
    unit = Unit(machine)
    f, (a, b, x, scratch) = step_function(unit, name, 4)
    task = begin_tasks(f)
    own = scratch + task.index * slot
    item = begin_loop(f, *share(task.index, items, tasks))
    number = item.index // blocks
    column = (item.index - number * blocks) * solve.block
    matrix = Matrix(own, compute_element(element_type), m, solve.block, solve.parts)
    _move(matrix, solve, b, number * (m * n), column, store_back=False)
    _substitute(matrix, solve, a, number * (m * m))
    _move(matrix, solve, x, number * (m * n), column, store_back=True)
    item.end()
    task.end()
    f.finish()
    work = m * m / 2 * solve.block / lanes * (4 if solve.parts == 2 else 1)
    return finish_kernel(unit, [Step(name, tasks, items * (work * 0.5 + m * solve.block))], slot * tasks)


def _move(matrix: Matrix, solve: _Solve, array: Ptr, base: Index, column: Index, store_back: bool) -> None:
    """Copy a block of right-hand sides between the array and scratch; columns that do not exist become zero there."""
    f, block = matrix.f, solve.block

    def move(place: Index, row: Index, column: Index, lanes: int) -> None:
        if store_back:
            write(array, solve.type, place, matrix.get(row, column, lanes))
        else:
            matrix.put(row, column, read(array, solve.type, place, lanes))

    width = minimum(solve.n - column, block)
    if not store_back and solve.n % block:
        matrix.pointer.clear(Matrix.bytes(solve.type, solve.m, block))
    row = begin_loop(f, 0, solve.m)
    first: Index = 0
    if solve.left:
        start = base + row.index * solve.n + column
        first = width & -solve.lanes if solve.n % block else block
        step = begin_loop(f, 0, first, solve.lanes)
        move(start + step.index, row.index, step.index, solve.lanes)
        step.end()
    if not solve.left or solve.n % block:
        rest = begin_loop(f, first, width)
        side = column + rest.index
        outer, inner, pitch = (row.index, side, solve.n) if solve.left else (side, row.index, solve.m)
        place = outer * pitch + inner
        move(base + place, row.index, rest.index, 1)
        rest.end()
    row.end()


def _substitute(matrix: Matrix, solve: _Solve, a: Ptr, base: Index) -> None:
    """Solve in place, `_ROWS` rows at a time.  Step s stands for row s, or for row m - 1 - s going backward."""
    whole = solve.m // _ROWS * _ROWS
    for first, stop, rows in ((0, whole, _ROWS), (whole, solve.m, 1)):
        if first < stop:
            tiles = begin_loop(matrix.f, first, stop, rows)
            _tile(matrix, solve, a, base, tiles.index, rows)
            tiles.end()


def _row(solve: _Solve, step: Index) -> Index:
    return step if solve.forward else solve.m - 1 - step


def _coefficients(solve: _Solve, a: Ptr, base: Index, i: Index) -> Ptr:
    """Where t[i] begins."""
    return a.at(address_type(solve.type), base + i * (1 if solve.swapped else solve.m))


def _coefficient(solve: _Solve, row: Ptr, k: Index) -> Number:
    """t[i][k] in all lanes, of the row that begins at `row`."""
    wide = [part.spread(solve.lanes) for part in read(row, solve.type, k * (solve.m if solve.swapped else 1))]
    return conjugate(wide) if solve.conjugated else wide


def _tile(matrix: Matrix, solve: _Solve, a: Ptr, base: Index, first: Index, rows: int) -> None:
    """Take the solved rows from `rows` more, then solve these among themselves."""
    lanes, vectors = solve.lanes, solve.vectors
    own = [_row(solve, first + r) for r in range(rows)]
    start = [_coefficients(solve, a, base, i) for i in own]
    places = [(r, v) for r in range(rows) for v in range(vectors)]
    tile = [matrix.get(own[r], v * lanes, lanes) for r, v in places]
    inner = begin_loop(matrix.f, 0, first, 1, *(part for number in tile for part in number))
    tile = matrix.numbers(inner.values)
    k = _row(solve, inner.index)
    known = [matrix.get(k, v * lanes, lanes) for v in range(vectors)]
    left = [_coefficient(solve, start[r], k) for r in range(rows)]
    result = [part for p, (r, v) in enumerate(places) for part in multiply_subtract(tile[p], left[r], known[v])]
    tile = matrix.numbers(inner.end(*result))
    for r in range(rows):
        pivot = None if solve.unit else _coefficient(solve, start[r], own[r])
        for v in range(vectors):
            value = tile[r * vectors + v]
            tile[r * vectors + v] = value = value if pivot is None else divide(value, pivot)
            matrix.put(own[r], v * lanes, value)
        for later in range(r + 1, rows):
            left_of = _coefficient(solve, start[later], own[r])
            for v in range(vectors):
                place = later * vectors + v
                tile[place] = multiply_subtract(tile[place], left_of, tile[r * vectors + v])
