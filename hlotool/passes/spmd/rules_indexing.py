"""Partitioning of gather, scatter, dynamic-slice and dynamic-update-slice.

Where the places that are read or written lie along a divided dimension, every device does what falls into its tile.
Facts: Xu et al. 2021, GSPMD (arXiv:2105.04663), section 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, array, tuple_shape
from hlotool.passes.spmd.axes import Axes, Chosen, Labels
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.rules_reduction import neutral_of
from hlotool.passes.spmd.tiling import Axis, tile_size
from hlotool.passes.spmd.values import Part, Value

__all__ = ["RULES"]


def _any(p: Partitioner, i: Instruction, value: Value, axes: Axes, chosen: Chosen) -> Value:
    """One device has what is looked for, the others have zeros."""
    assert isinstance(value, Part)
    bits, opcode = p.as_bits(value.local)
    kind = bits.shape.element_type
    wanted = p.wanted(i)
    part = Part(bits, value.shape.with_type(kind), value.tiling)
    made = p.all_reduced(part, axes, chosen, p.work.combiner(opcode, kind), wanted[0] if wanted else None)
    return Part(p.from_bits(made.local, value.shape.element_type), value.shape, made.tiling)


def _wide(p: Partitioner, indices: Instruction) -> Instruction:
    """Indices of a type with a sign in which all offsets have room."""
    row = ELEMENT_TYPES[indices.shape.element_type]
    if row.kind == "signed" and row.bits >= 32:
        return indices
    return p.build.convert(indices, "s64" if row.bits >= 32 else "s32")


def _splat(p: Partitioner, number: Instruction, like: Instruction) -> Instruction:
    """A number, s32[], in every element of an array of integers."""
    row = p.build.convert(number, like.shape.element_type) if like.shape.element_type != "s32" else number
    return p.build.broadcast(row, (), like.shape.dimensions) if like.shape.dimensions else row


def _column(
    p: Partitioner, indices: Instruction, vector: int, number: int, inside: Instruction, other: Instruction
) -> Instruction:
    """Elements of `inside` in one column of index vectors, of `other` in the rest."""
    if vector == indices.shape.rank:
        return inside
    index = array("s32", indices.shape.dimensions)
    here = p.build.compare(p.build.iota(index, vector), p.build.splat(number, index), "EQ")
    return p.build.select(here, inside, other)


# ---- gather


def _gather(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Windows of whole dimensions, and index vectors, are independent; where a part of a dimension is picked, the
    devices that have something of it give it to all."""
    a = i.attributes
    operand, indices = (o.shape for o in i.operands)
    vector: int = a["index_vector_dim"]
    collapsed, index_map = a["collapsed_slice_dims"], a["start_index_map"]
    batching = dict(zip(a.get("operand_batching_dims") or (), a.get("start_indices_batching_dims") or (), strict=True))
    offsets = sorted(a["offset_dims"])
    mine: list[int | None] = [None] * operand.rank
    result: list[int | None] = [None] * i.shape.rank
    batch = [d for d in range(i.shape.rank) if d not in offsets]
    own = [d for d in range(indices.rank) if d != vector]
    theirs: list[int | None] = [None] * indices.rank
    for d, made in zip(own, batch, strict=True):
        theirs[d] = result[made] = operand.rank + d
    for d, source in batching.items():
        mine[d] = theirs[source]
    windows = [d for d in range(operand.rank) if d not in collapsed and d not in batching]
    for d, made in zip(windows, offsets, strict=True):
        if a["slice_sizes"][d] == operand.dimensions[d]:
            mine[d] = result[made] = d
    picked = [d for d in index_map if d in collapsed or a["slice_sizes"][d] != operand.dimensions[d]]
    for d in picked:
        mine[d] = d

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        x, places = parts[0].local, parts[1].local
        sizes = list(a["slice_sizes"])
        for d in windows:
            if d in chosen.axes and d not in picked:
                sizes[d] = x.shape.dimensions[d]
        over = [d for d in picked if d in chosen.axes]
        if not over:
            return p.emit(i, shape, [x, places], slice_sizes=tuple(sizes))
        places = _wide(p, places)
        valid: Instruction | None = None
        for d in over:
            # where the index would be moved into the array, it is moved first
            beside = sizes[d] - 1
            highest = p.build.splat(operand.dimensions[d] - sizes[d], places.shape)
            inside = p.build.clamp(p.build.splat(0, places.shape), places, highest)
            offset = _splat(p, _moved(p, chosen.axes[d], operand.dimensions[d], beside), places)
            shifted = p.build.binary("subtract", inside, offset)
            places = _column(p, places, vector, index_map.index(d), shifted, places)
            column = _taken_column(p, places, vector, index_map.index(d))
            # with zeros beside its tile, a device finds zeros where it has nothing of a window
            begins = x.shape.dimensions[d] + beside
            x = p.padded(x, [(beside, beside) if e == d else (0, 0) for e in range(operand.rank)]) if beside else x
            good = p.build.compare(column, p.build.splat(0, column.shape), "GE")
            good = p.build.binary("and", good, p.build.compare(column, p.build.splat(begins, column.shape), "LT"))
            valid = good if valid is None else p.build.binary("and", valid, good)
        made = p.emit(i, shape, [x, places], slice_sizes=tuple(sizes))
        assert valid is not None
        mask = p.build.broadcast(valid, batch, shape.dimensions)
        zeros = p.build.broadcast(p.zero(shape.element_type), (), shape.dimensions)
        return p.build.select(mask, made, zeros)

    axes = Axes((tuple(mine), tuple(theirs)), (tuple(result),), frozenset(picked))
    return p.divided(i, values, axes, local, _any)


