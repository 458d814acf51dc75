"""Arithmetic, comparisons, logic and choices of several tensors, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

from hlotool.ir import Instruction
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.torch.lowering import Context, Number, Refused, Value, lowering
from hlotool.torch.ops.unary import truncated

__all__: list[str] = []


def _kind(element_type: str) -> str:
    return ELEMENT_TYPES[element_type].kind


def _arithmetic(c: Context) -> str:
    """The type that the result is computed in: f32 for narrower floats, so that numbers are not rounded to them."""
    row = ELEMENT_TYPES[c.type]
    return "f32" if row.is_float and row.bits < 32 else c.type


def _operands(c: Context, *values: Value, exact: bool = False) -> list[Instruction]:
    """Values as tensors of the result's dimensions, which are of the result's type before they become f32.

    With `exact` numbers, and tensors without dimensions, are not rounded to that type: so PyTorch multiplies and
    divides on a processor, and nothing else.
    """
    wide = _arithmetic(c)
    made = []
    for value in values:
        if not isinstance(value, Instruction):
            value = value if exact else c.full(value, c.type, ())
        elif value.shape.dimensions or not exact:
            value = c.convert(value, c.type)
        made.append(c.tensor(value, wide, c.dimensions))
    return made


def _scaled(c: Context, value: Instruction, alpha: Number, *, exact: bool = False) -> Instruction:
    """``alpha * value``, with a factor of the result's type unless `exact`."""
    if alpha == 1:
        return value
    factor = c.like(alpha, value)
    if not exact:
        factor = c.convert(c.full(alpha, c.type, value.shape.dimensions), value.shape.element_type)
    return c.builder.binary("and" if value.shape.element_type == "pred" else "multiply", value, factor)


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(c: Context, self: Instruction, other: Value, *, alpha: Number = 1) -> Instruction:
    a, b = _operands(c, self, other)
    opcode = "or" if c.type == "pred" else "add"
    return c.convert(c.builder.binary(opcode, a, _scaled(c, b, alpha)), c.type)


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(c: Context, self: Instruction, other: Value, *, alpha: Number = 1) -> Instruction:
    a, b = _operands(c, self, other)
    return c.convert(c.builder.binary("subtract", a, _scaled(c, b, alpha)), c.type)


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c: Context, self: Instruction, other: Value, *, alpha: Number = 1) -> Instruction:
    a, b = _operands(c, self, other)
    return c.convert(c.builder.binary("subtract", b, _scaled(c, a, alpha)), c.type)


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(c: Context, self: Instruction, other: Value) -> Instruction:
    a, b = _operands(c, self, other, exact=True)
    return c.convert(c.builder.binary("and" if c.type == "pred" else "multiply", a, b), c.type)


