"""Shape rules of elementwise operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.ir.shape import UNBOUNDED, Shape, row_major
from hlotool.ir.shape_checks import (
    Rule,
    ShapeError,
    any_dynamic,
    like,
    numeric_kind,
    require,
    require_array,
    same_dimensions,
)

__all__ = ["ELEMENTWISE"]

_REAL_OF = {"c64": "f32", "c128": "f64"}
_COMPARED = {"signed": ("SIGNED",), "unsigned": ("UNSIGNED",), "pred": ("UNSIGNED",)}
_COMPLEX_OF = {"f32": "c64", "f64": "c128"}


def _merge(opcode: str, operands: Sequence[Shape], start: int = 0) -> Shape:
    """The common dimensions of operands, numbered from `start`, that must agree in them, and in the element type."""
    first = operands[0]
    require_array(opcode, first, start)
    sizes, dynamic = list(first.dimensions), list(first.dynamic or (False,) * first.rank)
    for index, other in enumerate(operands[1:], start + 1):
        require_array(opcode, other, index)
        if other.element_type != first.element_type:
            raise ShapeError(
                f"{opcode} of {first.element_type} and {other.element_type}: operand types differ", f"operand:{index}"
            )
        if not same_dimensions(first, other):
            raise ShapeError(f"{opcode} of {first} and {other}: operand dimensions differ", f"operand:{index}")
        for number, size in enumerate(other.dimensions):
            sizes[number] = size if sizes[number] == UNBOUNDED else sizes[number]
            dynamic[number] |= bool(other.dynamic) and other.dynamic[number]
    flags = tuple(dynamic) if any(dynamic) else ()
    if (tuple(sizes), row_major(first.rank), flags) == (first.dimensions, first.layout, first.dynamic):
        return first
    return Shape(first.element_type, tuple(sizes), row_major(first.rank), (), flags)


def _require_kind(opcode: str, shape: Shape) -> None:
    row = ELEMENTWISE_OPCODES[opcode]
    require(numeric_kind(shape) in row.kinds, f"{opcode} works on {row.operands}, not on {shape.element_type}")


def _unary(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    operand = operands[0]
    require_array(opcode, operand, 0)
    _require_kind(opcode, operand)
    result = ELEMENTWISE_OPCODES[opcode].result
    if result == "pred":
        return like(operand, "pred")
    return like(operand, _REAL_OF.get(operand.element_type) if result == "part" else None)


def _binary(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    result = _merge(opcode, operands)
    _require_kind(opcode, result)
    return result


def _compare(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    result = _merge(opcode, operands)
    direction = attributes.get("direction")
    if numeric_kind(result) == "complex" and direction not in ("EQ", "NE"):
        raise ShapeError(f"complex numbers have no order: direction {direction}", "attribute:direction")
    written, wanted = attributes.get("type"), _COMPARED.get(numeric_kind(result), ("FLOAT", "TOTALORDER"))
    if written is not None and written not in wanted:
        message = f"{result.element_type} is compared as {' or '.join(wanted)}, not as {written}"
        raise ShapeError(message, "attribute:type")
    return like(result, "pred")


def _complex(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    result = _merge(opcode, operands)
    require(result.element_type in _COMPLEX_OF, f"complex works on f32 and f64, not on {result.element_type}")
    return like(result, _COMPLEX_OF[result.element_type])


def _select(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    predicate, *values = operands
    require_array(opcode, predicate, 0)
    require(predicate.element_type == "pred", f"select chooses by pred, not by {predicate}", "operand:0")
    result = _merge(opcode, values, 1)
    if not predicate.is_scalar and not same_dimensions(predicate, result):
        raise ShapeError(f"select by {predicate} of {result}: dimensions differ", "operand:0")
    return any_dynamic(result, [predicate])


def _clamp(opcode: str, operands: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    low, value, high = operands
    require_array(opcode, value, 1)
    for index, bound in ((0, low), (2, high)):
        require_array(opcode, bound, index)
        require(
            bound.element_type == value.element_type and (bound.is_scalar or same_dimensions(bound, value)),
            f"clamp of {value} between {low} and {high}: a bound must be a scalar or like the value",
            f"operand:{index}",
        )
    return any_dynamic(like(value), [low, high])


_BY_ARITY: dict[int, Rule] = {1: _unary, 2: _binary}
_OWN: dict[str, Rule] = {"compare": _compare, "complex": _complex, "select": _select, "clamp": _clamp}

ELEMENTWISE: dict[str, Rule] = {
    name: _OWN.get(name) or _BY_ARITY[row.arity] for name, row in ELEMENTWISE_OPCODES.items() if row.result != "written"
}
