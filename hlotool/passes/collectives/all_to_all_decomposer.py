"""All-to-all decomposer: the all-to-all of one array as one of its parts."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.ir.devices import device_groups, topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import places
from hlotool.passes.framework.graph import replace_with

__all__ = ["AllToAllDecomposer"]


@dataclass(frozen=True, slots=True)
class AllToAllDecomposer:
    """Rewrites an all-to-all that divides an array along a dimension: slices, an all-to-all of these, a concatenation.

    For runtimes that only exchange whole arrays.  Not in the default pipeline: the one here divides arrays itself.
    """

    name: ClassVar[str] = "all-to-all-decomposer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"all-to-all"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        topology = topology_of(module)
        for build, exchange in places(module, log, self.opcodes):
            if exchange.attributes.get("dimensions") and exchange.shape.is_array and exchange.shape.is_static:
                members = len(device_groups(exchange, topology)[0])
                result = _divided(build, exchange, members)
                log.rewrite("parts", exchange, result, "one array for each device", devices=members)
                replace_with(exchange, result)
                changed = True
        return changed


def _divided(build: Builder, exchange: Instruction, members: int) -> Instruction:
    (operand,), (along,) = exchange.operands, exchange.attributes["dimensions"]
    sizes = list(operand.shape.dimensions)
    step = sizes[along] // members
    part = array(operand.shape.element_type, [step if d == along else size for d, size in enumerate(sizes)])
    slices = []
    for number in range(members):
        starts = [number * step if d == along else 0 for d in range(len(sizes))]
        slices.append(build.slice(operand, starts, [s + n for s, n in zip(starts, part.dimensions, strict=True)]))
    attributes = {name: value for name, value in exchange.attributes.items() if name != "dimensions"}
    parts = build.add("all-to-all", tuple_shape([part] * members), slices, attributes)
    return build.concatenate([build.gte(parts, number) for number in range(members)], along)
