"""Special functions: of the gamma function's family, of the error function's, of Bessel, and of integers.

All are computed in f64 and rounded once, so that one formula serves every type.  They are made of series whose terms
fall quickly, not of fitted tables, but for the error function's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

from hlotool.ir import Instruction
from hlotool.ir.shape import array
from hlotool.torch.lowering import Context, Value, lowering
from hlotool.torch.ops.pieces import element, is_complex, is_float
from hlotool.torch.ops.term import Term, polynomial, repeat_while
from hlotool.torch.refusal import Refused

__all__: list[str] = []

INF, NAN = math.inf, math.nan
_EPSILON = 2.0**-53


def _narrower(formula: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """For functions that PyTorch itself has to seven digits only."""

    def checked(x: Term) -> Term:
        if x.c.type == "f64":
            raise Refused("PyTorch computes f64 to seven digits, this would be others")
        return formula(x)

    return checked


def _wide(c: Context, value: Value) -> Term:
    """An argument as f64 of the result's dimensions, after it was rounded to the result's type."""
    if is_complex(c.type):
        raise Refused("a special function of complex numbers")
    return Term(c, c.convert(c.tensor(value, c.type, c.dimensions), "f64"))


def _function(*names: str) -> Callable[[Callable[[Term], Term]], Callable[[Term], Term]]:
    """A function of one number."""

    def enter(formula: Callable[[Term], Term]) -> Callable[[Term], Term]:
        @lowering(*(f"aten.{name}.default" for name in names))
        def lower(c: Context, **given: Instruction) -> Instruction:
            (value,) = given.values()  # self or x
            return c.convert(formula(_wide(c, value)).value, c.type)

        return formula

    return enter


def _function_of_two(*names: str) -> Callable[[Callable[[Term, Term], Term]], Callable[[Term, Term], Term]]:
    """A function of two numbers, by all overloads."""

    def enter(formula: Callable[[Term, Term], Term]) -> Callable[[Term, Term], Term]:
        @lowering(*(f"aten.{name}" for name in names))
        def lower(c: Context, self: Value, other: Value) -> Instruction:
            return c.convert(formula(_wide(c, self), _wide(c, other)).value, c.type)

        return formula

    return enter


# ---- the gamma function: recurrence up to 10, from there Stirling's series


def _bernoulli(count: int) -> list[Fraction]:
    """B_0, B_1... (Akiyama and Tanigawa)."""
    row: list[Fraction] = []
    found = []
    for n in range(count):
        row.append(Fraction(1, n + 1))
        for k in range(n, 0, -1):
            row[k - 1] = k * (row[k - 1] - row[k])
        found.append(row[0])
    return found


_BERNOULLI = _bernoulli(26)
_EVEN = [_BERNOULLI[n] for n in range(2, 26, 2)]
_SHIFT = 10


def _log_gamma_above_zero(x: Term) -> Term:
    factor = x * 0 + 1
    for _ in range(_SHIFT):
        below = x < _SHIFT
        factor = factor.put(below, factor * x)
        x = x.put(below, x + 1)
    series = [float(b / (2 * n * (2 * n - 1))) for n, b in enumerate(_EVEN[:8], 1)]
    inverse = 1 / x
    rest = polynomial(inverse * inverse, series[::-1]) * inverse
    found = (x - 0.5) * x.log() - x + (0.5 * math.log(2 * math.pi)) + rest - factor.log()
    return found.put(x.equals(INF), INF)


def _sine_of_pi(x: Term) -> Term:
    """|sin(pi x)|, exactly zero at integers."""
    return (abs(x - x.call("round-nearest-even")) * math.pi).call("sine")


@_function("lgamma", "special_gammaln")
def log_gamma(x: Term) -> Term:
    """By reflection below one half."""
    low = x < 0.5
    found = _log_gamma_above_zero(x.put(low, 1 - x))
    mirrored = (math.pi / _sine_of_pi(x)).log() - found
    return found.put(low, mirrored).put(abs(x).equals(INF), INF)


@_function("digamma", "special_psi", "special_digamma")
def digamma(x: Term) -> Term:
    low = x < 0
    y, found = x.put(low, 1 - x), x * 0
    for _ in range(_SHIFT):
        below = y < _SHIFT
        found = found.put(below, found - 1 / y)
        y = y.put(below, y + 1)
    series = [float(-b / (2 * n)) for n, b in enumerate(_EVEN[:9], 1)]
    inverse = 1 / y
    square = inverse * inverse
    found = found + y.log() - 0.5 * inverse + polynomial(square, series[::-1]) * square
    rest = x - (x.put(low, -((-x).floor())))  # towards zero
    mirrored = found - math.pi / (rest * math.pi).call("tan")
    found = found.put(low, mirrored.put(rest.equals(0), NAN))
    found = found.put(x.equals(0), -1 / x)  # the sign of zero counts
    return found.put(x.equals(INF), INF).put(x.equals(-INF), NAN)


def _zeta(s: Term, q: Term) -> Term:
    """Hurwitz's zeta function, the sum of (q + n)^-s, by Euler and Maclaurin."""
    alone = (s > 1) & ((q > 0) | (q.floor() < q))
    left = q.put(~alone, 1)

    def goes_on(state: Sequence[Term]) -> Term:
        _, at, _ = state
        return (at <= 9) & (at + 1 > at)

    def step(state: Sequence[Term]) -> Sequence[Term]:
        total, at, power = state
        on = goes_on(state)
        return total.put(on, total + at ** (-power)), at.put(on, at + 1), power

    total, at, _ = repeat_while([left * 0, left, s], goes_on, step)
    first = at ** (-s)
    found = total + first * at / (s - 1) + 0.5 * first
    rising, power = s, first / at
    for n, b in enumerate(_EVEN, 1):
        term = (rising * power).put(power.equals(0), 0) * float(b / math.factorial(2 * n))
        found = found + term
        rising, power = rising * (s + (2 * n - 1)) * (s + 2 * n), power / at / at
    found = found.put((q <= 0) & (s.floor() < s), NAN)
    found = found.put((q <= 0) & q.equals(q.floor()), INF)
    found = found.put(s.equals(1), INF).put(s < 1, NAN)
    return found.put(s.is_nan() | q.is_nan(), NAN)


