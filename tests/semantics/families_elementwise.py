"""Elementwise instructions: every opcode with every element type that it takes.

What is exact or rounded once must agree bit for bit, signs of zeros included; transcendental functions within
a few units of the last place.
"""

from __future__ import annotations

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, array
from semantics.sample import TYPES, Sample, family
from semantics.values import Array, Filler, anything, modest, within

INTEGERS = "signed unsigned"
FLOATS = "narrow float"
NUMBERS = "signed unsigned narrow float"
DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


def _apply(s: Sample, opcode: str, kind: str, count: int, values: Filler = anything) -> Instruction:
    """An instruction on operands of the same shape."""
    sizes = s.sizes()
    return s.builder.add(opcode, None, [s.operand(kind, sizes, values) for _ in range(count)])


@family("abs", "signed narrow float", ulps=0)
@family("negate", "signed unsigned narrow float complex", ulps=0)
@family("sign", "signed narrow float", ulps=0)
@family("ceil floor round-nearest-afz round-nearest-even is-finite", FLOATS, ulps=0)
@family("not", "pred signed unsigned", ulps=0)
@family("popcnt count-leading-zeros", INTEGERS, ulps=0)
@family("real imag", "narrow float complex", ulps=0)
@family("sqrt", FLOATS, ulps=0)
def unary(s: Sample, opcode: str, kind: str) -> Instruction:
    return _apply(s, opcode, kind, 1)


TRANSCENDENTAL = (
    "exponential exponential-minus-one log log-plus-one logistic rsqrt cbrt sine cosine tan sinh cosh tanh "
    "asin acos asinh acosh atanh erf"
)


@family(TRANSCENDENTAL, "narrow f16 bf16", ulps=1)
@family(TRANSCENDENTAL, "f32 f64", ulps=4)
@family("abs sign", "complex", ulps=4)
def transcendental(s: Sample, opcode: str, kind: str) -> Instruction:
    return _apply(s, opcode, kind, 1)


@family(
    "exponential exponential-minus-one log log-plus-one sqrt rsqrt sine cosine tan sinh cosh tanh "
    "asin acos asinh acosh atanh",
    "complex",
    ulps=8,
)
@family("logistic", "complex", ulps=64)  # 1 + e^-z cancels near its poles, in the evaluator too
def complex_function(s: Sample, opcode: str, kind: str) -> Instruction:
    """Away from poles and overflow, where the evaluator itself is accurate."""
    return _apply(s, opcode, kind, 1, modest)


@family("add multiply", "pred signed unsigned narrow float complex", ulps=0)
@family("subtract", "signed unsigned narrow float complex", ulps=0)
@family("divide remainder", NUMBERS, ulps=0)
@family("maximum minimum", "pred signed unsigned narrow float", ulps=0)
@family("mulhi", INTEGERS, ulps=0)
@family("and or xor", "pred signed unsigned", ulps=0)
@family("complex", "f32 f64", ulps=0)
def binary(s: Sample, opcode: str, kind: str) -> Instruction:
    return _apply(s, opcode, kind, 2)


@family("shift-left shift-right-arithmetic shift-right-logical", INTEGERS, ulps=0)
def shift(s: Sample, opcode: str, kind: str) -> Instruction:
    """By amounts inside the width, at it, and far out."""
    sizes = s.sizes()
    amounts = s.rng.choice((anything, within(-2, ELEMENT_TYPES[kind].bits + 2)))
    return s.builder.binary(opcode, s.operand(kind, sizes), s.operand(kind, sizes, amounts))


