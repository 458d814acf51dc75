"""Values of dynamic size: an array of ``f32[<=8,4]`` of size 5 is simply a NumPy array of shape (5, 4).

So most opcodes need no rule of their own: one on arrays below their bounds is the same opcode on arrays of these
sizes, once operands that must agree are cut to what they have in common.  Rules: `hlotool.ir.dynamic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hlotool.evaluate.collective import zeros_of
from hlotool.evaluate.values import AnyArray, Context, Operands, Rule, Value, leaves_of, one_or_tuple
from hlotool.ir import (
    Computation,
    Instruction,
    Shape,
    SliceDimension,
    UnsupportedError,
    WindowDimension,
    array,
    tuple_shape,
)
from hlotool.ir.devices import device_groups
from hlotool.ir.dynamic import PAD_TO_STATIC, SLICE_TO_DYNAMIC, regroups, rigid_dimensions, whole_slice
from hlotool.ir.shape_checks import flags_of
from hlotool.ir.shape_inference import infer

__all__ = ["RULES", "fits", "for_sizes", "has_sizes"]

_MAKERS = frozenset({"set-dimension-size", "dynamic-reshape"})
_STRUCTURE = frozenset(
    {"tuple", "get-tuple-element", "while", "conditional", "call", "fusion", "copy", "copy-start", "copy-done"}
    | {"opt-barrier", "domain", "add-dependency", "after-all", "async-start", "async-update", "async-done"}
    | {"all-reduce-done"}
)
"""Opcodes that hand values on as they are."""


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
        if opcode == "custom-call" and instruction.attributes.get("custom_call_target") in _BORDER:
            return _BORDER[instruction.attributes["custom_call_target"]](instruction, operands, context)
        arrays = zip(operands, instruction.operands, strict=True)
        if all(not isinstance(a, np.ndarray) or a.shape == i.shape.dimensions for a, i in arrays):
            return rule(instruction, operands, context)
        if opcode in _OWN:
            return _OWN[opcode](instruction, operands, context)
        prepare = _elementwise if instruction.has("elementwise") else _PREPARED.get(opcode)
        if prepare is None:
            raise UnsupportedError(f"{instruction.name}: {opcode} of an array of dynamic size")
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


def _filled(value: AnyArray, bounds: Sequence[int], dimensions: Sequence[int] | None = None) -> AnyArray:
    """Zeros up to the bounds, along some dimensions or all."""
    chosen = range(value.ndim) if dimensions is None else dimensions
    sizes = [bounds[d] if d in chosen else n for d, n in enumerate(value.shape)]
    result = np.zeros(sizes, value.dtype)
    result[tuple(map(slice, value.shape))] = value
    return result


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
    if instruction.opcode == "bitcast-convert" and len(target) < rank and sizes[-1] != _last_bound(instruction):
        raise UnsupportedError(f"{instruction.name}: a bitcast-convert of elements in parts, some of which are missing")
    return _resized(instruction, cut, (*sizes, *target[rank:])[: len(target)])


def _last_bound(instruction: Instruction) -> int:
    """The bound of the last dimension of the first operand."""
    return instruction.operands[0].shape.dimensions[-1]


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


def _collective(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """On a lone device: what it has."""
    _require_alone(instruction, context)
    return one_or_tuple(instruction, operands)


def _collective_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """(operands, results, context...), single ones bare."""
    _require_alone(instruction, context)
    value = operands[0] if len(operands) == 1 else tuple(operands)
    return (value, value, *map(zeros_of, instruction.shape.elements[2:]))


def _require_alone(instruction: Instruction, context: Context) -> None:
    topology = context.device.world.topology
    pairs = instruction.attributes.get("source_target_pairs")
    alone = topology.devices == 1 and "slice_sizes" not in instruction.attributes
    groups = [[0]] if pairs is not None else device_groups(instruction, topology)
    if not alone or [list(group) for group in groups] != [[0]] or (pairs is not None and 0 not in dict(pairs)):
        raise UnsupportedError(f"{instruction.name}: {instruction.opcode} of an array of dynamic size among devices")


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


def _cholesky(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    (value,) = operands
    rows, columns = value.ndim - 2, value.ndim - 1
    if not _alike(instruction, [(0, rows), (0, columns)], operands):
        what = "cholesky of a matrix of which only one dimension has a dynamic size"
        raise UnsupportedError(f"{instruction.name}: {what}")
    order = min(value.shape[rows:])
    return _resized(instruction, [_cut(value, {rows: order, columns: order})])


def _triangular_solve(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    matrix, right = operands
    rows, columns = matrix.ndim - 2, matrix.ndim - 1
    side = rows if instruction.attributes.get("left_side", False) else columns
    if not _alike(instruction, [(0, rows), (0, columns), (1, side)], operands):
        what = "triangular-solve where not all dimensions of the order are of dynamic size"
        raise UnsupportedError(f"{instruction.name}: {what}")
    order = min(matrix.shape[rows], matrix.shape[columns], right.shape[side])
    least = {d: min(matrix.shape[d], right.shape[d]) for d in range(rows)}
    matrix = _cut(matrix, {**least, rows: order, columns: order})
    return _resized(instruction, [matrix, _cut(right, {**least, side: order})])


def _alike(instruction: Instruction, places: Sequence[tuple[int, int]], operands: Sequence[AnyArray]) -> bool:
    """Whether all of some (operand, dimension) may have sizes, or none has."""
    shapes = [instruction.operands[n].shape for n, _ in places]
    flags = [flags_of(shape)[d] for shape, (_, d) in zip(shapes, places, strict=True)]
    sized = [operands[n].shape[d] != shape.dimensions[d] for shape, (n, d) in zip(shapes, places, strict=True)]
    return len({flag or size for flag, size in zip(flags, sized, strict=True)}) == 1


def _fft(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    (value,) = operands
    inner = len(instruction.attributes["fft_length"])
    if value.shape[-inner:] != instruction.operands[0].shape.dimensions[-inner:]:
        raise UnsupportedError(f"{instruction.name}: fft along a dimension of dynamic size")
    return _resized(instruction, operands)


def _paired(arrays: list[AnyArray], pairs: Sequence[tuple[int, int]]) -> list[AnyArray]:
    """Two arrays cut so that the paired dimensions agree."""
    least = [min(arrays[0].shape[ours], arrays[1].shape[theirs]) for ours, theirs in pairs]
    return [_cut(a, {p[side]: n for p, n in zip(pairs, least, strict=True)}) for side, a in enumerate(arrays)]


def _dot(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    pairs: list[tuple[int, int]] = []
    for kind in ("contracting", "batch"):
        ours, theirs = (instruction.attributes.get(f"{side}_{kind}_dims") or () for side in ("lhs", "rhs"))
        pairs += zip(ours, theirs, strict=True)
    return _resized(instruction, _paired(operands, pairs))


def _convolution(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    labels = instruction.attributes["dim_labels"]
    for value, given, rigid in zip(operands, instruction.operands, rigid_dimensions(instruction), strict=True):
        if any(value.shape[d] != given.shape.dimensions[d] for d in rigid):
            raise UnsupportedError(f"{instruction.name}: a convolution with a window or groups of dynamic size")
    if instruction.attributes.get("feature_group_count", 1) == 1:
        operands = _paired(operands, [(labels.input_feature, labels.kernel_input_feature)])
    return _resized(instruction, operands)


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
        if instruction.attributes["index_vector_dim"] < operands[1].ndim:
            _require_vectors(instruction, operands[1], instruction.operands[1])
        theirs = instruction.attributes.get("start_indices_batching_dims") or ()
        arrays = _paired(arrays, list(zip(ours, theirs, strict=True)))
    old = instruction.attributes[name]
    sizes = tuple(
        n if whole_slice(instruction, d) else min(n, 1) if d in ours else old[d] for d, n in enumerate(arrays[0].shape)
    )
    return _resized(instruction, arrays, None, {**instruction.attributes, name: sizes})


def _require_vectors(instruction: Instruction, indices: AnyArray, given: Instruction) -> None:
    """Index vectors themselves have no dynamic size."""
    d = instruction.attributes["index_vector_dim"]
    if indices.shape[d] != given.shape.dimensions[d]:
        raise UnsupportedError(f"{instruction.name}: index vectors of dynamic size")


def _dynamic_slice(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _windows(instruction, operands, "dynamic_slice_sizes")


def _gather(instruction: Instruction, operands: list[AnyArray]) -> Prepared:
    return _windows(instruction, operands, "slice_sizes")


def _dynamic_update_slice(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Starts are limited by the bounds; the elements that the update has are written."""
    from hlotool.evaluate.movement import clamped_starts

    value, update, *indices = operands
    bounds = instruction.shape.dimensions
    result = _filled(value, bounds)
    starts = clamped_starts(indices, bounds, instruction.operands[1].shape.dimensions)
    result[tuple(slice(start, start + n) for start, n in zip(starts, update.shape, strict=True))] = update
    return _cut(result, dict(enumerate(value.shape)))


