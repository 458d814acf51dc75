"""Between which bounds the elements of values surely lie, whatever the inputs are.

Only what follows without rounding is said: literals and what moves them, indices, functions with a bounded image, and
integer arithmetic that cannot overflow.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hlotool.analysis.reducers import opcodes
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction

__all__ = ["Range", "ranges"]

_Number = int | float
_INF = math.inf
_LARGEST = 1 << 24  # elements of a literal that are looked at


class Range(NamedTuple):
    """Every element is at least `low` and at most `high`, or NaN, if `nan` says that this can be."""

    low: _Number
    high: _Number
    nan: bool = False

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high), self.nan or other.nan)


def ranges(computation: Computation) -> dict[Instruction, Range]:
    """The ranges of those instructions of which more is known than their element type, in one pass."""
    found: dict[Instruction, Range] = {}
    for instruction in computation:
        kind = ELEMENT_TYPES.get(instruction.shape.element_type)
        rule = _RULES.get(instruction.opcode)
        if rule is None or kind is None or not (kind.is_integer or kind.is_float):
            continue
        known = rule(instruction, [found.get(operand) or _of_type(operand) for operand in instruction.operands])
        whole = _of_type(instruction)
        if known is not None and known.low >= whole.low and known.high <= whole.high and known[:2] != whole[:2]:
            found[instruction] = known
    return found


def _of_type(instruction: Instruction) -> Range:
    """All that the element type can hold; no bounds for what is no array of numbers."""
    kind = ELEMENT_TYPES.get(instruction.shape.element_type)
    if kind is not None and kind.kind == "pred":
        return Range(0, 1)
    if kind is None or not kind.is_integer:
        return Range(-_INF, _INF, True)
    if kind.kind == "unsigned":
        return Range(0, (1 << kind.bits) - 1)
    return Range(-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1)


def _constant(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    values = instruction.literal.array
    if values is None or instruction.literal.elided or not 0 < values.size <= _LARGEST:
        return None
    kind = ELEMENT_TYPES[instruction.shape.element_type]
    if kind.is_integer:
        values = values.astype(np.int64) if kind.bits < 64 else values
        return Range(int(values.min()), int(values.max()))
    wide = values.astype(np.float64)
    numbers = wide[~np.isnan(wide)]
    return Range(float(numbers.min()), float(numbers.max()), numbers.size < wide.size) if numbers.size else None


def _iota(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    size = instruction.shape.dimensions[instruction.attributes["iota_dimension"]]
    kind = ELEMENT_TYPES[instruction.shape.element_type]
    return Range(0, size - 1) if 0 < size <= 1 << min(8, kind.bits - 1) or (kind.is_integer and size > 0) else None


def _moved(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    return operands[0]


def _joined(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    found = operands[0]
    for other in operands[1:]:
        found = found.union(other)
    return found


def _select(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    return operands[1].union(operands[2])


def _updated(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    return operands[0].union(operands[1])


def _clamp(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    """min(max(low, x), high): where the bounds cross, the upper one."""
    low, value, high = operands
    nan = low.nan or value.nan or high.nan
    return Range(min(max(value.low, low.low), high.low), min(max(value.high, low.high), high.high), nan)


def _maximum(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    one, other = operands
    return Range(max(one.low, other.low), max(one.high, other.high), one.nan or other.nan)


def _minimum(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    one, other = operands
    return Range(min(one.low, other.low), min(one.high, other.high), one.nan or other.nan)


def _abs(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    low, high, nan = operands[0]
    if ELEMENT_TYPES[instruction.shape.element_type].is_integer and low == _of_type(instruction).low:
        return None  # the smallest integer has no absolute value
    return Range(0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)), nan)


def _negate(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    return Range(-operands[0].high, -operands[0].low, operands[0].nan)


def _arithmetic(function: Callable[[_Number, _Number], _Number]) -> Callable[[Instruction, Sequence[Range]], Any]:
    """Sums and products of integers; those that may overflow are out of the range of the type, so nothing is known."""

    def rule(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
        if not ELEMENT_TYPES[instruction.shape.element_type].is_integer:
            return None
        corners = [function(one, other) for one in operands[0][:2] for other in operands[1][:2]]
        return Range(min(corners), max(corners))

    return rule


def _remainder(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    """The sign is that of the dividend; by zero, it is the dividend."""
    value, by = operands
    if not ELEMENT_TYPES[instruction.shape.element_type].is_integer or by.low <= 0:
        return None
    most = by.high - 1
    return Range(max(value.low, -most) if value.low < 0 else 0, min(value.high, most) if value.high > 0 else 0)


def _and(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    highs = [one.high for one in operands if one.low >= 0]
    return Range(0, min(highs)) if highs else None


def _counted(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    return Range(0, ELEMENT_TYPES[instruction.operands[0].shape.element_type].bits)


def _convert(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    """From integers, where the other type has all of them."""
    source = ELEMENT_TYPES[instruction.operands[0].shape.element_type]
    target = ELEMENT_TYPES[instruction.shape.element_type]
    low, high, _ = operands[0]
    if source.kind == "pred" or source.is_integer:
        exact = _of_type(instruction) if target.is_integer else Range(-256, 256)
        if target.is_float and target.bits >= 32:
            exact = Range(-(1 << 24), 1 << 24)
        small = target.is_float and target.bits < 16
        return operands[0] if not small and exact.low <= low and high <= exact.high else None
    return None


def _reduce(instruction: Instruction, operands: Sequence[Range]) -> Range | None:
    """The greatest or least of some elements and the initial value."""
    applied = opcodes(instruction.attributes["to_apply"])
    if len(operands) != 2 or applied not in (("maximum",), ("minimum",)):
        return None
    value, start = operands
    if applied == ("maximum",):
        return Range(start.low, max(value.high, start.high), value.nan or start.nan)
    return Range(min(value.low, start.low), start.high, value.nan or start.nan)


def _image(low: float, high: float, least: float = -_INF, most: float = _INF) -> Callable[..., Range]:
    """All that a function gives; of numbers below `least` and above `most`, and of NaN, that is NaN."""

    def rule(instruction: Instruction, operands: Sequence[Range]) -> Range:
        value = operands[0]
        return Range(low, high, value.nan or value.low < least or value.high > most)

    return rule


_RULES: dict[str, Callable[[Instruction, Sequence[Range]], Range | None]] = {
    "constant": _constant,
    "iota": _iota,
    **dict.fromkeys(
        ("broadcast", "reshape", "transpose", "reverse", "slice", "dynamic-slice", "copy", "opt-barrier"), _moved
    ),
    "concatenate": _joined,
    "pad": _updated,
    "dynamic-update-slice": _updated,
    "select": _select,
    "clamp": _clamp,
    "maximum": _maximum,
    "minimum": _minimum,
    "abs": _abs,
    "negate": _negate,
    "add": _arithmetic(lambda a, b: a + b),
    "subtract": _arithmetic(lambda a, b: a - b),
    "multiply": _arithmetic(lambda a, b: a * b),
    "remainder": _remainder,
    "and": _and,
    "popcnt": _counted,
    "count-leading-zeros": _counted,
    "convert": _convert,
    "reduce": _reduce,
    "exponential": _image(0, _INF),
    "sqrt": _image(0, _INF, least=0),
    "logistic": _image(0, 1),
    **dict.fromkeys(("tanh", "erf", "sign"), _image(-1, 1)),
    **dict.fromkeys(("sine", "cosine"), _image(-1, 1, least=-sys.float_info.max, most=sys.float_info.max)),
}