def _moved(p: Partitioner, axis: Axis, size: int, beside: int) -> Instruction:
    """Where the tile of this device begins, with `beside` elements more in front of it, as s32[]."""
    tile = tile_size(size, axis.count)
    return p.table([place * tile - beside for place in axis.places])


def _taken_column(p: Partitioner, places: Instruction, vector: int, number: int) -> Instruction:
    """One entry of each index vector."""
    if vector == places.shape.rank:
        return places
    sizes = places.shape.dimensions
    starts = [number if d == vector else 0 for d in range(len(sizes))]
    cut = p.build.slice(places, starts, [number + 1 if d == vector else n for d, n in enumerate(sizes)])
    return p.build.reshape(cut, [n for d, n in enumerate(sizes) if d != vector])


# ---- scatter


def _scatter_axes(i: Instruction, half: int, combines: bool) -> tuple[Labels, Labels, Labels, frozenset[int]]:
    """The axes of operands, of index vectors and of updates, and those along which updates are combined."""
    a = i.attributes
    operand, indices, updates = i.operands[0].shape, i.operands[half].shape, i.operands[half + 1].shape
    inserted, index_map = a["inserted_window_dims"], a["scatter_dims_to_operand_dims"]
    batching = dict(zip(a.get("input_batching_dims") or (), a.get("scatter_indices_batching_dims") or (), strict=True))
    window = sorted(a["update_window_dims"])
    mine: list[int | None] = [None] * operand.rank
    theirs: list[int | None] = [None] * indices.rank
    given: list[int | None] = [None] * updates.rank
    rows = [d for d in range(updates.rank) if d not in window]
    own = [d for d in range(indices.rank) if d != a["index_vector_dim"]]
    spread = set()
    for d, row in zip(own, rows, strict=True):
        shared = d in batching.values()
        if shared or (combines and index_map):
            theirs[d] = given[row] = operand.rank + d
            if not shared:
                spread.add(operand.rank + d)
    for d, source in batching.items():
        mine[d] = theirs[source]
    windows = [d for d in range(operand.rank) if d not in inserted and d not in batching]
    for d, row in zip(windows, window, strict=True):
        if updates.dimensions[row] == operand.dimensions[d]:
            mine[d] = given[row] = d
        elif d in index_map:
            mine[d] = d
    for d in inserted:
        if d in index_map:
            mine[d] = d
    return tuple(mine), tuple(theirs), tuple(given), frozenset(spread)


def _window_sizes(i: Instruction, half: int) -> list[int]:
    """How many elements are written along each dimension at once."""
    a, updates = i.attributes, i.operands[half + 1].shape.dimensions
    gone = {*a["inserted_window_dims"], *(a.get("input_batching_dims") or ())}
    rows = iter(sorted(a["update_window_dims"]))
    return [1 if d in gone else updates[next(rows)] for d in range(i.operands[0].shape.rank)]


