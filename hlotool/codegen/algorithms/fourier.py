"""Discrete Fourier transforms on vectors of lanes: every lane is a transform of its own.

Stockham's self-sorting passes of radix 2 to 16 and small odd primes (C. Van Loan, Computational Frameworks for the
Fast Fourier Transform, 1992, 1.7); lengths with larger prime factors by Bluestein's chirp convolution (L. Bluestein,
"A linear filtering approach to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Truth, Vector, constants, minimum
from hlotool.codegen.llvm.vectors import from_lanes, transposed
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["Complex", "Line", "Roots", "Rows", "Sink", "Source", "chirp_filter", "radices", "transform"]

_PRIMES = (3, 5, 7, 11, 13)
_TABLE: Annotated[int, Threshold("elements")] = 1024
"""Roots of orders up to this are one table; above they are the product of two."""


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number in every lane."""

    real: Vector
    imaginary: Vector

    def each(self, change: Callable[..., Vector], *others: Complex) -> Complex:
        """`change` of the real parts, and of the imaginary parts."""
        real = change(self.real, *(other.real for other in others))
        return Complex(real, change(self.imaginary, *(other.imaginary for other in others)))

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imaginary + other.imaginary)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imaginary - other.imaginary)

    def __mul__(self, other: Complex) -> Complex:
        a, b, c, d = self.real, self.imaginary, other.real, other.imaginary
        return Complex(fma(a, c, -(b * d)), fma(a, d, b * c))

    def scaled(self, factor: float, plus: Complex | None = None) -> Complex:
        """Times a real number, `plus` another number."""
        if plus is not None:
            return self.each(lambda part, more: fma(part, factor, more), plus)
        return self if factor == 1.0 else self.each(lambda part: part * factor)

    def turned(self, sign: int) -> Complex:
        """Times i, or -i."""
        return Complex(-self.imaginary, self.real) if sign > 0 else Complex(self.imaginary, -self.real)

    def conjugate(self) -> Complex:
        return Complex(self.real, -self.imaginary)

    def spread(self, lanes: int) -> Complex:
        """A scalar in all lanes."""
        return self.each(lambda part: part.spread(lanes))


Source = Callable[[Index], Complex]
"""Gives row number i of the input."""
Sink = Callable[[Index, Complex], None]
"""Takes row number i of the result."""


