"""Elementwise opcodes on values with error bounds.

Each function of floats has a row: how it is evaluated in the wide type, and how far it moves when its argument does;
how many units in the last place an implementation may be off is in `ir.elementwise`.  Monotone functions move as far
as their values at the two ends of the argument's interval, which also bounds the jumps of floor, sign and their like.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from hlotool.evaluate import bits, elementwise
from hlotool.evaluate.bounds import (
    Bounded,
    bounded,
    exact,
    is_inexact,
    largest,
    merged,
    narrow,
    rounded,
    unit,
    wide_dtype,
)
from hlotool.evaluate.rounding import convert, round_to
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "ELEMENTWISE",
    "add",
    "convert_loosely",
    "divide",
    "multiply",
    "plain",
    "rounding",
    "rsqrt",
    "subtract",
    "without_bounds",
]

Spread = Callable[[AnyArray, AnyArray, AnyArray], AnyArray]
"""(argument, its error, result) to a bound of the result's change; infinite or NaN where there is none."""

@dataclass(frozen=True, slots=True)
class _Function:
    evaluate: Callable[[Any], Any]
    spread: Spread


def _ends(function: Callable[[Any], Any]) -> Spread:
    """Of a monotone function."""

    def spread(x: AnyArray, e: AnyArray, y: AnyArray) -> AnyArray:
        return np.asarray(np.maximum(np.abs(function(x + e) - y), np.abs(function(x - e) - y)))

    return spread


def _logistic(x: AnyArray) -> Any:
    return 1 / (1 + np.exp(-x))


_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: AnyArray) -> AnyArray:
    return np.asarray(_ERF(x)).astype(x.dtype)


def _slope(bound: Callable[[AnyArray, AnyArray, AnyArray], Any]) -> Spread:
    """The error times a bound of the derivative's size over the interval."""
    return lambda x, e, y: np.asarray(e * bound(x, e, y))


def _tangent(x: AnyArray, e: AnyArray, y: AnyArray) -> AnyArray:
    """tan(x + e) - tan(x) by the addition theorem; nothing where a pole may lie between."""
    step = np.tan(np.minimum(e, 1.5))
    room = 1 - np.abs(y) * step
    return np.asarray(np.where((room > 0) & (e < 1.5), step * (1 + y * y) / room, np.inf))


def _hyperbolic(slope: Callable[[Any], Any]) -> Spread:
    """Of sinh and cosh, by their addition theorems, from the other one's size."""
    return lambda x, e, y: np.asarray(np.abs(y) * (np.cosh(e) - 1) + slope(y) * np.sinh(e))


def _cube_root(x: AnyArray, e: AnyArray, y: AnyArray) -> AnyArray:
    """The slope at the near end, or what the function's growth allows: ``|cbrt(a) - cbrt(b)| <= cbrt(4 |a - b|)``."""
    near = np.maximum(np.abs(x) - e, 0)
    return np.asarray(np.minimum(np.cbrt(4 * e), e / (3 * np.cbrt(near) ** 2)))


def _round_away(x: AnyArray) -> Any:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def _sign(x: AnyArray) -> Any:
    return np.copysign(np.sign(x), x)


def _monotone(function: Callable[[Any], Any]) -> _Function:
    return _Function(function, _ends(function))


