"""Operand upcaster: dots and convolutions on operands of the type that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import replace_with
from hlotool.passes.simplify.algebra.conversion import holds_exactly

__all__ = ["OperandUpcaster"]


@dataclass(frozen=True, slots=True)
class OperandUpcaster:
    """Converts operands of dots and convolutions to the result's type, where that holds their values exactly.

    For targets without mixed products.  Not in the default pipeline: the CPU kernels read narrow operands as they are.
    """

    name: ClassVar[str] = "operand-upcaster"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for product in computation:
                if product.opcode not in ("dot", "convolution") or "algorithm" in product.attributes:
                    continue
                wide = product.shape.element_type
                narrow = {o.shape.element_type for o in product.operands} - {wide}
                if not narrow or not all(holds_exactly(wide, kind) for kind in narrow) or not log.allow():
                    continue
                build = Builder(computation, product, like=product)
                operands = [o if o.shape.element_type == wide else build.convert(o, wide) for o in product.operands]
                result = build.add(product.opcode, product.shape, operands, product.attributes)
                log.rewrite("upcast", product, result, f"operands become {wide}")
                replace_with(product, result)
                changed = True
        return changed
