"""cholesky and triangular-solve: factors and solutions of each matrix of a batch, in register tiles over scratch.

A Hermitian positive definite matrix is worked on as the upper factor U of ``A = U^H U``, whose rows are contiguous for
both triangles asked for: panels of rows are factored, then subtracted from the rows below (right-looking blocked
algorithm, Golub and Van Loan, Matrix Computations, 4.2).  Another matrix gives NaN throughout, as XLA's expander does.

The right-hand sides of ``op(a) x = b`` or ``x op(a) = b`` are the lanes: a block of them is brought into scratch
(transposed for the right-side form, which is ``op(a)^T x^T = b^T``), solved by substitution in tiles of rows, and
written back.  Only the named triangle of `a` is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.items import for_each_vector, item_kernel
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.arrays import aligned, load, store
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, is_float, joined, parts, round_to
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.memory import address_type
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr, Vector, constants, either, minimum, number, where
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Matrix", "conjugate", "emit_cholesky", "emit_triangular_solve", "multiply_subtract", "write_number"]

_PANEL: Annotated[int, Threshold("columns")] = 16
"""Columns that are factored together; what is right of them is updated once for all of them."""
_ROWS: Annotated[int, Threshold("rows")] = 4  # that are updated or solved together
_COLUMN_NS: Annotated[float, Threshold("nanoseconds")] = 30.0
"""Of the root and the division of a column, for which all that follows waits."""

Number = tuple[Vector, ...]
"""The real part and, of a complex number, the imaginary part, so that one text serves all types."""


def write_number(pointer: Ptr, element_type: str, index: Index, number: Sequence[Vector]) -> None:
    """Store as many elements of an array, real ones rounded to its type."""
    store(pointer, element_type, index, round_to(element_type, joined(number)))


@dataclass(frozen=True, slots=True)
class Matrix:
    """`rows` rows of `pitch` numbers from `pointer` on; complex ones have a second plane after the first."""

    pointer: Ptr
    type: str
    rows: int
    pitch: int

    @staticmethod
    def bytes(element_type: str, rows: int, pitch: int) -> int:
        """Scratch bytes of such a matrix."""
        return rows * pitch * (2 if is_complex(element_type) else 1) * BITS[compute_element(element_type)] // 8

    @property
    def f(self) -> Function:
        return self.pointer.f

    @property
    def parts(self) -> int:
        return 2 if is_complex(self.type) else 1

    def _place(self, row: Index, column: Index, part: int, ahead: int) -> Ptr:
        kind = compute_element(self.type)
        return self.pointer.at(kind, row * self.pitch + column).at(kind, part * self.rows * self.pitch + ahead)

    def get(self, row: Index, column: Index, lanes: int = 1, ahead: int = 0) -> Number:
        """`lanes` numbers of a row, `ahead` numbers after the place: what is known here costs nothing in a loop."""
        kind = compute_element(self.type)
        places = (self._place(row, column, part, ahead) for part in range(self.parts))
        return tuple(place.load(kind, lanes, align=BITS[kind] // 8) for place in places)

    def spread(self, row: Index, column: Index, lanes: int, ahead: int = 0) -> Number:
        """One number in all lanes."""
        return tuple(part.spread(lanes) for part in self.get(row, column, 1, ahead))

    def put(self, row: Index, column: Index, number: Number, ahead: int = 0) -> None:
        for part, value in enumerate(number):
            self._place(row, column, part, ahead).store(value, align=BITS[value.element] // 8)

    def numbers(self, vectors: Sequence[Vector]) -> list[Number]:
        """Numbers whose parts stand in a row, as loops carry them."""
        return [tuple(vectors[i : i + self.parts]) for i in range(0, len(vectors), self.parts)]


def conjugate(x: Number) -> Number:
    """The conjugate of a number, which a real one is itself."""
    return x if len(x) == 1 else (x[0], -x[1])


def multiply_subtract(total: Number, a: Number, b: Number) -> Number:
    """total - a b."""
    real = fma(-a[0], b[0], total[0])
    if len(total) == 1:
        return (real,)
    imaginary = fma(-a[0], b[1], total[1])
    return fma(a[1], b[1], real), fma(-a[1], b[0], imaginary)


def _divide(a: Number, b: Number) -> Number:
    """a / b; complex numbers by Smith's method ("Algorithm 116", 1962), against overflow."""
    if len(b) == 1:
        return (a[0] / b[0],)
    wide = b[0].fabs().ge(b[1].fabs())
    big, small = where(wide, b[0], b[1]), where(wide, b[1], b[0])
    ratio = small / big
    size = fma(small, ratio, big)
    first, second = where(wide, a[0], a[1]), where(wide, a[1], a[0])
    real = fma(second, ratio, first) / size
    # (im - re r) / d, or with the roles exchanged (im r - re) / d.
    straight, turned = fma(-a[0], ratio, a[1]), fma(a[1], ratio, -a[0])
    return real, where(wide, straight, turned) / size


