"""Powers and roots: pow, rsqrt, cbrt.

pow carries the logarithm with more bits, so that y log x is still right to a fraction of an ulp of the result: f32 in
f64, f64 in two numbers (72 bits), from which the first terms of the exponential are summed in two numbers as well.
"""

from __future__ import annotations

from collections.abc import Callable

from hlotool.codegen.llvm.control import conditional
from hlotool.codegen.llvm.math import avx512
from hlotool.codegen.llvm.math.exp import DOUBLE, LOG2_E, scale
from hlotool.codegen.llvm.math.log import exponent_and_fraction, log_pair
from hlotool.codegen.llvm.math.vector import (
    any_lane,
    exact_fma,
    exponent_bias,
    flushes,
    fma,
    horner,
    mantissa_bits,
    outlined,
    product_error,
)
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["cbrt", "power", "rsqrt"]

# log2((1 + s) / (1 - s)) / s in s^2 and 2^r on |r| <= 1/2; minimax fits (Remez in extended precision).
_LOG2 = (
    2.8853900817778486, 0.9617966941159235, 0.5770779415841605, 0.41220933438885204, 0.31990220923259954,
    0.282951692295797,
)  # fmt: skip
_EXP2 = (
    0.9999999999616097, 0.6931471807286492, 0.2402265119881397, 0.0555041035302177, 0.009618027166754198,
    0.0013333922721104347, 0.00015469318879597022, 1.5201929131840018e-05,
)  # fmt: skip
# (e^r - 1 - r - r^2/2 - r^3/6) / r^4
_EXP_TAIL = (
    0.041666666666666685, 0.008333333333327114, 0.0013888888888871328, 0.00019841269875597932, 2.4801587354286483e-05,
    2.75572527008877e-06, 2.7557246792526097e-07, 2.5106577317640606e-08, 2.092346492052183e-09,
)  # fmt: skip
_SIXTH = (0.16666666666666666, 9.25185853854297e-18)


def power(x: Vector, y: Vector) -> Vector:
    """IEEE pow.  Constant exponents 1, 2, 3 and -1 are multiplications and a division."""
    if y.is_constant:
        for exponent, form in _SIMPLE_POWERS.items():
            if y.name == y.like(exponent).name:
                return form(x)
    return outlined("pow", [x, y], _power_body)


_SIMPLE_POWERS: dict[float, Callable[[Vector], Vector]] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1.0 / x,
}


def _power_body(x: Vector, y: Vector) -> Vector:
    """The edges are looked at only where a lane has one."""
    infinity = float("inf")
    a = x.fabs()
    plain = _power_double(a, y) if x.element == "double" else _power_single(a, y)
    inside = x.gt(0.0) & x.lt(infinity) & y.fabs().lt(infinity)
    (result,) = conditional(any_lane(inside ^ 1), lambda: (_power_edges(x, y, plain),), plain)
    return result


def _power_edges(x: Vector, y: Vector, result: Vector) -> Vector:
    """|x|^y with signs, zeros, infinities and NaNs as IEEE 754 pow has them."""
    infinity = float("inf")
    a = x.fabs()
    growing = where(a.gt(1.0), y, -y).gt(0.0)
    result = where(a.eq(0.0) | a.eq(infinity), where(growing, infinity, x.like(0.0)), result)
    integral = y.floor().eq(y)
    half = y * 0.5
    odd = integral & half.floor().ne(half)
    result = where(odd & x.bits().lt(0), -result, result)
    result = where(x.lt(0.0) & a.lt(infinity) & (integral ^ 1), float("nan"), result)
    result = where(x.compare("uno", y), x + y, result)
    one = y.eq(0.0) | x.eq(1.0) | (x.eq(-1.0) & y.fabs().eq(infinity))
    return where(one, 1.0, result)


def _power_single(a: Vector, y: Vector) -> Vector:
    """a^y for positive finite ``float`` a.

    s = (m - 1) / (m + 1) starts from an f32 reciprocal; one correction in double gives it 48 bits.
    """
    tiny = a.lt(2.0**-126)
    e, m = exponent_and_fraction(where(tiny, a * 2.0**23, a))
    e = where(tiny, e - 23.0, e)
    inverse, wide = (1.0 / (m + 1.0)).cast("fpext", "double"), m.cast("fpext", "double")
    f = wide - 1.0
    s = f * inverse
    s = fma(inverse, fma(-s, wide + 1.0, f), s)
    log2 = fma(s, horner(s * s, _LOG2), e.cast("fpext", "double"))
    product = (log2 * y.cast("fpext", "double")).at_least(-300.0).at_most(300.0)
    shifted = product + DOUBLE.magic
    r = product - (shifted - DOUBLE.magic)
    two_to_k = (shifted.bits().shl(52) + (1023 << 52)).as_float()
    return (horner(r, _EXP2) * two_to_k).cast("fptrunc", "float")


