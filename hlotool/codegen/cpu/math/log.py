"""Logarithms: log and log(1 + x).

x = 2^e m with sqrt(1/2) <= m < sqrt(2).  f32 evaluates log(1 + f) = f - f^2/2 + f^3 P(f); f64 uses
s = f / (2 + f) and log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)) (Tang, ACM TOMS 16, 1990; K. C. Ng, fdlibm).
The polynomials are minimax fits (Remez exchange in extended precision).
"""

from __future__ import annotations

from hlotool.codegen.cpu.math.exp import for_type
from hlotool.codegen.cpu.math.vector import Vector, exponent_bias, fma, horner, mantissa_bits, where

__all__ = ["exponent_and_fraction", "log_core", "logarithm", "logarithm_plus_one"]

_SINGLE = (0.33333316, -0.25000814, 0.20002313, -0.1662445, 0.1418049, -0.13129078, 0.12886336, -0.078640714)
_DOUBLE = (
    0.6666666666666666, 0.4000000000000458, 0.28571428569428375, 0.22222222610047496, 0.18181778026382284,
    0.15387000908880752, 0.13251968259111446, 0.13235525972844267,
)  # fmt: skip
_SQRT_HALF = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}


def exponent_and_fraction(x: Vector) -> tuple[Vector, Vector]:
    """e and m of a positive normal x = 2^e m with m in [sqrt(1/2), sqrt(2)); e as float."""
    width, bits = mantissa_bits(x.element), x.bits()
    offset = bits - _SQRT_HALF[x.element]
    m = (bits - (offset & -(1 << width))).as_float()
    if x.element == "float":
        return offset.ashr(width).cast("sitofp", "float"), m
    # 64-bit conversions and arithmetic shifts are slow before AVX-512: let an addition to 2^52 convert.
    biased = (offset + (exponent_bias(x.element) << width)).lshr(width)
    e = (biased | ((exponent_bias(x.element) + width) << width)).as_float() - float(2**width + exponent_bias(x.element))
    return e, m


def log_core(f: Vector, e: Vector) -> Vector:
    """log(2^e (1 + f)) for 1 + f in [sqrt(1/2), sqrt(2)]."""
    c = for_type(f)
    if f.element == "float":
        square = f * f
        tail = fma(e, c.ln2_low, fma(square * f, horner(f, _SINGLE), square * -0.5))
        return fma(e, c.ln2_high, f + tail)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    inner = fma(s, fma(z, horner(z, _DOUBLE), half_square), e * c.ln2_low)
    return fma(e, c.ln2_high, f - (half_square - inner))


def logarithm(x: Vector) -> Vector:
    width = mantissa_bits(x.element)
    tiny = x.lt(2.0 ** (1 - exponent_bias(x.element)))
    scaled = where(tiny, x * 2.0**width, x)
    e, m = exponent_and_fraction(scaled)
    e = where(tiny, e - float(width), e)
    result = where(x.lt(float("inf")), log_core(m - 1.0, e), x)
    return _edge(result, x, 0.0)


def _edge(result: Vector, x: Vector, zero: float) -> Vector:
    """-inf where x equals `zero` (where the argument of log is 0), NaN below."""
    edge = where(x.eq(zero), float("-inf"), x.like(float("nan")))
    return where(x.compare("ugt", zero), result, edge)


def logarithm_plus_one(x: Vector) -> Vector:
    """With 1 + x = 2^e m, f = m - 1 = 2^-e x + (2^-e - 1) loses nothing of a small x."""
    e, m = exponent_and_fraction(x + 1.0)
    scale = _negative_power(e)
    f = where(x.lt(2.0 ** (mantissa_bits(x.element) + 2)), fma(scale, x, scale - 1.0), m - 1.0)
    result = where(x.lt(float("inf")), log_core(f, e), x)
    return _edge(result, x, -1.0).copysign(x)


def _negative_power(e: Vector) -> Vector:
    """2^-e for a small integral float e."""
    width, bias = mantissa_bits(e.element), exponent_bias(e.element)
    return (for_type(e).magic + bias - e).bits().shl(width).as_float()
