"""Partitioning of reductions, of windows, and of sorts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hlotool.analysis.reducers import choice
from hlotool.evaluate.combiner import combiners_of
from hlotool.ir import ELEMENT_TYPES, Instruction, Shape, Window, WindowDimension, byte_size, tuple_shape
from hlotool.passes.dynamic.dynamic_values import neutral
from hlotool.passes.spmd.axes import Axes, Chosen
from hlotool.passes.spmd.halo import Piece, filled_piece, halo_bytes
from hlotool.passes.spmd.partitioner import Partitioner, Rule
from hlotool.passes.spmd.tiling import Axis, tile_size
from hlotool.passes.spmd.values import Part, Value, parts_of, rebuilt
from hlotool.passes.spmd.writer import partial_type

__all__ = ["RULES", "neutral_of"]


def neutral_of(i: Instruction) -> list[tuple[str, complex]] | None:
    """The operations of a reducer and what each of them leaves as it is; None of a reducer that is not one operation
    on each pair of its numbers."""
    kinds = [leaf.element_type for leaf in i.shape.leaves()]
    found = []
    for combiner in combiners_of(i.attributes["to_apply"]) or ():
        value = _neutral(combiner.opcode, combiner.element_type)
        if value is None:
            return None
        found.append((combiner.opcode, combiner.element_type, value))
    if [kind for _, kind, _ in found] != kinds:
        return None
    return [(opcode, value) for opcode, _, value in found]


def _neutral(opcode: str, kind: str) -> complex | None:
    if ELEMENT_TYPES[kind].is_complex:
        return {"add": 0j, "multiply": 1 + 0j}.get(opcode)
    return neutral(opcode, kind)


def _combines(i: Instruction) -> bool:
    """Whether partial results can be combined: what a reduction starts from counts as often as it is reduced again,
    which makes no difference to one that chooses."""
    return neutral_of(i) is not None or choice(i.attributes["to_apply"]) is not None


def _reduce(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Along dimensions that are reduced, devices have partial results: those of an operation that is known are combined
    by all-reduce, and what the reduction starts from counts once; those that choose are gathered and reduced again."""
    half = len(values) // 2
    gone = tuple(i.attributes["dimensions"])
    rank = i.operands[0].shape.rank
    combines = _combines(i)
    every = tuple([d if combines or d not in gone else None for d in range(rank)])
    kept = tuple([d for d in range(rank) if d not in gone])
    known = neutral_of(i)
    work = i.operands[0].shape.size * half
    axes = Axes((*(every,) * half, *((),) * half), (kept,) * half, frozenset(gone if combines else ()), work=work)

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        arrays, starts = parts[:half], [part.local for part in parts[half:]]
        over = [d for d in gone if d in chosen.axes]
        if over and known is not None:
            kinds = [part.shape.element_type for part in parts[half:]]
            starts = [p.build.scalar_constant(v, kind) for (_, v), kind in zip(known, kinds, strict=True)]
        given = [p.masked(part, over, start) for part, start in zip(arrays, starts, strict=True)]
        if len(over) and half == 1 and known is not None and known[0][0] in ("add", "multiply"):
            kind = partial_type(shape.element_type)
            if kind != shape.element_type:
                given, starts = [p.build.convert(x, kind) for x in given], [p.build.convert(x, kind) for x in starts]
                return p.emit(i, shape.with_type(kind), [*given, *starts], to_apply=p.work.combiner(known[0][0], kind))
        return p.emit(i, shape, [*given, *starts])

    def combine(p: Partitioner, i: Instruction, value: Value, axes: Axes, chosen: Chosen) -> Value:
        parts = list(parts_of(value))
        initial = [p.packed(p.whole(one)) for one in values[half:]]
        if known is None:
            return _again(p, i, value, initial, axes, chosen)
        wanted = p.wanted(i)
        found = []
        for n, (part, (opcode, least), start) in enumerate(zip(parts, known, initial, strict=True)):
            target = wanted[n] if wanted is not None else None
            made = p.summed(part, axes, chosen, opcode, target)
            if start.opcode != "constant" or start.literal.number != least:
                more = p.build.broadcast(start, (), made.local.shape.dimensions) if made.tiling.rank else start
                made = replace(made, local=p.build.binary(opcode, more, made.local))
            found.append(made)
        return rebuilt(i.shape, iter(found))

    return p.divided(i, values, axes, local, combine)


