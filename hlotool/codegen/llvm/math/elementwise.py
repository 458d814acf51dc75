"""The front door: one elementwise HLO operation on vectors of compute values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hlotool.codegen.llvm.math import (
    arithmetic,
    convert,
    erf,
    exp,
    hyperbolic,
    integer,
    inverse,
    log,
    lowprecision,
    power,
    trig,
)
from hlotool.codegen.llvm.math import complex as complex_functions
from hlotool.codegen.llvm.math.elements import (
    Value,
    broadcast,
    compute_type,
    constant,
    from_memory,
    is_complex,
    is_float,
    is_low_precision,
    kind,
    memory_type,
    part_type,
    round_to,
    to_memory,
    vector,
)
from hlotool.codegen.llvm.values import Vector, where
from hlotool.codegen.llvm.writer import Function
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.ir.errors import UnsupportedError

__all__ = [
    "Value",
    "broadcast",
    "compute_type",
    "constant",
    "emit_elementwise",
    "from_memory",
    "memory_type",
    "round_to",
    "to_memory",
]

FLOAT_UNARY: dict[str, Callable[[Vector], Vector]] = {
    "abs": Vector.fabs,
    "acos": inverse.acos,
    "acosh": hyperbolic.acosh,
    "asin": inverse.asin,
    "asinh": hyperbolic.asinh,
    "atanh": hyperbolic.atanh,
    "cbrt": power.cbrt,
    "ceil": lambda x: x.call("ceil"),
    "cosh": hyperbolic.cosh,
    "cosine": trig.cosine,
    "erf": erf.erf,
    "exponential": exp.exponential,
    "exponential-minus-one": exp.exponential_minus_one,
    "floor": Vector.floor,
    "log": log.logarithm,
    "log-plus-one": log.logarithm_plus_one,
    "logistic": exp.logistic,
    "negate": Vector.__neg__,
    "round-nearest-afz": arithmetic.round_away,
    "round-nearest-even": Vector.round_even,
    "rsqrt": power.rsqrt,
    "sign": arithmetic.sign,
    "sine": trig.sine,
    "sinh": hyperbolic.sinh,
    "sqrt": Vector.sqrt,
    "tan": trig.tangent,
    "tanh": hyperbolic.tanh,
}

FLOAT_BINARY: dict[str, Callable[[Vector, Vector], Vector]] = {
    "add": lambda a, b: a + b,
    "atan2": inverse.atan2,
    "divide": lambda a, b: a / b,
    "maximum": arithmetic.maximum,
    "minimum": arithmetic.minimum,
    "multiply": lambda a, b: a * b,
    "power": power.power,
    "remainder": arithmetic.remainder,
    "subtract": lambda a, b: a - b,
}

_NO_NEGATIVES = frozenset(["f8e8m0fnu"])


def emit_elementwise(
    f: Function,
    opcode: str,
    attributes: Mapping[str, object],
    operand_types: Sequence[str],
    result_type: str,
    lanes: int,
    operands: Sequence[Value],
) -> Value:
    """Write elementwise `opcode` over `lanes` lanes; return its value of ``compute_type(result_type, lanes)``.

    `operand_types` and `result_type` are HLO element types; `operands` are compute values (a pair for complex
    types).  `attributes` are those of the instruction: ``direction`` and ``type`` of compare, ``exponent_bits``
    and ``mantissa_bits`` of reduce-precision; ``nonpositive`` says so of the operand of exponential.  Narrow floats are
    computed in f32 and rounded.
    Raises UnsupportedError for combinations that HLO does not define.
    """
    handler = _SPECIAL.get(opcode)
    if handler is not None:
        return handler(f, attributes, operand_types, result_type, lanes, operands)
    source = operand_types[0]
    if is_complex(source):
        return complex_functions.emit(f, opcode, source, lanes, operands)
    values = [vector(f, t, lanes, v) for t, v in zip(operand_types, operands, strict=True)]
    return _real(opcode, source, values).name


def _rounded(opcode: str, source: str, result: Vector) -> Vector:
    if is_low_precision(source) and (not ELEMENTWISE_OPCODES[opcode].exact or source in _NO_NEGATIVES):
        return lowprecision.round_result(result, source)
    return result


def _real(opcode: str, source: str, values: list[Vector]) -> Vector:
    """An operation whose operands and result all have real type `source`."""
    sort = kind(source)
    if sort == "float":
        if len(values) == 1 and opcode in FLOAT_UNARY:
            result = FLOAT_UNARY[opcode](values[0])
        elif len(values) == 2 and opcode in FLOAT_BINARY:
            result = FLOAT_BINARY[opcode](values[0], values[1])
        else:
            raise _unsupported(opcode, source)
        return _rounded(opcode, source, result)
    if sort == "pred":
        if opcode == "not":
            return values[0] ^ 1
        if len(values) == 2 and opcode in integer.PRED:
            word = integer.PRED[opcode]
            return values[0].binary(word, word, values[1])
        raise _unsupported(opcode, source)
    if len(values) == 1 and opcode in integer.UNARY:
        return integer.UNARY[opcode](values[0], source)
    if len(values) == 2 and opcode in integer.BINARY:
        return integer.BINARY[opcode](values[0], values[1], source)
    if opcode in ("ceil", "floor", "round-nearest-afz", "round-nearest-even"):
        return values[0]
    raise _unsupported(opcode, source)


def _unsupported(opcode: str, element_type: str) -> UnsupportedError:
    return UnsupportedError(f"{opcode} is not defined for element type {element_type}")


Attributes = Mapping[str, object]
Handler = Callable[[Function, Attributes, Sequence[str], str, int, Sequence[Value]], Value]


def _copy(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    return operands[0]


def _select(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    predicate, yes, no = operands
    mask = vector(f, "pred", lanes, predicate)
    if isinstance(yes, str):
        return where(mask, vector(f, result, lanes, yes), vector(f, result, lanes, no)).name
    part = part_type(result)
    real, imaginary = (
        where(mask, vector(f, part, lanes, a), vector(f, part, lanes, b)).name for a, b in zip(yes, no, strict=True)
    )
    return real, imaginary


def _clamp(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    if is_complex(result):
        return _complex_clamp(f, result, lanes, operands)
    low, x, high = (vector(f, result, lanes, v) for v in operands)
    if is_float(result):
        return arithmetic.clamp(low, x, high).name
    return _real("minimum", result, [_real("maximum", result, [x, low]), high]).name


def _complex_clamp(f: Function, result: str, lanes: int, operands: Sequence[Value]) -> Value:
    """By the real parts alone; of equal ones the lower bound, then the value."""
    part = part_type(result)

    def chosen(left: Value, right: Value, predicate: str) -> Value:
        mask = vector(f, part, lanes, left[0]).compare(predicate, vector(f, part, lanes, right[0]))
        real, imaginary = (
            where(mask, vector(f, part, lanes, a), vector(f, part, lanes, b)).name
            for a, b in zip(left, right, strict=True)
        )
        return real, imaginary

    low, x, high = operands
    return chosen(chosen(low, x, "oge"), high, "ole")


def _compare(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    direction = str(attributes["direction"])
    if direction not in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        raise UnsupportedError(f"compare direction {direction!r}")
    source = types[0]
    if is_complex(source):
        return complex_functions.compare(f, direction, source, lanes, operands)
    a, b = (vector(f, source, lanes, v) for v in operands)
    if is_float(source):
        return arithmetic.compare(a, b, direction, attributes.get("type") == "TOTALORDER").name
    return integer.compare(a, b, direction, kind(source) == "signed").name


def _convert(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    (value,), (source,) = operands, types
    if isinstance(value, str):
        part = part_type(result) if is_complex(result) else result
        real = convert.convert(vector(f, source, lanes, value), source, part).name
        if not is_complex(result):
            return real
        zero = constant(part, lanes, 0)
        assert isinstance(zero, str)
        return real, zero
    parts = [vector(f, part_type(source), lanes, v) for v in value]
    if is_complex(result):
        real, imaginary = (convert.convert(p, part_type(source), part_type(result)).name for p in parts)
        return real, imaginary
    if result == "pred":
        return (parts[0].ne(0) | parts[1].ne(0)).name
    return convert.convert(parts[0], part_type(source), result).name


def _bitcast(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    (value,), (source,) = operands, types
    if source == result:
        return value
    if is_complex(source) or is_complex(result):
        return complex_functions.bitcast(f, source, result, lanes, value)
    return convert.bitcast(vector(f, source, lanes, value), source, result).name


def _is_finite(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    if not is_float(types[0]):
        raise _unsupported("is-finite", types[0])
    return vector(f, types[0], lanes, operands[0]).fabs().lt(float("inf")).name


def _part(index: int) -> Handler:
    def handler(
        f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
    ) -> Value:
        value = operands[0]
        if not isinstance(value, str):
            return value[index]
        return value if index == 0 else constant(types[0], lanes, 0)

    return handler


def _complex(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    real, imaginary = operands
    assert isinstance(real, str)
    assert isinstance(imaginary, str)
    return real, imaginary


def _reduce_precision(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    bits = attributes["exponent_bits"], attributes["mantissa_bits"]
    exponent_bits, mantissa_bits = (int(str(b)) for b in bits)
    if not is_float(types[0]):
        raise _unsupported("reduce-precision", types[0])
    value = vector(f, types[0], lanes, operands[0])
    return convert.reduce_precision(value, types[0], exponent_bits, mantissa_bits).name


def _stochastic(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    if not is_float(types[0]) or kind(types[1]) != "unsigned":
        raise _unsupported("stochastic-convert", types[0])
    x, random = (vector(f, t, lanes, v) for t, v in zip(types, operands, strict=True))
    return convert.stochastic(x, types[0], random, types[1], result).name


def _exponential(
    f: Function, attributes: Attributes, types: Sequence[str], result: str, lanes: int, operands: Sequence[Value]
) -> Value:
    source = types[0]
    if is_complex(source):
        return complex_functions.emit(f, "exponential", source, lanes, operands)
    value = vector(f, source, lanes, operands[0])
    if not attributes.get("nonpositive") or kind(source) != "float":
        return _real("exponential", source, [value]).name
    return _rounded("exponential", source, exp.scaled_exponential(value, nonpositive=True)).name


_SPECIAL: dict[str, Handler] = {
    "bitcast-convert": _bitcast,
    "clamp": _clamp,
    "compare": _compare,
    "complex": _complex,
    "convert": _convert,
    "copy": _copy,
    "exponential": _exponential,
    "imag": _part(1),
    "is-finite": _is_finite,
    "real": _part(0),
    "reduce-precision": _reduce_precision,
    "select": _select,
    "stochastic-convert": _stochastic,
}
