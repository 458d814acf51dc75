"""Complex arithmetic and functions on pairs (real, imaginary).

c64 is computed in double precision, where products of two f32 numbers are exact and nothing
overflows, and rounded at the end; c128 scales where it must.  Branch cuts are those of C99 Annex G.
Formulas after Kahan, "Branch Cuts for Complex Elementary Functions" (1987).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi

from hlotool.codegen.llvm.control import conditional
from hlotool.codegen.llvm.math import exp, hyperbolic, inverse, log, power, trig
from hlotool.codegen.llvm.math.elements import Register, compute_element, is_complex, part_type, vector
from hlotool.codegen.llvm.math.vector import any_lane, exact_fma, exponent_bias, fma, outlined_many, signed_zero
from hlotool.codegen.llvm.values import Vector, where
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["bitcast", "compare", "emit"]

Pair = tuple[Vector, Vector]
INFINITY = float("inf")
NAN = float("nan")
HALF_PI = pi / 2


def emit(opcode: str, element_type: str, operands: Sequence[Register]) -> Register:
    """An operation on complex operands; ``abs`` gives one real value, the others a pair."""
    pairs = [_pair(operand) for operand in operands]
    if opcode in _EXACT:
        return _EXACT[opcode](*pairs)
    part = compute_element(element_type)
    if opcode == "divide" and part == "float":
        real, imaginary = _divide_singles(*pairs)
        return real.cast("fptrunc", part), imaginary.cast("fptrunc", part)
    wide = [(a.cast("fpext", "double"), b.cast("fpext", "double")) for a, b in pairs]
    if opcode == "abs":
        size = _magnitude_of_single if part == "float" else magnitude
        return size(wide[0]).cast("fptrunc", part)
    if opcode in _SHORT:
        result = _SHORT[opcode](*wide)
    elif opcode in _LONG:
        body = _LONG[opcode]
        flat = [part for pair in wide for part in pair]
        outputs = outlined_many(
            f"complex_{opcode.replace('-', '_')}", flat, lambda *p: body(*zip(p[::2], p[1::2], strict=True)), count=2
        )
        result = outputs[0], outputs[1]
    else:
        raise UnsupportedError(f"{opcode} is not defined for element type {element_type}")
    return result[0].cast("fptrunc", part), result[1].cast("fptrunc", part)


def _pair(register: Register) -> Pair:
    assert not isinstance(register, Vector)
    return register


def compare(direction: str, element_type: str, operands: Sequence[Register]) -> Vector:
    """EQ and NE."""
    (a, b), (c, d) = (_pair(operand) for operand in operands)
    if direction == "EQ":
        return a.eq(c) & b.eq(d)
    if direction == "NE":
        return a.ne(c) | b.ne(d)
    raise UnsupportedError(f"compare {direction} is not defined for element type {element_type}")


def bitcast(source: str, target: str, value: Register) -> Register:
    """c64 as a real type of 64 bits or back: the real part is the low half."""
    other = target if is_complex(source) else source
    if "c64" not in (source, target) or ELEMENT_TYPES[other].bits != 64:
        raise UnsupportedError(f"bitcast-convert of {source} to {target}")
    if is_complex(source):
        real, imaginary = (p.bits().cast("zext", "i64") for p in _pair(value))
        joined = real | imaginary.shl(32)
        return joined.as_float() if target == "f64" else joined
    bits = vector(value).bits()
    low, high = bits.cast("trunc", "i32"), bits.lshr(32).cast("trunc", "i32")
    assert part_type(target) == "f32"
    return low.as_float(), high.as_float()


def multiply(z: Pair, w: Pair) -> Pair:
    (a, b), (c, d) = z, w
    return a * c - b * d, a * d + b * c


def divide(z: Pair, w: Pair) -> Pair:
    """Smith's method (CACM 1962), by the larger part of the divisor, with both numbers scaled so that no sum overflows
    or loses bits; infinities and zeros as in C99 Annex G."""
    (a, b), (c, d) = z, w
    swap = d.fabs().gt(c.fabs())
    above, restore = _quotient_scale(where(a.fabs().gt(b.fabs()), a, b))
    below, _ = _quotient_scale(where(swap, d, c))
    large, small = where(swap, d, c) * below, where(swap, c, d) * below
    p, q = a * above, b * above
    first, second = where(swap, q, p), where(swap, p, q)
    ratio = where(large.eq(0.0), 0.0, small / large)
    denominator = fma(small, ratio, large)
    back = below * restore
    real = fma(second, ratio, first) / denominator * back
    imaginary = where(swap, fma(q, ratio, -p), fma(-p, ratio, q)) / denominator * back
    return _with_infinities(z, w, (real, imaginary), large.fabs().eq(INFINITY) | _is_special(real, imaginary))


def _quotient_scale(x: Vector) -> tuple[Vector, Vector]:
    """A power of two for numbers close to the ends of the range, and its inverse."""
    size = x.fabs()
    tiny, huge = size.lt(2.0**-960), size.gt(2.0**1020)
    return (
        where(tiny, x.like(2.0**60), where(huge, x.like(2.0**-4), 1.0)),
        where(tiny, x.like(2.0**-60), where(huge, x.like(2.0**4), 1.0)),
    )


def _divide_singles(z: Pair, w: Pair) -> Pair:
    """A quotient of c64, in double precision, where the products of the schoolbook formula are exact and stay in range.

    The divisor is turned so that its larger part is positive: zeros get the signs that Smith's method gives them.
    """
    (a, b), (c, d) = z, w
    sign = where(d.fabs().gt(c.fabs()), d, c).bits() & -(1 << 31)
    turned = ((x.bits() ^ sign).as_float() for x in (c, d, c.like(1.0)))
    a, b, c, d, one = (x.cast("fpext", "double") for x in (a, b, *turned))
    inverse = one / fma(c, c, d * d)
    real, imaginary = fma(a, c, b * d) * inverse, fma(b, c, -(a * d)) * inverse
    return _with_infinities(z, w, (real, imaginary), _is_special(real, imaginary))


def _is_special(real: Vector, imaginary: Vector) -> Vector:
    """Whether one of two numbers is infinite or NaN."""
    return (real * 0.0).compare("uno", imaginary * 0.0)


def _with_infinities(z: Pair, w: Pair, quotient: Pair, where_special: Vector) -> Pair:
    """The quotient of z and w as C99 Annex G has it where a part of them is infinite or w is zero: nowhere else than
    `where_special`."""
    return conditional(any_lane(where_special), lambda: _at_infinities(z, w, quotient), *quotient)


def _at_infinities(z: Pair, w: Pair, quotient: Pair) -> Pair:
    a, b, c, d = (x.cast("fpext", "double") for x in (*z, *w))
    infinite = [x.fabs().eq(INFINITY) for x in (a, b, c, d)]
    finite = a.fabs().lt(INFINITY) & b.fabs().lt(INFINITY)
    divisor_finite = c.fabs().lt(INFINITY) & d.fabs().lt(INFINITY)
    units = [where(i, 1.0, x.like(0.0)).copysign(x) for i, x in zip(infinite, (a, b, c, d), strict=True)]

    def replace(mask: Vector, new: Pair, old: Pair) -> Pair:
        return where(mask, new[0], old[0]), where(mask, new[1], old[1])

    unit_a, unit_b, unit_c, unit_d = units
    result = replace(
        finite & (infinite[2] | infinite[3]),
        ((a * unit_c + b * unit_d) * 0.0, (b * unit_c - a * unit_d) * 0.0),
        quotient,
    )
    result = replace(
        (infinite[0] | infinite[1]) & divisor_finite,
        ((unit_a * c + unit_b * d) * INFINITY, (unit_b * c - unit_a * d) * INFINITY),
        result,
    )
    pole = c.like(INFINITY).copysign(c)
    return replace(c.eq(0.0) & d.eq(0.0), (pole * a, pole * b), result)


def _scaled(z: Pair) -> tuple[Vector, Vector, Vector]:
    """The sizes of both parts by a power of two that keeps their squares in range, and its inverse."""
    a, b = z[0].fabs(), z[1].fabs()
    large = where(a.gt(b), a, b)
    tiny, huge = large.lt(2.0**-500), large.gt(2.0**500)
    scale = where(tiny, a.like(2.0**600), where(huge, a.like(2.0**-600), 1.0))
    back = where(tiny, a.like(2.0**-600), where(huge, a.like(2.0**600), 1.0))
    return a * scale, b * scale, back


def magnitude(z: Pair) -> Vector:
    """|z| without overflow; infinite if either part is."""
    a, b, back = _scaled(z)
    return _infinite_with((a, b), fma(a, a, b * b).sqrt() * back)


def _magnitude_of_single(z: Pair) -> Vector:
    """|z| of c64 in double precision, in which squares are exact and stay in range."""
    a, b = z
    return _infinite_with((a.fabs(), b.fabs()), fma(a, a, b * b).sqrt())


def _infinite_with(sizes: Pair, size: Vector) -> Vector:
    return where(sizes[0].eq(INFINITY) | sizes[1].eq(INFINITY), INFINITY, size)


def sign(z: Pair) -> Pair:
    """z / |z|; zero stays (and what is flushed compares equal to zero, but is not)."""
    a, b, _ = _scaled(z)
    size = fma(a, a, b * b).sqrt()
    zero = size.eq(0.0)
    real, imaginary = (where(zero, x.like(0.0), part / size).copysign(x) for x, part in zip(z, (a, b), strict=True))
    return real, imaginary


def _cis(angle: Vector) -> Pair:
    return trig.cosine(angle), trig.sine(angle)


def _not_finite(x: Vector) -> Vector:
    """Whether a number is infinite or NaN."""
    return x.fabs().lt(INFINITY) ^ 1


def _infinite(z: Pair) -> Vector:
    """Whether a part of z is infinite, whatever the other is."""
    return z[0].fabs().eq(INFINITY) | z[1].fabs().eq(INFINITY)


def _direction(z: Pair) -> Pair:
    """Of an infinite z: ones for infinite parts, zeros for finite ones, with their signs; NaN stays."""
    one, two = (where(x.isnan(), x, where(x.fabs().eq(INFINITY), 1.0, x.like(0.0)).copysign(x)) for x in z)
    return one, two


def exponential(z: Pair) -> Pair:
    """e^a (cos b + i sin b); a real argument stays real, e^-inf is 0 whatever the angle."""
    a, b = z
    beyond = a.gt(700.0)
    size = exp.exponential(where(beyond, a - 700.0, a))
    more = where(beyond, float.fromhex("0x1.d945df4f8ec8ep+1009"), a.like(1.0))
    not_finite = _not_finite(b)
    cos, sin = _cis(where(a.eq(-INFINITY) & not_finite, 0.0, b))
    imaginary = where(b.eq(0.0), signed_zero(b), size * sin * more)
    return where(a.eq(INFINITY) & not_finite, INFINITY, size * cos * more), imaginary


def exponential_minus_one(z: Pair) -> Pair:
    """Real part e^a cos b - 1 = (e^a - 1) cos b - 2 sin^2(b / 2)."""
    a, b = z
    cos = trig.cosine(b)
    half = trig.sine(b * 0.5)
    real = exp.exponential_minus_one(a) * cos - 2.0 * (half * half)
    _, imaginary = exponential(z)
    imaginary = where(_not_finite(b), b - b, imaginary)
    return where(b.eq(0.0), exp.exponential_minus_one(a), real), imaginary


def _half_log_near_one(one: Vector, terms: Sequence[Vector]) -> Vector:
    """log1p(one + sum of squares of `terms` with their rounding errors) / 2."""
    total, lost = one, one.like(0.0)
    for t in terms:
        square = t * t
        following = total + square
        back = following - total
        lost = lost + ((total - (following - back)) + (square - back)) + exact_fma(t, t, -square)
        total = following
    return log.logarithm_plus_one(total + lost) * 0.5


def logarithm(z: Pair) -> Pair:
    """log|z| + i arg z; near |z| = 1 by the exact |z|^2 - 1."""
    a, b = z[0].fabs(), z[1].fabs()
    swap = b.gt(a)
    large, small = where(swap, b, a), where(swap, a, b)
    square = large * large
    lost = exact_fma(large, large, -square)
    other = small * small
    base = square - 1.0
    total = base + other
    rest = (other - (total - base)) + (lost + exact_fma(small, small, -other))
    near = log.logarithm_plus_one(total + rest) * 0.5
    whole = fma(large, large, other)
    use = whole.gt(0.5) & whole.lt(2.0)
    a, b, back = _scaled(z)
    size = where(a.eq(INFINITY) | b.eq(INFINITY), INFINITY, fma(a, a, b * b).sqrt())
    more = where(back.lt(1.0), a.like(-600 * hyperbolic.LN2), where(back.gt(1.0), a.like(600 * hyperbolic.LN2), 0.0))
    return where(use, near, log.logarithm(size) + more), inverse.atan2(z[1], z[0])


def logarithm_plus_one(z: Pair) -> Pair:
    """Near 0 by |1 + z|^2 - 1 = 2 a + a^2 + b^2."""
    a, b = z
    near = _half_log_near_one(a + a, [a, b])
    shifted = a + 1.0
    use = a.fabs().lt(0.5) & b.fabs().lt(0.5)
    real, _ = logarithm((shifted, b))
    return where(use, near, real), inverse.atan2(b, shifted)


def square_root(z: Pair) -> Pair:
    """The root with real part >= 0; scaled so that |z| neither overflows nor loses bits."""
    a, b = z
    size = where(a.fabs().gt(b.fabs()), a.fabs(), b.fabs())
    huge, tiny = size.gt(2.0**1000), size.lt(2.0**-1000)
    scale = where(huge, a.like(2.0**-4), where(tiny, a.like(2.0**100), 1.0))
    back = where(huge, a.like(4.0), where(tiny, a.like(2.0**-50), 1.0))
    c, d = a * scale, b * scale
    t = ((c.fabs() + magnitude((c, d))) * 0.5).sqrt()
    other = where(t.eq(0.0), d, d / (t + t))
    negative = a.lt(0.0)
    real = where(negative, other.fabs(), t) * back
    imaginary = where(negative, t.copysign(b), other) * back
    infinite = b.fabs().eq(INFINITY)
    positive = a.eq(INFINITY) & (infinite ^ 1)
    real = where(infinite, INFINITY, where(positive, a, real))
    flat = where(b.isnan(), b, b.like(0.0).copysign(b))
    imaginary = where(infinite, b, where(positive, flat, imaginary))
    below = a.eq(-INFINITY) & b.fabs().lt(INFINITY)
    return where(below, 0.0, real), where(below, a.fabs().copysign(b), imaginary)


def reciprocal_root(z: Pair) -> Pair:
    return divide((z[0].like(1.0), z[0].like(0.0)), square_root(z))


def sine(z: Pair) -> Pair:
    a, b = z
    cos, sin = _cis(a)
    real, imaginary = sin * hyperbolic.cosh(b), cos * hyperbolic.sinh(b)
    not_finite = _not_finite(a)
    imaginary = where(not_finite & b.fabs().eq(INFINITY), INFINITY, imaginary)
    imaginary = where(not_finite & b.eq(0.0), signed_zero(b), imaginary)
    return where(a.eq(0.0), signed_zero(a), real), imaginary


def cosine(z: Pair) -> Pair:
    a, b = z
    cos, sin = _cis(a)
    flat = a * b.like(1.0).copysign(b)  # for a = 0, where b may be infinite
    not_finite = _not_finite(a)
    real = where(not_finite & b.fabs().eq(INFINITY), INFINITY, cos * hyperbolic.cosh(b))
    imaginary = -where(a.eq(0.0), flat, sin * hyperbolic.sinh(b))
    return real, where(not_finite & b.eq(0.0), 0.0, imaginary)


def hyperbolic_tangent(z: Pair) -> Pair:
    """Kahan's formula; beyond 22 the real part is 1 and the imaginary part decays as e^-2a."""
    a, b = z
    cos, sin = _cis(b)
    size = a.fabs()
    s = hyperbolic.sinh(a.at_most(22.0).at_least(-22.0))
    root = fma(s, s, 1.0).sqrt()
    # Multiplied by cos^2 b throughout, so that tan b never appears.
    denominator = fma(s, s, cos * cos)
    real, imaginary = root * s / denominator, sin * cos / denominator
    far = size.gt(22.0)
    decay = exp.scaled_exponential(size * -2.0, nonpositive=True)
    angle = where(_not_finite(b) & size.eq(INFINITY), a.like(0.0).copysign(b), sin * cos)
    spoiled = where(size.eq(INFINITY), 0.0, sin * cos * 0.0)  # NaN where the angle is infinite or NaN
    real = where(far, a.like(1.0).copysign(a) + spoiled, real)
    imaginary = where(far, angle * decay * 4.0, imaginary)
    return where(a.eq(0.0), signed_zero(a), real), where(b.eq(0.0), signed_zero(b), imaginary)


