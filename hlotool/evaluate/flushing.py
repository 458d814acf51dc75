"""Arithmetic that takes subnormal numbers for zeros: what native code does with the processor's flags set.

It concerns f32, f64 and bf16 (whose numbers f32 holds), and the parts of complex numbers.  Narrower floats are computed
in f32, where theirs are normal.  Instructions that only move, choose or reinterpret values leave them as they are; so
do conversions between types with the same exponents, and remainders, which need no rounding (but a subnormal divisor
is a zero).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlotool.evaluate.combiner import combiners_of
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.values import AnyArray, Operands, Value
from hlotool.ir import OPCODES, Instruction, dtype_of, element_type

__all__ = ["computes", "flushing"]

_SMALLEST_NORMAL: dict[np.dtype[Any], float] = {
    dtype_of("bf16"): 2.0**-126,
    dtype_of("f32"): 2.0**-126,
    dtype_of("f64"): 2.0**-1022,
}
_KEEP = frozenset(
    [
        "abs", "bitcast-convert", "complex", "imag", "is-finite", "negate", "real", "reduce-precision", "select",
        "stochastic-convert",
    ]
)  # fmt: skip
_KEEP_COMPLEX = _KEEP - {"abs"}
_EXPONENTS = {"f8e8m0fnu": 8, "bf16": 8, "f32": 8, "c64": 8, "f64": 11, "c128": 11}
_GROUPS = frozenset(["dot", "elementwise", "linalg", "reduction"])


def computes(instruction: Instruction) -> bool:
    """Whether an instruction computes with floats, as against moving them."""
    row = OPCODES[instruction.opcode]
    exact = instruction.attributes.get("type") == "TOTALORDER"  # which compares bits
    if instruction.opcode == "convert":
        source, target = (_EXPONENTS.get(i.shape.element_type) for i in (instruction.operands[0], instruction))
        exact = source == target
    called = instruction.attributes.get("to_apply") or instruction.attributes.get("scatter")
    if called is not None and combiners_of(called) is None:
        return False  # the instructions in there flush, if they compute
    is_complex = any(o.shape.is_array and element_type(o.shape.element_type).is_complex for o in instruction.operands)
    keep = _KEEP_COMPLEX if is_complex else _KEEP
    return row.group in _GROUPS and instruction.opcode not in keep and not exact


def flushing(rule: Rule) -> Rule:
    """`rule` on operands without subnormal numbers, and its result without them."""

    def flushed(instruction: Instruction, operands: Operands, context: Context) -> Value:
        if instruction.opcode == "remainder":
            return rule(instruction, [operands[0], _flush(operands[1])], context)
        return _flush(rule(instruction, [_flush(operand) for operand in operands], context))

    return flushed


def _flush(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(_flush(part) for part in value)
    if value.dtype.kind == "c":
        made = np.empty_like(value)
        made.real, made.imag = _flush_array(value.real), _flush_array(value.imag)
        return made
    return _flush_array(value)


def _flush_array(array: AnyArray) -> AnyArray:
    least = _SMALLEST_NORMAL.get(array.dtype)
    if least is None:
        return array
    zero = np.copysign(array.dtype.type(0), array)
    return np.asarray(np.where(np.abs(array) < array.dtype.type(least), zero, array))
