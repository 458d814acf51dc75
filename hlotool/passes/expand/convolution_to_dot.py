"""Convolution to dot: convolutions of integers of eight bits as products of matrices."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Annotated, ClassVar

import numpy as np

from hlotool.analysis.costs import costs_of
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ConvDimensionNumbers, Instruction, Module, Window, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.simplify.algebra.conversion import as_bytes, byte_type

__all__ = ["GROUPED", "ConvolutionToDot"]

GROUPED: Annotated[int, Threshold("features")] = 8
"""Of a group of a convolution, from which on sums are long enough to be those of a dot."""


@dataclass(frozen=True, slots=True)
class ConvolutionToDot:
    """Rewrites convolutions of numbers of eight bits and less, with sums of 32, as dots with a row for each pixel.

    A row has the elements of the pixel's window ("im2col").  They are bytes, so that this copy is small beside what
    processors gain: their instructions for bytes add up several products along a sum, and a dot has them side by side.
    Operands may also be converted from such numbers, or constants that fit.  Groups of features are a batch of the dot.
    Groups of few features, those of images and dilated inputs stay as they are, and what is for a target whose costs
    say so.
    """

    name: ClassVar[str] = "convolution-to-dot"
    opcodes: ClassVar[frozenset[str]] = frozenset({"convolution"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        def reason(convolution: Instruction) -> str:
            return f"a row of {convolution.operands[1].shape.size // _features(convolution)} bytes for each pixel"

        return expand_each(module, log, self.opcodes, _expand, "rows", reason, static=True)


def _features(convolution: Instruction) -> int:
    features: int = convolution.shape.dimensions[convolution.attributes["dim_labels"].output_feature]
    return features


def _expand(build: Builder, convolution: Instruction) -> Instruction | None:
    if not _is_plain(convolution):
        return None
    kinds = [byte_type(operand) for operand in convolution.operands]
    if None in kinds:
        return None
    pairs = zip(convolution.operands, kinds, strict=True)
    image, kernel = (as_bytes(build.constant, operand, kind) for operand, kind in pairs if kind)
    labels: ConvDimensionNumbers = convolution.attributes["dim_labels"]
    rows, weights = _rows(build, image, convolution), _weights(build, kernel, labels)
    features, pixels, groups = _features(convolution), _pixels(convolution), _groups(convolution)
    sizes = [convolution.shape.dimensions[d] for d in (labels.output_batch, *labels.output_spatial)]
    order = [labels.output_batch, *labels.output_spatial]  # of the result's dimensions, as the dot has them
    share, batch = features // groups, () if groups == 1 else (groups,)
    if groups > 1:
        weights = build.reshape(weights, (groups, share, weights.shape.dimensions[1]))
        rows = build.reshape(rows, (pixels, groups, rows.shape.dimensions[1] // groups))
    left, right = (rows, 1), (weights, 0)  # each with its dimension of groups
    turned = labels.output_feature < max(labels.output_spatial, default=0)
    if turned:
        left, right = right, left
    inner = (len(batch) + 1,)
    dimensions = {"lhs_contracting_dims": inner, "rhs_contracting_dims": inner}
    if batch:
        dimensions |= {"lhs_batch_dims": (left[1],), "rhs_batch_dims": (right[1],)}
    shape = array("s32", (*batch, share, pixels) if turned else (*batch, pixels, share))
    dot = build.add("dot", shape, (left[0], right[0]), dimensions)
    if turned:
        order, sizes = [labels.output_feature, *order], [features, *sizes]
    else:
        dot = _transposed(build, dot, (1, 0, 2)) if batch else dot
        order, sizes = [*order, labels.output_feature], [*sizes, features]
    return _transposed(build, build.reshape(dot, sizes), [order.index(d) for d in range(len(order))])


def _pixels(convolution: Instruction) -> int:
    return prod(convolution.shape.dimensions) // _features(convolution)


def _groups(convolution: Instruction) -> int:
    groups: int = convolution.attributes.get("feature_group_count") or 1
    return groups


def _is_plain(convolution: Instruction) -> bool:
    """Whether this is a sum over windows in 32 bits, for a target where a dot is faster."""
    get = convolution.attributes.get
    labels: ConvDimensionNumbers = convolution.attributes["dim_labels"]
    few = _groups(convolution) > 1 and convolution.operands[1].shape.dimensions[labels.kernel_input_feature] < GROUPED
    grouped = few or (get("batch_group_count") or 1) > 1
    window = get("window", Window()).dimensions
    odd = any(d.base_dilation > 1 or d.reversal for d in window)
    empty = convolution.shape.size == 0 or any(o.shape.size == 0 for o in convolution.operands)
    return costs_of(convolution).byte_rows and convolution.shape.element_type == "s32" and not (grouped or odd or empty)


def _rows(build: Builder, image: Instruction, convolution: Instruction) -> Instruction:
    """The matrix with a row for each pixel of the result: its window, the features of each element side by side, for
    one group after the other."""
    labels: ConvDimensionNumbers = convolution.attributes["dim_labels"]
    window = convolution.attributes.get("window", Window()).dimensions
    image = _transposed(build, image, (labels.input_batch, *labels.input_spatial, labels.input_feature))
    if any(d.padding_low or d.padding_high for d in window):
        padding = [(0, 0), *((d.padding_low, d.padding_high) for d in window), (0, 0)]
        image = build.pad(image, build.scalar_constant(0, image.shape.element_type), padding)
    batch, features, groups = image.shape.dimensions[0], image.shape.dimensions[-1], _groups(convolution)
    result = [convolution.shape.dimensions[d] for d in labels.output_spatial]
    elements = []
    for place in product(*(range(d.size) for d in window)):
        starts = [at * d.window_dilation for at, d in zip(place, window, strict=True)]
        limits = [s + (n - 1) * d.stride + 1 for s, n, d in zip(starts, result, window, strict=True)]
        steps = (1, *(d.stride for d in window), 1)
        element = build.slice(image, (0, *starts, 0), (batch, *limits, features), steps)
        if groups > 1:
            element = build.reshape(element, (batch, *result, groups, features // groups))
        elements.append(element)
    last = elements[0].shape.rank - 1
    whole = elements[0] if len(elements) == 1 else build.concatenate(elements, last)
    return build.reshape(whole, (batch * prod(result), len(elements) * features))


def _weights(build: Builder, kernel: Instruction, labels: ConvDimensionNumbers) -> Instruction:
    """The matrix with a row for each output feature, in the order of the rows of the image."""
    order = (labels.kernel_output_feature, *labels.kernel_spatial, labels.kernel_input_feature)
    sizes = [kernel.shape.dimensions[d] for d in order]
    return build.reshape(_transposed(build, kernel, order), (sizes[0], prod(sizes[1:])))


def _transposed(build: Builder, value: Instruction, order: tuple[int, ...] | list[int]) -> Instruction:
    """`value` with another order of dimensions; a constant again if it is one."""
    if tuple(order) == tuple(range(len(order))):
        return value
    if value.opcode == "constant" and not value.literal.elided:
        return build.constant(np.ascontiguousarray(value.literal.value().transpose(order)), value.shape.element_type)
    return build.transpose(value, order)
