"""Conversions between element types, and copies."""

from __future__ import annotations

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.passes.rewriter import Rewriter, Rule, rule

__all__ = ["RULES", "holds_exactly"]

_MANTISSA_AND_EXPONENT = {"bf16": (8, 8), "f16": (11, 5), "f32": (24, 8), "f64": (53, 11)}
"""Significand bits (the hidden one counted) and exponent bits."""


def holds_exactly(wide: str, narrow: str) -> bool:
    """Whether every value of type `narrow` is a value of type `wide`."""
    if wide == narrow:
        return True
    source, target = ELEMENT_TYPES[narrow], ELEMENT_TYPES[wide]
    if source.kind == "pred":
        return target.is_integer or wide in _MANTISSA_AND_EXPONENT
    if source.is_integer:
        magnitude = source.bits - (source.kind == "signed")
        if target.is_integer:
            signed = target.kind == "signed"
            return magnitude <= target.bits - signed and (signed or source.kind == "unsigned")
        mantissa, exponent = _MANTISSA_AND_EXPONENT.get(wide, (0, 0))
        return magnitude <= mantissa and magnitude < 2 ** max(exponent - 1, 0)
    if narrow in _MANTISSA_AND_EXPONENT and wide in _MANTISSA_AND_EXPONENT:
        return all(w >= n for w, n in zip(_MANTISSA_AND_EXPONENT[wide], _MANTISSA_AND_EXPONENT[narrow], strict=True))
    return False


@rule("convert", "bitcast-convert", "copy")
def same_type(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """A conversion to the type that x has, or a copy to its layout, is x."""
    operand = instruction.operands[0]
    same_layout = operand.shape == instruction.shape or None in (operand.shape.layout, instruction.shape.layout)
    return operand if same_layout and operand.shape.compatible(instruction.shape) else None


@rule("convert")
def convert_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """convert(convert(x)) is one conversion where the inner one loses nothing.

    Integers through a float to a smaller integer stay: a float saturates where an integer wraps.
    """
    inner = instruction.operands[0]
    if inner.opcode != "convert":
        return None
    source = inner.operands[0]
    first, middle, last = (s.shape.element_type for s in (source, inner, instruction))
    if not holds_exactly(middle, first):
        return None
    through_float = ELEMENT_TYPES[middle].is_float and not ELEMENT_TYPES[first].is_float
    if through_float and not ELEMENT_TYPES[last].is_float and not holds_exactly(last, first):
        return None
    return source if first == last else rewriter.make("convert", instruction.shape, source)


@rule("bitcast-convert")
def bitcast_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """bitcast-convert(bitcast-convert(x)) is one, or x itself, where the element size does not change."""
    inner = instruction.operands[0]
    if inner.opcode != "bitcast-convert":
        return None
    source = inner.operands[0]
    if not source.shape.dimensions == inner.shape.dimensions == instruction.shape.dimensions:
        return None
    if source.shape.element_type == instruction.shape.element_type:
        return source
    return rewriter.make("bitcast-convert", instruction.shape, source)


@rule("convert")
def convert_iota(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """convert(iota) is an iota of the new type, where both types hold every index."""
    inner = instruction.operands[0]
    if inner.opcode != "iota":
        return None
    last = inner.shape.dimensions[inner.attributes["iota_dimension"]] - 1
    if not (_counts_to(inner.shape.element_type, last) and _counts_to(instruction.shape.element_type, last)):
        return None
    return rewriter.make("iota", instruction.shape, **inner.attributes)


def _counts_to(element_type: str, last: int) -> bool:
    """Whether the type holds all of 0, 1, ..., last."""
    row = ELEMENT_TYPES[element_type]
    if row.is_integer:
        return last < 1 << (row.bits - (row.kind == "signed"))
    return last <= 1 << _MANTISSA_AND_EXPONENT.get(element_type, (0, 0))[0]


@rule("reduce-precision")
def precision_kept(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reduce-precision to at least the precision of the type is x."""
    operand = instruction.operands[0]
    mantissa, exponent = _MANTISSA_AND_EXPONENT.get(instruction.shape.element_type, (99, 99))
    enough = instruction.attributes["exponent_bits"] >= exponent
    return operand if enough and instruction.attributes["mantissa_bits"] >= mantissa - 1 else None


RULES: tuple[Rule, ...] = (same_type, convert_twice, bitcast_twice, convert_iota, precision_kept)
