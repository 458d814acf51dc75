"""Sine, cosine and tangent, right for every argument.

f32 arguments up to 2^17 are reduced by multiples of pi/2 in three f32 parts where the processor fuses
multiply and add.  Up to 2^29, and always for f64, the parts are short doubles, so that products are
exact anyway (Cody and Waite).  Larger arguments, and f64 arguments very close to a multiple of pi/2, take the
exact product with 192 bits of 2/pi (Payne and Hanek, ACM SIGNUM 1983), one lane at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from hlotool.codegen.cpu.math.arithmetic import any_lane
from hlotool.codegen.cpu.math.vector import Vector, exact_fma, fma, has_fma, horner, outlined, where
from hlotool.codegen.llvm import Function, Unit

__all__ = ["cosine", "sine", "tangent"]

_LIMIT = 2.0**29
_CLOSE = 2.0**-27
_MAGIC = 1.5 * 2.0**52
_TWO_OVER_PI = 0.6366197723675814
# pi/2 in parts; all but the last are short, so that products with the quotient are exact without FMA.
_PARTS = {
    "float": tuple(map(float.fromhex, ("0x1.921fb4p+0", "0x1.4442dp-24", "0x1.8469898cc5170p-48"))),
    "double": tuple(map(float.fromhex, ("0x1.921fb4p+0", "0x1.4442dp-24", "0x1.846988p-48", "0x1.8cc51701b839ap-72"))),
}
_SINGLE_PARTS = tuple(map(float.fromhex, ("0x1.921fb60000000p+0", "-0x1.777a5c0000000p-25", "-0x1.ee59da0000000p-50")))
_HALF_PI = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))

_SIN_SINGLE = (-0.16666655, 0.008332191, -0.00019518599)
_COS_SINGLE = (0.041666646, -0.0013887301, 2.443067e-05)
_SIN_DOUBLE = (
    -0.16666666666666666, 0.008333333333333127, -0.00019841269841119031, 2.755731917261899e-06,
    -2.5052099014388767e-08, 1.605804055288066e-10, -7.577386820813315e-13,
)  # fmt: skip
_COS_DOUBLE = (
    0.04166666666666665, -0.0013888888888881421, 2.4801587293355625e-05, -2.755731533518433e-07,
    2.08758442022432e-09, -1.1365457520529692e-11,
)  # fmt: skip

# The first 1216 bits of 2/pi, after a word of zeros.
_TWO_OVER_PI_WORDS = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip


def sine(x: Vector) -> Vector:
    return _emit("sin", x, lambda x, reduced: _sine(x, reduced, 0))


def cosine(x: Vector) -> Vector:
    return _emit("cos", x, lambda x, reduced: _sine(x, reduced, 1))


def tangent(x: Vector) -> Vector:
    return _emit("tan", x, _tangent)


Reduced = tuple[Vector, Vector, Vector | None]


def _emit(name: str, x: Vector, kernel: Callable[[Vector, Reduced], Vector]) -> Vector:
    """A call of the general function; for f32 with FMA only where a lane is large."""
    if x.element == "double" or not has_fma(x.f.unit):
        return outlined(name, [x], lambda p: kernel(p[0], _reduce(p[0])))
    f = x.f
    fast = kernel(x, _reduce_single(x))
    magnitude = x.fabs()
    outside = magnitude.ge(2.0**17) & magnitude.lt(float("inf"))
    slow, done, fast_block = f.fresh("slow"), f.fresh("done"), f.block
    f.branch(any_lane(outside), slow, done)
    f.label(slow)
    exact = outlined(f"{name}_large", [x], lambda p: kernel(p[0], _reduce(p[0])), cold=True)
    f.jump(done)
    f.label(done)
    return x.let(f"phi {x.type} [ {fast.name}, %{fast_block} ], [ {exact.name}, %{slow} ]")


def _reduce_single(x: Vector) -> Reduced:
    """As `_reduce` for f32 below 2^17, all in f32 (the first difference is exact, the others fused)."""
    magic = 1.5 * 2.0**23
    shifted = fma(x, _TWO_OVER_PI, magic)
    n = shifted - magic
    r = x
    for part in _SINGLE_PARTS:
        r = fma(n, -part, r)
    return shifted.bits(), r, None


def _sine(x: Vector, reduced: Reduced, turn: int) -> Vector:
    """sin(x + turn pi/2)."""
    quadrant, r, low = reduced
    sin, cos = _sin_kernel(r, low), _cos_kernel(r, low)
    if turn:
        quadrant = quadrant + turn
    value = where((quadrant & 1).ne(0), cos, sin)
    flipped = (value.bits() ^ (quadrant & 2).shl(30 if x.element == "float" else 62)).as_float()
    return flipped if turn else where(x.eq(0.0), x, flipped)


def _tangent(x: Vector, reduced: Reduced) -> Vector:
    quadrant, r, low = reduced
    sin, cos = _sin_kernel(r, low), _cos_kernel(r, low)
    odd = (quadrant & 1).ne(0)
    value = where(odd, cos, sin) / where(odd, -sin, cos)
    return where(x.eq(0.0), x, value)


def _sin_kernel(r: Vector, low: Vector | None) -> Vector:
    """sin(r + low) for |r| <= pi/4."""
    z = r * r
    if low is None:
        return fma(z * r, horner(z, _SIN_SINGLE), r)
    cube = z * r
    tail = fma(z, low * -0.5, low)  # low cos(r)
    return r + fma(cube, horner(z, _SIN_DOUBLE), tail)


def _cos_kernel(r: Vector, low: Vector | None) -> Vector:
    """cos(r + low) for |r| <= pi/4."""
    z = r * r
    if low is None:
        return fma(z * z, horner(z, _COS_SINGLE), fma(z, -0.5, 1.0))
    half = z * 0.5
    first = 1.0 - half
    lost = (1.0 - first) - half
    return first + fma(z * z, horner(z, _COS_DOUBLE), lost - r * low)


def _reduce(x: Vector) -> Reduced:
    """x = n pi/2 + r + low: n modulo 4 as integer of x's width, |r| <= pi/4; f32 has no low part."""
    f = x.f
    wide = x.cast("fpext", "double")
    shifted = fma(wide, _TWO_OVER_PI, _MAGIC)
    n = shifted - _MAGIC
    first, second, third, *rest = _PARTS[x.element]
    r = fma(n, -second, fma(n, -first, wide))
    high = fma(n, -third, r)
    magnitude = wide.fabs()
    outside = magnitude.ge(_LIMIT)
    outputs = [shifted.bits(), high]
    if x.element == "double":
        product = n * -third
        correction = high - r
        rough = fma(n, -rest[0], (r - (high - correction)) + (product - correction))
        total = high + rough
        low = rough - (total - high)
        high = total
        outputs = [shifted.bits(), high, low]
        outside = outside | (high.fabs().lt(_CLOSE) & n.ne(0.0))
    outside = outside & magnitude.lt(float("inf"))
    slow, done, fast_block = f.fresh("slow"), f.fresh("done"), f.block
    f.branch(any_lane(outside), slow, done)
    f.label(slow)
    exact = _reduce_each_lane(wide, outside, outputs)
    slow_block = f.block
    f.jump(done)
    f.label(done)
    joined = [
        a.let(f"phi {a.type} [ {a.name}, %{fast_block} ], [ {b.name}, %{slow_block} ]")
        for a, b in zip(outputs, exact, strict=True)
    ]
    if x.element == "double":
        return joined[0], joined[1], joined[2]
    return joined[0].cast("trunc", "i32"), joined[1].cast("fptrunc", "float"), None


