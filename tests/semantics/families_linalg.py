"""cholesky, triangular-solve and fft."""

from __future__ import annotations

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, dtype_of
from semantics.sample import Sample, family
from semantics.values import Array, Filler, modest

_NO_ZERO = "f8e8m0fnu"
_FEW_NUMBERS = "f4e2m1fn"
_SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40)


def _batch(s: Sample) -> tuple[int, ...]:
    return s.rng.choice(((), (), (1,), (2,), (3,), (2, 3), (0,), (2, 1, 2)))


def _normal(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    row = ELEMENT_TYPES[kind]
    values = generator.standard_normal(sizes)
    return np.asarray(values + 1j * generator.standard_normal(sizes) if row.is_complex else values)


def _powers(generator: np.random.Generator, sizes: tuple[int, ...], step: int) -> Array:
    """Matrices for a type that holds powers of two alone: of 2^step on the diagonal, and next to nothing beside it, so
    that every step of a factorisation or a substitution gives a power of two again."""
    diagonal = np.exp2(step * generator.integers(-3, 4, sizes).astype(np.float64))
    beside = np.exp2(generator.integers(-100, -90, sizes).astype(np.float64))
    return np.where(np.eye(sizes[-1], dtype=np.bool_), diagonal, beside)


def definite(lower: bool) -> Filler:
    """Positive definite matrices, now and then one that is not, with rubbish in the triangle that is not read."""

    def fill(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
        n = sizes[-1]
        if kind == _NO_ZERO:
            return _powers(generator, sizes, 2).astype(dtype_of(kind))
        root = _normal(generator, kind, sizes)
        matrix = root @ np.swapaxes(root, -1, -2).conj() + n * np.eye(n)
        if ELEMENT_TYPES[kind].bits <= 8:  # of few numbers: little off the diagonal
            matrix = np.eye(n) + 0.25 * np.tri(n, k=-1) * (generator.random(sizes) < 0.1)
            matrix = np.maximum(matrix, np.swapaxes(matrix, -1, -2))
        spoilt = generator.random(sizes[:-2]) < 0.1
        if n:
            matrix[..., n // 2, n // 2] = np.where(spoilt, -1.0, matrix[..., n // 2, n // 2])
        there = np.tri(n, dtype=np.bool_)
        rubbish = generator.choice([np.nan, np.inf, 1e30, 1.0], sizes)
        return np.where(there if lower else there.T, matrix, rubbish).astype(dtype_of(kind))

    return fill


@family("cholesky", "narrow float complex")
def cholesky(s: Sample, opcode: str, kind: str) -> Instruction:
    n, lower = s.rng.choice(_SIZES), s.rng.random() < 0.5
    operand = s.operand(kind, (*_batch(s), n, n), definite(lower))
    attributes = {"lower": lower} if lower or s.rng.random() < 0.5 else {}
    return s.builder.add(opcode, None, [operand], attributes)


def triangle(lower: bool, unit_diagonal: bool, singular: bool) -> Filler:
    """Well conditioned triangular matrices with rubbish where nothing is read; `singular` ones have a zero."""

    def fill(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
        n = sizes[-1]
        if kind == _NO_ZERO:
            return _powers(generator, sizes, 1).astype(dtype_of(kind))
        matrix = _normal(generator, kind, sizes) / max(1.0, n**0.5)
        diagonal = np.arange(n)
        if kind == _FEW_NUMBERS:  # halves and wholes, of which sums are exact in f32
            matrix = generator.choice([0, 0, 0, 0, 0, 0.5, -0.5, 1.0], sizes)
            matrix[..., diagonal, diagonal] = generator.choice([1, -1, 2, -2, 0.5], sizes[:-1])
            return np.asarray(matrix).astype(dtype_of(kind))
        matrix[..., diagonal, diagonal] = generator.uniform(1, 3, sizes[:-1]) * generator.choice([1, -1], sizes[:-1])
        if singular and n:
            matrix[..., n // 2, n // 2] = 0
        if unit_diagonal:
            matrix[..., diagonal, diagonal] = np.nan
        there = np.tri(n, dtype=np.bool_)
        rubbish = generator.choice([np.nan, np.inf, 1e30], sizes)
        return np.where(there if lower else there.T, matrix, rubbish).astype(dtype_of(kind))

    return fill


@family("triangular-solve", "narrow float complex")
def triangular_solve(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    n, columns, batch = rng.choice(_SIZES), rng.choice((0, 1, 1, 2, 3, 8, 17)), _batch(s)
    left, lower, unit = (rng.random() < 0.5 for _ in range(3))
    singular = kind not in (_NO_ZERO, _FEW_NUMBERS) and rng.random() < 0.1
    if kind == _FEW_NUMBERS:
        n = min(n, 9)
    matrix = s.operand(kind, (*batch, n, n), triangle(lower, unit, singular))
    right = s.operand(kind, (*batch, n, columns) if left else (*batch, columns, n), modest)
    how = rng.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    attributes = {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": how}
    result = s.builder.add(opcode, None, [matrix, right], attributes)
    if not singular:
        return result
    if ELEMENT_TYPES[kind].is_complex:  # whether infinity or NaN comes of a division by zero is open
        result = s.builder.unary("real", result)
    return s.builder.unary("is-finite", result)


_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 30, 32, 37, 49, 60, 64, 67, 100, 101, 121, 128, 210)
_LONG = (251, 256, 257, 509, 512, 1000, 1009, 1024, 2003, 2048, 4096)


@family("fft", "f32 f64 c64 c128")
def fft(s: Sample, opcode: str, kind: str) -> Instruction:
    rng = s.rng
    how = rng.choice(("FFT", "IFFT", "IRFFT")) if ELEMENT_TYPES[kind].is_complex else "RFFT"
    count = rng.choice((1, 1, 1, 2, 3))
    lengths = [rng.choice(_LENGTHS if count == 1 else _LENGTHS[:14] if count == 2 else _LENGTHS[:8])]
    lengths += [rng.choice(_LENGTHS[:8]) for _ in range(count - 1)]
    rng.shuffle(lengths)
    if count == 1 and rng.random() < 0.2:
        lengths = [rng.choice(_LONG)]
    if rng.random() < 0.03:
        lengths[rng.randrange(count)] = 0
    batch = _batch(s) if max(lengths) < 200 else ()
    last = lengths[-1] // 2 + 1 if how == "IRFFT" else lengths[-1]
    operand = s.operand(kind, (*batch, *lengths[:-1], last), modest)
    return s.builder.add(opcode, None, [operand], {"fft_type": how, "fft_length": tuple(lengths)})
