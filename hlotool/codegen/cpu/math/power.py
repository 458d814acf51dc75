"""Powers and roots: pow, rsqrt, cbrt.

pow carries the logarithm in two numbers, so that y log x is still right to a fraction of an ulp of the
result: f32 in two floats (45 bits) where the processor fuses multiply and add, else in double; f64 in
two doubles (68 bits).
"""

from __future__ import annotations

from collections.abc import Callable

from hlotool.codegen.cpu.math.arithmetic import any_lane
from hlotool.codegen.cpu.math.exp import DOUBLE, LOG2_E, SINGLE, scale
from hlotool.codegen.cpu.math.log import exponent_and_fraction
from hlotool.codegen.cpu.math.vector import (
    BITS,
    Vector,
    exact_fma,
    exponent_bias,
    fma,
    has_fma,
    has_scalef,
    horner,
    mantissa_bits,
    outlined,
    where,
)

__all__ = ["cbrt", "power", "rsqrt"]

# log2((1 + s) / (1 - s)) / s in s^2 and 2^r on |r| <= 1/2; minimax fits (Remez in extended precision).
_LOG2 = (
    2.8853900817778486, 0.9617966941159235, 0.5770779415841605, 0.41220933438885204, 0.31990220923259954,
    0.282951692295797,
)  # fmt: skip
_EXP2 = (
    0.9999999999190774, 0.693147206709582, 0.24022651505003528, 0.0555032721606953, 0.009617994539685114,
    0.0013400432266627439, 0.00015477999812489376,
)  # fmt: skip
# The same for f32 arithmetic: the first two coefficients in two parts each, then the rest of the series.
_LOG2_FUSED = (2.885390043258667, 3.851926067000022e-08, 0.9617967009544373, -7.028461812552678e-09)
_LOG2_FUSED_TAIL = (0.57708025, 0.41184402, 0.3379599)
_EXP2_FUSED = (1.0, 0.6931472, 0.2402265, 0.055503592, 0.009618065, 0.0013391175, 0.00015461665)
# (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in s^2
_LOG_TAIL = (
    0.4000000000000062, 0.28571428570895707, 0.22222222377442208, 0.18181796767856795, 0.1538619219970049,
    0.13269788176858285, 0.1307798341146192,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


def power(x: Vector, y: Vector) -> Vector:
    """IEEE pow.  Constant exponents 1, 2, 3 and -1 are multiplications and a division."""
    if y.is_constant:
        for exponent, form in _SIMPLE_POWERS.items():
            if y.name == y.like(exponent).name:
                return form(x)
    return outlined("pow", [x, y], lambda p: _power_body(p[0], p[1]))


_SIMPLE_POWERS: dict[float, Callable[[Vector], Vector]] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1.0 / x,
}


def _power_body(x: Vector, y: Vector) -> Vector:
    """The edges are looked at only where a lane has one."""
    f = x.f
    infinity = float("inf")
    a = x.fabs()
    if x.element == "double":
        plain = _power_double(a, y)
    else:
        plain = _power_fused(a, y) if has_fma(f.unit) else _power_single(a, y)
    inside = x.gt(0.0) & x.lt(infinity) & y.fabs().lt(infinity)
    slow, done, fast_block = f.fresh("slow"), f.fresh("done"), f.block
    f.branch(any_lane(inside ^ 1), slow, done)
    f.label(slow)
    full = _power_edges(x, y, plain)
    f.jump(done)
    f.label(done)
    return x.let(f"phi {x.type} [ {plain.name}, %{fast_block} ], [ {full.name}, %{slow} ]")


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


