"""Batching of what moves elements: broadcasts, reshapes, transposes, slices, pads, and slices at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlotool.ir import ELEMENT_TYPES, Instruction, array, dtype_of
from hlotool.ir.attributes import PaddingDimension, SliceDimension
from hlotool.passes.batching.batcher import Batcher, Rule
from hlotool.passes.batching.values import Leaf, Value, batched_shape, inserted, is_batched, shifted

__all__ = ["RULES"]


def _one(value: Value) -> tuple[Instruction, int]:
    """An array and where its batch is."""
    assert isinstance(value, Leaf)
    assert value.axis is not None
    return value.instruction, value.axis


def _broadcast(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    x, axis = _one(values[0])
    places = inserted([d + 1 for d in i.attributes["dimensions"]], axis, 0)
    return b.result(i, [x], 0, dimensions=places)


def _reshape(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    return b.result(i, [b.front(values[0])], 0)


def _bitcast(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """The bytes of an example lie together, in the order that its layout says, and the examples one after the other."""
    x = b.front(values[0])
    wanted = batched_shape(i.operands[0].shape, 0, b.size)
    if x.shape.layout != wanted.layout:
        x = b.build.add("copy", wanted, (x,))
    return b.result(i, [x], 0)


def _transpose(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    x, axis = _one(values[0])
    order = inserted(shifted(i.attributes["dimensions"], axis), axis, axis)
    return b.result(i, [x], axis, dimensions=order)


def _reverse(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    x, axis = _one(values[0])
    return b.result(i, [x], axis, dimensions=shifted(i.attributes["dimensions"], axis))


def _slice(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    x, axis = _one(values[0])
    ranges = i.attributes["slice"]
    return b.result(i, [x], axis, slice=(*ranges[:axis], SliceDimension(0, b.size), *ranges[axis:]))


def _concatenate(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    operands, axis = b.joined(values)
    return b.result(i, operands, axis, dimensions=shifted(i.attributes["dimensions"], axis))


def _pad(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """A value of each example's own is put in place of what was padded."""
    (x,), axis = b.joined(values[:1])
    ranges = i.attributes["padding"]
    padding = (*ranges[:axis], PaddingDimension(0, 0), *ranges[axis:])
    if not is_batched(values[1]):
        return b.result(i, [x, b.packed(values[1])], axis, padding=padding)
    build, sizes = b.build, inserted(i.shape.dimensions, axis, b.size)
    filler = b.spread(b.front(values[1]), axis, sizes)
    nothing = build.convert(build.scalar_constant(False, "pred"), i.shape.element_type)
    inside = build.splat(True, array("pred", x.shape.dimensions))
    padded = b.emit(i, batched_shape(i.shape, axis, b.size), [x, nothing], padding=padding)
    kept = build.add("pad", None, (inside, build.scalar_constant(False, "pred")), {"padding": padding})
    return Leaf(build.select(kept, padded, filler), axis)


# ---- slices at computed places


def _starts(b: Batcher, values: list[Value], rank: int) -> list[Leaf]:
    """The start of each dimension, where they are in one array or each by itself."""
    leaves = [value for value in values if isinstance(value, Leaf)]
    if rank and len(leaves) == 1 and leaves[0].instruction.shape.rank == 1 + (leaves[0].axis is not None):
        x, build = leaves[0], b.build
        if x.axis is None:
            parts = [build.slice(x.instruction, [n], [n + 1]) for n in range(rank)]
            return [Leaf(build.reshape(part, ())) for part in parts]
        rows = b.front(x)
        parts = [build.slice(rows, [0, n], [b.size, n + 1]) for n in range(rank)]
        return [Leaf(build.reshape(part, (b.size,)), 0) for part in parts]
    return leaves


def _table(b: Batcher, starts: list[Leaf]) -> Instruction:
    """The starts as a row for each example."""
    columns = [b.build.reshape(b.front(one), (b.size, 1)) for one in starts]
    return columns[0] if len(columns) == 1 else b.build.concatenate(columns, 1)


def _with_zero(b: Batcher, starts: list[Leaf], axis: int) -> list[Instruction]:
    """The starts, which all examples have in common, with one for the batch."""
    plain = [one.instruction for one in starts]
    zero = b.build.scalar_constant(0, plain[0].shape.element_type if plain else "s32")
    return [*plain[:axis], zero, *plain[axis:]]