_REAL: dict[str, _Function] = {
    "exponential": _Function(np.exp, lambda x, e, y: y * np.expm1(e)),
    "exponential-minus-one": _Function(np.expm1, lambda x, e, y: (y + 1) * np.expm1(e)),
    "log": _Function(np.log, lambda x, e, y: np.where(e < x, -np.log1p(-e / x), np.inf)),
    "log-plus-one": _Function(np.log1p, lambda x, e, y: np.where(e < x + 1, -np.log1p(-e / (x + 1)), np.inf)),
    "logistic": _Function(_logistic, _slope(lambda x, e, y: np.minimum(0.25, y * (1 - y) * np.exp(e)))),
    "sqrt": _Function(np.sqrt, lambda x, e, y: np.where(e <= x, e / (np.sqrt(x - e) + y), np.inf)),
    "rsqrt": _Function(
        lambda x: 1 / np.sqrt(x), lambda x, e, y: np.where(e < x, y * np.expm1(-np.log1p(-e / x) / 2), np.inf)
    ),
    "cbrt": _Function(np.cbrt, _cube_root),
    "sine": _Function(np.sin, _slope(lambda x, e, y: np.minimum(1, np.sqrt(1 - y * y) + e))),
    "cosine": _Function(np.cos, _slope(lambda x, e, y: np.minimum(1, np.sqrt(1 - y * y) + e))),
    "tan": _Function(np.tan, _tangent),
    "sinh": _Function(np.sinh, _hyperbolic(lambda y: np.sqrt(1 + y * y))),
    "cosh": _Function(np.cosh, _hyperbolic(lambda y: np.sqrt(y * y - 1))),
    "tanh": _Function(np.tanh, _slope(lambda x, e, y: np.minimum(1, (1 - y * y) * np.exp(2 * e)))),
    "asin": _monotone(np.arcsin),
    "acos": _monotone(np.arccos),
    "asinh": _monotone(np.arcsinh),
    "acosh": _monotone(np.arccosh),
    "atanh": _monotone(np.arctanh),
    "erf": _Function(_erf, _slope(lambda x, e, y: 1.13 * np.exp(-(np.maximum(np.abs(x) - e, 0) ** 2)))),
    "abs": _Function(np.abs, lambda x, e, y: e),
    "negate": _Function(np.negative, lambda x, e, y: e),
    "sign": _monotone(_sign),
    "ceil": _monotone(np.ceil),
    "floor": _monotone(np.floor),
    "round-nearest-afz": _monotone(_round_away),
    "round-nearest-even": _monotone(np.rint),
}


def _complex_sign(x: AnyArray) -> Any:
    size = np.abs(x)
    return np.where(size == 0, x, x / np.where(size == 0, 1, size))


def _by_derivative(derivative: Callable[[Any, Any], Any]) -> Spread:
    """Of analytic functions: twice what the derivative says, where its own relative change is small."""

    def spread(x: AnyArray, e: AnyArray, y: AnyArray) -> AnyArray:
        slope = np.abs(derivative(x, y))
        nearby = np.abs(derivative(x + e, y)) + np.abs(derivative(x - e, y))
        return np.asarray(np.where((e * slope < 0.1) & (nearby < 4 * slope), 2 * e * slope, np.inf))

    return spread


def _off_zero(e: AnyArray, x: AnyArray) -> AnyArray:
    """The relative error, where the interval has no zero (nor half of the way to it)."""
    size = np.abs(x)
    return np.asarray(np.where(e < size / 2, e / size, np.inf))


_COMPLEX: dict[str, _Function] = {
    "exponential": _Function(np.exp, lambda x, e, y: np.abs(y) * np.expm1(e)),
    "exponential-minus-one": _Function(elementwise.exponential_minus_one, lambda x, e, y: np.abs(y + 1) * np.expm1(e)),
    "log": _Function(np.log, lambda x, e, y: 2 * _off_zero(e, x)),
    "log-plus-one": _Function(elementwise.log_plus_one, lambda x, e, y: 2 * _off_zero(e, x + 1)),
    "logistic": _Function(_logistic, _by_derivative(lambda x, y: _logistic(x) * (1 - _logistic(x)))),
    "sqrt": _Function(np.sqrt, lambda x, e, y: np.abs(y) * _off_zero(e, x)),
    "rsqrt": _Function(lambda x: 1 / np.sqrt(x), lambda x, e, y: 2 * np.abs(y) * _off_zero(e, x)),
    "sine": _Function(np.sin, _by_derivative(lambda x, y: np.cos(x))),
    "cosine": _Function(np.cos, _by_derivative(lambda x, y: np.sin(x))),
    "tan": _Function(np.tan, _by_derivative(lambda x, y: 1 + np.tan(x) ** 2)),
    "sinh": _Function(np.sinh, _by_derivative(lambda x, y: np.cosh(x))),
    "cosh": _Function(np.cosh, _by_derivative(lambda x, y: np.sinh(x))),
    "tanh": _Function(np.tanh, _by_derivative(lambda x, y: 1 - np.tanh(x) ** 2)),
    "asin": _Function(np.arcsin, _by_derivative(lambda x, y: 1 / np.sqrt(1 - x * x))),
    "acos": _Function(np.arccos, _by_derivative(lambda x, y: 1 / np.sqrt(1 - x * x))),
    "asinh": _Function(np.arcsinh, _by_derivative(lambda x, y: 1 / np.sqrt(1 + x * x))),
    "acosh": _Function(np.arccosh, _by_derivative(lambda x, y: 1 / np.sqrt(x * x - 1))),
    "atanh": _Function(np.arctanh, _by_derivative(lambda x, y: 1 / (1 - x * x))),
    "sign": _Function(_complex_sign, lambda x, e, y: 2 * _off_zero(e, x)),
    "negate": _Function(np.negative, lambda x, e, y: e),
}
"""Good to some units of the size of the number, not of each part."""


