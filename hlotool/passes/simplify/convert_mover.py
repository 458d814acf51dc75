"""Move conversions to wider types towards the results: narrow data is moved, and products read it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.contraction import sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.passes.framework.rewriter import Rewriter, Rule, apply_rules, rule, rule_table
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
        changed = False
        for computation in module.callees_first():
            changed |= apply_rules(computation, _TABLE_BF16 if self.bf16 else _TABLE, log)
        return changed


def _widened(instruction: Instruction) -> Instruction | None:
    """What a conversion to a wider type that loses nothing converts."""
    if instruction.opcode != "convert":
        return None
    source = instruction.operands[0]
    wide, narrow = instruction.shape.element_type, source.shape.element_type
    smaller = ELEMENT_TYPES[narrow].bits < ELEMENT_TYPES[wide].bits
    return source if smaller and holds_exactly(wide, narrow) else None


@rule("transpose", "reverse", "dynamic-slice", "gather", reads="convert")
def move_narrow(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """move(convert(x)) = convert(move(x)) for a conversion to a wider type that nothing else reads."""
    inner, *indices = instruction.operands
    source = _widened(inner)
    if source is None or len(inner.users) != 1 or inner in indices:
        return None
    shape = instruction.shape.with_type(source.shape.element_type)
    moved = rewriter.make(instruction.opcode, shape, source, *indices, **instruction.attributes)
    return rewriter.convert(moved, instruction.shape.element_type)


@rule("concatenate", reads="convert")
def join_narrow(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """concatenate(convert(x), convert(y)) = convert(concatenate(x, y)) for conversions from one narrower type."""
    sources = [_widened(operand) for operand in instruction.operands]
    parts = [source for source in sources if source is not None]
    kinds = {part.shape.element_type for part in parts}
    if len(parts) < len(sources) or len(kinds) > 1 or any(len(o.users) != 1 for o in instruction.operands):
        return None
    shape = instruction.shape.with_type(kinds.pop())
    joined = rewriter.make("concatenate", shape, *parts, **instruction.attributes)
    return rewriter.convert(joined, instruction.shape.element_type)


def _narrow_dot(instruction: Instruction, rewriter: Rewriter, kinds: tuple[str, ...]) -> Instruction | None:
    sources = [_widened(operand) for operand in instruction.operands]
    left, right = sources
    if left is None or right is None or "algorithm" in instruction.attributes:
        return None
    kind, wide = left.shape.element_type, instruction.operands[0].shape.element_type
    if right.shape.element_type != kind or kind not in kinds or instruction.operands[1].shape.element_type != wide:
        return None
    result = instruction.shape.element_type
    if not wide == result == sum_type(kind, kind, result) == sum_type(wide, wide, result):
        return None
    return rewriter.make("dot", instruction.shape, left, right, **instruction.attributes)


@rule("dot", reads="convert")
def dot_of_narrow(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """dot(convert(x), convert(y)) = dot(x, y) for f16, s8 and s16 in the type that their products are added up in."""
    return _narrow_dot(instruction, rewriter, ("f16", "s8", "s16"))


@rule("dot", reads="convert")
def dot_of_bf16(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """dot(convert(x), convert(y)) = dot(x, y) for bf16 in f32, where subnormal numbers may count as zero."""
    return _narrow_dot(instruction, rewriter, ("bf16",))


RULES: tuple[Rule, ...] = (move_narrow, join_narrow, dot_of_narrow)
_TABLE = rule_table(RULES)
_TABLE_BF16 = rule_table((*RULES, dot_of_bf16))