def _in_tile(p: Partitioner, places: Instruction, axis: Axis, size: int, width: int) -> Instruction:
    """Where windows of `width` begin in a tile, with room for all of a window but one element in front of it.

    A window that is not in the array as a whole is not written: a place in front of that room."""
    inside = places
    if width > 1:
        good = p.build.compare(places, p.build.splat(size - width, places.shape), "LE")
        good = p.build.binary("and", good, p.build.compare(places, p.build.splat(0, places.shape), "GE"))
        inside = p.build.select(good, places, p.build.splat(-size - 1, places.shape))
    return p.build.binary("subtract", inside, _splat(p, _moved(p, axis, size, width - 1), places))


def _with_room(
    p: Partitioner, i: Instruction, xs: list[Instruction], rest: list[Instruction], beside: Sequence[int]
) -> Instruction:
    """A scatter onto `xs`, where windows that begin or end in the tiles of others have room beside this one."""
    wide = [p.padded(x, [(n, n) for n in beside]) if any(beside) else x for x in xs]
    shapes = [x.shape for x in wide]
    written = p.emit(i, tuple_shape(shapes) if i.shape.is_tuple else shapes[0], [*wide, *rest])
    if not any(beside):
        return written
    made = [p.build.gte(written, n) for n in range(len(xs))] if i.shape.is_tuple else [written]
    ends = [n + size for n, size in zip(beside, xs[0].shape.dimensions, strict=True)]
    made = [p.build.slice(x, beside, ends) for x in made]
    return p.build.tuple(made) if i.shape.is_tuple else made[0]


