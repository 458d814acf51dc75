"""Elementwise opcodes.  Nothing here looks at dimensions, so arrays may stand where the text has scalars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlotool.evaluate import integers
from hlotool.evaluate.bits import total_order_key
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import as_accurate, computed, convert, round_to, stochastic, widen
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import ELEMENT_TYPES, Instruction

__all__ = ["RULES", "exponential_minus_one", "log_plus_one"]

_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: AnyArray) -> AnyArray:
    return np.asarray(_ERF(x)).astype(np.float64)


def exponential_minus_one(x: AnyArray) -> AnyArray:
    """NumPy's multiplies by the sine of an imaginary part, also where that is zero and the power infinite."""
    result = np.asarray(np.expm1(x))
    if x.dtype.kind == "c":
        result.imag = np.where(x.imag == 0, x.imag, result.imag)
    return result


def log_plus_one(x: AnyArray) -> AnyArray:
    """NumPy's takes log(1 + x) for complex x, which is nothing near 0: |1 + x|^2 - 1 is 2 a + a^2 + b^2."""
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    a, b = x.real, x.imag
    small = (np.abs(a) < 0.5) & (np.abs(b) < 0.5)
    result = np.asarray(np.log1p(x))
    result.real = np.where(small, np.log1p(2 * a + a * a + b * b) / 2, result.real)
    return result


def _logistic(x: AnyArray) -> AnyArray:
    """1 / (1 + exp(-x)), by the power that does not overflow where results are subnormal."""
    below = x.real < 0
    power = np.exp(np.where(below, x, -x))
    return np.asarray(np.where(below, power, 1) / (1 + power))


