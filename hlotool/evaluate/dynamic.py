"""Values of dynamic size: an array of ``f32[<=8,4]`` of size 5 is simply a NumPy array of shape (5, 4).

So most opcodes need no rule of their own: one on arrays below their bounds is the same opcode on arrays of these
sizes, once operands that must agree are cut to what they have in common.  Rules: `hlotool.ir.dynamic`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.values import AnyArray, Operands, Value, leaves_of, one_or_tuple
from hlotool.evaluate.xla_annotations import is_annotation
from hlotool.ir import Computation, Instruction, Shape, SliceDimension, WindowDimension, array, tuple_shape
from hlotool.ir.dynamic import (
    PAD_TO_STATIC,
    SLICE_TO_DYNAMIC,
    bitcast_steps,
    bounded_dimensions,
    regroups,
    whole_slice,
)
from hlotool.ir.ragged import ragged_meetings
from hlotool.ir.shape_checks import flags_of
from hlotool.ir.shape_inference import infer

__all__ = ["RULES", "fits", "for_sizes", "has_sizes"]

_MAKERS = frozenset({"set-dimension-size", "dynamic-reshape"})
_STRUCTURE = frozenset(
    {"tuple", "get-tuple-element", "while", "conditional", "call", "fusion", "copy", "copy-start", "copy-done"}
    | {"opt-barrier", "domain", "add-dependency", "after-all", "async-start", "async-update", "async-done"}
)
"""Opcodes that hand values on as they are."""

_COLLECTIVES = frozenset({
    "all-gather", "all-gather-start", "all-gather-done", "all-reduce", "all-reduce-start", "all-reduce-done",
    "all-to-all", "collective-broadcast", "collective-permute", "collective-permute-start", "collective-permute-done",
    "reduce-scatter",
})  # fmt: skip
"""Opcodes whose rules know that sizes differ."""


def has_sizes(computation: Computation) -> bool:
    """Whether values of the computation may be smaller than the dimensions of their shapes say."""
    return any(i.opcode in _MAKERS or not i.shape.is_static for i in computation)


def fits(value: AnyArray, shape: Shape) -> bool:
    """Whether an array has the rank of `shape` and no more elements along each dimension."""
    bounds = shape.dimensions
    return value.ndim == len(bounds) and all(n <= bound for n, bound in zip(value.shape, bounds, strict=True))


def for_sizes(rule: Rule) -> Rule:
    """`rule`, made to take operands that are smaller than their shapes say."""

    def apply(instruction: Instruction, operands: Operands, context: Context) -> Value:
        opcode = instruction.opcode
        if opcode in _STRUCTURE or opcode in RULES:
            return rule(instruction, operands, context)
        target = instruction.attributes.get("custom_call_target")
        if target in _BORDER:
            return _BORDER[target](instruction, operands, context)
        if opcode in _COLLECTIVES and "slice_sizes" not in instruction.attributes:
            return rule(instruction, operands, context)
        arrays = zip(operands, instruction.operands, strict=True)
        if all(isinstance(a, np.ndarray) and a.shape == i.shape.dimensions for a, i in arrays):
            return rule(instruction, operands, context)
        if opcode in _OWN:
            return _OWN[opcode](instruction, operands, context)
        if is_annotation(instruction):
            value: Value = operands[0]
            return value
        prepare = _elementwise if instruction.has("elementwise") else _PREPARED.get(opcode)
        if prepare is None:
            shapes = [operand.shape for operand in instruction.operands]
            return rule(instruction, list(map(_all_bounded, operands, shapes)), context)
        own, cut = prepare(instruction, list(operands))
        return rule(own, cut, context)

    return apply


Prepared: TypeAlias = "tuple[Instruction, list[AnyArray]]"


def _resized(
    instruction: Instruction,
    arrays: Sequence[AnyArray],
    sizes: Sequence[int] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Prepared:
    """The instruction on arrays of these sizes.  `sizes` are those of its results; inferred where None."""
    operands = [
        Instruction("parameter", array(old.shape.element_type, a.shape))
        for a, old in zip(arrays, instruction.operands, strict=True)
    ]
    attributes = instruction.attributes if attributes is None else attributes
    if sizes is None:
        inferred = infer(instruction.opcode, [o.shape for o in operands], attributes)
        sizes = (inferred.elements[0] if inferred.is_tuple else inferred).dimensions
    leaves = [array(leaf.element_type, sizes) for leaf in instruction.shape.leaves()]
    shape = tuple_shape(leaves) if instruction.shape.is_tuple else leaves[0]
    own = Instruction(instruction.opcode, shape, operands, attributes, instruction.name)
    return own, list(arrays)


def _cut(value: AnyArray, sizes: Mapping[int, int]) -> AnyArray:
    """The first elements along some dimensions."""
    return np.asarray(value[tuple(slice(sizes.get(d)) for d in range(value.ndim))])


def _filled(value: AnyArray, bounds: Sequence[int], dimensions: Collection[int] | None = None) -> AnyArray:
    """Zeros up to the bounds, along some dimensions or all."""
    chosen = range(value.ndim) if dimensions is None else dimensions
    sizes = [bounds[d] if d in chosen else n for d, n in enumerate(value.shape)]
    result = np.zeros(sizes, value.dtype)
    result[tuple(map(slice, value.shape))] = value
    return result


def _all_bounded(value: Value, shape: Shape) -> Value:
    """The value with zeros up to the bounds of all its arrays."""
    if isinstance(value, tuple):
        return tuple(map(_all_bounded, value, shape.elements))
    return _bounded(value, shape)


def _bounded(value: AnyArray, shape: Shape) -> AnyArray:
    return value if value.shape == shape.dimensions else _filled(value, shape.dimensions)


def _common(arrays: Sequence[AnyArray], but: int | None = None) -> list[AnyArray]:
    """What arrays of one rank have in common (along dimension `but` they stay as they are)."""
    least = {d: min(a.shape[d] for a in arrays) for d in range(arrays[0].ndim) if d != but}
    return [_cut(a, least) for a in arrays]


def _elementwise(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    rank = max(a.ndim for a in operands)
    common = iter(_common([a for a in operands if a.ndim == rank]))
    cut = [next(common) if a.ndim == rank else a for a in operands]
    sizes = next(a.shape for a in cut if a.ndim == rank)
    target = instruction.shape.dimensions
    if instruction.opcode == "bitcast-convert" and len(target) < rank:
        cut = [_filled(cut[0], instruction.operands[0].shape.dimensions, [rank - 1])]
    return _resized(instruction, cut, (*sizes, *target[rank:])[: len(target)])


def _broadcast(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    sizes = list(instruction.shape.dimensions)
    for own, place in enumerate(instruction.attributes["dimensions"]):
        sizes[place] = operands[0].shape[own]
    return _resized(instruction, operands, sizes)


def _as_it_is(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _resized(instruction, operands)


def _concatenate(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _resized(instruction, _common(operands, instruction.attributes["dimensions"][0]))


def _pad(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    padding = zip(operands[0].shape, instruction.attributes["padding"], strict=True)
    sizes = [max(0, n + max(n - 1, 0) * p.interior + p.low + p.high) for n, p in padding]
    return _resized(instruction, operands, sizes)


def _reduction(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    half = len(operands) // 2
    return _resized(instruction, [*_common(operands[:half]), *operands[half:]])


def _sort(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _resized(instruction, _common(operands))


def _topk(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """All elements in order, and zeros up to the k that are wanted."""
    from hlotool.evaluate.sort import RULES

    (value,) = operands
    *batch, length = value.shape
    k = instruction.attributes["k"]
    own, given = _resized(instruction, [value], None, {**instruction.attributes, "k": min(k, length)})
    return tuple(_filled(leaf, (*batch, k)) for leaf in leaves_of(RULES["topk"](own, given, context)))


def _batch_norm(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    feature, rank = instruction.attributes["feature_index"], operands[0].ndim
    data = _common([a for a in operands if a.ndim == rank])
    features = min(*(a.shape[feature if a.ndim == rank else 0] for a in operands))
    whole = iter(_cut(a, {feature: features}) for a in data)
    cut = [next(whole) if a.ndim == rank else _cut(a, {0: features}) for a in operands]
    own = _resized(instruction, cut, cut[0].shape)[0]
    if own.shape.is_tuple:  # (data, one number per feature, another)
        kind = own.shape.elements[1].element_type
        own.shape = tuple_shape([own.shape.elements[0], *[array(kind, (features,))] * 2])
    return own, cut


def _select_and_scatter(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    value, source, initial = operands
    window = instruction.attributes.get("window")
    rows = window.dimensions if window is not None else (WindowDimension(1),) * value.ndim
    counts = {d: row.output_size(n) for d, (row, n) in enumerate(zip(rows, value.shape, strict=True))}
    return _resized(instruction, [value, _cut(source, counts), initial], value.shape)


def _cholesky(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    from hlotool.evaluate.linalg import RULES

    (value,) = operands
    square = [value.ndim - 2, value.ndim - 1]
    order = min(value.shape[-2:])
    own, given = _resized(instruction, [_cut(value, dict.fromkeys(square, order))])
    return _filled_static(instruction, 0, square, RULES["cholesky"](own, given, context))


def _triangular_solve(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    from hlotool.evaluate.linalg import RULES

    matrix, right = operands
    rows, columns = matrix.ndim - 2, matrix.ndim - 1
    side = rows if instruction.attributes.get("left_side", False) else columns
    order = min(matrix.shape[rows], matrix.shape[columns], right.shape[side])
    least = {d: min(matrix.shape[d], right.shape[d]) for d in range(rows)}
    matrix = _cut(matrix, {**least, rows: order, columns: order})
    own, given = _resized(instruction, [matrix, _cut(right, {**least, side: order})])
    return _filled_static(instruction, 1, [side], RULES["triangular-solve"](own, given, context))


def _filled_static(instruction: Instruction, number: int, dimensions: Sequence[int], result: Value) -> AnyArray:
    """A result like operand `number`, with zeros up to the bounds of those of its `dimensions` that are static."""
    assert isinstance(result, np.ndarray)
    flags = flags_of(instruction.operands[number].shape)
    return _filled(result, instruction.shape.dimensions, [d for d in dimensions if not flags[d]])


def _fft(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    """What is transformed has the length that the instruction says: zeros where there are no elements."""
    (value,) = operands
    inner = range(value.ndim - len(instruction.attributes["fft_length"]), value.ndim)
    return _resized(instruction, [_filled(value, instruction.operands[0].shape.dimensions, inner)])


def _paired(arrays: list[AnyArray], pairs: Sequence[tuple[int, int]]) -> list[AnyArray]:
    """Two arrays cut so that the paired dimensions agree."""
    least = [min(arrays[0].shape[ours], arrays[1].shape[theirs]) for ours, theirs in pairs]
    return [_cut(a, {p[side]: n for p, n in zip(pairs, least, strict=True)}) for side, a in enumerate(arrays)]


def _meetings(dot: Instruction) -> list[tuple[int, int]]:
    """Contracted and batch dimensions of both sides."""
    pairs: list[tuple[int, int]] = []
    for kind in ("contracting", "batch"):
        ours, theirs = (dot.attributes.get(f"{side}_{kind}_dims") or () for side in ("lhs", "rhs"))
        pairs += zip(ours, theirs, strict=True)
    return pairs


def _dot(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _resized(instruction, _paired(operands, _meetings(instruction)))


def _ragged_dot(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    """All that meets is cut to what it has in common: elements, and groups."""
    cuts: list[dict[int, int]] = [{}, {}, {}]
    for meeting in ragged_meetings(instruction.attributes, operands[0].ndim, operands[2].ndim):
        least = min(operands[number].shape[d] for number, d in meeting)
        for number, d in meeting:
            cuts[number][d] = least
    return _resized(instruction, list(map(_cut, operands, cuts)))


def _scaled_dot(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    """One scale for each element, by its position in the bounds; an element without one counts as if it were not."""
    sides = []
    for number in (0, 1):
        value, scale = operands[number], operands[number + 2]
        bounds, blocks = (instruction.operands[n].shape.dimensions for n in (number, number + 2))
        for d, count in enumerate(blocks):
            scale = np.repeat(scale, bounds[d] // max(1, count), axis=d)
        sides.append((value, scale) if not blocks else _common([value, scale]))
    (left, left_scale), (right, right_scale) = sides
    pairs = _meetings(instruction)
    arrays = [*_paired([left, right], pairs), left_scale, right_scale]
    scales = [_cut(s, dict(enumerate(a.shape))) if s.ndim else s for s, a in zip(arrays[2:], arrays, strict=False)]
    return _resized(instruction, [*arrays[:2], *scales])


def _convolution(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    from hlotool.evaluate.convolution import RULES

    labels = instruction.attributes["dim_labels"]
    outputs = operands[1].shape[labels.kernel_output_feature]
    bounded = zip(operands, instruction.operands, bounded_dimensions(instruction), strict=True)
    arrays = [_filled(value, given.shape.dimensions, own) for value, given, own in bounded]
    if instruction.attributes.get("feature_group_count", 1) == 1:
        arrays = _paired(arrays, [(labels.input_feature, labels.kernel_input_feature)])
    own, given = _resized(instruction, arrays)
    result = RULES["convolution"](own, given, context)
    assert isinstance(result, np.ndarray)
    return _cut(result, {labels.output_feature: outputs})


def _partial(instruction: Instruction, value: AnyArray) -> AnyArray:
    """The operand of a slice of some kind: zeros up to the bounds along dimensions that are not taken whole."""
    batching = instruction.attributes.get("operand_batching_dims") or ()
    cut = [d for d in range(value.ndim) if not whole_slice(instruction, d) and d not in batching]
    return _filled(value, instruction.operands[0].shape.dimensions, cut)


def _slice(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    value = _partial(instruction, operands[0])
    ranges = tuple(
        SliceDimension(0, n) if whole_slice(instruction, d) else instruction.attributes["slice"][d]
        for d, n in enumerate(value.shape)
    )
    return _resized(instruction, [value], None, {"slice": ranges})


def _windows(instruction: Instruction, operands: list[AnyArray], name: str) -> Prepared:
    arrays = [_partial(instruction, operands[0]), *operands[1:]]
    ours: Sequence[int] = instruction.attributes.get("operand_batching_dims") or ()
    if instruction.opcode == "gather":
        arrays[1] = _whole_vectors(instruction, operands[1], instruction.operands[1])
        theirs = instruction.attributes.get("start_indices_batching_dims") or ()
        arrays = _paired(arrays, list(zip(ours, theirs, strict=True)))
    old = instruction.attributes[name]
    sizes = tuple(
        n if whole_slice(instruction, d) else min(n, 1) if d in ours else old[d] for d, n in enumerate(arrays[0].shape)
    )
    return _resized(instruction, arrays, None, {**instruction.attributes, name: sizes})


def _whole_vectors(instruction: Instruction, indices: AnyArray, given: Instruction) -> AnyArray:
    """Index vectors with zeros for the numbers that they do not have."""
    vector = instruction.attributes["index_vector_dim"]
    return _filled(indices, given.shape.dimensions, [vector]) if vector < indices.ndim else indices


def _dynamic_slice(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    given = zip(operands[1:], instruction.operands[1:], strict=True)
    return _windows(instruction, [operands[0], *(_bounded(a, i.shape) for a, i in given)], "dynamic_slice_sizes")


def _gather(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _windows(instruction, operands, "slice_sizes")


def _dynamic_update_slice(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Starts are limited by the bounds; the elements that the update has are written."""
    from hlotool.evaluate.movement import clamped_starts

    value, update, *indices = operands
    bounds = instruction.shape.dimensions
    result = _filled(value, bounds)
    whole = [_bounded(index, given.shape) for index, given in zip(indices, instruction.operands[2:], strict=True)]
    starts = clamped_starts(whole, bounds, instruction.operands[1].shape.dimensions)
    result[tuple(slice(start, start + n) for start, n in zip(starts, update.shape, strict=True))] = update
    return _cut(result, dict(enumerate(value.shape)))