_function_of_two("special_zeta.default", "special_zeta.self_scalar", "special_zeta.other_scalar")(_zeta)


@lowering("aten.polygamma.default")
def polygamma(c: Context, n: int, self: Instruction) -> Instruction:
    """Derivatives of digamma: the second and higher ones by zeta."""
    if n == 1:
        return c.convert(_trigamma(Term(c, c.computed(c.convert(self, c.type)))).value, c.type)
    x = _wide(c, self)
    found = digamma(x) if n == 0 else _zeta(x * 0 + (n + 1), x) * float((-1) ** (n + 1) * math.factorial(n))
    return c.convert(found.value, c.type)


def _trigamma(x: Term) -> Term:
    """As short a series as PyTorch's, and in the same type: f64 has 9 digits, and poles are but large."""
    low = x < 0.5
    sine = (x * math.pi).call("sine")
    y, found = x.put(low, 1 - x), x * 0
    for _ in range(6):
        found = found + 1 / (y * y)
        y = y + 1
    square = 1 / (y * y)
    series = [float(b) for b in _EVEN[:3]]
    found = found + (1 + 1 / (2 * y) + polynomial(square, series[::-1]) * square) / y
    return found.put(low, math.pi * math.pi / (sine * sine) - found)


def _incomplete(a: Term, x: Term) -> tuple[Term, Term]:
    """The regularised incomplete gamma functions P and Q: a series where x is small, else a continued fraction.

    Abramowitz and Stegun 6.5.29 and 6.5.31, the latter evaluated after Lentz.
    """
    inside = (a > 0) & (x > 0) & (a < INF) & (x < INF)
    by_series = (x <= 1) | (x <= a)
    scale = (a * x.log() - x - _log_gamma_above_zero((a + 1).put(~inside, 1))).exp()

    def series_goes_on(state: Sequence[Term]) -> Term:
        total, term, *_ = state
        return abs(term) > abs(total) * _EPSILON

    def series_step(state: Sequence[Term]) -> Sequence[Term]:
        total, term, at, y = state
        on = series_goes_on(state)
        following = term * y / at
        return total.put(on, total + following), term.put(on, following), at + 1, y

    own = inside & by_series
    one = a * 0 + 1
    u, v = (a + 1).put(~own, 2), x.put(~own, 0)
    total, *_ = repeat_while([one.put(~own, 1), one.put(~own, 1), u, v], series_goes_on, series_step)
    lower = scale * total

    def fraction_goes_on(state: Sequence[Term]) -> Term:
        return abs(state[4] - 1) > 4 * _EPSILON

    def fraction_step(state: Sequence[Term]) -> Sequence[Term]:
        value, below, above, number, _, b, p = state
        on = fraction_goes_on(state)
        top = -number * (number - p)
        own_b = b + 2
        inverse = 1 / (top * below + own_b)
        ratio = own_b + top / above
        change = inverse * ratio
        return (
            value.put(on, value * change), below.put(on, inverse), above.put(on, ratio), number + 1,
            state[4].put(on, change), own_b, p,
        )  # fmt: skip

    other = inside & ~by_series
    p, y = a.put(~other, 1), x.put(~other, 3)
    b = y + 1 - p
    start = [1 / b, 1 / b, one.put(~other, 1) * 1e300, one.put(~other, 1), one.put(~other, 1) * 2, b, p]
    value, *_ = repeat_while(start, fraction_goes_on, fraction_step)
    upper = scale * a * value
    p, q = lower.put(~by_series, 1 - upper), upper.put(by_series, 1 - lower)
    for zero, condition in ((True, x.equals(0)), (False, a.equals(0)), (True, a.equals(INF)), (False, x.equals(INF))):
        edge = condition & ~(a.equals(0) & x.equals(0)) & ~(a.equals(INF) & x.equals(INF))
        p, q = p.put(edge, 0 if zero else 1), q.put(edge, 1 if zero else 0)
    wrong = (a < 0) | (x < 0) | a.is_nan() | x.is_nan()
    wrong = wrong | (a.equals(0) & x.equals(0)) | (a.equals(INF) & x.equals(INF))
    return p.put(wrong, NAN), q.put(wrong, NAN)


