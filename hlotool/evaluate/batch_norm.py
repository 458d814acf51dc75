"""The three batch-norm opcodes, in double precision; epsilon is an f32, as XLA keeps it."""

from __future__ import annotations

from math import prod

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import as_accurate, computed
from hlotool.evaluate.values import AnyArray, Operands, Value
from hlotool.ir import Instruction

__all__ = ["RULES", "epsilon_of"]


def epsilon_of(instruction: Instruction) -> float:
    return float(np.float32(instruction.attributes["epsilon"]))


def _column(vector: AnyArray, rank: int, feature: int) -> AnyArray:
    """A vector over features, ready to broadcast against the operand."""
    return vector.reshape([-1 if axis == feature else 1 for axis in range(rank)])


def _others(rank: int, feature: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis != feature)


def _training(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """(normalised, mean, biased variance), over all dimensions but the feature one."""
    array, scale, offset = map(as_accurate, operands)
    feature, epsilon = instruction.attributes["feature_index"], epsilon_of(instruction)
    others = _others(array.ndim, feature)
    count = np.float64(prod(array.shape[axis] for axis in others))
    mean = array.sum(others) / count
    centred = array - _column(mean, array.ndim, feature)
    variance = (centred * centred).sum(others) / count
    columns = [_column(v, array.ndim, feature) for v in (scale / np.sqrt(variance + epsilon), offset)]
    normalised = centred * columns[0] + columns[1]
    results = zip((normalised, mean, variance), instruction.shape.elements, strict=True)
    return tuple(computed(result, shape.element_type) for result, shape in results)


def _inference(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    array, *vectors = map(as_accurate, operands)
    feature, epsilon = instruction.attributes["feature_index"], epsilon_of(instruction)
    scale, offset, mean, variance = (_column(vector, array.ndim, feature) for vector in vectors)
    normalised = (array - mean) * (scale / np.sqrt(variance + epsilon)) + offset
    return computed(normalised, instruction.shape.element_type)


def _gradient(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """Gradients with respect to operand, scale and offset (Ioffe and Szegedy, 2015)."""
    array, scale, mean, variance, upstream = map(as_accurate, operands)
    feature, epsilon = instruction.attributes["feature_index"], epsilon_of(instruction)
    others = _others(array.ndim, feature)
    deviation = 1 / np.sqrt(variance + epsilon)
    centred = (array - _column(mean, array.ndim, feature)) * _column(deviation, array.ndim, feature)
    of_scale, of_offset = (upstream * centred).sum(others), upstream.sum(others)
    count = np.float64(prod(array.shape[axis] for axis in others))
    pulled = upstream - _column(of_offset / count, array.ndim, feature)
    pulled = pulled - centred * _column(of_scale / count, array.ndim, feature)
    of_operand = pulled * _column(scale * deviation, array.ndim, feature)
    results = zip((of_operand, of_scale, of_offset), instruction.shape.elements, strict=True)
    return tuple(computed(result, shape.element_type) for result, shape in results)


RULES: dict[str, Rule] = {
    "batch-norm-training": _training,
    "batch-norm-inference": _inference,
    "batch-norm-grad": _gradient,
}
