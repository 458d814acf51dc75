"""The error function.

Up to 1: x + x P(x^2).  Beyond, f32 takes 1 - exp(-T(|x|)) with a polynomial T = -log(erfc), and f64
takes 1 - exp(-x^2) G(u), where G = exp(x^2) erfc(x) is smooth in u = (|x| - 2) / (|x| + 2).
Minimax fits by Remez exchange in extended precision.
"""

from __future__ import annotations

from hlotool.codegen.llvm.math.exp import LOG2_E, SINGLE, power_of_two, scaled_exponential
from hlotool.codegen.llvm.math.vector import flushes, fma, horner, product_error
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["erf"]

_SMALL = {
    "float": (0.12837917, -0.3761263, 0.11283618, -0.026855122, 0.0051907166, -0.00080305093, 7.919188e-05),
    "double": (
        0.1283791670955126, -0.37612638903184015, 0.11283791670966634, -0.02686617064718759, 0.005223977644671205,
        -0.0008548328091146991, 0.00012055370672487813, -1.4926526220640466e-05, 1.6475647014589382e-06,
        -1.6502740422726452e-07, 1.566678870577921e-08, -1.5197311491304074e-09, 1.2314815549209208e-10,
    ),
}  # fmt: skip
_SLOPE = 1.1283791670955126  # 2 / sqrt(pi)
_SCALE = {"float": (2.0**32, 2.0**-32), "double": (2.0**64, 2.0**-64)}
_LOG_ERFC = (-0.0004403356, -1.1266867, -0.6388145, -0.10252481, 0.021559749, -0.0028782592, 0.00017933507)
_LN2 = 0.6931472  # the nearest f32, which is 2^-29 off
_SCALED_ERFC = (
    0.2553956763105071, -0.4271858474139432, 0.24165819424102764, -0.07897858103684134, 0.0037328925064249977,
    0.006997464556377677, -0.0008471352325814768, -0.0009820564084403723, 4.30423566586499e-05,
    0.00017409079518767965, 3.2780259424639094e-05, -1.1895789004554807e-05,
)  # fmt: skip


def erf(x: Vector) -> Vector:
    a = x.fabs()
    z = x * x
    small = fma(x, horner(z, _SMALL[x.element]), x)
    if flushes(x.f.unit) and not x.f.unit.instructions.fma:  # of tiny numbers the product alone is flushed
        up, down = _SCALE[x.element]
        small = where(a.lt(down), x * up * _SLOPE * down, small)
    large = _large_single(a) if x.element == "float" else _large_double(a)
    return where(a.lt(1.0), small, large.copysign(x))


def _large_single(a: Vector) -> Vector:
    """erf from 1 on, where the exponential need not be exact; 4 stands for all beyond, where 1 - erfc rounds to 1."""
    x = horner(a.at_most(4.0), _LOG_ERFC)
    shifted = fma(x, LOG2_E, SINGLE.magic)
    k = shifted - SINGLE.magic
    p = horner(fma(k, -_LN2, x), (1.0, 1.0, *_EXP_SHORT))
    return fma(-p, power_of_two(k, shifted.bits(), 0), 1.0)


# (e^r - 1 - r) / r^2 to 23 bits, enough for what is subtracted from 1
_EXP_SHORT = (0.4999899, 0.166667, 0.041918337, 0.008348756)


def _large_double(a: Vector) -> Vector:
    """erf from 1 on; 6 stands for all beyond."""
    a = a.at_most(6.0)
    u = (a - 2.0) / (a + 2.0)
    square = a * a
    gauss = scaled_exponential(-square, nonpositive=True, low=-product_error(a, a, square))
    return fma(-gauss, horner(u, _SCALED_ERFC), 1.0)
