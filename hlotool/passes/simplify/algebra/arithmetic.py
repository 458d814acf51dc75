"""Arithmetic identities: add, subtract, multiply, divide, remainder, power, negate, abs, rounding, complex parts."""

from __future__ import annotations

import math

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.ir.elementwise import ROUNDINGS
from hlotool.passes.framework.rewriter import CONSTANTS, Rewriter, Rule, number, rule

__all__ = ["RECIPROCAL_RULES", "RULES", "is_float", "is_integer", "is_nonnegative"]


def is_integer(instruction: Instruction) -> bool:
    return ELEMENT_TYPES[instruction.shape.element_type].is_integer


def is_float(instruction: Instruction) -> bool:
    return ELEMENT_TYPES[instruction.shape.element_type].is_float


def is_unsigned(instruction: Instruction) -> bool:
    return ELEMENT_TYPES[instruction.shape.element_type].kind == "unsigned"


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


@rule("add", "multiply", "maximum", "minimum", "and", "or", "xor", reads=CONSTANTS)
def constant_right(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """c op x = x op c, so that other rules look for constants on one side only."""
    left, right = instruction.operands
    if _is_constant(left) and not _is_constant(right):
        return rewriter.same(instruction, right, left)
    return None


def _is_constant(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" or number(instruction) is not None


@rule("add", "multiply", "and", "or", "xor", "maximum", "minimum", reads=CONSTANTS)
def combine_constants(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """(x op a) op b = x op (a op b), for integers and predicates, and for maximum and minimum of any type."""
    inner, outer = instruction.operands
    if (
        inner.opcode != instruction.opcode
        or not (instruction.opcode in ("maximum", "minimum") or not _rounds(instruction))
        or number(outer) is None
        or number(inner.operands[1]) is None
        or number(inner.operands[0]) is not None  # all constant: for constant folding
    ):
        return None
    folded = rewriter.binary(instruction.opcode, inner.operands[1], outer)
    return rewriter.same(instruction, inner.operands[0], folded)


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


@rule("add", "subtract", reads=CONSTANTS)
def add_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x + 0 = x and x - 0 = x (a float x of -0 keeps its sign, where x + 0 would be +0)."""
    left, right = instruction.operands
    return left if number(right) == 0 else None


@rule("add", reads="negate")
def add_negated(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x + (-y) = x - y and (-x) + y = y - x, exactly."""
    left, right = instruction.operands
    if right.opcode == "negate":
        return rewriter.binary("subtract", left, right.operands[0])
    if left.opcode == "negate":
        return rewriter.binary("subtract", right, left.operands[0])
    return None


@rule("subtract", reads="negate")
def subtract_negated(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x - (-y) = x + y, exactly."""
    left, right = instruction.operands
    return rewriter.binary("add", left, right.operands[0]) if right.opcode == "negate" else None


@rule("subtract")
def subtract_self(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x - x = 0, for integers (a float may be NaN or infinite)."""
    left, right = instruction.operands
    return rewriter.splat(0, instruction.shape) if left is right and is_integer(instruction) else None


@rule("subtract", reads=CONSTANTS)
def subtract_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x - c = x + (-c), for integers, so that constants combine."""
    left, right = instruction.operands
    if not is_integer(instruction) or number(right) is None or number(left) is not None:
        return None
    return rewriter.binary("add", left, _negated(rewriter, right))


@rule("subtract", reads="add")
def subtract_summand(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """(x + y) - y = x, for integers."""
    left, right = instruction.operands
    if not is_integer(instruction) or left.opcode != "add" or right not in left.operands:
        return None
    return left.operands[0] if left.operands[1] is right else left.operands[1]


@rule("subtract", reads=CONSTANTS)
def subtract_from_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """0 - x = -x, for integers (a float 0 - 0 is +0, where -0 is not)."""
    left, right = instruction.operands
    return rewriter.unary("negate", right) if is_integer(instruction) and number(left) == 0 else None


# ---- multiply and divide


@rule("multiply", "divide", reads=CONSTANTS)
def multiply_one(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x * 1 = x and x / 1 = x, exactly."""
    left, right = instruction.operands
    return left if number(right) == 1 else None


@rule("multiply", reads=CONSTANTS)
def multiply_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x * 0 = 0, for integers and predicates (a float may be NaN or infinite)."""
    _, right = instruction.operands
    return right if not _rounds(instruction) and number(right) == 0 else None


@rule("multiply", "divide", reads=CONSTANTS)
def multiply_minus_one(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x * -1 = -x and x / -1 = -x, exactly."""
    left, right = instruction.operands
    return rewriter.unary("negate", left) if number(right) == -1 and _is_real(instruction) else None


def _is_real(instruction: Instruction) -> bool:
    return is_integer(instruction) or is_float(instruction)


@rule("multiply", "divide", reads="negate")
def negated_factors(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """(-x) * (-y) = x * y and (-x) * c = x * (-c), likewise for float division, exactly."""
    left, right = instruction.operands
    if left.opcode != "negate" or not (is_float(instruction) or instruction.opcode == "multiply"):
        return None
    if right.opcode == "negate":
        return rewriter.same(instruction, left.operands[0], right.operands[0])
    if number(right) is not None:
        return rewriter.same(instruction, left.operands[0], _negated(rewriter, right))
    return None


@rule("negate", reads="multiply")
def negated_product(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """-(x * c) = x * (-c), exactly, where nothing else reads the product."""
    product = instruction.operands[0]
    if product.opcode != "multiply" or len(product.users) != 1 or number(product.operands[1]) is None:
        return None
    if not _is_real(product):
        return None  # a part of a complex product is a sum, whose zero would change its sign
    left, right = product.operands
    return rewriter.same(product, left, _negated(rewriter, right))


@rule("divide", reads=CONSTANTS)
def divide_power_of_two(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x / c = x * (1/c) where c is a power of two whose inverse is a normal number, exactly."""
    left, right = instruction.operands
    value = number(right)
    if not is_float(instruction) or not isinstance(value, float) or not _has_exact_inverse(value, instruction):
        return None
    return rewriter.binary("multiply", left, rewriter.splat(1.0 / value, instruction.shape))


@rule("divide", reads=CONSTANTS)
def divide_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x / c = x * (1/c) for any constant whose inverse is a normal number: rounds twice, not once."""
    left, right = instruction.operands
    value = number(right)
    limit = _EXPONENTS.get(instruction.shape.element_type)
    if limit is None or not isinstance(value, float) or value == 0 or not math.isfinite(value):
        return None
    if abs(math.frexp(value)[1]) >= limit:
        return None
    return rewriter.binary("multiply", left, rewriter.splat(1.0 / value, instruction.shape))


_EXPONENTS = {"f16": 14, "bf16": 126, "f32": 126, "f64": 1022}
"""The largest e for which both 2^e and 2^-e are normal."""


def _has_exact_inverse(value: float, instruction: Instruction) -> bool:
    limit = _EXPONENTS.get(instruction.shape.element_type)
    if limit is None or value == 0 or not math.isfinite(value):
        return False
    mantissa, exponent = math.frexp(value)
    return abs(mantissa) == 0.5 and abs(exponent - 1) <= limit


@rule("divide", reads="sqrt broadcast reshape")
def divide_by_root(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x / sqrt(y) = x * rsqrt(y), also through broadcasts of y.

    One rounding more than the division; no range is lost, since the root of a float is 0, normal, infinite or NaN.
    """
    left, right = instruction.operands
    if instruction.shape.element_type not in ("f32", "f64"):
        return None
    root = right.operands[0] if right.opcode in ("broadcast", "reshape") else right
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


@rule("divide", reads="exponential")
def divide_by_exponential(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x / exp(y) = x * exp(-y), where nothing else reads exp(y); as exact as the exponential.

    Not in narrow floats, where exp(-y) soon is subnormal.
    """
    left, right = instruction.operands
    if right.opcode != "exponential" or len(right.users) != 1 or instruction.shape.element_type not in ("f32", "f64"):
        return None
    return rewriter.binary("multiply", left, rewriter.unary("exponential", rewriter.unary("negate", right.operands[0])))


@rule("divide", "remainder", reads=CONSTANTS)
def unsigned_power_of_two(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x / 2^k = x >> k and x % 2^k = x & (2^k - 1), for unsigned x."""
    left, right = instruction.operands
    value = number(right)
    if not is_unsigned(instruction) or not isinstance(value, int) or value <= 0 or value & (value - 1):
        return None
    if instruction.opcode == "remainder":
        return rewriter.binary("and", left, rewriter.splat(value - 1, instruction.shape))
    return rewriter.binary("shift-right-logical", left, rewriter.splat(value.bit_length() - 1, instruction.shape))


@rule("remainder", reads=CONSTANTS)
def remainder_one(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x % 1 = 0, for integers."""
    if is_integer(instruction) and number(instruction.operands[1]) == 1:
        return rewriter.splat(0, instruction.shape)
    return None


# ---- power


@rule("power", reads=CONSTANTS)
def power_zero(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x ^ 0 = 1, of NaN too."""
    return rewriter.splat(1, instruction.shape) if number(instruction.operands[1]) == 0 else None


@rule("power", reads=CONSTANTS)
def power_one(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x ^ 1 = x."""
    left, right = instruction.operands
    return left if number(right) == 1 else None


@rule("power", reads=CONSTANTS)
def power_small(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x ^ 2 = x * x, and likewise 3 and 4, but in floats of 8 bits or fewer: each product rounds once."""
    left, right = instruction.operands
    value = number(right)
    if value not in (2, 3, 4) or isinstance(value, bool):
        return None
    if value != 2 and is_float(instruction) and ELEMENT_TYPES[instruction.shape.element_type].bits <= 8:
        return None
    square = rewriter.binary("multiply", left, left)
    if value == 2:
        return square
    return rewriter.binary("multiply", square, left if value == 3 else square)


@rule("power", reads=CONSTANTS)
def power_inverse(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x ^ -1 = 1 / x, for floats."""
    left, right = instruction.operands
    if number(right) != -1 or not is_float(instruction):
        return None
    return rewriter.binary("divide", rewriter.splat(1, instruction.shape), left)


@rule("power", reads=CONSTANTS)
def power_half(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """x ^ 0.5 = sqrt(x) and x ^ -0.5 = rsqrt(x) for x >= 0 (they differ at negative infinity and in the sign of 0)."""
    left, right = instruction.operands
    opcode = {0.5: "sqrt", -0.5: "rsqrt"}.get(_real(right))
    if opcode is None or not is_float(instruction) or not is_nonnegative(left):
        return None
    return rewriter.unary(opcode, left)


def _real(instruction: Instruction) -> float:
    """The real value of a constant; NaN for anything else."""
    value = number(instruction)
    return math.nan if value is None or isinstance(value, complex) else value


# ---- sign, absolute value, rounding


@rule("negate", "not")
def double_negation(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """-(-x) = x and not(not(x)) = x."""
    inner = instruction.operands[0]
    return inner.operands[0] if inner.opcode == instruction.opcode else None


@rule("negate", reads="subtract")
def negated_difference(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """-(x - y) = y - x, for integers (a float difference of 0 would change its sign)."""
    inner = instruction.operands[0]
    if inner.opcode != "subtract" or not is_integer(instruction):
        return None
    return rewriter.binary("subtract", inner.operands[1], inner.operands[0])


@rule("abs")
def absolute_nonnegative(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """|x| = x where x is never negative: an absolute value, an exponential, a square."""
    inner = instruction.operands[0]
    if is_integer(instruction):
        return inner if inner.opcode == "abs" else None
    return inner if inner.shape == instruction.shape and is_nonnegative(inner) else None


@rule("abs")
def absolute_negated(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """|-x| = |x|."""
    inner = instruction.operands[0]
    return rewriter.unary("abs", inner.operands[0]) if inner.opcode == "negate" and _is_real(inner) else None


@rule(*ROUNDINGS)
def rounded_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """floor(floor(x)) = floor(x), and every other pair of roundings."""
    inner = instruction.operands[0]
    return inner if inner.opcode in ROUNDINGS else None


# ---- complex parts


@rule("real", "imag", reads="complex")
def part_of_complex(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """real(complex(a, b)) = a and imag(complex(a, b)) = b."""
    inner = instruction.operands[0]
    if inner.opcode != "complex":
        return None
    return inner.operands[0 if instruction.opcode == "real" else 1]


@rule("complex")
def complex_of_parts(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """complex(real(z), imag(z)) = z."""
    left, right = instruction.operands
    if left.opcode != "real" or right.opcode != "imag" or left.operands[0] is not right.operands[0]:
        return None
    return left.operands[0] if left.operands[0].shape.compatible(instruction.shape) else None


@rule("real")
def real_of_real(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """real(x) = x for a real x."""
    inner = instruction.operands[0]
    return inner if is_float(inner) else None


RULES: tuple[Rule, ...] = (
    constant_right, combine_constants, add_zero, add_negated, subtract_negated, subtract_self, subtract_from_zero,
    subtract_summand, subtract_constant, multiply_one, multiply_zero, multiply_minus_one, negated_factors,
    negated_product, divide_power_of_two, divide_by_root, divide_by_exponential, unsigned_power_of_two, remainder_one,
    power_zero, power_one, power_small, power_inverse, power_half, double_negation, negated_difference,
    absolute_nonnegative, absolute_negated, rounded_twice, part_of_complex, complex_of_parts, real_of_real,
)  # fmt: skip

RECIPROCAL_RULES: tuple[Rule, ...] = (divide_constant,)
"""Not exact to the last bit; only on request."""
