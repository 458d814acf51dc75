"""Orthogonal polynomials of any degree, each element with its own: by their recurrences (Abramowitz and Stegun 22.7).

All are computed in f64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, Value, lowering
from hlotool.torch.ops.pieces import is_complex
from hlotool.torch.ops.term import Term, repeat_while
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Next = Callable[[Term, Term, Term, Term], Term]
"""The polynomial after two, from x, the last one, the one before, and its degree."""

_MOST_HERMITE = {"f64": 512, "f32": 128}
"""From this degree on PyTorch gives NaN."""


def _recurrence(x: Term, n: Term, first: Term, following: Next) -> Term:
    """Degree `n` for degrees 0 (which is one) and 1."""

    def goes_on(state: Sequence[Term]) -> Term:
        return state[2] < state[4]

    def step(state: Sequence[Term]) -> Sequence[Term]:
        before, last, degree, own, until = state
        on = goes_on(state)
        made = following(own, last, before, degree)
        return before.put(on, last), last.put(on, made), degree + 1, own, until

    one = x * 0 + 1
    found = repeat_while([one, first, one, x, n], goes_on, step)[1]
    return found.put(n.equals(0), 1).put(n < 0, 0).put(x.is_nan() & (n > 0), math.nan)


def _family(*names: str) -> Callable[[Callable[[Term, Term], Term]], Callable[[Term, Term], Term]]:
    """A function of places and whole degrees, by all overloads."""

    def enter(formula: Callable[[Term, Term], Term]) -> Callable[[Term, Term], Term]:
        @lowering(*(f"aten.special_{name}.{kind}" for name in names for kind in ("default", "x_scalar", "n_scalar")))
        def lower(c: Context, x: Value, n: Value) -> Instruction:
            if is_complex(c.type):
                raise Refused("a polynomial of complex numbers")
            at, degree = (Term(c, c.convert(c.tensor(value, c.type, c.dimensions), "f64")) for value in (x, n))
            whole = degree.floor().put(degree < 0, -((-degree).floor()))
            return c.convert(formula(at, whole).value, c.type)

        return formula

    return enter


def _is_even(n: Term) -> Term:
    return (n % 2).equals(0)


def _chebyshev(name: str, slope: int, offset: int, angle: Callable[[Term, Term], Term], at_end: str) -> None:
    """Of a kind whose degree 1 is ``slope x + offset``, of which `angle` says what it is at ``cos(angle)``; its
    size at the ends of the interval is one, or grows with the degree, at the `at_end`."""

    def formula(x: Term, n: Term) -> Term:
        inside, end = abs(x) < 1, abs(x).equals(1)
        by_angle = inside & (n > 8)
        degree = n.put(by_angle | end, 1)
        found = _recurrence(x, degree, x * slope + offset, lambda x, last, before, _: 2 * x * last - before)
        theta = x.put(~inside, 0).call("acos")
        found = found.put(by_angle, angle(theta, n))
        grown = n + 1 if at_end == "both" else 2 * n + 1
        one = x * 0 + 1
        high = grown if at_end in ("both", "high") else one
        low = grown if at_end in ("both", "low") else one
        edge = high.put(x < 0, low.put(~_is_even(n), -low))
        return found.put(end, edge).put(n < 0, 0)

    _family(f"chebyshev_polynomial_{name}")(formula)
    _family(f"shifted_chebyshev_polynomial_{name}")(lambda x, n: formula(2 * x - 1, n))


def _sine(x: Term) -> Term:
    return x.call("sine")


def _cosine(x: Term) -> Term:
    return x.call("cosine")


_chebyshev("t", 1, 0, lambda theta, n: _cosine(n * theta), "neither")
_chebyshev("u", 2, 0, lambda theta, n: _sine((n + 1) * theta) / _sine(theta), "both")
_chebyshev("v", 2, -1, lambda theta, n: _cosine((n + 0.5) * theta) / _cosine(theta * 0.5), "low")
_chebyshev("w", 2, 1, lambda theta, n: _sine((n + 0.5) * theta) / _sine(theta * 0.5), "high")


def _hermite(n: Term, found: Term) -> Term:
    return found.put(n > _MOST_HERMITE["f64" if found.c.type == "f64" else "f32"], math.nan)


@_family("hermite_polynomial_h")
def hermite(x: Term, n: Term) -> Term:
    return _hermite(n, _recurrence(x, n.minimum(513), 2 * x, lambda x, last, before, k: 2 * x * last - 2 * k * before))


@_family("hermite_polynomial_he")
def hermite_of_probability(x: Term, n: Term) -> Term:
    return _hermite(n, _recurrence(x, n.minimum(513), x, lambda x, last, before, k: x * last - k * before))


@_family("laguerre_polynomial_l")
def laguerre(x: Term, n: Term) -> Term:
    return _recurrence(x, n, 1 - x, lambda x, last, before, k: ((2 * k + 1 - x) * last - k * before) / (k + 1))


@_family("legendre_polynomial_p")
def legendre(x: Term, n: Term) -> Term:
    return _recurrence(x, n, x, lambda x, last, before, k: ((2 * k + 1) * x * last - k * before) / (k + 1))