_function_of_two("igamma.default", "special_gammainc.default")(lambda a, x: _incomplete(a, x)[0])
_function_of_two("igammac.default", "special_gammaincc.default")(lambda a, x: _incomplete(a, x)[1])


# ---- the error function

# (1 + 2 x) exp(x^2) erfc(x) for x >= 0 in Chebyshev's polynomials of (x - 3.75) / (x + 3.75): the form of M. Shepherd
# and J. Laframboise, Mathematics of Computation 36 (1981), computed anew with 40 digits.
_ERFC = (
    1.17757893456740175, -0.00459005458064647733, -0.0842491333665179156, 0.0592099399981918905,
    -0.0266586684353057523, 0.00907499767070526509, -0.00241316354041760819, 0.000490775836525808632,
    -0.0000691697330250120637, 4.13902798607301017e-6, 7.74038306619849067e-7, -2.18864010492343957e-7,
    1.07649994656709104e-8, 4.5219598112182869e-9, -7.75440020883135111e-10, -6.31808834088668449e-11,
    2.8687950109306699e-11, 1.94558685457773472e-13, -9.65469674843343891e-13, 3.25254814814873984e-14,
    3.34781194828680539e-14, -1.8645628804193131e-15, -1.25079505306886471e-15, 7.41823525662404345e-17,
    5.0681489047961113e-17,
)  # fmt: skip


def _scaled_above_zero(x: Term) -> Term:
    """exp(x^2) erfc(x) for x >= 0 (Clenshaw's recurrence)."""
    at = 1 - 7.5 / (x + 3.75)
    last, found = x * 0, x * 0
    for one in _ERFC[:0:-1]:
        last, found = found, 2 * at * found - last + one
    made = (at * found - last + _ERFC[0]) / (1 + 2 * x)
    return made.put(x.equals(INF), 0)


@_function("special_erfcx")
def scaled_complement(x: Term) -> Term:
    found, square = _scaled_above_zero(abs(x)), x * x
    return found.put(x < 0, 2 * square.exp() - found)


