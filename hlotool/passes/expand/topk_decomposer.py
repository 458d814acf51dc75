"""TopK decomposer: topk as a sort and slices."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, array, element_type, scalar, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["TopkDecomposer", "ranking"]


@dataclass(frozen=True, slots=True)
class TopkDecomposer:
    """Rewrites topk as a stable sort of values with their positions, of which the first k are kept.

    Not in the default pipeline: the CPU code generator selects without sorting everything.
    """

    name: ClassVar[str] = "topk-decomposer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"topk"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "a sort and slices"
        return expand_each(module, log, self.opcodes, partial(_decompose, module), "topk", reason, static=True)


def _decompose(module: Module, build: Builder, topk: Instruction) -> Instruction:
    values = topk.operands[0]
    sizes = values.shape.dimensions
    last = len(sizes) - 1
    positions = build.iota(array(topk.shape.elements[1].element_type, sizes), last)
    descending = topk.attributes.get("largest") is not False
    order = module.add(ranking(values.shape.element_type, positions.shape.element_type, descending))
    ordered = build.add(
        "sort",
        tuple_shape([values.shape, positions.shape]),
        [values, positions],
        {"dimensions": (last,), "is_stable": True, "to_apply": order},
    )
    limits = (*sizes[:-1], topk.attributes["k"])
    return build.tuple([build.slice(build.gte(ordered, index), [0] * len(sizes), limits) for index in (0, 1)])


def ranking(values: str, positions: str, descending: bool) -> Computation:
    """Whether one (value, position) stands before another; floats in their total order."""
    computation = Computation(f"before_{values}")
    build = Builder(computation)
    left, right = (build.parameter(number, scalar(values)) for number in (0, 1))
    for number in (2, 3):
        build.parameter(number, scalar(positions))
    kind = "TOTALORDER" if element_type(values).is_float else None
    computation.root = build.compare(left, right, "GT" if descending else "LT", kind)
    return computation
