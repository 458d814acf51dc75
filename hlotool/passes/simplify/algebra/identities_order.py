"""Identities of maximum, minimum, clamp, compare and select."""

from __future__ import annotations

from hlotool.passes.simplify.algebra.identity import identity_rule

__all__ = ["IDENTITIES", "RULES"]

_I, _S, _U, _P, _F = "integers", "signed integers", "unsigned integers", "predicates", "floats"
_B, _SF, _IF, _ALL = (
    "integers and predicates", "signed integers and floats", "integers and floats", "integers, predicates and floats",
)  # fmt: skip
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_TAKES_LOW = {"lt": "minimum", "le": "minimum", "gt": "maximum", "ge": "maximum"}
_OTHER = {"minimum": "maximum", "maximum": "minimum"}

_EXTREMES = (
    identity_rule("maximum-minimum", "maximum(x, minimum(x, y)) = x", _B),
    identity_rule("minimum-maximum", "minimum(x, maximum(x, y)) = x", _B),
    identity_rule("maximum-of-minima", "maximum(minimum(x, y), minimum(x, z)) = minimum(x, maximum(y, z))", _I),
    identity_rule("minimum-of-maxima", "minimum(maximum(x, y), maximum(x, z)) = maximum(x, minimum(y, z))", _I),
    identity_rule("maximum-of-extremes", "maximum(maximum(x, y), minimum(x, y)) = maximum(x, y)", _B),
    identity_rule("minimum-of-extremes", "minimum(maximum(x, y), minimum(x, y)) = minimum(x, y)", _B),
    identity_rule("maximum-of-complements", "maximum(not(x), not(y)) = not(minimum(x, y))", _I),
    identity_rule("minimum-of-complements", "minimum(not(x), not(y)) = not(maximum(x, y))", _I),
    identity_rule("maximum-constant-last", "maximum(maximum(u, a), v) = maximum(maximum(u, v), a)", _I),
    identity_rule("minimum-constant-last", "minimum(minimum(u, a), v) = minimum(minimum(u, v), a)", _I),
    identity_rule("maximum-above-minimum", "maximum(minimum(x, a), b) = b", _I, lambda v, bits: v["a"] <= v["b"]),
    identity_rule("minimum-below-maximum", "minimum(maximum(x, a), b) = b", _I, lambda v, bits: v["b"] <= v["a"]),
    identity_rule("clamp-empty", "clamp(a, x, b) = b", _I, lambda v, bits: v["b"] <= v["a"]),
    identity_rule("clamp-from-itself", "clamp(x, x, y) = minimum(x, y)", _I),
    identity_rule("clamp-to-itself", "clamp(x, y, y) = y", _I),
    identity_rule("clamp-between-itself", "clamp(x, y, x) = x", _I),
    identity_rule("clamp-of-clamp", "clamp(a, clamp(b, x, c), d) = clamp(clamp(a, b, d), x, clamp(a, c, d))", _I,
                  lambda v, bits: v["b"] <= v["c"] and v["a"] <= v["d"]),
    identity_rule("minimum-of-clamp", "minimum(clamp(a, x, b), c) = clamp(a, x, minimum(b, c))", _I,
                  lambda v, bits: v["a"] <= v["c"]),
    identity_rule("maximum-of-clamp", "maximum(clamp(a, x, b), c) = clamp(maximum(a, c), x, b)", _I,
                  lambda v, bits: v["c"] <= v["b"]),
    identity_rule("minimum-above-clamp", "minimum(clamp(a, x, b), c) = clamp(a, x, b)", _F,
                  lambda v, bits: v["b"] < v["c"]),
    identity_rule("maximum-below-clamp", "maximum(clamp(a, x, b), c) = clamp(a, x, b)", _F,
                  lambda v, bits: v["c"] < v["a"] <= v["b"]),
    identity_rule("maximum-of-low-minimum", "maximum(minimum(x, a), minimum(x, b)) = minimum(x, maximum(a, b))", _I),
    identity_rule("minimum-of-low-maximum", "minimum(maximum(x, a), maximum(x, b)) = maximum(x, minimum(a, b))", _I),
    *(
        identity_rule(f"{opcode}-of-{shift}-{side}",
                      f"{opcode}({shift}(x, z), {shift}(y, z)) = {shift}({opcode}(x, y), z)", kind)
        for opcode in ("maximum", "minimum")
        for shift, side, kind in (
            ("shift-right-arithmetic", "signed", _S), ("shift-right-logical", "unsigned", _U),
        )
    ),
)  # fmt: skip