def logistic(z: Pair) -> Pair:
    """1 / (1 + e^-z); e^z / (1 + e^z) where e^-z may overflow, and results are tiny."""
    below = z[0].lt(-1.0)
    real, imaginary = exponential((where(below, z[0], -z[0]), where(below, z[1], -z[1])))
    return divide((where(below, real, 1.0), where(below, imaginary, 0.0)), (real + 1.0, imaginary))


def raise_to(z: Pair, w: Pair) -> Pair:
    """|z|^c e^(-d arg z) at angle d log|z| + c arg z; z^0 is 1.

    Of zero there are powers with positive real parts, which are zero; the others are NaN, as NumPy and XLA have it.
    """
    (c, d), size = w, magnitude(z)
    angle = inverse.atan2(z[1], z[0])
    log_size, _ = logarithm(z)
    scale = _product_of(_size_to(z, size, c), d * angle, c, log_size)
    zero = size.eq(0.0)
    cos, sin = _cis(fma(c, angle, d * log_size))
    nothing = c.eq(0.0) & d.eq(0.0)
    of_zero = where(c.gt(0.0), c.like(0.0), c.like(NAN))
    real = where(nothing, 1.0, where(zero, of_zero, scale * cos))
    return real, where(nothing, 0.0, where(zero, of_zero, scale * sin))


