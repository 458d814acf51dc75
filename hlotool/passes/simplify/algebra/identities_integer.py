"""Identities of integer arithmetic, which wraps: sums, differences, products, divisions, shifts."""

from __future__ import annotations

from hlotool.passes.simplify.algebra.identity import Numbers, identity_rule

__all__ = ["IDENTITIES", "RULES"]


def _amount(values: Numbers, bits: int) -> bool:
    """a is an amount to shift by that leaves some bits."""
    return 0 <= values["a"] < bits


def _amounts(values: Numbers, bits: int) -> bool:
    """Shifts by a and by b together leave some bits."""
    return values["a"] >= 0 and values["b"] >= 0 and values["a"] + values["b"] < bits


def _all_out(values: Numbers, bits: int) -> bool:
    """Shifts by a and by b, each within the width, together leave no bit."""
    return 0 <= values["a"] < bits and 0 <= values["b"] < bits <= values["a"] + values["b"]


def _keeps_right_shifted(values: Numbers, bits: int) -> bool:
    """b has all the bits that a shift to the right by a may leave."""
    a, b = int(values["a"]), int(values["b"])
    return 0 <= a < bits and ~b & ((1 << (bits - a)) - 1) == 0


def _keeps_left_shifted(values: Numbers, bits: int) -> bool:
    """b has all the bits that a shift to the left by a may leave."""
    a, b = int(values["a"]), int(values["b"])
    return 0 <= a < bits and ~b & ((1 << bits) - 1) >> a << a == 0


def _divisors(values: Numbers, bits: int) -> bool:
    """The product of the divisors a and b is a positive number of the type, signed or not."""
    return values["a"] > 0 and values["b"] > 0 and values["a"] * values["b"] < 2 ** (bits - 1)


_I, _S, _U = "integers", "signed integers", "unsigned integers"

