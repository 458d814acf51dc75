"""Scales and shifts of the channels of a product: what is left of a batch norm, moved into weights and bias."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Literal, Module
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.quantise.products import channels_of, take_place

__all__ = ["FoldScales"]

_FLOATS = frozenset({"f32", "f64"})


@dataclass(frozen=True, slots=True)
class FoldScales:
    """Multiplies the constant weights of a dot or convolution by the constant scale of each channel of its result.

    ``product(x, w) * s`` becomes ``product(x, w * s)``, and so does ``(product(x, w) + b) * s``, with ``b * s`` added
    instead: what is left of a batch norm at inference, once it is expanded.  Results are rounded in other places.
    """

    name: ClassVar[str] = "fold-scales"
    changes_program: ClassVar[bool] = True
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot", "convolution"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for product in list(computation) if not computation.opcodes.isdisjoint(self.opcodes) else ():
                while product.opcode in self.opcodes and product.parent is not None:
                    new = _fold(product, log) if log.allow() else None
                    if new is None:
                        break
                    product, changed = new, True
        return changed


def _fold(product: Instruction, log: DecisionLog) -> Instruction | None:
    """Move one scale into the weights; the new product, or None where there is nothing to move."""
    channels = channels_of(product)
    kinds = {product.shape.element_type, *(operand.shape.element_type for operand in product.operands)}
    if channels is None or len(kinds) != 1 or not kinds <= _FLOATS or len(product.users) != 1 or product.is_root:
        return None
    weights = product.operands[channels.operand]
    scaled, shift = next(iter(product.users)), None
    if scaled.opcode in ("add", "subtract") and len(scaled.users) == 1 and not scaled.is_root:
        shift, scaled = scaled, next(iter(scaled.users))
        if shift.opcode == "subtract" and shift.operands[0] is not product:
            return None
    if scaled.opcode != "multiply" or weights.opcode != "constant" or weights.literal.elided:
        return None
    source = shift or product
    scale = _by_channel(scaled.operands[scaled.operands[0] is source], channels.result)
    if scale is None or scaled.operands[0] is scaled.operands[1]:
        return None
    bias = None
    if shift is not None:
        bias = _by_channel(shift.operands[shift.operands[0] is product], channels.result)
        if bias is None or shift.operands[0] is shift.operands[1]:
            return None
    spread = [1] * weights.shape.rank
    for axis, size in zip(channels.axes, scale.shape, strict=True):
        spread[axis] = size
    with np.errstate(all="ignore"):
        folded = np.asarray(weights.literal.value() * scale.reshape(spread), scale.dtype)
    if not np.isfinite(folded).all():
        log.refuse("fold-overflow", product, "a weight times its scale is not finite")
        return None
    assert scaled.parent is not None
    build = Builder(scaled.parent, scaled, like=product)
    operands = list(product.operands)
    beside = Builder(scaled.parent, scaled, like=weights)
    operands[channels.operand] = beside.constant(Literal(weights.shape.without_layout(), folded))
    new = build.add(product.opcode, product.shape, operands, product.attributes)
    result = new
    if shift is not None and bias is not None:
        moved = build.broadcast(build.constant(np.asarray(bias * scale)), channels.result, product.shape.dimensions)
        result = build.binary(shift.opcode, new, moved)
    take_place(product, new, result, scaled)
    log.rewrite("fold-scale", product, new, "its weights are multiplied by the scales of its channels")
    return new


def _by_channel(value: Instruction, result: tuple[int, ...]) -> npt.NDArray[np.floating[Any]] | None:
    """The constant that `value` broadcasts along dimensions `result`, with a number for each place in them."""
    if value.opcode != "broadcast" or value.operands[0].opcode != "constant" or value.operands[0].literal.elided:
        return None
    along = tuple(value.attributes.get("dimensions", ()))
    if not set(along) <= set(result) or list(along) != sorted(along):
        return None
    sizes = [value.shape.dimensions[axis] for axis in result]
    kept = [size if axis in along else 1 for axis, size in zip(result, sizes, strict=True)]
    return np.ascontiguousarray(np.broadcast_to(value.operands[0].literal.value().reshape(kept), sizes))
