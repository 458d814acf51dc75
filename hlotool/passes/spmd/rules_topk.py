"""Partitioning of topk: the largest of what each device has, and of these the largest again."""

from __future__ import annotations

from hlotool.ir import Instruction, Shape, tuple_shape
from hlotool.passes.spmd.axes import Axes, Chosen
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.tiling import tile_size
from hlotool.passes.spmd.values import Part, Value, parts_of

__all__ = ["RULES", "topk"]


def topk(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """All dimensions but the last are independent.  Along that, where tiles are even and have as many elements as are
    looked for, devices tell each other what they find; of equal elements, the first ones stay in front."""
    given = i.operands[0].shape
    last = given.rank - 1
    if len(list(i.shape.leaves())) != 2:
        return None
    size, count = given.dimensions[last], next(i.shape.leaves()).dimensions[last]
    rows = tuple(range(last))

    def halo(label: int, chosen: Chosen) -> int | None:
        return None if label == last and tile_size(size, chosen.axes[label].count) < count else 0

    axes = Axes(((*rows, last),), ((*rows, None),) * 2, frozenset({last}), {last: size}, halo)
    return p.divided(i, values, axes, combine=_again)


def _again(p: Partitioner, i: Instruction, value: Value, axes: Axes, chosen: Chosen) -> Value:
    """Of what all devices of a group have found the largest, and where that was in the whole array."""
    found, places = parts_of(value)
    last = found.shape.rank - 1
    groups = p.groups(axes, chosen)
    candidates = p.all_gather(found.local, last, groups)
    kind = places.shape.element_type
    offset = p.offset(chosen.axes[last], i.operands[0].shape.dimensions[last])
    begin = p.build.broadcast(p.build.convert(offset, kind), (), places.local.shape.dimensions)
    numbers = p.all_gather(p.build.binary("add", places.local, begin), last, groups)
    shapes: list[Shape] = [part.local.shape for part in (found, places)]
    made = p.emit(i, tuple_shape(shapes), [candidates])
    picked = _picked(p, numbers, p.build.gte(made, 1))
    return Part(p.build.gte(made, 0), found.shape, found.tiling), Part(picked, places.shape, places.tiling)


def _picked(p: Partitioner, x: Instruction, places: Instruction) -> Instruction:
    """The elements of the last dimension at these places of it, row by row."""
    last = x.shape.rank - 1
    rows = tuple(range(last))
    return p.build.gather(x, p.build.reshape(places, (*places.shape.dimensions, 1)), {
        "offset_dims": (), "collapsed_slice_dims": (last,), "start_index_map": (last,), "index_vector_dim": last + 1,
        "operand_batching_dims": rows, "start_indices_batching_dims": rows, "slice_sizes": (1,) * (last + 1),
    })  # fmt: skip


RULES: dict[str, Rule] = {"topk": topk}
