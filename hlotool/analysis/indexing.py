"""Symbolic indices: which element of an operand an element of a result reads, as a formula of loop variables.

An `Index` is ``constant + sum(coefficient * atom)``.  Atoms are loop variables, quotients and remainders of
indices by constants, and integers known only at run time; every atom has an inclusive range, and the ranges
make most quotients and remainders fold away.  With them every data movement of HLO (reshape, transpose,
slice, pad...) is a substitution of indices and costs nothing at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from math import gcd

from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Atom",
    "Condition",
    "Index",
    "atom_index",
    "constant",
    "delinearize",
    "linearize",
    "row_major_strides",
    "runtime",
    "variable",
]


@dataclass(frozen=True, slots=True)
class Atom:
    """An unknown integer in ``low..high`` (inclusive), the same wherever its `key` is the same.

    Kinds (first of the key): ``variable`` (a loop counter), ``quotient`` and ``remainder`` (of `inner` by
    `divisor`) and ``runtime`` (the value of `source`).  `variables` is the bit set of the numbers of the loop
    variables it depends on.
    """

    key: tuple[object, ...]
    low: int = field(compare=False)
    high: int = field(compare=False)
    variables: int = field(compare=False)
    inner: Index | None = field(default=None, compare=False)
    divisor: int = field(default=0, compare=False)
    source: object = field(default=None, compare=False)

    @property
    def kind(self) -> str:
        return str(self.key[0])

    @property
    def order(self) -> tuple[int, int, object]:
        """Sorts atoms of one formula; no two different atoms tie."""
        kinds = {"variable": 0, "runtime": 1, "quotient": 2, "remainder": 3}
        if self.inner is None:
            return kinds[self.kind], 0, self.key[1]
        return kinds[self.kind], self.divisor, self.inner.order


@dataclass(frozen=True, slots=True)
class Index:
    """``constant + sum(coefficient * atom)`` with its inclusive range."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int
    low: int = field(compare=False)
    high: int = field(compare=False)
    variables: int = field(compare=False)

    def __hash__(self) -> int:
        """Of what tells most indices apart, without the atoms, which may have indices inside."""
        return hash((self.constant, self.variables, len(self.terms), self.terms[-1][1] if self.terms else 0))

    @property
    def order(self) -> tuple[object, ...]:
        return (self.constant, *((coefficient, atom.order) for atom, coefficient in self.terms))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, atom: Atom) -> int:
        """Of a top-level term; 0 when `atom` is not one."""
        for own, coefficient in self.terms:
            if own == atom:
                return coefficient
        return 0

    def atoms(self) -> Iterator[Atom]:
        """All atoms, those inside of quotients and remainders too."""
        for atom, _ in self.terms:
            yield atom
            if atom.inner is not None:
                yield from atom.inner.atoms()

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            if not other:
                return self
            return Index(self.terms, self.constant + other, self.low + other, self.high + other, self.variables)
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        return _sum([*self.terms, *other.terms], self.constant + other.constant)

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other if isinstance(other, int) else other * -1)

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        if not factor:
            return constant(0)
        low, high = self.low * factor, self.high * factor
        if factor < 0:
            low, high = high, low
        terms = tuple((a, c * factor) for a, c in self.terms)
        return Index(terms, self.constant * factor, low, high, self.variables)

    def __floordiv__(self, divisor: int) -> Index:
        """Rounded towards minus infinity; `divisor` > 0."""
        if divisor == 1:
            return self
        whole, rest, left = self._parts(divisor)
        return whole if left == 0 else whole + _quotient(rest, divisor)

    def __mod__(self, divisor: int) -> Index:
        """The remainder that belongs to ``//``: in ``0..divisor-1``."""
        if divisor == 1:
            return constant(0)
        _, rest, left = self._parts(divisor)
        return rest if left == 0 else _remainder(rest, divisor)

    def _parts(self, divisor: int) -> tuple[Index, Index, int]:
        """``self == whole * divisor + rest``; the last is 0 when rest is known to lie in 0..divisor-1."""
        whole = [(a, c // divisor) for a, c in self.terms if c % divisor == 0]
        rest = _sum([(a, c) for a, c in self.terms if c % divisor], self.constant)
        shift = rest.low // divisor
        rest = rest - shift * divisor
        return _sum(whole, shift), rest, int(rest.high >= divisor)


@dataclass(frozen=True, slots=True)
class Condition:
    """``low <= index < high``."""

    index: Index
    low: int
    high: int

    @property
    def always(self) -> bool:
        return self.low <= self.index.low and self.index.high < self.high

    @property
    def never(self) -> bool:
        return self.index.high < self.low or self.index.low >= self.high or self.low >= self.high


def constant(value: int) -> Index:
    return Index((), value, value, value, 0)


def variable(number: int, extent: int, start: int = 0) -> Atom:
    """Loop variable `number`, counting in ``start..start+extent-1`` (extent at least 1)."""
    return Atom(("variable", number, start, extent), start, start + extent - 1, 1 << number)


def runtime(number: int, source: object, low: int, high: int, variables: int) -> Atom:
    """An integer computed at run time and clamped to ``low..high``; `number` names it."""
    return Atom(("runtime", number, low, high), low, high, variables, source=source)


def atom_index(atom: Atom) -> Index:
    """The index that is just `atom`; an atom of one possible value is that constant."""
    if atom.low == atom.high:
        return constant(atom.low)
    return Index(((atom, 1),), 0, atom.low, atom.high, atom.variables)


def linearize(indices: Sequence[Index], dimensions: Sequence[int]) -> Index:
    """The row-major position of an element of an array of `dimensions`."""
    total = constant(0)
    for index, stride in zip(indices, row_major_strides(dimensions), strict=True):
        total = total + index * stride
    return total


def delinearize(position: Index, dimensions: Sequence[int]) -> tuple[Index, ...]:
    """The indices of the element at a row-major position."""
    indices = []
    for size, stride in zip(dimensions, row_major_strides(dimensions), strict=True):
        indices.append(constant(0) if size == 1 else (position // stride) % size)
    return tuple(indices)


def row_major_strides(dimensions: Sequence[int]) -> list[int]:
    strides = []
    stride = 1
    for size in reversed(dimensions):
        strides.append(stride)
        stride *= max(size, 1)
    return strides[::-1]


def _sum(terms: Iterable[tuple[Atom, int]], offset: int) -> Index:
    merged: dict[Atom, int] = {}
    for atom, coefficient in terms:
        merged[atom] = merged.get(atom, 0) + coefficient
    offset += _rejoin(merged)
    kept = sorted(((a, c) for a, c in merged.items() if c), key=lambda term: term[0].order)
    low = high = offset
    variables = 0
    for atom, coefficient in kept:
        ends = atom.low * coefficient, atom.high * coefficient
        low += min(ends)
        high += max(ends)
        variables |= atom.variables
    return Index(tuple(kept), offset, low, high, variables)


def _rejoin(terms: dict[Atom, int]) -> int:
    """``k*d*(x // d) + k*(x % d) = k*x``, and the same for a quotient that is itself cut off by a remainder.

    Returns the constant that appears.
    """
    offset = 0
    while True:
        for low in [a for a, c in terms.items() if c and a.kind == "remainder"]:
            k, x, d = terms[low], low.inner, low.divisor
            assert x is not None
            for high, c in list(terms.items()):
                if c != k * d:
                    continue
                if high.kind == "quotient" and high.divisor == d and high.inner == x:
                    whole = x
                    break
                outer = high.inner
                if high.kind == "remainder" and outer is not None and outer == x // d:
                    whole = x % (d * high.divisor)
                    break
            else:
                continue
            del terms[low], terms[high]
            for atom, coefficient in whole.terms:
                terms[atom] = terms.get(atom, 0) + coefficient * k
            offset += whole.constant * k
            break
        else:
            return offset


def _coarse(x: Index, divisor: int) -> tuple[int, Index, Index] | None:
    """``x == g * big + small`` with g > 1 dividing `divisor` and small in 0..g-1."""
    for g in sorted({gcd(divisor, c) for _, c in x.terms} - {1}, reverse=True):
        small = _sum([(a, c) for a, c in x.terms if c % g], x.constant % g)
        if small.low >= 0 and small.high < g:
            return g, _sum([(a, c // g) for a, c in x.terms if c % g == 0], x.constant // g), small
    return None


def _quotient(x: Index, divisor: int) -> Index:
    coarse = _coarse(x, divisor)
    if coarse is not None:
        g, big, _ = coarse
        return big // (divisor // g)
    if len(x.terms) == 1 and x.terms[0][1] == 1 and not x.constant:
        atom = x.terms[0][0]
        if atom.kind == "quotient" and atom.inner is not None:
            return atom.inner // (atom.divisor * divisor)
        if atom.kind == "remainder" and atom.inner is not None and atom.divisor % divisor == 0:
            return (atom.inner // divisor) % (atom.divisor // divisor)
    low, high = x.low // divisor, x.high // divisor
    key = ("quotient", x, divisor)
    return atom_index(Atom(key, low, high, x.variables, x, divisor))


def _remainder(x: Index, divisor: int) -> Index:
    coarse = _coarse(x, divisor)
    if coarse is not None:
        g, big, small = coarse
        return (big % (divisor // g)) * g + small
    if len(x.terms) == 1 and x.terms[0][1] == 1 and not x.constant:
        atom = x.terms[0][0]
        if atom.kind == "remainder" and atom.inner is not None and atom.divisor % divisor == 0:
            return atom.inner % divisor
    key = ("remainder", x, divisor)
    return atom_index(Atom(key, 0, divisor - 1, x.variables, x, divisor))
