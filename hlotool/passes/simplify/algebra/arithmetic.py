"""Arithmetic identities: add, subtract, multiply, divide, remainder, power, negate, abs, rounding, complex parts."""

from __future__ import annotations

import math

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.ir.elementwise import ROUNDINGS
from hlotool.passes.framework.patterns import number
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule

__all__ = ["RECIPROCAL_RULES", "RULES", "is_float", "is_integer", "is_nonnegative", "real_number"]

_ROUNDING = "|".join(ROUNDINGS)


def is_integer(instruction: Instruction) -> bool:
    return ELEMENT_TYPES[instruction.shape.element_type].is_integer


def is_float(instruction: Instruction) -> bool:
    return ELEMENT_TYPES[instruction.shape.element_type].is_float


def is_unsigned(instruction: Instruction) -> bool:
    return ELEMENT_TYPES[instruction.shape.element_type].kind == "unsigned"


def real_number(instruction: Instruction) -> float:
    """The value of a real constant; NaN for anything else."""
    value = number(instruction)
    return math.nan if value is None or isinstance(value, complex) else value


def is_nonnegative(instruction: Instruction, depth: int = 4) -> bool:
    """Whether every element is provably NaN or >= 0, and no -0 (which roots may give)."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in ("abs", "exponential", "logistic") or is_unsigned(instruction):
        return is_unsigned(instruction) or is_float(instruction)
    value = number(instruction)
    if value is not None and not isinstance(value, complex):
        return math.copysign(1, value) > 0
    if opcode == "convert" and is_float(instruction):
        return is_unsigned(operands[0]) or operands[0].shape.element_type == "pred"
    if depth == 0:
        return False
    if opcode == "multiply":
        same = operands[0] is operands[1]
        return is_float(instruction) and (same or all(is_nonnegative(o, depth - 1) for o in operands))
    if opcode in ("add", "divide", "minimum") and is_float(instruction):
        return all(is_nonnegative(o, depth - 1) for o in operands)
    if opcode == "maximum":
        return all(is_nonnegative(o, depth - 1) for o in operands)
    if opcode in ("broadcast", "reshape", "transpose", "slice", "reverse", "copy"):
        return is_nonnegative(operands[0], depth - 1)
    return False


# ---- commutative operations


@rule("add|multiply|maximum|minimum|and|or|xor(left, right)", reads="constant broadcast")
def constant_right(instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """c op x = x op c, so that other rules look for constants on one side only."""
    if _is_constant(left) and not _is_constant(right):
        return rewriter.same(instruction, right, left)
    return None


def _is_constant(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" or number(instruction) is not None


@rule(*(f"{op}({op}(x, a), b)" for op in ("add", "multiply", "and", "or", "xor", "maximum", "minimum")))
def combine_constants(
    instruction: Instruction, x: Instruction, a: Instruction, b: Instruction, rewriter: Rewriter
) -> Instruction | None:
    """(x op a) op b = x op (a op b), for integers and predicates, and for maximum and minimum of any type."""
    if number(x) is not None:
        return None  # all constant: for constant folding
    if instruction.opcode not in ("maximum", "minimum") and _rounds(instruction):
        return None
    return rewriter.same(instruction, x, rewriter.binary(instruction.opcode, a, b))


def _rounds(instruction: Instruction) -> bool:
    kind = ELEMENT_TYPES[instruction.shape.element_type]
    return kind.is_float or kind.is_complex


def _negated(rewriter: Rewriter, constant: Instruction) -> Instruction:
    """Minus a constant, as a constant; integers wrap."""
    value = number(constant)
    assert value is not None
    row = ELEMENT_TYPES[constant.shape.element_type]
    if isinstance(value, int) and row.is_integer:
        value = -value & ((1 << row.bits) - 1)
        if row.kind == "signed" and value >> (row.bits - 1):
            value -= 1 << row.bits
        return rewriter.splat(value, constant.shape)
    return rewriter.splat(-value, constant.shape)


# ---- add and subtract


@rule("add|subtract(x, 0)")
def add_zero(x: Instruction) -> Instruction:
    """x + 0 = x and x - 0 = x (a float x of -0 keeps its sign, where x + 0 would be +0)."""
    return x


@rule("add(x, negate(y))", "add(negate(y), x)")
def add_negated(x: Instruction, y: Instruction, rewriter: Rewriter) -> Instruction:
    """x + (-y) = x - y and (-x) + y = y - x, exactly."""
    return rewriter.binary("subtract", x, y)


@rule("subtract(x, negate(y))")
def subtract_negated(x: Instruction, y: Instruction, rewriter: Rewriter) -> Instruction:
    """x - (-y) = x + y, exactly."""
    return rewriter.binary("add", x, y)


@rule("subtract(x, x)", types="integers")
def subtract_self(instruction: Instruction, rewriter: Rewriter) -> Instruction:
    """x - x = 0, for integers (a float may be NaN or infinite)."""
    return rewriter.splat(0, instruction.shape)


@rule("subtract(x, c)", types="integers")
def subtract_constant(x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x - c = x + (-c), for integers, so that constants combine."""
    return rewriter.binary("add", x, _negated(rewriter, c)) if number(x) is None else None


