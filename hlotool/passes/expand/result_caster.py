"""Result caster: products that give a narrow type add up in a wider one, and are converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.contraction import sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import replace_with

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
        changed = False
        for computation in module.computations.values():
            for product in computation:
                if product.opcode not in ("dot", "convolution") or "algorithm" in product.attributes:
                    continue
                total = _total(product)
                if total == product.shape.element_type or not log.allow():
                    continue
                build = Builder(computation, product, like=product)
                wide = build.add(product.opcode, product.shape.with_type(total), product.operands, product.attributes)
                result = build.convert(wide, product.shape.element_type)
                log.rewrite("cast", product, result, f"it adds up in {total}")
                replace_with(product, result)
                changed = True
        return changed


def _total(product: Instruction) -> str:
    """The type in which a product adds up; its own where a conversion from that would be no rounding."""
    kind = product.shape.element_type
    left, right = (operand.shape.element_type for operand in product.operands)
    total = sum_type(left, right, kind)
    rows = ELEMENT_TYPES[kind], ELEMENT_TYPES[total]
    same_kind = rows[0].is_float == rows[1].is_float and rows[0].is_complex == rows[1].is_complex
    return total if same_kind and rows[0].bits < rows[1].bits else kind
