"""Logarithms: log and log(1 + x).

x = 2^e m with sqrt(1/2) <= m < sqrt(2).  f32 evaluates log(1 + f) = f - f^2/2 + f^3 P(f).  f64 has s = f / (2 + f):
log(1 + x) is f - f^2/2 + s (f^2/2 + R(s^2)) (Tang, ACM TOMS 16, 1990; K. C. Ng, fdlibm), and log, which pow builds on,
2 s + 2/3 s^3 + 2/5 s^5 in two numbers each plus the rest of the series.
The polynomials are minimax fits (Remez exchange in extended precision).
"""

from __future__ import annotations

from hlotool.codegen.llvm.math import avx512
from hlotool.codegen.llvm.math.exp import DOUBLE, SINGLE, for_type
from hlotool.codegen.llvm.math.vector import exponent_bias, fma, horner, mantissa_bits, product_error
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["exponent_and_fraction", "log_core", "log_pair", "logarithm", "logarithm_plus_one"]

_SINGLE = (0.33333316, -0.25000814, 0.20002313, -0.1662445, 0.1418049, -0.13129078, 0.12886336, -0.078640714)
_SINGLE_WIDE = (
    0.33333448, -0.25000098, 0.19990861, -0.16647245, 0.14478292, -0.13161883, 0.10465123, -0.04509078,
)  # fmt: skip
_DOUBLE = (
    0.6666666666666666, 0.4000000000000458, 0.28571428569428375, 0.22222222610047496, 0.18181778026382284,
    0.15387000908880752, 0.13251968259111446, 0.13235525972844267,
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3 - 2/5 s^5) / s^7 in s^2
_LOG_TAIL = (
    0.2857142857143316, 0.22222222220012008, 0.1818181860550559, 0.1538457289384515, 0.13335763337143614,
    0.11685036910811317, 0.11911017725255313,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_TWO_FIFTHS = (0.4, -2.2204460492503132e-17)
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


def log_pair(a: Vector) -> tuple[Vector, Vector]:
    """log(a) of positive finite f64 as high + low, to about 72 bits."""
    tiny = a.lt(2.0**-1022)
    e, m = exponent_and_fraction(where(tiny, a * 2.0**54, a))
    e = where(tiny, e - 54.0, e)
    f, u = m - 1.0, m + 1.0
    u_low = m - (u - 1.0)
    inverse = 1.0 / u
    s = f * inverse
    s_low = -(product_error(s, u, f) + s * u_low) * inverse
    z = s * s
    z_low = fma(s + s, s_low, product_error(s, s, z))
    cube = z * s
    cube_low = product_error(z, s, cube) + fma(z, s_low, z_low * s)
    third = cube * _TWO_THIRDS[0]
    third_low = product_error(cube, _TWO_THIRDS[0], third) + fma(cube_low, _TWO_THIRDS[0], cube * _TWO_THIRDS[1])
    fifth = cube * z
    fifth_low = product_error(cube, z, fifth) + fma(cube, z_low, cube_low * z)
    more = fifth * _TWO_FIFTHS[0]
    more_low = product_error(fifth, _TWO_FIFTHS[0], more) + fma(fifth_low, _TWO_FIFTHS[0], fifth * _TWO_FIFTHS[1])
    tail = fma(fifth * z, horner(z, _LOG_TAIL), more_low)
    first, twice = e * DOUBLE.ln2_high, s + s
    sum1 = first + twice
    lost1 = twice - (sum1 - first)
    sum2 = sum1 + third
    lost2 = third - (sum2 - sum1)
    sum3 = sum2 + more
    lost3 = more - (sum3 - sum2)
    low = (lost1 + lost2 + lost3) + (fma(e, DOUBLE.ln2_low, s_low + s_low) + (third_low + tail))
    high = sum3 + low
    return high, low - (high - sum3)


def logarithm(x: Vector) -> Vector:
    if x.element == "double":
        return _edge(where(x.lt(float("inf")), log_pair(x)[0], x), x, 0.0)
    if avx512.fits(x):
        e, m = avx512.exponent(x), avx512.fraction(x)
        upper = m.ge(2.0**0.5)
        result = log_core(where(upper, m * 0.5, m) - 1.0, where(upper, e + 1.0, e))
        return avx512.mended(result, x)
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


def _log_plus_one_avx512(x: Vector) -> Vector:
    """The same for f32 with 3/4 <= m < 3/2."""
    v = fma(x, 2 / 3, 2 / 3)  # 2^(e - 1) to 2^e
    minus_e = -1.0 - avx512.exponent(v)
    # Of the largest x 2^-e is subnormal, which is zero where those are flushed: it is no factor, only added.
    f = avx512.scaled(x, minus_e) + (avx512.scaled(x.like(1.0), minus_e) - 1.0)
    c, square = SINGLE, f * f
    tail = fma(minus_e, -c.ln2_low, fma(square * f, horner(f, _SINGLE_WIDE), square * -0.5))
    result = fma(minus_e, -c.ln2_high, f + tail)
    return avx512.mended(result, v).copysign(x)


def logarithm_plus_one(x: Vector) -> Vector:
    """With 1 + x = 2^e m, f = m - 1 = 2^-e x + (2^-e - 1) loses nothing of a small x."""
    if x.element == "float" and avx512.fits(x):
        return _log_plus_one_avx512(x)
    e, m = exponent_and_fraction(x + 1.0)
    scale = _negative_power(e)
    f = where(x.lt(2.0 ** (mantissa_bits(x.element) + 2)), fma(scale, x, scale - 1.0), m - 1.0)
    result = where(x.lt(float("inf")), log_core(f, e), x)
    return _edge(result, x, -1.0).copysign(x)


def _negative_power(e: Vector) -> Vector:
    """2^-e for a small integral float e."""
    width, bias = mantissa_bits(e.element), exponent_bias(e.element)
    return (for_type(e).magic + bias - e).bits().shl(width).as_float()
