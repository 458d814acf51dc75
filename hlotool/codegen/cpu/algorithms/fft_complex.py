"""Fourier transforms of complex numbers, of any length, along dimensions of an array.

Columns (a dimension that is not the minor one) are transformed a vector of neighbours at a time.  Long lines are split
in two factors, columns, twiddles, columns (the four-step method: D. Bailey, "FFTs in external or hierarchical memory",
1990); many short lines are transposed into lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.fft_steps import Buffer, Code, Steps
from hlotool.codegen.cpu.algorithms.fourier import (
    Complex,
    Line,
    Rows,
    Sink,
    Source,
    apart,
    bluestein_length,
    chirp_filter,
    conjugate,
    product,
    radices,
    spread,
    together,
    transform,
)
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr, Vector, choose, equal, minimum, zeros
from hlotool.codegen.llvm.vectors import transposed

__all__ = ["Axis", "transform_axis", "transform_dimensions"]

_WIDE: Annotated[int, Threshold("vectors")] = 64  # that a factor fills, above which the next one is not better
_TABLE: Annotated[int, Threshold("elements")] = 2048
"""Up to this length the chirp and the spectrum of its filter are constants; of longer ones calls compute them."""
_SHORT: Annotated[int, Threshold("elements")] = 512
"""Lines up to this length go into lanes when there are enough of them."""

Column = Callable[[Code, Ptr, Source, Sink], None]
"""Code of one transform per lane: of function, scratch, rows read and rows written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Dimension `n` of [outer, n, inner] to be transformed, from one buffer to another."""

    source: Buffer
    target: Buffer
    outer: int
    n: int
    inner: int = 1
    sign: int
    scale: float = 1.0

    def scaled(self, value: Complex) -> Complex:
        return value if self.scale == 1.0 else (value[0] * self.scale, value[1] * self.scale)


def transform_dimensions(
    steps: Steps, source: Buffer, target: Buffer, sizes: tuple[int, ...], count: int, *, sign: int, scale: float
) -> None:
    """Transform `count` of `sizes`, the last one of them first; one dimension lies before them."""
    if count == 0:
        return
    spare = steps.reserve(prod(sizes) * steps.complex_bytes) if count > 1 else target
    for axis in range(count, 0, -1):
        into = target if axis % 2 else spare
        transform_axis(steps, Axis(
            source=source, target=into, outer=prod(sizes[:axis]), n=sizes[axis], inner=prod(sizes[axis + 1 :]),
            sign=sign, scale=scale if axis == 1 else 1.0,
        ))  # fmt: skip
        source = into


def transform_axis(steps: Steps, axis: Axis) -> None:
    """Transform one dimension."""
    if axis.inner > 1:
        _columns(steps, axis)
        return
    split = _split(axis.n, steps.lanes)
    if split is None or (axis.outer >= steps.lanes and axis.n <= _SHORT):
        _lines(steps, axis)
    else:
        _four_step(steps, axis, split)


def _split(n: int, most: int) -> tuple[int, int] | None:
    """Two factors that both fill vectors of `most` lanes, or None."""
    if radices(n) is None:
        return None
    best: tuple[int, tuple[int, int]] | None = None
    for first in range(4, n // 4 + 1):
        if n % first == 0:
            second = n // first
            lanes = _power_below(min(first, second, most))
            cost = -(-second // lanes) * first + -(-first // lanes) * second + first + second
            if best is None or cost < best[0]:
                best = cost, (first, second)
        if first * first > n and best is not None and first > _WIDE * most:
            break
    return best[1] if best else None


def _column(steps: Steps, n: int, sign: int, lanes: int) -> tuple[int, Column]:
    """The scratch bytes and the code of one transform per lane."""
    if radices(n) is None:
        return _bluestein(steps, n, sign, lanes)
    roots = steps.roots(n, sign)
    size = n * lanes * steps.complex_bytes

    def smooth(code: Code, own: Ptr, source: Source, sink: Sink) -> None:
        transform(code.f, n, roots, source, sink, (code.rows(own, lanes), code.rows(own + size, lanes)), lanes)

    return 2 * size, smooth


def _columns(steps: Steps, axis: Axis) -> None:
    """Columns of neighbours, a block at a time; the last one reaches back if it must."""
    n, inner = axis.n, axis.inner
    lanes = _power_below(min(inner, steps.lanes))
    blocks = -(-inner // lanes)
    size, write = _column(steps, n, axis.sign, lanes)

    def block(code: Code, item: Index, own: Ptr) -> None:
        line, column = _line_and_column(item, blocks, lanes)
        start = line * (n * inner) + minimum(column, inner - lanes)
        source, target = code.line(axis.source), code.line(axis.target)
        write(
            code, own, lambda r: source.get(start + r * inner, lanes),
            lambda r, v: target.put(start + r * inner, axis.scaled(v)),
        )  # fmt: skip

    steps.each_item("columns", axis.outer * blocks, size, _cost(axis.outer * inner, n, lanes), block)


def _lines(steps: Steps, axis: Axis) -> None:
    """Lines, as many at a time as there are lanes, transposed through scratch."""
    n, count = axis.n, axis.outer
    lanes = _power_below(min(count, steps.lanes))
    blocks = -(-count // lanes)
    size, write = _column(steps, n, axis.sign, lanes)
    own_bytes = n * lanes * steps.complex_bytes

    def block(code: Code, item: Index, own: Ptr) -> None:
        first = minimum(item * lanes, count - lanes)
        data = code.rows(own, lanes)
        rest = own + own_bytes
        source, target = code.at(axis.source, first * (2 * n)), code.at(axis.target, first * (2 * n))
        _transposed(n, source, data)
        write(code, rest, data.get, lambda r, v: data.put(r, axis.scaled(v)))
        _untransposed(n, data, target, lambda b, write: write())

    steps.each_item("lines", blocks, size + own_bytes, _cost(count, n, lanes), block)


def _four_step(steps: Steps, axis: Axis, split: tuple[int, int]) -> None:
    """Lines of n1 n2: columns of length n1, twiddles, columns of length n2; a transposed copy in between."""
    n1, n2 = split
    n, count = axis.n, axis.outer
    lanes = _power_below(min(n1, n2, steps.lanes))
    roots = steps.roots(n, axis.sign)
    first_size, first_columns = _column(steps, n1, axis.sign, lanes)
    second_size, second_columns = _column(steps, n2, axis.sign, lanes)
    middle = steps.reserve(count * n * steps.complex_bytes)
    own_bytes = n1 * lanes * steps.complex_bytes
    starts = steps.reserve(own_bytes)

    def tables(code: Code, task: Index) -> None:
        """w^(k1 b) for the lanes b of a block that starts at column 0."""
        rows = code.rows(code.at(starts), lanes)
        rows.put(task, _packed([roots.get(code.f, task * b) for b in range(lanes)]))

    def first(code: Code, item: Index, own: Ptr) -> None:
        line, block = _line_and_column(item, -(-n2 // lanes), lanes)
        column = minimum(block, n2 - lanes)
        source, after = code.line(axis.source, line * (2 * n)), code.at(middle, line * (2 * n))
        data, table = code.rows(own, lanes), code.rows(code.at(starts), lanes)

        def turned(k: Index, value: Complex) -> None:
            at_start = roots.spread(code.f, k * column, lanes)
            data.put(k, product(value, product(table.get(k), at_start)))

        first_columns(code, own + own_bytes, lambda r: source.get(column + r * n2, lanes), turned)

        def keep(b: int, store: Callable[[], None]) -> None:
            # Columns that the block before has as well are its own: their twiddles round differently here.
            when(n2 % lanes == 0 or column + b >= block, store)

        _untransposed(n1, data, after.at(code.kind, column * (2 * n1)), keep)

    def second(code: Code, item: Index, own: Ptr) -> None:
        line, block = _line_and_column(item, -(-n1 // lanes), lanes)
        column = minimum(block, n1 - lanes)
        before, target = code.line(middle, line * (2 * n)), code.line(axis.target, line * (2 * n))
        second_columns(
            code, own, lambda r: before.get(column + r * n1, lanes),
            lambda k, v: target.put(column + k * n1, axis.scaled(v)),
        )  # fmt: skip

    steps.each_task("twiddles", n1, n1 * lanes * 4.0, tables)
    cost = _cost(count * n2, n1, lanes) * 1.5
    steps.each_item("first", count * -(-n2 // lanes), first_size + own_bytes, cost, first)
    steps.each_item("second", count * -(-n1 // lanes), second_size, _cost(count * n1, n2, lanes), second)


def _line_and_column(item: Index, blocks: int, lanes: int) -> tuple[Index, Index]:
    """The line of an item, of which each has so many blocks, and the column that its block begins at."""
    line = item // blocks
    return line, (item - line * blocks) * lanes


# ---- lengths with large prime factors


class _Chirp:
    """The chirp c[j] = exp(sign pi i j^2 / n), and the spectrum of its filter, scaled by 1 / m."""

    def __init__(self, steps: Steps, n: int, sign: int) -> None:
        self.n, self.m = n, bluestein_length(n)
        self.roots = steps.roots(self.m, -1)
        if n <= _TABLE:
            self.table, self.filter = steps.fresh("chirps"), steps.fresh("filter")
            chirp_filter(steps.unit, self.table, self.filter, n, self.m, sign, steps.kind)
        else:
            self.chirps = steps.roots(2 * n, sign)
            self.spectrum = steps.reserve(self.m * steps.complex_bytes)
            self.work = steps.reserve(3 * self.m * steps.complex_bytes)
            steps.each_task("chirp", 1, self.m * 40.0, self._prepare)

    def get(self, code: Code, j: Index, lanes: int) -> Complex:
        """c[j] in all lanes."""
        if self.n <= _TABLE:
            return spread(code.rows(Ptr(code.f, f"@{self.table}"), 1).get(j), lanes)
        return self.chirps.spread(code.f, j * j % (2 * self.n), lanes)

    def response(self, code: Code) -> Rows:
        """The spectrum of the filter."""
        return code.rows(Ptr(code.f, f"@{self.filter}") if self.n <= _TABLE else code.at(self.spectrum), 1)

    def buffers(self, code: Code, own: Ptr, lanes: int) -> tuple[Rows, Rows, Rows]:
        """Three lots of m rows in scratch."""
        size = self.m * 2 * lanes * BITS[code.kind] // 8
        first, second, third = (code.rows(own + i * size, lanes) for i in range(3))
        return first, second, third

    def clear(self, code: Code, rows: Rows, first: int) -> None:
        """Zero the rows from `first` on."""
        loop = begin_loop(code.f, first, self.m)
        nothing = zeros(code.f, code.kind, rows.lanes)
        rows.put(loop.index, (nothing, nothing))
        loop.end()

    def _prepare(self, code: Code, task: Index) -> None:
        f, n, m = code.f, self.n, self.m
        data, *pair = self.buffers(code, code.at(self.work), 1)
        self.clear(code, data, 0)
        loop = begin_loop(f, 0, n)
        value = conjugate(self.get(code, loop.index, 1))
        data.put(loop.index, value)
        mirrored = m - loop.index
        data.put(choose(equal(loop.index, 0), 0, mirrored), value)
        loop.end()
        out = code.rows(code.at(self.spectrum), 1)
        transform(
            f, m, self.roots, data.get, lambda k, v: out.put(k, (v[0] * (1.0 / m), v[1] * (1.0 / m))),
            (pair[0], pair[1]), 1,
        )  # fmt: skip


def _bluestein(steps: Steps, n: int, sign: int, lanes: int) -> tuple[int, Column]:
    """X[k] = c[k] sum_j (x[j] c[j]) conj(c[k - j]), a convolution of length m."""
    chirp = _Chirp(steps, n, sign)
    m = chirp.m

    def convolve(code: Code, own: Ptr, source: Source, sink: Sink) -> None:
        f = code.f
        data, second, third = chirp.buffers(code, own, lanes)
        chirp.clear(code, data, n)
        loop = begin_loop(f, 0, n)
        data.put(loop.index, product(source(loop.index), chirp.get(code, loop.index, lanes)))
        loop.end()
        response = chirp.response(code)

        def filtered(k: Index, value: Complex) -> None:
            data.put(k, conjugate(product(value, spread(response.get(k), lanes))))

        # The inverse transform is the conjugate of the transform of the conjugate.
        transform(f, m, chirp.roots, data.get, filtered, (second, third), lanes)
        transform(f, m, chirp.roots, data.get, data.put, (second, third), lanes)
        last = begin_loop(f, 0, n)
        sink(last.index, product(conjugate(data.get(last.index)), chirp.get(code, last.index, lanes)))
        last.end()

    return 3 * m * lanes * steps.complex_bytes, convolve


# ---- lines as lanes


def _transposed(n: int, lines: Ptr, data: Rows) -> None:
    """Rows of `data`, whose lanes are lines, from lines of `n` complex numbers that follow each other in memory."""
    f, kind, lanes, half = lines.f, data.kind, data.lanes, data.lanes // 2
    if lanes == 1 or n < half:
        line = Line(lines, kind)
        loop = begin_loop(f, 0, n)
        data.put(loop.index, _packed([line.get(loop.index + b * n) for b in range(lanes)]))
        loop.end()
        return
    loop = begin_loop(f, 0, n, half)
    start = minimum(loop.index, n - half)
    place = lines.at(kind, start * 2)
    wide = [place.at(kind, b * 2 * n).load(kind, lanes, BITS[kind] // 8) for b in range(lanes)]
    pairs = zip(transposed(wide[:half], 2), transposed(wide[half:], 2), strict=True)
    for k, (low, high) in enumerate(pairs):
        data.put(start + k, apart(low, high))
    loop.end()


def _untransposed(
    n: int, data: Rows, lines: Ptr, guarded: Callable[[int, Callable[[], None]], None]
) -> None:
    """Lines of `n` complex numbers that follow each other in memory, from rows of `data` whose lanes are lines.

    What writes a line is handed to `guarded`, with its number.
    """
    f, kind, lanes, half = lines.f, data.kind, data.lanes, data.lanes // 2
    if lanes == 1 or n < half:
        line = Line(lines, kind)
        loop = begin_loop(f, 0, n)
        real, imaginary = data.get(loop.index)

        def write_one(b: int) -> None:
            place = loop.index + b * n
            line.put(place, (real, imaginary) if lanes == 1 else (real[b], imaginary[b]))

        for b in range(lanes):
            guarded(b, partial(write_one, b))
        loop.end()
        return
    loop = begin_loop(f, 0, n, half)
    start = minimum(loop.index, n - half)
    place = lines.at(kind, start * 2)
    both = [together(data.get(start + k)) for k in range(half)]
    wide = transposed([low for low, _ in both], 2) + transposed([high for _, high in both], 2)

    def write(b: int) -> None:
        place.at(kind, b * 2 * n).store(wide[b], BITS[kind] // 8)

    for b in range(lanes):
        guarded(b, partial(write, b))
    loop.end()


def _packed(numbers: list[Complex]) -> Complex:
    """Numbers as the lanes of a vector."""
    real, imaginary = (_lanes([number[part] for number in numbers]) for part in (0, 1))
    return real, imaginary


def _lanes(scalars: list[Vector]) -> Vector:
    first = scalars[0]
    if len(scalars) == 1:
        return first
    whole = Vector(first.f, first.element, len(scalars), "poison")
    for lane, scalar in enumerate(scalars):
        whole = whole.insert(lane, scalar)
    return whole


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _cost(lines: int, n: int, lanes: int) -> float:
    return lines * n * max(1, n.bit_length()) * 1.2 / lanes