def _to_negative(x: AnyArray) -> AnyArray:
    return np.asarray(np.where(x.real <= 0, np.abs(x.imag), np.abs(x)))


def _to_outside(x: AnyArray) -> AnyArray:
    return np.asarray(np.where(np.abs(x.real) >= 1, np.abs(x.imag), np.minimum(np.abs(x - 1), np.abs(x + 1))))


_CUTS: dict[str, Callable[[AnyArray], AnyArray]] = {
    **dict.fromkeys(("log", "sqrt", "rsqrt"), _to_negative),
    "log-plus-one": lambda x: _to_negative(x + 1),
    **dict.fromkeys(("asin", "acos", "atanh"), _to_outside),
    "asinh": lambda x: _to_outside(x * 1j),
    "acosh": lambda x: _to_negative(x - 1),
}
"""The distance of an argument from the branch cut of a function (Kahan, "Branch cuts for complex elementary functions,
or much ado about nothing's sign bit", 1987)."""


def _ulps(opcode: str, kind: str) -> float | None:
    """Units in the last place that an implementation may be off; None where it rounds once."""
    row = ELEMENTWISE_OPCODES[opcode]
    return row.complex_ulps if ELEMENT_TYPES[kind].is_complex else row.ulps


def _unary(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Of the table, of complex numbers' parts, or (integers, predicates) as it is in the evaluator."""
    (x,) = operands
    source, target = instruction.operands[0].shape.element_type, instruction.shape.element_type
    if not is_inexact(source):
        return plain(instruction, operands, context)
    name = instruction.opcode
    if name in ("real", "imag"):
        part = x.value
        if ELEMENT_TYPES[source].is_complex:
            part = np.asarray(part.real if name == "real" else part.imag)
        elif name == "imag":
            return exact(round_to(np.zeros(x.shape), target), target)
        return Bounded(part, x.error)
    if name == "is-finite":
        return bounded(np.isfinite(x.value), None if x.error is None else np.where(np.isinf(x.error), np.inf, 0.0))
    if name == "abs" and ELEMENT_TYPES[source].is_complex:
        return rounded(np.abs(x.value), x.error, target, _ulps(name, source))
    is_complex = ELEMENT_TYPES[source].is_complex
    function, ulps = (_COMPLEX if is_complex else _REAL)[name], _ulps(name, source)
    value = np.asarray(function.evaluate(x.value))
    error = _spread(function.spread, x, value)
    found = rounded(value, error, target, ulps)
    if ulps is None and error is not None and target != "f8e8m0fnu":  # what the type can hold does not round
        held = ~np.isfinite(value) | (np.abs(value) + error <= largest(target))
        error = np.where(np.isfinite(x.value) | np.isinf(x.errors()), error, 0.0)
        return Bounded(np.where(held, value, found.value), np.where(held, error, found.errors()))
    if not is_complex or ulps is None:
        return found
    found = _by_formula(found, target, x)
    return _off_cut(found, x, _CUTS[name](x.value)) if name in _CUTS and x.error is not None else found


def _by_formula(result: Bounded, kind: str, *operands: Bounded) -> Bounded:
    """Of complex numbers: what infinities and NaN in parts make of the others is a matter of the formula; and so is
    whether numbers close to the largest, which have absolute values beyond it, overflow."""
    strange = ~np.isfinite(result.value)
    for operand in operands:
        strange = strange | ~(np.abs(operand.value) < largest(kind) / 8)
    return Bounded(result.value, np.where(strange, np.inf, result.errors())) if strange.any() else result


def _off_cut(result: Bounded, x: Bounded, distance: AnyArray) -> Bounded:
    """Undecided where the argument may lie on the other side of a branch cut."""
    return Bounded(result.value, np.where(distance < x.errors(), np.inf, result.errors()))


def _spread(spread: Spread, x: Bounded, value: AnyArray) -> AnyArray | None:
    """What the argument's error makes of the result's; exact elements stay so, and infinities that stay alike too."""
    if x.error is None:
        return None
    change = np.asarray(spread(x.value, x.error, value)).astype(np.float64, copy=False)
    return np.where(x.error == 0, 0.0, np.where(np.isnan(change), np.inf, change))


def add(left: Bounded, right: Bounded, kind: str, sign: int = 1) -> Bounded:
    """Sum (or difference), rounded once."""
    value = left.value + right.value if sign > 0 else left.value - right.value
    return rounded(value, merged(left, right), kind)


def subtract(left: Bounded, right: Bounded, kind: str) -> Bounded:
    return add(left, right, kind, -1)


def multiply(left: Bounded, right: Bounded, kind: str) -> Bounded:
    """Product, rounded once.  Of complex numbers normwise: Brent, Percival and Zimmermann, "Error bounds on complex
    floating-point multiplication" (Math. Comp. 76, 2007), have sqrt(5) units."""
    found = rounded(left.value * right.value, _product_error(left, right), kind, _ulps("multiply", kind))
    return _by_formula(found, kind, left, right) if ELEMENT_TYPES[kind].is_complex else found


def _product_error(left: Bounded, right: Bounded) -> AnyArray | None:
    if left.error is None and right.error is None:
        return None
    a, b = np.abs(left.value).astype(np.float64), np.abs(right.value).astype(np.float64)
    if right.error is None:
        error = left.errors() * b
    elif left.error is None:
        error = a * right.error
    else:
        error = left.error * b + (a + left.error) * right.error
    # Infinity times what is surely not zero is infinite, whatever the other's error.
    sure = (np.isinf(a) & (b > right.errors())) | (np.isinf(b) & (a > left.errors()))
    sure = sure & np.isfinite(left.errors()) & np.isfinite(right.errors())
    return np.where(sure, 0.0, np.where(np.isnan(error), np.inf, error))


def divide(left: Bounded, right: Bounded, kind: str) -> Bounded:
    """Quotient, rounded once; of complex numbers to some units, normwise (Baudin and Smith, 2012)."""
    value = left.value / right.value
    error = None
    if left.error is not None or right.error is not None:
        size, spread = np.abs(right.value).astype(np.float64), right.errors()
        quotient = np.abs(value).astype(np.float64)
        room = size - spread
        error = left.errors() / room + np.where(spread == 0, 0, quotient * (spread / room))
        error = np.where(np.isnan(error) | ((spread >= size) & (spread > 0)), np.inf, error)
        error = np.where((spread == 0) & np.isinf(size) & np.isfinite(left.errors()), 0.0, error)
    found = rounded(value, error, kind, _ulps("divide", kind))
    return _by_formula(found, kind, left, right) if ELEMENT_TYPES[kind].is_complex else found


def rsqrt(x: Bounded, kind: str) -> Bounded:
    function = _REAL["rsqrt"]
    value = np.asarray(function.evaluate(x.value))
    return rounded(value, _spread(function.spread, x, value), kind, _ulps("rsqrt", kind))


def _remainder(left: Bounded, right: Bounded, kind: str) -> Bounded:
    """Exact for exact operands.  Else it moves with the operands while the whole quotient stays, and by no more than
    the divisor where that may change; of a divisor that may be zero nothing is known."""
    value = np.fmod(left.value, right.value)
    if left.error is None and right.error is None:
        return rounded(value, None, kind)
    size, spread = np.abs(right.value), right.errors()
    quotient = left.value / right.value
    shift = (left.errors() + np.abs(quotient) * spread) / (size - spread)
    whole = np.trunc(quotient)
    same = (np.trunc(quotient + shift) == whole) & (np.trunc(quotient - shift) == whole) & (spread < size)
    moved = left.errors() + np.abs(whole) * spread
    jump = 2 * np.minimum(size + spread, np.abs(left.value) + left.errors())
    error = np.where(same, moved, np.where(np.isfinite(value) & (spread < size), jump, np.inf)).astype(np.float64)
    none = (left.errors() == 0) & (spread == 0)
    return rounded(value, np.where(none, 0.0, np.where(np.isnan(error), np.inf, error)), kind)


def _power(left: Bounded, right: Bounded, kind: str) -> Bounded:
    value = np.asarray(np.power(left.value, right.value))
    if ELEMENT_TYPES[kind].is_complex:
        value = np.where((left.value == 0) & (right.value.real > 0), 0, value)
        value = np.where(right.value == 0, 1, value)
    elif (infinite := np.isinf(left.value)).any():  # powers of infinity are wrong in some extended precisions
        value = np.where(infinite, np.power(left.value.astype(np.float64), right.value.astype(np.float64)), value)
    error = None
    if left.error is not None or right.error is not None:
        base, power = np.abs(left.value), np.abs(right.value)
        logs = -np.log1p(-np.minimum(left.errors() / base, 1))
        turn = np.where(right.errors() == 0, 0, right.errors() * (np.abs(np.log(left.value)) + logs))
        change = np.abs(value) * np.expm1(power * logs + turn)
        # Over a zero of the base, a positive exact power goes no further than at the far end.
        over = (left.errors() >= base) & (right.errors() == 0) & (right.value.real > 0)
        far = np.abs(value) + (base + left.errors()) ** power
        error = np.where(over, far, change).astype(np.float64)
        error = np.where(np.isnan(error), np.inf, error)
        error = np.where((left.errors() == 0) & (right.errors() == 0), 0.0, error)
    if ELEMENT_TYPES[kind].is_complex:
        error = _exponent_error(left, right, value, error, kind)
        found = _by_formula(rounded(value, error, kind, _ulps("power", kind)), kind, left, right)
        return found if left.error is None else _off_cut(found, left, _to_negative(left.value))
    found = rounded(value, error, kind, _ulps("power", kind))
    # What IEEE 754 says of pow, and any exp(y log x) gives: these are 1 and nothing else.
    one = ((left.value == 1) & (left.errors() == 0)) | ((right.value == 0) & (right.errors() == 0))
    return Bounded(found.value, np.where(one, 0.0, found.errors())) if one.any() else found


def _exponent_error(left: Bounded, right: Bounded, value: AnyArray, error: AnyArray | None, kind: str) -> AnyArray:
    """`error`, and what roundings of the exponent make of a power of complex numbers; parts of it may overflow."""
    logs = np.log(np.where(left.value == 0, 1, left.value))
    exponent = np.abs(right.value * logs)
    parts = np.maximum(np.abs(right.value.real * logs.real), np.abs(right.value.imag * logs.imag))
    made = np.abs(value) * np.expm1(8 * unit(kind) * exponent) + (0.0 if error is None else error)
    return np.where(np.isnan(made) | (parts > 0.9 * np.log(largest(kind))), np.inf, made).astype(np.float64)


def _atan2(left: Bounded, right: Bounded, kind: str) -> Bounded:
    if ELEMENT_TYPES[kind].is_complex:
        y, x = left.value, right.value
        value = -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
        error = None if left.error is None and right.error is None else np.full(value.shape, np.inf)
        return _by_formula(rounded(value, error, kind, _ulps("atan2", kind)), kind, left, right)
    value = np.arctan2(left.value, right.value)
    error = None
    if left.error is not None or right.error is not None:
        reach, size = np.hypot(left.errors(), right.errors()), np.hypot(left.value, right.value)
        turned = np.arcsin(np.minimum(1, reach / size))
        cut = (np.abs(left.value) <= left.errors()) & (right.value - right.errors() <= 0)
        error = np.where(reach == 0, 0.0, np.where(cut | ~(reach < size), 2 * np.pi, turned)).astype(np.float64)
        error = np.where(np.isnan(reach) | np.isinf(reach), np.inf, error)
    return rounded(value, error, kind, _ulps("atan2", kind))


def _extreme(function: Callable[[Any, Any], Any]) -> Callable[[Bounded, Bounded, str], Bounded]:
    """Of maximum and minimum: as far off as its ends allow."""

    def extreme(left: Bounded, right: Bounded, kind: str) -> Bounded:
        value = function(left.value, right.value)
        if left.error is None and right.error is None:
            return Bounded(value)
        high = function(left.value + left.errors(), right.value + right.errors())
        low = function(left.value - left.errors(), right.value - right.errors())
        error = np.maximum(high - value, value - low).astype(np.float64)
        undecided = np.isinf(left.errors()) | np.isinf(right.errors())
        same = ~undecided & ~np.isfinite(value)
        return Bounded(value, np.where(same, 0.0, np.where(np.isnan(error) | undecided, np.inf, error)))

    return extreme


_maximum, _minimum = _extreme(np.maximum), _extreme(np.minimum)

_BINARY: dict[str, Callable[[Bounded, Bounded, str], Bounded]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "remainder": _remainder,
    "power": _power,
    "atan2": _atan2,
    "maximum": _maximum,
    "minimum": _minimum,
}


_WITHOUT_BOUNDS: dict[str, Callable[..., Any]] = {
    **{name: function.evaluate for name, function in _REAL.items()},
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "select": np.where,
}


def without_bounds(instruction: Instruction) -> Callable[..., Any] | None:
    """What a function of real numbers makes of values in the wide type, as long as they do not overflow; None where it
    takes more than that."""
    kinds = [o.shape.element_type for o in (instruction, *instruction.operands)]
    if kinds[0] == "pred" or any(kind == "f8e8m0fnu" or ELEMENT_TYPES[kind].is_complex for kind in kinds):
        return None
    return _WITHOUT_BOUNDS.get(instruction.opcode) if ELEMENT_TYPES[kinds[0]].is_float else None


def _binary(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    kind = instruction.shape.element_type
    if not is_inexact(kind) or instruction.opcode not in _BINARY:
        return plain(instruction, operands, context)
    left, right = operands
    return _BINARY[instruction.opcode](left, right, kind)


def plain(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """The evaluator's rule on the declared types; what an inexact element takes part in is undecided."""
    given = [narrow(o, i.shape.element_type) for o, i in zip(operands, instruction.operands, strict=True)]
    rule = bits.RULES.get(instruction.opcode) or elementwise.RULES[instruction.opcode]
    value = np.asarray(rule(instruction, given, context))
    error = merged(*operands)
    kinds = [i.shape.element_type for i in instruction.operands]
    if instruction.opcode == "bitcast-convert" or instruction.attributes.get("type") == "TOTALORDER":
        for operand, kind in zip(operands, kinds, strict=True):
            if is_inexact(kind) and (lost := np.isnan(operand.value)).any():  # a wide NaN has other bits
                error = np.where(lost, np.inf, 0.0 if error is None else error)
    if error is not None:
        error = np.where(error == 0, 0.0, np.inf)
        if error.shape != value.shape:
            error = np.full(value.shape, np.inf if error.any() else 0.0)
    return Bounded(value.astype(wide_dtype(instruction.shape.element_type), copy=False), error)


def _compare(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Decided where the operands are further apart than their errors."""
    left, right = operands
    kind = instruction.operands[0].shape.element_type
    if (left.error is None and right.error is None) or not is_inexact(kind):
        return plain(instruction, operands, context)
    value = np.asarray(elementwise.RULES["compare"](instruction, [narrow(o, kind) for o in operands], context))
    error = left.errors() + right.errors()
    near = ~(np.abs(left.value - right.value) > error) & (error != 0)
    sure = np.isnan(left.value) | np.isnan(right.value) | np.isinf(left.value) | np.isinf(right.value)
    return bounded(value, np.where(near & ~(sure & np.isfinite(error)), np.inf, 0.0))


def _select(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Where the predicate is undecided the result is one of two, and the bound reaches both."""
    predicate, on_true, on_false = operands
    value = np.asarray(np.where(predicate.value, on_true.value, on_false.value))
    if predicate.error is None and on_true.error is None and on_false.error is None:
        return Bounded(value)
    error = np.where(predicate.value, on_true.errors(), on_false.errors())
    if predicate.error is not None:
        if is_inexact(instruction.shape.element_type):
            apart = np.abs(on_true.value - on_false.value).astype(np.float64)
        else:
            apart = np.where(on_true.value == on_false.value, 0.0, np.inf)
        both = apart + np.maximum(on_true.errors(), on_false.errors())
        # All or nothing: where errors are taken as independent, one like this counts several times.
        error = np.where(predicate.error == 0, error, np.where(np.isnan(both), np.inf, 4 * both))
    return Bounded(value, error)


def _clamp(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    kind = instruction.shape.element_type
    if not is_inexact(kind):
        return plain(instruction, operands, context)
    low, value, high = operands
    if ELEMENT_TYPES[kind].is_complex:
        above = _by_real_part(low, value, np.greater_equal)
        return _by_real_part(above, high, np.less_equal)
    return _minimum(_maximum(low, value, kind), high, kind)


def _by_real_part(left: Bounded, right: Bounded, before: Any) -> Bounded:
    """`left` where its real part stands before that of `right`, which is undecided where they are near."""
    first = before(left.value.real, right.value.real)
    value = np.asarray(np.where(first, left.value, right.value))
    if left.error is None and right.error is None:
        return Bounded(value)
    reach = left.errors() + right.errors()
    near = ~(np.abs(left.value.real - right.value.real) > reach) & (reach != 0)
    return Bounded(value, np.where(near, np.inf, np.where(first, left.errors(), right.errors())))


def _complex(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    real, imaginary = operands
    value = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), wide_dtype(instruction.shape.element_type))
    value.real, value.imag = real.value, imaginary.value
    return Bounded(value, merged(real, imaginary))


def _convert(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Where both ends of an interval round to the same number of a narrower type, that is the result."""
    found = convert_loosely(instruction, operands, context)
    sure = None if context.excess_precision else rounding(instruction, operands[0])
    if sure is None:
        return found
    near, alike = sure
    return bounded(np.where(alike, near, found.value), np.where(alike, 0.0, found.errors()))


def rounding(instruction: Instruction, x: Bounded) -> tuple[AnyArray, AnyArray] | None:
    """Of a conversion from one float type to a narrower one: the rounded value, and where all of the interval rounds to
    it; None for other conversions."""
    source, target = instruction.operands[0].shape.element_type, instruction.shape.element_type
    if not (ELEMENT_TYPES[source].is_float and ELEMENT_TYPES[target].is_float and unit(target) > unit(source)):
        return None

    def at(value: AnyArray) -> AnyArray:
        return round_to(value.astype(wide_dtype(target)), target).astype(wide_dtype(target))

    near = at(x.value)
    alike = np.ones(x.shape, np.bool_)
    for end in () if x.error is None else (x.value - x.error, x.value + x.error):
        there = at(end)
        alike &= (there == near) | (np.isnan(there) & np.isnan(near) & np.isfinite(x.errors()))
    return near, alike


def convert_loosely(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Floats may round or not, and become integers or predicates for sure where both ends of their interval do."""
    (x,) = operands
    source, target = instruction.operands[0].shape.element_type, instruction.shape.element_type
    if not is_inexact(source):
        value = convert(x.value, target) if not is_inexact(target) else _widened(x.value, target)
        return rounded(value, x.error, target) if is_inexact(target) else Bounded(value, x.error)
    value = x.value
    if ELEMENT_TYPES[source].is_complex and not ELEMENT_TYPES[target].is_complex and target != "pred":
        value = np.asarray(value.real)
    if is_inexact(target):
        return rounded(value.astype(wide_dtype(target)), x.error, target)
    whole = convert(narrow(Bounded(value), _part(source, value)), target)
    if x.error is None:
        return Bounded(whole)
    if target == "pred":
        return bounded(whole, np.where((np.abs(x.value) <= x.error) & (x.error > 0), np.inf, 0.0))
    ends = [np.trunc(np.asarray(value + side * x.error, np.float64)) for side in (-1, 1)]
    same = (ends[0] == ends[1]) | (x.error == 0)
    return bounded(whole, np.where(same & np.isfinite(x.error), 0.0, np.inf))


def _widened(value: AnyArray, kind: str) -> AnyArray:
    whole = value.astype(np.int64) if ELEMENT_TYPES[kind].bits and value.dtype.kind == "V" else value
    return whole.astype(wide_dtype(kind))


def _part(kind: str, value: AnyArray) -> str:
    """The element type of a number of type `kind`, or of its real part."""
    return {"c64": "f32", "c128": "f64"}.get(kind, kind) if value.dtype.kind != "c" else kind


def _reduce_precision(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """Rounding is monotone: as far off as the ends of the interval go."""
    (x,) = operands
    kind = instruction.shape.element_type

    def at(value: AnyArray) -> AnyArray:
        given = narrow(Bounded(np.asarray(value)), kind)
        return np.asarray(bits.RULES["reduce-precision"](instruction, [given], context)).astype(wide_dtype(kind))

    value = at(x.value)
    if x.error is None:
        return Bounded(value)
    change = np.maximum(np.abs(at(x.value + x.error) - value), np.abs(at(x.value - x.error) - value))
    same = np.isfinite(x.error) & (~np.isfinite(x.value) | (x.error == 0))
    return Bounded(value, np.where(same, 0.0, np.where(np.isnan(change), np.inf, change)).astype(np.float64))


_BLOCK = 1 << 14
"""Elements at a time: a rule makes many passes over its arrays, which are to stay in the cache."""


def _in_blocks(rule: Any) -> Any:
    """A rule of large arrays, all of one shape but for scalars, on a block of elements after another."""

    def run(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
        shape = max((o.shape for o in operands), key=prod)
        size = prod(shape)
        if size <= _BLOCK or any(o.shape not in ((), shape) for o in operands):
            found: Bounded = rule(instruction, operands, context)
            return found
        flat = [o if o.shape == () else _flattened(o) for o in operands]
        value: AnyArray | None = None
        error: AnyArray | None = None
        for start in range(0, size, _BLOCK):
            piece = slice(start, min(size, start + _BLOCK))
            part: Bounded = rule(instruction, [o if o.shape == () else _piece(o, piece) for o in flat], context)
            value = np.empty(size, part.dtype) if value is None else value
            value[piece] = part.value
            if part.error is not None:
                error = np.zeros(size) if error is None else error
                error[piece] = part.error
        assert value is not None
        return Bounded(value.reshape(shape), None if error is None else error.reshape(shape))

    return run


_compare_in_blocks = _in_blocks(_compare)


def _compare_all(instruction: Instruction, operands: Operands, context: Any) -> Bounded:
    """A number is equal to itself, and NaN is not, however they are rounded."""
    left, right = operands
    if left is not right or left.error is None:
        found: Bounded = _compare_in_blocks(instruction, operands, context)
        return found
    value = plain(instruction, [Bounded(left.value)] * 2, context).value
    return bounded(value, np.where(np.isinf(left.error), np.inf, 0.0))


def _flattened(x: Bounded) -> Bounded:
    return Bounded(x.value.reshape(-1), None if x.error is None else x.error.reshape(-1))


def _piece(x: Bounded, piece: slice) -> Bounded:
    return Bounded(x.value[piece], None if x.error is None else x.error[piece])


_RULES: dict[str, Any] = {
    **dict.fromkeys(elementwise.RULES, plain),
    **dict.fromkeys([*_REAL, *_COMPLEX, "real", "imag", "is-finite"], _unary),
    **dict.fromkeys(_BINARY, _binary),
    "select": _select,
    "clamp": _clamp,
    "complex": _complex,
    "convert": _convert,
    "reduce-precision": _reduce_precision,
}

ELEMENTWISE: dict[str, Any] = {name: _in_blocks(rule) for name, rule in _RULES.items()}
ELEMENTWISE |= {"bitcast-convert": plain, "compare": _compare_all}