@lowering("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(c: Context, self: Instruction, other: Value) -> Instruction:
    a, b = _operands(c, self, other, exact=True)
    return c.convert(c.builder.binary("divide", a, b), c.type)


def _need_divisor(c: Context, other: Value) -> None:
    """Refuses integers divided by the number zero, which is an error."""
    if not isinstance(other, Instruction) and not other and _kind(c.type) in ("signed", "unsigned"):
        raise Refused("integers divided by zero")


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(c: Context, self: Instruction, other: Value, *, rounding_mode: str | None = None) -> Instruction:
    _need_divisor(c, other)
    a, b = _operands(c, self, other, exact=True)
    if rounding_mode is None:
        return c.convert(c.builder.binary("divide", a, b), c.type)
    if rounding_mode == "floor":
        return c.convert(_floored(c, a, b, stepwise=_is_array(other)), c.type)
    found = c.builder.binary("divide", a, b)
    if _kind(c.type) == "float":
        found = truncated(c, _rounded(c, found) if _is_array(other) else found)
    return c.convert(found, c.type)


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(c: Context, self: Instruction, other: Value) -> Instruction:
    _need_divisor(c, other)
    a, b = _operands(c, self, other, exact=True)
    return c.convert(_floored(c, a, b, stepwise=_is_array(other)), c.type)


def _rounded(c: Context, a: Instruction) -> Instruction:
    """A step on the way, rounded to the type of the result: so PyTorch computes narrow floats in several steps."""
    return c.convert(c.convert(a, c.type), a.shape.element_type)


def _floored(c: Context, a: Instruction, b: Instruction, *, stepwise: bool) -> Instruction:
    """``a // b``: of floats by the remainder, as Python does it; if `stepwise`, every step is rounded."""
    build, kind = c.builder, _kind(a.shape.element_type)
    if kind == "unsigned":
        return build.binary("divide", a, b)

    def step(opcode: str, x: Instruction, y: Instruction) -> Instruction:
        made = build.binary(opcode, x, y)
        return _rounded(c, made) if stepwise and kind == "float" else made

    zero = c.like(0, a)
    rest = step("remainder", a, b)
    apart = build.binary(
        "and",
        build.compare(rest, zero, "NE"),
        build.compare(build.compare(rest, zero, "LT"), build.compare(b, zero, "LT"), "NE"),
    )
    if kind == "signed":
        whole = build.binary("divide", a, b)
        return build.binary("subtract", whole, c.convert(apart, a.shape.element_type))
    one = c.like(1, a)
    whole = step("divide", step("subtract", a, rest), b)
    whole = build.select(apart, step("subtract", whole, one), whole)
    floor = build.unary("floor", whole)
    near = build.compare(step("subtract", whole, floor), c.like(0.5, a), "GT")
    floor = build.select(near, step("add", floor, one), floor)
    quotient = build.binary("divide", a, b)
    signed_zero = build.binary("multiply", zero, quotient)
    floor = build.select(build.compare(whole, zero, "EQ"), signed_zero, floor)
    return build.select(build.compare(b, zero, "EQ"), quotient, floor)


def _is_array(value: Value) -> bool:
    """Neither a number nor a tensor without dimensions, which count as numbers."""
    return isinstance(value, Instruction) and bool(value.shape.dimensions)


@lowering("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(c: Context, self: Instruction, other: Value) -> Instruction:
    _need_divisor(c, other)
    a, b = _operands(c, self, other)
    return c.convert(c.builder.binary("remainder", a, b), c.type)


@lowering("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(c: Context, self: Value, other: Value) -> Instruction:
    """With the sign of the divisor."""
    _need_divisor(c, other)
    a, b = _operands(c, self, other)
    build, zero = c.builder, c.like(0, a)
    rest = build.binary("remainder", a, b)
    if _kind(a.shape.element_type) == "unsigned":
        return rest
    apart = build.compare(build.compare(rest, zero, "LT"), build.compare(b, zero, "LT"), "NE")
    apart = build.binary("and", build.compare(rest, zero, "NE"), apart)
    return c.convert(build.select(apart, build.binary("add", rest, b), rest), c.type)


@lowering("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(c: Context, self: Value, exponent: Value) -> Instruction:
    b = c.builder
    if not isinstance(exponent, (Instruction, complex)) and exponent < 0 and _kind(c.type) in ("signed", "unsigned"):
        raise Refused("negative powers of integers")
    if not isinstance(exponent, Instruction) and _kind(c.type) in ("float", "complex", "signed", "unsigned"):
        x = _operands(c, self)[0]
        short = _short_power(c, x, exponent)
        if short is not None:
            return c.convert(short, c.type)
    x, y = _operands(c, self, exponent)
    if c.type == "pred":
        return b.binary("or", x, b.unary("not", y))
    if _kind(c.type) not in ("signed", "unsigned"):
        return c.convert(b.binary("power", x, y), c.type)
    zero, one = c.like(0, x), c.like(1, x)
    found = b.binary("power", x, b.binary("maximum", y, zero))
    if _kind(c.type) == "unsigned":
        return found
    odd = b.compare(b.binary("and", y, one), one, "EQ")
    below = b.select(b.compare(x, c.like(-1, x), "EQ"), b.select(odd, x, one), zero)
    below = b.select(b.compare(x, one, "EQ"), one, below)
    return b.select(b.compare(y, zero, "LT"), below, found)


def _short_power(c: Context, x: Instruction, exponent: Number) -> Instruction | None:
    """Exponents that are a few multiplications or a root."""
    b = c.builder

    def square() -> Instruction:
        made = b.binary("multiply", x, x)
        return _rounded(c, made) if c.type == "bf16" else made  # of f16 PyTorch keeps what is on the way

    if exponent == 0:
        return c.like(1, x)
    if exponent == 1:
        return x
    if exponent == 2:
        return square()
    if exponent == 3:
        return b.binary("multiply", square(), x)
    if _kind(c.type) != "float":
        return None
    if exponent == 0.5:
        return b.unary("sqrt", x)
    if exponent == -0.5:
        return b.binary("divide", c.like(1, x), b.unary("sqrt", x))
    if exponent == -1:
        return b.binary("divide", c.like(1, x), x)
    if exponent == -2:
        return b.binary("divide", c.like(1, x), square())
    return None


def _pairs(opcode: str, *names: str) -> None:
    """Operations of two floats that HLO has."""

    @lowering(*names)
    def lower(c: Context, self: Instruction, other: Value) -> Instruction:
        a, b = (c.computed(c.tensor(v, c.type, c.dimensions)) for v in (self, other))
        return c.convert(c.builder.binary(opcode, a, b), c.type)


_pairs("atan2", "aten.atan2.default")
_pairs("maximum", "aten.maximum.default")
_pairs("minimum", "aten.minimum.default")


@lowering("aten.fmax.default")
def fmax(c: Context, self: Instruction, other: Instruction) -> Instruction:
    return _beside_nan(c, "maximum", self, other)


@lowering("aten.fmin.default")
def fmin(c: Context, self: Instruction, other: Instruction) -> Instruction:
    return _beside_nan(c, "minimum", self, other)


def _beside_nan(c: Context, opcode: str, self: Instruction, other: Instruction) -> Instruction:
    """The extreme; of a number and NaN the number."""
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, other))
    found = c.builder.binary(opcode, a, b)
    if _kind(c.type) != "float":
        return found
    found = c.builder.select(c.builder.compare(b, b, "NE"), a, found)
    return c.builder.select(c.builder.compare(a, a, "NE"), b, found)


@lowering("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(c: Context, self: Instruction, other: Value) -> Instruction:
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, other))
    size = c.builder.unary("abs", a)
    below = c.builder.compare(b, c.like(0.0, b), "LT", "TOTALORDER")
    return c.builder.select(below, c.builder.unary("negate", size), size)


@lowering("aten.hypot.default")
def hypot(c: Context, self: Instruction, other: Instruction) -> Instruction:
    b = c.builder
    x, y = (b.unary("abs", value) for value in _operands(c, self, other))
    large, small = b.binary("maximum", x, y), b.binary("minimum", x, y)
    zero, one = c.like(0, x), c.like(1, x)
    ratio = b.binary("divide", small, large)
    found = b.binary("multiply", large, b.unary("sqrt", b.binary("add", one, b.binary("multiply", ratio, ratio))))
    found = b.select(b.compare(large, zero, "EQ"), zero, found)
    infinite = b.binary("or", *(b.compare(v, c.like(math.inf, v), "EQ") for v in (x, y)))
    return c.convert(b.select(infinite, c.like(math.inf, x), found), c.type)


@lowering("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self")
def xlogy(c: Context, self: Value, other: Value) -> Instruction:
    b = c.builder
    x, y = _operands(c, self, other)
    product = b.binary("multiply", x, b.unary("log", y))
    found = b.select(b.compare(x, c.like(0, x), "EQ"), c.like(0, x), product)
    return c.convert(b.select(b.compare(y, y, "NE"), y, found), c.type)


@lowering("aten.heaviside.default")
def heaviside(c: Context, self: Instruction, values: Instruction) -> Instruction:
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, values))
    build = c.builder
    above = c.convert(build.compare(a, c.like(0, a), "GT"), c.type)
    return build.select(build.compare(a, c.like(0, a), "EQ"), b, above)