IDENTITIES = (
    # ---- sums and differences
    identity_rule("add-opposite", "add(x, negate(x)) = 0", _I),
    identity_rule("add-complement", "add(x, not(x)) = ones", _I),
    identity_rule("complement-plus-one", "add(not(x), 1) = negate(x)", _I),
    identity_rule("complement-plus-constant", "add(not(x), a) = subtract(add(a, ones), x)", _I),
    identity_rule("add-difference", "add(x, subtract(y, x)) = y", _I),
    identity_rule("add-differences", "add(subtract(x, y), subtract(y, z)) = subtract(x, z)", _I),
    identity_rule("add-common-factor", "add(multiply(x, y), multiply(x, z)) = multiply(x, add(y, z))", _I),
    identity_rule("add-multiple", "add(x, multiply(x, a)) = multiply(x, add(a, 1))", _I),
    identity_rule("add-multiples", "add(multiply(x, a), multiply(x, b)) = multiply(x, add(a, b))", _I),
    identity_rule("add-and-xor", "add(and(x, y), xor(x, y)) = or(x, y)", _I),
    identity_rule("add-and-or", "add(and(x, y), or(x, y)) = add(x, y)", _I),
    identity_rule("add-carries", "add(xor(x, y), multiply(and(x, y), 2)) = add(x, y)", _I),
    identity_rule("add-shifted-carries", "add(xor(x, y), shift-left(and(x, y), 1)) = add(x, y)", _I),
    identity_rule("add-extremes", "add(maximum(x, y), minimum(x, y)) = add(x, y)", _I),
    identity_rule("add-constant-last", "add(add(u, a), v) = add(add(u, v), a)", _I),
    identity_rule("add-to-constant-difference", "add(subtract(a, x), b) = subtract(add(a, b), x)", _I),
    identity_rule("add-quotient-and-remainder", "add(multiply(divide(x, y), y), remainder(x, y)) = x", _I),
    identity_rule("add-disjoint-masks", "add(and(x, a), and(x, b)) = and(x, or(a, b))", _I,
                  lambda v, bits: int(v["a"]) & int(v["b"]) == 0),
    identity_rule("subtract-sum", "subtract(x, add(x, y)) = negate(y)", _I),
    identity_rule("subtract-sums", "subtract(add(x, y), add(x, z)) = subtract(y, z)", _I),
    identity_rule("subtract-from-difference", "subtract(subtract(x, y), x) = negate(y)", _I),
    identity_rule("subtract-difference", "subtract(x, subtract(x, y)) = y", _I),
    identity_rule("subtract-differences-left", "subtract(subtract(x, y), subtract(x, z)) = subtract(z, y)", _I),
    identity_rule("subtract-differences-right", "subtract(subtract(x, y), subtract(z, y)) = subtract(x, z)", _I),
    identity_rule("subtract-common-factor",
                  "subtract(multiply(x, y), multiply(x, z)) = multiply(x, subtract(y, z))", _I),
    identity_rule("subtract-multiple", "subtract(x, multiply(x, a)) = multiply(x, subtract(1, a))", _I),
    identity_rule("subtract-from-multiple", "subtract(multiply(x, a), x) = multiply(x, subtract(a, 1))", _I),
    identity_rule("subtract-multiples", "subtract(multiply(x, a), multiply(x, b)) = multiply(x, subtract(a, b))", _I),
    identity_rule("subtract-and-from-or", "subtract(or(x, y), and(x, y)) = xor(x, y)", _I),
    identity_rule("subtract-xor-from-or", "subtract(or(x, y), xor(x, y)) = and(x, y)", _I),
    identity_rule("subtract-or-from-sum", "subtract(add(x, y), or(x, y)) = and(x, y)", _I),
    identity_rule("subtract-and-from-sum", "subtract(add(x, y), and(x, y)) = or(x, y)", _I),
    identity_rule("subtract-maximum-from-sum", "subtract(add(x, y), maximum(x, y)) = minimum(x, y)", _I),
    identity_rule("subtract-minimum-from-sum", "subtract(add(x, y), minimum(x, y)) = maximum(x, y)", _I),
    identity_rule("subtract-or-from-xor", "subtract(xor(x, y), or(x, y)) = negate(and(x, y))", _I),
    identity_rule("subtract-from-ones", "subtract(ones, x) = not(x)", _I),
    identity_rule("subtract-complements", "subtract(not(x), not(y)) = subtract(y, x)", _I),
    identity_rule("subtract-from-constant-sum", "subtract(a, add(x, b)) = subtract(subtract(a, b), x)", _I),
    identity_rule("subtract-from-constant-twice", "subtract(a, subtract(b, x)) = add(x, subtract(a, b))", _I),
    identity_rule("subtract-complement-from-constant", "subtract(a, not(x)) = add(x, add(a, 1))", _I),
    identity_rule("subtract-from-negated", "subtract(negate(x), y) = negate(add(x, y))", _I),
    identity_rule("subtract-masked", "subtract(x, and(x, a)) = and(x, not(a))", _I),
    identity_rule("subtract-quotient-times-divisor", "subtract(x, multiply(divide(x, y), y)) = remainder(x, y)", _I),
    identity_rule("negated-complement", "negate(not(x)) = add(x, 1)", _I),
    identity_rule("complement-of-negated", "not(negate(x)) = add(x, ones)", _I),
    identity_rule("complement-of-decrement", "not(add(x, ones)) = negate(x)", _I),
    identity_rule("complement-of-sum", "not(add(x, a)) = subtract(not(a), x)", _I),
    identity_rule("complement-of-difference", "not(subtract(a, x)) = add(x, not(a))", _I),
    identity_rule("complement-of-complement-sum", "not(add(not(x), y)) = subtract(x, y)", _I),
    identity_rule("complement-of-complement-difference", "not(subtract(not(x), y)) = add(x, y)", _I),
    identity_rule("negated-constant-sum", "negate(add(x, a)) = subtract(negate(a), x)", _I),
    # ---- products and divisions
    identity_rule("multiply-constant-last", "multiply(multiply(u, a), v) = multiply(multiply(u, v), a)", _I),
    identity_rule("multiply-extremes", "multiply(maximum(x, y), minimum(x, y)) = multiply(x, y)", _I),
    identity_rule("multiply-shifted", "multiply(shift-left(x, a), b) = multiply(x, shift-left(b, a))", _I, _amount),
    identity_rule("shift-left-multiple", "shift-left(multiply(x, a), b) = multiply(x, shift-left(a, b))", _I,
                  lambda v, bits: 0 <= v["b"] < bits),
    identity_rule("divide-twice", "divide(divide(x, a), b) = divide(x, multiply(a, b))", _I, _divisors),
    identity_rule("remainder-twice", "remainder(remainder(x, y), y) = remainder(x, y)", _I),
    identity_rule("remainder-of-coarser", "remainder(remainder(x, a), b) = remainder(x, b)", _I,
                  lambda v, bits: v["a"] > 0 and v["b"] > 0 and v["a"] % v["b"] == 0),
    identity_rule("remainder-of-finer", "remainder(remainder(x, a), b) = remainder(x, a)", _I,
                  lambda v, bits: 0 < v["a"] <= v["b"]),
    identity_rule("divide-remainder", "divide(remainder(x, a), b) = 0", _I, lambda v, bits: 0 < v["a"] <= v["b"]),
    identity_rule("remainder-self", "remainder(x, x) = 0", _I),
    identity_rule("remainder-of-zero", "remainder(0, x) = 0", _I),
    identity_rule("remainder-of-minus-one", "remainder(x, -1) = 0", _S),
    identity_rule("remainder-of-masked", "remainder(and(x, a), b) = and(x, a)", _U,
                  lambda v, bits: v["a"] < v["b"]),
    identity_rule("divide-masked", "divide(and(x, a), b) = 0", _U, lambda v, bits: v["a"] < v["b"]),
    # ---- shifts
    identity_rule("shift-left-out", "shift-left(x, a) = 0", _I, lambda v, bits: v["a"] >= bits),
    identity_rule("shift-right-out", "shift-right-logical(x, a) = 0", _I, lambda v, bits: v["a"] >= bits),
    identity_rule("shift-zero-left", "shift-left(0, x) = 0", _I),
    identity_rule("shift-zero-right", "shift-right-logical(0, x) = 0", _I),
    identity_rule("shift-zero-right-arithmetic", "shift-right-arithmetic(0, x) = 0", _I),
    identity_rule("shift-ones-right-arithmetic", "shift-right-arithmetic(ones, x) = ones", _I),
    identity_rule("shift-left-twice", "shift-left(shift-left(x, a), b) = shift-left(x, add(a, b))", _I, _amounts),
    identity_rule("shift-right-twice",
                  "shift-right-logical(shift-right-logical(x, a), b) = shift-right-logical(x, add(a, b))", _I,
                  _amounts),
    identity_rule("shift-right-arithmetic-twice",
                  "shift-right-arithmetic(shift-right-arithmetic(x, a), b) = shift-right-arithmetic(x, add(a, b))",
                  _I, _amounts),
    identity_rule("shift-left-twice-out", "shift-left(shift-left(x, a), b) = 0", _I, _all_out),
    identity_rule("shift-right-twice-out", "shift-right-logical(shift-right-logical(x, a), b) = 0", _I, _all_out),
    identity_rule("shift-left-and-back",
                  "shift-right-logical(shift-left(x, a), a) = and(x, shift-right-logical(ones, a))", _I, _amount),
    identity_rule("shift-right-and-back",
                  "shift-left(shift-right-logical(x, a), a) = and(x, shift-left(ones, a))", _I, _amount),
    identity_rule("shift-right-arithmetic-and-back",
                  "shift-left(shift-right-arithmetic(x, a), a) = and(x, shift-left(ones, a))", _I, _amount),
    identity_rule("mask-of-shift-right", "and(shift-right-logical(x, a), b) = shift-right-logical(x, a)", _I,
                  _keeps_right_shifted),
    identity_rule("mask-of-shift-left", "and(shift-left(x, a), b) = shift-left(x, a)", _I, _keeps_left_shifted),
    *(
        identity_rule(f"{logic}-of-{shift}", f"{logic}({shift}(x, z), {shift}(y, z)) = {shift}({logic}(x, y), z)", _I)
        for shift in ("shift-left", "shift-right-logical", "shift-right-arithmetic")
        for logic in ("and", "or", "xor")
    ),
    identity_rule("add-of-shift-left", "add(shift-left(x, z), shift-left(y, z)) = shift-left(add(x, y), z)", _I),
    identity_rule("subtract-of-shift-left",
                  "subtract(shift-left(x, z), shift-left(y, z)) = shift-left(subtract(x, y), z)", _I),
    identity_rule("complement-of-shift", "not(shift-right-arithmetic(not(x), y)) = shift-right-arithmetic(x, y)", _I),
)  # fmt: skip

RULES = tuple(rule for _, rule in IDENTITIES)
