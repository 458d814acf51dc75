"""Inverse trigonometric functions.

asin(x) = x + x^3 P(x^2) up to 1/2 and by the half-angle formula above it.  atan by a polynomial after reduction to
[-tan(pi/8), tan(pi/8)]: of f32 in f64; of f64 with quotient, two terms and angle in two numbers each.  Minimax fits
by Remez exchange in extended precision.
"""

from __future__ import annotations

from hlotool.codegen.llvm.math.vector import fma, horner, product_error
from hlotool.codegen.llvm.values import Vector, where

__all__ = ["acos", "asin", "atan2"]

# pi/2 and pi as high part plus rest, by precision.
_HALF_PI = {
    "float": (1.5707963705062866, -4.371139000186241e-08),
    "double": (1.5707963267948966, 6.123233995736766e-17),
}

_ASIN = {
    "float": (0.16666754, 0.07495249, 0.04547666, 0.024148123, 0.04221982),
    "double": (
        0.166666666666667, 0.07499999999983152, 0.04464285716514734, 0.030381943090425412, 0.022372205619837444,
        0.01735176138122694, 0.013979205983670272, 0.011410968738077933, 0.010717982625410108, 0.003924861953091777,
        0.021210553571254676, -0.02033804788635782, 0.032238200591629684,
    ),
}  # fmt: skip
# (atan(t) - t) / t^3 to 35 bits and (atan(t) - t + t^3/3) / t^5, in t^2
_ATAN_SINGLE = (
    -0.3333333251362895, 0.19999905094623815, -0.14282039284552298, 0.11045057193644744, -0.0847819362776323,
    0.04747816942997071,
)  # fmt: skip
_ATAN_DOUBLE = (
    0.19999999999999962, -0.14285714285704623, 0.11111111110130227, -0.09090909036943129, 0.07692305858650438,
    -0.06666625440849387, 0.05881715559278191, -0.052562490253749435, 0.04709168182193429, -0.04067122099096702,
    0.029848180174526076, -0.013186883004137903,
)  # fmt: skip
_THIRD = (-0.3333333333333333, -1.850371707708594e-17)
_TAN_PI_8 = 0.4142135623730951


def _asin_parts(x: Vector) -> tuple[Vector, Vector, Vector]:
    """Mask |x| > 1/2, reduced r (|x|, or sqrt((1 - |x|) / 2)), and r^3 P(r^2)."""
    a = x.fabs()
    upper = a.gt(0.5)
    half = fma(a, -0.5, 0.5)
    z = where(upper, half, a * a)
    r = where(upper, half.sqrt(), a)
    return upper, r, z * r * horner(z, _ASIN[x.element])


def asin(x: Vector) -> Vector:
    """NaN beyond 1."""
    upper, r, tail = _asin_parts(x)
    high, low = _HALF_PI[x.element]
    above = high - (r * 2.0 - fma(tail, -2.0, low))
    return where(upper, above, r + tail).copysign(x)


def acos(x: Vector) -> Vector:
    """NaN beyond 1; exact 0 at 1."""
    upper, r, tail = _asin_parts(x)
    high, low = _HALF_PI[x.element]
    value = r + tail
    twice = value + value
    above = where(x.lt(0.0), (2.0 * high) - (twice - 2.0 * low), twice)
    signed = tail.copysign(x)
    below = high - (x - (low - signed))
    return where(upper, above, below)


def atan2(y: Vector, x: Vector) -> Vector:
    """The angle of (x, y) in [-pi, pi], IEEE special cases included."""
    nan = y.compare("uno", x)
    angle = _angle_single(y, x) if y.element == "float" else _angle_double(y, x)
    return where(nan, y + x, angle).copysign(where(nan, y + x, y))


def _angle_single(y: Vector, x: Vector) -> Vector:
    steep, small, large = _octant(*(v.fabs().cast("fpext", "double") for v in (y, x)))
    upper = small.gt(large * _TAN_PI_8)
    t = where(upper, small - large, small) / where(upper, small + large, large)
    z = t * t
    angle = fma(z * t, horner(z, _ATAN_SINGLE), t)
    pi = 2.0 * _HALF_PI["double"][0]
    angle = where(upper, angle + pi / 4, angle)
    angle = where(steep, pi / 2 - angle, angle)
    return where(x.bits().lt(0), pi - angle, angle).cast("fptrunc", "float")


def _angle_double(y: Vector, x: Vector) -> Vector:
    steep, small, large = _octant(y.fabs(), x.fabs())
    factor = where(large.lt(2.0**500), small.like(2.0**500), 2.0**-30)  # nothing below may underflow
    small, large = small * factor, large * factor
    upper = small.gt(large * _TAN_PI_8)
    top, bottom = where(upper, small - large, small), where(upper, small + large, large)
    top_low = where(upper, small - (top + large), 0.0)
    bottom_low = where(upper, small - (bottom - large), 0.0)
    inverse = 1.0 / bottom
    quotient = top * inverse
    over = (top_low - quotient * bottom_low) - product_error(quotient, bottom, top)
    t = fma(over, inverse, quotient)
    low = fma(over, inverse, quotient - t)
    z = t * t
    cube = z * t
    cube_low = fma(product_error(t, t, z), t, product_error(z, t, cube))
    term = cube * _THIRD[0]
    term_low = fma(cube_low, _THIRD[0], fma(cube, _THIRD[1], product_error(cube, _THIRD[0], term)))
    angle = t + term
    rest = fma(z * cube, horner(z, _ATAN_DOUBLE), term_low)
    low = (term - (angle - t)) + (rest + (low - low * z))
    for chosen, eighths in ((upper, 1), (steep, 2), (x.bits().lt(0), 4)):
        if eighths > 1:
            angle, low = where(chosen, -angle, angle), where(chosen, -low, low)
        half_pi, half_pi_low = _HALF_PI["double"]
        offset = where(chosen, angle.like(half_pi * eighths / 2), 0.0)
        total = offset + angle
        low = (angle - (total - offset)) + (low + where(chosen, angle.like(half_pi_low * eighths / 2), 0.0))
        angle = total
    return angle + low


def _octant(a: Vector, b: Vector) -> tuple[Vector, Vector, Vector]:
    """Whether a > b, then the smaller and the larger; for infinities and zeros numbers with the same quotient."""
    steep, infinity = a.gt(b), float("inf")
    small, large = where(steep, b, a), where(steep, a, b)
    infinite = large.eq(infinity)
    small = where(infinite, where(small.eq(infinity), small.like(1.0), 0.0), small)
    return steep, small, where(infinite | large.eq(0.0), 1.0, large)
