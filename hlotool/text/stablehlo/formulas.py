"""Functions of CHLO as formulas of HLO's operations, in the order of operations in which XLA expands them.

Algorithms: Lanczos' approximation of the gamma function (g = 7, nine terms) with its reflection; the sum of Euler and
Maclaurin for Hurwitz' zeta function (Cephes); Giles' polynomials for the inverse of erf ("Approximating the erfinv
function"); Chebyshev series and rational functions of Cephes for ``bessel_i1e`` and ``erfc``.  Halves are computed as
f32 where XLA does so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, nan, pi

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, dtype_of
from hlotool.ir.builder import Builder
from hlotool.text.stablehlo.coefficients import (
    ERF_INV_32,
    ERF_INV_64,
    ERFC_32,
    ERFC_64,
    I1E_32,
    I1E_64,
    LANCZOS,
    ZETA,
)
from hlotool.text.stablehlo.scope import Refusal

__all__ = ["FORMULAS"]


class Term:
    """An instruction in a formula; numbers stand for arrays of them."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Instruction) -> None:
        self.builder = builder
        self.value = value

    @property
    def kind(self) -> str:
        return self.value.shape.element_type

    def number(self, value: float | int) -> Term:
        """`value` in every element of an array like this one."""
        shape = self.value.shape
        row = np.asarray(value).astype(dtype_of(shape.element_type))
        single = self.builder.constant(row, shape.element_type)
        return Term(self.builder, single if not shape.rank else self.builder.broadcast(single, (), shape))

    def _other(self, other: Term | float) -> Instruction:
        return other.value if isinstance(other, Term) else self.number(other).value

    def _binary(self, opcode: str, other: Term | float) -> Term:
        return Term(self.builder, self.builder.binary(opcode, self.value, self._other(other)))

    def unary(self, opcode: str) -> Term:
        return Term(self.builder, self.builder.unary(opcode, self.value))

    def __add__(self, other: Term | float) -> Term:
        return self._binary("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self._binary("subtract", other)

    def __rsub__(self, other: float) -> Term:
        return self.number(other) - self

    def __mul__(self, other: Term | float) -> Term:
        return self._binary("multiply", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._binary("divide", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.number(other) / self

    def __neg__(self) -> Term:
        return self.unary("negate")

    def __abs__(self) -> Term:
        return self.unary("abs")

    def is_(self, direction: str, other: Term | float) -> Term:
        """A comparison."""
        return Term(self.builder, self.builder.compare(self.value, self._other(other), direction))

    def and_(self, other: Term) -> Term:
        return self._binary("and", other)

    def or_(self, other: Term) -> Term:
        return self._binary("or", other)

    def choose(self, true: Term | float, false: Term | float) -> Term:
        """This chooses between two."""
        like = true if isinstance(true, Term) else false
        assert isinstance(like, Term)
        both = [one if isinstance(one, Term) else like.number(one) for one in (true, false)]
        return Term(self.builder, self.builder.select(self.value, both[0].value, both[1].value))


Formula = Callable[..., Term]


def _plain(formula: Formula, opcode: str = "", wide: bool = False) -> Callable[..., Instruction]:
    """A formula for floats; complex numbers have the `opcode`.  With `wide`, halves are computed as f32."""

    def build(builder: Builder, *operands: Instruction) -> Instruction:
        kind = operands[0].shape.element_type
        row = ELEMENT_TYPES[kind]
        if row.kind == "complex" and opcode:
            return builder.add(opcode, None, operands)
        if row.kind != "float":
            raise Refusal(f"{opcode or 'this function'} works on floats, not on {kind}")
        narrow = row.bits < 32 and (wide or row.bits < 16)
        given = [builder.convert(one, "f32") if narrow else one for one in operands]
        made = formula(*(Term(builder, one) for one in given)).value
        return builder.convert(made, kind) if narrow and made.shape.element_type == "f32" else made

    return build


def _largest(term: Term) -> float:
    from ml_dtypes import finfo

    return float(finfo(dtype_of(term.kind)).max)  # type: ignore[no-untyped-call]


def _horner(x: Term, coefficients: Sequence[float]) -> Term:
    """A polynomial, the highest power first."""
    total = x * coefficients[0] + coefficients[1] if len(coefficients) > 1 else x.number(coefficients[0])
    for one in coefficients[2:]:
        total = total * x + one
    return total


# ---- hyperbolic and inverse functions


def _sinh(x: Term) -> Term:
    minus_one = x.unary("exponential-minus-one")
    small = (minus_one + minus_one / (minus_one + 1)) * 0.5
    half = x.number(log(0.5))
    large = (x + half).unary("exponential") - (half - x).unary("exponential")
    return abs(x).is_("LT", 1).choose(small, large)


def _cosh(x: Term) -> Term:
    half = x.number(log(0.5))
    return (x + half).unary("exponential") + (half - x).unary("exponential")


def _asin(x: Term) -> Term:
    root = ((1 - x) * (x + 1)).unary("sqrt") + 1
    angle = x._binary("atan2", root)
    return angle + angle


def _acos(x: Term) -> Term:
    return ((1 - x) * (x + 1)).unary("sqrt")._binary("atan2", x)


def _atan(x: Term) -> Term:
    return x._binary("atan2", 1)


def _asinh(x: Term) -> Term:
    size = abs(x)
    large = size.unary("log") + log(2)
    square = size * size
    small = (size + square / ((square + 1).unary("sqrt") + 1)).unary("log-plus-one")
    return x.unary("sign") * size.is_("GE", float(np.sqrt(_largest(x)))).choose(large, small)


def _acosh(x: Term) -> Term:
    large = x.unary("log") + log(2)
    below, above = (x - 1).unary("sqrt"), (x + 1).unary("sqrt")
    small = (below * (above + below)).unary("log-plus-one")
    return x.is_("GE", _largest(x) / 2).choose(large, small)


def _atanh(x: Term) -> Term:
    inside = (x.unary("log-plus-one") - (-x).unary("log-plus-one")) * 0.5
    return abs(x).is_("GT", 1).choose(nan, inside)


# ---- error functions


def _erf_inv(x: Term) -> Term:
    w = -(x * -x).unary("log-plus-one")
    if x.kind == "f64":
        return abs(x).is_("EQ", 1).choose(x * inf, _erf_inv_64(x, w))
    near = w.is_("LT", 5)
    t = near.choose(w - 2.5, w.unary("sqrt") - 3)
    left: Sequence[float]
    right: Sequence[float]
    left, right = ERF_INV_32
    total = near.choose(t.number(left[0]), t.number(right[0]))
    for a, b in zip(left[1:], right[1:], strict=True):
        total = near.choose(t.number(a), t.number(b)) + total * t
    return abs(x).is_("EQ", 1).choose(x * inf, total * x)


def _erf_inv_64(x: Term, w: Term) -> Term:
    """Three polynomials of different degrees, each stage of which chooses whether it goes on."""
    near, middle = w.is_("LT", 6.25), w.is_("LT", 16)
    t = near.choose(w - 3.125, w.unary("sqrt") - middle.choose(w.number(3.25), w.number(5)))
    first, second, third = ERF_INV_64

    def coefficient(number: int) -> Term:
        chosen = near.choose(t.number(first[number]), t.number(second[number]))
        return middle.choose(chosen, t.number(third[number])) if number < 17 else chosen

    total = coefficient(0)
    for number in range(1, 17):
        total = coefficient(number) + total * t
    for number in (17, 18):
        total = middle.choose(coefficient(number) + total * t, total)
    for number in range(19, len(first)):
        total = near.choose(total * t + first[number], total)
    return total * x


def _erfc(x: Term) -> Term:
    square = x * x
    less = -(x * x)
    size = abs(x)
    if x.kind == "f64":
        top, bottom, p, q, r, s = ERFC_64
        small = 1 - x * _horner(square, top) / _monic(square, bottom)
        power = less.unary("exponential")
        y = size.is_("LT", 8).choose(
            power * _horner(size, p) / _monic(size, q), power * _horner(size, r) / _monic(size, s)
        )
    else:
        around, below, above = ERFC_32
        small = 1 - x * _horner(square, around)
        inverse = 1 / (x * x)
        scaled = less.unary("exponential") * (1 / size)
        y = scaled * size.is_("LT", 2).choose(_horner(inverse, below), _horner(inverse, above))
    y = less.is_("LT", -log(_largest(x))).choose(0.0, y)
    return size.is_("LT", 1).choose(small, x.is_("LT", 0).choose(2 - y, y))


def _monic(x: Term, coefficients: Sequence[float]) -> Term:
    """A polynomial whose highest power has the factor one."""
    total = x + coefficients[0]
    for one in coefficients[1:]:
        total = total * x + one
    return total


# ---- gamma and zeta


def _lgamma(x: Term) -> Term:
    reflected = x.is_("LT", 0.5)
    z = reflected.choose(-x, x - 1)
    total = LANCZOS[1] / (z + 1) + LANCZOS[0]
    for number, one in enumerate(LANCZOS[2:], 2):
        total = total + one / (z + number)
    lifted = (z / 7.5).unary("log-plus-one") + log(7.5)
    own = ((z + 0.5) - (z + 7.5) / lifted) * lifted + log(2 * pi) / 2 + total.unary("log")
    size = abs(x)
    part = size - size.unary("floor")
    part = part.is_("GT", 0.5).choose(1 - part, part)
    sine = (part * pi).unary("sine").unary("log")
    other = Term(x.builder, sine.unary("is-finite").value).choose((log(pi) - sine) - own, -sine)
    return abs(x).is_("EQ", inf).choose(inf, reflected.choose(other, own))


def _digamma(x: Term) -> Term:
    reflected = x.is_("LT", 0.5)
    z = reflected.choose(-x, x - 1)
    top, bottom = z.number(0), z.number(LANCZOS[0])
    for number, one in enumerate(LANCZOS[1:], 1):
        shifted = z + number
        top = top - one / (shifted * shifted)
        bottom = bottom + one / shifted
    own = (z / 7.5).unary("log-plus-one") + log(7.5) + top / bottom - 7.0 / (z + 7.5)
    angle = (x + abs((x + 0.5).unary("floor"))) * pi
    other = own - angle.unary("cosine") * pi / angle.unary("sine")
    pole = x.is_("LE", 0).and_(x.is_("EQ", x.unary("floor")))
    return pole.choose(nan, reflected.choose(other, own))


def _zeta(x: Term, q: Term) -> Term:
    power = -x
    a, total = q, q._binary("power", power)
    for _ in range(9):
        a = a + 1
        total = total + a._binary("power", power)
    a = a + 1
    last = a._binary("power", power)
    whole = total + last * a / (x - 1)
    inverse = 1 / (a * a)
    series = (x + 22) * (x + 21) * (inverse * ZETA[-1])
    for number in range(len(ZETA) - 2, 0, -1):
        series = (x + 2 * number) * (x + (2 * number - 1)) * (inverse * (series + ZETA[number]))
    whole = whole + last * ((x / a) * (series + ZETA[0]) + 0.5)
    tiny = float(np.finfo(dtype_of(x.kind)).smallest_subnormal)
    made = abs(last).is_("LT", abs(total) * tiny).choose(total, whole)
    made = x.is_("LT", 1).choose(nan, made)
    below = q.is_("LE", 0)
    made = below.and_(x.is_("NE", x.unary("floor"))).choose(nan, made)
    even = x.is_("EQ", x.unary("floor")).and_(x._binary("remainder", 2).is_("EQ", 0))
    pole = even.choose(x.number(inf), x.number(nan))
    made = below.and_(q.is_("EQ", q.unary("floor"))).choose(pole, made)
    return x.is_("EQ", 1).choose(inf, made)


def _polygamma(n: Term, x: Term) -> Term:
    above = n + 1
    sign = n._binary("remainder", 2) * 2 - 1
    made = sign * _lgamma(above).unary("exponential") * _zeta(above, x)
    made = n.is_("EQ", 0).choose(_digamma(x), made)
    return n.is_("NE", n.unary("floor")).or_(n.is_("LT", 0)).choose(nan, made)


# ---- Bessel functions


def _chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    first = x * 0 + coefficients[0]
    before, last = first, x * first + coefficients[1]
    older = first
    for one in coefficients[2:]:
        older, before, last = before, last, x * last - before + one
    return (last - older) * 0.5


def _bessel_i1e(x: Term) -> Term:
    near, far = I1E_64 if x.kind == "f64" else I1E_32
    size = abs(x)
    small = size * _chebyshev(size * 0.5 - 2, near)
    large = _chebyshev(32.0 / size - 2, far) / size.unary("sqrt")
    return x.unary("sign") * size.is_("LE", 8).choose(small, large)


# ---- bits, signs and the rest


def _next_after(x: Term, y: Term) -> Term:
    bits = ELEMENT_TYPES[x.kind].bits
    whole = f"s{bits}"
    builder, shape = x.builder, x.value.shape.with_type(whole)

    def raw(one: Term) -> Term:
        return Term(builder, builder.bitcast_convert(one.value, shape))

    a, b = raw(x), raw(y)
    top = -(1 << (bits - 1))
    a_size, b_size = (one._binary("and", ~top) for one in (a, b))
    from_zero = b_size.is_("EQ", 0).choose(b, b._binary("and", top)._binary("or", 1))
    away = a._binary("and", top).is_("NE", b._binary("and", top))
    step = a_size.is_("GT", b_size).or_(away).choose(a.number(-1), a.number(1))
    made = a_size.is_("EQ", 0).choose(from_zero, a + step)
    made = x.is_("EQ", y).choose(b, made)
    missing = x.is_("NE", x).or_(y.is_("NE", y))
    made = missing.choose(raw(x.number(nan)), made)
    return Term(builder, builder.bitcast_convert(made.value, x.value.shape))


def _square(builder: Builder, x: Instruction) -> Instruction:
    if ELEMENT_TYPES[x.shape.element_type].kind != "complex":
        return builder.binary("multiply", x, x)
    real, imag = builder.unary("real", x), builder.unary("imag", x)
    difference, total = builder.binary("subtract", real, imag), builder.binary("add", real, imag)
    twice = builder.binary("multiply", real, imag)
    return builder.binary(
        "complex", builder.binary("multiply", difference, total), builder.binary("add", twice, twice)
    )


def _conj(builder: Builder, x: Instruction) -> Instruction:
    if ELEMENT_TYPES[x.shape.element_type].kind != "complex":
        return x
    return builder.binary("complex", builder.unary("real", x), builder.unary("negate", builder.unary("imag", x)))


def _is_inf(x: Term) -> Term:
    return abs(x).is_("EQ", inf)


def _asin_acos_kernel(builder: Builder, x: Instruction) -> Instruction:
    raise Refusal("asin_acos_kernel is a step inside of compilers", unsupported=True)


FORMULAS: dict[str, tuple[Callable[..., Instruction], int]] = {
    "sinh": (_plain(_sinh, "sinh", wide=True), 1),
    "cosh": (_plain(_cosh, "cosh", wide=True), 1),
    "asin": (_plain(_asin, "asin"), 1),
    "acos": (_plain(_acos, "acos"), 1),
    "atan": (_plain(_atan, "atan2"), 1),
    "asinh": (_plain(_asinh, "asinh"), 1),
    "acosh": (_plain(_acosh, "acosh"), 1),
    "atanh": (_plain(_atanh, "atanh"), 1),
    "erf_inv": (_plain(_erf_inv, wide=True), 1),
    "erfc": (_plain(_erfc, wide=True), 1),
    "lgamma": (_plain(_lgamma, wide=True), 1),
    "digamma": (_plain(_digamma, wide=True), 1),
    "zeta": (_plain(_zeta, wide=True), 2),
    "polygamma": (_plain(_polygamma, wide=True), 2),
    "broadcast_zeta": (_plain(_zeta, wide=True), 2),
    "broadcast_polygamma": (_plain(_polygamma, wide=True), 2),
    "bessel_i1e": (_plain(_bessel_i1e, wide=True), 1),
    "next_after": (_plain(_next_after), 2),
    "broadcast_next_after": (_plain(_next_after), 2),
    "square": (_square, 1),
    "conj": (_conj, 1),
    "is_inf": (_plain(_is_inf), 1),
    "is_pos_inf": (_plain(lambda x: x.is_("EQ", inf)), 1),
    "is_neg_inf": (_plain(lambda x: x.is_("EQ", -inf)), 1),
    "_asin_acos_kernel": (_asin_acos_kernel, 1),
}
"""Operation -> what builds it, and how many operands it has."""
