"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from hlotool.codegen.llvm.math.exp import for_type, power_of_two, reduce, scaled_exponential
from hlotool.codegen.llvm.math.log import logarithm_plus_one
from hlotool.codegen.llvm.math.vector import fma, horner
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["acosh", "asinh", "atanh", "cosh", "sinh", "tanh"]

LN2 = 0.6931471805599453

# (sinh(x) - x) / x^3 in x^2 for |x| <= 1: minimax fits (Remez exchange in extended precision).
_SINH = {
    "float": (0.16666667, 0.008333311, 0.00019842632, 2.783963e-06),
    "double": (
        0.16666666666666669, 0.008333333333332865, 0.0001984126984161003, 2.7557319107936695e-06,
        2.5052129992654143e-08, 1.605678345291114e-10, 7.771857016645399e-13,
    ),
}  # fmt: skip
_TANH_ONE = {"float": 9.25, "double": 19.5}  # from here on tanh(x) rounds to 1


def tanh(x: Vector) -> Vector:
    """-t / (t + 1) with t = (e^(-2|x|) - 1) / 2, which has no cancellation anywhere.

    With -2|x| = k ln 2 - 2 h, t is (2^k - 1) / 2 - 2^k w, where w = (1 - e^(-2h)) / 2.
    """
    k, k_bits, h = reduce(x.fabs().at_most(_TANH_ONE[x.element]), factor=-2.0)
    w = fma(h * h, horner(h, [(-2.0) ** (n + 1) * c for n, c in enumerate(for_type(x).tail)]), h)
    s = power_of_two(k, k_bits, 0)
    t = fma(-s, w, fma(s, 0.5, -0.5))
    return (t / (t + 1.0)).copysign(x)


def sinh(x: Vector) -> Vector:
    """A polynomial up to 1, then e^|x|/2 - 1/(4 e^|x|/2)."""
    magnitude = x.fabs()
    half = scaled_exponential(magnitude, offset=-1)
    z = x * x
    small = fma(z * x, horner(z, _SINH[x.element]), x)
    return where(magnitude.lt(1.0), small, (half - 0.25 / half).copysign(x))


def cosh(x: Vector) -> Vector:
    half = scaled_exponential(x.fabs(), offset=-1)
    return half + 0.25 / half


def asinh(x: Vector) -> Vector:
    """log(1 + a + a^2 / (1 + sqrt(1 + a^2))), for large a log(a) + log(2)."""
    a = x.fabs()
    large = a.gt(_large(x))
    square = a * a
    argument = a + square / ((square + 1.0).sqrt() + 1.0)
    result = logarithm_plus_one(where(large, a, argument))
    return where(large, result + LN2, result).copysign(x)


def acosh(x: Vector) -> Vector:
    """With t = x - 1: log(1 + t + sqrt(2 t + t^2)); NaN below 1."""
    large = x.gt(_large(x))
    t = where(x.lt(1.0), float("nan"), x - 1.0)
    argument = t + fma(t, t, t + t).sqrt()
    result = logarithm_plus_one(where(large, x, argument))
    return where(large, result + LN2, result)


def _large(x: Vector) -> float:
    """Where 1 + x is x, and x^2 does not overflow yet."""
    return 2.0**40 if x.element == "float" else 2.0**300


def atanh(x: Vector) -> Vector:
    """log(1 + 2a / (1 - a)) / 2; infinite at 1, NaN beyond."""
    a = x.fabs()
    return (logarithm_plus_one((a + a) / (1.0 - a)) * 0.5).copysign(x)
