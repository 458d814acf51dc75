"""Discrete Fourier transforms on vectors of lanes: every lane is a transform of its own.

Stockham's self-sorting passes of radix 2 to 16 and small odd primes (C. Van Loan, Computational Frameworks for the
Fast Fourier Transform, 1992, 1.7); lengths with larger prime factors by Bluestein's chirp convolution (L. Bluestein,
"A linear filtering approach to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, constants
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = [
    "Complex", "Line", "Roots", "Rows", "Sink", "Source", "apart", "bluestein_length", "chirp_filter", "conjugate",
    "product", "radices", "spread", "together", "transform",
]  # fmt: skip

Complex = tuple[Vector, Vector]
Source = Callable[[Index], Complex]
"""Gives row number i of the input."""
Sink = Callable[[Index, Complex], None]
"""Takes row number i of the result."""

_PRIMES = (3, 5, 7, 11, 13)
_TABLE: Annotated[int, Threshold("elements")] = 1024
"""Roots of orders up to this are one table; above they are the product of two."""


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
            return self._constants(f, [exponent])
        if self.n <= _TABLE:
            return self._entry(f, "fine", exponent)
        bits = self.fine.bit_length() - 1
        low = self._entry(f, "fine", exponent & (self.fine - 1))
        high = self._entry(f, "coarse", exponent >> bits)
        real, imaginary = product(low, high)
        if self.kind == "float":
            return real.cast("fptrunc", "float"), imaginary.cast("fptrunc", "float")
        return real, imaginary

    def spread(self, f: Function, exponent: Index, lanes: int) -> Complex:
        return spread(self.get(f, exponent), lanes)

    def row(self, f: Function, lanes: int) -> Complex:
        """The roots of exponents 0, 1, ..., lanes - 1 as a constant vector."""
        return self._constants(f, range(lanes))

    def _constants(self, f: Function, exponents: Sequence[int]) -> Complex:
        values = [root(self.n, self.sign * e) for e in exponents]
        return constants(f, self.kind, [v.real for v in values]), constants(f, self.kind, [v.imag for v in values])

    def _entry(self, f: Function, table: str, index: Int) -> Complex:
        place = Ptr(f, f"@{table}_{self.name}").at(self.stored, index << 1)
        align = BITS[self.stored] // 8
        return place.load(self.stored, align=align), place.at(self.stored, 1).load(self.stored, align=align)


def _define_table(unit: Unit, name: str, values: list[complex], kind: str) -> None:
    data = np.array(values, np.complex128).astype(np.complex64 if kind == "float" else np.complex128).tobytes()
    unit.data(name, data)


def spread(value: Complex, lanes: int) -> Complex:
    """A scalar in all lanes."""
    return value[0].spread(lanes), value[1].spread(lanes)


def product(a: Complex, b: Complex) -> Complex:
    return fma(a[0], b[0], -(a[1] * b[1])), fma(a[0], b[1], a[1] * b[0])


def conjugate(a: Complex) -> Complex:
    return a[0], -a[1]


def _times_root(x: Complex, n: int, exponent: int) -> Complex:
    """x times a constant root; quarter turns cost nothing or a sign."""
    value = root(n, exponent)
    if value == 1:
        return x
    if value == -1:
        return -x[0], -x[1]
    if value == 1j:
        return -x[1], x[0]
    if value == -1j:
        return x[1], -x[0]
    return product(x, (x[0].like(value.real), x[1].like(value.imag)))


def _plus(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _minus(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def butterfly(x: list[Complex], sign: int) -> list[Complex]:
    """The transform of a power of two or an odd prime number of values, in registers."""
    n = len(x)
    if n == 1:
        return x
    if n == 2:
        return [_plus(x[0], x[1]), _minus(x[0], x[1])]
    if n % 2 == 0:
        even, odd = butterfly(x[::2], sign), butterfly(x[1::2], sign)
        odd = [_times_root(value, n, sign * k) for k, value in enumerate(odd)]
        pairs = list(zip(even, odd, strict=True))
        return [_plus(a, b) for a, b in pairs] + [_minus(a, b) for a, b in pairs]
    sums = [_plus(x[j], x[n - j]) for j in range(1, n // 2 + 1)]
    differences = [_minus(x[j], x[n - j]) for j in range(1, n // 2 + 1)]
    total = x[0]
    for value in sums:
        total = _plus(total, value)
    result = [total] * n
    for k in range(1, n // 2 + 1):
        even_part, odd_part = x[0], None
        for j, (a, b) in enumerate(zip(sums, differences, strict=True), 1):
            turn = root(n, j * k)
            even_part = fma(a[0], turn.real, even_part[0]), fma(a[1], turn.real, even_part[1])
            scaled = (b[0] * turn.imag, b[1] * turn.imag) if odd_part is None else (
                fma(b[0], turn.imag, odd_part[0]), fma(b[1], turn.imag, odd_part[1]))  # fmt: skip
            odd_part = scaled
        assert odd_part is not None
        turned = (-odd_part[1], odd_part[0]) if sign > 0 else (odd_part[1], -odd_part[0])
        result[k], result[n - k] = _plus(even_part, turned), _minus(even_part, turned)
    return result


def apart(low: Vector, high: Vector) -> Complex:
    """Real and imaginary parts of the complex numbers in two vectors."""
    lanes = low.lanes
    return low.shuffle(range(0, 2 * lanes, 2), high), low.shuffle(range(1, 2 * lanes, 2), high)


def together(value: Complex) -> tuple[Vector, Vector]:
    """Complex numbers in two vectors."""
    real, imaginary = value
    lanes = real.lanes
    order = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]
    return real.shuffle(order[:lanes], imaginary), real.shuffle(order[lanes:], imaginary)


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
        align = BITS[self.kind] // 8
        low, high = (place.load(self.kind, lanes, align) for place in self._places(index, lanes))
        return (low, high) if lanes == 1 else apart(low, high)

    def put(self, index: Index, value: Complex) -> None:
        lanes, align = value[0].lanes, BITS[self.kind] // 8
        places = self._places(index, lanes)
        for part in value if lanes == 1 else together(value):
            next(places).store(part, align)


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
        align = BITS[self.kind] // 8
        real, imaginary = (place.load(self.kind, self.lanes, align) for place in self._places(row))
        return real, imaginary

    def put(self, row: Index, value: Complex) -> None:
        for place, part in zip(self._places(row), value, strict=True):
            place.store(part, align=BITS[self.kind] // 8)


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
        twiddles = [roots.spread(f, p * k * stride, lanes) if outer else None for k in range(1, radix)]
        inner = begin_loop(f, 0, stride) if stride > 1 else None
        q: Index = inner.index if inner else 0
        first = q + p * stride
        values = butterfly([read(first + j * current * stride) for j in range(radix)], roots.sign)
        target = q + p * (stride * radix)
        for k, value in enumerate(values):
            twiddle = twiddles[k - 1] if k else None
            write(target + k * stride, value if twiddle is None else product(value, twiddle))
        for loop in (inner, outer):
            if loop:
                loop.end()
        stride *= radix


def bluestein_length(n: int) -> int:
    """The length of the convolution that makes a transform of length n."""
    return 1 << (2 * n - 2).bit_length()


def chirp_filter(unit: Unit, chirp: str, spectrum: str, n: int, m: int, sign: int, kind: str) -> None:
    """Define the chirp of a transform of length n, and the spectrum of the filter that makes one by a convolution of
    length m, scaled by 1 / m."""
    values = [root(2 * n, sign * j * j) for j in range(n)]
    filter_ = np.zeros(m, np.complex128)
    filter_[:n] = np.conj(values)
    filter_[m - n + 1 :] = np.conj(values[:0:-1])
    _define_table(unit, chirp, values, kind)
    _define_table(unit, spectrum, (np.fft.fft(filter_) / m).tolist(), kind)
