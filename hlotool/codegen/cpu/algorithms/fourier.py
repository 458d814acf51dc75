"""Discrete Fourier transforms on vectors of lanes: every lane is a transform of its own.

Stockham's self-sorting passes of radix 2 to 16 and small odd primes (C. Van Loan, Computational Frameworks for the
Fast Fourier Transform, 1992, 1.7); lengths with larger prime factors by Bluestein's chirp convolution (L. Bluestein,
"A linear filtering approach to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.access import Index, add, address, multiply, splat
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS, constant_text, type_text
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = [
    "Complex",
    "Roots",
    "Rows",
    "Sink",
    "Source",
    "bluestein_length",
    "chirp_filter",
    "product",
    "radices",
    "spread",
    "transform",
]

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
            value = root(self.n, self.sign * exponent)
            return self._constant(f, value.real), self._constant(f, value.imag)
        if self.n <= _TABLE:
            return self._entry(f, "fine", exponent)
        bits = self.fine.bit_length() - 1
        low = self._entry(f, "fine", f.let(f"and i64 {exponent}, {self.fine - 1}"))
        high = self._entry(f, "coarse", f.let(f"lshr i64 {exponent}, {bits}"))
        real, imaginary = product(low, high)
        if self.kind == "float":
            return real.cast("fptrunc", "float"), imaginary.cast("fptrunc", "float")
        return real, imaginary

    def spread(self, f: Function, exponent: Index, lanes: int) -> Complex:
        return spread(self.get(f, exponent), lanes)

    def row(self, f: Function, lanes: int) -> Complex:
        """The roots of exponents 0, 1, ..., lanes - 1 as a constant vector."""
        values = [root(self.n, self.sign * e) for e in range(lanes)]
        if lanes == 1:
            return self._constant(f, 1.0), self._constant(f, 0.0)
        texts = [", ".join(f"{self.kind} {constant_text(self.kind, 1, v)}" for v in part) for part in (
            [v.real for v in values], [v.imag for v in values])]  # fmt: skip
        return Vector(f, self.kind, lanes, f"<{texts[0]}>"), Vector(f, self.kind, lanes, f"<{texts[1]}>")

    def _constant(self, f: Function, value: float) -> Vector:
        return Vector(f, self.kind, 1, constant_text(self.kind, 1, value))

    def _entry(self, f: Function, table: str, index: str) -> Complex:
        place = address(f, f"@{table}_{self.name}", self.stored, f.let(f"shl i64 {index}, 1"))
        align = BITS[self.stored] // 8
        real = f.let(f"load {self.stored}, ptr {place}, align {align}")
        imaginary = f.let(f"load {self.stored}, ptr {address(f, place, self.stored, 1)}, align {align}")
        return Vector(f, self.stored, 1, real), Vector(f, self.stored, 1, imaginary)


def _define_table(unit: Unit, name: str, values: list[complex], kind: str) -> None:
    data = np.array(values, np.complex128).astype(np.complex64 if kind == "float" else np.complex128).tobytes()
    unit.data(name, data)


def _spread(x: Vector, lanes: int) -> Vector:
    if lanes == 1:
        return x
    if x.is_constant:
        return Vector(x.f, x.element, lanes, f"splat ({x.element} {x.name})")
    return Vector(x.f, x.element, lanes, splat(x.f, x.element, lanes, x.name))


def spread(value: Complex, lanes: int) -> Complex:
    """A scalar in all lanes."""
    return _spread(value[0], lanes), _spread(value[1], lanes)


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


@dataclass(frozen=True, slots=True)
class Rows:
    """Scratch: rows of `lanes` complex numbers, real parts before imaginary parts."""

    f: Function
    pointer: str
    kind: str
    lanes: int

    def _places(self, row: Index) -> tuple[str, str]:
        real = address(self.f, self.pointer, self.kind, multiply(self.f, row, 2 * self.lanes))
        return real, address(self.f, real, self.kind, self.lanes)

    def get(self, row: Index) -> Complex:
        kind, align = type_text(self.kind, self.lanes), BITS[self.kind] // 8
        real, imaginary = (
            Vector(self.f, self.kind, self.lanes, self.f.let(f"load {kind}, ptr {place}, align {align}"))
            for place in self._places(row)
        )
        return real, imaginary

    def put(self, row: Index, value: Complex) -> None:
        for place, part in zip(self._places(row), value, strict=True):
            self.f.do(f"store {part.type} {part.name}, ptr {place}, align {BITS[self.kind] // 8}")


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
        outer = f.begin_loop(0, current) if current > 1 else None
        p: Index = outer.index if outer else 0
        twiddles = [
            roots.spread(f, multiply(f, multiply(f, p, k), stride), lanes) if outer else None for k in range(1, radix)
        ]
        inner = f.begin_loop(0, stride) if stride > 1 else None
        q: Index = inner.index if inner else 0
        first = add(f, q, multiply(f, p, stride))
        values = butterfly([read(add(f, first, j * current * stride)) for j in range(radix)], roots.sign)
        target = add(f, q, multiply(f, p, stride * radix))
        for k, value in enumerate(values):
            twiddle = twiddles[k - 1] if k else None
            write(add(f, target, k * stride), value if twiddle is None else product(value, twiddle))
        for loop in (inner, outer):
            if loop:
                f.end_loop(loop)
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