def _scatter(instruction: Instruction, operands: Operands, context: Context) -> Value:
    from hlotool.evaluate.gather import RULES

    half = len(operands) // 2
    arrays, indices, updates = operands[:half], operands[half], operands[half + 1 :]
    attributes = instruction.attributes
    bounds, update = arrays[0].shape, instruction.operands[half + 1].shape.dimensions
    vector = attributes["index_vector_dim"]
    if vector < indices.ndim:
        _require_vectors(instruction, indices, instruction.operands[half])
    window = attributes["update_window_dims"]
    batch = [d for d in range(len(update)) if d not in window]
    outer = [d for d in range(indices.ndim) if d != vector]
    least = [min(*(u.shape[d] for u in updates), indices.shape[o]) for d, o in zip(batch, outer, strict=True)]
    indices = _cut(indices, dict(zip(outer, least, strict=True)))
    updates = [_cut(u, dict(zip(batch, least, strict=True))) for u in updates]
    bounds = instruction.operands[0].shape.dimensions
    cut = {d: min(a.shape[d] for a in arrays) for d in range(len(bounds))}
    gone = {*attributes["inserted_window_dims"], *(attributes.get("input_batching_dims") or ())}
    kept = [d for d in range(len(bounds)) if d not in gone]
    for own, place in zip(kept, window, strict=True):
        size = min(u.shape[place] for u in updates)
        whole = update[place] == bounds[own] and size >= cut[own]
        if size != update[place] and not whole:
            raise UnsupportedError(f"{instruction.name}: update windows of dynamic size")
    full = [*update]
    for d, n in zip(batch, least, strict=True):
        full[d] = n
    filled = [*(_filled(a, bounds) for a in arrays), indices, *(_filled(u, full) for u in updates)]
    own_instruction, given = _resized(instruction, filled, bounds)
    result = RULES["scatter"](own_instruction, given, context)
    leaves = [_cut(leaf, cut) for leaf in leaves_of(result)]
    return one_or_tuple(instruction, leaves)


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
    source, target = instruction.operands[0].shape, instruction.shape
    layouts = [shape.layout for shape in (source, target)]
    if source.element_type != target.element_type or any(o is not None and not o.is_row_major for o in layouts):
        raise UnsupportedError(f"{instruction.name}: a bitcast of an array of dynamic size that moves its elements")
    value = operands[0]
    flags = flags_of(source)
    dynamic = [d for d, n in enumerate(value.shape) if n != source.dimensions[d] or flags[d]]
    groups = regroups(instruction, dynamic)
    counts = [prod(value.shape[d] for d in group.inputs) for group in groups]
    sizes = list(target.dimensions)
    kept = []
    for group, count in zip(groups, counts, strict=True):
        others = prod(sizes[d] for d in group.outputs if d != group.free)
        if group.free is not None:
            sizes[group.free] = count // others if others else 0
        kept.append(prod(sizes[d] for d in group.outputs))
    return np.asarray(value.reshape(counts)[tuple(map(slice, kept))].reshape(sizes))


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
    "cholesky": _cholesky,
    "concatenate": _concatenate,
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "fft": _fft,
    "gather": _gather,
    "map": _elementwise,
    "pad": _pad,
    "reduce": _reduction,
    "reduce-window": _reduction,
    "reverse": _as_it_is,
    "slice": _slice,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "transpose": _as_it_is,
    "triangular-solve": _triangular_solve,
}

_OWN: dict[str, Rule] = {
    "all-gather": _collective,
    "all-gather-start": _collective_start,
    "all-reduce": _collective,
    "all-reduce-start": _collective,
    "all-to-all": _collective,
    "bitcast": _reshape,
    "collective-broadcast": _collective,
    "collective-permute": _collective,
    "collective-permute-start": _collective_start,
    "dynamic-update-slice": _dynamic_update_slice,
    "reduce-scatter": _collective,
    "reshape": _reshape,
    "scatter": _scatter,
    "topk": _topk,
}

_BORDER: dict[str, Rule] = {PAD_TO_STATIC: _pad_to_static, SLICE_TO_DYNAMIC: _slice_to_dynamic}

RULES: dict[str, Rule] = {
    "dynamic-reshape": _dynamic_reshape,
    "get-dimension-size": _get_dimension_size,
    "set-dimension-size": _set_dimension_size,
}
