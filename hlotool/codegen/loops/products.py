"""Dots and convolutions as sums in loops: which elements of the operands an element of the result needs.

A target whose kernels of products are made of nodes, like those of any other fusion, traces them by these rules; it
computes what makes their operands where it reads them, and what becomes of their results where it makes them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from hlotool.analysis.contraction import dot_dimensions, sum_type
from hlotool.analysis.indexing import Atom, Condition, Index, constant
from hlotool.codegen.loops.nodes import Guards, Node, variables_of
from hlotool.codegen.loops.rules import Writer, partial_result, rule_of
from hlotool.codegen.loops.trace import Request, Rule, Tracer
from hlotool.ir import ConvDimensionNumbers, Instruction, Window, dtype_of

__all__ = ["PRODUCTS", "divided_dimension", "rule_with_products"]

_Places = tuple[tuple[Index, ...], tuple[Index, ...]]


def _taken(index: Sequence[Index], guards: Guards) -> int:
    return variables_of((*index, *(guard.index for guard in guards)))


def _dot(t: Tracer, dot: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    numbers, sizes = dot_dimensions(dot), dot.operands[0].shape.dimensions
    taken = _taken(index, guards)
    shared, free = len(numbers.lhs_batch), len(numbers.lhs_batch) + len(numbers.lhs_free)
    left = dict(zip((*numbers.lhs_batch, *numbers.lhs_free), index[:free], strict=True))
    right = dict(zip((*numbers.rhs_batch, *numbers.rhs_free), (*index[:shared], *index[free:]), strict=True))
    bound: list[Atom] = []
    outer: tuple[Atom, ...] = ()
    divided = divided_dimension(dot) if dot in t.parts else None
    for ours, theirs in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True):
        size, part = sizes[ours], constant(0)
        if ours == divided:
            size //= t.parts[dot]
            part, outer = t.dimension(t.parts[dot], taken)
            taken |= variables_of(outer)
        own, atoms = t.dimension(size, taken)
        taken |= variables_of(atoms)
        bound += atoms
        left[ours] = right[theirs] = own + part * size
    places = tuple(left[d] for d in range(len(left))), tuple(right[d] for d in range(len(right)))
    return (yield from _sum(t, dot, places, guards, (), bound, outer))


def divided_dimension(dot: Instruction) -> int | None:
    """The dimension of the left operand that a sum in parts divides, into as many as divide its size: the longest one.
    """
    sizes = dot.operands[0].shape.dimensions
    return max(dot_dimensions(dot).lhs_contracting, key=lambda d: sizes[d], default=None)


def _convolution(t: Tracer, conv: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
    """Window element w of output pixel o meets input element ``(o * stride + w * window_dilation - padding) /
    base_dilation``, where that is a whole number within the input."""
    numbers: ConvDimensionNumbers = conv.attributes["dim_labels"]
    input, kernel = (operand.shape.dimensions for operand in conv.operands)
    feature_groups = conv.attributes.get("feature_group_count", 1)
    batch_groups = conv.attributes.get("batch_group_count", 1)
    features = kernel[numbers.kernel_input_feature]
    output = index[numbers.output_feature]
    group = output // (kernel[numbers.kernel_output_feature] // (feature_groups * batch_groups))
    taken = _taken(index, guards)
    feature, atoms = t.dimension(features, taken)
    taken |= variables_of(atoms)
    bound = list(atoms)
    left: dict[int, Index] = {numbers.input_batch: index[numbers.output_batch], numbers.input_feature: feature}
    if feature_groups > 1:
        left[numbers.input_feature] = group * features + feature
    if batch_groups > 1:
        left[numbers.input_batch] = group * (input[numbers.input_batch] // batch_groups) + index[numbers.output_batch]
    right: dict[int, Index] = {numbers.kernel_input_feature: feature, numbers.kernel_output_feature: output}
    conditions: list[Condition] = []
    spatial = zip(numbers.input_spatial, numbers.kernel_spatial, numbers.output_spatial, strict=True)
    window = conv.attributes.get("window", Window()).dimensions
    taps: list[Atom] = []
    for w, (i, k, o) in zip(window, spatial, strict=True):
        tap, atoms = t.dimension(w.size, taken)
        taken |= variables_of(atoms)
        taps += atoms
        right[k] = tap * -1 + (w.size - 1) if w.reversal else tap
        x = index[o] * w.stride + tap * w.window_dilation - w.padding_low
        if w.base_dilation > 1:
            conditions.append(Condition(x % w.base_dilation, 0, 1))
            x = x // w.base_dilation
        conditions.append(Condition(x, 0, input[i]))
        left[i] = x
    places = tuple(left[d] for d in range(len(left))), tuple(right[d] for d in range(len(right)))
    return (yield from _sum(t, conv, places, guards, tuple(c for c in conditions if not c.always), [*taps, *bound]))


def _sum(
    t: Tracer, product: Instruction, places: _Places, guards: Guards, valid: Guards, bound: Sequence[Atom],
    outer: tuple[Atom, ...] = (),
) -> Generator[Request, Node, Node]:
    """The sum over `bound` of the products of the operands' elements at `places`, where `valid` holds; in the type that
    `sum_type` says, rounded once.  For all settings of `outer` there are such sums, which are added up in the end."""
    left, right = (operand.shape for operand in product.operands)
    wanted = product.shape.element_type
    kind = sum_type(left.element_type, right.element_type, wanted)
    zero = t.number(kind, dtype_of(kind).type(0))
    bound = tuple(atom for atom in bound if atom.high)
    if not left.size or not right.size or any(guard.never for guard in valid):
        return zero if wanted == kind else t.elementwise("convert", wanted, zero)
    factors: list[Node] = []
    for operand, place in zip(product.operands, places, strict=True):
        factor = yield operand, place, (*guards, *valid), 0
        factors.append(factor if factor.type == kind else t.elementwise("convert", kind, factor))
    total = t.node("reduce", kind, (*factors, zero, zero), bound=bound, guards=valid, slot=product)
    if outer:
        one = t.number(kind, dtype_of(kind).type(1))
        total = t.node("reduce", kind, (partial_result(t, total, outer), one, zero, zero), bound=outer, slot=product)
    return total if wanted == kind else t.elementwise("convert", wanted, total)


PRODUCTS: dict[str, Writer] = {"convolution": _convolution, "dot": _dot}


def rule_with_products(instruction: Instruction) -> Writer:
    """The rule of an instruction, products among them."""
    return PRODUCTS.get(instruction.opcode) or rule_of(instruction)