def _power_fused(a: Vector, y: Vector) -> Vector:
    """a^y for positive finite ``float`` a with log2(a) in two floats (about 45 bits); needs real FMA."""
    tiny = a.lt(2.0**-126)
    e, m = exponent_and_fraction(where(tiny, a * 2.0**23, a))
    e = where(tiny, e - 23.0, e)
    f, u = m - 1.0, m + 1.0
    inverse = 1.0 / u
    s = f * inverse
    s_low = fma(-s, m - (u - 1.0), exact_fma(-s, u, f)) * inverse
    z = s * s
    z_low = fma(s + s, s_low, exact_fma(s, s, -z))
    cube = z * s
    cube_low = fma(z_low, s, fma(z, s_low, exact_fma(z, s, -cube)))
    first, second = s * _LOG2_FUSED[0], cube * _LOG2_FUSED[2]
    low = fma(s_low, _LOG2_FUSED[0], fma(s, _LOG2_FUSED[1], exact_fma(s, _LOG2_FUSED[0], -first)))
    low = low + fma(cube_low, _LOG2_FUSED[2], fma(cube, _LOG2_FUSED[3], exact_fma(cube, _LOG2_FUSED[2], -second)))
    low = fma(z * cube, horner(z, _LOG2_FUSED_TAIL), low)
    sum1 = e + first
    sum2 = sum1 + second
    low = low + ((first - (sum1 - e)) + (second - (sum2 - sum1)))
    product = y * sum2
    lost = fma(y, low, exact_fma(y, sum2, -product))
    lost = where(product.fabs().lt(200.0), lost, 0.0)
    product = product.at_least(-200.0).at_most(200.0)
    shifted = product + SINGLE.magic
    k = shifted - SINGLE.magic
    return scale(horner((product - k) + lost, _EXP2_FUSED), k, shifted.bits(), 0)


def _power_double(a: Vector, y: Vector) -> Vector:
    """a^y for positive finite ``double`` a."""
    high, low = _log_two_parts(a)
    product = y * high
    lost = exact_fma(y, high, -product) + y * low
    inside = product.fabs().lt(800.0)
    product = product.at_least(-800.0).at_most(800.0)
    lost = where(inside, lost, 0.0)
    shifted = fma(product, LOG2_E, DOUBLE.magic)
    k = shifted - DOUBLE.magic
    r = fma(k, -DOUBLE.ln2_high, product)
    r = r + fma(k, -DOUBLE.ln2_low, lost)
    return scale(horner(r, (1.0, 1.0, *DOUBLE.tail)), k, shifted.bits(), 0)


def _log_two_parts(a: Vector) -> tuple[Vector, Vector]:
    """log(a) as high + low: 2 s + 2/3 s^3 in two parts, the rest of the series plain."""
    tiny = a.lt(2.0**-1022)
    e, m = exponent_and_fraction(where(tiny, a * 2.0**54, a))
    e = where(tiny, e - 54.0, e)
    f, u = m - 1.0, m + 1.0
    u_low = m - (u - 1.0)
    inverse = 1.0 / u
    s = f * inverse
    s_low = (exact_fma(-s, u, f) - s * u_low) * inverse
    z = s * s
    z_low = fma(s + s, s_low, exact_fma(s, s, -z))
    cube = z * s
    cube_low = exact_fma(z, s, -cube) + fma(z, s_low, z_low * s)
    third = cube * _TWO_THIRDS[0]
    third_low = exact_fma(cube, _TWO_THIRDS[0], -third) + fma(cube_low, _TWO_THIRDS[0], cube * _TWO_THIRDS[1])
    tail = z * cube * horner(z, _LOG_TAIL)
    first, twice = e * DOUBLE.ln2_high, s + s
    sum1 = first + twice
    lost1 = twice - (sum1 - first)
    sum2 = sum1 + third
    lost2 = third - (sum2 - sum1)
    low = (lost1 + lost2) + (fma(e, DOUBLE.ln2_low, s_low + s_low) + (third_low + tail))
    high = sum2 + low
    return high, low - (high - sum2)


def rsqrt(x: Vector) -> Vector:
    """1 / sqrt(x); f32 on AVX-512 takes the 14-bit estimate and one Newton step."""
    width = x.lanes * 32
    if x.element != "float" or not has_scalef(x.f.unit) or width not in (128, 256, 512):
        return 1.0 / x.sqrt()
    mask = f"i{max(8, x.lanes)}"
    arguments = [(x.type, x.name), (x.type, x.name), (mask, "-1")]
    name = x.f.intrinsic(x.type, f"llvm.x86.avx512.rsqrt14.ps.{width}", arguments)
    estimate = Vector(x.f, "float", x.lanes, name)
    error = exact_fma(-(x * estimate), estimate, 1.0)
    refined = exact_fma(estimate * 0.5, error, estimate)
    return where(error.isnan(), estimate, refined)  # 0 and infinity: the estimate is exact


def cbrt(x: Vector) -> Vector:
    """An estimate from a third of the bits (Kahan), then Halley's iteration."""
    a = x.fabs()
    width = mantissa_bits(x.element)
    shift = 24 if x.element == "float" else 54
    tiny = a.lt(2.0 ** (24 - exponent_bias(x.element)))
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
