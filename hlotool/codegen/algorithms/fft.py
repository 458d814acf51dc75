"""fft: FFT, IFFT, RFFT and IRFFT over the last one to three dimensions, any length, single and double precision.

Real transforms of even length are complex ones of half the length with one more sweep.  Columns (a dimension that is
not the minor one) are transformed a vector of neighbours at a time.  Long lines are split in two factors, columns,
twiddles, columns (the four-step method: D. Bailey, "FFTs in external or hierarchical memory", 1990); many short lines
are transposed into lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.fft_steps import Buffer, Code, Steps
from hlotool.codegen.algorithms.fourier import Complex, Rows, Sink, Source, chirp_filter, radices, transform
from hlotool.codegen.algorithms.items import for_each_vector
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr, Vector, choose, either, equal, minimum, zeros
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_fft"]

_WIDE: Annotated[int, Threshold("vectors")] = 64  # that a factor fills, above which the next one is not better
_TABLE: Annotated[int, Threshold("elements")] = 2048
"""Up to this length the chirp and the spectrum of its filter are constants; of longer ones calls compute them."""
_SHORT: Annotated[int, Threshold("elements")] = 512
"""Lines up to this length go into lanes when there are enough of them."""

Column = Callable[[Code, Ptr, Source, Sink], None]
"""Code of one transform per lane: of function, scratch, rows read and rows written."""


def emit_fft(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``fft(operand), fft_type=, fft_length=``; inverse transforms are normalised."""
    source, result = instruction.operands[0].shape, instruction.shape
    kinds = {"f32": "float", "c64": "float", "f64": "double", "c128": "double"}
    lengths, fft_type = tuple(instruction.attributes["fft_length"]), instruction.attributes["fft_type"]
    if source.element_type not in kinds or not 1 <= len(lengths) <= 3:
        raise UnsupportedError(f"{instruction.name}: fft of {source} over {len(lengths)} dimensions")
    if result.size == 0 or source.size == 0:
        return empty_kernel(name, machine)
    steps = Steps(name, machine, kinds[source.element_type])
    outer, count = prod(result.dimensions[: -len(lengths)]), len(lengths)
    *leading, n = lengths
    lines = outer * prod(leading)
    sign = -1 if fft_type in ("FFT", "RFFT") else 1
    scale = 1.0 if sign < 0 else 1.0 / prod(lengths)
    operand, target = (0, 0), (1, 0)
    spectrum = (outer, *leading, n // 2 + 1)
    if fft_type == "RFFT":
        half = target if count == 1 else steps.reserve(prod(spectrum) * steps.complex_bytes)
        _real_forward(steps, operand, half, lines, n)
        _transform_dimensions(steps, half, target, spectrum, count - 1, sign=sign, scale=scale)
    elif fft_type == "IRFFT":
        half = operand if count == 1 else steps.reserve(prod(spectrum) * steps.complex_bytes)
        _transform_dimensions(steps, operand, half, spectrum, count - 1, sign=sign, scale=1.0)
        _real_inverse(steps, half, target, lines, n, scale)
    else:
        _transform_dimensions(steps, operand, target, (outer, *lengths), count, sign=sign, scale=scale)
    uses = ("lines that are being transformed", steps.scratch)
    return finish_kernel(steps.unit, steps.steps, steps.scratch, (uses,))


# ---- real lines


def _real_forward(steps: Steps, source: Buffer, target: Buffer, count: int, n: int) -> None:
    """Real lines of n to n / 2 + 1 coefficients."""
    bins, half = n // 2 + 1, n // 2
    if n % 2 == 0 and n >= 4:
        packed = steps.reserve(count * half * steps.complex_bytes)
        _transform_axis(steps, _Axis(source=source, target=packed, outer=count, n=half, sign=-1))
        _halves(steps, packed, target, count, half)
        return
    wide, spectrum = (steps.reserve(count * n * steps.complex_bytes) for _ in range(2))

    def widen(code: Code, line: Index, j: Index) -> None:
        into, place = code.line(wide), line * n + j
        real = code.at(source, line * n + j).load(code.kind, align=BITS[code.kind] // 8)
        into.put(place, Complex(real, zeros(code.f, code.kind)))

    def cut(code: Code, line: Index, k: Index) -> None:
        into, place = code.line(target), line * bins + k
        into.put(place, code.line(spectrum).get(line * n + k))

    steps.each_value("widen", count, n, widen)
    _transform_axis(steps, _Axis(source=wide, target=spectrum, outer=count, n=n, sign=-1))
    steps.each_value("cut", count, bins, cut)


def _real_inverse(steps: Steps, source: Buffer, target: Buffer, count: int, n: int, scale: float) -> None:
    """n / 2 + 1 coefficients to real lines of n; imaginary parts that must be zero are not read."""
    bins, half = n // 2 + 1, n // 2
    if n % 2 == 0 and n >= 4:
        packed = steps.reserve(count * half * steps.complex_bytes)
        _halves(steps, source, packed, count, half, scale)
        _transform_axis(steps, _Axis(source=packed, target=target, outer=count, n=half, sign=-1))
        return
    whole, lines = (steps.reserve(count * n * steps.complex_bytes) for _ in range(2))

    def extend(code: Code, line: Index, k: Index) -> None:
        mirrored = k > half
        place = choose(mirrored, n - k, k)
        number = code.line(source).get(line * bins + place)
        flipped = either(mirrored, -number.imaginary, number.imaginary)
        alone = equal(k, 0)
        if n % 2 == 0:
            alone = alone | equal(k, half)
        part = either(alone, zeros(code.f, code.kind), flipped)
        code.line(whole).put(line * n + k, Complex(number.real, part))

    def keep_real(code: Code, line: Index, j: Index) -> None:
        place = line * n + j
        real = code.line(lines).get(place).real
        code.at(target, place).store(real, align=BITS[code.kind] // 8)

    steps.each_value("extend", count, n, extend)
    _transform_axis(steps, _Axis(source=whole, target=lines, outer=count, n=n, sign=1, scale=scale))
    steps.each_value("real", count, n, keep_real)


def _halves(
    steps: Steps, source: Buffer, target: Buffer, count: int, half: int, inverse: float | None = None
) -> None:
    """Between the spectrum X of a real line (half + 1) and the transform Z of its even + i odd elements (half).

    X[k] = E + w^k O and Z[k] = E + i O, with E and O the even and odd parts under k -> half - k, conjugated.  The
    `inverse` direction has a factor, and gives Z back to front: the forward transform of that is the inverse of Z.
    """
    roots = steps.roots(2 * half, -1)
    source_size, target_size = (half, half + 1) if inverse is None else (half + 1, half)
    factor = 0.5 if inverse is None else inverse

    def line(code: Code, task: Index) -> None:
        f = code.f
        spectrum, into = code.line(source, task * (2 * source_size)), code.line(target, task * (2 * target_size))
        if inverse is None:
            first = spectrum.get(0)
            into.put(0, Complex(first.real + first.imaginary, zeros(f, code.kind)))
            into.put(half, Complex(first.real - first.imaginary, zeros(f, code.kind)))
        else:
            low, high = spectrum.get(0).real, spectrum.get(half).real
            into.put(0, Complex((low + high) * factor, (low - high) * factor))

        def coefficients(k: Index, lanes: int) -> None:
            number = spectrum.get(k, lanes)
            mirror = spectrum.get(half - lanes + 1 - k, lanes).each(_reversed).conjugate()
            even = number.each(lambda x, y: (x + y) * factor, mirror)
            odd = number.each(lambda x, y: (x - y) * factor, mirror)
            turn = roots.constants(f, range(lanes)) * roots.get(f, k).spread(lanes)
            if inverse is None:
                result = even + odd.turned(-1) * turn
            else:  # Z[half - k], of which X[half - k] is the conjugate of `mirror`
                turned = odd.conjugate() * turn
                result = Complex(even.real - turned.imaginary, turned.real - even.imaginary)
            into.put(k, result)

        for_each_vector(f, 1, half, steps.lanes, coefficients)

    steps.each_task("halves", count, count * half * 1.0, line)


def _reversed(x: Vector) -> Vector:
    return x if x.lanes == 1 else x.shuffle(range(x.lanes - 1, -1, -1))


# ---- complex numbers along a dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Dimension `n` of [outer, n, inner] to be transformed, from one buffer to another."""

    source: Buffer
    target: Buffer
    outer: int
    n: int
    inner: int = 1
    sign: int
    scale: float = 1.0


def _transform_dimensions(
    steps: Steps, source: Buffer, target: Buffer, sizes: tuple[int, ...], count: int, *, sign: int, scale: float
) -> None:
    """Transform `count` of `sizes`, the last one of them first; one dimension lies before them."""
    spare = steps.reserve(prod(sizes) * steps.complex_bytes) if count > 1 else target
    for axis in range(count, 0, -1):
        into = target if axis % 2 else spare
        _transform_axis(steps, _Axis(
            source=source, target=into, outer=prod(sizes[:axis]), n=sizes[axis], inner=prod(sizes[axis + 1 :]),
            sign=sign, scale=scale if axis == 1 else 1.0,
        ))  # fmt: skip
        source = into


def _transform_axis(steps: Steps, axis: _Axis) -> None:
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


def _columns(steps: Steps, axis: _Axis) -> None:
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
            lambda r, v: target.put(start + r * inner, v.scaled(axis.scale)),
        )  # fmt: skip

    steps.each_item("columns", axis.outer * blocks, size, _cost(axis.outer * inner, n, lanes), block)


def _lines(steps: Steps, axis: _Axis) -> None:
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
        data.read_lines(source, n)
        write(code, rest, data.get, lambda r, v: data.put(r, v.scaled(axis.scale)))
        data.write_lines(target, n, lambda b: True)

    steps.each_item("lines", blocks, size + own_bytes, _cost(count, n, lanes), block)


def _four_step(steps: Steps, axis: _Axis, split: tuple[int, int]) -> None:
    """Lines of n1 n2: columns of length n1, twiddles, columns of length n2; a transposed copy in between."""
    n1, n2 = split
    n, count = axis.n, axis.outer
    lanes = _power_below(min(n1, n2, steps.lanes))
    roots = steps.roots(n, axis.sign)
    size, first_columns = _column(steps, n1, axis.sign, lanes)
    middle = steps.reserve(count * n * steps.complex_bytes)
    own_bytes = n1 * lanes * steps.complex_bytes
    starts = steps.reserve(own_bytes)

    def tables(code: Code, task: Index) -> None:
        """w^(k1 b) for the lanes b of a block that starts at column 0."""
        rows = code.rows(code.at(starts), lanes)
        rows.put_scalars(task, [roots.get(code.f, task * b) for b in range(lanes)])

    def first(code: Code, item: Index, own: Ptr) -> None:
        line, block = _line_and_column(item, -(-n2 // lanes), lanes)
        column = minimum(block, n2 - lanes)
        source, after = code.line(axis.source, line * (2 * n)), code.at(middle, line * (2 * n))
        data, table = code.rows(own, lanes), code.rows(code.at(starts), lanes)

        def turned(k: Index, value: Complex) -> None:
            at_start = roots.get(code.f, k * column).spread(lanes)
            data.put(k, value * (table.get(k) * at_start))

        first_columns(code, own + own_bytes, lambda r: source.get(column + r * n2, lanes), turned)

        # Columns that the block before has as well are its own: their twiddles round differently here.
        data.write_lines(
            after.at(code.kind, column * (2 * n1)), n1, lambda b: n2 % lanes == 0 or column + b >= block
        )  # fmt: skip

    steps.each_task("twiddles", n1, n1 * lanes * 4.0, tables)
    cost = _cost(count * n2, n1, lanes) * 1.5
    steps.each_item("first", count * -(-n2 // lanes), size + own_bytes, cost, first)
    _columns(steps, replace(axis, source=middle, n=n2, inner=n1))


def _line_and_column(item: Index, blocks: int, lanes: int) -> tuple[Index, Index]:
    """The line of an item, of which each has so many blocks, and the column that its block begins at."""
    line = item // blocks
    return line, (item - line * blocks) * lanes


# ---- lengths with large prime factors


class _Chirp:
    """The chirp c[j] = exp(sign pi i j^2 / n), and the spectrum of its filter, scaled by 1 / m."""

    def __init__(self, steps: Steps, n: int, sign: int) -> None:
        self.n, self.m = n, 1 << (2 * n - 2).bit_length()
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
            return code.rows(Ptr(code.f, f"@{self.table}"), 1).get(j).spread(lanes)
        return self.chirps.get(code.f, j * j % (2 * self.n)).spread(lanes)

    def response(self, code: Code) -> Rows:
        """The spectrum of the filter."""
        return code.rows(Ptr(code.f, f"@{self.filter}") if self.n <= _TABLE else code.at(self.spectrum), 1)

    def buffers(self, code: Code, own: Ptr, lanes: int) -> tuple[Rows, tuple[Rows, Rows]]:
        """Three lots of m rows in scratch."""
        size = self.m * 2 * lanes * BITS[code.kind] // 8
        data, first, second = (code.rows(own + i * size, lanes) for i in range(3))
        return data, (first, second)

    def clear(self, code: Code, rows: Rows, first: int) -> None:
        """Zero the rows from `first` on."""
        loop = begin_loop(code.f, first, self.m)
        nothing = zeros(code.f, code.kind, rows.lanes)
        rows.put(loop.index, Complex(nothing, nothing))
        loop.end()

    def _prepare(self, code: Code, task: Index) -> None:
        f, n, m = code.f, self.n, self.m
        data, pair = self.buffers(code, code.at(self.work), 1)
        self.clear(code, data, 0)
        loop = begin_loop(f, 0, n)
        value = self.get(code, loop.index, 1).conjugate()
        data.put(loop.index, value)
        mirrored = m - loop.index
        data.put(choose(equal(loop.index, 0), 0, mirrored), value)
        loop.end()
        out = code.rows(code.at(self.spectrum), 1)
        transform(f, m, self.roots, data.get, lambda k, v: out.put(k, v.scaled(1.0 / m)), pair, 1)


def _bluestein(steps: Steps, n: int, sign: int, lanes: int) -> tuple[int, Column]:
    """X[k] = c[k] sum_j (x[j] c[j]) conj(c[k - j]), a convolution of length m."""
    chirp = _Chirp(steps, n, sign)
    m = chirp.m

    def convolve(code: Code, own: Ptr, source: Source, sink: Sink) -> None:
        f = code.f
        data, pair = chirp.buffers(code, own, lanes)
        chirp.clear(code, data, n)
        loop = begin_loop(f, 0, n)
        data.put(loop.index, source(loop.index) * chirp.get(code, loop.index, lanes))
        loop.end()
        response = chirp.response(code)

        def filtered(k: Index, value: Complex) -> None:
            data.put(k, (value * response.get(k).spread(lanes)).conjugate())

        # The inverse transform is the conjugate of the transform of the conjugate.
        transform(f, m, chirp.roots, data.get, filtered, pair, lanes)
        transform(f, m, chirp.roots, data.get, data.put, pair, lanes)
        last = begin_loop(f, 0, n)
        sink(last.index, data.get(last.index).conjugate() * chirp.get(code, last.index, lanes))
        last.end()

    return 3 * m * lanes * steps.complex_bytes, convolve


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _cost(lines: int, n: int, lanes: int) -> float:
    return lines * n * max(1, n.bit_length()) * 1.2 / lanes
