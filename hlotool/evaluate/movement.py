"""Opcodes that place elements: iota, broadcast, reshape, bitcast, transpose, slices, pad, concatenate, copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlotool.evaluate.bits import bitcast
from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import convert, round_to
from hlotool.evaluate.values import AnyArray, Operands
from hlotool.ir import ELEMENT_TYPES, Instruction, PaddingDimension, Shape, UnsupportedError, dtype_of, storage_moves

__all__ = ["RULES", "as_index", "bitcast_linear", "clamped_starts", "pad"]


def as_index(array: AnyArray) -> AnyArray:
    """Indices as s64; u64 beyond its range become its largest value."""
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
    return array.astype(np.int64)


def clamped_starts(indices: Sequence[AnyArray], dimensions: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Start indices moved so that a slice of `sizes` lies inside `dimensions`.

    `indices` are scalars, one per dimension, or a single vector of them.
    """
    if len(indices) == 1 and indices[0].ndim == 1:
        indices = list(indices[0])
    return [
        max(0, min(int(index), dimension - size))
        for index, dimension, size in zip(indices, dimensions, sizes, strict=True)
    ]


def pad(array: AnyArray, value: Any, padding: Sequence[PaddingDimension]) -> AnyArray:
    """Put `interior` values between elements, then grow (or, where negative, shrink) both ends."""
    sizes, targets, sources = [], [], []
    for size, dimension in zip(array.shape, padding, strict=True):
        step = dimension.interior + 1
        dilated = max(0, (size - 1) * step + 1) if size else 0
        result = max(0, dilated + dimension.low + dimension.high)
        first = max(0, -(dimension.low // step))  # first element at a position >= 0
        count = max(0, min(size - first, -((dimension.low + first * step - result) // step)))
        start = dimension.low + first * step
        sizes.append(result)
        targets.append(slice(start, start + count * step, step) if count else slice(0, 0))
        sources.append(slice(first, first + count))
    padded = np.full(sizes, value, array.dtype)
    padded[tuple(targets)] = array[tuple(sources)]
    return padded


def _iota(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    shape = instruction.shape
    axis = instruction.attributes["iota_dimension"]
    counts = np.arange(shape.dimensions[axis], dtype=np.int64)
    column = counts.reshape([-1 if d == axis else 1 for d in range(shape.rank)])
    typed = convert(column, shape.element_type) if column.size else round_to(column, shape.element_type)
    return np.broadcast_to(typed, shape.dimensions)


def _broadcast(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    (array,) = operands
    dimensions = instruction.attributes.get("dimensions", ())
    result = instruction.shape.dimensions
    sizes = [1] * len(result)
    for own, place in enumerate(dimensions):
        sizes[place] = array.shape[own]
    order = np.argsort(dimensions, kind="stable") if array.ndim else ()
    return np.broadcast_to(array.transpose(order).reshape(sizes), result)


def _reshape(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array: AnyArray = operands[0].reshape(instruction.shape.dimensions)
    return array


def _to_memory(array: AnyArray, shape: Shape) -> AnyArray:
    """The elements in the order of memory, one after the other."""
    for move in storage_moves(shape):
        if move.kind == "transpose":
            array = array.transpose(move.argument)
        elif move.kind == "pad":
            array = np.pad(array, [(0, full - size) for full, size in zip(move.argument, move.sizes, strict=True)])
        else:
            array = array.reshape(move.argument)
    return array.reshape(-1)


def _from_memory(memory: AnyArray, shape: Shape) -> AnyArray:
    """The array of `shape` whose elements are those in `memory`."""
    moves = storage_moves(shape)
    array = memory.reshape(moves[-1].result if moves else shape.dimensions)
    for move in reversed(moves):
        if move.kind == "transpose":
            array = array.transpose(np.argsort(move.argument))
        elif move.kind == "pad":
            array = array[tuple(slice(size) for size in move.sizes)]
        else:
            array = array.reshape(move.sizes)
    return array


def _bitcast(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """The same bytes under another type, shape and layout; padding between elements is zeros."""
    source, target = instruction.operands[0].shape, instruction.shape
    if source.size * target.size == 0:
        return np.zeros(target.dimensions, dtype_of(target.element_type))
    memory = _to_memory(operands[0], source)
    if source.element_type != target.element_type:
        memory = bitcast_linear(memory, source.element_type, target.element_type)
    try:
        return _from_memory(memory, target)
    except ValueError:
        message = f"{instruction.name}: a bitcast from {source} to {target} whose layouts take different space"
        raise UnsupportedError(message) from None


def bitcast_linear(linear: AnyArray, source: str, target: str) -> AnyArray:
    """The bytes of a vector of elements of type `source` as such of type `target`."""
    if source == "pred":  # a byte each
        return bitcast_linear(linear.view(np.uint8), "u8", target)
    if target == "pred":
        return np.asarray(bitcast_linear(linear, source, "u8") != 0)
    ratio = max(1, ELEMENT_TYPES[target].bits // ELEMENT_TYPES[source].bits)
    grouped = linear.reshape(-1, ratio) if ratio > 1 else linear
    return bitcast(grouped, source, target).reshape(-1)


def _transpose(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array: AnyArray = operands[0].transpose(instruction.attributes["dimensions"])
    return array


def _reverse(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.flip(operands[0], instruction.attributes["dimensions"])


def _concatenate(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.concatenate(operands, axis=instruction.attributes["dimensions"][0])


def _pad(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array, value = operands
    return pad(array, value, instruction.attributes["padding"])


def _slice(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    ranges = tuple(slice(d.start, d.limit, d.stride) for d in instruction.attributes["slice"])
    return np.asarray(operands[0][ranges])


def _dynamic_slice(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array, *indices = operands
    sizes = instruction.attributes["dynamic_slice_sizes"]
    starts = clamped_starts(indices, array.shape, sizes)
    return np.asarray(array[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))])


def _dynamic_update_slice(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array, update, *indices = operands
    starts = clamped_starts(indices, array.shape, update.shape)
    result = np.array(array, order="C")
    place = tuple(slice(start, start + size) for start, size in zip(starts, update.shape, strict=True))
    result[place] = update
    return result


def _copy(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array: AnyArray = operands[0]
    return array


RULES: dict[str, Rule] = {
    "iota": _iota,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "pad": _pad,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "copy": _copy,
}
