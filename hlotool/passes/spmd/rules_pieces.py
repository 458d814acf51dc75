"""Partitioning of what takes arrays apart and puts them together: slice, pad, concatenate, reverse.

Of a dimension that is divided, the tiles of the result do not begin where those of the operand do: what a device lacks
comes from others.
"""

from __future__ import annotations

from hlotool.ir import Instruction, PaddingDimension, Shape, SliceDimension
from hlotool.passes.spmd.axes import Axes, Chosen
from hlotool.passes.spmd.halo import Piece, filled_piece, halo_bytes, piece_of
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.tiling import Axis, tile_size
from hlotool.passes.spmd.values import Part, Value

__all__ = ["RULES"]


def _slice(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    (given,) = [o.shape for o in i.operands]
    rows: tuple[SliceDimension, ...] = i.attributes["slice"]
    labels = tuple(range(given.rank))
    whole = [row == SliceDimension(0, n) for row, n in zip(rows, given.dimensions, strict=True)]

    def piece(d: int, axis: Axis) -> Piece:
        row, tile = rows[d], tile_size(i.shape.dimensions[d], axis.count)
        starts = tuple([row.start + c * tile * row.stride for c in range(axis.count)])
        return Piece(starts, (tile - 1) * row.stride + 1)

    def halo(d: int, chosen: Chosen) -> int | None:
        return 0 if whole[d] else halo_bytes(piece(d, chosen.axes[d]), given, d, chosen.tiling(labels))

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        (part,) = parts
        x, ranges = part.local, list(rows)
        for d in labels:
            if d in chosen.axes and not whole[d]:
                own = piece(d, chosen.axes[d])
                x = piece_of(p, part, x, d, own)
                ranges[d] = SliceDimension(0, own.size, rows[d].stride)
            elif d in chosen.axes:
                ranges[d] = SliceDimension(0, x.shape.dimensions[d])
        return x if x.shape.dimensions == shape.dimensions else p.emit(i, shape, [x], slice=tuple(ranges))

    return p.divided(i, values, Axes((labels,), (labels,), halo=halo), local)


def _pad(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    given = i.operands[0].shape
    rows: tuple[PaddingDimension, ...] = i.attributes["padding"]
    labels = tuple(range(given.rank))

    def piece(d: int, axis: Axis) -> Piece:
        tile = tile_size(i.shape.dimensions[d], axis.count)
        starts = tuple([c * tile - rows[d].low for c in range(axis.count)])
        return Piece(starts, tile, rows[d].interior + 1)

    def halo(d: int, chosen: Chosen) -> int | None:
        if rows[d] == PaddingDimension(0, 0):
            return 0
        return halo_bytes(piece(d, chosen.axes[d]), given, d, chosen.tiling(labels))

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        part, value = parts
        x, left = part.local, list(rows)
        for d, axis in sorted(chosen.axes.items()):
            left[d] = PaddingDimension(0, 0)
            if rows[d] != PaddingDimension(0, 0):
                x = filled_piece(p, part, x, d, piece(d, axis), value.local)
        if all(row == PaddingDimension(0, 0) for row in left):
            return x
        return p.emit(i, shape, [x, value.local], padding=tuple(left))

    return p.divided(i, values, Axes((labels, ()), (labels,), halo=halo), local)


def _concatenate(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Along the dimension in which arrays are put together, each device gets of every array what is in its tile."""
    (along,) = i.attributes["dimensions"]
    labels = tuple(range(i.shape.rank))
    sizes = [o.shape.dimensions[along] for o in i.operands]
    begins = [sum(sizes[:n]) for n in range(len(sizes))]

    def piece(n: int, axis: Axis) -> Piece:
        tile = tile_size(i.shape.dimensions[along], axis.count)
        return Piece(tuple([c * tile - begins[n] for c in range(axis.count)]), tile)

    def halo(d: int, chosen: Chosen) -> int | None:
        if d != along:
            return 0
        axis, tiling = chosen.axes[d], chosen.tiling(labels)
        found = [halo_bytes(piece(n, axis), o.shape, d, tiling) for n, o in enumerate(i.operands)]
        return None if None in found else sum([one or 0 for one in found])

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        if along not in chosen.axes:
            return p.emit(i, shape, [part.local for part in parts])
        axis = chosen.axes[along]
        made: Instruction | None = None
        for n, part in enumerate(parts):
            own = piece(n, axis)
            x = piece_of(p, part, part.local, along, own)
            starts = [own.starts[c] for c in axis.places]
            made = x if made is None else p.within(x, along, starts, sizes[n], made)
        assert made is not None
        return made

    count = len(values)
    return p.divided(i, values, Axes((labels,) * count, (labels,), halo=halo), local)


def _reverse(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """A device reverses what it has: its tile is then as far from the end as it was from the beginning.  Tiles that are
    not even begin a little earlier, and what is missing comes from neighbours."""
    turned = i.attributes["dimensions"]
    labels = tuple(range(i.shape.rank))

    def piece(d: int, axis: Axis) -> Piece:
        size = i.shape.dimensions[d]
        tile = tile_size(size, axis.count)
        behind = axis.count * tile - size
        return Piece(tuple([c * tile - behind for c in range(axis.count)]), tile)

    def halo(d: int, chosen: Chosen) -> int | None:
        return 0 if d not in turned else halo_bytes(piece(d, chosen.axes[d]), i.shape, d, chosen.tiling(labels))

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        (part,) = parts
        x = part.local
        for d in sorted(turned):
            if d in chosen.axes:
                x = piece_of(p, part, x, d, piece(d, chosen.axes[d]))
        return p.emit(i, shape, [x])

    return p.divided(i, values, Axes((labels,), (labels,), mirrored=frozenset(turned), halo=halo), local)


RULES: dict[str, Rule] = {
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "reverse": _reverse,
}
