"""The dynamic padder, opcode by opcode: the same opcode on arrays of the bounds, and the sizes of its result.

A rule masks what would mix elements beyond the sizes into those that count.  Meaning: `hlotool.ir.dynamic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from hlotool.ir import Computation, Instruction, Module, UnsupportedError, WindowDimension, array, scalar, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.ir.dynamic import regroups, rigid_dimensions, static, whole_slice
from hlotool.passes import batch_norm_expander, select_and_scatter_expander
from hlotool.passes.dynamic_values import Maker, Sized, neutral
from hlotool.passes.topk_decomposer import ranking

__all__ = ["RULES", "Rule", "elementwise"]

Rule: TypeAlias = Callable[[Maker, Instruction, list[Sized], Module], "Sized | list[Sized]"]
"""(builder, instruction, operands, module) to the result, or the results of an opcode that gives a tuple."""


def _again(
    make: Maker, instruction: Instruction, arrays: Sequence[Instruction], attributes: Mapping[str, Any] | None = None
) -> Instruction:
    """The instruction on other operands, with static shapes."""
    given = instruction.attributes if attributes is None else attributes
    return make.add(instruction.opcode, static(instruction.shape), arrays, given)


def _unsupported(instruction: Instruction, what: str) -> UnsupportedError:
    return UnsupportedError(f"{instruction.name}: {what} of dynamic size")


def elementwise(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    rank = max(v.array.shape.rank for v in values)
    sizes = make.common(v.sizes for v in values if v.array.shape.rank == rank)
    if any(d >= i.shape.rank for d in sizes):  # the parts of a bitcast-convert to a wider type
        raise _unsupported(i, "parts of elements")
    return Sized(_again(make, i, [v.array for v in values]), sizes)


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
    shape = static(i.shape)
    result = make.zeros(shape.element_type, shape.dimensions)
    zero = end = make.number(0)
    for value in values:
        starts = [end if n == d else zero for n in range(shape.rank)]
        result = make.dynamic_update_slice(result, value.array, starts)
        end = make.binary("add", end, make.size(value, d))
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
    return Sized(_again(make, i, [operand, *(v.array for v in values[1:])]), sizes)


def _dynamic_update_slice(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """Where the update has no elements, those of the operand stay."""
    value, update, *starts = values
    indices = [v.array for v in starts]
    part, written = update.array.shape, update.array
    inside = make.inside(part, update.sizes)
    if inside is not None:
        below = make.dynamic_slice(value.array, indices, part.dimensions)
        written = make.select(inside, written, below)
    return Sized(_again(make, i, [value.array, written, *indices]), value.sizes)


def _gather(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    value, indices = values
    a = i.attributes
    operand, whole = _partial(make, i, value)
    vector, offsets = a["index_vector_dim"], a["offset_dims"]
    if vector in indices.sizes:
        raise _unsupported(i, "index vectors")
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
    return Sized(_again(make, i, [operand, indices.array]), sizes)


def _scatter(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized | list[Sized]:
    """Index vectors beyond the sizes are sent out of bounds."""
    half = len(values) // 2
    operands, indices, updates = values[:half], values[half], values[half + 1 :]
    a = i.attributes
    vector, window = a["index_vector_dim"], a["update_window_dims"]
    if vector in indices.sizes:
        raise _unsupported(i, "index vectors")
    update = updates[0].array.shape
    cut = make.common(v.sizes for v in operands)
    gone = {*a["inserted_window_dims"], *(a.get("input_batching_dims") or ())}
    bounds = operands[0].array.shape.dimensions
    kept = [d for d in range(len(bounds)) if d not in gone]
    for own, place in zip(kept, window, strict=True):
        given = [v.sizes[place] for v in updates if place in v.sizes]
        matches = update.dimensions[place] == bounds[own] and all(s is cut.get(own) for s in given)
        if given and not matches:
            raise _unsupported(i, "update windows")
    batch = [d for d in range(update.rank) if d not in window]
    outer = [d for d in range(indices.array.shape.rank) if d != vector]
    of_updates = make.common(
        {o: v.sizes[d] for d, o in zip(batch, outer, strict=True) if d in v.sizes} for v in updates
    )
    inside = make.inside(indices.array.shape, make.common([indices.sizes, of_updates]))
    where = indices.array
    if inside is not None:
        if not a["scatter_dims_to_operand_dims"]:
            raise _unsupported(i, "updates without indices")
        wide = where if where.shape.element_type == "s64" else make.convert(where, "s64")
        where = make.select(inside, wide, make.splat(-1, wide.shape))
    result = _again(make, i, [*(v.array for v in operands), where, *(v.array for v in updates)])
    if not i.shape.is_tuple:
        return Sized(result, cut)
    return [Sized(make.gte(result, n), cut) for n in range(half)]


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
        result.append(make.filled(Sized(value.array, least)))
    return result


def _convolution(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    a, (base, kernel) = i.attributes, values
    labels = a["dim_labels"]
    if any(d in v.sizes for v, own in zip(values, rigid_dimensions(i), strict=True) for d in own):
        raise _unsupported(i, "a convolution with a window or groups")
    features = [(labels.input_feature, labels.kernel_input_feature)]
    left, right = _both_filled(make, values, features)
    spatial = {d: base.sizes[d] for d in labels.input_spatial if d in base.sizes}
    left = make.filled(Sized(left, spatial))
    sizes = {}
    if labels.input_batch in base.sizes:
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
    if [p.element_type for p in parameters[:count]] != [p.element_type for p in parameters[count:]]:
        raise _unsupported(i, "operands of other types than the results,")
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
        build.select(both, new, build.select(left[-1], a, b))
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


def _cholesky(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    """The matrix comes to stand behind a block of the identity, which has no part in its factor."""
    (value,) = values
    rank = value.array.shape.rank
    row, column = rank - 2, rank - 1
    sized = [d for d in (row, column) if d in value.sizes]
    if not sized:
        return Sized(_again(make, i, [value.array]), value.sizes)
    if len(sized) == 1:
        raise UnsupportedError(f"{i.name}: cholesky of a matrix of which only one dimension has a dynamic size")
    order = make.binary("minimum", value.sizes[row], value.sizes[column])
    gap = make.binary("subtract", make.number(value.array.shape.dimensions[row]), order)
    cut = Sized(value.array, {row: order, column: order})
    matrix = _with_identity(make, cut, row, column)
    matrix = make.moved(make.moved(matrix, row, order), column, order)
    result = _again(make, i, [matrix])
    result = make.moved(make.moved(result, row, gap), column, gap)
    return Sized(result, {**value.sizes, row: order, column: order})


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
    matrix, right = values
    rank = matrix.array.shape.rank
    row, column = rank - 2, rank - 1
    side = row if i.attributes.get("left_side", False) else column
    given = [v.sizes[d] for v, d in ((matrix, row), (matrix, column), (right, side)) if d in v.sizes]
    batch = make.common({d: s for d, s in v.sizes.items() if d < row} for v in values)
    other = {d: s for d, s in right.sizes.items() if d >= row and d != side}
    if not given:
        return Sized(_again(make, i, [matrix.array, right.array]), {**batch, **other})
    if len(given) < 3:
        raise UnsupportedError(f"{i.name}: triangular-solve where not all dimensions of the order are of dynamic size")
    order = make.binary("minimum", make.binary("minimum", given[0], given[1]), given[2])
    left = _with_identity(make, Sized(matrix.array, {row: order, column: order}), row, column)
    result = _again(make, i, [left, make.filled(Sized(right.array, {side: order}))])
    return Sized(result, {**batch, **other, side: order})


def _fft(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    (value,) = values
    if any(d >= value.array.shape.rank - len(i.attributes["fft_length"]) for d in value.sizes):
        raise _unsupported(i, "fft along a dimension")
    return Sized(_again(make, i, [value.array]), value.sizes)


def _reshape(make: Maker, i: Instruction, values: list[Sized], module: Module) -> Sized:
    (value,) = values
    source, target = i.operands[0].shape, static(i.shape)
    layouts = [shape.layout for shape in (source, target)]
    moves = any(layout is not None and not layout.is_row_major for layout in layouts)
    if source.element_type != target.element_type or moves:
        raise UnsupportedError(f"{i.name}: a bitcast of an array of dynamic size that moves its elements")
    groups = regroups(i, value.sizes)
    sizes: dict[int, Instruction] = {}
    simple = True
    for group in groups:
        if group.free is None:
            continue
        others = prod(target.dimensions[d] for d in group.outputs if d != group.free)
        bounds = value.array.shape.dimensions
        count = make.product(value.sizes.get(d, bounds[d]) for d in group.inputs)
        sizes[group.free] = make.binary("divide", count, make.number(others)) if others else make.number(0)
        sized = [d for d in group.inputs if d in value.sizes]
        leading = all(bounds[d] == 1 for d in group.inputs if d < sized[0])
        leading = leading and all(target.dimensions[d] == 1 for d in group.outputs if d < group.free)
        simple = simple and len(sized) == 1 and leading
    if simple:
        return Sized(make.reshape(value.array, target), sizes)
    pairs = [(group.inputs, group.outputs) for group in groups]
    return Sized(_regrouped(make, value, target.dimensions, sizes, pairs)[0], sizes)


def _regrouped(
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
    result, (number,) = _regrouped(make, value, target, sizes, groups)
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
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "reshape": _reshape,
    "reverse": _reverse,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "set-dimension-size": _set_dimension_size,
    "slice": _slice,
    "sort": _sort,
    "topk": _topk,
    "transpose": _transpose,
    "triangular-solve": _triangular_solve,
}
