"""Integer and pred arithmetic with XLA's rules: nothing traps, nothing is undefined.

Division by zero gives all ones, the remainder by zero gives the dividend, the most negative number
divided by -1 gives itself, and shifting by the width or more gives 0 (or the sign).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import integer_bits, is_signed, wrap
from hlotool.codegen.llvm.math.vector import outlined
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector, where, zeros

__all__ = ["INTEGERS", "PRED", "absolute", "compare", "divide", "power", "remainder"]


def _constant_value(x: Vector) -> int | None:
    """The value of a constant scalar or splat."""
    found = re.fullmatch(r"(?:splat \(i\d+ )?(-?\d+)\)?", x.name)
    return int(found[1]) if found else None


def _hardware_quotient(a: Vector, b: Vector, signed: bool) -> Vector:
    """a / b for divisors known to be harmless.

    Vectors of up to 32 bits divide in floating point: with a of n bits and a quotient rounded to more
    than n bits, truncation gives the exact integer quotient.
    """
    prefix = "s" if signed else "u"
    width = BITS[a.element]
    if a.lanes == 1 or width == 64 or _constant_value(b) is not None:
        return a.let(f"{prefix}div {a.type} {a.name}, {b.name}")
    element = "double" if width == 32 else "float"
    if width < 32:
        a, b = a.resize("i32", signed), b.resize("i32", signed)
        prefix = "s"
    quotient = a.cast(f"{prefix}itofp", element) / b.cast(f"{prefix}itofp", element)
    return quotient.cast(f"fpto{prefix}i", "i32").resize(f"i{width}", signed)


def _safe_divisor(a: Vector, b: Vector, signed: bool) -> tuple[Vector, Vector | None]:
    """A divisor that cannot trap, and the mask of zero divisors (None if there are none)."""
    value = _constant_value(b)
    if value is not None and value not in (0, -1):
        return b, None
    zero = b.eq(0)
    unsafe = zero | (a.eq(-(1 << (BITS[a.element] - 1))) & b.eq(-1)) if signed else zero
    return where(unsafe, 1, b), zero


def divide(a: Vector, b: Vector, element_type: str) -> Vector:
    signed = is_signed(element_type)
    divisor, zero = _safe_divisor(a, b, signed)
    quotient = _hardware_quotient(a, divisor, signed)
    return wrap(quotient if zero is None else where(zero, -1, quotient), element_type)


def remainder(a: Vector, b: Vector, element_type: str) -> Vector:
    signed = is_signed(element_type)
    divisor, zero = _safe_divisor(a, b, signed)
    result = a - _hardware_quotient(a, divisor, signed) * divisor
    return result if zero is None else where(zero, a, result)


def multiply_high(a: Vector, b: Vector, element_type: str) -> Vector:
    """The upper half of the product of twice the width."""
    signed, width = is_signed(element_type), integer_bits(element_type)
    wide = f"i{2 * max(width, 8)}"
    product = a.resize(wide, signed) * b.resize(wide, signed)
    return (product.ashr(width) if signed else product.lshr(width)).resize(a.element, signed)


def power(a: Vector, b: Vector, element_type: str) -> Vector:
    """By squaring; a negative exponent gives 0 unless the base is 1 or -1."""
    signed = is_signed(element_type)
    exponent = _constant_value(b)
    if exponent is not None and exponent >= 0:
        return wrap(_constant_power(a, exponent), element_type)
    name = "power_signed" if signed else "power_unsigned"
    return wrap(outlined(name, [a, b], lambda x, y: _power_loop(x, y, signed)), element_type)


def _constant_power(a: Vector, exponent: int) -> Vector:
    result: Vector | None = None
    while exponent:
        if exponent & 1:
            result = a if result is None else result * a
        exponent >>= 1
        if exponent:
            a = a * a
    return a.like(1) if result is None else result


def _power_loop(a: Vector, b: Vector, signed: bool) -> Vector:
    one = a.like(1)
    loop = begin_loop(a.f, 0, BITS[a.element], 1, one, a, b)
    result, square, exponent = loop.values
    following = where((exponent & 1).ne(0), result * square, result)
    result, _, _ = loop.end(following, square * square, exponent.lshr(1))
    if not signed:
        return result
    odd_sign = where((b & 1).ne(0), a, one)
    inverse = where((a + 1).compare("ule", 2) & a.ne(0), odd_sign, 0)
    return where(b.lt(0), inverse, result)


def _zero_if_too_far(shifted: Vector, count: Vector, element_type: str) -> Vector:
    """`shifted`, by `count`; 0 where the count, read as unsigned, is the width or more."""
    number, width = _constant_value(count), integer_bits(element_type)
    if number is not None and 0 <= number < width:
        return shifted
    return where(count.compare("ult", width), shifted, 0)


def shift_right_arithmetic(a: Vector, count: Vector, element_type: str) -> Vector:
    """The top bit fills, for unsigned types as well."""
    last = integer_bits(element_type) - 1
    limited = where(count.compare("ult", last), count, last)
    if not is_signed(element_type) and last < 7:
        a = a.shl(7 - last).ashr(7 - last)
    return wrap(a.ashr(limited), element_type)


def _unsigned(a: Vector, element_type: str) -> Vector:
    """The bits that the type has, zero-extended."""
    width = integer_bits(element_type)
    return a if width >= 8 or not is_signed(element_type) else a & ((1 << width) - 1)


def count_leading_zeros(a: Vector, element_type: str) -> Vector:
    a = _unsigned(a, element_type)
    return wrap(a.call("ctlz", zeros(a.f, "i1")) - (BITS[a.element] - integer_bits(element_type)), element_type)


def absolute(a: Vector, element_type: str) -> Vector:
    """|a|; the most negative number gives itself."""
    if not is_signed(element_type):
        return a
    return wrap(a.call("abs", zeros(a.f, "i1")), element_type)


def sign(a: Vector, element_type: str) -> Vector:
    if not is_signed(element_type):
        return where(a.ne(0), 1, a)
    return where(a.gt(0), 1, a.ashr(BITS[a.element] - 1))


def compare(a: Vector, b: Vector, direction: str, signed: bool) -> Vector:
    word = direction.lower()
    return a.compare(word if word in ("eq", "ne") else ("s" if signed else "u") + word, b)


INTEGERS: dict[str, Callable[..., Vector]] = {
    "abs": absolute,
    "add": lambda a, b, t: wrap(a + b, t),
    "and": lambda a, b, t: a & b,
    "count-leading-zeros": count_leading_zeros,
    "divide": divide,
    "maximum": lambda a, b, t: a.call("smax" if is_signed(t) else "umax", b),
    "minimum": lambda a, b, t: a.call("smin" if is_signed(t) else "umin", b),
    "mulhi": multiply_high,
    "multiply": lambda a, b, t: wrap(a * b, t),
    "negate": lambda a, t: wrap(-a, t),
    "not": lambda a, t: wrap(~a, t),
    "or": lambda a, b, t: a | b,
    "popcnt": lambda a, t: wrap(_unsigned(a, t).call("ctpop"), t),
    "power": power,
    "remainder": remainder,
    "shift-left": lambda a, count, t: wrap(_zero_if_too_far(a.shl(count), count, t), t),
    "shift-right-arithmetic": shift_right_arithmetic,
    "shift-right-logical": lambda a, count, t: wrap(_zero_if_too_far(_unsigned(a, t).lshr(count), count, t), t),
    "sign": sign,
    "subtract": lambda a, b, t: wrap(a - b, t),
    "xor": lambda a, b, t: a ^ b,
}

# On pred: addition saturates (or), subtraction differs (xor), multiplication is and.
PRED = {
    "add": "or",
    "and": "and",
    "maximum": "or",
    "minimum": "and",
    "multiply": "and",
    "or": "or",
    "subtract": "xor",
    "xor": "xor",
}
