"""Inverse trigonometric functions.

asin(x) = x + x^3 P(x^2) up to 1/2 and by the half-angle formula above it; atan by a polynomial after
reduction to [0, 1] (f32) or [-tan(pi/8), tan(pi/8)] (f64).  Minimax fits by Remez exchange in extended precision.
"""

from __future__ import annotations

from hlotool.codegen.cpu.math.vector import Vector, fma, horner, where

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
_ATAN = {
    "float": (
        -0.33333302, 0.19998626, -0.14265092, 0.10956658, -0.084164605, 0.058178056, -0.03139444, 0.011028954,
        -0.001818711,
    ),
    "double": (
        -0.3333333333333333, 0.19999999999999046, -0.14285714285544643, 0.11111111097095193, -0.09090908442695607,
        0.07692289047544311, -0.06666313435766377, 0.05877811527427408, -0.052231131315047676, 0.045212199473775305,
        -0.03385374357639686, 0.015551309254710051,
    ),
}  # fmt: skip
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
    a, b = y.fabs(), x.fabs()
    steep = a.gt(b)
    small, large = where(steep, b, a), where(steep, a, b)
    infinity = float("inf")
    both = small.eq(infinity)
    small, large = where(both, 1.0, small), where(both, 1.0, large)
    small, large = _scaled(small, large)
    ratio, offset_high, offset_low = _reduce_ratio(small, large)
    z = ratio * ratio
    angle = fma(z * ratio, horner(z, _ATAN[x.element]), ratio)
    high, low = _HALF_PI[x.element]
    if offset_high is not None and offset_low is not None:
        angle = offset_high + (angle + offset_low)
    angle = where(steep, high - (angle - low), angle)
    negative = x.bits().lt(0)
    angle = where(negative, 2.0 * high - (angle - 2.0 * low), angle)
    nan = y.compare("uno", x)
    return where(nan, y + x, angle).copysign(where(nan, y + x, y))


def _scaled(small: Vector, large: Vector) -> tuple[Vector, Vector]:
    """Both away from the ends of the range, and 0/0 made 0/1."""
    tiny, huge = (2.0**-80, 2.0**100) if small.element == "float" else (2.0**-600, 2.0**1000)
    factor = where(large.lt(tiny), small.like(2.0 ** (48 if small.element == "float" else 200)), 1.0)
    factor = where(large.gt(huge), 0.125, factor)
    small, large = small * factor, large * factor
    return small, where(large.eq(0.0), 1.0, large)


def _reduce_ratio(small: Vector, large: Vector) -> tuple[Vector, Vector | None, Vector | None]:
    """t with atan(small / large) = atan(t) + offset; offset in two parts (f64 only)."""
    if small.element == "float":
        return small / large, None, None
    upper = small.gt(large * _TAN_PI_8)
    numerator = where(upper, small - large, small)
    denominator = where(upper, small + large, large)
    high, low = _HALF_PI["double"]
    none = numerator.like(0.0)
    return numerator / denominator, where(upper, high / 2, none), where(upper, low / 2, none)
