"""Convolution group converter: grouped convolutions as one convolution for each group."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["ConvolutionGroupConverter"]

_COUNTS = ("feature_group_count", "batch_group_count")


@dataclass(frozen=True, slots=True)
class ConvolutionGroupConverter:
    """Rewrites convolutions of up to `max_groups` feature or batch groups as that many plain ones, joined.

    Group i reads its share of the input features (or of the batch) and of the kernel's output features.  Not in the
    default pipeline: the CPU kernels take groups as they are.
    """

    name: ClassVar[str] = "convolution-group-converter"
    opcodes: ClassVar[frozenset[str]] = frozenset({"convolution"})
    max_groups: int = 16

    def run(self, module: Module, log: DecisionLog) -> bool:
        def separate(build: Builder, convolution: Instruction) -> Instruction | None:
            groups = _groups(convolution)
            if groups > self.max_groups:
                log.refuse("many-groups", convolution, f"{groups} groups, more than {self.max_groups}")
                return None
            return None if groups == 1 else _separate(build, convolution, groups)

        def reason(convolution: Instruction) -> str:
            return f"{_groups(convolution)} convolutions, one for each group"

        return expand_each(module, log, self.opcodes, separate, "separate", reason, static=True)


def _groups(convolution: Instruction) -> int:
    return max(convolution.attributes.get(name) or 1 for name in _COUNTS)


def _separate(build: Builder, convolution: Instruction, groups: int) -> Instruction:
    left, kernel = convolution.operands
    attributes = {name: value for name, value in convolution.attributes.items() if name not in _COUNTS}
    labels = convolution.attributes["dim_labels"]
    by_batch = (convolution.attributes.get("batch_group_count") or 1) > 1
    shared = labels.input_batch if by_batch else labels.input_feature
    sizes = list(convolution.shape.dimensions)
    sizes[labels.output_feature] //= groups
    shape = array(convolution.shape.element_type, sizes)
    parts = []
    for number in range(groups):
        own = _share(build, left, shared, number, groups)
        weights = _share(build, kernel, labels.kernel_output_feature, number, groups)
        parts.append(build.add("convolution", shape, [own, weights], attributes))
    return build.concatenate(parts, labels.output_feature)


def _share(build: Builder, operand: Instruction, dimension: int, number: int, groups: int) -> Instruction:
    """Part `number` of as many as there are groups."""
    size = operand.shape.dimensions[dimension] // groups
    starts, limits = [0] * operand.shape.rank, list(operand.shape.dimensions)
    starts[dimension], limits[dimension] = number * size, (number + 1) * size
    return build.slice(operand, starts, limits)
