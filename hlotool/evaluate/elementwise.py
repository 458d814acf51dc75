"""Elementwise opcodes.  Nothing here looks at dimensions, so arrays may stand where the text has scalars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlotool.evaluate import integers
from hlotool.evaluate.bits import total_order_key
from hlotool.evaluate.rounding import as_accurate, convert, round_to, widen
from hlotool.evaluate.values import AnyArray, Context, Operands, Rule
from hlotool.ir import ELEMENT_TYPES, Instruction, UnsupportedError

__all__ = ["RULES"]

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: AnyArray) -> AnyArray:
    return np.asarray(_ERF(x)).astype(np.float64)


def _cbrt(x: AnyArray) -> AnyArray:
    return np.asarray(np.power(x, 1 / 3) if x.dtype.kind == "c" else np.cbrt(x))


_TRANSCENDENTAL: dict[str, Callable[[Any], Any]] = {
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": _cbrt,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _erf,
}


def _transcendental(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """In double precision, rounded once."""
    function = _TRANSCENDENTAL[instruction.opcode]
    return round_to(function(as_accurate(operands[0])), instruction.shape.element_type)


def _sign(x: AnyArray) -> Any:
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size))
    return np.copysign(np.sign(x), x) if x.dtype.kind == "f" else np.sign(x)


def _round_away(x: AnyArray) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "negate": np.negative,
    "sign": _sign,
    "ceil": np.ceil,
    "floor": np.floor,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "not": np.invert,
    "is-finite": np.isfinite,
    "real": np.real,
    "imag": np.imag,
}


def _unary(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """In the compute type, rounded once."""
    return round_to(_UNARY[instruction.opcode](widen(operands[0])), instruction.shape.element_type)


def _divide(left: AnyArray, right: AnyArray) -> Any:
    return integers.divide(left, right) if left.dtype.kind in "iu" else np.divide(left, right)


def _remainder(left: AnyArray, right: AnyArray) -> Any:
    return integers.remainder(left, right) if left.dtype.kind in "iu" else np.fmod(left, right)


def _power(base: AnyArray, exponent: AnyArray) -> Any:
    if base.dtype.kind in "iu":
        return integers.power(base, exponent)
    base, exponent = as_accurate(base), as_accurate(exponent)
    result = np.power(base, exponent)
    if base.dtype.kind == "c":  # NumPy gives NaN at zero bases
        result = np.where((base == 0) & (exponent.real > 0), 0, result)
        result = np.where(exponent == 0, 1, result)
    return result


def _atan2(left: AnyArray, right: AnyArray) -> Any:
    left, right = as_accurate(left), as_accurate(right)
    if left.dtype.kind == "c":
        return -1j * np.log((right + 1j * left) / np.sqrt(left * left + right * right))
    return np.arctan2(left, right)


def _subtract(left: AnyArray, right: AnyArray) -> Any:
    return np.logical_xor(left, right) if left.dtype.kind == "b" else np.subtract(left, right)


def _accurate_if_complex(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """c64 products and quotients go through c128: their parts cancel and overflow."""

    def on(left: AnyArray, right: AnyArray) -> Any:
        if left.dtype.kind == "c":
            left, right = as_accurate(left), as_accurate(right)
        return function(left, right)

    return on


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": _subtract,
    "multiply": _accurate_if_complex(np.multiply),
    "divide": _accurate_if_complex(_divide),
    "remainder": _remainder,
    "power": _power,
    "atan2": _atan2,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _binary(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    left, right = operands
    result = _BINARY[instruction.opcode](widen(left), widen(right))
    return round_to(result, instruction.shape.element_type)


_WITH_WIDTH: dict[str, Callable[..., AnyArray]] = {
    "shift-left": integers.shift_left,
    "shift-right-arithmetic": integers.shift_right,
    "shift-right-logical": integers.shift_right_logical,
    "popcnt": integers.ones,
    "count-leading-zeros": integers.leading_zeros,
}


def _with_width(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Integer operations whose result depends on the width of the type."""
    name = instruction.shape.element_type
    result = _WITH_WIDTH[instruction.opcode](*map(widen, operands), bits=ELEMENT_TYPES[name].bits)
    return round_to(result, name)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def _compare(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    prepare = total_order_key if instruction.attributes.get("type") == "TOTALORDER" else widen
    left, right = map(prepare, operands)
    return np.asarray(_COMPARE[instruction.attributes["direction"]](left, right))


def _convert(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return convert(operands[0], instruction.shape.element_type)


def _stochastic_convert(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Float to integer: away from zero with the probability that the fraction, compared with the bits, gives."""
    value, bits = operands
    row = ELEMENT_TYPES[instruction.shape.element_type]
    if not row.is_integer or bits.dtype.kind != "u":
        raise UnsupportedError(f"{instruction.name}: stochastic-convert to {row.name} has no defined result")
    wide = value.astype(np.float64)
    size = np.abs(wide)
    whole = np.floor(size)
    threshold = (size - whole) * float(1 << (8 * bits.dtype.itemsize))
    stepped = whole + (threshold > bits.astype(np.float64))
    return convert(np.asarray(np.copysign(stepped, wide)), row.name)


def _complex(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    real, imaginary = np.broadcast_arrays(*operands)
    result = np.empty(real.shape, ELEMENT_TYPES[instruction.shape.element_type].dtype)
    result.real, result.imag = real, imaginary
    return result


def _select(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.asarray(np.where(operands[0], operands[1], operands[2]))


def _clamp(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    low, value, high = map(widen, operands)
    return round_to(np.minimum(np.maximum(low, value), high), instruction.shape.element_type)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_TRANSCENDENTAL, _transcendental),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_WITH_WIDTH, _with_width),
    "compare": _compare,
    "convert": _convert,
    "stochastic-convert": _stochastic_convert,
    "complex": _complex,
    "select": _select,
    "clamp": _clamp,
}
