"""Identities of signs, roundings and functions, exact for floats with NaN, infinities and -0."""

from __future__ import annotations

import math

from hlotool.ir.elementwise import ROUNDINGS
from hlotool.passes.simplify.algebra.identity import Numbers, identity_rule

__all__ = ["IDENTITIES", "ROUNDING_IDENTITIES", "RULES"]

_S, _F, _SF = "signed integers", "floats", "signed integers and floats"
_ODD = ("sine", "tan", "sinh", "tanh", "asin", "asinh", "atanh", "erf", "cbrt", "sign", "round-nearest-afz",
        "round-nearest-even")  # fmt: skip
_EVEN = ("cosine", "cosh")


def _large_powers_of_two(values: Numbers, bits: int) -> bool:
    """Scaling by a, b and a * b loses nothing but what is too large, in each type of so many bits."""
    powers = all(value >= 1 and math.frexp(value)[0] == 0.5 for value in values.values() if math.isfinite(value))
    finite = all(math.isfinite(value) for value in values.values())
    return finite and powers and values["a"] * values["b"] < 2.0 ** {16: 15, 32: 127, 64: 1023}[bits]


def _even(values: Numbers, bits: int) -> bool:
    return math.isfinite(values["a"]) and values["a"] % 2 == 0


IDENTITIES = (
    # ---- signs
    identity_rule("product-of-absolutes", "multiply(abs(x), abs(x)) = multiply(x, x)", _SF),
    identity_rule("sign-times-absolute", "multiply(sign(x), abs(x)) = x", _S),
    identity_rule("sign-times-itself", "multiply(x, sign(x)) = abs(x)", _S),
    identity_rule("sign-twice", "sign(sign(x)) = sign(x)", _SF),
    identity_rule("absolute-of-scaled", "abs(multiply(x, abs(x))) = multiply(x, x)", _F),
    identity_rule("negated-product-of-negated", "negate(multiply(negate(x), y)) = multiply(x, y)", _SF),
    identity_rule("negated-quotient-of-negated", "negate(divide(negate(x), y)) = divide(x, y)", _F),
    identity_rule("negated-quotient-by-negated", "negate(divide(x, negate(y))) = divide(x, y)", _F),
    identity_rule("quotient-by-negated-constant", "divide(a, negate(x)) = divide(negate(a), x)", _F),
    identity_rule("absolute-of-absolute-quotient", "divide(abs(x), abs(y)) = abs(divide(x, y))", _F),
    identity_rule("product-of-two-absolutes", "multiply(abs(x), abs(y)) = abs(multiply(x, y))", _F),
    identity_rule("remainder-by-negated", "remainder(x, negate(y)) = remainder(x, y)", _SF),
    identity_rule("remainder-by-absolute", "remainder(x, abs(y)) = remainder(x, y)", _SF),
    identity_rule("remainder-twice-float", "remainder(remainder(x, y), y) = remainder(x, y)", _F),
    identity_rule("subtract-from-negated-constant", "subtract(a, negate(x)) = add(x, a)", _F),
    identity_rule("subtract-negated-pair", "subtract(negate(x), negate(y)) = subtract(y, x)", _F),
    # ---- roundings
    identity_rule("floor-of-negated", "negate(floor(negate(x))) = ceil(x)", _F),
    identity_rule("ceil-of-negated", "negate(ceil(negate(x))) = floor(x)", _F),
    *(identity_rule(f"{rounding}-of-sign", f"{rounding}(sign(x)) = sign(x)", _F) for rounding in ROUNDINGS),
    # ---- odd and even functions
    *(identity_rule(f"negated-{odd}", f"negate({odd}(negate(x))) = {odd}(x)", _F) for odd in _ODD),
    *(identity_rule(f"{even}-of-negated", f"{even}(negate(x)) = {even}(x)", _F) for even in _EVEN),
    *(identity_rule(f"{even}-of-absolute", f"{even}(abs(x)) = {even}(x)", _F) for even in _EVEN),
    identity_rule("even-power-of-negated", "power(negate(x), a) = power(x, a)", _F, _even),
    identity_rule("even-power-of-absolute", "power(abs(x), a) = power(x, a)", _F, _even),
    identity_rule("power-of-one", "power(1, x) = 1", _F),
    # ---- finite or not
    identity_rule("finite-negated", "is-finite(negate(x)) = is-finite(x)", _F),
    identity_rule("finite-absolute", "is-finite(abs(x)) = is-finite(x)", _F),
    *(identity_rule(f"finite-{rounding}", f"is-finite({rounding}(x)) = is-finite(x)", _F) for rounding in ROUNDINGS),
    # ---- scaling
    identity_rule("scale-twice", "multiply(multiply(x, a), b) = multiply(x, multiply(a, b))", _F, _large_powers_of_two),
)  # fmt: skip

ROUNDING_IDENTITIES = (
    identity_rule("divide-by-inverse-root", "divide(x, rsqrt(y)) = multiply(x, sqrt(y))", "f32 and f64"),
    identity_rule("inverse-of-inverse-root", "divide(1, rsqrt(x)) = sqrt(x)", "f32 and f64"),
)
"""One rounding fewer than what they replace."""

RULES = tuple(rule for _, rule in (*IDENTITIES, *ROUNDING_IDENTITIES))