@family("power", INTEGERS, ulps=0)
def integer_power(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes()
    exponents = s.rng.choice((anything, within(-3, 40)))
    return s.builder.binary(opcode, s.operand(kind, sizes), s.operand(kind, sizes, exponents))


@family("power atan2", "narrow f16 bf16", ulps=1)
@family("power atan2", "f32 f64", ulps=4)
def float_binary(s: Sample, opcode: str, kind: str) -> Instruction:
    """Also with whole second operands, which powers of negative numbers ask for."""
    sizes = s.sizes()
    first, second = s.rng.choice((anything, modest)), s.rng.choice((anything, modest, whole))
    return s.builder.binary(opcode, s.operand(kind, sizes, first), s.operand(kind, sizes, second))


@family("divide", "complex", ulps=8)
@family("power", "complex", ulps=64)
@family("atan2", "complex", ulps=1024)
def complex_binary(s: Sample, opcode: str, kind: str) -> Instruction:
    return _apply(s, opcode, kind, 2, modest)


def whole(generator: np.random.Generator, kind: str, sizes: tuple[int, ...]) -> Array:
    """Whole numbers and halves."""
    return np.asarray(np.rint(generator.standard_normal(sizes) * 6) / 2).astype(modest(generator, kind, sizes).dtype)


@family("compare", "all", ulps=0)
def compare(s: Sample, opcode: str, kind: str) -> Instruction:
    row, sizes = ELEMENT_TYPES[kind], s.sizes()
    direction = s.rng.choice(DIRECTIONS[:2] if row.is_complex else DIRECTIONS)
    order = s.rng.choice((None, "FLOAT", "TOTALORDER")) if row.is_float else None
    return s.builder.compare(s.operand(kind, sizes), s.operand(kind, sizes), direction, order)


@family("select", "all", ulps=0)
def select(s: Sample, opcode: str, kind: str) -> Instruction:
    """The predicate may be one for all."""
    sizes = s.sizes()
    predicate = s.operand("pred", sizes if s.rng.random() < 0.7 else ())
    return s.builder.select(predicate, s.operand(kind, sizes), s.operand(kind, sizes))


@family("clamp", "pred signed unsigned narrow float complex", ulps=0)
def clamp(s: Sample, opcode: str, kind: str) -> Instruction:
    """Bounds are scalars or arrays, in any order."""
    sizes = s.sizes()
    low, high = (s.operand(kind, s.rng.choice((sizes, ()))) for _ in range(2))
    return s.builder.clamp(low, s.operand(kind, sizes), high)


@family("convert", "all", ulps=0)
def convert(s: Sample, opcode: str, kind: str) -> Instruction:
    return s.builder.convert(s.operand(kind, s.sizes()), s.rng.choice(TYPES))


@family("bitcast-convert", "all", ulps=0)
def bitcast_convert(s: Sample, opcode: str, kind: str) -> Instruction:
    """To any type: of the same size, to parts (a new last dimension), or of parts."""
    target = s.rng.choice(TYPES)
    have, want = ELEMENT_TYPES[kind].bits, ELEMENT_TYPES[target].bits
    sizes = s.sizes(most=40)
    before, after = sizes, sizes
    if have > want:
        after = (*sizes, have // want)
    elif have < want:
        before = (*sizes, want // have)
    return s.builder.bitcast_convert(s.operand(kind, before), array(target, after))


@family("reduce-precision", FLOATS, ulps=0)
def reduce_precision(s: Sample, opcode: str, kind: str) -> Instruction:
    sizes = s.sizes()
    bits = {"exponent_bits": s.rng.randint(1, 12), "mantissa_bits": s.rng.choice((0, 0, *range(54)))}
    return s.builder.add(opcode, array(kind, sizes), (s.operand(kind, sizes),), bits)


@family("stochastic-convert", FLOATS, ulps=0)
def stochastic_convert(s: Sample, opcode: str, kind: str) -> Instruction:
    """To signed integers and to floats that are narrower; as many random bits as the operand has."""
    row, sizes = ELEMENT_TYPES[kind], s.sizes()
    narrower = {t for t, other in ELEMENT_TYPES.items() if other.is_float and other.bits <= row.bits}
    targets = [t for t in TYPES if t in narrower or ELEMENT_TYPES[t].kind == "signed"]
    operands = s.operand(kind, sizes, s.rng.choice((anything, modest))), s.operand(f"u{row.bits}", sizes)
    return s.builder.add(opcode, array(s.rng.choice(targets), sizes), operands)