@lowering("aten.lerp.Tensor", "aten.lerp.Scalar")
def lerp(c: Context, self: Instruction, end: Instruction, weight: Value) -> Instruction:
    b = c.builder
    x, y, w = _operands(c, self, end, weight, exact=True)
    way = b.binary("subtract", y, x)
    near = b.binary("add", x, b.binary("multiply", w, way))
    far = b.binary("subtract", y, b.binary("multiply", way, b.binary("subtract", c.like(1, w), w)))
    size = b.unary("abs", w)
    return c.convert(b.select(b.compare(size, c.like(0.5, size), "LT"), near, far), c.type)


@lowering("aten.addcmul.default")
def addcmul(
    c: Context, self: Instruction, tensor1: Instruction, tensor2: Instruction, *, value: Number = 1
) -> Instruction:
    a, x, y = _operands(c, self, tensor1, tensor2, exact=True)
    product = c.builder.binary("multiply", _scaled(c, x, value, exact=True), y)
    return c.convert(c.builder.binary("add", a, product), c.type)


@lowering("prims.fma.default")
def multiply_add(context: Context, /, a: Value, b: Value, c: Value) -> Instruction:
    """``a b + c``, as steps of optimisers have it."""
    x, y, z = _operands(context, a, b, c, exact=True)
    build = context.builder
    return context.convert(build.binary("add", build.binary("multiply", x, y), z), context.type)


