"""Sine, cosine and tangent, right for every argument and almost always the number nearest to the true result.

f32 is computed in f64: sine and cosine as one odd polynomial after a reduction by multiples of pi, the tangent as a
quotient after one by multiples of pi/2.  f64 carries the reduced argument and the first terms of the series in two
numbers each.  Multiples are taken off in parts (Cody and Waite) which are short where the processor does not fuse
multiply and add, so that products are exact anyway.  Arguments from 2^29 on, and f64 arguments very close to a multiple
of pi/2, take the exact product with 192 bits of 2/pi (Payne and Hanek, ACM SIGNUM 1983), one lane at a time.
The polynomials are minimax fits (Remez exchange in extended precision).
"""

from __future__ import annotations

from hlotool.codegen.llvm.control import Callee, begin_loop, conditional
from hlotool.codegen.llvm.math.vector import any_lane, exact_fma, fma, horner, outlined, product_error, signed_zero
from hlotool.codegen.llvm.values import Ptr, Struct, Vector, operand, where, zeros
from hlotool.codegen.llvm.writer import LIBRARY, Function, Unit

__all__ = ["cosine", "sine", "tangent"]

_LIMIT = 2.0**29
_CLOSE = 2.0**-27
_MAGIC = 1.5 * 2.0**52
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
# pi/2 in parts; all but the last are short, so that products with the quotient are exact without FMA.
_SHORT_PARTS = tuple(map(float.fromhex, ("0x1.921fb4p+0", "0x1.4442dp-24", "0x1.8469898cc5170p-48")))
_LONG_PARTS = tuple(
    map(float.fromhex, ("0x1.921fb4p+0", "0x1.4442dp-24", "0x1.846988p-48", "0x1.8cc51701b839ap-72"))
)

# sin(r) / r in r^2 up to pi/2 and up to pi/4, and cos(r) up to pi/4, to 35 bits and more
_SIN_HALF_TURN = (
    0.9999999999788378, -0.16666666608796726, 0.008333330719503493, -0.00019840832692438396, 2.752396448583574e-06,
    -2.38682309204732e-08,
)  # fmt: skip
_SIN_SINGLE = (
    0.9999999999954483, -0.16666666630431484, 0.008333328688745405, -0.00019839177936159562, 2.717148960218026e-06,
)  # fmt: skip
_COS_SINGLE = (
    0.9999999999999343, -0.4999999999927089, 0.04166666653363774, -0.001388887993157185, 2.4798843677913138e-05,
    -2.716794013859859e-07,
)  # fmt: skip
# (sin(r) - r + r^3/6) / r^5 and (cos(r) - 1 + r^2/2 - r^4/24) / r^6 in r^2 up to pi/4
_SIN_DOUBLE = (
    0.00833333333333333, -0.00019841269841261154, 2.755731921686244e-06, -2.5052105518494753e-08,
    1.6058435490737494e-10, -7.581786521914296e-13,
)  # fmt: skip
_COS_DOUBLE = (
    -0.0013888888888884253, 2.4801587295131765e-05, -2.7557315835883867e-07, 2.0875908965117873e-09,
    -1.1368589092508526e-11,
)  # fmt: skip
_SIXTH = (-0.16666666666666666, -9.25185853854297e-18)
_TWENTY_FOURTH = (0.041666666666666664, 2.3129646346357427e-18)

# The first 1216 bits of 2/pi, after a word of zeros.
_TWO_OVER_PI_WORDS = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip


def sine(x: Vector) -> Vector:
    return _half_turns("sin", x, 0) if x.element == "float" else outlined("sin", [x], lambda p: _sine(p, 0))


def cosine(x: Vector) -> Vector:
    return _half_turns("cos", x, 1) if x.element == "float" else outlined("cos", [x], lambda p: _sine(p, 1))


def tangent(x: Vector) -> Vector:
    return outlined("tan", [x], _tangent_single if x.element == "float" else _tangent)


# ---- f32, in f64


def _half_turns(name: str, x: Vector, turn: int) -> Vector:
    """sin(x + turn pi/2) of f32: with x = n pi + r it is (-1)^n sin(r), with x = (n + 1/2) pi - r (-1)^n sin(r)."""
    wide = x.cast("fpext", "double")
    if turn:
        shifted = fma(wide, _TWO_OVER_PI / 2, -0.5) + _MAGIC
        r = _take_off(-wide, (shifted - _MAGIC) + 0.5, -2.0)
    else:
        shifted = fma(wide, _TWO_OVER_PI / 2, _MAGIC)
        r = _take_off(wide, shifted - _MAGIC, 2.0)
    fast = _sine_to_half_turn(r, shifted.bits())
    magnitude = x.fabs()
    large = magnitude.ge(_LIMIT)

    def exact() -> tuple[Vector]:
        result = outlined(f"{name}_large", [x], lambda p: _half_turns_large(p, turn), cold=True)
        return (where(large & magnitude.lt(float("inf")), result, fast),)

    (result,) = conditional(any_lane(large), exact, fast)
    return result