@_function("erfc", "special_erfc")
def error_complement(x: Term) -> Term:
    size = abs(x)
    found = _scaled_above_zero(size) * (-(size * size)).exp()
    return found.put(x < 0, 2 - found).put(x.is_nan(), x)


def _inverse(x: Term, q: Term) -> Term:
    """y >= 0 with erf(y) = x and erfc(y) = q: of x >= 0 and q, whose sum is one, the smaller one counts.

    From Hastings' approximation (Abramowitz and Stegun 26.2.23) by Halley's steps.
    """
    t = (-2 * (q * 0.5).log()).sqrt()
    y = (t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481))) * math.sqrt(0.5)
    for _ in range(3):
        bell = (-(y * y)).exp()
        off = (x - y.call("erf")).put(x > 0.5, _scaled_above_zero(y.maximum(0)) * bell - q)
        change = off / (bell * (2 / math.sqrt(math.pi)))
        y = y + change / (1 - change * y)
    return y.put(q.equals(0), INF).put(x.equals(0), 0)


@_function("erfinv", "special_erfinv")
def inverse_error(x: Term) -> Term:
    size = abs(x)
    found = _inverse(size, 1 - size)
    return found.put(x < 0, -found).put(x.equals(0), x).put((size > 1) | x.is_nan(), NAN)


@_function("special_ndtri")
def normal_quantile(p: Term) -> Term:
    nearer = p.minimum(1 - p)
    found = _inverse(1 - 2 * nearer, 2 * nearer) * math.sqrt(2)
    return found.put(p < 0.5, -found).put((p < 0) | (p > 1) | p.is_nan(), NAN)


# ---- Bessel's functions: power series, and for large arguments Hankel's series

_LARGE_MODIFIED, _LARGE = 20.0, 12.5
_POWERS, _HANKEL = 44, 24


def _power_series(order: int, t: Term, sign: int) -> Term:
    """The sum of (sign t)^k / (k! (k + order)!) for order 0 or 1."""
    return polynomial(
        t * sign, [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_POWERS, -1, -1)]
    )


def _hankel(order: int, count: int) -> list[float]:
    """a_k(order), Abramowitz and Stegun 9.2: products of (4 order^2 - (2 j - 1)^2) / (8 j)."""
    found = [Fraction(1)]
    for k in range(1, count):
        found.append(found[-1] * Fraction(4 * order * order - (2 * k - 1) ** 2, 8 * k))
    return [float(one) for one in found]


def _modified(x: Term, order: int, scaled: bool) -> Term:
    """I_0 and I_1, or with `scaled` these times exp(-|x|)."""
    size = abs(x)
    large = size > _LARGE_MODIFIED
    near, far = size.minimum(_LARGE_MODIFIED), size.maximum(_LARGE_MODIFIED)
    half = near * 0.5
    small = _power_series(order, half * half, 1) * (half if order else 1)
    terms = [a * (-1) ** k for k, a in enumerate(_hankel(order, _HANKEL))]
    tail = polynomial(1 / far, terms[::-1]) / (far * (2 * math.pi)).sqrt()
    if scaled:
        found = (small * (-near).exp()).put(large, tail)
    else:
        half_raised = (far * 0.5).exp()  # in two steps: the power alone is too large before the product is
        found = small.put(large, tail * half_raised * half_raised)
    return found.put(x < 0, -found) if order else found


_function("i0", "special_i0")(lambda x: _modified(x, 0, False))
_function("special_i0e")(lambda x: _modified(x, 0, True))
_function("special_i1")(lambda x: _modified(x, 1, False))
_function("special_i1e")(lambda x: _modified(x, 1, True))
_function("special_modified_bessel_i0")(lambda x: _modified(x, 0, False))
_function("special_modified_bessel_i1")(lambda x: _modified(x, 1, False))


