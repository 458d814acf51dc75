"""Derivatives of products: dot and convolution.  Each is a product of the cotangent with the other operand.

The operands are put in the order in which the result has the dimensions of the operand in question, so that most
gradients of products need no transpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hlotool.ir import ELEMENT_TYPES, ConvDimensionNumbers, Instruction, Window
from hlotool.passes.autodiff.movement import each
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Writer, refusal

__all__ = ["RULES"]


def _same_type(at: Writer, a: Instruction, b: Instruction) -> tuple[Instruction, Instruction]:
    """Both in the wider type: a product may have a wider type than its operands."""
    types = a.shape.element_type, b.shape.element_type
    wide = max(types, key=lambda name: ELEMENT_TYPES[name].bits)
    return tuple(one if one.shape.element_type == wide else at.build.convert(one, wide) for one in (a, b))  # type: ignore[return-value]


def _as(at: Writer, value: Instruction, operand: Instruction) -> Instruction:
    element_type = operand.shape.element_type
    return value if value.shape.element_type == element_type else at.build.convert(value, element_type)


def _precision(product: Instruction) -> dict[str, Any]:
    """The precision that was asked for."""
    names = ("operand_precision", "algorithm")
    return {name: product.attributes[name] for name in names if name in product.attributes}


# ---- dot


def _dot(at: Reverse, dot: Instruction, cotangents: ByLeaf) -> None:
    attributes = dot.attributes
    batch = [tuple(attributes.get(f"{side}_batch_dims", ())) for side in ("lhs", "rhs")]
    over = [tuple(attributes.get(f"{side}_contracting_dims", ())) for side in ("lhs", "rhs")]
    free = [
        [d for d in range(operand.shape.rank) if d not in batch[n] and d not in over[n]]
        for n, operand in enumerate(dot.operands)
    ]
    g = cotangents[()]
    many = len(batch[0])
    of_batch = list(range(many))
    of_left = list(range(many, many + len(free[0])))
    of_right = list(range(many + len(free[0]), g.shape.rank))
    lhs, rhs = dot.operands
    if at.wants(lhs):  # (batch, free of lhs | free of rhs) x rhs
        left, right = _same_type(at, g, at.primal(rhs))
        value = _product(at, dot, left, right, (of_right, free[1]), (of_batch, batch[1]))
        order = [*batch[0], *free[0], *_sorted_like(over[0], over[1])]
        at.give(lhs, _as(at, _in_order(at, value, order), lhs))
    if at.wants(rhs):  # lhs x (batch, free of lhs | free of rhs)
        left, right = _same_type(at, at.primal(lhs), g)
        value = _product(at, dot, left, right, (free[0], of_left), (batch[0], of_batch))
        order = [*batch[1], *_sorted_like(over[1], over[0]), *free[1]]
        at.give(rhs, _as(at, _in_order(at, value, order), rhs))


def _product(
    at: Reverse,
    dot: Instruction,
    left: Instruction,
    right: Instruction,
    over: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]],
) -> Instruction:
    attributes = _precision(dot)
    if batch[0]:
        attributes |= {"lhs_batch_dims": tuple(batch[0]), "rhs_batch_dims": tuple(batch[1])}
    attributes |= {"lhs_contracting_dims": tuple(over[0]), "rhs_contracting_dims": tuple(over[1])}
    return at.build.add("dot", None, (left, right), attributes)


def _sorted_like(own: Sequence[int], other: Sequence[int]) -> list[int]:
    """The dimensions `own` in the order in which their partners in `other` come."""
    return [a for _, a in sorted(zip(other, own, strict=True))]


def _in_order(at: Writer, value: Instruction, dimensions: Sequence[int]) -> Instruction:
    """`value`, whose dimension i is number ``dimensions[i]`` of the operand, in the order of the operand."""
    if list(dimensions) == sorted(dimensions):
        return value
    return at.build.transpose(value, [list(dimensions).index(d) for d in range(len(dimensions))])


# ---- convolution


def _convolution(at: Reverse, conv: Instruction, cotangents: ByLeaf) -> None:
    if _count(conv, "feature") > 1 and _count(conv, "batch") > 1:
        raise refusal(conv, "it has groups of features and groups of batches")
    lhs, rhs = conv.operands
    g = cotangents[()]
    empty = 0 in (g.shape.size, lhs.shape.size, rhs.shape.size)
    for operand, derivative in ((lhs, _by_input), (rhs, _by_kernel)):
        if at.wants(operand):
            at.give(operand, at.zeros(operand.shape) if empty else _as(at, derivative(at, conv, g), operand))


def _count(conv: Instruction, what: str) -> int:
    return int(conv.attributes.get(f"{what}_group_count", 1))


def _window(conv: Instruction) -> Window:
    window: Window = conv.attributes.get("window", Window())
    return window


def _by_input(at: Reverse, conv: Instruction, g: Instruction) -> Instruction:
    """The cotangent, spread by the strides, convolved with the kernel the other way round."""
    lhs, rhs = conv.operands
    labels: ConvDimensionNumbers = conv.attributes["dim_labels"]
    kernel, groups = at.primal(rhs), _count(conv, "feature") * _count(conv, "batch")
    if groups > 1:
        kernel = _regrouped(at, kernel, labels.kernel_output_feature, labels.kernel_input_feature, groups)
    rows = []
    for row, into, out in zip(
        _window(conv).dimensions, _sizes(lhs, labels.input_spatial), _sizes(conv, labels.output_spatial), strict=True
    ):
        low = row.dilated_size - row.padding_low - 1
        whole = (into - 1) * row.base_dilation + row.dilated_size
        rows.append(
            replace(
                row, stride=row.base_dilation, base_dilation=row.stride, padding_low=low,
                padding_high=whole - ((out - 1) * row.stride + 1) - low, reversal=not row.reversal,
            )
        )  # fmt: skip
    numbers = ConvDimensionNumbers(
        labels.output_batch, labels.output_feature, labels.output_spatial,
        labels.kernel_output_feature, labels.kernel_input_feature, labels.kernel_spatial,
        labels.input_batch, labels.input_feature, labels.input_spatial,
    )  # fmt: skip
    attributes = {"window": Window(tuple(rows)), "dim_labels": numbers} | _precision(conv)
    if groups > 1:
        attributes["feature_group_count"] = groups
    value = at.build.add("convolution", None, _same_type(at, g, kernel), attributes)
    if _count(conv, "batch") > 1:
        value = _regrouped(at, value, labels.input_feature, labels.input_batch, groups)
    return value


def _by_kernel(at: Reverse, conv: Instruction, g: Instruction) -> Instruction:
    """The input convolved with the cotangent: batches are what is summed over, features those of the kernel."""
    lhs, _rhs = conv.operands
    labels: ConvDimensionNumbers = conv.attributes["dim_labels"]
    rows, turned = [], []
    for number, (row, into, out) in enumerate(
        zip(
            _window(conv).dimensions,
            _sizes(lhs, labels.input_spatial),
            _sizes(conv, labels.output_spatial),
            strict=True,
        )
    ):
        spread = (out - 1) * row.stride + 1
        high = spread - ((into - 1) * row.base_dilation + 1) + row.dilated_size - row.padding_low - 1
        rows.append(
            replace(
                row, size=out, stride=row.window_dilation, window_dilation=row.stride, padding_high=high, reversal=False
            )
        )
        if row.reversal:
            turned.append(labels.kernel_spatial[number])
    numbers = ConvDimensionNumbers(
        labels.input_feature, labels.input_batch, labels.input_spatial,
        labels.output_batch, labels.output_feature, labels.output_spatial,
        labels.kernel_input_feature, labels.kernel_output_feature, labels.kernel_spatial,
    )  # fmt: skip
    attributes: dict[str, Any] = {"window": Window(tuple(rows)), "dim_labels": numbers} | _precision(conv)
    groups: Mapping[str, int] = {"feature": _count(conv, "batch"), "batch": _count(conv, "feature")}
    attributes |= {f"{name}_group_count": count for name, count in groups.items() if count > 1}
    value = at.build.add("convolution", None, _same_type(at, at.primal(lhs), g), attributes)
    return at.build.reverse(value, turned) if turned else value


def _sizes(value: Instruction, dimensions: Sequence[int]) -> list[int]:
    return [value.shape.dimensions[d] for d in dimensions]


def _regrouped(at: Writer, value: Instruction, source: int, target: int, groups: int) -> Instruction:
    """The groups of dimension `source`, its major part, as the major part of dimension `target`."""
    sizes = list(value.shape.dimensions)
    split = [*sizes[:source], groups, sizes[source] // groups, *sizes[source + 1 :]]
    parted = at.build.reshape(value, split)
    rest = [d for d in range(len(split)) if d != source]
    place = rest.index(target if target < source else target + 1)
    moved = at.build.transpose(parted, [*rest[:place], source, *rest[place:]])
    sizes[source] //= groups
    sizes[target] *= groups
    return at.build.reshape(moved, sizes)


RULES: dict[str, Rule] = {"dot": Rule(_dot, each(0, 1)), "convolution": Rule(_convolution, each(0, 1))}