def _again(
    p: Partitioner, i: Instruction, value: Value, initial: Sequence[Instruction], axes: Axes, chosen: Chosen
) -> Value:
    """Partial results side by side, along a new first dimension, which is reduced."""
    groups = p.groups(axes, chosen)
    rows = []
    for part in parts_of(value):
        row = p.build.reshape(part.local, (1, *part.local.shape.dimensions))
        rows.append(p.all_gather(row, 0, groups))
    parts = list(parts_of(value))
    shapes = [part.local.shape for part in parts]
    shape = tuple_shape(shapes) if i.shape.is_tuple else shapes[0]
    made = p.emit(i, shape, [*rows, *initial], dimensions=(0,))
    return p.unpacked(made, i.shape, iter([part.tiling for part in parts]))


# ---- windows


def _window(i: Instruction) -> tuple[WindowDimension, ...]:
    rank = i.operands[0].shape.rank
    written: Window = i.attributes.get("window") or Window((WindowDimension(1),) * rank)
    return written.dimensions


def _reduce_window(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """A device gets from its neighbours what its windows reach into.  What is behind an end of the array takes no part:
    something stands there that makes no difference, or else windows stay inside."""
    half = len(values) // 2
    made = next(i.shape.leaves())
    window = _window(i)
    found = _cumulative(p, i, values, window)
    if found is not None:
        return found
    known = neutral_of(i)
    anywhere = known is not None or choice(i.attributes["to_apply"]) is not None
    labels = tuple([d if anywhere or _stays_inside(row) else None for d, row in enumerate(window)])

    def fills(parts: list[Part]) -> list[Instruction]:
        if known is None:
            return [part.local for part in parts[half:]]
        kinds = [part.shape.element_type for part in parts[half:]]
        return [p.build.scalar_constant(value, kind) for (_, value), kind in zip(known, kinds, strict=True)]

    def piece(d: int, axis: Axis) -> Piece:
        row, tile = window[d], tile_size(made.dimensions[d], axis.count)
        starts = tuple([c * tile * row.stride - row.padding_low for c in range(axis.count)])
        return Piece(starts, (tile - 1) * row.stride + row.dilated_size, row.base_dilation)

    def halo(d: int, chosen: Chosen) -> int | None:
        if window[d].is_trivial:
            return 0
        own, tiling = piece(d, chosen.axes[d]), chosen.tiling(labels)
        found = [halo_bytes(own, o.shape, d, tiling) for o in i.operands[:half]]
        return None if None in found else sum([one or 0 for one in found])

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        rows = list(window)
        arrays = [part.local for part in parts[:half]]
        for d in sorted(chosen.axes):
            if window[d].is_trivial:
                continue
            own = piece(d, chosen.axes[d])
            for n, part in enumerate(parts[:half]):
                arrays[n] = filled_piece(p, part, arrays[n], d, own, fills(parts)[n])
            rows[d] = replace(window[d], padding_low=0, padding_high=0, base_dilation=1)
        return p.emit(i, shape, [*arrays, *[part.local for part in parts[half:]]], window=Window(tuple(rows)))

    axes = Axes((*(labels,) * half, *((),) * half), (labels,) * half, halo=halo)
    return p.divided(i, values, axes, local)


def _stays_inside(row: WindowDimension) -> bool:
    """Whether windows see elements of the array alone."""
    return row.padding_low <= 0 and row.padding_high <= 0 and row.base_dilation == 1


def _cumulative(p: Partitioner, i: Instruction, values: list[Value], window: Sequence[WindowDimension]) -> Value | None:
    """Windows that hold all up to each place (or from it on), along one dimension that is divided: devices do that with
    what they have, tell each other what theirs comes to, and add what comes to those in front of them (or behind)."""
    wide = [d for d, row in enumerate(window) if not row.is_trivial]
    known = neutral_of(i)
    if len(wide) != 1 or len(values) != 2 or known is None:
        return None
    ((opcode, least),), (d,), kind = known, wide, i.shape.element_type
    size = i.shape.dimensions[d]
    forward = window[d] == WindowDimension(size, 1, size - 1)
    if not forward and window[d] != WindowDimension(size, 1, 0, size - 1):
        return None
    labels = tuple(range(i.shape.rank))
    inner = partial_type(kind) if opcode in ("add", "multiply") else kind

    def halo(label: int, chosen: Chosen) -> int | None:
        """A row of each of the others."""
        if label != d:
            return 0
        row = chosen.tiling(labels).local(i.shape).size // tile_size(size, chosen.axes[d].count)
        return row * (chosen.axes[d].count - 1) * byte_size(inner)

    def local(p: Partitioner, i: Instruction, parts: list[Part], shape: Shape, chosen: Chosen) -> Instruction:
        array, start = parts[0], parts[1].local
        if d not in chosen.axes:
            return p.emit(i, shape, [array.local, start])
        axis, tile, build = chosen.axes[d], shape.dimensions[d], p.build
        x = p.masked(array, [d], build.scalar_constant(least, kind))
        combiner = i.attributes["to_apply"]
        if inner != kind:
            x, combiner = build.convert(x, inner), p.work.combiner(opcode, inner)
        zero = build.scalar_constant(least, inner)
        low, high = (tile - 1, 0) if forward else (0, tile - 1)
        rows = [WindowDimension(tile, 1, low, high) if e == d else row for e, row in enumerate(window)]
        mine = p.emit(i, shape.with_type(inner), [x, zero], window=Window(tuple(rows)), to_apply=combiner)
        last = tile - 1 if forward else 0
        begin = [last if e == d else 0 for e in labels]
        total = build.slice(mine, begin, [last + 1 if e == d else n for e, n in enumerate(shape.dimensions)])
        totals = p.all_gather(total, d, array.tiling.groups([d]))
        begins = [axis.count - place if forward else -1 - place for place in axis.places]
        others = p.within(totals, d, begins, axis.count, zero)
        before = build.reduce(others, zero, [d], combiner)
        if start.opcode != "constant" or start.literal.number != least:
            first = build.convert(start, inner) if inner != kind else start
            more = build.broadcast(first, (), before.shape.dimensions) if before.shape.rank else first
            before = build.binary(opcode, more, before)
        spread = build.broadcast(before, [e for e in labels if e != d], shape.dimensions)
        made = build.binary(opcode, spread, mine)
        return build.convert(made, kind) if inner != kind else made

    return p.divided(i, values, Axes((labels, ()), (labels,), halo=halo), local)


def _select_and_scatter(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    """Dimensions without windows are independent, and whole windows where they lie side by side."""
    sizes = i.operands[1].shape.dimensions
    labels: list[int | None] = []
    divides: dict[int, int] = {}
    for d, (row, size, count) in enumerate(zip(_window(i), i.shape.dimensions, sizes, strict=True)):
        apart = row == WindowDimension(row.size, row.stride) and row.size <= row.stride and row.stride * count == size
        labels.append(d if row.is_trivial or apart else None)
        if not row.is_trivial:
            divides[d] = count
    axes = tuple(labels)
    return p.divided(i, values, Axes((axes, axes, ()), (axes,), divides=divides))


# ---- sorts


def _sort(p: Partitioner, i: Instruction, values: list[Value]) -> Value | None:
    (along,) = i.attributes["dimensions"]
    labels = tuple([d if d != along else None for d in range(i.operands[0].shape.rank)])
    count = len(values)
    return p.divided(i, values, Axes((labels,) * count, (labels,) * count, work=i.operands[0].shape.size * 8))


RULES: dict[str, Rule] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
}