def _dynamic_slice(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """A gather where the examples have starts of their own."""
    rank, sizes = i.shape.rank, i.attributes["dynamic_slice_sizes"]
    starts = _starts(b, values[1:], rank)
    if not any(map(is_batched, starts)):
        x, axis = _one(values[0])
        return b.result(
            i, [x, *_with_zero(b, starts, axis)], axis, dynamic_slice_sizes=inserted(sizes, axis, b.size)
        )  # fmt: skip
    assert isinstance(values[0], Leaf)
    x, own = values[0].instruction, values[0].axis
    attributes: dict[str, Any] = {
        "offset_dims": tuple(range(1, rank + 1)), "collapsed_slice_dims": (), "index_vector_dim": 1,
        "start_index_map": tuple(range(rank)), "slice_sizes": tuple(sizes),
    }  # fmt: skip
    if own is not None:
        attributes |= {
            "start_index_map": shifted(range(rank), own), "slice_sizes": inserted(sizes, own, 1),
            "operand_batching_dims": (own,), "start_indices_batching_dims": (0,),
        }  # fmt: skip
    shape = batched_shape(i.shape, 0, b.size)
    return Leaf(b.emit(i, shape, [x, _table(b, starts)], "gather", **attributes), 0)


def _dynamic_update_slice(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """A scatter where the examples have starts of their own, which are limited first: a scatter leaves out what is
    outside, a dynamic-update-slice moves it inside."""
    rank, build = i.shape.rank, b.build
    starts = _starts(b, values[2:], rank)
    if not any(map(is_batched, starts)):
        (x, update), axis = b.joined(values[:2])
        return b.result(i, [x, update, *_with_zero(b, starts, axis)], axis)
    x, update = b.front(values[0]), b.front(values[1])
    rows = _table(b, starts)
    kind = rows.shape.element_type
    most = (1 << ELEMENT_TYPES[kind].bits - (ELEMENT_TYPES[kind].kind == "signed")) - 1
    room = [n - m for n, m in zip(i.shape.dimensions, i.operands[1].shape.dimensions, strict=True)]
    limits = np.array([min(one, most) for one in room], dtype_of(kind))
    high = build.broadcast(build.constant(limits, kind), (1,), rows.shape.dimensions)
    inside = build.clamp(build.splat(0, rows.shape), rows, high)
    return Leaf(
        b.emit(
            i, batched_shape(i.shape, 0, b.size), [x, inside, update], "scatter",
            update_window_dims=tuple(range(1, rank + 1)), inserted_window_dims=(),
            scatter_dims_to_operand_dims=tuple(range(1, rank + 1)), input_batching_dims=(0,),
            scatter_indices_batching_dims=(0,), index_vector_dim=1, unique_indices=True,
            to_apply=b.work.combiner("second", i.shape.element_type),
        ), 0,
    )  # fmt: skip


# ---- gather and scatter


def _more(dimensions: tuple[int, ...] | None) -> tuple[int, ...]:
    return tuple([d + 1 for d in dimensions or ()])


def _gather(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """The batch of the operand is one more dimension of its slices, unless the indices have one too."""
    a = i.attributes
    names = ("offset_dims", "collapsed_slice_dims", "start_index_map")
    changed: dict[str, Any] = {name: _more(a.get(name)) for name in names}
    changed["operand_batching_dims"] = _more(a.get("operand_batching_dims"))
    sizes = tuple(a["slice_sizes"])
    operand, indices = values
    if not is_batched(indices):
        changed["offset_dims"] = (0, *changed["offset_dims"])
        changed["slice_sizes"] = (b.size, *sizes)
        return b.result(i, [b.front(operand), b.packed(indices)], 0, **changed)
    own: dict[str, Any] = {
        "start_indices_batching_dims": _more(a.get("start_indices_batching_dims")),
        "index_vector_dim": a["index_vector_dim"] + 1, "indices_are_sorted": None,
    }  # fmt: skip
    if not is_batched(operand):
        rows = [b.packed(operand), b.front(indices)]
        return b.result(i, rows, 0, offset_dims=changed["offset_dims"], **own)
    own["start_indices_batching_dims"] = (0, *_more(a.get("start_indices_batching_dims")))
    changed["operand_batching_dims"] = (0, *changed["operand_batching_dims"])
    changed["slice_sizes"] = (1, *sizes)
    return b.result(i, [b.front(operand), b.front(indices)], 0, **{**changed, **own})


def _scatter(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """The batch is one more dimension of the windows, unless the indices have one."""
    a, half = i.attributes, len(values) // 2
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims")
    changed: dict[str, Any] = {name: _more(a.get(name)) for name in names}
    arrays = [b.front(value) for value in values]
    indices = values[half]
    if not is_batched(indices):
        arrays[half] = b.packed(indices)
        changed["update_window_dims"] = (0, *changed["update_window_dims"])
        return b.result(i, arrays, 0, **changed)
    changed["input_batching_dims"] = (0, *changed["input_batching_dims"])
    changed["scatter_indices_batching_dims"] = (0, *_more(a.get("scatter_indices_batching_dims")))
    return b.result(
        i, arrays, 0, index_vector_dim=a["index_vector_dim"] + 1, indices_are_sorted=None, **changed
    )  # fmt: skip


RULES: dict[str, Rule] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
}
