"""gather and scatter: windows of an operand at computed places.

Both become flat indices: the start of each window plus the offsets of a window's elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.evaluate.combiner import Combiner, combiner_of, replaces
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.movement import as_index
from hlotool.evaluate.rounding import round_to, widen
from hlotool.evaluate.values import AnyArray, Operands, Value, one_or_tuple
from hlotool.ir import ELEMENT_TYPES, Instruction, dtype_of

__all__ = ["RULES", "combine_at", "scatter_places"]


def _starts(
    indices: AnyArray,
    index_vector_dim: int,
    operand_rank: int,
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
) -> AnyArray:
    """Start index per operand dimension on a last axis, other axes those of `indices` without its vector dimension.

    `batching` pairs operand dimensions with dimensions of `indices` that advance together.
    """
    vectors = as_index(indices)
    if index_vector_dim == vectors.ndim:
        vectors = vectors[..., None]
    vectors = np.moveaxis(vectors, index_vector_dim, -1)
    starts = np.zeros((*vectors.shape[:-1], operand_rank), np.int64)
    for position, dimension in enumerate(index_map):
        starts[..., dimension] = vectors[..., position]
    for dimension, index_dimension in batching:
        axis = index_dimension - (index_dimension > index_vector_dim)
        column = [-1 if other == axis else 1 for other in range(starts.ndim - 1)]
        starts[..., dimension] = np.arange(starts.shape[axis]).reshape(column)
    return starts


def _strides(sizes: Sequence[int]) -> AnyArray:
    return np.array([prod(sizes[axis + 1 :]) for axis in range(len(sizes))], np.int64)


def _window_offsets(window: Sequence[int], strides: AnyArray) -> AnyArray:
    """Flat offset of every element of a window from its start, in row-major order of the window."""
    offsets = np.zeros((1,) * len(window), np.int64)
    for axis, size in enumerate(window):
        column = [-1 if other == axis else 1 for other in range(len(window))]
        offsets = offsets + (np.arange(size) * strides[axis]).reshape(column)
    return offsets.reshape(-1)


def _batching(attributes: dict[str, Any], operand: str, indices: str) -> list[tuple[int, int]]:
    return list(zip(attributes.get(operand) or (), attributes.get(indices) or (), strict=True))


def _gather(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Starts are moved so that windows lie inside; where the operand has no elements, there are only zeros to pick."""
    array, indices = operands
    attributes = instruction.attributes
    batching = _batching(attributes, "operand_batching_dims", "start_indices_batching_dims")
    sizes = attributes["slice_sizes"]
    if instruction.shape.size == 0 or array.size == 0:
        return np.zeros(instruction.shape.dimensions, array.dtype)
    starts = _starts(indices, attributes["index_vector_dim"], array.ndim, attributes["start_index_map"], batching)
    starts = np.clip(starts, 0, np.array(array.shape, np.int64) - np.array(sizes, np.int64))
    strides = _strides(array.shape)
    flat = (starts @ strides)[..., None] + _window_offsets(sizes, strides)
    dropped = {*attributes["collapsed_slice_dims"], *(dimension for dimension, _ in batching)}
    window = [size for dimension, size in enumerate(sizes) if dimension not in dropped]
    picked = np.ascontiguousarray(array).reshape(-1)[flat].reshape((*starts.shape[:-1], *window))
    offset_dims = attributes["offset_dims"]
    batch_rank = starts.ndim - 1
    return np.moveaxis(picked, range(batch_rank, picked.ndim), offset_dims)


def _scatter(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """Updates are applied in index order; a window that leaves the operand is skipped whole."""
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    sizes = arrays[0].shape
    if updates[0].size == 0 or arrays[0].size == 0:
        return one_or_tuple(instruction, arrays)
    targets, rows = scatter_places(instruction.attributes, sizes, indices, updates)
    flats = [np.array(a, order="C").reshape(-1) for a in arrays]
    results = combine_at(flats, targets, rows, instruction.attributes["to_apply"], context)
    return one_or_tuple(instruction, [r.reshape(sizes) for r in results])


def scatter_places(
    attributes: dict[str, Any], sizes: Sequence[int], indices: AnyArray, updates: Sequence[AnyArray]
) -> tuple[AnyArray, list[AnyArray]]:
    """The flat indices in an operand of `sizes` that updates go to, in order, and the elements of the updates."""
    batching = _batching(attributes, "input_batching_dims", "scatter_indices_batching_dims")
    starts = _starts(
        indices, attributes["index_vector_dim"], len(sizes), attributes["scatter_dims_to_operand_dims"], batching
    )
    starts = starts.reshape(prod(starts.shape[:-1]), len(sizes))
    dropped = {*attributes["inserted_window_dims"], *(dimension for dimension, _ in batching)}
    window_dims = attributes["update_window_dims"]
    window_sizes = iter([updates[0].shape[dimension] for dimension in window_dims])
    window = [1 if dimension in dropped else next(window_sizes) for dimension in range(len(sizes))]
    limits = np.array(sizes, np.int64) - np.array(window, np.int64)
    inside = ((starts >= 0) & (starts <= limits)).all(axis=-1)
    strides = _strides(sizes)
    targets = (starts[inside] @ strides)[:, None] + _window_offsets(window, strides)
    order = [d for d in range(updates[0].ndim) if d not in window_dims] + list(window_dims)
    rows = [u.transpose(order).reshape(len(starts), -1)[inside].reshape(-1) for u in updates]
    return targets.reshape(-1), rows


def combine_at(
    arrays: Sequence[AnyArray], targets: AnyArray, updates: Sequence[AnyArray], computation: Any, context: Context
) -> list[AnyArray]:
    """``array[target] = computation(array[target], update)`` for each target in turn; may change `arrays` in place.

    `arrays` and `updates` are vectors: one array, and one vector of updates, per result of the computation.
    """
    if replaces(computation):
        for array, update in zip(arrays, updates, strict=True):
            array[targets] = update  # of repeated targets NumPy keeps the last
        return list(arrays)
    combiner = combiner_of(computation)
    own = combiner is not None and arrays[0].dtype == dtype_of(combiner.element_type)
    if combiner is not None and own and ELEMENT_TYPES[combiner.element_type].bits not in range(2, 17):
        return [_combine_with(combiner, arrays[0], targets, updates[0])]
    for turn in _turns(targets):
        places = targets[turn]
        merged = context.map(computation, [*(a[places] for a in arrays), *(u[turn] for u in updates)])
        for array, values in zip(arrays, merged, strict=True):
            array[places] = values
    return list(arrays)


def _combine_with(combiner: Combiner, array: AnyArray, targets: AnyArray, updates: AnyArray) -> AnyArray:
    wide = widen(array)
    combiner.ufunc.at(wide, targets, widen(updates))  # one after the other, each result rounded
    return round_to(wide, combiner.element_type)


def _turns(targets: AnyArray) -> list[AnyArray]:
    """Positions of the first occurrences of all targets, then of their second ones, and so on."""
    if not len(targets):
        return []
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.append(first, len(ordered)))
    occurrence = np.arange(len(ordered)) - np.repeat(first, lengths)
    by_turn = np.argsort(occurrence, kind="stable")
    return np.split(order[by_turn], np.cumsum(np.bincount(occurrence))[:-1])


RULES: dict[str, Rule] = {"gather": _gather, "scatter": _scatter}