def _take_off(x: Vector, n: Vector, scale: float) -> Vector:
    """x - n scale pi/2; `scale` is a power of two."""
    for part in _HALF_PI if x.f.unit.instructions.fma else _SHORT_PARTS:
        x = fma(n, -part * scale, x)
    return x


def _sine_to_half_turn(r: Vector, n: Vector) -> Vector:
    """(-1)^n sin(r) for |r| <= pi/2, as ``float``."""
    value = r * horner(r * r, _SIN_HALF_TURN)
    return (value.bits() ^ n.shl(63)).as_float().cast("fptrunc", "float")


def _half_turns_large(x: Vector, turn: int) -> Vector:
    """As `_half_turns` for |x| >= 2^29."""
    quadrant, r, _ = _exact(x.cast("fpext", "double"))
    quadrant = quadrant + turn
    r = where((quadrant & 1).ne(0), _HALF_PI[0] - r.fabs(), r)
    return _sine_to_half_turn(r, quadrant.lshr(1))


def _tangent_single(x: Vector) -> Vector:
    wide = x.cast("fpext", "double")
    shifted = fma(wide, _TWO_OVER_PI, _MAGIC)
    quadrant, r = _joined(
        wide, wide.fabs().ge(_LIMIT), [shifted.bits(), _take_off(wide, shifted - _MAGIC, 1.0)]
    )
    z = r * r
    sin, cos = r * horner(z, _SIN_SINGLE), horner(z, _COS_SINGLE)
    odd = (quadrant & 1).ne(0)
    return (where(odd, cos, sin) / where(odd, -sin, cos)).cast("fptrunc", "float")


# ---- f64


Pair = tuple[Vector, Vector]
"""A number as the sum of two, of which the second is far smaller."""


def _sine(x: Vector, turn: int) -> Vector:
    """sin(x + turn pi/2)."""
    quadrant, r, low = _reduce(x)
    (sin, sin_low), (cos, cos_low) = _sine_and_cosine(r, low)
    if turn:
        quadrant = quadrant + turn
    odd = (quadrant & 1).ne(0)
    value = where(odd, cos, sin) + where(odd, cos_low, sin_low)
    flipped = (value.bits() ^ (quadrant & 2).shl(62)).as_float()
    return flipped if turn else where(x.eq(0.0), signed_zero(x), flipped)


def _tangent(x: Vector) -> Vector:
    """A quotient of pairs: what a first quotient leaves over is divided again."""
    quadrant, r, low = _reduce(x)
    (sin, sin_low), (cos, cos_low) = _sine_and_cosine(r, low)
    odd = (quadrant & 1).ne(0)
    top, top_low = _normal(where(odd, cos, sin), where(odd, cos_low, sin_low))
    bottom, bottom_low = _normal(where(odd, -sin, cos), where(odd, -sin_low, cos_low))
    inverse = 1.0 / bottom
    quotient = top * inverse
    product = quotient * bottom
    over = (top - product) - product_error(quotient, bottom, product)
    value = fma(over + (top_low - quotient * bottom_low), inverse, quotient)
    return where(x.eq(0.0), signed_zero(x), value)


def _normal(high: Vector, low: Vector) -> Pair:
    """The same sum with its nearest number first."""
    total = high + low
    return total, low - (total - high)


def _sine_and_cosine(r: Vector, low: Vector) -> tuple[Pair, Pair]:
    """Of r + low for |r| <= pi/4: two terms of either series in two numbers, the rest in one."""
    z = r * r
    z_low = product_error(r, r, z)
    cube = z * r
    cube_low = fma(z_low, r, product_error(z, r, cube))
    term = cube * _SIXTH[0]
    term_low = fma(cube_low, _SIXTH[0], fma(cube, _SIXTH[1], product_error(cube, _SIXTH[0], term)))
    sin_rest = fma(z * cube, horner(z, _SIN_DOUBLE), term_low)
    sin = r + term
    sin_rest = (term - (sin - r)) + sin_rest
    half = z * 0.5
    first = 1.0 - half
    lost = (1.0 - first) - half
    square = z * z
    square_low = fma(z + z, z_low, product_error(z, z, square))
    term = square * _TWENTY_FOURTH[0]
    term_low = fma(
        square_low, _TWENTY_FOURTH[0], fma(square, _TWENTY_FOURTH[1], product_error(square, _TWENTY_FOURTH[0], term))
    )
    cos_rest = fma(z * square, horner(z, _COS_DOUBLE), term_low)
    cos = first + term
    cos_rest = (term - (cos - first)) + (lost + (cos_rest - z_low * 0.5))
    return (sin, fma(low, cos, sin_rest)), (cos, fma(-low, sin, cos_rest))


def _reduce(x: Vector) -> tuple[Vector, Vector, Vector]:
    """x = n pi/2 + r + low for f64: n modulo 4 as an integer, |r| <= pi/4."""
    shifted = fma(x, _TWO_OVER_PI, _MAGIC)
    n = shifted - _MAGIC
    first, second, third, last = _LONG_PARTS
    r = fma(n, -second, fma(n, -first, x))
    high = fma(n, -third, r)
    product = n * -third
    correction = high - r
    rough = fma(n, -last, (r - (high - correction)) + (product - correction))
    total, low = _normal(high, rough)
    outside = x.fabs().ge(_LIMIT) | (total.fabs().lt(_CLOSE) & n.ne(0.0))
    quadrant, r, low = _joined(x, outside, [shifted.bits(), total, low])
    return quadrant, r, low


