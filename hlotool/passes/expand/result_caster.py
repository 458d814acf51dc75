"""Result caster: products that give a narrow type add up in a wider one, and are converted."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.contraction import sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["ResultCaster"]


@dataclass(frozen=True, slots=True)
class ResultCaster:
    """Rewrites dots and convolutions to give the type in which they add up, and converts their result.

    For targets whose products write no other type.  Sums are rounded once, as before.  Not in the default pipeline:
    the CPU kernels round on the way to memory.
    """

    name: ClassVar[str] = "result-caster"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot", "convolution"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        def reason(product: Instruction) -> str:
            return f"it adds up in {_total(product)}"

        return expand_each(module, log, self.opcodes, _cast, "cast", reason)


def _cast(build: Builder, product: Instruction) -> Instruction | None:
    kind, total = product.shape.element_type, _total(product)
    if "algorithm" in product.attributes or total == kind:
        return None
    wide = build.add(product.opcode, product.shape.with_type(total), product.operands, product.attributes)
    return build.convert(wide, kind)


def _total(product: Instruction) -> str:
    """The type in which a product adds up; its own where a conversion from that would be no rounding."""
    kind = product.shape.element_type
    left, right = (operand.shape.element_type for operand in product.operands)
    total = sum_type(left, right, kind)
    rows = ELEMENT_TYPES[kind], ELEMENT_TYPES[total]
    same_kind = rows[0].is_float == rows[1].is_float and rows[0].is_complex == rows[1].is_complex
    return total if same_kind and rows[0].bits < rows[1].bits else kind
