"""Elementwise operations of one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from hlotool.ir import Instruction
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.dtypes import dtype_of
from hlotool.torch.lowering import Context, Refused, Value, lowering

__all__: list[str] = []

_OPCODES = {
    "exp": "exponential", "expm1": "exponential-minus-one", "log": "log", "log1p": "log-plus-one", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "sin": "sine", "cos": "cosine", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asin": "asin", "acos": "acos", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf",
    "sigmoid": "logistic",
}  # fmt: skip


def _opcode(name: str, opcode: str) -> None:
    """An operation of floats that HLO has; integers become floats before."""

    @lowering(f"aten.{name}.default")
    def lower(c: Context, self: Instruction) -> Instruction:
        return c.builder.unary(opcode, c.convert(self, c.type))


for _name, _own in _OPCODES.items():
    _opcode(_name, _own)


def _formula(*names: str) -> Callable[[Callable[[Context, Instruction], Instruction]], None]:
    """A function of floats in several steps, computed in f32 where the type is narrower."""

    def enter(formula: Callable[[Context, Instruction], Instruction]) -> None:
        @lowering(*(f"aten.{name}.default" for name in names))
        def lower(c: Context, self: Instruction) -> Instruction:
            return c.convert(formula(c, c.computed(c.convert(self, c.type))), c.type)

    return enter


@_formula("exp2")
def _exp2(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("power", c.like(2, x), x)


@_formula("log2")
def _log2(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("multiply", c.builder.unary("log", x), c.like(1 / math.log(2), x))


@_formula("log10")
def _log10(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("multiply", c.builder.unary("log", x), c.like(1 / math.log(10), x))


@_formula("atan")
def _atan(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("atan2", x, c.like(1, x))


@_formula("reciprocal")
def _reciprocal(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("divide", c.like(1, x), x)


@_formula("sinc", "special_sinc")
def _sinc(c: Context, x: Instruction) -> Instruction:
    b = c.builder
    angle = b.binary("multiply", x, c.like(math.pi, x))
    return b.select(b.compare(x, c.like(0, x), "EQ"), c.like(1, x), b.binary("divide", b.unary("sine", angle), angle))


@_formula("deg2rad")
def _deg2rad(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("multiply", x, c.like(math.pi / 180, x))


@_formula("rad2deg")
def _rad2deg(c: Context, x: Instruction) -> Instruction:
    return c.builder.binary("multiply", x, c.like(180 / math.pi, x))


def kind(a: Instruction) -> str:
    """pred, signed, unsigned, float or complex."""
    return ELEMENT_TYPES[a.shape.element_type].kind


@lowering("aten.abs.default")
def absolute(c: Context, self: Instruction) -> Instruction:
    return self if kind(self) in ("pred", "unsigned") else c.builder.unary("abs", self)


@lowering("aten.neg.default")
def negate(c: Context, self: Instruction) -> Instruction:
    return c.builder.unary("negate", self)


@lowering("aten.positive.default")
def positive(c: Context, self: Instruction) -> Instruction:
    return self


@lowering("aten.square.default")
def square(c: Context, self: Instruction) -> Instruction:
    a = c.convert(self, c.type)
    return c.builder.binary("multiply", a, a)


@lowering("aten.sign.default")
def sign(c: Context, self: Instruction) -> Instruction:
    """Not the opcode: of NaN and of -0 PyTorch gives 0."""
    if kind(self) == "pred":
        return self
    above = c.convert(c.builder.compare(self, c.like(0, self), "GT"), c.type)
    if kind(self) == "unsigned":
        return above
    below = c.convert(c.builder.compare(self, c.like(0, self), "LT"), c.type)
    return c.builder.binary("subtract", above, below)


@lowering("aten.sgn.default")
def sgn(c: Context, self: Instruction) -> Instruction:
    if kind(self) != "complex":
        return sign(c, self)  # type: ignore[return-value]  # it gives one
    b = c.builder
    size = b.unary("abs", self)
    zero = b.compare(size, c.like(0, size), "EQ")
    return b.select(zero, c.like(0, self), b.binary("divide", self, c.convert(size, c.type)))


@lowering("aten.signbit.default")
def signbit(c: Context, self: Instruction) -> Instruction:
    b = c.builder
    if kind(self) in ("pred", "unsigned"):
        return c.full(False, "pred", c.dimensions)
    if kind(self) == "signed":
        return b.compare(self, c.like(0, self), "LT")
    # The total order has negative zeros and NaN below zero.
    return b.compare(self, c.like(0.0, self), "LT", "TOTALORDER")


for _name, _own in {"ceil": "ceil", "floor": "floor", "round": "round-nearest-even"}.items():

    @lowering(f"aten.{_name}.default")
    def rounded(c: Context, self: Instruction, opcode: str = _own) -> Instruction:
        if kind(self) == "complex":
            raise Refused("complex numbers rounded")
        return c.builder.unary(opcode, self) if kind(self) == "float" else self


@lowering("aten.round.decimals")
def round_decimals(c: Context, self: Instruction, *, decimals: int = 0) -> Instruction:
    if kind(self) != "float":
        if decimals < 0:
            raise Refused("integers rounded to tens")
        return self
    b, x = c.builder, c.computed(self)
    factor = c.like(10.0 ** abs(decimals), x)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    if decimals == 0:
        return b.unary("round-nearest-even", self)
    return c.convert(b.binary(back, b.unary("round-nearest-even", b.binary(there, x, factor)), factor), c.type)


@lowering("aten.trunc.default", "aten.fix.default")
def trunc(c: Context, self: Instruction) -> Instruction:
    return truncated(c, self) if kind(self) == "float" else self


def truncated(c: Context, x: Instruction) -> Instruction:
    """Floats without their fraction."""
    b = c.builder
    return b.select(b.compare(x, c.like(0, x), "LT"), b.unary("ceil", x), b.unary("floor", x))


@lowering("aten.frac.default")
def frac(c: Context, self: Instruction) -> Instruction:
    return c.builder.binary("subtract", self, truncated(c, self))


@lowering("aten.isnan.default")
def isnan(c: Context, self: Instruction) -> Instruction:
    if kind(self) in ("float", "complex"):
        return c.builder.compare(self, self, "NE")
    return c.full(False, "pred", c.dimensions)


def _parts(c: Context, a: Instruction) -> list[Instruction]:
    return [c.builder.unary("real", a), c.builder.unary("imag", a)] if kind(a) == "complex" else [a]


@lowering("aten.isinf.default")
def isinf(c: Context, self: Instruction) -> Instruction:
    if kind(self) not in ("float", "complex"):
        return c.full(False, "pred", c.dimensions)
    tests = [c.builder.compare(c.builder.unary("abs", p), c.like(math.inf, p), "EQ") for p in _parts(c, self)]
    return tests[0] if len(tests) == 1 else c.builder.binary("or", *tests)


@lowering("aten.isposinf.default")
def isposinf(c: Context, self: Instruction) -> Instruction:
    return _is_infinity(c, self, math.inf)


@lowering("aten.isneginf.default")
def isneginf(c: Context, self: Instruction) -> Instruction:
    return _is_infinity(c, self, -math.inf)


def _is_infinity(c: Context, a: Instruction, value: float) -> Instruction:
    if kind(a) != "float":
        return c.full(False, "pred", c.dimensions)
    return c.builder.compare(a, c.like(value, a), "EQ")


@lowering("aten.isfinite.default")
def isfinite(c: Context, self: Instruction) -> Instruction:
    if kind(self) not in ("float", "complex"):
        return c.full(True, "pred", c.dimensions)
    tests = [c.builder.unary("is-finite", part) for part in _parts(c, self)]
    return tests[0] if len(tests) == 1 else c.builder.binary("and", *tests)


@lowering("aten.nan_to_num.default")
def nan_to_num(
    c: Context, self: Instruction, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Instruction:
    if kind(self) in ("pred", "signed", "unsigned"):
        return self
    if kind(self) == "complex":
        raise Refused("complex numbers")
    b, largest = c.builder, float(torch.finfo(dtype_of(c.type)).max)
    found = b.select(b.compare(self, self, "NE"), c.like(0.0 if nan is None else nan, self), self)
    above, below = largest if posinf is None else posinf, -largest if neginf is None else neginf
    for value, own in ((math.inf, above), (-math.inf, below)):
        found = b.select(b.compare(self, c.like(value, self), "EQ"), c.like(own, self), found)
    return found


@lowering("aten.logical_not.default")
def logical_not(c: Context, self: Instruction) -> Instruction:
    return c.builder.compare(self, c.like(0, self), "EQ")


@lowering("aten.bitwise_not.default")
def bitwise_not(c: Context, self: Instruction) -> Instruction:
    return c.builder.unary("not", self)


# ---- complex numbers


@lowering("aten.real.default", "aten._conj.default", "aten.conj_physical.default", "aten._conj_physical.default")
def conjugate(c: Context, self: Value) -> Instruction:
    if not isinstance(self, Instruction):  # gradients have numbers that were divided by
        return c.full(self.conjugate(), c.type)
    if kind(self) != "complex":
        return self
    b = c.builder
    if ELEMENT_TYPES[c.type].kind == "float":
        return b.unary("real", self)
    return b.binary("complex", b.unary("real", self), b.unary("negate", b.unary("imag", self)))


@lowering("aten.imag.default")
def imag(c: Context, self: Instruction) -> Instruction:
    return c.builder.unary("imag", self)


@lowering("aten._neg_view.default")
def neg_view(c: Context, self: Instruction) -> Instruction:
    return c.builder.unary("negate", self)


@lowering("aten.resolve_conj.default", "aten.resolve_neg.default")
def resolve(c: Context, self: Instruction) -> Instruction:
    return self


@lowering("aten.angle.default")
def angle(c: Context, self: Instruction) -> Instruction:
    b = c.builder
    if kind(self) == "complex":
        return b.binary("atan2", b.unary("imag", self), b.unary("real", self))
    x = c.convert(self, c.type)
    found = b.select(b.compare(x, c.like(0, x), "LT"), c.like(math.pi, x), c.like(0, x))
    return b.select(b.compare(x, x, "NE"), x, found)


@lowering("aten.view_as_real.default")
def view_as_real(c: Context, self: Instruction) -> Instruction:
    b, rank = c.builder, len(self.shape.dimensions)
    parts = (b.unary("real", self), b.unary("imag", self))
    return b.concatenate([c.unsqueeze(part, [rank]) for part in parts], rank)


@lowering("aten.view_as_complex.default")
def view_as_complex(c: Context, self: Instruction) -> Instruction:
    b, sizes = c.builder, self.shape.dimensions
    parts = [
        b.reshape(b.slice(self, [0] * (len(sizes) - 1) + [n], [*sizes[:-1], n + 1]), sizes[:-1]) for n in (0, 1)
    ]
    return b.binary("complex", *parts)


@lowering("aten.complex.default")
def make_complex(c: Context, real: Instruction, imag: Instruction) -> Instruction:
    a, b = c.together(real, imag, element_type=c.promote(real, imag))
    return c.builder.binary("complex", a, b)


@lowering("aten.polar.default")
def polar(c: Context, abs: Instruction, angle: Instruction) -> Instruction:
    size, turn = c.together(abs, angle, element_type=c.promote(abs, angle))
    b = c.builder
    parts = (b.binary("multiply", size, b.unary(opcode, turn)) for opcode in ("cosine", "sine"))
    return b.binary("complex", *parts)