@lowering("aten.addcdiv.default")
def addcdiv(
    c: Context, self: Instruction, tensor1: Instruction, tensor2: Instruction, *, value: Number = 1
) -> Instruction:
    a, x, y = _operands(c, self, tensor1, tensor2, exact=True)
    quotient = c.builder.binary("divide", _scaled(c, x, value, exact=True), y)
    return c.convert(c.builder.binary("add", a, quotient), c.type)


@lowering("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default")
def clamp(c: Context, self: Instruction, min: Value | None = None, max: Value | None = None) -> Instruction:
    found = c.tensor(self, c.type, c.dimensions)
    if min is not None:
        found = c.builder.binary("maximum", found, c.tensor(min, c.type, c.dimensions))
    if max is not None:
        found = c.builder.binary("minimum", found, c.tensor(max, c.type, c.dimensions))
    return found


@lowering("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(c: Context, self: Instruction, min: Value) -> Instruction:
    return c.builder.binary("maximum", *(c.tensor(v, c.type, c.dimensions) for v in (self, min)))


@lowering("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(c: Context, self: Instruction, max: Value) -> Instruction:
    return c.builder.binary("minimum", *(c.tensor(v, c.type, c.dimensions) for v in (self, max)))


# ---- comparisons and logic


def _comparison(name: str, direction: str) -> None:
    @lowering(f"aten.{name}.Tensor", f"aten.{name}.Scalar")
    def lower(c: Context, self: Instruction, other: Value) -> Instruction:
        kind = _kind(self.shape.element_type)
        if not isinstance(other, Instruction) and kind == "unsigned" and isinstance(other, int) and other < 0:
            raise Refused("unsigned integers and a negative number")
        a, b = c.together(self, other, element_type=c.promote(self, other))
        return c.builder.compare(a, b, direction)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name, _name.upper())


def _logical(name: str, opcode: str) -> None:
    @lowering(f"aten.logical_{name}.default")
    def lower(c: Context, self: Instruction, other: Instruction) -> Instruction:
        a, b = (c.tensor(v, "pred", c.dimensions) for v in (self, other))
        return c.builder.binary(opcode, a, b)


def _bitwise(names: tuple[str, ...], opcode: str) -> None:
    overloads = [f"aten.{name}.{kind}" for name in names for kind in ("Tensor", "Scalar", "Scalar_Tensor")]
    overloads += [f"aten.{name}.Tensor_Scalar" for name in names if "shift" in name]

    @lowering(*overloads)
    def lower(c: Context, self: Value, other: Value) -> Instruction:
        a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, other))
        return c.builder.binary(opcode, a, b)


