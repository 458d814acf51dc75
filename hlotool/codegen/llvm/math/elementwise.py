"""The front door: one elementwise HLO operation on vectors of compute values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from hlotool.codegen.llvm.math import arithmetic, convert, integer, lowprecision
from hlotool.codegen.llvm.math.elements import (
    Register,
    constant,
    is_complex,
    is_float,
    is_low_precision,
    joined,
    kind,
    part_type,
    parts,
    vector,
)
from hlotool.codegen.llvm.values import Vector, where
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.ir.errors import UnsupportedError

__all__ = ["emit_elementwise"]

Attributes = Mapping[str, object]


@cache
def _file(name: str) -> Any:
    """A file of mathematics that is loaded when it is needed: most programs need few of them."""
    return import_module(f"hlotool.codegen.llvm.math.{name}")


def _in(file: str, name: str) -> Callable[..., Vector]:
    """A function of such a file."""

    def emit(*arguments: Any, **options: Any) -> Vector:
        found: Vector = getattr(_file(file), name)(*arguments, **options)
        return found

    return emit


FLOATS: dict[str, Callable[..., Vector]] = {
    "abs": Vector.fabs,
    "acos": _in("inverse", "acos"),
    "acosh": _in("hyperbolic", "acosh"),
    "add": lambda a, b: a + b,
    "asin": _in("inverse", "asin"),
    "asinh": _in("hyperbolic", "asinh"),
    "atan2": _in("inverse", "atan2"),
    "atanh": _in("hyperbolic", "atanh"),
    "cbrt": _in("power", "cbrt"),
    "ceil": lambda x: x.call("ceil"),
    "cosh": _in("hyperbolic", "cosh"),
    "cosine": _in("trig", "cosine"),
    "divide": lambda a, b: a / b,
    "erf": _in("erf", "erf"),
    "exponential": _in("exp", "exponential"),
    "exponential-minus-one": _in("exp", "exponential_minus_one"),
    "floor": Vector.floor,
    "log": _in("log", "logarithm"),
    "log-plus-one": _in("log", "logarithm_plus_one"),
    "logistic": _in("exp", "logistic"),
    "maximum": arithmetic.maximum,
    "minimum": arithmetic.minimum,
    "multiply": lambda a, b: a * b,
    "negate": Vector.__neg__,
    "power": _in("power", "power"),
    "remainder": arithmetic.remainder,
    "round-nearest-afz": lambda x: x.call("round"),
    "round-nearest-even": lambda x: x.call("roundeven"),
    "rsqrt": _in("power", "rsqrt"),
    "sign": arithmetic.sign,
    "sine": _in("trig", "sine"),
    "sinh": _in("hyperbolic", "sinh"),
    "sqrt": Vector.sqrt,
    "subtract": lambda a, b: a - b,
    "tan": _in("trig", "tangent"),
    "tanh": _in("hyperbolic", "tanh"),
}

_NO_NEGATIVES = frozenset(["f8e8m0fnu"])


def emit_elementwise(
    opcode: str, attributes: Attributes, operand_types: Sequence[str], result_type: str, operands: Sequence[Register]
) -> Register:
    """Write elementwise `opcode` of `operands`, which have the same lanes; return its register.

    `operand_types` and `result_type` are HLO element types.  `attributes` are those of the instruction: ``direction``
    and ``type`` of compare, ``exponent_bits`` and ``mantissa_bits`` of reduce-precision; ``nonpositive`` says so of the
    operand of exponential.  Narrow floats are computed in f32 and rounded.
    Raises UnsupportedError for combinations that HLO does not define.
    """
    handler = _SPECIAL.get(opcode)
    if handler is not None:
        return handler(attributes, operand_types, result_type, operands)
    source = operand_types[0]
    if is_complex(source):
        return _complex(opcode, source, operands)
    return _real(opcode, source, [vector(operand) for operand in operands])


def _complex(opcode: str, source: str, operands: Sequence[Register]) -> Register:
    found: Register = _file("complex").emit(opcode, source, operands)
    return found


def _rounded(opcode: str, source: str, result: Vector) -> Vector:
    if is_low_precision(source) and (not ELEMENTWISE_OPCODES[opcode].exact or source in _NO_NEGATIVES):
        return lowprecision.round_result(result, source)
    return result


def _real(opcode: str, source: str, values: list[Vector]) -> Vector:
    """An operation whose operands and result all have real type `source`."""
    match kind(source):
        case "float" if opcode in FLOATS:
            return _rounded(opcode, source, FLOATS[opcode](*values))
        case "pred" if opcode == "not":
            return values[0] ^ 1
        case "pred" if opcode in integer.PRED:
            return values[0].binary(integer.PRED[opcode], integer.PRED[opcode], values[1])
        case "signed" | "unsigned" if opcode in integer.INTEGERS:
            return integer.INTEGERS[opcode](*values, source)
        case "signed" | "unsigned" if opcode in ("ceil", "floor", "round-nearest-afz", "round-nearest-even"):
            return values[0]
    raise _unsupported(opcode, source)


def _unsupported(opcode: str, element_type: str) -> UnsupportedError:
    return UnsupportedError(f"{opcode} is not defined for element type {element_type}")


Handler = Callable[[Attributes, Sequence[str], str, Sequence[Register]], Register]


def _chosen(mask: Vector, yes: Register, no: Register) -> Register:
    return joined([where(mask, a, b) for a, b in zip(parts(yes), parts(no), strict=True)])


def _clamp(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    if is_complex(result):
        return _complex_clamp(*operands)
    low, x, high = (vector(operand) for operand in operands)
    if is_float(result):
        return arithmetic.minimum(arithmetic.maximum(x, low), high)
    return _real("minimum", result, [_real("maximum", result, [x, low]), high])


def _complex_clamp(low: Register, x: Register, high: Register) -> Register:
    """By the real parts alone; of equal ones the lower bound, then the value."""
    raised = _chosen(parts(low)[0].compare("oge", parts(x)[0]), low, x)
    return _chosen(parts(raised)[0].compare("ole", parts(high)[0]), raised, high)


def _compare(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    direction = str(attributes["direction"])
    if direction not in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        raise UnsupportedError(f"compare direction {direction!r}")
    source = types[0]
    if is_complex(source):
        compared: Vector = _file("complex").compare(direction, source, operands)
        return compared
    a, b = (vector(operand) for operand in operands)
    if is_float(source):
        return arithmetic.compare(a, b, direction, attributes.get("type") == "TOTALORDER")
    return integer.compare(a, b, direction, kind(source) == "signed")


def _convert(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    (value,), (source,) = operands, types
    if isinstance(value, Vector):
        if not is_complex(result):
            return convert.convert(value, source, result)
        real = convert.convert(value, source, part_type(result))
        return real, real.like(0)
    if is_complex(result):
        return joined([convert.convert(part, part_type(source), part_type(result)) for part in value])
    if result == "pred":
        return value[0].ne(0) | value[1].ne(0)
    return convert.convert(value[0], part_type(source), result)


def _bitcast(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    (value,), (source,) = operands, types
    if source == result:
        return value
    if is_complex(source) or is_complex(result):
        cast: Register = _file("complex").bitcast(source, result, value)
        return cast
    return convert.bitcast(vector(value), source, result)


def _is_finite(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    if not is_float(types[0]):
        raise _unsupported("is-finite", types[0])
    return vector(operands[0]).fabs().lt(float("inf"))


def _imaginary(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    (value,) = operands
    return constant(value.f, result, value.lanes, 0) if isinstance(value, Vector) else value[1]


def _reduce_precision(
    attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]
) -> Register:
    bits = attributes["exponent_bits"], attributes["mantissa_bits"]
    exponent_bits, mantissa_bits = (int(str(b)) for b in bits)
    if not is_float(types[0]):
        raise _unsupported("reduce-precision", types[0])
    return convert.reduce_precision(vector(operands[0]), types[0], exponent_bits, mantissa_bits)


def _stochastic(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    if not is_float(types[0]) or kind(types[1]) != "unsigned":
        raise _unsupported("stochastic-convert", types[0])
    x, random = (vector(operand) for operand in operands)
    return convert.stochastic(x, types[0], random, types[1], result)


def _exponential(attributes: Attributes, types: Sequence[str], result: str, operands: Sequence[Register]) -> Register:
    source = types[0]
    if is_complex(source):
        return _complex("exponential", source, operands)
    value = vector(operands[0])
    if not attributes.get("nonpositive") or kind(source) != "float":
        return _real("exponential", source, [value])
    return _rounded("exponential", source, _file("exp").scaled_exponential(value, nonpositive=True))


_SPECIAL: dict[str, Handler] = {
    "bitcast-convert": _bitcast,
    "clamp": _clamp,
    "compare": _compare,
    "complex": lambda attributes, types, result, operands: (vector(operands[0]), vector(operands[1])),
    "convert": _convert,
    "copy": lambda attributes, types, result, operands: operands[0],
    "exponential": _exponential,
    "imag": _imaginary,
    "is-finite": _is_finite,
    "real": lambda attributes, types, result, operands: parts(operands[0])[0],
    "reduce-precision": _reduce_precision,
    "select": lambda attributes, types, result, operands: _chosen(vector(operands[0]), *operands[1:]),
    "stochastic-convert": _stochastic,
}
