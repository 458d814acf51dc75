"""Samples whose operands and results are dressed up: what rewrite rules look for stands around every instruction.

An operand is not only a parameter, but a constant, a broadcast, an iota, or an array that was moved, joined, cut out,
padded or computed; a result is cut, moved or reduced afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, array, dtype_of
from semantics.sample import Sample
from semantics.values import Filler, anything, integer_range, modest, small

__all__ = ["Dressed", "undressed"]

_FREE = (anything, modest, small)
"""Fillers of operands that may have any value."""


class Dressed(Sample):
    """A sample whose operands are dressed up to `depth` times."""

    depth = 2

    def operand(self, kind: str, sizes: Sequence[int] = (), values: Filler = anything) -> Instruction:
        return self.dressed(kind, tuple(sizes), values, self.rng.choice((0, 1, 1, self.depth)))

    def dressed(self, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction:
        if depth == 0:
            return self.leaf(kind, sizes, values)
        fits = (*_MOVES, *_SUMS) if values in _FREE else _MOVES
        for _ in range(4):
            made = self.rng.choice(fits)(self, kind, sizes, values, depth - 1)
            if made is not None:
                return made
        return self.leaf(kind, sizes, values)

    def leaf(self, kind: str, sizes: tuple[int, ...], values: Filler) -> Instruction:
        """A parameter, a constant of one value or of several, or an iota."""
        row = ELEMENT_TYPES[kind]
        choice = self.rng.random()
        if choice < 0.5:
            return super().operand(kind, sizes, values)
        generator = np.random.default_rng(self.rng.getrandbits(32))
        longest = max(sizes, default=0)
        if choice < 0.6 and sizes and row.is_integer and row.bits >= 8 and longest <= integer_range(kind)[1]:
            return self.builder.iota(array(kind, sizes), self.rng.randrange(len(sizes)))
        if choice < 0.75 and all(sizes) and len(sizes) <= 4 and int(np.prod(sizes, dtype=int)) <= 64:
            return self.builder.constant(values(generator, kind, sizes), kind)
        single = self.number(kind) if values in _FREE and self.rng.random() < 0.6 else values(generator, kind, ())
        scalar = self.builder.constant(np.asarray(single, dtype_of(kind)), kind)
        return self.builder.broadcast(scalar, (), array(kind, sizes)) if sizes else scalar

    def number(self, kind: str) -> object:
        """One of the numbers that rules know."""
        row = ELEMENT_TYPES[kind]
        if row.kind == "pred":
            return self.rng.random() < 0.5
        if row.is_integer:
            low, high = integer_range(kind)
            return self.rng.choice([n for n in (0, 1, 2, 4, -1, 3, low, high, low + 1) if low <= n <= high])
        numbers = [0.0, -0.0, 1.0, 2.0, 0.5, -1.0, 3.0]
        return self.rng.choice([*numbers, np.inf, -np.inf, np.nan] if row.bits >= 16 else numbers)


def _reversed(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    if not sizes:
        return None
    chosen = sorted(s.rng.sample(range(len(sizes)), s.rng.randint(1, len(sizes))))
    return s.builder.reverse(s.dressed(kind, sizes, values, depth), chosen)


def _transposed(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    if not sizes:
        return None
    order = s.rng.sample(range(len(sizes)), len(sizes))
    source = [0] * len(sizes)
    for place, d in enumerate(order):
        source[d] = sizes[place]
    return s.builder.transpose(s.dressed(kind, tuple(source), values, depth), order)


def _reshaped(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    other = [n for n in sizes if n != 1 or s.rng.random() < 0.5]
    if s.rng.random() < 0.5:
        other.insert(s.rng.randint(0, len(other)), 1)
    if s.rng.random() < 0.2:
        other = [int(np.prod(sizes, dtype=int))]
    return s.builder.reshape(s.dressed(kind, tuple(other), values, depth), sizes)


def _sliced(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    rows = [(s.rng.randint(0, 3), s.rng.choice((1, 1, 1, 2)), s.rng.randint(0, 2)) for _ in sizes]
    whole = tuple(a + max(0, (n - 1) * step + 1) + b for (a, step, b), n in zip(rows, sizes, strict=True))
    limits = [a + max(0, (n - 1) * step + 1) for (a, step, _), n in zip(rows, sizes, strict=True)]
    if not sizes or len(sizes) > 4:
        return None
    source = s.dressed(kind, whole, values, depth)
    return s.builder.slice(source, [a for a, _, _ in rows], limits, [step for _, step, _ in rows])


def _joined(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    if not sizes:
        return None
    along = s.rng.randrange(len(sizes))
    first = s.rng.randint(0, sizes[along])
    parts = [
        s.dressed(kind, (*sizes[:along], n, *sizes[along + 1 :]), values, depth) for n in (first, sizes[along] - first)
    ]
    return s.builder.concatenate(parts, along)


def _repeated(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    kept = [d for d in range(len(sizes)) if s.rng.random() < 0.5]
    if s.rng.random() < 0.3:
        s.rng.shuffle(kept)
    return s.builder.broadcast(s.dressed(kind, tuple(sizes[d] for d in kept), values, depth), kept, array(kind, sizes))


def _padded(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    rows, source = [], []
    for n in sizes:
        low, high = s.rng.choice((0, 0, 1, 2, -1)), s.rng.choice((0, 0, 1, 2, -1))
        interior = s.rng.choice((0, 0, 0, 1))
        inner = n - low - high
        if inner < 1 or (interior and inner % 2 == 0):
            low = high = interior = 0
            inner = n
        rows.append((low, high, interior))
        source.append((inner + 1) // 2 if interior else inner)
    return s.builder.pad(s.dressed(kind, tuple(source), values, depth), s.dressed(kind, (), values, 0), rows)


def _cut(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    if not all(sizes):
        return None
    whole = tuple(n + s.rng.choice((0, 0, 1, 3)) for n in sizes)
    starts = [s.dressed("s32", (), _index, 0) for _ in sizes]
    return s.builder.dynamic_slice(s.dressed(kind, whole, values, depth), starts, sizes) if sizes else None


def _updated(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    if not sizes:
        return None
    part = tuple(s.rng.choice((n, max(1, n // 2), min(1, n))) if n else 0 for n in sizes)
    starts = [s.dressed("s32", (), _index, 0) for _ in sizes]
    operands = (s.dressed(kind, n, values, depth) for n in (sizes, part))
    return s.builder.dynamic_update_slice(next(operands), next(operands), starts)


def _index(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
    return np.asarray(generator.integers(-2, 12, sizes)).astype(dtype_of(kind))


_UNARY = {
    "signed": ("negate", "abs", "not", "sign"), "unsigned": ("not", "negate"), "pred": ("not",),
    "float": ("negate", "abs", "floor", "sign", "exponential", "sqrt", "tanh"), "complex": ("negate",),
}  # fmt: skip
_BINARY = {
    "signed": ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor",
               "shift-left", "shift-right-logical", "shift-right-arithmetic"),
    "pred": ("and", "or", "xor"),
    "float": ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder"),
    "complex": ("add", "subtract", "multiply"),
}  # fmt: skip
_BINARY["unsigned"] = _BINARY["signed"]


def _unary(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    opcode = s.rng.choice(_UNARY[ELEMENT_TYPES[kind].kind])
    return s.builder.unary(opcode, s.dressed(kind, sizes, values, depth))


def _binary(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    opcode = s.rng.choice(_BINARY[ELEMENT_TYPES[kind].kind])
    left = s.dressed(kind, sizes, values, depth)
    right = left if s.rng.random() < 0.15 else s.dressed(kind, sizes, values, depth)
    return s.builder.binary(opcode, left, right)


def _selected(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    predicate = s.dressed("pred", sizes, anything, depth)
    return s.builder.select(predicate, *(s.dressed(kind, sizes, values, depth) for _ in range(2)))


def _converted(s: Dressed, kind: str, sizes: tuple[int, ...], values: Filler, depth: int) -> Instruction | None:
    if ELEMENT_TYPES[kind].is_complex:
        return None
    other = s.rng.choice(("pred", "s8", "u8", "s32", "u32", "s64", "bf16", "f16", "f32", "f64"))
    if other == kind:
        return None
    return s.builder.convert(s.dressed(other, sizes, values, depth), kind)


_Move = Callable[[Dressed, str, tuple[int, ...], Filler, int], "Instruction | None"]
_MOVES: tuple[_Move, ...] = (
    _reversed, _transposed, _reshaped, _sliced, _joined, _repeated, _repeated, _padded, _cut, _updated,
)  # fmt: skip
_SUMS: tuple[_Move, ...] = (_unary, _unary, _binary, _binary, _selected, _converted)


def undressed(s: Dressed, result: Instruction) -> Instruction:
    """What is made of a result: a part of it, the same moved, reduced or computed with."""
    for _ in range(s.rng.choice((0, 1, 1, 2))):
        if not result.shape.is_array or not result.shape.is_static:
            return result
        result = _reader(s, result)
    return result


def _reader(s: Dressed, x: Instruction) -> Instruction:
    sizes, kind, build = x.shape.dimensions, x.shape.element_type, s.builder
    row = ELEMENT_TYPES[kind]
    match s.rng.randrange(12):
        case 0 | 1 if sizes:
            rows = [(s.rng.randint(0, max(0, n - 1)), n) for n in sizes]
            limits = [s.rng.randint(low, n) if s.rng.random() < 0.5 else n for low, n in rows]
            return build.slice(x, [low for low, _ in rows], limits, [s.rng.choice((1, 1, 2)) for _ in rows])
        case 2 if sizes:
            return build.transpose(x, s.rng.sample(range(len(sizes)), len(sizes)))
        case 3 if sizes:
            return build.reverse(x, sorted(s.rng.sample(range(len(sizes)), s.rng.randint(1, len(sizes)))))
        case 4:
            return build.reshape(x, (*(n for n in sizes if n != 1), 1))
        case 5 if sizes and all(sizes):
            part = tuple(s.rng.randint(1, n) for n in sizes)
            return build.dynamic_slice(x, [s.dressed("s32", (), _index, 0) for _ in sizes], part)
        case 6 if sizes and not row.is_complex:
            opcode = s.rng.choice(("maximum", "minimum") if row.is_float else ("maximum", "minimum", "add", "xor"))
            if row.kind == "pred":
                opcode = s.rng.choice(("and", "or", "maximum"))
            chosen = sorted(s.rng.sample(range(len(sizes)), s.rng.randint(1, len(sizes))))
            return build.reduce(x, s.leaf(kind, (), anything), chosen, s.binary(opcode, kind))
        case 7:
            amounts = [(s.rng.choice((-1, 0, 1)) if n > 1 else 0, 1) for n in sizes]
            return build.pad(x, s.leaf(kind, (), anything), amounts)
        case 8 if not row.is_complex:
            direction = s.rng.choice(("EQ", "NE", "LT", "LE", "GT", "GE"))
            return build.compare(x, s.dressed(kind, sizes, anything, 0), direction)
        case 9:
            return build.unary(s.rng.choice(_UNARY[row.kind]), x)
        case 10:
            other = s.dressed(kind, sizes, anything, s.rng.choice((0, 1)))
            pair = [x, other] if s.rng.random() < 0.5 else [other, x]
            return build.binary(s.rng.choice(_BINARY[row.kind]), *pair)
        case 11 if sizes:
            return build.concatenate([x, s.dressed(kind, sizes, anything, 1)], s.rng.randrange(len(sizes)))
    return x
