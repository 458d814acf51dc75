"""Batching of collectives: every device has all examples, and what goes between devices goes for all at once."""

from __future__ import annotations

from hlotool.ir import Instruction, tuple_shape
from hlotool.passes.batching.batcher import Batcher, Rule, refusal
from hlotool.passes.batching.values import Leaf, Value, batched_shape, is_batched, shifted

__all__ = ["RULES"]


def _elementwise(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """For what sends arrays as they are: each keeps its batch where it is, and one without stays without."""
    if "slice_sizes" in i.attributes:
        raise refusal(i, "it writes into a part of its operand, at places that it is handed")
    leaves = [value for value in values if isinstance(value, Leaf)]
    shapes = [
        o.shape if leaf.axis is None else batched_shape(o.shape, leaf.axis, b.size)
        for leaf, o in zip(leaves, i.operands, strict=True)
    ]
    operands = [leaf.instruction for leaf in leaves]
    if not i.shape.is_tuple:
        return Leaf(b.emit(i, shapes[0], operands), leaves[0].axis)
    whole = b.emit(i, tuple_shape(shapes), operands)
    return tuple([Leaf(b.build.gte(whole, n), leaf.axis) for n, leaf in enumerate(leaves)])


def _along(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """For what joins or splits arrays along a dimension."""
    if any(o.shape.rank == 0 for o in i.operands):
        raise refusal(i, "it has a number among its arrays")
    operands, axis = b.joined(values)
    return b.result(i, operands, axis, dimensions=shifted(i.attributes["dimensions"], axis))


def _all_to_all(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    if i.attributes.get("dimensions"):
        return _along(b, i, values)
    operands, axis = b.joined(values)
    return b.result(i, operands, axis)


def _ragged_all_to_all(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Rows go where the same offsets and sizes send them: the batch is within them."""
    if any(map(is_batched, values[2:])):
        raise refusal(i, "every example has offsets and sizes of its own")
    arrays = [b.at(value, 1) for value in values[:2]]
    return b.result(i, [*arrays, *map(b.packed, values[2:])], 1)


RULES: dict[str, Rule] = {
    "all-reduce": _elementwise,
    "collective-broadcast": _elementwise,
    "collective-permute": _elementwise,
    "all-gather": _along,
    "reduce-scatter": _along,
    "all-to-all": _all_to_all,
    "ragged-all-to-all": _ragged_all_to_all,
}