def _reduce_each_lane(x: Vector, mask: Vector, fast: list[Vector]) -> list[Vector]:
    """`fast` with the lanes of `mask` replaced by the exact reduction."""
    f = x.f
    reduce = _define_exact_reduction(f.unit)
    if x.lanes == 1:
        whole = f.let(f"call {{ i64, double, double }} {reduce}(double {x.name})")
        return [a.let(f"extractvalue {{ i64, double, double }} {whole}, {i}") for i, a in enumerate(fast)]
    loop = f.begin_loop(0, x.lanes, 1, [(a.type, "zeroinitializer") for a in fast])
    lane = f.let(f"extractelement {x.type} {x.name}, i64 {loop.index}")
    whole = f.let(f"call {{ i64, double, double }} {reduce}(double {lane})")
    filled = []
    for i, (a, carried) in enumerate(zip(fast, loop.values, strict=True)):
        part = f.let(f"extractvalue {{ i64, double, double }} {whole}, {i}")
        filled.append(f.let(f"insertelement {a.type} {carried}, {a.element} {part}, i64 {loop.index}"))
    ends = f.end_loop(loop, filled)
    return [where(mask, Vector(f, a.element, a.lanes, e), a) for a, e in zip(fast, ends, strict=True)]


def _define_exact_reduction(unit: Unit) -> str:
    """Write ``{ i64 n, double r, double low } @hlo_reduce_pi(double)`` once; |x| >= 2^-10, any value is safe.

    With x = M 2^E, the bits of 2/pi above 2^(2-E) only add multiples of 4 to the quotient.  The next 192
    bits W give M W 2^-190 modulo 4: the top two bits are n, the rest is the fraction.
    """
    name, table = "hlo_reduce_pi", "hlo_two_over_pi"
    if name in unit.declarations:
        return f"@{name}"
    words = ", ".join(f"i64 {w - (1 << 64) if w >> 63 else w}" for w in _TWO_OVER_PI_WORDS)
    unit.declarations[table] = (
        f"@{table} = internal constant [{len(_TWO_OVER_PI_WORDS)} x i64] [{words}], align 64"
    )
    f = Function(unit, "")
    bits = Vector(f, "double", 1, "%x").bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = (bits.lshr(52) & 0x7FF) - (1075 + 2 - 64)
    start = where(start.lt(0), 0, start)
    start = where(start.gt(1033), 1033, start)
    word, offset = start.lshr(6), start & 63
    loaded = []
    for i in range(4):
        address = f.let(f"getelementptr i64, ptr @{table}, i64 {(word + i).name}")
        loaded.append(bits.let(f"load i64, ptr {address}"))
    window = [loaded[i].call("fshl", loaded[i + 1], offset) for i in range(3)]
    m = _wide(mantissa)
    bottom = _wide(window[2]) * m
    middle = _wide(window[1]) * m + bottom.lshr(64)
    top = window[0] * mantissa + _low(middle.lshr(64))
    n = (top + (1 << 61)).lshr(62)
    top = top - n.shl(62)
    negative = top.lt(0)
    fraction = _wide(top).shl(64) | _wide(_low(middle))
    fraction = where(negative, 0 - fraction, fraction)
    count = Vector(f, "i128", 1, f.intrinsic("i128", "llvm.ctlz.i128", [("i128", fraction.name), ("i1", "false")]))
    shifted = fraction.shl(count)
    leading = _low(shifted.lshr(75)).cast("sitofp", "double")
    following = _low(shifted.lshr(22)) & ((1 << 53) - 1)
    following_value = following.cast("sitofp", "double") * 2.0**-53
    # The fraction is (leading + following) 2^(75 - 126 - count).
    scale = ((1023 - 51) - _low(count)).shl(52).as_float()
    high = leading * _HALF_PI[0]
    low = exact_fma(leading, _HALF_PI[0], -high) + (leading * _HALF_PI[1] + following_value * _HALF_PI[0])
    total = high + low
    rest = low - (total - high)
    flip = negative.let(f"xor i1 {negative.name}, {bits.lt(0).name}")
    n = where(bits.lt(0), 0 - n, n)
    outputs = [n, *(where(flip, -part, part) for part in (total * scale, rest * scale))]
    whole = "poison"
    for i, part in enumerate(outputs):
        whole = f.let(f"insertvalue {{ i64, double, double }} {whole}, {part.type} {part.name}, {i}")
    f.do(f"ret {{ i64, double, double }} {whole}")
    head = f"define internal {{ i64, double, double }} @{name}(double %x) nounwind {{"
    unit.declarations[name] = "\n".join([head, "entry:", *f.lines, "}"])
    return f"@{name}"


def _wide(x: Vector) -> Vector:
    return x.let(f"zext i64 {x.name} to i128", "i128")


def _low(x: Vector) -> Vector:
    return x.let(f"trunc i128 {x.name} to i64", "i64")
