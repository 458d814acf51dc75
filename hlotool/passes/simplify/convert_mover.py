"""Move conversions to wider types towards the results: narrow data is moved, and products read it as it is."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.contraction import sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rewrite, rule, rule_table
from hlotool.passes.simplify.algebra.conversion import holds_exactly

__all__ = ["RULES", "ConvertMover"]


@dataclass(frozen=True, slots=True)
class ConvertMover:
    """Moves, joins, gathers and multiplies narrow numbers as they are, and converts what comes out.

    A conversion that loses nothing goes behind a transpose, reverse, dynamic-slice, gather or concatenate; and a dot
    of two arrays that were converted from one narrower type to the type that it adds up in reads them before that.
    With `bf16` it does so from bf16, too: matrix units count subnormal bf16 numbers as zero.
    """

    name: ClassVar[str] = "convert-mover"
    opcodes: ClassVar[frozenset[str]] = frozenset({"convert"})
    bf16: bool = False

    def run(self, module: Module, log: DecisionLog) -> bool:
        return rewrite(module, _TABLE_BF16 if self.bf16 else _TABLE, log)


def _widens(convert: Instruction) -> bool:
    """Whether a conversion is to a wider type and loses nothing."""
    wide, narrow = convert.shape.element_type, convert.operands[0].shape.element_type
    return ELEMENT_TYPES[narrow].bits < ELEMENT_TYPES[wide].bits and holds_exactly(wide, narrow)


@rule("transpose|reverse|dynamic-slice|gather(inner: convert(source), *indices)")
def move_narrow(
    instruction: Instruction, inner: Instruction, source: Instruction, indices: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """move(convert(x)) = convert(move(x)) for a conversion to a wider type that nothing else reads."""
    if not _widens(inner) or len(inner.users) != 1 or inner in indices:
        return None
    shape = instruction.shape.with_type(source.shape.element_type)
    moved = rewriter.make(instruction.opcode, shape, source, *indices, **instruction.attributes)
    return rewriter.convert(moved, instruction.shape.element_type)


@rule("concatenate(convert(_), *_)")
def join_narrow(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """concatenate(convert(x), convert(y)) = convert(concatenate(x, y)) for conversions from one narrower type."""
    operands = instruction.operands
    if any(o.opcode != "convert" or not _widens(o) or len(o.users) != 1 for o in operands):
        return None
    parts = [operand.operands[0] for operand in operands]
    kinds = {part.shape.element_type for part in parts}
    if len(kinds) > 1:
        return None
    shape = instruction.shape.with_type(kinds.pop())
    joined = rewriter.make("concatenate", shape, *parts, **instruction.attributes)
    return rewriter.convert(joined, instruction.shape.element_type)


def _narrow_dot(
    dot: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter, kinds: tuple[str, ...]
) -> Instruction | None:
    """The product of what `left` and `right` convert from one of `kinds`; None where that is another product."""
    x, y = left.operands[0], right.operands[0]
    kind, wide, result = x.shape.element_type, left.shape.element_type, dot.shape.element_type
    if not (_widens(left) and _widens(right)) or "algorithm" in dot.attributes:
        return None
    if y.shape.element_type != kind or kind not in kinds or right.shape.element_type != wide:
        return None
    if not wide == result == sum_type(kind, kind, result) == sum_type(wide, wide, result):
        return None
    return rewriter.make("dot", dot.shape, x, y, **dot.attributes)


@rule("dot(left: convert, right: convert)")
def dot_of_narrow(instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """dot(convert(x), convert(y)) = dot(x, y) for f16, s8 and s16 in the type that their products are added up in."""
    return _narrow_dot(instruction, left, right, rewriter, ("f16", "s8", "s16"))


@rule("dot(left: convert, right: convert)")
def dot_of_bf16(instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """dot(convert(x), convert(y)) = dot(x, y) for bf16 in f32, where subnormal numbers may count as zero."""
    return _narrow_dot(instruction, left, right, rewriter, ("bf16",))


RULES: tuple[Rule, ...] = (move_narrow, join_narrow, dot_of_narrow)
_TABLE = rule_table(RULES)
_TABLE_BF16 = rule_table((*RULES, dot_of_bf16))
