"""Identities of and, or, xor and not."""

from __future__ import annotations

from hlotool.passes.simplify.algebra.identity import Numbers, identity_rule

__all__ = ["IDENTITIES", "RULES"]


def _mask(values: Numbers, bits: int) -> tuple[int, int, int]:
    """Constants a and b, and all ones, as bits."""
    ones = (1 << bits) - 1
    return int(values["a"]) & ones, int(values["b"]) & ones, ones


def _set_within(values: Numbers, bits: int) -> bool:
    """All bits of b are set in a."""
    a, b, _ = _mask(values, bits)
    return a & b == b


def _apart(values: Numbers, bits: int) -> bool:
    """No bit is set in both a and b."""
    a, b, _ = _mask(values, bits)
    return a & b == 0


def _cover(values: Numbers, bits: int) -> bool:
    """Each bit is set in a or in b."""
    a, b, ones = _mask(values, bits)
    return a | b == ones


_B, _I = "integers and predicates", "integers"

IDENTITIES = (
    # ---- a value and its complement
    identity_rule("and-complement", "and(x, not(x)) = 0", _B),
    identity_rule("or-complement", "or(x, not(x)) = ones", _B),
    identity_rule("xor-complement", "xor(x, not(x)) = ones", _B),
    identity_rule("and-complements", "and(not(x), not(y)) = not(or(x, y))", _B),
    identity_rule("or-complements", "or(not(x), not(y)) = not(and(x, y))", _B),
    identity_rule("xor-complements", "xor(not(x), not(y)) = xor(x, y)", _B),
    identity_rule("xor-one-complement", "xor(not(u), v) = not(xor(u, v))", _B),
    identity_rule("xor-complement-constant", "xor(not(x), a) = xor(x, not(a))", _B),
    identity_rule("complement-of-xor-constant", "not(xor(x, a)) = xor(x, not(a))", _B),
    identity_rule("complement-of-and", "not(and(not(x), y)) = or(x, not(y))", _B),
    identity_rule("complement-of-or", "not(or(not(x), y)) = and(x, not(y))", _B),
    identity_rule("complement-of-and-constant", "not(and(not(x), a)) = or(x, not(a))", _B),
    identity_rule("complement-of-or-constant", "not(or(not(x), a)) = and(x, not(a))", _B),
    # ---- absorption
    identity_rule("and-or", "and(x, or(x, y)) = x", _B),
    identity_rule("or-and", "or(x, and(x, y)) = x", _B),
    identity_rule("and-or-complement", "and(x, or(not(x), y)) = and(x, y)", _B),
    identity_rule("or-and-complement", "or(x, and(not(x), y)) = or(x, y)", _B),
    identity_rule("and-complement-or", "and(not(x), or(x, y)) = and(not(x), y)", _B),
    identity_rule("or-complement-and", "or(not(x), and(x, y)) = or(not(x), y)", _B),
    identity_rule("and-complement-and", "and(not(x), and(x, y)) = 0", _B),
    identity_rule("or-complement-or", "or(not(x), or(x, y)) = ones", _B),
    identity_rule("and-both-ways", "and(or(x, y), or(x, not(y))) = x", _B),
    identity_rule("or-both-ways", "or(and(x, y), and(x, not(y))) = x", _B),
    identity_rule("xor-twice", "xor(x, xor(x, y)) = y", _B),
    identity_rule("or-xor", "or(x, xor(x, y)) = or(x, y)", _B),
    identity_rule("or-complement-xor", "or(not(x), xor(x, y)) = not(and(x, y))", _B),
    identity_rule("and-complement-xor", "and(not(x), xor(x, y)) = and(not(x), y)", _B),
    # ---- common operands
    identity_rule("or-of-ands", "or(and(x, y), and(x, z)) = and(x, or(y, z))", _B),
    identity_rule("and-of-ors", "and(or(x, y), or(x, z)) = or(x, and(y, z))", _B),
    identity_rule("xor-of-ands", "xor(and(x, y), and(x, z)) = and(x, xor(y, z))", _B),
    identity_rule("xor-of-xors", "xor(xor(x, y), xor(x, z)) = xor(y, z)", _B),
    identity_rule("xor-and-or", "xor(and(x, y), or(x, y)) = xor(x, y)", _B),
    identity_rule("xor-or-xor", "xor(or(x, y), xor(x, y)) = and(x, y)", _B),
    identity_rule("xor-and-xor", "xor(and(x, y), xor(x, y)) = or(x, y)", _B),
    identity_rule("or-and-xor", "or(and(x, y), xor(x, y)) = or(x, y)", _B),
    identity_rule("or-or-xor", "or(or(x, y), xor(x, y)) = or(x, y)", _B),
    identity_rule("or-and-or", "or(and(x, y), or(x, y)) = or(x, y)", _B),
    identity_rule("and-and-xor", "and(and(x, y), xor(x, y)) = 0", _B),
    identity_rule("and-or-xor", "and(or(x, y), xor(x, y)) = xor(x, y)", _B),
    identity_rule("and-and-or", "and(and(x, y), or(x, y)) = and(x, y)", _B),
    identity_rule("equal-or-both", "or(not(xor(x, y)), and(x, y)) = not(xor(x, y))", _B),
    # ---- constants
    identity_rule("and-constant-last", "and(and(u, a), v) = and(and(u, v), a)", _B),
    identity_rule("or-constant-last", "or(or(u, a), v) = or(or(u, v), a)", _B),
    identity_rule("xor-constant-last", "xor(xor(u, a), v) = xor(xor(u, v), a)", _B),
    identity_rule("and-of-set-bits", "and(or(x, a), b) = b", _I, _set_within),
    identity_rule("and-of-other-bits", "and(or(x, a), b) = and(x, b)", _I, _apart),
    identity_rule("and-of-flipped-other-bits", "and(xor(x, a), b) = and(x, b)", _I, _apart),
    identity_rule("or-of-cleared-bits", "or(and(x, a), b) = b", _I,
                  lambda v, bits: _set_within({"a": v["b"], "b": v["a"]}, bits)),
    identity_rule("or-of-kept-bits", "or(and(x, a), b) = or(x, b)", _I, _cover),
    identity_rule("or-of-masks", "or(and(x, a), and(x, b)) = and(x, or(a, b))", _B),
    identity_rule("and-of-masks", "and(or(x, a), or(x, b)) = or(x, and(a, b))", _B),
    identity_rule("xor-of-masks", "xor(and(x, a), and(x, b)) = and(x, xor(a, b))", _B),
    identity_rule("xor-of-masked", "xor(x, and(x, a)) = and(x, not(a))", _B),
)  # fmt: skip

RULES = tuple(rule for _, rule in IDENTITIES)