def _waves(far: Term, order: int) -> tuple[Term, Term]:
    """J and Y of large arguments, Abramowitz and Stegun 9.2.5 and 9.2.6."""
    terms = _hankel(order, _HANKEL)
    inverse = 1 / far
    square = inverse * inverse
    even = polynomial(square, [terms[k] * (-1) ** (k // 2) for k in range(_HANKEL - 2, -1, -2)])
    odd = polynomial(square, [terms[k] * (-1) ** (k // 2) for k in range(_HANKEL - 1, 0, -2)]) * inverse
    angle = far - (order * 0.5 + 0.25) * math.pi
    sine, cosine = angle.call("sine"), angle.call("cosine")
    size = (2 / (math.pi * far)).sqrt()
    return size * (even * cosine - odd * sine), size * (even * sine + odd * cosine)


def _first_kind(x: Term, order: int) -> Term:
    size = abs(x)
    half = size.minimum(_LARGE) * 0.5
    found = _power_series(order, half * half, -1) * (half if order else 1)
    found = found.put(size > _LARGE, _waves(size.maximum(_LARGE), order)[0]).put(size.equals(INF), 0)
    return found.put(x < 0, -found) if order else found


_function("special_bessel_j0")(_narrower(lambda x: _first_kind(x, 0)))
_function("special_bessel_j1")(_narrower(lambda x: _first_kind(x, 1)))


def _second_kind(x: Term, order: int) -> Term:
    """Y: Abramowitz and Stegun 9.1.11 and 9.1.13."""
    near = x.minimum(_LARGE).maximum(0)
    half = near * 0.5
    square = half * half
    steps = [sum((Fraction(1, j) for j in range(1, k + 1)), Fraction(0)) for k in range(_POWERS + 2)]
    if order == 0:
        weights = [float(steps[k] / math.factorial(k) ** 2) for k in range(_POWERS, -1, -1)]
        inner = (half.log() + 0.57721566490153286) * _power_series(0, square, -1)
        found = (inner - polynomial(-square, weights)) * (2 / math.pi)
    else:
        euler = Fraction(0.57721566490153286)
        weights = [
            float((steps[k] + steps[k + 1] - 2 * euler) / (math.factorial(k) * math.factorial(k + 1)))
            for k in range(_POWERS, -1, -1)
        ]
        logs = half.log() * half * _power_series(1, square, -1) * (2 / math.pi)
        found = logs - 1 / (half * math.pi) - half * polynomial(-square, weights) * (1 / math.pi)
    found = found.put(x > _LARGE, _waves(x.maximum(_LARGE), order)[1])
    return found.put(x.equals(0), -INF).put((x < 0) | x.is_nan(), NAN)


_function("special_bessel_y0")(_narrower(lambda x: _second_kind(x, 0)))
_function("special_bessel_y1")(_narrower(lambda x: _second_kind(x, 1)))


_NEAR_MODIFIED, _STEP, _STEPS = 2.0, 0.25, 20


def _modified_second(x: Term, order: int, scaled: bool) -> Term:
    """K_0 and K_1, or with `scaled` these times exp(x): series (Abramowitz and Stegun 9.6.11 and 9.6.13), and from 2 on
    the integral 9.6.24, which the trapezoidal rule gives to all digits."""
    near, far = x.minimum(_NEAR_MODIFIED).maximum(0), x.maximum(_NEAR_MODIFIED)
    half = near * 0.5
    square = half * half
    euler = Fraction(0.57721566490153286)
    psi = [sum((Fraction(1, j) for j in range(1, k + 1)), -euler) for k in range(_POWERS + 2)]
    weights = [
        float((psi[k] + psi[k + order]) / 2 / (math.factorial(k) * math.factorial(k + order)))
        for k in range(_POWERS, -1, -1)
    ]
    series = polynomial(square, weights) - half.log() * _power_series(order, square, 1)
    found = 1 / near - half * series if order else series
    total = x * 0 + 0.5
    for n in range(1, _STEPS):
        total = total + (far * (1 - math.cosh(n * _STEP))).exp() * math.cosh(order * n * _STEP)
    integral = total * _STEP
    found = found * near.exp() if scaled else found
    integral = integral if scaled else integral * (-far).exp()
    found = found.put(x > _NEAR_MODIFIED, integral)
    return found.put(x.equals(0), INF).put((x < 0) | x.is_nan(), NAN)


for _order in (0, 1):
    _function(f"special_modified_bessel_k{_order}")(partial(_modified_second, order=_order, scaled=False))
    _function(f"special_scaled_modified_bessel_k{_order}")(partial(_modified_second, order=_order, scaled=True))


@_function("special_spherical_bessel_j0")
def spherical(x: Term) -> Term:
    return (x.call("sine") / x).put(abs(x) < 1e-8, 1).put(abs(x).equals(INF), 0)


# ---- integers


def _divisor(a: Term, b: Term) -> Term:
    """Euclid's greatest common divisor."""

    def goes_on(state: Sequence[Term]) -> Term:
        return abs(state[1]) > 0

    def step(state: Sequence[Term]) -> Sequence[Term]:
        first, second = state
        on = goes_on(state)
        return first.put(on, second), second.put(on, first % second.put(~on, 1))

    return repeat_while([a, b], goes_on, step)[0]


def _size(c: Context, value: Value) -> Term:
    """The size of an integer in 64 bits, unless that is what it has."""
    if is_float(c.type) or is_complex(c.type):
        raise Refused(f"common divisors of {c.type}")
    own = Term(c, c.convert(c.tensor(value, c.type, c.dimensions), "u64" if c.type == "u64" else "s64"))
    return own if c.type.startswith("u") else abs(own)


@lowering("aten.gcd.default")
def gcd(c: Context, self: Instruction, other: Instruction) -> Instruction:
    return c.convert(_positive_rest(_divisor(_size(c, self), _size(c, other))).value, c.type)


def _positive_rest(a: Term) -> Term:
    return a if element(a.value) == "u64" else abs(a)


@lowering("aten.lcm.default")
def lcm(c: Context, self: Instruction, other: Instruction) -> Instruction:
    a, b = _size(c, self), _size(c, other)
    common = _divisor(a, b)
    none = common.equals(0)
    return c.convert(_positive_rest((a / common.put(none, 1) * b).put(none, 0)).value, c.type)


# ---- the bits of floats

_BITS = {"f64": ("s64", 52, 1022), "f32": ("s32", 23, 126), "f16": ("s16", 10, 14), "bf16": ("s16", 7, 126)}


@lowering("aten.nextafter.default")
def nextafter(c: Context, self: Instruction, other: Instruction) -> Instruction:
    """The next of the numbers, which are as many steps from zero as their bits say."""
    if c.type not in _BITS:
        raise Refused(f"the next number of {c.type}")
    kind = _BITS[c.type][0]
    b = c.builder
    x, y = (Term(c, c.tensor(v, c.type, c.dimensions)) for v in (self, other))
    bits = Term(c, b.bitcast_convert(x.value, array(kind, c.dimensions)))
    away = (y > x).where(x > 0, y < x)
    moved = (bits + 1).put(~away, bits - 1)
    least = Term(c, b.bitcast_convert((bits * 0 + 1).value, array(c.type, c.dimensions)))
    found = Term(c, b.bitcast_convert(moved.value, array(c.type, c.dimensions)))
    found = found.put(x.equals(0), least.put(y < 0, -least)).put(x.equals(y), y)
    return found.put(x.is_nan() | y.is_nan(), NAN).value


@lowering("aten.frexp.Tensor")
def frexp(c: Context, self: Instruction) -> tuple[Instruction, Instruction]:
    """A mantissa in [0.5, 1) and a power of two."""
    if not is_float(c.type) or c.type not in _BITS:
        raise Refused(f"mantissas of {c.type}")
    b = c.builder
    x = Term(c, c.computed(self))
    own = element(x.value)
    kind, bits, bias = _BITS[own]
    tiny = abs(x) < 2.0 ** (1 - bias - 1)
    scaled = x.put(tiny, x * 2.0**bits)
    word = Term(c, b.bitcast_convert(scaled.value, array(kind, c.dimensions)))
    mask = (1 << (62 if kind == "s64" else 30)) * 2 - (1 << bits)  # the exponent's bits
    power = Term(c, b.binary("shift-right-logical", (word & mask).value, c.like(bits, word.value))) - bias
    power = power.put(tiny, power - bits)
    mantissa = Term(
        c, b.bitcast_convert(((word & ~mask) | (bias << bits)).value, array(own, c.dimensions))
    )
    plain = x.equals(0) | ~(abs(x) < INF)
    return (
        c.convert(mantissa.put(plain, x).value, c.type),
        c.convert(power.put(plain, 0).value, "s32"),
    )