def _product_of(power_of_size: Vector, turned: Vector, c: Vector, log_size: Vector) -> Vector:
    """power_of_size e^-turned, where the first is e^(c log_size); by one exponential where a factor leaves the range,
    in which the product may lie."""
    decay = exp.exponential(-turned)
    product = power_of_size * decay
    least = 2.0 ** (1 - exponent_bias(product.element))
    inside = power_of_size.ge(least) & power_of_size.lt(INFINITY) & decay.ge(least) & decay.lt(INFINITY)
    outside = (inside ^ 1) & turned.compare("one", 0.0)

    def together() -> tuple[Vector]:
        return (where(outside, exp.exponential(fma(c, log_size, -turned)), product),)

    (result,) = conditional(any_lane(outside), together, product)
    return result


def _size_to(z: Pair, size: Vector, c: Vector) -> Vector:
    """|z|^c; where |z| is subnormal, and so has lost bits, or too large, from its two factors."""
    plain = power.power(size, c)

    def whole() -> tuple[Vector]:
        a, b, back = _scaled(z)
        product = power.power(fma(a, a, b * b).sqrt(), c) * power.power(back, c)
        return (where(size.lt(2.0**-1022) | size.eq(INFINITY), product, plain),)

    (result,) = conditional(any_lane(size.lt(2.0**-1022) | size.eq(INFINITY)), whole, plain)
    return result


