"""Sort keys: unsigned integers in the order of a comparator.

The comparators that frameworks write (a plain compare; the same on floats with zeros and NaNs made equal; several
keys one after the other) are recognised, and each key is mapped to an unsigned integer whose order is the
comparator's, so that the sort itself never calls it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hlotool.codegen.llvm.math.elements import kind
from hlotool.codegen.llvm.math.vector import flushes
from hlotool.codegen.llvm.values import Vector, where
from hlotool.ir import Computation, Instruction, byte_size, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["Key", "emit_key", "key_bits", "recognise"]

_INFINITY = {"bf16": 0x7F80, "f16": 0x7C00, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
_SMALLEST_NORMAL = {"bf16": 0x80, "f32": 0x800000, "f64": 0x10000000000000}  # of those that a comparison flushes

_MOVES = ("bitcast", "copy", "reshape")


@dataclass(frozen=True, slots=True)
class Key:
    """Compare operand number `operand`; `canonical`: zeros are equal, and NaNs are equal and greatest; subnormal
    numbers are zeros where denormals are flushed."""

    operand: int
    element_type: str
    descending: bool
    canonical: bool


def key_bits(element_type: str) -> int:
    """Bits of the key of an element type."""
    return byte_size(element_type) * 8


def emit_key(key: Key, x: Vector) -> Vector:
    """Code from the bits of elements (i<n>) to their keys (i<n>), in unsigned ascending order."""
    bits = key_bits(key.element_type)
    top = 1 << (bits - 1)
    unused = bits - element_type(key.element_type).bits
    if unused and kind(key.element_type) in ("signed", "unsigned"):
        x = x.shl(unused)  # what the byte of a narrow type holds above its bits does not count
    match kind(key.element_type):
        case "signed":
            x = x ^ top
        case "float":
            if key.canonical:
                size, infinity = x & (top - 1), _INFINITY[key.element_type]
                x = where(size.compare("ult", _least(key.element_type, x)), 0, x)
                x = where(size.compare("ugt", infinity), infinity + 1, x)
            x = x ^ (x.ashr(bits - 1) | top)
    return ~x if key.descending else x


def _least(element_type: str, x: Vector) -> int:
    """The bits of the smallest number that a comparison takes for another than zero."""
    return _SMALLEST_NORMAL.get(element_type, 1) if flushes(x.f.unit) else 1


def recognise(comparator: Computation) -> tuple[Key, ...]:
    """The keys that `comparator` compares, most significant first; () when it is of another form."""
    return tuple(_keys(comparator.root) or ())


def _keys(root: Instruction) -> list[Key] | None:
    root = _plain(root)
    if root.opcode == "compare":
        key = _key(root)
        return None if key is None else [key]
    if root.opcode != "or":
        return None
    for first, rest in (root.operands, root.operands[::-1]):
        first, rest = _plain(first), _plain(rest)
        if first.opcode != "compare" or rest.opcode != "and":
            continue
        key = _key(first)
        for equal, tie in (rest.operands, rest.operands[::-1]):
            if key is not None and _is_equality(_plain(equal), key):
                others = _keys(tie)
                return None if others is None else [key, *others]
    return None


def _key(compare: Instruction) -> Key | None:
    sides = _sides(compare)
    direction = compare.attributes["direction"]
    if len(sides) < 2 or direction not in ("LT", "GT"):
        return None
    (left, canonical), (right, same) = sides
    if left // 2 != right // 2 or left == right or canonical != same:
        return None
    element_type = compare.operands[0].shape.element_type
    if kind(element_type) == "complex":
        return None
    if kind(element_type) == "float":
        # NaNs are unordered in a plain compare; no order is promised for them then.
        canonical = canonical or compare.attributes.get("type") != "TOTALORDER"
        if element_type not in _INFINITY:
            return None
    return Key(left // 2, element_type, (direction == "GT") == (left < right), canonical)


def _is_equality(compare: Instruction, key: Key) -> bool:
    if compare.opcode != "compare" or compare.attributes["direction"] != "EQ":
        return False
    sides = _sides(compare)
    if {number for number, _ in sides} != {2 * key.operand, 2 * key.operand + 1}:
        return False
    if kind(key.element_type) != "float":
        return True
    total = compare.attributes.get("type") == "TOTALORDER"
    return all(canonical or not total for _, canonical in sides) if key.canonical else total


def _sides(compare: Instruction) -> list[tuple[int, bool]]:
    return [side for operand in compare.operands if (side := _side(operand)) is not None]


def _side(value: Instruction) -> tuple[int, bool] | None:
    """(parameter number, canonicalised) when `value` is a parameter, perhaps with zeros and NaNs made equal."""
    value = _plain(value)
    if value.opcode == "parameter":
        return value.parameter_number, False
    if value.opcode != "select" or kind(value.shape.element_type) != "float":
        return None
    is_nan, nan, rest = (_plain(o) for o in value.operands)
    if not (_is_compare(is_nan, "NE") and _constant(nan, math.isnan) and rest.opcode == "select"):
        return None
    is_zero, zero, parameter = (_plain(o) for o in rest.operands)
    if not (_is_compare(is_zero, "EQ") and _constant(zero, lambda v: v == 0) and parameter.opcode == "parameter"):
        return None
    # What has zeros made equal is NaN where the parameter is: either may be tested for that.
    tested = {id(_plain(o)) for o in is_nan.operands}
    if not tested <= {id(parameter), id(rest)} or _plain(is_zero.operands[0]) is not parameter:
        return None
    if not _constant(_plain(is_zero.operands[1]), lambda v: v == 0):
        return None
    return parameter.parameter_number, True


def _plain(value: Instruction) -> Instruction:
    while value.opcode in _MOVES and value.shape.element_type == value.operands[0].shape.element_type:
        value = value.operands[0]
    return value


def _is_compare(value: Instruction, direction: str) -> bool:
    return (
        value.opcode == "compare"
        and value.attributes["direction"] == direction
        and value.attributes.get("type") != "TOTALORDER"
    )


def _constant(value: Instruction, test: Callable[[float], bool]) -> bool:
    if value.opcode != "constant":
        return False
    array = value.literal.array
    return array is not None and array.size == 1 and test(float(array.reshape(-1)[0]))
