"""The dynamic padder, opcode by opcode: the same opcode on arrays of the bounds, and the sizes of its result.

A rule masks what would mix elements beyond the sizes into those that count.  Meaning: `hlotool.ir.dynamic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from hlotool.ir import Computation, Instruction, Module, WindowDimension, array, scalar, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.ir.dot_algorithms import scaled_type
from hlotool.ir.dynamic import bitcast_steps, bounded_dimensions, regroups, static, whole_slice
from hlotool.ir.ragged import ragged_meetings, ragged_mode
from hlotool.ir.shape_checks import flags_of
from hlotool.passes.dynamic.dynamic_collectives import RULES as COLLECTIVES
from hlotool.passes.dynamic.dynamic_values import Maker, Sized, neutral
from hlotool.passes.expand import batch_norm_expander, scaled_dot_decomposer, select_and_scatter_expander
from hlotool.passes.expand.topk_decomposer import ranking

__all__ = ["RULES", "Rule", "elementwise", "regrouped"]

Rule: TypeAlias = Callable[[Maker, Instruction, list[Sized], Module], "Sized | list[Sized]"]
"""(builder, instruction, operands, module) to the result, or the results of an opcode that gives a tuple."""


def _again(
    make: Maker, instruction: Instruction, arrays: Sequence[Instruction], attributes: Mapping[str, Any] | None = None
) -> Instruction:
    """The instruction on other operands, with static shapes."""
    given = instruction.attributes if attributes is None else attributes
    return make.add(instruction.opcode, static(instruction.shape), arrays, given)


def elementwise(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    rank = max(v.array.shape.rank for v in values)
    sizes = make.common(v.sizes for v in values if v.array.shape.rank == rank)
    arrays = [v.array for v in values]
    if i.shape.rank < rank:  # a bitcast-convert joins parts of elements
        arrays = [make.filled(values[0], [rank - 1])]
        sizes.pop(rank - 1, None)
    return Sized(_again(make, i, arrays), sizes)


def _broadcast(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    places = i.attributes["dimensions"]
    return Sized(_again(make, i, [values[0].array]), {places[d]: s for d, s in values[0].sizes.items()})


def _transpose(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    sizes = values[0].sizes
    order = i.attributes["dimensions"]
    return Sized(_again(make, i, [values[0].array]), {n: sizes[d] for n, d in enumerate(order) if d in sizes})


def _reverse(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """The elements that count come to stand at the end, and are moved to the start."""
    (value,) = values
    result = _again(make, i, [value.array])
    for d in sorted(i.attributes["dimensions"]):
        if d in value.sizes:
            gap = make.binary("subtract", make.number(value.array.shape.dimensions[d]), value.sizes[d])
            result = make.moved(result, d, gap)
    return Sized(result, value.sizes)


def _concatenate(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """Along a dimension with sizes, every operand is written behind the elements of the one before."""
    (d,) = i.attributes["dimensions"]
    sizes = make.common({n: s for n, s in v.sizes.items() if n != d} for v in values)
    if not any(d in v.sizes for v in values):
        return Sized(_again(make, i, [v.array for v in values]), sizes)
    counts = [make.size(v, d) for v in values]
    result, end = make.packed([v.array for v in values], counts, d, static(i.shape))
    return Sized(result, {**sizes, d: end})


def _pad(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    value, filler = values
    result = _again(make, i, [make.filled(value, filler=filler.array), filler.array])
    sizes = {}
    for d, n in value.sizes.items():
        p = i.attributes["padding"][d]
        holes = make.binary("maximum", make.binary("subtract", n, make.number(1)), make.number(0))
        whole = make.binary("add", n, make.binary("multiply", holes, make.number(p.interior)))
        whole = make.binary("add", whole, make.number(p.low + p.high))
        sizes[d] = make.binary("maximum", whole, make.number(0))
    return Sized(result, sizes)


def _whole(i: Instruction, value: Sized) -> list[int]:
    """The dimensions that a slice of some kind takes whole."""
    return [d for d in range(value.array.shape.rank) if whole_slice(i, d)]


def _partial(make: Maker, i: Instruction, value: Sized) -> tuple[Instruction, dict[int, Instruction]]:
    """The operand with zeros where a part of a dimension may be read, and the sizes of the dimensions taken whole."""
    whole = _whole(i, value)
    operand = make.filled(value, [d for d in value.sizes if d not in whole])
    return operand, {d: s for d, s in value.sizes.items() if d in whole}


def _slice(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    operand, sizes = _partial(make, i, values[0])
    return Sized(_again(make, i, [operand, *map(make.filled, values[1:])]), sizes)


def _dynamic_update_slice(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """Where the update has no elements, those of the operand stay."""
    value, update, *starts = values
    indices = [make.filled(start) for start in starts]
    part, written = update.array.shape, update.array
    inside = make.inside(part, update.sizes)
    if inside is not None:
        attributes = {"dynamic_slice_sizes": part.dimensions}
        below = make.add("dynamic-slice", part, [value.array, *indices], attributes)
        written = make.select(inside, written, below)
    return Sized(_again(make, i, [value.array, written, *indices]), value.sizes)


def _gather(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    value, indices = values
    a = i.attributes
    operand, whole = _partial(make, i, value)
    vector, offsets = a["index_vector_dim"], a["offset_dims"]
    ours = tuple(a.get("operand_batching_dims") or ())
    theirs = tuple(a.get("start_indices_batching_dims") or ())
    outer = [d for d in range(indices.array.shape.rank) if d != vector]
    batch = [d for d in range(i.shape.rank) if d not in offsets]
    together = {t: value.sizes[o] for o, t in zip(ours, theirs, strict=True) if o in value.sizes}
    counts = make.common([indices.sizes, together])
    sizes = {place: counts[d] for place, d in zip(batch, outer, strict=True) if d in counts}
    kept = [d for d in range(value.array.shape.rank) if d not in a["collapsed_slice_dims"] and d not in ours]
    dropped = {d: s for d, s in whole.items() if d not in kept and d not in ours}
    operand = make.filled(Sized(operand, dropped))  # the only element of a collapsed dimension may be missing
    sizes |= {place: whole[d] for place, d in zip(sorted(offsets), kept, strict=True) if d in whole}
    return Sized(_again(make, i, [operand, make.filled(indices, [vector])]), sizes)


def _scatter(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """Index vectors beyond the sizes are sent out of bounds."""
    half = len(values) // 2
    operands, indices, updates = values[:half], values[half], values[half + 1 :]
    a = i.attributes
    vector, window = a["index_vector_dim"], a["update_window_dims"]
    update = updates[0].array.shape
    cut = make.common(v.sizes for v in operands)
    gone = {*a["inserted_window_dims"], *(a.get("input_batching_dims") or ())}
    bounds = operands[0].array.shape.dimensions
    kept = [d for d in range(len(bounds)) if d not in gone]
    parts = make.common({d: s for d, s in v.sizes.items() if d in window} for v in updates)
    for own, place in zip(kept, window, strict=True):  # a window of the operand's size leaves out what is beyond both
        if place in parts and update.dimensions[place] == bounds[own] and parts[place] is cut.get(own):
            del parts[place]
    batch = [d for d in range(update.rank) if d not in window]
    outer = [d for d in range(indices.array.shape.rank) if d != vector]
    together = list(zip(batch, outer, strict=True))
    counts = make.common(
        [{d: v.sizes[d] for d in batch if d in v.sizes} for v in updates]
        + [{d: indices.sizes[o] for d, o in together if o in indices.sizes}]
    )
    where = make.filled(indices, [vector])
    if parts or (counts and not a["scatter_dims_to_operand_dims"]):
        exists = make.inside(update, {**parts, **counts})
        assert exists is not None
        results = _flagged_scatter(make, i, operands, where, updates, exists, module)
    else:
        inside = make.inside(where.shape, {o: counts[d] for d, o in together if d in counts})
        if inside is not None:
            wide = where if where.shape.element_type == "s64" else make.convert(where, "s64")
            where = make.select(inside, wide, make.splat(-1, wide.shape))
        result = _again(make, i, [*(v.array for v in operands), where, *(v.array for v in updates)])
        results = [make.gte(result, n) for n in range(half)] if i.shape.is_tuple else [result]
    sized = [Sized(one, cut) for one in results]
    return sized if i.shape.is_tuple else sized[0]


def _flagged_scatter(
    make: Maker,
    i: Instruction,
    operands: Sequence[Sized],
    where: Instruction,
    updates: Sequence[Sized],
    exists: Instruction,
    module: Module,
) -> list[Instruction]:
    """The same scatter of updates that carry a flag, whether they count."""
    combiner: Computation = i.attributes["to_apply"]
    count = len(operands)
    own = Computation(module.unique_name(f"flagged_{combiner.name}"))
    build = Builder(own, like=i)
    flag = scalar("pred")
    shapes = [p.shape for p in combiner.parameters]
    given = [build.parameter(n, one) for n, one in enumerate([*shapes[:count], flag, *shapes[count:], flag])]
    left, right = given[: count + 1], given[count + 1 :]
    called = build.call(combiner, [*left[:-1], *right[:-1]])
    merged = [called] if count == 1 else [build.gte(called, n) for n in range(count)]
    chosen = [build.select(right[-1], new, old) for new, old in zip(merged, left[:-1], strict=True)]
    own.root = build.tuple([*chosen, left[-1]])
    module.add(own)
    flags = make.splat(True, array("pred", operands[0].array.shape.dimensions))
    arrays = [*(v.array for v in operands), flags, where, *(v.array for v in updates), exists]
    shape = tuple_shape([*map(static, i.shape.leaves()), flags.shape])
    result = make.add("scatter", shape, arrays, {**i.attributes, "to_apply": own})
    return [make.gte(result, n) for n in range(count)]


def _dot(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    sides = ("lhs", "rhs")
    contracted = [tuple(i.attributes.get(f"{side}_contracting_dims") or ()) for side in sides]
    batch = [tuple(i.attributes.get(f"{side}_batch_dims") or ()) for side in sides]
    sizes, place = [], len(batch[0])
    for value, together, gone in zip(values, batch, contracted, strict=True):
        free = [d for d in range(value.array.shape.rank) if d not in together and d not in gone]
        places = {d: n for n, d in enumerate(together)} | {d: n for n, d in enumerate(free, place)}
        sizes.append({places[d]: size for d, size in value.sizes.items() if d in places})
        place += len(free)
    arrays = _both_filled(make, values, list(zip(*contracted, strict=True)))
    return Sized(_again(make, i, arrays), make.common(sizes))


def _both_filled(make: Maker, values: Sequence[Sized], pairs: Sequence[tuple[int, int]]) -> list[Instruction]:
    """Two arrays with zeros in paired dimensions wherever one of them has no elements."""
    result = []
    for side, value in enumerate(values):
        least = make.common(
            {pair[side]: values[s].sizes[pair[s]]} for pair in pairs for s in (0, 1) if pair[s] in values[s].sizes
        )
        result.append(_with_zeros(make, Sized(value.array, least)))
    return result


def _with_zeros(make: Maker, value: Sized) -> Instruction:
    """An operand of a product with zeros beyond its sizes; of a type that has none, in f32."""
    if value.sizes and value.array.shape.element_type == "f8e8m0fnu":
        value = Sized(make.convert(value.array, "f32"), value.sizes)
    return make.filled(value)


def _ragged_dot(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """Zeros where an operand has no elements to add up, and empty groups where there are none."""
    left, right, lengths = values
    rank = left.array.shape.rank
    meetings = ragged_meetings(i.attributes, rank, lengths.array.shape.rank)
    shared = [make.common({0: values[n].sizes[d]} for n, d in meeting if d in values[n].sizes) for meeting in meetings]
    sizes: list[dict[int, Instruction]] = [{}, dict(right.sizes), {}]
    for meeting, common in zip(meetings, shared, strict=True):
        for number, d in meeting if common else ():
            sizes[number][d] = common[0]
    summed = [tuple(i.attributes.get(f"{side}_contracting_dims") or ()) for side in ("lhs", "rhs")]
    arrays = [
        _with_zeros(make, Sized(value.array, {d: size for d, size in own.items() if d in gone}))
        for value, own, gone in zip((left, right), sizes, summed, strict=False)
    ]
    last = lengths.array.shape.rank - 1
    arrays.append(make.filled(Sized(lengths.array, sizes[2]), [last]))
    result = _again(make, i, arrays)
    batch = tuple(i.attributes.get("lhs_batch_dims") or ())
    gone = {*(i.attributes.get("rhs_batch_dims") or ()), *summed[1], *(i.attributes.get("rhs_group_dims") or ())}
    order = [(0, d) for d in (*batch, *(d for d in range(rank) if d not in batch and d not in summed[0]))]
    order += [(1, d) for d in range(right.array.shape.rank) if d not in gone]
    if ragged_mode(i.attributes, rank)[0] == "contracting":
        order.insert(0, (2, last))
    return Sized(result, {n: sizes[side][d] for n, (side, d) in enumerate(order) if d in sizes[side]})


def _scaled_dot(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """The scaled operands have the elements that have a scale."""
    steps = scaled_type([v.array.shape.element_type for v in values], i.shape.element_type)
    sides = []
    for value, scale in zip(values[:2], values[2:], strict=True):
        bounds, blocks = value.array.shape.dimensions, scale.array.shape.dimensions
        reach = {d: make.product([size, bounds[d] // max(1, blocks[d])]) for d, size in scale.sizes.items()}
        array = scaled_dot_decomposer.scaled(make, value.array, scale.array, steps)
        sides.append(Sized(array, make.common([value.sizes, reach])))
    made = _dot(make, Instruction("dot", i.shape.with_type(steps), (), i.attributes), sides, module)
    return made if steps == i.shape.element_type else Sized(make.convert(made.array, i.shape.element_type), made.sizes)


def _convolution(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    a, (base, kernel) = i.attributes, values
    labels = a["dim_labels"]
    grouped = a.get("feature_group_count", 1) != 1
    features = [] if grouped else [(labels.input_feature, labels.kernel_input_feature)]
    left, right = _both_filled(make, values, features)
    spatial = {d: base.sizes[d] for d in labels.input_spatial if d in base.sizes}
    ours, theirs = bounded_dimensions(i)
    left = make.filled(Sized(left, {d: s for d, s in base.sizes.items() if d in spatial or d in ours}))
    right = make.filled(Sized(right, {d: s for d, s in kernel.sizes.items() if d in theirs}))
    sizes = {}
    if labels.input_batch in base.sizes and labels.input_batch not in ours:
        sizes[labels.output_batch] = base.sizes[labels.input_batch]
    if labels.kernel_output_feature in kernel.sizes:
        sizes[labels.output_feature] = kernel.sizes[labels.kernel_output_feature]
    for n, d in enumerate(labels.input_spatial):
        if d in spatial:
            sizes[labels.output_spatial[n]] = _positions(make, a["window"].dimensions[n], spatial[d])
    return Sized(_again(make, i, [left, right]), sizes)


def _positions(make: Maker, window: WindowDimension, size: Instruction) -> Instruction:
    """How many windows fit: `WindowDimension.output_size` of a size that is only known later."""
    zero, one = make.number(0), make.number(1)
    steps = make.binary("multiply", make.binary("subtract", size, one), make.number(window.base_dilation))
    dilated = make.select(make.compare(size, zero, "EQ"), zero, make.binary("add", steps, one))
    padded = make.binary("add", dilated, make.number(window.padding_low + window.padding_high))
    room = make.binary("subtract", padded, make.number(window.dilated_size))
    count = make.binary("add", make.binary("divide", room, make.number(window.stride)), one)
    fits = make.binary("and", make.compare(room, zero, "GE"), make.compare(padded, zero, "GT"))
    return make.select(fits, count, zero)


def _reduce(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    gone = i.attributes["dimensions"]
    rank = values[0].array.shape.rank
    common = make.common(v.sizes for v in values[: len(values) // 2])
    kept = [d for d in range(rank) if d not in gone]
    sizes = {n: common[d] for n, d in enumerate(kept) if d in common}
    return _masked(make, i, values, {d: s for d, s in common.items() if d in gone}, sizes, module)


def _reduce_window(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    window = i.attributes.get("window")
    common = make.common(v.sizes for v in values[: len(values) // 2])
    if window is None:
        return _masked(make, i, values, {}, common, module)
    moving = {d: s for d, s in common.items() if not window.dimensions[d].is_trivial}
    sizes = {d: _positions(make, window.dimensions[d], s) if d in moving else s for d, s in common.items()}
    return _masked(make, i, values, moving, sizes, module)


def _masked(
    make: Maker,
    i: Instruction,
    values: list[Sized],
    masked: Mapping[int, Instruction],
    sizes: Mapping[int, Instruction],
    module: Module,
) -> Sized | list[Sized]:
    """A reduction whose operands do not count beyond the sizes `masked`."""
    half = len(values) // 2
    inputs, initial = [v.array for v in values[:half]], [v.array for v in values[half:]]
    combiner: Computation = i.attributes["to_apply"]
    inside = make.inside(inputs[0].shape, masked)
    if inside is not None:
        fillers = _neutrals(make, combiner, inputs)
        if fillers is None:
            return _flagged(make, i, inputs, initial, inside, sizes, module)
        inputs = [
            make.select(inside, one, make.broadcast(filler, (), one.shape.dimensions))
            for one, filler in zip(inputs, fillers, strict=True)
        ]
    result = _again(make, i, [*inputs, *initial])
    if not i.shape.is_tuple:
        return Sized(result, sizes)
    return [Sized(make.gte(result, n), sizes) for n in range(half)]


def _neutrals(make: Maker, combiner: Computation, inputs: Sequence[Instruction]) -> list[Instruction] | None:
    root, parameters = combiner.root, combiner.parameters
    if len(inputs) != 1 or len(parameters) != 2 or {*root.operands} != {*parameters}:
        return None
    kind = inputs[0].shape.element_type
    if any(one.shape.element_type != kind for one in (root, *parameters)):
        return None
    found = neutral(root.opcode, kind)
    return None if found is None else [make.scalar_constant(found, kind)]


def _flagged(
    make: Maker,
    i: Instruction,
    inputs: Sequence[Instruction],
    initial: Sequence[Instruction],
    inside: Instruction,
    sizes: Mapping[int, Instruction],
    module: Module,
) -> Sized | list[Sized]:
    """The same reduction of elements that carry a flag, whether they count; the initial values do."""
    combiner: Computation = i.attributes["to_apply"]
    count = len(inputs)
    parameters = [p.shape for p in combiner.parameters]
    own = Computation(module.unique_name(f"flagged_{combiner.name}"))
    build = Builder(own, like=i)
    flag = scalar("pred")
    shapes = [*parameters[:count], flag, *parameters[count:], flag]
    given = [build.parameter(n, shape) for n, shape in enumerate(shapes)]
    left, right = given[: count + 1], given[count + 1 :]
    both = build.binary("and", left[-1], right[-1])
    called = build.call(combiner, [*left[:-1], *right[:-1]])
    merged = [called] if count == 1 else [build.gte(called, n) for n in range(count)]
    chosen = [
        build.select(both, new, build.select(left[-1], a, build.convert(b, a.shape.element_type)))
        for new, a, b in zip(merged, left[:-1], right[:-1], strict=True)
    ]
    own.root = build.tuple([*chosen, build.binary("or", left[-1], right[-1])])
    module.add(own)
    leaves = [static(leaf) for leaf in i.shape.leaves()]
    shape = tuple_shape([*leaves, array("pred", leaves[0].dimensions)])
    arrays = [*inputs, inside, *initial, make.scalar_constant(True, "pred")]
    result = make.add(i.opcode, shape, arrays, {**i.attributes, "to_apply": own})
    values = [Sized(make.gte(result, n), sizes) for n in range(count)]
    return values if i.shape.is_tuple else values[0]


def _sort(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """Elements beyond the size carry a flag that sends them to the end."""
    (d,) = i.attributes["dimensions"]
    sizes = make.common(v.sizes for v in values)
    arrays = [v.array for v in values]
    attributes = dict(i.attributes)
    shape = static(i.shape)
    if d in sizes:
        inside = make.below(arrays[0].shape, d, sizes[d])
        attributes["to_apply"] = _inside_first(module, i, i.attributes["to_apply"])
        shape = tuple_shape([*map(static, i.shape.leaves()), inside.shape])
        arrays.append(inside)
    result = make.add("sort", shape, arrays, attributes)
    if not shape.is_tuple:
        return Sized(result, sizes)
    sorted_values = [Sized(make.gte(result, n), sizes) for n in range(len(values))]
    return sorted_values if i.shape.is_tuple else sorted_values[0]


def _inside_first(module: Module, like: Instruction, order: Computation) -> Computation:
    own = Computation(module.unique_name(f"inside_{order.name}"))
    build = Builder(own, like=like)
    shapes = [*(p.shape for p in order.parameters), scalar("pred"), scalar("pred")]
    *given, left, right = [build.parameter(n, shape) for n, shape in enumerate(shapes)]
    before = build.binary("or", build.unary("not", right), build.call(order, given))
    own.root = build.binary("and", left, before)
    return module.add(own)


def _topk(make: Maker, i: Instruction, values: list[Sized], module: Module) -> list[Sized]:
    """Along a dimension with a size: a sort and slices; zeros where there are fewer elements than wanted."""
    (value,) = values
    shape = value.array.shape
    last = shape.rank - 1
    if last not in value.sizes:
        result = _again(make, i, [value.array])
        return [Sized(make.gte(result, n), value.sizes) for n in (0, 1)]
    largest = i.attributes.get("largest") is not False
    order = module.add(ranking(shape.element_type, "s32", largest))
    inside = make.below(shape, last, value.sizes[last])
    positions = make.iota(array("s32", shape.dimensions), last)
    both = tuple_shape([shape, positions.shape, inside.shape])
    attributes = {"dimensions": (last,), "is_stable": True, "to_apply": _inside_first(module, i, order)}
    result = make.add("sort", both, [value.array, positions, inside], attributes)
    counts = (*shape.dimensions[:-1], i.attributes["k"])
    parts = [make.slice(make.gte(result, n), [0] * shape.rank, counts) for n in range(2)]
    others = {d: size for d, size in value.sizes.items() if d != last}
    return [Sized(make.filled(Sized(part, {last: value.sizes[last]})), others) for part in parts]


def _batch_norm(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """Sums of the elements that count, by how many they are."""
    feature = i.attributes["feature_index"]
    shape = values[0].array.shape
    places = [range(shape.rank) if v.array.shape.rank == shape.rank else [feature] for v in values]
    sizes = make.common({own[d]: s for d, s in v.sizes.items()} for own, v in zip(places, values, strict=True))
    others = [d for d in range(shape.rank) if d != feature]
    inside = make.inside(shape, {d: sizes[d] for d in others if d in sizes})
    count = make.product(sizes.get(d, shape.dimensions[d]) for d in others)
    arrays = [v.array for v in values]
    results = batch_norm_expander.spelled_out(module, make, i, arrays, inside, count)
    vector = {0: sizes[feature]} if feature in sizes else {}
    whole, *vectors = results
    sized = [Sized(whole, sizes), *(Sized(v, vector) for v in vectors)]
    return sized if i.shape.is_tuple else sized[0]


def _select_and_scatter(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """Elements beyond the sizes are not selected; nor does the source count where there is no window."""
    operand, source, initial = values
    window = i.attributes.get("window")
    windows = {d: s if window is None else _positions(make, window.dimensions[d], s) for d, s in operand.sizes.items()}
    inside = make.inside(operand.array.shape, operand.sizes)
    wanted = make.inside(source.array.shape, make.common([source.sizes, windows]))
    arrays = [v.array for v in (operand, source, initial)]
    result = select_and_scatter_expander.spelled_out(module, make, i, arrays, inside, wanted)
    return Sized(result, operand.sizes)


def _with_zero(make: Maker, i: Instruction, values: Sequence[Sized]) -> tuple[Instruction, list[Sized]]:
    """The instruction, on shapes alone, and its operands in a type that has a zero: f8e8m0fnu has none."""
    if i.shape.element_type != "f8e8m0fnu":
        return i, list(values)
    wide = [Sized(make.convert(v.array, "f32"), v.sizes) for v in values]
    return Instruction(i.opcode, i.shape.with_type("f32"), (), i.attributes), wide


def _cholesky(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """The matrix comes to stand behind a block of the identity, which has no part in its factor."""
    own, (value,) = _with_zero(make, i, values)
    rank = value.array.shape.rank
    row, column = rank - 2, rank - 1
    orders = [value.sizes[d] for d in (row, column) if d in value.sizes]
    if not orders:
        return Sized(_again(make, i, [values[0].array]), value.sizes)
    order = _least(make, orders)
    gap = make.binary("subtract", make.number(value.array.shape.dimensions[row]), order)
    cut = Sized(value.array, {row: order, column: order})
    matrix = _with_identity(make, cut, row, column)
    matrix = make.moved(make.moved(matrix, row, order), column, order)
    result = _again(make, own, [matrix])
    result = result if own is i else make.convert(result, i.shape.element_type)
    result = make.moved(make.moved(result, row, gap), column, gap)
    return _of_order(make, i, Sized(result, {**value.sizes, row: order, column: order}), i.operands[0], (row, column))


def _least(make: Maker, sizes: Sequence[Instruction]) -> Instruction:
    result = sizes[0]
    for size in sizes[1:]:
        result = result if size is result else make.binary("minimum", result, size)
    return result


def _of_order(make: Maker, i: Instruction, result: Sized, like: Instruction, dimensions: Sequence[int]) -> Sized:
    """A result like an operand, with zeros up to the bounds of those of some dimensions that are static there."""
    flags = flags_of(like.shape)
    whole = [d for d in dimensions if not flags[d]]
    sizes = {d: size for d, size in result.sizes.items() if d not in whole}
    return Sized(make.filled(result, whole), sizes)


def _with_identity(make: Maker, value: Sized, row: int, column: int) -> Instruction:
    """Matrices with the identity beyond the sizes of their dimensions."""
    shape = value.array.shape
    inside = make.inside(shape, value.sizes)
    assert inside is not None
    positions = array("s32", shape.dimensions)
    diagonal = make.compare(make.iota(positions, row), make.iota(positions, column), "EQ")
    return make.select(inside, value.array, make.convert(diagonal, shape.element_type))


def _triangular_solve(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """The identity solves for zeros beyond the size of the matrix."""
    own, (matrix, right) = _with_zero(make, i, values)
    rank = matrix.array.shape.rank
    row, column = rank - 2, rank - 1
    side = row if i.attributes.get("left_side", False) else column
    orders = [v.sizes[d] for v, d in ((matrix, row), (matrix, column), (right, side)) if d in v.sizes]
    batch = make.common({d: s for d, s in v.sizes.items() if d < row} for v in values)
    other = {d: s for d, s in right.sizes.items() if d >= row and d != side}
    if not orders:
        return Sized(_again(make, i, [v.array for v in values]), {**batch, **other})
    order = _least(make, orders)
    left = _with_identity(make, Sized(matrix.array, {row: order, column: order}), row, column)
    result = _again(make, own, [left, make.filled(Sized(right.array, {side: order}))])
    result = result if own is i else make.convert(result, i.shape.element_type)
    return _of_order(make, i, Sized(result, {**batch, **other, side: order}), i.operands[1], [side])


def _fft(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """What is transformed has the length that the instruction says."""
    (value,) = values
    outer = value.array.shape.rank - len(i.attributes["fft_length"])
    operand = make.filled(value, range(outer, value.array.shape.rank))
    return Sized(_again(make, i, [operand]), {d: size for d, size in value.sizes.items() if d < outer})


def _reshape(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    (value,) = values
    steps = bitcast_steps(i)
    if steps is None:
        source = i.operands[0].shape
        return Sized(_again(make, i, [make.add("copy", static(source), [make.filled(value)])]))
    before, reshape, after = steps
    result = _regrouped_alone(make, reshape, _transposed(make, value, before))
    result = _transposed(make, result, after)
    return Sized(_of_type(make, result.array, i.shape.element_type), result.sizes)


def _transposed(make: Maker, value: Sized, order: Sequence[int]) -> Sized:
    if [*order] == [*range(len(order))]:
        return value
    sizes = {n: value.sizes[d] for n, d in enumerate(order) if d in value.sizes}
    return Sized(make.transpose(value.array, order), sizes)


def _of_type(make: Maker, value: Instruction, kind: str) -> Instruction:
    """The same bytes as elements of another type; a pred is a byte that is not 0."""
    if value.shape.element_type == kind:
        return value
    if value.shape.element_type == "pred":
        value = make.convert(value, "u8")
    own = "u8" if kind == "pred" else kind
    if value.shape.element_type != own:
        value = make.bitcast_convert(value, array(own, value.shape.dimensions))
    return make.convert(value, kind) if kind == "pred" else value


def _regrouped_alone(make: Maker, reshape: Instruction, value: Sized) -> Sized:
    source, target = reshape.operands[0].shape, static(reshape.shape)
    bounds = value.array.shape.dimensions
    groups = regroups(reshape, {*value.sizes, *(d for d, flag in enumerate(flags_of(source)) if flag)})
    sizes: dict[int, Instruction] = {}
    simple = True
    for group in groups:
        sized = [d for d in group.inputs if d in value.sizes]
        if not sized:
            continue
        if group.free is None:  # an element, or none
            value = Sized(make.filled(value, sized), {d: s for d, s in value.sizes.items() if d not in sized})
            continue
        others = prod(target.dimensions[d] for d in group.outputs if d != group.free)
        count = make.product(value.sizes.get(d, bounds[d]) for d in group.inputs)
        sizes[group.free] = make.binary("divide", count, make.number(others)) if others else make.number(0)
        leading = all(bounds[d] == 1 for d in group.inputs if d < sized[0])
        leading = leading and all(target.dimensions[d] == 1 for d in group.outputs if d < group.free)
        simple = simple and len(sized) == 1 and leading
    if simple:
        return Sized(make.reshape(value.array, target), sizes)
    pairs = [(group.inputs, group.outputs) for group in groups]
    return Sized(regrouped(make, value, target.dimensions, sizes, pairs)[0], sizes)


def regrouped(
    make: Maker,
    value: Sized,
    target: Sequence[int],
    sizes: Mapping[int, Instruction],
    groups: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> tuple[Instruction, list[Instruction]]:
    """An array of `target` whose elements are those of `value` in order, group by group; and their numbers.

    The n-th element of the groups' inputs goes to the n-th place of their outputs, counted by the sizes there are.
    """
    bounds = value.array.shape.dimensions
    kind = make.index_type(value.array.shape.size, prod(target))
    numbers = []
    position = make.splat(0, array(kind, target))
    for ins, outs in groups:
        number = make.splat(0, array(kind, target))
        for d in outs:
            whole = make.spread(sizes.get(d, target[d]), kind, target)
            own = make.iota(array(kind, target), d)
            number = make.binary("add", make.binary("multiply", number, whole), own)
        numbers.append(number)
        for d in reversed(ins):
            whole = make.spread(value.sizes.get(d, bounds[d]), kind, target)
            stride = prod(bounds[d + 1 :])
            own = make.binary("multiply", make.binary("remainder", number, whole), make.spread(stride, kind, target))
            position = make.binary("add", position, own)
            number = make.binary("divide", number, whole)
    return make.picked(value.array, position), numbers


def _dynamic_reshape(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """Too few elements are followed by zeros."""
    value, *given = values
    target, bounds = i.shape.dimensions, value.array.shape.dimensions
    sizes = {d: make.limited(size.array, target[d]) for d, size in enumerate(given) if _known(size) != target[d]}
    if not sizes and not value.sizes:
        return Sized(make.reshape(value.array, static(i.shape)))
    groups = [(range(len(bounds)), range(len(target)))]
    result, (number,) = regrouped(make, value, target, sizes, groups)
    count = make.product(make.size(value, d) for d in range(len(bounds)))
    exists = make.compare(number, make.spread(count, number.shape.element_type, target), "LT")
    return Sized(make.select(exists, result, make.zeros(i.shape.element_type, target)), sizes)


def _set_dimension_size(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    value, size = values
    (d,) = i.attributes["dimensions"]
    whole = make.filled(value, [d])  # a size may grow: into zeros
    sizes = {n: one for n, one in value.sizes.items() if n != d}
    if _known(size) != i.shape.dimensions[d]:
        sizes[d] = make.limited(size.array, i.shape.dimensions[d])
    return Sized(whole, sizes)


def _known(size: Sized) -> int | None:
    """The number that a size is, if it is a constant."""
    known = size.array.opcode == "constant" and not size.array.literal.elided
    return int(size.array.literal.value()) if known else None


def _get_dimension_size(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    (d,) = i.attributes["dimensions"]
    return Sized(make.size(values[0], d))


RULES: dict[str, Rule] = {
    **COLLECTIVES,
    "batch-norm-grad": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-training": _batch_norm,
    "bitcast": _reshape,
    "broadcast": _broadcast,
    "cholesky": _cholesky,
    "concatenate": _concatenate,
    "convolution": _convolution,
    "copy": elementwise,
    "dot": _dot,
    "dynamic-reshape": _dynamic_reshape,
    "dynamic-slice": _slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": _fft,
    "gather": _gather,
    "get-dimension-size": _get_dimension_size,
    "map": elementwise,
    "pad": _pad,
    "ragged-dot": _ragged_dot,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "reverse": _reverse,
    "scaled-dot": _scaled_dot,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "set-dimension-size": _set_dimension_size,
    "slice": _slice,
    "sort": _sort,
    "topk": _topk,
    "transpose": _transpose,
    "triangular-solve": _triangular_solve,
}