def inverse_sine(z: Pair) -> Pair:
    a, b = z
    under, over = square_root((1.0 - a, -b)), square_root((a + 1.0, b))
    real = inverse.atan2(a, fma(under[0], over[0], -(under[1] * over[1])))
    imaginary = hyperbolic.asinh(fma(under[0], over[1], -(under[1] * over[0])))
    infinite, (c, d) = _infinite(z), _direction(z)
    real = where(infinite, inverse.atan2(c, d.fabs()), where(a.eq(0.0), signed_zero(a), real))
    return real, where(infinite, b.like(INFINITY).copysign(b), imaginary)


def inverse_cosine(z: Pair) -> Pair:
    a, b = z
    under, over = square_root((1.0 - a, -b)), square_root((a + 1.0, b))
    imaginary = hyperbolic.asinh(fma(over[0], under[1], -(over[1] * under[0])))
    real = inverse.atan2(under[0], over[0]) * 2.0
    infinite, (c, d) = _infinite(z), _direction(z)
    real = where(infinite, inverse.atan2(d.fabs(), c), where(a.eq(0.0) & b.isnan(), HALF_PI, real))
    return real, where(infinite, -b.like(INFINITY).copysign(b), imaginary)


def inverse_hyperbolic_cosine(z: Pair) -> Pair:
    a, b = z
    under, over = square_root((a - 1.0, b)), square_root((a + 1.0, b))
    real = hyperbolic.asinh(fma(under[0], over[0], under[1] * over[1]))
    imaginary = inverse.atan2(under[1], over[0]) * 2.0
    infinite, (c, d) = _infinite(z), _direction(z)
    imaginary = where(infinite, inverse.atan2(d, c), where(a.eq(0.0) & b.isnan(), HALF_PI, imaginary))
    return where(infinite, INFINITY, real), imaginary


