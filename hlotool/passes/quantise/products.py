"""What a dot and a convolution have in common: an operand with weights, and the channels that they make."""

from __future__ import annotations

from math import prod

from hlotool.analysis.contraction import dot_dimensions
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import drop_dead

__all__ = ["PRODUCTS", "Channels", "channels_of", "free_axes", "take_place", "terms_of"]

PRODUCTS = frozenset({"dot", "convolution"})


@dataclass(frozen=True, slots=True)
class Channels:
    """Of a product with constant weights: which operand they are, the dimensions of it that are no part of the sums,
    and the dimensions of the result that these are, in the same order."""

    operand: int
    axes: tuple[int, ...]
    result: tuple[int, ...]


def free_axes(product: Instruction, operand: int) -> Channels:
    """The dimensions of an operand along which elements go into different results only."""
    if product.opcode == "convolution":
        labels = product.attributes["dim_labels"]
        if operand:
            return Channels(operand, (labels.kernel_output_feature,), (labels.output_feature,))
        return Channels(operand, (labels.input_batch,), (labels.output_batch,))
    d = dot_dimensions(product)
    batch, free = (d.rhs_batch, d.rhs_free) if operand else (d.lhs_batch, d.lhs_free)
    first = len(batch) + (len(d.lhs_free) if operand else 0)
    results = [*range(len(batch)), *range(first, first + len(free))]
    pairs = sorted(zip([*batch, *free], results, strict=True))
    return Channels(operand, tuple(axis for axis, _ in pairs), tuple(axis for _, axis in pairs))


def channels_of(product: Instruction) -> Channels | None:
    """The channels that constant weights make; None where no operand, or both, are constant, or a convolution has
    several groups along its batch."""
    constant = [number for number, operand in enumerate(product.operands) if operand.opcode == "constant"]
    if len(constant) != 1 or (product.opcode == "convolution" and constant != [1]):
        return None
    if product.attributes.get("batch_group_count", 1) != 1:
        return None
    return free_axes(product, constant[0])


def terms_of(product: Instruction) -> int:
    """How many products of two numbers one element of the result adds up, at most."""
    if product.opcode == "convolution":
        kernel, labels = product.operands[1].shape.dimensions, product.attributes["dim_labels"]
        return prod(size for axis, size in enumerate(kernel) if axis != labels.kernel_output_feature)
    sizes = product.operands[0].shape.dimensions
    return prod(sizes[axis] for axis in dot_dimensions(product).lhs_contracting)


def take_place(product: Instruction, new: Instruction, result: Instruction, old: Instruction | None = None) -> None:
    """Let all that reads `old`, which is made of `product` (or is it), read `result`, which is made of `new`.

    `new` takes over the name of `product`: people know products by their names.
    """
    name = product.name
    (old or product).replace_all_uses(result)
    drop_dead(old or product)
    if product.parent is None:
        new.name = name
