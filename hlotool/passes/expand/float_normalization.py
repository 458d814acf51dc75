"""Float normalisation: arithmetic on a narrow float type as arithmetic on a wider one."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.contraction import sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, HloError, Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["FloatNormalization"]

_ROUNDING = {n for n, row in ELEMENTWISE_OPCODES.items() if not row.exact and row.result != "written"} | {"dot"}


@dataclass(frozen=True, slots=True)
class FloatNormalization:
    """Computes elementwise operations and dots on floats of `type` in the wider `to`, and rounds each result.

    For targets without arithmetic on `type`; its values keep their type between operations, so results stay what they
    were.  Operations that do not round (a selection, a maximum, a comparison) are left alone.
    """

    name: ClassVar[str] = "float-normalization"
    type: str = "bf16"
    to: str = "f32"

    def __post_init__(self) -> None:
        for name in (self.type, self.to):
            if name not in ELEMENT_TYPES or not ELEMENT_TYPES[name].is_float:
                raise HloError(f"float-normalization: {name!r} is no floating-point type")
        if ELEMENT_TYPES[self.to].bits <= ELEMENT_TYPES[self.type].bits:
            raise HloError(f"float-normalization: {self.to} is no wider than {self.type}")

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, _ROUNDING, self._widened, "widen", f"{self.type} is computed in {self.to}")

    def _is_narrow(self, instruction: Instruction) -> bool:
        if not instruction.shape.is_array:
            return False
        shapes = [instruction.shape, *(o.shape for o in instruction.operands)]
        if instruction.opcode == "dot":
            return self._is_narrow_dot(instruction)
        return all(s.element_type == self.type for s in shapes)

    def _is_narrow_dot(self, dot: Instruction) -> bool:
        """Whether the products of a dot are summed in the wider type anyway."""
        if any(o.shape.element_type != self.type for o in dot.operands) or "algorithm" in dot.attributes:
            return False
        return sum_type(self.type, self.type, dot.shape.element_type) == self.to

    def _widened(self, build: Builder, instruction: Instruction) -> Instruction | None:
        if not self._is_narrow(instruction):
            return None
        operands = [build.convert(o, self.to) for o in instruction.operands]
        wide = instruction.shape.with_type(self.to)
        result = build.add(instruction.opcode, wide, operands, instruction.attributes)
        kind = instruction.shape.element_type
        return result if kind == self.to else build.convert(result, kind)