def inverse_hyperbolic_tangent(z: Pair) -> Pair:
    a, b = z
    size, square = a.fabs(), b * b
    below = 1.0 - size
    pole = below.eq(0.0) & b.fabs().lt(2.0**-300)  # there it is log(2 / |b|) / 2, and the square vanishes
    ratio = where(pole, 2.0**-99, size * 4.0) / where(pole, b.fabs(), fma(below, below, square))
    doubled = log.logarithm_plus_one(ratio)
    real = where(pole, fma(doubled, 0.5, 50 * hyperbolic.LN2), doubled * 0.25)
    imaginary = inverse.atan2(b + b, fma(below, size + 1.0, -square)) * 0.5
    far = size.gt(2.0**500) | b.fabs().gt(2.0**500)  # there it is 1 / z, and a quarter turn
    real = where(far, divide((a.like(1.0), a.like(0.0)), z)[0].fabs(), where(a.eq(0.0), 0.0, real))
    imaginary = where(far & (b.isnan() ^ 1), a.like(HALF_PI).copysign(b), imaginary)
    return real.copysign(a), imaginary


def angle(y: Pair, x: Pair) -> Pair:
    """atan2 continued to complex arguments: -i log((x + i y) / sqrt(x^2 + y^2))."""
    squares = multiply(x, x), multiply(y, y)
    root = square_root((squares[0][0] + squares[1][0], squares[0][1] + squares[1][1]))
    real, imaginary = logarithm(divide((x[0] - y[1], x[1] + y[0]), root))
    return imaginary, -real