def radices(n: int) -> list[int] | None:
    """Radices of the passes for length n; None when a prime factor is too large."""
    result = []
    for prime in _PRIMES:
        while n % prime == 0:
            result.append(prime)
            n //= prime
    twos = n.bit_length() - 1
    if n != 1 << twos:
        return None
    fours = 2 if twos % 3 == 1 and twos > 1 else 1 if twos % 3 == 2 else 0
    result += [2] * (twos == 1) + [4] * fours + [8] * ((twos - 2 * fours - (twos == 1)) // 3)
    return result[::-1]


def root(n: int, exponent: int) -> complex:
    """exp(2 pi i exponent / n), exact on the axes."""
    exponent %= n
    quarters, rest = divmod(4 * exponent, n)
    angle = cmath.exp(0.5j * math.pi * rest / n) if rest else 1.0 + 0.0j
    return angle * (1, 1j, -1, -1j)[quarters]


class Roots:
    """``exp(sign 2 pi i e / n)`` for exponents 0 <= e < n, from constant tables."""

    def __init__(self, unit: Unit, name: str, n: int, sign: int, kind: str) -> None:
        self.n, self.sign, self.kind, self.name = n, sign, kind, name
        self.fine = n if n <= _TABLE else 1 << ((n - 1).bit_length() + 1) // 2
        self.stored = kind if n <= _TABLE else "double"
        _define_table(unit, f"fine_{name}", [root(n, sign * e) for e in range(self.fine)], self.stored)
        if n > _TABLE:
            coarse = [root(n, sign * e * self.fine) for e in range(-(-n // self.fine))]
            _define_table(unit, f"coarse_{name}", coarse, self.stored)

    def get(self, f: Function, exponent: Index) -> Complex:
        """One root as scalars."""
        if isinstance(exponent, int):
            return self.constants(f, [exponent])
        if self.n <= _TABLE:
            return self._entry(f, "fine", exponent)
        bits = self.fine.bit_length() - 1
        low = self._entry(f, "fine", exponent & (self.fine - 1))
        high = self._entry(f, "coarse", exponent >> bits)
        return (low * high).each(lambda part: part.cast("fptrunc", self.kind))

    def constants(self, f: Function, exponents: Sequence[int]) -> Complex:
        """Roots whose exponents are known, in a lane each."""
        values = [root(self.n, self.sign * e) for e in exponents]
        real, imaginary = [v.real for v in values], [v.imag for v in values]
        return Complex(constants(f, self.kind, real), constants(f, self.kind, imaginary))

    def _entry(self, f: Function, table: str, index: Int) -> Complex:
        place = Ptr(f, f"@{table}_{self.name}").at(self.stored, index << 1)
        align = BITS[self.stored] // 8
        real = place.load(self.stored, align=align)
        return Complex(real, place.at(self.stored, 1).load(self.stored, align=align))


def _define_table(unit: Unit, name: str, values: list[complex], kind: str) -> None:
    unit.data(name, np.array(values, np.complex64 if kind == "float" else np.complex128))


def _times_root(x: Complex, n: int, exponent: int) -> Complex:
    """x times a constant root; quarter turns cost nothing or a sign."""
    value = root(n, exponent)
    if value == 1:
        return x
    if value == -1:
        return x.each(Vector.__neg__)
    if value in (1j, -1j):
        return x.turned(1 if value == 1j else -1)
    return x * Complex(x.real.like(value.real), x.real.like(value.imag))


def butterfly(x: list[Complex], sign: int) -> list[Complex]:
    """The transform of a power of two or an odd prime number of values, in registers."""
    n = len(x)
    if n == 1:
        return x
    if n % 2 == 0:
        halves = zip(butterfly(x[::2], sign), butterfly(x[1::2], sign), strict=True)
        pairs = [(a, _times_root(b, n, sign * k)) for k, (a, b) in enumerate(halves)]
        return [a + b for a, b in pairs] + [a - b for a, b in pairs]
    sums = [x[j] + x[n - j] for j in range(1, n // 2 + 1)]
    differences = [x[j] - x[n - j] for j in range(1, n // 2 + 1)]
    result = [sum(sums, x[0])] * n
    for k in range(1, n // 2 + 1):
        even, odd = x[0], None
        for j, (a, b) in enumerate(zip(sums, differences, strict=True), 1):
            turn = root(n, j * k)
            even, odd = a.scaled(turn.real, even), b.scaled(turn.imag, odd)
        assert odd is not None
        turned = odd.turned(sign)
        result[k], result[n - k] = even + turned, even - turned
    return result


def _apart(low: Vector, high: Vector) -> Complex:
    """The complex numbers in two vectors, each its real part before its imaginary part."""
    lanes = low.lanes
    return Complex(low.shuffle(range(0, 2 * lanes, 2), high), low.shuffle(range(1, 2 * lanes, 2), high))


def _together(value: Complex) -> tuple[Vector, Vector]:
    """Two such vectors of complex numbers."""
    lanes = value.real.lanes
    order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
    return value.real.shuffle(order[:lanes], value.imaginary), value.real.shuffle(order[lanes:], value.imaginary)


def _load(places: Iterable[Ptr], kind: str, lanes: int) -> tuple[Vector, Vector]:
    first, second = (place.load(kind, lanes, BITS[kind] // 8) for place in places)
    return first, second


def _store(places: Iterable[Ptr], vectors: tuple[Vector, Vector]) -> None:
    for place, vector in zip(places, vectors, strict=True):
        place.store(vector, BITS[vector.element] // 8)


@dataclass(frozen=True, slots=True)
class Line:
    """Complex numbers that follow each other in memory, each its real part before its imaginary part."""

    pointer: Ptr
    kind: str

    def _places(self, index: Index, lanes: int) -> Iterator[Ptr]:
        first = self.pointer.at(self.kind, index * 2)
        return (first.at(self.kind, i * lanes) for i in range(2))

    def get(self, index: Index, lanes: int = 1) -> Complex:
        """`lanes` neighbours from number `index` on."""
        pair = _load(self._places(index, lanes), self.kind, lanes)
        return Complex(*pair) if lanes == 1 else _apart(*pair)

    def put(self, index: Index, value: Complex) -> None:
        lanes = value.real.lanes
        places = self._places(index, lanes)
        _store(places, (value.real, value.imaginary) if lanes == 1 else _together(value))


@dataclass(frozen=True, slots=True)
class Rows:
    """Scratch: rows of `lanes` complex numbers, real parts before imaginary parts."""

    pointer: Ptr
    kind: str
    lanes: int

    def _places(self, row: Index) -> tuple[Ptr, Ptr]:
        real = self.pointer.at(self.kind, row * (2 * self.lanes))
        return real, real.at(self.kind, self.lanes)

    def get(self, row: Index) -> Complex:
        return Complex(*_load(self._places(row), self.kind, self.lanes))

    def put(self, row: Index, value: Complex) -> None:
        _store(self._places(row), (value.real, value.imaginary))

    def put_scalars(self, row: Index, numbers: Sequence[Complex]) -> None:
        """Write a number for each lane."""
        self.put(row, numbers[0].each(lambda *parts: from_lanes(parts), *numbers[1:]))

    def read_lines(self, lines: Ptr, n: int) -> None:
        """Put lines of `n` complex numbers that follow each other in memory into the lanes."""
        kind, lanes, half = self.kind, self.lanes, self.lanes // 2
        scalar = lanes == 1 or n < half
        loop = begin_loop(lines.f, 0, n, 1 if scalar else half)
        if scalar:
            self.put_scalars(loop.index, [Line(lines, kind).get(loop.index + b * n) for b in range(lanes)])
        else:
            start = minimum(loop.index, n - half)
            place = lines.at(kind, start * 2)
            wide = [place.at(kind, b * 2 * n).load(kind, lanes, BITS[kind] // 8) for b in range(lanes)]
            pairs = zip(transposed(wide[:half], 2), transposed(wide[half:], 2), strict=True)
            for k, (low, high) in enumerate(pairs):
                self.put(start + k, _apart(low, high))
        loop.end()

    def write_lines(self, lines: Ptr, n: int, wanted: Callable[[int], Truth]) -> None:
        """Write the lanes that are `wanted` as lines of `n` complex numbers that follow each other in memory."""
        kind, lanes, half = self.kind, self.lanes, self.lanes // 2
        scalar = lanes == 1 or n < half
        loop = begin_loop(lines.f, 0, n, 1 if scalar else half)
        if scalar:
            number = self.get(loop.index)

            def write(b: int) -> None:
                place = loop.index + b * n
                Line(lines, kind).put(place, number if lanes == 1 else number.each(lambda part: part[b]))
        else:
            start = minimum(loop.index, n - half)
            place = lines.at(kind, start * 2)
            both = [_together(self.get(start + k)) for k in range(half)]
            wide = transposed([low for low, _ in both], 2) + transposed([high for _, high in both], 2)

            def write(b: int) -> None:
                place.at(kind, b * 2 * n).store(wide[b], BITS[kind] // 8)

        for b in range(lanes):
            when(wanted(b), partial(write, b))
        loop.end()


def transform(
    f: Function, n: int, roots: Roots, source: Source, sink: Sink, buffers: tuple[Rows, Rows], lanes: int
) -> None:
    """Passes of a length that `radices` takes: `source` rows to `sink` rows, not normalised.

    `roots` are of order n and give the direction.  The first pass reads everything before the last one writes; neither
    end may be the buffer that the pass next to it uses: `source` may be buffers[1], `sink` buffers[len(passes) % 2].
    """
    stages = radices(n)
    assert stages is not None
    if not stages:
        sink(0, source(0))
        return
    stride, current = 1, n
    for number, radix in enumerate(stages):
        read = source if number == 0 else buffers[(number - 1) % 2].get
        write = sink if number == len(stages) - 1 else buffers[number % 2].put
        current //= radix
        outer = begin_loop(f, 0, current) if current > 1 else None
        p: Index = outer.index if outer else 0
        twiddles = [roots.get(f, p * k * stride).spread(lanes) if outer else None for k in range(1, radix)]
        inner = begin_loop(f, 0, stride) if stride > 1 else None
        q: Index = inner.index if inner else 0
        first = q + p * stride
        values = butterfly([read(first + j * current * stride) for j in range(radix)], roots.sign)
        target = q + p * (stride * radix)
        for k, value in enumerate(values):
            twiddle = twiddles[k - 1] if k else None
            write(target + k * stride, value if twiddle is None else value * twiddle)
        for loop in (inner, outer):
            if loop:
                loop.end()
        stride *= radix


def chirp_filter(unit: Unit, chirp: str, spectrum: str, n: int, m: int, sign: int, kind: str) -> None:
    """Define the chirp of a transform of length n, and the spectrum of the filter that makes one by a convolution of
    length m, scaled by 1 / m."""
    values = [root(2 * n, sign * j * j) for j in range(n)]
    filter_ = np.zeros(m, np.complex128)
    filter_[:n] = np.conj(values)
    filter_[m - n + 1 :] = np.conj(values[:0:-1])
    _define_table(unit, chirp, values, kind)
    _define_table(unit, spectrum, (np.fft.fft(filter_) / m).tolist(), kind)