def _scatter(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Windows of whole dimensions are independent.  Along a dimension in which a part is written, a device writes what
    falls into its tile.  Updates that are divided are combined, where their operation is known."""
    half = len(values) // 2
    known = neutral_of(i) if half == 1 else None
    mine, theirs, given, spread = _scatter_axes(i, half, known is not None)
    vector: int = i.attributes["index_vector_dim"]
    index_map = i.attributes["scatter_dims_to_operand_dims"]
    sizes = i.operands[0].shape.dimensions
    widths = _window_sizes(i, half)
    picked = [d for d in index_map if d in mine and d not in given]

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        arrays, places, changes = parts[:half], parts[half].local, parts[half + 1 :]
        xs = [part.local for part in arrays]
        over = [d for d, label in enumerate(theirs) if label in chosen.axes and label in spread]
        moved = [d for d in picked if d in chosen.axes]
        if moved or over:
            places = _wide(p, places)
        beside = [widths[d] - 1 if d in moved else 0 for d in range(len(sizes))]
        for d in moved:
            shifted = _in_tile(p, places, chosen.axes[d], sizes[d], widths[d])
            places = _column(p, places, vector, index_map.index(d), shifted, places)
        # what stands behind the end of the index vectors is written nowhere
        if over:
            nowhere = p.build.scalar_constant(-1, places.shape.element_type)
            places = p.masked(Part(places, parts[half].shape, parts[half].tiling), over, nowhere)
            assert known is not None
            xs = [p.build.splat(known[0][1], x.shape) for x in xs]
        return _with_room(p, i, xs, [places, *[part.local for part in changes]], beside)

    def combine(p: Partitioner, i: Instruction, value: Value, axes: Axes, chosen: Chosen) -> Value:
        """What the updates come to, onto what was there."""
        assert isinstance(value, Part)
        assert known is not None
        opcode = known[0][0]
        wanted = p.wanted(i)
        reducer = p.work.combiner(opcode, value.shape.element_type)
        made = p.all_reduced(value, axes, chosen, reducer, wanted[0] if wanted else None)
        before = p.settled(values[0], i.operands[0].shape, [made.tiling])
        assert isinstance(before, Part)
        return Part(p.build.binary(opcode, before.local, made.local), made.shape, made.tiling)

    axes = Axes((*(mine,) * half, theirs, *(given,) * half), (mine,) * half, spread)
    return p.divided(i, values, axes, local, combine)


# ---- slices whose places are computed


def _start(p: Partitioner, start: Instruction, size: int, window: int) -> Instruction:
    """Where a slice begins, moved so that it lies inside, as s32[]."""
    wide = start if ELEMENT_TYPES[start.shape.element_type].bits >= 32 else p.build.convert(start, "s32")
    kind = wide.shape.element_type
    inside = p.build.clamp(
        p.build.scalar_constant(0, kind), wide, p.build.scalar_constant(size - window, kind)
    )
    return inside if kind == "s32" else p.build.convert(inside, "s32")


def _dynamic_slice(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Dimensions that are taken as a whole are independent; along others, devices give what they have of the slice."""
    given = i.operands[0].shape
    if len(values) != 1 + given.rank or any(o.shape.rank for o in i.operands[1:]):
        return None
    sizes: Sequence[int] = i.attributes["dynamic_slice_sizes"]
    labels = tuple(range(given.rank))
    partly = [d for d in labels if sizes[d] != given.dimensions[d]]
    result = tuple([None if d in partly else d for d in labels])

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        x = parts[0].local
        starts = [part.local for part in parts[1:]]
        for d in partly:
            if d not in chosen.axes:
                continue
            # with zeros around its tile, a device finds zeros where it has nothing of the slice
            x = p.padded(x, [(sizes[d], sizes[d]) if e == d else (0, 0) for e in labels])
            first = p.build.binary(
                "subtract",
                _start(p, starts[d], given.dimensions[d], sizes[d]),
                p.offset(chosen.axes[d], given.dimensions[d]),
            )
            starts[d] = p.build.binary("add", first, p.build.scalar_constant(sizes[d], "s32"))
        kinds = {start.shape.element_type for start in starts}
        if len(kinds) > 1:
            starts = [s if s.shape.element_type == "s32" else _start(p, s, n, k)
                      for s, n, k in zip(starts, x.shape.dimensions, shape.dimensions, strict=True)]
        return p.emit(i, shape, [x, *starts], dynamic_slice_sizes=shape.dimensions)

    axes = Axes((labels, *((),) * (len(values) - 1)), (result,), frozenset(partly))
    return p.divided(i, values, axes, local, _any)


def _dynamic_update_slice(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Dimensions that are replaced as a whole are independent; along others, a device takes of the update what falls
    into its tile."""
    update = i.operands[1].shape
    if len(values) != 2 + i.shape.rank or any(o.shape.rank for o in i.operands[2:]):
        return None
    labels = tuple(range(i.shape.rank))
    partly = [d for d in labels if update.dimensions[d] != i.shape.dimensions[d]]
    given = tuple([None if d in partly else d for d in labels])

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        x, y = parts[0].local, parts[1].local
        starts = [part.local for part in parts[2:]]
        if not any(d in chosen.axes for d in partly):
            return p.emit(i, shape, [x, y, *starts])
        inside: Instruction | None = None
        for d in partly:
            size, tile = update.dimensions[d], shape.dimensions[d]
            axis = chosen.axes.get(d, Axis(1, (0,) * p.devices))
            offset = p.offset(axis, i.shape.dimensions[d])
            first = p.build.binary("subtract", offset, _start(p, starts[d], i.shape.dimensions[d], size))
            y = p.padded(y, [(tile, tile) if e == d else (0, 0) for e in labels])
            begin = p.build.binary("add", first, p.build.scalar_constant(tile, "s32"))
            zero = p.build.scalar_constant(0, "s32")
            y = p.build.dynamic_slice(
                y, [begin if e == d else zero for e in labels],
                [tile if e == d else n for e, n in enumerate(y.shape.dimensions)],
            )  # fmt: skip
            index = array("s32", shape.dimensions)
            place = p.build.binary("add", p.build.iota(index, d), p.build.broadcast(first, (), index))
            good = p.build.compare(place, p.build.splat(0, index), "GE")
            good = p.build.binary("and", good, p.build.compare(place, p.build.splat(size, index), "LT"))
            inside = good if inside is None else p.build.binary("and", inside, good)
        assert inside is not None
        return p.build.select(inside, y, x)

    axes = Axes((labels, given, *((),) * (len(values) - 2)), (labels,))
    return p.divided(i, values, axes, local)


RULES: dict[str, Rule] = {
    "gather": _gather,
    "scatter": _scatter,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
}