# ---- exact reductions


def _joined(x: Vector, mask: Vector, fast: list[Vector]) -> list[Vector]:
    """Quotient, rest (and its low part): `fast`, in finite lanes of `mask` the exact ones."""
    mask = mask & x.fabs().lt(float("inf"))

    def exact() -> tuple[Vector, ...]:
        return tuple(where(mask, a, b) for a, b in zip(_exact(x), fast, strict=False))

    return list(conditional(any_lane(mask), exact, *fast))


def _exact(x: Vector) -> tuple[Vector, Vector, Vector]:
    """The exact reduction of every lane (of anything where |x| < 2^-10 or infinite)."""
    f, kinds = x.f, ("i64", "double", "double")
    whole = Struct(f, [zeros(f, kind) for kind in kinds], "")
    reduction = Callee(_define_exact_reduction(f.unit), whole)
    if x.lanes == 1:
        n, r, low = reduction(f, x).parts()
        return n, r, low
    loop = begin_loop(f, 0, x.lanes, 1, *(zeros(f, kind, x.lanes) for kind in kinds))
    parts = reduction(f, x[loop.index])
    n, r, low = loop.end(*(into.insert(loop.index, parts.part(i)) for i, into in enumerate(loop.values)))
    return n, r, low


def _define_exact_reduction(unit: Unit) -> str:
    """Write ``{ i64 n, double r, double low } @reduce_pi.hlo(double)`` once; |x| >= 2^-10, any value is safe.

    With x = M 2^E, the bits of 2/pi above 2^(2-E) only add multiples of 4 to the quotient.  The next 192
    bits W give M W 2^-190 modulo 4: the top two bits are n, the rest is the fraction.
    """
    name, table = f"reduce_pi{LIBRARY}", f"two_over_pi{LIBRARY}"
    if name in unit.library:
        return f"@{name}"
    words = ", ".join(f"i64 {w - (1 << 64) if w >> 63 else w}" for w in _TWO_OVER_PI_WORDS)
    unit.library[table] = f"@{table} = internal constant [{len(_TWO_OVER_PI_WORDS)} x i64] [{words}], align 64"
    f = Function(unit, "")
    bits = Vector(f, "double", 1, "%x").bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = (bits.lshr(52) & 0x7FF) - (1075 + 2 - 64)
    start = where(start.lt(0), 0, start)
    start = where(start.gt(1033), 1033, start)
    word, offset = start.lshr(6), start & 63
    loaded = [Ptr(f, f"@{table}").at("i64", (word + i).index()).load("i64") for i in range(4)]
    window = [loaded[i].call("fshl", loaded[i + 1], offset) for i in range(3)]
    m = mantissa.cast("zext", "i128")
    bottom = window[2].cast("zext", "i128") * m
    middle = window[1].cast("zext", "i128") * m + bottom.lshr(64)
    top = window[0] * mantissa + middle.lshr(64).cast("trunc", "i64")
    n = (top + (1 << 61)).lshr(62)
    top = top - n.shl(62)
    negative = top.lt(0)
    fraction = top.cast("zext", "i128").shl(64) | middle.cast("trunc", "i64").cast("zext", "i128")
    fraction = where(negative, 0 - fraction, fraction)
    count = fraction.call("ctlz", zeros(f, "i1"))
    # Shifted up by it, in two words: some processors have no shift of 128 bits by a variable.
    count = count.cast("trunc", "i64")
    upper, lower = fraction.lshr(64).cast("trunc", "i64"), fraction.cast("trunc", "i64")
    far, within = count.compare("ugt", 63), count & 63
    upper, lower = where(far, lower, upper), where(far, 0, lower)
    upper, lower = upper.call("fshl", lower, within), lower.shl(within)
    leading = upper.lshr(11).cast("sitofp", "double")
    following = upper.call("fshl", lower, upper.like(42)) & ((1 << 53) - 1)
    following_value = following.cast("sitofp", "double") * 2.0**-53
    # The fraction is (leading + following) 2^(75 - 126 - count).
    scale = ((1023 - 51) - count).shl(52).as_float()
    high = leading * _HALF_PI[0]
    low = exact_fma(leading, _HALF_PI[0], -high) + (leading * _HALF_PI[1] + following_value * _HALF_PI[0])
    total = high + low
    rest = low - (total - high)
    flip = negative ^ bits.lt(0)
    n = where(bits.lt(0), 0 - n, n)
    outputs = [n, *(where(flip, -part, part) for part in (total * scale, rest * scale))]
    f.leave(operand(Struct.of(outputs)))
    head = f"define internal {{ i64, double, double }} @{name}(double %x) nounwind {{"
    unit.library[name] = "\n".join([head, "entry:", *f.lines, "}"])
    return f"@{name}"
