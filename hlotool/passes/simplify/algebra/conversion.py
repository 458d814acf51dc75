"""Conversions between element types, and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlotool.ir import ELEMENT_TYPES, Instruction
from hlotool.ir.elementwise import ROUNDINGS
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule

__all__ = ["RULES", "as_bytes", "byte_type", "holds_exactly"]

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


def byte_type(operand: Instruction) -> str | None:
    """The integer type of eight bits, or less, that has all numbers of an operand of a sum of 32 bits."""
    wide = operand.shape.element_type
    whole = ELEMENT_TYPES[wide].is_integer
    for source in (operand, *(operand.operands if operand.opcode == "convert" else ())):
        kind: str = source.shape.element_type
        # A conversion to fewer bits than sums have may wrap, as -1 does in u16; one to pred tells zeros from others.
        same = holds_exactly(wide, kind) or (whole and ELEMENT_TYPES[wide].bits >= 32)
        if ELEMENT_TYPES[kind].is_integer and ELEMENT_TYPES[kind].bits <= 8 and same:
            return kind
    if operand.opcode != "constant" or operand.literal.elided or not whole or not operand.shape.size:
        return None
    values = operand.literal.value()
    low, high = int(values.min()), int(values.max())
    return "s8" if low >= -128 and high < 128 else "u8" if low >= 0 and high < 256 else None


def as_bytes(constant: Callable[[Any, str], Instruction], operand: Instruction, kind: str) -> Instruction:
    """An operand as numbers of the type that `byte_type` says; `constant` makes one of an array and its type."""
    if operand.shape.element_type == kind:
        return operand
    if operand.opcode == "convert":
        return operand.operands[0]
    return constant(operand.literal.value().astype(ELEMENT_TYPES[kind].dtype), kind)



@rule("convert|bitcast-convert|copy(operand)")
def same_type(instruction: Instruction, operand: Instruction) -> Rewritten:
    """A conversion to the type that x has, or a copy to its layout, is x."""
    same_layout = operand.shape == instruction.shape or None in (operand.shape.layout, instruction.shape.layout)
    return operand if same_layout and operand.shape.compatible(instruction.shape) else None


@rule("convert(inner: convert(source))")
def convert_twice(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """convert(convert(x)) is one conversion where the inner one loses nothing.

    Integers through a float to a smaller integer stay: a float saturates where an integer wraps.
    """
    first, middle, last = (s.shape.element_type for s in (source, inner, instruction))
    if not holds_exactly(middle, first):
        return None
    through_float = ELEMENT_TYPES[middle].is_float and not ELEMENT_TYPES[first].is_float
    if through_float and not ELEMENT_TYPES[last].is_float and not holds_exactly(last, first):
        return None
    return source if first == last else rewriter.make("convert", instruction.shape, source)


@rule("bitcast-convert(inner: bitcast-convert(source))")
def bitcast_twice(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """bitcast-convert(bitcast-convert(x)) is one, or x itself, where the element size does not change."""
    if not source.shape.dimensions == inner.shape.dimensions == instruction.shape.dimensions:
        return None
    if source.shape.element_type == instruction.shape.element_type:
        return source
    return rewriter.make("bitcast-convert", instruction.shape, source)


@rule("convert(inner: iota)")
def convert_iota(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """convert(iota) is an iota of the new type, where both types hold every index."""
    last = inner.shape.dimensions[inner.attributes["iota_dimension"]] - 1
    if not (_counts_to(inner.shape.element_type, last) and _counts_to(instruction.shape.element_type, last)):
        return None
    return rewriter.make("iota", instruction.shape, **inner.attributes)


def _counts_to(element_type: str, last: int) -> bool:
    """Whether the type holds all of 0, 1, ..., last."""
    row = ELEMENT_TYPES[element_type]
    if row.kind == "pred":
        return False  # there is no iota of truth values
    if row.is_integer:
        return last < 1 << (row.bits - (row.kind == "signed"))
    return last <= 1 << _MANTISSA_AND_EXPONENT.get(element_type, (0, 0))[0]


@rule("reduce-precision(operand)")
def precision_kept(instruction: Instruction, operand: Instruction) -> Rewritten:
    """reduce-precision to at least the precision of the type is x."""
    mantissa, exponent = _MANTISSA_AND_EXPONENT.get(instruction.shape.element_type, (99, 99))
    enough = instruction.attributes["exponent_bits"] >= exponent
    return operand if enough and instruction.attributes["mantissa_bits"] >= mantissa - 1 else None


@rule(f"{'|'.join(ROUNDINGS)}(inner: convert(source))")
def rounding_of_integer(inner: Instruction, source: Instruction) -> Rewritten:
    """Rounding an integer that was converted to a float changes nothing."""
    row = ELEMENT_TYPES[source.shape.element_type]
    return inner if row.is_integer or row.kind == "pred" else None


@rule("is-finite(inner: convert(source))")
def finite_integer(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """An integer that was converted to a float that holds it is finite."""
    wide, narrow = inner.shape.element_type, source.shape.element_type
    fits = not ELEMENT_TYPES[narrow].is_float and holds_exactly(wide, narrow)
    return rewriter.splat(True, instruction.shape) if fits else None


@rule("is-finite(inner: convert(source))")
def finite_widened(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """A float is finite where it is finite after a lossless conversion."""
    wide, narrow = inner.shape.element_type, source.shape.element_type
    fits = ELEMENT_TYPES[narrow].is_float and holds_exactly(wide, narrow)
    return rewriter.make("is-finite", instruction.shape, source) if fits else None


@rule("reduce-precision(inner: reduce-precision)")
def precision_twice(instruction: Instruction, inner: Instruction) -> Rewritten:
    """reduce-precision to no less than what x was reduced to before is x."""
    keys = ("exponent_bits", "mantissa_bits")
    return inner if all(instruction.attributes[key] >= inner.attributes[key] for key in keys) else None


@rule("reduce-precision(inner: convert(source))")
def precision_of_widened(instruction: Instruction, inner: Instruction, source: Instruction) -> Rewritten:
    """reduce-precision to no less than the type that x was converted from is x."""
    found = _MANTISSA_AND_EXPONENT.get(source.shape.element_type)
    if found is None or not holds_exactly(inner.shape.element_type, source.shape.element_type):
        return None
    enough = instruction.attributes["exponent_bits"] >= found[1] and instruction.attributes["mantissa_bits"] >= found[0]
    return inner if enough else None


@rule("not(inner: convert(source))")
def complement_of_converted(inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """not(convert(x)) = convert(not(x)) where a narrower signed integer is widened to a signed one."""
    if len(inner.users) != 1:
        return None
    rows = [ELEMENT_TYPES[i.shape.element_type] for i in (source, inner)]
    if any(row.kind != "signed" for row in rows) or rows[0].bits > rows[1].bits:
        return None
    return rewriter.convert(rewriter.unary("not", source), inner.shape.element_type)


@rule("imag(inner)")
def imaginary_of_real(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """The imaginary part of a real number, converted or not, is 0."""
    source = inner.operands[0] if inner.opcode == "convert" else inner
    if ELEMENT_TYPES[source.shape.element_type].is_complex:
        return None
    return rewriter.splat(0, instruction.shape)


@rule("real(convert(source))")
def real_of_converted(instruction: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """real(convert(x)) of a real x is a conversion of x between real types."""
    if ELEMENT_TYPES[source.shape.element_type].is_complex:
        return None
    return rewriter.convert(source, instruction.shape.element_type)


RULES: tuple[Rule, ...] = (
    same_type, convert_twice, bitcast_twice, convert_iota, precision_kept, rounding_of_integer, finite_integer,
    finite_widened, precision_twice, precision_of_widened, complement_of_converted,
    imaginary_of_real, real_of_converted,
)  # fmt: skip
