"""Operators on elements: arithmetic, comparisons, logic and bits, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir import ELEMENT_TYPES, array
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.elementwise import broadcast_together
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering
from hlotool.onnx.ops.pieces import in_f32, is_float, kind, number, old_broadcast
from hlotool.onnx.tensors import dtype_of_tensor

__all__: list[str] = []


def _unary(name: str, function: Callable[[Any], Any], wide: bool = False) -> None:
    """An operator of one array; if `wide`, narrow floats are computed in f32 and rounded once."""

    @lowering(name)
    def lower(c: Context, x: Array, *, consumed_inputs: Any = None) -> Array:
        found: Array = function(in_f32(x) if wide else x)
        return np.astype(found, x.dtype) if wide else found


for _name in (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan",
):  # fmt: skip
    _unary(_name, getattr(np, _name.lower()), wide=True)
for _name, _function in {
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Tanh": np.tanh, "Reciprocal": np.reciprocal,
}.items():  # fmt: skip
    _unary(_name, _function, wide=True)
_unary("Erf", lambda x: apply("erf", x), wide=True)
_unary("Sigmoid", lambda x: apply("logistic", x), wide=True)
for _name, _function in {
    "Abs": np.abs, "Ceil": np.ceil, "Floor": np.floor, "Neg": np.negative, "Sign": np.sign,
    "Not": np.logical_not, "IsNaN": np.isnan, "BitwiseNot": np.bitwise_invert,
    "Round": lambda x: apply("round-nearest-even", x),
}.items():  # fmt: skip
    _unary(_name, _function)


@lowering("Identity")
def identity(c: Context, x: Any) -> Any:
    return x


def _binary(name: str, function: Callable[[Array, Array], Any]) -> None:
    @lowering(name)
    def lower(
        c: Context, a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None
    ) -> Array:
        found: Array = function(*broadcast_together((a, old_broadcast(a, b, axis))))
        return found


def _opcode(name: str) -> Callable[[Array, Array], Array]:
    return lambda a, b: apply(name, a, b)


def _comparison(direction: str) -> Callable[[Array, Array], Array]:
    return lambda a, b: apply("compare", a, b, direction=direction)


for _name, _operation in {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "And": "and", "Or": "or", "Xor": "xor", "BitwiseAnd": "and",
    "BitwiseOr": "or", "BitwiseXor": "xor",
}.items():  # fmt: skip
    _binary(_name, _opcode(_operation))
for _name, _operation in {
    "Equal": "EQ", "Greater": "GT", "Less": "LT", "GreaterOrEqual": "GE", "LessOrEqual": "LE",
}.items():  # fmt: skip
    _binary(_name, _comparison(_operation))


def _divided(a: Array, b: Array) -> Array:
    """Integers are cut towards zero, as in C."""
    return apply("divide", a, b)


_binary("Div", _divided)


@lowering("PRelu")
def prelu(c: Context, x: Array, slope: Array, *, consumed_inputs: Any = None) -> Array:
    if c.version < 7 and slope.ndim == 1 and x.ndim > 1:
        slope = np.reshape(slope, (-1, *(1,) * (x.ndim - 2)))
    a, b = broadcast_together((x, slope))
    return np.where(a < number(0, a), a * b, a)


@lowering("Pow")
def pow(c: Context, a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    """The result has the type of the base."""
    b = old_broadcast(a, b, axis)
    if is_float(a) or not is_float(b):
        wide = in_f32(a)
        return np.astype(apply("power", *broadcast_together((wide, np.astype(b, wide.dtype)))), a.dtype)
    computed = apply("power", *broadcast_together((np.astype(a, numpy.float64), np.astype(b, numpy.float64))))
    return np.astype(computed, a.dtype)


@lowering("Mod")
def mod(c: Context, a: Array, b: Array, *, fmod: int = 0) -> Array:
    """With the sign of the divisor, or, if `fmod`, of the dividend as in C."""
    if is_float(a) and not fmod and c.version < 28:
        raise Refused("floats without fmod")
    a, b = broadcast_together((a, b))
    wide, other = in_f32(a), in_f32(b)
    rest = apply("remainder", wide, other)
    if not fmod:
        zero = number(0, wide)
        off = np.logical_and(rest != zero, (rest < zero) != (other < zero))
        rest = np.where(off, rest + other, rest)
    return np.astype(rest, a.dtype)


@lowering("BitShift")
def bit_shift(c: Context, a: Array, b: Array, *, direction: str) -> Array:
    left = direction == "LEFT"
    opcode = "shift-left" if left else "shift-right-arithmetic" if kind(a) == "signed" else "shift-right-logical"
    return apply(opcode, *broadcast_together((a, b)))


@lowering("Where")
def where(c: Context, condition: Array, a: Array, b: Array) -> Array:
    return apply("select", *broadcast_together((condition, a, b)))


def _variadic(name: str, opcode: str) -> None:
    @lowering(name)
    def lower(c: Context, *values: Array, consumed_inputs: Any = None) -> Array:
        return reduce(lambda a, b: apply(opcode, a, b), broadcast_together(values))


_variadic("Sum", "add")
_variadic("Max", "maximum")
_variadic("Min", "minimum")


@lowering("Mean")
def mean(c: Context, *values: Array, consumed_inputs: Any = None) -> Array:
    wide = broadcast_together(tuple(in_f32(one) for one in values))
    total = reduce(lambda a, b: apply("add", a, b), wide)
    return np.astype(total / number(len(values), total), values[0].dtype)


@lowering("Clip", since=11)
def clip(c: Context, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    found = x
    if low is not None:
        found = apply("maximum", *broadcast_together((found, np.reshape(low, ()))))
    if high is not None:
        found = apply("minimum", *broadcast_together((found, np.reshape(high, ()))))
    return found


_GREATEST = float(numpy.finfo(numpy.float32).max)


@lowering("Clip")
def clip_by_attributes(
    c: Context, x: Array, *, min: float = -_GREATEST, max: float = _GREATEST, consumed_inputs: Any = None
) -> Array:
    return clip(c, x, number(min, x), number(max, x))


@lowering("IsInf")
def is_inf(c: Context, x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    infinite = np.isinf(x)
    if detect_negative and detect_positive:
        return infinite
    zero = number(0, x)
    if detect_negative or detect_positive:
        return np.logical_and(infinite, x < zero if detect_negative else x > zero)
    return np.zeros(x.shape, bool)


@lowering("BitCast")
def bit_cast(c: Context, x: Array, *, to: int) -> Array:
    wanted = hlo_type(dtype_of_tensor(to))
    own, other = ELEMENT_TYPES[hlo_type(x.dtype)].bits, ELEMENT_TYPES[wanted].bits
    if wanted == "pred" or hlo_type(x.dtype) == "pred":  # which ONNX has in bytes of 0 and 1
        if 8 not in (own, other) and own != other:
            raise Refused(f"{hlo_type(x.dtype)} as {wanted}")
        return np.astype(np.astype(x, numpy.uint8), dtype_of_tensor(to)) if own == 1 else np.not_equal(x, number(0, x))
    if own != other and {own, other} & {2, 4}:
        raise Refused(f"{own} bits as {other}")
    if own == other:
        return apply("bitcast-convert", x, shape=array(wanted, x.shape))
    if own > other:
        parts = apply("bitcast-convert", x, shape=array(wanted, (*x.shape, own // other)))
        return np.reshape(parts, (*x.shape[:-1], x.shape[-1] * (own // other)))
    ratio = other // own
    grouped = np.reshape(x, (*x.shape[:-1], x.shape[-1] // ratio, ratio))
    return apply("bitcast-convert", grouped, shape=array(wanted, grouped.shape[:-1]))