_TRANSCENDENTAL: dict[str, Callable[[Any], Any]] = {
    "exponential": np.exp,
    "exponential-minus-one": exponential_minus_one,
    "log": np.log,
    "log-plus-one": log_plus_one,
    "logistic": _logistic,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
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


def _extended(array: AnyArray) -> AnyArray:
    """Floats as f64, c64 as c128, and c128 in extended precision where there is one: parts cancel."""
    wide = as_accurate(array)
    return wide.astype(np.clongdouble) if array.dtype == np.complex128 else wide


def _transcendental(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """In double precision (complex numbers in extended precision where there is one), rounded once."""
    function = _TRANSCENDENTAL[instruction.opcode]
    return computed(np.asarray(function(_extended(operands[0]))), instruction.shape.element_type)


def _abs(x: AnyArray) -> Any:
    return np.abs(_extended(x)) if x.dtype.kind == "c" else np.abs(x)


def _sign(x: AnyArray) -> Any:
    if x.dtype.kind != "c":
        return np.copysign(np.sign(x), x) if x.dtype.kind == "f" else np.sign(x)
    wide = _extended(x)
    # Scaled by a power of two, so that the size neither overflows nor loses bits.
    _, exponent = np.frexp(np.maximum(np.abs(wide.real), np.abs(wide.imag)))
    wide = _pair(np.ldexp(wide.real, -exponent), np.ldexp(wide.imag, -exponent))
    size = np.abs(wide)
    return np.where(x == 0, x, wide / np.where(size == 0, 1, size))


def _pair(real: AnyArray, imaginary: AnyArray) -> AnyArray:
    """Complex numbers from parts, which NumPy's arithmetic would mix."""
    result = np.empty(np.shape(real), np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imaginary
    return result


def _round_away(x: AnyArray) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": _abs,
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
    if left.dtype.kind == "c":
        return _complex_divide(_extended(left), _extended(right))
    return integers.divide(left, right) if left.dtype.kind in "iu" else np.divide(left, right)


def _complex_divide(left: AnyArray, right: AnyArray) -> AnyArray:
    """The quotient, and as C99 Annex G has it where a part is infinite or the divisor zero."""
    a, b, c, d = left.real, left.imag, right.real, right.imag
    quotient = np.asarray(np.divide(left, right))

    def unit(part: AnyArray) -> AnyArray:
        return np.copysign(np.where(np.isinf(part), 1.0, 0.0), part)

    def replace(where: AnyArray, real: AnyArray, imaginary: AnyArray) -> None:
        quotient.real, quotient.imag = np.where(where, real, quotient.real), np.where(where, imaginary, quotient.imag)

    large, divisor_large = np.isinf(a) | np.isinf(b), np.isinf(c) | np.isinf(d)
    finite, divisor_finite = np.isfinite(a) & np.isfinite(b), np.isfinite(c) & np.isfinite(d)
    replace(finite & divisor_large, 0 * (a * unit(c) + b * unit(d)), 0 * (b * unit(c) - a * unit(d)))
    replace(large & divisor_finite, np.inf * (unit(a) * c + unit(b) * d), np.inf * (unit(b) * c - unit(a) * d))
    replace((c == 0) & (d == 0), np.copysign(np.inf, c) * a, np.copysign(np.inf, c) * b)
    return quotient


def _multiply(left: AnyArray, right: AnyArray) -> Any:
    """Complex numbers by the schoolbook formula, each operation rounded."""
    if left.dtype.kind != "c":
        return np.multiply(left, right)
    a, b, c, d = left.real, left.imag, right.real, right.imag
    return _pair(np.asarray(a * c - b * d), np.asarray(a * d + b * c))


def _maximum(left: AnyArray, right: AnyArray) -> Any:
    """Of zeros of both signs the left one; NaN if either is NaN."""
    return np.where((right > left) | (right != right), right, left)


def _minimum(left: AnyArray, right: AnyArray) -> Any:
    return np.where((right < left) | (right != right), right, left)


def _remainder(left: AnyArray, right: AnyArray) -> Any:
    return integers.remainder(left, right) if left.dtype.kind in "iu" else np.fmod(left, right)


def _power(base: AnyArray, exponent: AnyArray) -> Any:
    if base.dtype.kind in "iu":
        return integers.power(base, exponent)
    base, exponent = _extended(base), _extended(exponent)
    # As a vector: of a single exponent of 0.5 NumPy takes the square root, which differs at -inf and -0.
    result = np.power(base, np.atleast_1d(exponent)).reshape(np.broadcast_shapes(base.shape, exponent.shape))
    if base.dtype.kind == "c":  # NumPy gives NaN at zero bases
        result = np.where((base == 0) & (exponent.real > 0), 0, result)
        result = np.where(exponent == 0, 1, result)
    return result


def _atan2(left: AnyArray, right: AnyArray) -> Any:
    left, right = _extended(left), _extended(right)
    if left.dtype.kind == "c":
        return -1j * np.log((right + 1j * left) / np.sqrt(left * left + right * right))
    return np.arctan2(left, right)


def _subtract(left: AnyArray, right: AnyArray) -> Any:
    return np.logical_xor(left, right) if left.dtype.kind == "b" else np.subtract(left, right)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "atan2": _atan2,
    "maximum": _maximum,
    "minimum": _minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _binary(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    left, right = operands
    result = _BINARY[instruction.opcode](widen(left), widen(right))
    return computed(np.asarray(result), instruction.shape.element_type)


_WITH_WIDTH: dict[str, Callable[..., AnyArray]] = {
    "mulhi": integers.multiply_high,
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
    value, bits = operands
    width = ELEMENT_TYPES[instruction.operands[1].shape.element_type].bits
    return stochastic(value, widen(bits), width, instruction.shape.element_type)


def _complex(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return _pair(*np.broadcast_arrays(*operands))


def _select(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.asarray(np.where(operands[0], operands[1], operands[2]))


def _clamp(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    low, value, high = map(widen, operands)
    if value.dtype.kind == "c":  # by the real parts alone, as XLA does; of equal ones the bound, then the value
        above = np.where(low.real >= value.real, low, value)
        return np.asarray(np.where(above.real <= high.real, above, high))
    return round_to(_minimum(_maximum(value, low), high), instruction.shape.element_type)


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