_COMPARISONS = (
    *(
        row
        for to in ("eq", "ne")
        for row in (
            identity_rule(f"{to}-of-negated", f"{to}(negate(x), negate(y)) = {to}(x, y)", _IF),
            identity_rule(f"{to}-of-complements", f"{to}(not(x), not(y)) = {to}(x, y)", _B),
            identity_rule(f"{to}-of-negated-to-constant", f"{to}(negate(x), a) = {to}(x, negate(a))", _IF),
            identity_rule(f"{to}-of-complement-to-constant", f"{to}(not(x), a) = {to}(x, not(a))", _I),
            identity_rule(f"{to}-of-xor-to-constant", f"{to}(xor(x, a), b) = {to}(x, xor(a, b))", _I),
            identity_rule(f"{to}-of-xor-to-zero", f"{to}(xor(x, y), 0) = {to}(x, y)", _I),
            identity_rule(f"{to}-of-difference-to-zero", f"{to}(subtract(x, y), 0) = {to}(x, y)", _I),
            identity_rule(f"{to}-of-difference-to-constant", f"{to}(subtract(a, x), b) = {to}(x, subtract(a, b))", _I),
            identity_rule(f"{to}-of-sum-to-summand", f"{to}(add(x, y), x) = {to}(y, 0)", _I),
            identity_rule(f"{to}-of-difference-to-itself", f"{to}(subtract(x, y), x) = {to}(y, 0)", _I),
            identity_rule(f"{to}-of-xor-to-itself", f"{to}(xor(x, y), x) = {to}(y, 0)", _I),
            identity_rule(f"{to}-of-sums", f"{to}(add(x, z), add(y, z)) = {to}(x, y)", _I),
            identity_rule(f"{to}-of-differences", f"{to}(subtract(x, z), subtract(y, z)) = {to}(x, y)", _I),
            identity_rule(f"{to}-of-differences-from", f"{to}(subtract(z, x), subtract(z, y)) = {to}(x, y)", _I),
            identity_rule(f"{to}-of-xors", f"{to}(xor(x, z), xor(y, z)) = {to}(x, y)", _I),
            identity_rule(f"{to}-of-absolute-to-zero", f"{to}(abs(x), 0) = {to}(x, 0)", _SF),
            identity_rule(f"{to}-of-and-out-of-reach", f"{to}(and(x, a), b) = {'0' if to == 'eq' else '1'}", _I,
                          lambda v, bits: int(v["b"]) & ~int(v["a"]) != 0),
            identity_rule(f"{to}-of-or-out-of-reach", f"{to}(or(x, a), b) = {'0' if to == 'eq' else '1'}", _I,
                          lambda v, bits: int(v["a"]) & ~int(v["b"]) != 0),
        )
    ),
    *(
        row
        for to, back in _SWAPPED.items()
        for row in (
            identity_rule(f"{to}-of-sign-to-zero", f"{to}(sign(x), 0) = {to}(x, 0)", _SF),
            *(
                (
                    identity_rule(f"{to}-of-negated", f"{to}(negate(x), negate(y)) = {back}(x, y)", _F),
                    identity_rule(f"{to}-of-complements", f"{to}(not(x), not(y)) = {back}(x, y)", _B),
                    identity_rule(f"{to}-of-negated-to-constant", f"{to}(negate(x), a) = {back}(x, negate(a))", _F),
                    identity_rule(f"{to}-of-complement-to-constant", f"{to}(not(x), a) = {back}(x, not(a))", _I),
                )
                if to != back
                else ()
            ),
        )
    ),
    identity_rule("le-lowest", "le(x, lowest) = eq(x, lowest)", _I),
    identity_rule("gt-lowest", "gt(x, lowest) = ne(x, lowest)", _I),
    identity_rule("ge-highest", "ge(x, highest) = eq(x, highest)", _I),
    identity_rule("lt-highest", "lt(x, highest) = ne(x, highest)", _I),
    identity_rule("lt-one", "lt(x, 1) = eq(x, 0)", _U),
    identity_rule("ge-one", "ge(x, 1) = ne(x, 0)", _U),
    identity_rule("absolute-below-zero", "lt(abs(x), 0) = 0", _F),
    # a maximum or minimum with a constant, compared with another constant
    identity_rule("gt-of-maximum", "gt(maximum(x, a), b) = gt(x, b)", _IF, lambda v, bits: v["a"] <= v["b"]),
    identity_rule("ge-of-maximum", "ge(maximum(x, a), b) = ge(x, b)", _IF, lambda v, bits: v["a"] < v["b"]),
    identity_rule("lt-of-maximum", "lt(maximum(x, a), b) = lt(x, b)", _IF, lambda v, bits: v["a"] < v["b"]),
    identity_rule("le-of-maximum", "le(maximum(x, a), b) = le(x, b)", _IF, lambda v, bits: v["a"] <= v["b"]),
    identity_rule("eq-of-maximum", "eq(maximum(x, a), b) = eq(x, b)", _IF, lambda v, bits: v["a"] < v["b"]),
    identity_rule("ne-of-maximum", "ne(maximum(x, a), b) = ne(x, b)", _IF, lambda v, bits: v["a"] < v["b"]),
    identity_rule("lt-of-minimum", "lt(minimum(x, a), b) = lt(x, b)", _IF, lambda v, bits: v["b"] <= v["a"]),
    identity_rule("le-of-minimum", "le(minimum(x, a), b) = le(x, b)", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("gt-of-minimum", "gt(minimum(x, a), b) = gt(x, b)", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("ge-of-minimum", "ge(minimum(x, a), b) = ge(x, b)", _IF, lambda v, bits: v["b"] <= v["a"]),
    identity_rule("eq-of-minimum", "eq(minimum(x, a), b) = eq(x, b)", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("ne-of-minimum", "ne(minimum(x, a), b) = ne(x, b)", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("lt-below-maximum", "lt(maximum(x, a), b) = 0", _IF, lambda v, bits: v["b"] <= v["a"]),
    identity_rule("le-below-maximum", "le(maximum(x, a), b) = 0", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("eq-below-maximum", "eq(maximum(x, a), b) = 0", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("ge-below-maximum", "ge(maximum(x, a), b) = 1", _I, lambda v, bits: v["b"] <= v["a"]),
    identity_rule("gt-below-maximum", "gt(maximum(x, a), b) = 1", _I, lambda v, bits: v["b"] < v["a"]),
    identity_rule("ne-below-maximum", "ne(maximum(x, a), b) = 1", _IF, lambda v, bits: v["b"] < v["a"]),
    identity_rule("gt-above-minimum", "gt(minimum(x, a), b) = 0", _IF, lambda v, bits: v["a"] <= v["b"]),
    identity_rule("ge-above-minimum", "ge(minimum(x, a), b) = 0", _IF, lambda v, bits: v["a"] < v["b"]),
    identity_rule("eq-above-minimum", "eq(minimum(x, a), b) = 0", _IF, lambda v, bits: v["a"] < v["b"]),
    identity_rule("le-above-minimum", "le(minimum(x, a), b) = 1", _I, lambda v, bits: v["a"] <= v["b"]),
    identity_rule("lt-above-minimum", "lt(minimum(x, a), b) = 1", _I, lambda v, bits: v["a"] < v["b"]),
    identity_rule("ne-above-minimum", "ne(minimum(x, a), b) = 1", _IF, lambda v, bits: v["a"] < v["b"]),
    # two bounds on one side
    *(
        identity_rule(f"{logic}-of-{to}-bounds", f"{logic}({to}(x, a), {to}(x, b)) = {to}(x, a)", _IF,
                      (lambda v, bits: v["a"] <= v["b"]) if (to in ("lt", "le")) == (logic == "and")
                      else (lambda v, bits: v["a"] >= v["b"]))
        for to in ("lt", "le", "gt", "ge")
        for logic in ("and", "or")
    ),
    identity_rule("and-of-different-equals", "and(eq(x, a), eq(x, b)) = 0", _IF, lambda v, bits: v["a"] != v["b"]),
    identity_rule("or-of-different-unequals", "or(ne(x, a), ne(x, b)) = 1", _IF, lambda v, bits: v["a"] != v["b"]),
    identity_rule("and-of-bounds-apart", "and(lt(x, a), gt(x, b)) = 0", _IF, lambda v, bits: v["a"] <= v["b"]),
    identity_rule("and-of-closed-bounds-apart", "and(le(x, a), ge(x, b)) = 0", _IF,
                  lambda v, bits: v["a"] < v["b"]),
    identity_rule("and-of-half-open-bounds-apart", "and(lt(x, a), ge(x, b)) = 0", _IF,
                  lambda v, bits: v["a"] <= v["b"]),
    identity_rule("and-of-half-closed-bounds-apart", "and(le(x, a), gt(x, b)) = 0", _IF,
                  lambda v, bits: v["a"] <= v["b"]),
    identity_rule("or-of-bounds-overlapping", "or(lt(x, a), gt(x, b)) = 1", _I, lambda v, bits: v["a"] > v["b"]),
    identity_rule("or-of-half-open-bounds-overlapping", "or(lt(x, a), ge(x, b)) = 1", _I,
                  lambda v, bits: v["a"] >= v["b"]),
    identity_rule("and-of-closed-bounds-touching", "and(le(x, a), ge(x, a)) = eq(x, a)", _IF),
)  # fmt: skip

_SELECTIONS = (
    identity_rule("select-equal", "select(eq(x, y), x, y) = y", _B),
    identity_rule("select-equal-reversed", "select(eq(x, y), y, x) = x", _B),
    identity_rule("select-unequal", "select(ne(x, y), x, y) = x", _B),
    identity_rule("select-unequal-reversed", "select(ne(x, y), y, x) = y", _B),
    *(
        row
        for to, extreme in _TAKES_LOW.items()
        for row in (
            identity_rule(f"select-{to}", f"select({to}(x, y), x, y) = {extreme}(x, y)", _I),
            identity_rule(f"select-{to}-reversed", f"select({to}(x, y), y, x) = {_OTHER[extreme]}(x, y)", _I),
        )
    ),
    identity_rule("select-lt-zero-absolute", "select(lt(x, 0), negate(x), x) = abs(x)", _S),
    identity_rule("select-le-zero-absolute", "select(le(x, 0), negate(x), x) = abs(x)", _S),
    identity_rule("select-ge-zero-absolute", "select(ge(x, 0), x, negate(x)) = abs(x)", _S),
    identity_rule("select-gt-zero-absolute", "select(gt(x, 0), x, negate(x)) = abs(x)", _S),
    identity_rule("select-zero-or-itself", "select(eq(x, 0), 0, x) = x", _I),
    identity_rule("select-complement-repeated", "select(p, select(not(p), x, y), z) = select(p, y, z)", _ALL),
    identity_rule("select-itself-first", "select(x, x, y) = or(x, y)", _P),
    identity_rule("select-itself-second", "select(x, y, x) = and(x, y)", _P),
    identity_rule("select-complement-first", "select(x, not(x), y) = and(not(x), y)", _P),
    identity_rule("select-complement-second", "select(x, y, not(x)) = or(not(x), y)", _P),
    identity_rule("select-exclusive", "select(x, not(y), y) = xor(x, y)", _P),
    identity_rule("select-equivalent", "select(x, y, not(y)) = not(xor(x, y))", _P),
    identity_rule("select-nested-same-second", "select(p, select(q, x, y), y) = select(and(p, q), x, y)", _ALL),
    identity_rule("select-nested-same-first", "select(p, x, select(q, x, y)) = select(or(p, q), x, y)", _ALL),
    identity_rule("eq-of-select-first", "eq(select(p, a, b), a) = p", _IF, lambda v, bits: v["a"] != v["b"]),
    identity_rule("eq-of-select-second", "eq(select(p, a, b), b) = not(p)", _IF, lambda v, bits: v["a"] != v["b"]),
    identity_rule("ne-of-select-first", "ne(select(p, a, b), a) = not(p)", _IF, lambda v, bits: v["a"] != v["b"]),
    identity_rule("ne-of-select-second", "ne(select(p, a, b), b) = p", _IF, lambda v, bits: v["a"] != v["b"]),
    identity_rule("eq-of-select-neither", "eq(select(p, a, b), c) = 0", _IF,
                  lambda v, bits: v["c"] not in (v["a"], v["b"])),
    identity_rule("ne-of-select-neither", "ne(select(p, a, b), c) = 1", _IF,
                  lambda v, bits: v["c"] not in (v["a"], v["b"])),
)  # fmt: skip

IDENTITIES = (*_EXTREMES, *_COMPARISONS, *_SELECTIONS)

RULES = tuple(rule for _, rule in IDENTITIES)