def _power_double(a: Vector, y: Vector) -> Vector:
    """a^y for positive finite ``double`` a."""
    high, low = log_pair(a)
    product = y * high
    lost = product_error(y, high, product) + y * low
    inside = product.fabs().lt(800.0)
    product = product.at_least(-800.0).at_most(800.0)
    lost = where(inside, lost, 0.0)
    shifted = fma(product, LOG2_E, DOUBLE.magic)
    k = shifted - DOUBLE.magic
    first, second = fma(k, -DOUBLE.ln2_high, product), fma(k, -DOUBLE.ln2_low, lost)
    r = first + second
    r_low = second - (r - first)
    square = r * r
    square_low = product_error(r, r, square)
    cube = square * r
    cube_low = fma(square_low, r, product_error(square, r, cube))
    half, sixth = square * 0.5, cube * _SIXTH[0]
    sixth_low = fma(cube_low, _SIXTH[0], fma(cube, _SIXTH[1], product_error(cube, _SIXTH[0], sixth)))
    sum1 = r + 1.0
    sum2 = sum1 + half
    sum3 = sum2 + sixth
    low = (r - (sum1 - 1.0)) + (half - (sum2 - sum1)) + (sixth - (sum3 - sum2))
    low = low + (fma(square_low, 0.5, sixth_low) + r_low * sum3)
    return scale(sum3 + fma(square * square, horner(r, _EXP_TAIL), low), k, shifted.bits(), 0)


def rsqrt(x: Vector) -> Vector:
    """1 / sqrt(x) by a last Newton step in extra precision, from AVX-512's estimate of 14 bits where there is one."""
    if x.element == "float" and not x.f.unit.instructions.fma:
        return (1.0 / x.cast("fpext", "double").sqrt()).cast("fptrunc", "float")
    if flushes(x.f.unit) and not x.f.unit.instructions.fma:  # the low half of a tiny number is flushed
        tiny = x.lt(2.0**-900)
        y = _rsqrt(where(tiny, x * 2.0**200, x))
        return where(tiny, y * 2.0**100, y)
    return _rsqrt(x)


def _rsqrt(x: Vector) -> Vector:
    y = avx512.rsqrt_estimate(x) if avx512.fits(x) else 1.0 / x.sqrt()
    if avx512.fits(x) and x.element == "double":  # (1 - e)^(-1/2) = 1 + e/2 + 3/8 e^2: to 41 bits
        e = exact_fma(-(x * y), y, 1.0)
        y = where(e.isnan(), y, fma(y * e, fma(e, 0.375, 0.5), y))
    near = x * y
    e = fma(-y, product_error(x, y, near), product_error(-near, y, x.like(-1.0)))
    return where(e.isnan(), y, fma(y * 0.5, e, y))  # of 0 and infinity the estimate is exact


def cbrt(x: Vector) -> Vector:
    """An estimate from a third of the bits (Kahan), then Halley's iteration."""
    a = x.fabs()
    width = mantissa_bits(x.element)
    shift = 48 if x.element == "float" else 108  # so that the differences below are no subnormal numbers
    tiny = a.lt(2.0 ** (shift - exponent_bias(x.element)))
    scaled = where(tiny, a * 2.0**shift, a)
    # bits / 3 + 2/3 of the exponent bias, less a little: at most 4 % off
    third = _third(scaled.bits())
    t = (third + int((exponent_bias(x.element) * 2 / 3 - 0.0331) * 2**width)).as_float()
    quarter = scaled * 0.25  # so that nothing overflows
    for _ in range(2 if x.element == "float" else 3):
        cube = t * 0.25 * t * t
        t = fma(t, (quarter - cube) / (cube + cube + quarter), t)
    t = where(tiny, t * 2.0 ** (-shift // 3), t)
    return where(a.compare("one", 0.0) & a.lt(float("inf")), t, x + x).copysign(x)


def _third(bits: Vector) -> Vector:
    """About a third of a positive integer."""
    if BITS[bits.element] == 32:
        return (bits.cast("sitofp", "float") * (1.0 / 3.0)).cast("fptosi", "i32")
    magic = 2.0**52
    high = (bits.lshr(12) | ((1023 + 52) << 52)).as_float() - magic
    return (high * (1.0 / 3.0) + magic).bits().shl(12)