def _scatter(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """As if updates and indices were whole, but for the elements of the updates that there are not."""
    from hlotool.evaluate.gather import combine_at, scatter_places

    half = len(operands) // 2
    arrays, indices, updates = operands[:half], operands[half], operands[half + 1 :]
    attributes = instruction.attributes
    shapes = [operand.shape.dimensions for operand in instruction.operands]
    bounds, wide = shapes[0], shapes[half + 1]
    vector, window = attributes["index_vector_dim"], attributes["update_window_dims"]
    batch = [d for d in range(len(wide)) if d not in window]
    outer = [d for d in range(indices.ndim) if d != vector]
    sizes = [min(u.shape[d] for u in updates) for d in range(len(wide))]
    for d, o in zip(batch, outer, strict=True):
        sizes[d] = min(sizes[d], indices.shape[o])
    exists = _filled(np.ones(sizes, bool), wide)
    cut = {d: min(a.shape[d] for a in arrays) for d in range(len(bounds))}
    flats = [_filled(_cut(a, cut), bounds).reshape(-1) for a in arrays]
    if exists.any() and flats[0].size:
        given = [*(_filled(u, wide) for u in updates), exists]
        places, (*rows, wanted) = scatter_places(attributes, bounds, _filled(indices, shapes[half]), given)
        rows = [row[wanted] for row in rows]
        flats = combine_at(flats, places[wanted], rows, attributes["to_apply"], context)
    return one_or_tuple(instruction, [_cut(flat.reshape(bounds), cut) for flat in flats])


def _limited(size: AnyArray, bound: int) -> int:
    return max(0, min(int(size), bound))


def _get_dimension_size(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    (dimension,) = instruction.attributes["dimensions"]
    return np.array(operands[0].shape[dimension], np.int32)


def _set_dimension_size(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    value, size = operands
    (dimension,) = instruction.attributes["dimensions"]
    bound = instruction.shape.dimensions[dimension]
    grown = _filled(value, instruction.shape.dimensions, [dimension])
    return _cut(grown, {dimension: _limited(size, bound)})


def _dynamic_reshape(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    value, *sizes = operands
    wanted = [_limited(n, bound) for n, bound in zip(sizes, instruction.shape.dimensions, strict=True)]
    result = np.zeros(prod(wanted), value.dtype)
    flat = value.reshape(-1)[: result.size]
    result[: flat.size] = flat
    return result.reshape(wanted)


def _reshape(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    from hlotool.evaluate.movement import RULES, bitcast_linear

    (value,) = operands
    steps = bitcast_steps(instruction)
    if steps is None:
        result = RULES["bitcast"](instruction, [_bounded(value, instruction.operands[0].shape)], context)
        assert isinstance(result, np.ndarray)
        return result
    before, reshape, after = steps
    result = _regrouped(reshape, value.transpose(before)).transpose(after)
    kinds = [shape.element_type for shape in (instruction.operands[0].shape, instruction.shape)]
    return result if kinds[0] == kinds[1] else bitcast_linear(result.reshape(-1), *kinds).reshape(result.shape)


def _regrouped(reshape: Instruction, value: AnyArray) -> AnyArray:
    """Elements in order, group by group of dimensions."""
    source, target = reshape.operands[0].shape, reshape.shape
    flags = flags_of(source)
    dynamic = [d for d, n in enumerate(value.shape) if n != source.dimensions[d] or flags[d]]
    groups = regroups(reshape, dynamic)
    counts = [prod(value.shape[d] for d in group.inputs) for group in groups]
    sizes = list(target.dimensions)
    kept = []
    for group, count in zip(groups, counts, strict=True):
        others = prod(sizes[d] for d in group.outputs if d != group.free)
        if group.free is not None:
            sizes[group.free] = count // others if others else 0
        kept.append(prod(sizes[d] for d in group.outputs))
    cut = value.reshape(counts)[tuple(map(slice, kept))]
    return _filled(cut, kept).reshape(sizes)


def _pad_to_static(instruction: Instruction, operands: Operands, context: Context) -> Value:
    (value,) = operands
    bounds = instruction.operands[0].shape.dimensions
    return (_filled(value, bounds), *(np.array(n, np.int32) for n in value.shape))


def _slice_to_dynamic(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    value, *sizes = operands
    bounds = instruction.shape.dimensions
    cut = {d: _limited(sizes[d], bounds[d]) for d, flag in enumerate(flags_of(instruction.shape)) if flag}
    return _cut(value, cut)


_PREPARED: dict[str, Callable[[Instruction, list[AnyArray]], Prepared]] = {
    "broadcast": _broadcast,
    "batch-norm-grad": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-training": _batch_norm,
    "concatenate": _concatenate,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "fft": _fft,
    "gather": _gather,
    "map": _elementwise,
    "pad": _pad,
    "ragged-dot": _ragged_dot,
    "reduce": _reduction,
    "reduce-window": _reduction,
    "reverse": _as_it_is,
    "scaled-dot": _scaled_dot,
    "slice": _slice,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "transpose": _as_it_is,
}

_OWN: dict[str, Rule] = {
    "bitcast": _reshape,
    "cholesky": _cholesky,
    "convolution": _convolution,
    "dynamic-update-slice": _dynamic_update_slice,
    "reshape": _reshape,
    "scatter": _scatter,
    "topk": _topk,
    "triangular-solve": _triangular_solve,
}

_BORDER: dict[str, Rule] = {PAD_TO_STATIC: _pad_to_static, SLICE_TO_DYNAMIC: _slice_to_dynamic}

RULES: dict[str, Rule] = {
    "dynamic-reshape": _dynamic_reshape,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
}
