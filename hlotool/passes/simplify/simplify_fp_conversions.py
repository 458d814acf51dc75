"""Simplify floating-point conversions: roundings to a narrower type and back are left out."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, rewrite, rule, rule_table

__all__ = ["SimplifyFPConversions"]


@dataclass(frozen=True, slots=True)
class SimplifyFPConversions:
    """Makes one conversion of several between floats that follow each other, and none where the first type returns.

    What a conversion to a narrower type in between would round away is kept, so results have excess precision, as in
    XLA by default.  Not in the default pipeline: here every result is rounded to its type.
    """

    name: ClassVar[str] = "simplify-fp-conversions"
    opcodes: ClassVar[frozenset[str]] = frozenset({"convert"})
    drops_roundings: ClassVar[bool] = True

    def run(self, module: Module, log: DecisionLog) -> bool:
        return rewrite(module, rule_table([skip_rounding]), log)


@rule("convert(inner: convert(source))", types="floats of any width")
def skip_rounding(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """convert(convert(x)) = convert(x) between floats, without the rounding in between."""
    if not all(ELEMENT_TYPES[i.shape.element_type].is_float for i in (source, inner)):
        return None
    return rewriter.convert(source, instruction.shape.element_type)