@rule("subtract(add(x, y), y)", "subtract(add(y, x), y)", types="integers")
def subtract_summand(x: Instruction) -> Instruction:
    """(x + y) - y = x, for integers."""
    return x


@rule("subtract(0, x)", types="integers")
def subtract_from_zero(x: Instruction, rewriter: Rewriter) -> Instruction:
    """0 - x = -x, for integers (a float 0 - 0 is +0, where -0 is not)."""
    return rewriter.unary("negate", x)


# ---- multiply and divide


@rule("multiply|divide(x, 1)")
def multiply_one(x: Instruction) -> Instruction:
    """x * 1 = x and x / 1 = x, exactly."""
    return x


@rule("multiply(_, zero: 0)", types="integers and predicates")
def multiply_zero(zero: Instruction) -> Instruction:
    """x * 0 = 0, for integers and predicates (a float may be NaN or infinite)."""
    return zero


@rule("multiply|divide(x, -1)", types="real numbers")
def multiply_minus_one(x: Instruction, rewriter: Rewriter) -> Instruction:
    """x * -1 = -x and x / -1 = -x, exactly."""
    return rewriter.unary("negate", x)


@rule("multiply|divide(negate(x), right: negate|constant|broadcast)")
def negated_factors(instruction: Instruction, x: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """(-x) * (-y) = x * y and (-x) * c = x * (-c), likewise for float division, exactly."""
    if instruction.opcode == "divide" and not is_float(instruction):
        return None
    if right.opcode == "negate":
        return rewriter.same(instruction, x, right.operands[0])
    return None if number(right) is None else rewriter.same(instruction, x, _negated(rewriter, right))


@rule("negate(product: multiply(x, c))", types="real numbers")
def negated_product(product: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """-(x * c) = x * (-c), exactly, where nothing else reads the product.

    A part of a complex product is a sum, whose zero would change its sign.
    """
    return rewriter.same(product, x, _negated(rewriter, c)) if len(product.users) == 1 else None


@rule("divide(x, c)", types="floats")
def divide_power_of_two(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x / c = x * (1/c) where c is a power of two whose inverse is a normal number, exactly."""
    value = real_number(c)
    mantissa, exponent = math.frexp(value)
    if abs(mantissa) != 0.5 or abs(exponent - 1) > _EXPONENTS[instruction.shape.element_type]:
        return None
    return rewriter.binary("multiply", x, rewriter.splat(1.0 / value, instruction.shape))


@rule("divide(x, c)", types="floats")
def divide_constant(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x / c = x * (1/c) for any constant whose inverse is a normal number: rounds twice, not once."""
    value = real_number(c)
    limit = _EXPONENTS[instruction.shape.element_type]
    if value == 0 or not math.isfinite(value) or abs(math.frexp(value)[1]) >= limit:
        return None
    return rewriter.binary("multiply", x, rewriter.splat(1.0 / value, instruction.shape))


_EXPONENTS = {"f16": 14, "bf16": 126, "f32": 126, "f64": 1022}
"""The largest e for which both 2^e and 2^-e are normal."""


@rule("divide(left, right: sqrt|broadcast|reshape)", types="f32 and f64")
def divide_by_root(left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """x / sqrt(y) = x * rsqrt(y), also through broadcasts of y.

    One rounding more than the division; no range is lost, since the root of a float is 0, normal, infinite or NaN.
    """
    root = right if right.opcode == "sqrt" else right.operands[0]
    if root.opcode != "sqrt" or not _only_divides(right, root):
        return None
    inverse = rewriter.unary("rsqrt", root.operands[0])
    if right is not root:
        inverse = rewriter.same(right, inverse)
    return inverse if number(left) == 1 else rewriter.binary("multiply", left, inverse)


def _only_divides(right: Instruction, root: Instruction) -> bool:
    """The root is needed as a divisor only, so that no second root is computed."""
    readers = [u for u in root.users if u.opcode not in ("broadcast", "reshape")]
    for view in (u for u in root.users if u.opcode in ("broadcast", "reshape")):
        readers.extend(view.users)
    return all(u.opcode == "divide" and u.operands[0] not in (root, right) for u in readers)


@rule("divide(x, divisor: exponential(y))", types="f32 and f64")
def divide_by_exponential(x: Instruction, divisor: Instruction, y: Instruction, rewriter: Rewriter) -> Rewritten:
    """x / exp(y) = x * exp(-y), where nothing else reads exp(y); as exact as the exponential.

    Not in narrow floats, where exp(-y) soon is subnormal.
    """
    if len(divisor.users) != 1:
        return None
    return rewriter.binary("multiply", x, rewriter.unary("exponential", rewriter.unary("negate", y)))


@rule("divide|remainder(x, c)", types="unsigned integers")
def unsigned_power_of_two(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x / 2^k = x >> k and x % 2^k = x & (2^k - 1), for unsigned x."""
    value = number(c)
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        return None
    if instruction.opcode == "remainder":
        return rewriter.binary("and", x, rewriter.splat(value - 1, instruction.shape))
    return rewriter.binary("shift-right-logical", x, rewriter.splat(value.bit_length() - 1, instruction.shape))


@rule("remainder(_, 1)", types="integers")
def remainder_one(instruction: Instruction, rewriter: Rewriter) -> Instruction:
    """x % 1 = 0, for integers."""
    return rewriter.splat(0, instruction.shape)


# ---- power


@rule("power(_, 0)")
def power_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction:
    """x ^ 0 = 1, of NaN too."""
    return rewriter.splat(1, instruction.shape)


@rule("power(x, 1)")
def power_one(x: Instruction) -> Instruction:
    """x ^ 1 = x."""
    return x


@rule("power(x, c)")
def power_small(instruction: Instruction, x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x ^ 2 = x * x, and likewise 3 and 4, but in floats of 8 bits or fewer: each product rounds once."""
    value = number(c)
    if value not in (2, 3, 4) or isinstance(value, bool):
        return None
    if value != 2 and is_float(instruction) and ELEMENT_TYPES[instruction.shape.element_type].bits <= 8:
        return None
    square = rewriter.binary("multiply", x, x)
    if value == 2:
        return square
    return rewriter.binary("multiply", square, x if value == 3 else square)


@rule("power(x, -1)", types="floats of any width")
def power_inverse(instruction: Instruction, x: Instruction, rewriter: Rewriter) -> Instruction:
    """x ^ -1 = 1 / x, for floats."""
    return rewriter.binary("divide", rewriter.splat(1, instruction.shape), x)


@rule("power(x, c)", types="floats of any width")
def power_half(x: Instruction, c: Instruction, rewriter: Rewriter) -> Rewritten:
    """x ^ 0.5 = sqrt(x) and x ^ -0.5 = rsqrt(x) for x >= 0 (they differ at negative infinity and in the sign of 0)."""
    opcode = {0.5: "sqrt", -0.5: "rsqrt"}.get(real_number(c))
    return rewriter.unary(opcode, x) if opcode is not None and is_nonnegative(x) else None


# ---- sign, absolute value, rounding


@rule("negate(negate(x))", "not(not(x))")
def double_negation(x: Instruction) -> Instruction:
    """-(-x) = x and not(not(x)) = x."""
    return x


@rule("negate(subtract(x, y))", types="integers")
def negated_difference(x: Instruction, y: Instruction, rewriter: Rewriter) -> Instruction:
    """-(x - y) = y - x, for integers (a float difference of 0 would change its sign)."""
    return rewriter.binary("subtract", y, x)


@rule("abs(inner)")
def absolute_nonnegative(instruction: Instruction, inner: Instruction) -> Rewritten:
    """|x| = x where x is never negative: an absolute value, an exponential, a square."""
    if is_integer(instruction):
        return inner if inner.opcode == "abs" else None
    return inner if inner.shape == instruction.shape and is_nonnegative(inner) else None


@rule("abs(negate(x))")
def absolute_negated(x: Instruction, rewriter: Rewriter) -> Rewritten:
    """|-x| = |x|."""
    return rewriter.unary("abs", x) if is_integer(x) or is_float(x) else None


@rule(f"{_ROUNDING}(inner: {_ROUNDING})")
def rounded_twice(inner: Instruction) -> Instruction:
    """floor(floor(x)) = floor(x), and every other pair of roundings."""
    return inner


# ---- complex parts


@rule("real(complex(x, _))", "imag(complex(_, x))")
def part_of_complex(x: Instruction) -> Instruction:
    """real(complex(a, b)) = a and imag(complex(a, b)) = b."""
    return x


@rule("complex(real(z), imag(z))")
def complex_of_parts(instruction: Instruction, z: Instruction) -> Rewritten:
    """complex(real(z), imag(z)) = z."""
    return z if z.shape.compatible(instruction.shape) else None


@rule("real(x)")
def real_of_real(x: Instruction) -> Rewritten:
    """real(x) = x for a real x."""
    return x if is_float(x) else None


RULES: tuple[Rule, ...] = (
    constant_right, combine_constants, add_zero, add_negated, subtract_negated, subtract_self, subtract_from_zero,
    subtract_summand, subtract_constant, multiply_one, multiply_zero, multiply_minus_one, negated_factors,
    negated_product, divide_power_of_two, divide_by_root, divide_by_exponential, unsigned_power_of_two, remainder_one,
    power_zero, power_one, power_small, power_inverse, power_half, double_negation, negated_difference,
    absolute_nonnegative, absolute_negated, rounded_twice, part_of_complex, complex_of_parts, real_of_real,
)  # fmt: skip

RECIPROCAL_RULES: tuple[Rule, ...] = (divide_constant,)
"""Not exact to the last bit; only on request."""
