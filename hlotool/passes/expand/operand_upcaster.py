"""Operand upcaster: dots and convolutions on operands of the type that they give."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.simplify.algebra.conversion import holds_exactly

__all__ = ["OperandUpcaster"]


@dataclass(frozen=True, slots=True)
class OperandUpcaster:
    """Converts operands of dots and convolutions to the result's type, where that holds their values exactly.

    For targets without mixed products.  Not in the default pipeline: the CPU kernels read narrow operands as they are.
    """

    name: ClassVar[str] = "operand-upcaster"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot", "convolution"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        def reason(product: Instruction) -> str:
            return f"operands become {product.shape.element_type}"

        return expand_each(module, log, self.opcodes, _upcast, "upcast", reason)


def _upcast(build: Builder, product: Instruction) -> Instruction | None:
    wide = product.shape.element_type
    narrow = {o.shape.element_type for o in product.operands} - {wide}
    if "algorithm" in product.attributes or not narrow or not all(holds_exactly(wide, kind) for kind in narrow):
        return None
    operands = [o if o.shape.element_type == wide else build.convert(o, wide) for o in product.operands]
    return build.add(product.opcode, product.shape, operands, product.attributes)
