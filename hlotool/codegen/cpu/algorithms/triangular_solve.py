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
from hlotool.codegen.cpu.algorithms.linear import (
    Matrix,
    Number,
    conjugate,
    divide,
    multiply_subtract,
    read,
    rounded,
    write,
)
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import (
    Index,
    add,
    address,
    empty_kernel,
    load,
    minimum,
    multiply,
    quotient,
    splat,
    step_function,
    store,
    subtract,
)
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, is_float
from hlotool.codegen.llvm.memory import address_type
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_triangular_solve"]

_ROWS: Annotated[int, Threshold("rows")] = 4  # that are solved together
_TASKS: Annotated[int, Threshold("tasks")] = 16  # into which the right-hand sides are divided, at most


@dataclass(frozen=True, slots=True)
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
        element_type, m, n, left, swapped, transpose == "ADJOINT", bool(attributes.get("lower")) != swapped,
        bool(attributes.get("unit_diagonal")), lanes, 2 if n > lanes and not is_complex(element_type) else 1,
    )  # fmt: skip
    blocks, batch = -(-n // solve.block), prod(shape.dimensions[:-2])
    items = batch * blocks
    tasks = min(items, _TASKS)
    slot = -(-Matrix.bytes(element_type, m, solve.block) // 64) * 64
    unit = Unit(machine)
    f, (a, b, x, scratch) = step_function(unit, name, 4)
    task = f.begin_loop("%begin", "%end")
    own = address(f, scratch, "i8", multiply(f, task.index, slot))
    first = quotient(f, multiply(f, task.index, items), tasks)
    after = quotient(f, multiply(f, add(f, task.index, 1), items), tasks)
    item = f.begin_loop(first, after)
    number = quotient(f, item.index, blocks)
    column = multiply(f, subtract(f, item.index, multiply(f, number, blocks)), solve.block)
    matrix = Matrix(f, own, compute_element(element_type), m, solve.block, solve.parts)
    _move(matrix, solve, b, multiply(f, number, m * n), column, store_back=False)
    _substitute(matrix, solve, a, multiply(f, number, m * m))
    _move(matrix, solve, x, multiply(f, number, m * n), column, store_back=True)
    f.end_loop(item)
    f.end_loop(task)
    f.finish()
    work = m * m / 2 * solve.block / lanes * (4 if solve.parts == 2 else 1)
    return finish_kernel(unit, [Step(name, tasks, items * (work * 0.5 + m * solve.block))], slot * tasks)


def _move(matrix: Matrix, solve: _Solve, array: str, base: Index, column: Index, store_back: bool) -> None:
    """Copy a block of right-hand sides between the array and scratch; columns that do not exist become zero there."""
    f, block = matrix.f, solve.block
    width = minimum(f, subtract(f, solve.n, column), block)
    if not store_back and solve.n % block:
        f.clear(matrix.pointer, Matrix.bytes(solve.type, solve.m, block))
    row = f.begin_loop(0, solve.m)
    if solve.left:
        start = add(f, add(f, base, multiply(f, row.index, solve.n)), column)
        whole = f.let(f"and i64 {width}, {-solve.lanes}") if solve.n % block else block
        step = f.begin_loop(0, whole, solve.lanes)
        place = add(f, start, step.index)
        if store_back:
            result = rounded(solve.type, matrix.get(row.index, step.index, solve.lanes))
            names = [part.name for part in result]
            store(f, solve.type, array, place, (names[0], names[1]) if len(names) == 2 else names[0], solve.lanes)
        else:
            value = load(f, solve.type, array, place, solve.lanes)
            parts = (value,) if isinstance(value, str) else value
            matrix.put(row.index, step.index, [Vector(f, matrix.kind, solve.lanes, part) for part in parts])
        f.end_loop(step)
        first: Index = whole
    else:
        first = 0
    if not solve.left or solve.n % block:
        rest = f.begin_loop(first, width)
        side = add(f, column, rest.index)
        outer, inner, pitch = (row.index, side, solve.n) if solve.left else (side, row.index, solve.m)
        place = add(f, multiply(f, outer, pitch), inner)
        if store_back:
            write(f, solve.type, array, add(f, base, place), rounded(solve.type, matrix.get(row.index, rest.index)))
        else:
            matrix.put(row.index, rest.index, read(f, solve.type, array, add(f, base, place)))
        f.end_loop(rest)
    f.end_loop(row)


def _substitute(matrix: Matrix, solve: _Solve, a: str, base: Index) -> None:
    """Solve in place, `_ROWS` rows at a time.  Step s stands for row s, or for row m - 1 - s going backward."""
    f = matrix.f
    whole = solve.m // _ROWS * _ROWS
    if whole:
        tiles = f.begin_loop(0, whole, _ROWS)
        _tile(matrix, solve, a, base, tiles.index, _ROWS)
        f.end_loop(tiles)
    if whole < solve.m:
        single = f.begin_loop(whole, solve.m)
        _tile(matrix, solve, a, base, single.index, 1)
        f.end_loop(single)


def _row(f: Function, solve: _Solve, step: Index) -> Index:
    return step if solve.forward else subtract(f, solve.m - 1, step)


def _coefficients(matrix: Matrix, solve: _Solve, a: str, base: Index, i: Index) -> str:
    """Where t[i] begins."""
    f = matrix.f
    return address(f, a, address_type(solve.type), add(f, base, multiply(f, i, 1 if solve.swapped else solve.m)))


def _coefficient(matrix: Matrix, solve: _Solve, row: str, k: Index) -> Number:
    """t[i][k] in all lanes, of the row that begins at `row`."""
    f = matrix.f
    number = read(f, solve.type, row, multiply(f, k, solve.m if solve.swapped else 1))
    wide = [Vector(f, matrix.kind, solve.lanes, splat(f, matrix.kind, solve.lanes, part.name)) for part in number]
    return conjugate(wide) if solve.conjugated else wide


def _tile(matrix: Matrix, solve: _Solve, a: str, base: Index, first: Index, rows: int) -> None:
    """Take the solved rows from `rows` more, then solve these among themselves."""
    f, lanes, vectors = matrix.f, solve.lanes, solve.vectors
    own = [_row(f, solve, add(f, first, r)) for r in range(rows)]
    start = [_coefficients(matrix, solve, a, base, i) for i in own]
    places = [(r, v) for r in range(rows) for v in range(vectors)]
    tile = [matrix.get(own[r], v * lanes, lanes) for r, v in places]
    carried = [(part.type, part.name) for number in tile for part in number]
    inner = f.begin_loop(0, first, 1, carried)
    tile = _regroup(matrix, lanes, inner.values)
    k = _row(f, solve, inner.index)
    known = [matrix.get(k, v * lanes, lanes) for v in range(vectors)]
    left = [_coefficient(matrix, solve, start[r], k) for r in range(rows)]
    tile = [multiply_subtract(tile[p], left[r], known[v]) for p, (r, v) in enumerate(places)]
    tile = _regroup(matrix, lanes, f.end_loop(inner, [part.name for number in tile for part in number]))
    for r in range(rows):
        pivot = None if solve.unit else _coefficient(matrix, solve, start[r], own[r])
        for v in range(vectors):
            value = tile[r * vectors + v]
            tile[r * vectors + v] = value = value if pivot is None else divide(value, pivot)
            matrix.put(own[r], v * lanes, value)
        for later in range(r + 1, rows):
            left_of = _coefficient(matrix, solve, start[later], own[r])
            for v in range(vectors):
                place = later * vectors + v
                tile[place] = multiply_subtract(tile[place], left_of, tile[r * vectors + v])


def _regroup(matrix: Matrix, lanes: int, names: list[str]) -> list[Number]:
    parts = [Vector(matrix.f, matrix.kind, lanes, name) for name in names]
    return [parts[i : i + matrix.parts] for i in range(0, len(parts), matrix.parts)]