# ---- cholesky


def emit_cholesky(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``cholesky(a), lower=``; the other triangle of the result is zero."""
    shape = instruction.shape
    element_type = shape.element_type
    if not is_complex(element_type) and not is_float(element_type):
        raise UnsupportedError(f"{instruction.name}: cholesky of {element_type}")
    if shape.size == 0:
        return empty_kernel(name, machine)
    n, lower = shape.dimensions[-1], bool(instruction.attributes.get("lower"))
    lanes = machine.lanes(BITS[compute_element(element_type)])
    tile = lanes * (1 if is_complex(element_type) else 2)
    pitch, rows = -(-n // tile) * tile, n + _ROWS
    slot = aligned(Matrix.bytes(element_type, rows, pitch))

    def factor(arrays: list[Ptr], own: Ptr, item: Index) -> None:
        own.clear(slot)
        matrix = Matrix(own, element_type, rows, pitch)
        base = item * (n * n)
        _load(matrix, arrays[0], base, n, lower)
        panel = begin_loop(own.f, 0, n, _PANEL)
        stop = minimum(panel.index + _PANEL, n)
        _factor_panel(matrix, panel.index, stop, lanes)
        _update(matrix, panel.index, stop, n, lanes, tile // lanes)
        panel.end()
        _store(matrix, arrays[1], base, n, lower)

    work = n**3 / 3 / lanes * (4 if is_complex(element_type) else 1)
    batch = prod(shape.dimensions[:-2])
    return item_kernel(
        Unit(machine), name, factor, arguments=2, items=batch, slot=slot,
        cost=work * 0.5 + n * n + n * _COLUMN_NS,
    )  # fmt: skip


def _load(matrix: Matrix, source: Ptr, base: Index, n: int, lower: bool) -> None:
    """The triangle that counts, as the upper one."""
    kind = address_type(matrix.type)
    row = begin_loop(matrix.f, 0, n)
    start = source.at(kind, base + row.index * (n + 1))
    column = begin_loop(matrix.f, row.index, n, 1, start)
    (place,) = column.values
    entry = parts(load(place, matrix.type, 0))
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
    matrix.put(k, scale.index, tuple(part / wide for part in matrix.get(k, scale.index, lanes)))
    scale.end()
    matrix.put(k, k, (root, root.like(0.0))[: matrix.parts])
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
    result: list[Vector] = []
    for r in range(_ROWS):
        left = conjugate(matrix.spread(inner.index, rows.index, lanes, r))
        for v in range(vectors):
            result += multiply_subtract(tile[r * vectors + v], left, right[v])
    for entry, distance in zip(matrix.numbers(inner.end(*result)), ahead, strict=True):
        matrix.put(rows.index, columns.index, entry, distance)
    columns.end()
    rows.end()


def _store(matrix: Matrix, target: Ptr, base: Index, n: int, lower: bool) -> None:
    """Write the factor and the zeros opposite; NaN everywhere when a pivot is NaN."""
    f = matrix.f
    check = begin_loop(f, 0, n, 1, constants(f, "i1", [False]))
    (failed,) = check.values
    bad = matrix.get(check.index, check.index)[0].isnan()
    (failed,) = check.end(failed | bad)
    kind = address_type(matrix.type)
    row = begin_loop(f, 0, n)
    start = target.at(kind, base + row.index * n)
    column = begin_loop(f, 0, n, 1, number(f, row.index if lower else row.index * matrix.pitch), start)
    position, place = column.values
    i, j = (column.index, row.index) if lower else (row.index, column.index)
    entry = matrix.get(0, position)
    outside = i > j
    nan = entry[0].like(float("nan"))
    factor = conjugate(entry) if lower else entry
    write_number(place, matrix.type, 0, [where(failed, nan, either(outside, part.like(0.0), part)) for part in factor])
    column.end(position + (matrix.pitch if lower else 1), place.at(kind, 1))
    row.end()


# ---- triangular-solve


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solve:
    """``t x = b`` with ``t[i][k] = a[k][i]`` when `swapped`, conjugated when `conjugated`; x is m by n."""

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
        m=m, n=n, left=left, swapped=swapped, conjugated=transpose == "ADJOINT",
        forward=bool(attributes.get("lower")) != swapped, unit=bool(attributes.get("unit_diagonal")),
        lanes=lanes, vectors=2 if n > lanes and not is_complex(element_type) else 1,
    )  # fmt: skip
    blocks = -(-n // solve.block)

    def solve_block(arrays: list[Ptr], own: Ptr, item: Index) -> None:
        a, b, x = arrays
        number = item // blocks
        column = (item - number * blocks) * solve.block
        matrix = Matrix(own, element_type, m, solve.block)
        _move(matrix, solve, b, number * (m * n), column, store_back=False)
        # Step s stands for row s, or for row m - 1 - s going backward.
        for_each_vector(own.f, 0, m, _ROWS, partial(_tile, matrix, solve, a, number * (m * m)))
        _move(matrix, solve, x, number * (m * n), column, store_back=True)

    work = m * m / 2 * solve.block / lanes * (4 if is_complex(element_type) else 1)
    return item_kernel(
        Unit(machine), name, solve_block, arguments=3, items=prod(shape.dimensions[:-2]) * blocks,
        slot=aligned(Matrix.bytes(element_type, m, solve.block)), cost=work * 0.5 + m * solve.block,
    )  # fmt: skip


def _move(matrix: Matrix, solve: _Solve, array: Ptr, base: Index, column: Index, store_back: bool) -> None:
    """Copy a block of right-hand sides between the array and scratch; columns that do not exist become zero there."""
    f, block = matrix.f, solve.block

    def move(place: Index, row: Index, column: Index, lanes: int) -> None:
        if store_back:
            write_number(array, matrix.type, place, matrix.get(row, column, lanes))
        else:
            matrix.put(row, column, parts(load(array, matrix.type, place, lanes)))

    width = minimum(solve.n - column, block)
    if not store_back and solve.n % block:
        matrix.pointer.clear(Matrix.bytes(matrix.type, solve.m, block))
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


def _row(solve: _Solve, step: Index) -> Index:
    return step if solve.forward else solve.m - 1 - step


def _coefficient(matrix: Matrix, solve: _Solve, row: Ptr, k: Index) -> Number:
    """t[i][k] in all lanes, of the row that begins at `row`."""
    scalar = parts(load(row, matrix.type, k * (solve.m if solve.swapped else 1)))
    wide = tuple(part.spread(solve.lanes) for part in scalar)
    return conjugate(wide) if solve.conjugated else wide


def _tile(matrix: Matrix, solve: _Solve, a: Ptr, base: Index, first: Index, rows: int) -> None:
    """Take the solved rows from `rows` more, then solve these among themselves."""
    lanes, vectors = solve.lanes, solve.vectors
    own = [_row(solve, first + r) for r in range(rows)]
    between = 1 if solve.swapped else solve.m
    start = [a.at(address_type(matrix.type), base + i * between) for i in own]  # of t[i]
    places = [(r, v) for r in range(rows) for v in range(vectors)]
    tile = [matrix.get(own[r], v * lanes, lanes) for r, v in places]
    inner = begin_loop(matrix.f, 0, first, 1, *(part for number in tile for part in number))
    tile = matrix.numbers(inner.values)
    k = _row(solve, inner.index)
    known = [matrix.get(k, v * lanes, lanes) for v in range(vectors)]
    left = [_coefficient(matrix, solve, start[r], k) for r in range(rows)]
    result = [part for p, (r, v) in enumerate(places) for part in multiply_subtract(tile[p], left[r], known[v])]
    tile = matrix.numbers(inner.end(*result))
    for r in range(rows):
        pivot = None if solve.unit else _coefficient(matrix, solve, start[r], own[r])
        for v in range(vectors):
            if pivot is not None:
                tile[r * vectors + v] = _divide(tile[r * vectors + v], pivot)
            matrix.put(own[r], v * lanes, tile[r * vectors + v])
        for later in range(r + 1, rows):
            left_of = _coefficient(matrix, solve, start[later], own[r])
            for v in range(vectors):
                place = later * vectors + v
                tile[place] = multiply_subtract(tile[place], left_of, tile[r * vectors + v])