Body = Callable[..., Pair]


def _turned(body: Body) -> Body:
    """-i f(i z): of sin that is sinh, of tanh tan."""

    def turned(z: Pair) -> Pair:
        real, imaginary = body((-z[1], z[0]))
        return imaginary, -real

    return turned


_EXACT: dict[str, Body] = {
    "add": lambda z, w: (z[0] + w[0], z[1] + w[1]),
    "multiply": multiply,
    "negate": lambda z: (-z[0], -z[1]),
    "subtract": lambda z, w: (z[0] - w[0], z[1] - w[1]),
}
_SHORT: dict[str, Body] = {"divide": divide, "sign": sign}
_LONG: dict[str, Body] = {
    "acos": inverse_cosine,
    "acosh": inverse_hyperbolic_cosine,
    "asin": inverse_sine,
    "asinh": _turned(inverse_sine),
    "atan2": angle,
    "atanh": inverse_hyperbolic_tangent,
    "cosh": lambda z: cosine((-z[1], z[0])),
    "cosine": cosine,
    "exponential": exponential,
    "exponential-minus-one": exponential_minus_one,
    "log": logarithm,
    "log-plus-one": logarithm_plus_one,
    "logistic": logistic,
    "power": raise_to,
    "rsqrt": reciprocal_root,
    "sine": sine,
    "sinh": _turned(sine),
    "sqrt": square_root,
    "tan": _turned(hyperbolic_tangent),
    "tanh": hyperbolic_tangent,
}