for _name in ("and", "or", "xor"):
    _logical(_name, _name)
    _bitwise((f"bitwise_{_name}", f"__{_name}__"), _name)


def _shift(names: tuple[str, ...], left: bool) -> None:
    overloads = [f"aten.{name}.{kind}" for name in names for kind in ("Tensor", "Scalar", "Scalar_Tensor")]
    overloads += [f"aten.{name}.Tensor_Scalar" for name in names]

    @lowering(*overloads)
    def lower(c: Context, self: Value, other: Value) -> Instruction:
        """By more than the bits there are, or by less than none, as by all of them."""
        a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, other))
        build, row = c.builder, ELEMENT_TYPES[c.type]
        if not row.is_integer:
            raise Refused(f"shifts of {c.type}")
        outside = build.compare(b, c.like(row.bits, b), "GE")
        if row.kind == "signed":
            outside = build.binary("or", outside, build.compare(b, c.like(0, b), "LT"))
        within = build.select(outside, c.like(0, b), b)
        if left:
            return build.select(outside, c.like(0, a), build.binary("shift-left", a, within))
        opcode = "shift-right-arithmetic" if row.kind == "signed" else "shift-right-logical"
        most = c.like(row.bits - 1, b) if row.kind == "signed" else within
        gone = build.binary(opcode, a, most) if row.kind == "signed" else c.like(0, a)
        return build.select(outside, gone, build.binary(opcode, a, within))


_shift(("bitwise_left_shift", "__lshift__"), True)
_shift(("bitwise_right_shift", "__rshift__"), False)


@lowering("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(c: Context, condition: Instruction, self: Value, other: Value) -> Instruction:
    a, b = (c.tensor(v, c.type, c.dimensions) for v in (self, other))
    return c.builder.select(c.tensor(condition, "pred", c.dimensions), a, b)


# ---- gradients of functions


def _gradient(name: str) -> Callable[[Callable[[Context, Instruction, Instruction], Instruction]], None]:
    """A gradient that is a function of the result."""

    def enter(formula: Callable[[Context, Instruction, Instruction], Instruction]) -> None:
        @lowering(f"aten.{name}.default")
        def lower(c: Context, grad_output: Instruction, output: Instruction) -> Instruction:
            grad, y = _operands(c, grad_output, output)
            if _kind(c.type) == "complex":
                parts = c.builder.unary("real", y), c.builder.unary("negate", c.builder.unary("imag", y))
                y = c.builder.binary("complex", *parts)
            return c.convert(formula(c, grad, y), c.type)

    return enter


@_gradient("tanh_backward")
def _tanh_backward(c: Context, grad: Instruction, y: Instruction) -> Instruction:
    b = c.builder
    return b.binary("multiply", grad, b.binary("subtract", c.like(1, y), b.binary("multiply", y, y)))


@_gradient("sigmoid_backward")
def _sigmoid_backward(c: Context, grad: Instruction, y: Instruction) -> Instruction:
    b = c.builder
    return b.binary("multiply", grad, b.binary("multiply", y, b.binary("subtract", c.like(1, y), y)))


@lowering("aten.threshold_backward.default")
def threshold_backward(c: Context, grad_output: Instruction, self: Instruction, threshold: Number) -> Instruction:
    grad, x = (c.tensor(v, c.type, c.dimensions) for v in (grad_output, self))
    return c.builder.select(c.builder.compare(x, c.like(threshold, x), "LE"), c.like(0, grad), grad)
