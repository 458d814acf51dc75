"""Derivatives of elementwise opcodes: what a tangent, or a cotangent, is multiplied by, as a formula each.

The formulas serve both modes, since a product is its own transpose.  ``g`` is the (co)tangent, ``x`` (or ``a`` and
``b``) the operands, ``y`` the result, which is there already.  Of complex numbers a (co)tangent is multiplied by the
derivative, not by its conjugate, as JAX does: what differs between the modes is written out below.

The sign of a complex number turns with it, and has a derivative, which JAX leaves out.

Where a function has a corner, JAX's choice is taken: one-sided for abs, half each for equal operands of maximum and
minimum, zero where clamp touches a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Term, Writer, refusal

__all__ = ["RULES", "ZERO"]

ZERO = frozenset(
    [
    "ceil", "floor", "round-nearest-afz", "round-nearest-even", "not", "popcnt", "count-leading-zeros",
    "is-finite", "shift-left", "shift-right-arithmetic", "shift-right-logical", "mulhi", "and", "or", "xor",
    "compare", "bitcast-convert",
]
)
"""Opcodes whose derivative is zero, or that have only integers and truth values to give.  So is that of ``sign``, of
real numbers: it is not here."""

Unary = Callable[[Term, Term, Term], Term]
Binary = Callable[[Term, Term, Term, Term], Term]


def _abs(g: Term, x: Term, y: Term) -> Term:
    return x.compare("GE", 0.0).where(g, -g)


UNARY: dict[str, Unary] = {
    "abs": _abs,
    "negate": lambda g, x, y: -g,
    "exponential": lambda g, x, y: g * y,
    "exponential-minus-one": lambda g, x, y: g * (y + 1.0),
    "log": lambda g, x, y: g / x,
    "log-plus-one": lambda g, x, y: g / (x + 1.0),
    "logistic": lambda g, x, y: g * (y * (1.0 - y)),
    "sqrt": lambda g, x, y: g * (0.5 / y),
    "rsqrt": lambda g, x, y: g * (-0.5 * (y / x)),
    "cbrt": lambda g, x, y: g * (1 / 3 / (y * y)),
    "sine": lambda g, x, y: g * x.apply("cosine"),
    "cosine": lambda g, x, y: -(g * x.apply("sine")),
    "tan": lambda g, x, y: g * (y * y + 1.0),
    "sinh": lambda g, x, y: g * x.apply("cosh"),
    "cosh": lambda g, x, y: g * x.apply("sinh"),
    "tanh": lambda g, x, y: g * (1.0 - y * y),
    "asin": lambda g, x, y: g * (1.0 - x * x).apply("rsqrt"),
    "acos": lambda g, x, y: -(g * (1.0 - x * x).apply("rsqrt")),
    "asinh": lambda g, x, y: g * (x * x + 1.0).apply("rsqrt"),
    "acosh": lambda g, x, y: g * (x * x - 1.0).apply("rsqrt"),
    "atanh": lambda g, x, y: g / ((1.0 - x) * (1.0 + x)),
    "erf": lambda g, x, y: g * (2 / sqrt(pi) * (-(x * x)).apply("exponential")),
}


def _not_zero(x: Term) -> Term:
    """One in the places of zeros, where the logarithm is multiplied by zero anyway."""
    return x.compare("EQ", 0.0).where(1.0, x)


def _power_of(g: Term, a: Term, b: Term, y: Term) -> Term:
    """By the base: b * a^(b-1), and nothing of the infinity that 0^-1 is where the exponent is 0."""
    return g * b.compare("EQ", 0.0).where(0.0, b * a ** (b - 1.0))


def _whole(a: Term, b: Term) -> Term:
    """The quotient without its fraction."""
    quotient = a / b
    return quotient.apply("sign") * quotient.apply("abs").apply("floor")


def _extreme(direction: str) -> tuple[Binary, Binary]:
    """All of it for the operand that is the result, half for one of two that are."""

    def part(g: Term, own: Term, other: Term) -> Term:
        return own.compare(direction, other).where(g, own.compare("EQ", other).where(g * 0.5, 0.0))

    return lambda g, a, b, y: part(g, a, b), lambda g, a, b, y: part(g, b, a)


def _by_square(a: Term, b: Term) -> Term:
    return a / (a * a + b * b)


BINARY: dict[str, tuple[Binary, Binary]] = {
    "add": (lambda g, a, b, y: g, lambda g, a, b, y: g),
    "subtract": (lambda g, a, b, y: g, lambda g, a, b, y: -g),
    "multiply": (lambda g, a, b, y: g * b, lambda g, a, b, y: g * a),
    "divide": (lambda g, a, b, y: g / b, lambda g, a, b, y: -(g * (y / b))),
    "remainder": (lambda g, a, b, y: g, lambda g, a, b, y: -(g * _whole(a, b))),
    "power": (_power_of, lambda g, a, b, y: g * (_not_zero(a).apply("log") * y)),
    "atan2": (lambda g, a, b, y: g * _by_square(b, a), lambda g, a, b, y: -(g * _by_square(a, b))),
    "maximum": _extreme("GT"),
    "minimum": _extreme("LT"),
}


def _formula(at: Writer, instruction: Instruction, number: int, g: Instruction) -> Instruction:
    """What the table says of operand `number`."""
    operands = [at.term(operand) for operand in instruction.operands]
    y = at.term(instruction)
    if len(operands) == 1:
        return UNARY[instruction.opcode](at.written(g), operands[0], y).value
    return BINARY[instruction.opcode][number](at.written(g), operands[0], operands[1], y).value


Scaled = Callable[[Writer, Instruction, int, Instruction], Instruction]


def _both_modes(scaled: Scaled) -> Rule:
    """A rule for a function whose derivative by each operand multiplies element by element."""

    def reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
        for number, operand in enumerate(instruction.operands):
            if at.wants(operand):
                at.give(operand, scaled(at, instruction, number, cotangents[()]))

    def forward(at: Forward, instruction: Instruction) -> ByLeaf:
        total: Instruction | None = None
        for number, operand in enumerate(instruction.operands):
            tangent = at.tangent(operand)
            if tangent is not None:
                part = scaled(at, instruction, number, tangent)
                total = part if total is None else at.add(total, part)
        return {} if total is None else {(): total}

    return Rule(reverse, forward)


_TABLE = _both_modes(_formula)


# ---- choices


def _spread(at: Writer, value: Instruction, like: Instruction) -> Instruction:
    """A scalar, which select and clamp take for an array of equal elements, as that array."""
    if value.shape.dimensions == like.shape.dimensions:
        return value
    return at.build.broadcast(value, (), like.shape.with_type(value.shape.element_type))


def _select_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    predicate, on_true, on_false = instruction.operands
    g = cotangents[()]
    zero = at.zeros(g.shape)
    if at.wants(on_true):
        at.give(on_true, at.build.select(at.primal(predicate), g, zero))
    if at.wants(on_false):
        at.give(on_false, at.build.select(at.primal(predicate), zero, g))


def _select_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    predicate, on_true, on_false = instruction.operands
    tangents = at.tangent_or_zeros(on_true), at.tangent_or_zeros(on_false)
    return {(): at.build.select(at.primal(predicate), *tangents)}


def _clamp_mask(at: Writer, instruction: Instruction, number: int) -> Instruction:
    """Where the result is the lower bound, the value, the upper bound, which wins where it is below the lower."""
    low, value, high = instruction.operands
    if _is_complex(value):
        raise refusal(instruction, "complex numbers have no order")
    build, x = at.build, at.primal(value)
    if number == 1:
        above = build.compare(x, _spread(at, at.primal(low), value), "GT")
        return build.binary("and", above, build.compare(x, _spread(at, at.primal(high), value), "LT"))
    bottom, top = (_spread(at, at.primal(bound), value) for bound in (low, high))
    crossed = build.compare(bottom, top, "GT")
    if number == 2:
        return build.binary("or", crossed, build.compare(x, top, "GT"))
    return build.binary("and", build.unary("not", crossed), build.compare(x, bottom, "LT"))


def _clamp_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    g = cotangents[()]
    for number, operand in enumerate(instruction.operands):
        if at.wants(operand):
            part = at.build.select(_clamp_mask(at, instruction, number), g, at.zeros(g.shape))
            spread = operand.shape.dimensions != g.shape.dimensions
            at.give(operand, at.sum_over(part, range(g.shape.rank)) if spread else part)


def _clamp_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    total = at.zeros(instruction.shape)
    for number, operand in enumerate(instruction.operands):
        tangent = at.tangent(operand)
        if tangent is not None:
            mask = _clamp_mask(at, instruction, number)
            total = at.build.select(mask, _spread(at, tangent, instruction), total)
    return {(): total}


# ---- types


def _again(at: Writer, instruction: Instruction, number: int, g: Instruction) -> Instruction:
    """The opcode itself, on the (co)tangent: it rounds."""
    return at.build.add(instruction.opcode, g.shape, (g,), instruction.attributes)


def _convert_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    (operand, *_) = instruction.operands
    at.give(operand, at.build.convert(cotangents[()], operand.shape.element_type))


def _convert_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    tangent = at.tangent(instruction.operands[0])
    return {} if tangent is None else {(): at.build.convert(tangent, instruction.shape.element_type)}


# ---- complex numbers


def _is_complex(value: Instruction) -> bool:
    return ELEMENT_TYPES[value.shape.element_type].is_complex


def _complex_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    g = at.written(cotangents[()])
    real, imaginary = instruction.operands
    if at.wants(real):
        at.give(real, g.apply("real").value)
    if at.wants(imaginary):
        at.give(imaginary, (-g.apply("imag")).value)


def _complex_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    real, imaginary = map(at.tangent_or_zeros, instruction.operands)
    return {(): at.build.binary("complex", real, imaginary)}


def _part_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    (operand,) = instruction.operands
    g = at.written(cotangents[()])
    imaginary = instruction.opcode == "imag"
    if _is_complex(operand):
        at.give(operand, g.as_complex(-1 if imaginary else 1, imaginary).value)
    elif not imaginary:
        at.give(operand, g.value)


def _part_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    tangent = at.tangent(instruction.operands[0])
    return {} if tangent is None else {(): at.build.unary(instruction.opcode, tangent)}


def _direction(at: Writer, instruction: Instruction) -> Term:
    """The conjugate of a complex number by its size; zero of zero."""
    x = at.term(instruction.operands[0])
    conjugate = at.written(at.build.binary("complex", x.apply("real").value, (-x.apply("imag")).value))
    size = at.term(instruction)
    return conjugate / size.compare("EQ", 0.0).where(1.0, size).as_complex()


def _abs_reverse(at: Reverse, instruction: Instruction, cotangents: ByLeaf) -> None:
    (operand,) = instruction.operands
    if not _is_complex(operand):
        _TABLE.reverse(at, instruction, cotangents)
    elif at.wants(operand):
        at.give(operand, (at.written(cotangents[()]).as_complex() * _direction(at, instruction)).value)


def _abs_forward(at: Forward, instruction: Instruction) -> ByLeaf:
    (operand,) = instruction.operands
    tangent = at.tangent(operand)
    if tangent is None or not _is_complex(operand):
        return _TABLE.forward(at, instruction)
    return {(): (at.written(tangent) * _direction(at, instruction)).apply("real").value}


def _sign(at: Writer, instruction: Instruction, number: int, g: Instruction) -> Instruction:
    """Of complex numbers, forwards: what turns them, the part across z, by the size; zero of zero."""
    x, s = at.term(instruction.operands[0]), at.term(instruction)
    size = x.apply("abs")
    is_zero = size.compare("EQ", 0.0)
    conjugate = at.written(at.build.binary("complex", s.apply("real").value, (-s.apply("imag")).value))
    one, other = (conjugate, s) if isinstance(at, Forward) else (s, conjugate)
    along = other * (one * at.written(g)).apply("real").as_complex()
    return is_zero.where(0.0, (at.written(g) - along) / is_zero.where(1.0, size).as_complex()).value


RULES: dict[str, Rule] = {
    **dict.fromkeys([*UNARY, *BINARY], _TABLE),
    "sign": _both_modes(_sign),
    "abs": Rule(_abs_reverse, _abs_forward),
    "select": Rule(_select_reverse, _select_forward),
    "clamp": Rule(_clamp_reverse, _clamp_forward),
    "convert": Rule(_convert_reverse, _convert_forward),
    "stochastic-convert": Rule(_convert_reverse, _convert_forward),
    "reduce-precision": _both_modes(_again),
    "complex": Rule(_complex_reverse, _complex_forward),
    "real": Rule(_part_reverse, _part_forward),
    "imag": Rule(_part_reverse, _part_forward),
}

