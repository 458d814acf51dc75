"""What flows through the evaluator: values, and the arrays in them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from hlotool.ir import Instruction, Shape

__all__ = ["AnyArray", "Operands", "Value", "array_at", "copied", "leaves_of", "one_or_tuple", "value_from_leaves"]

AnyArray: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = "AnyArray | tuple[Value, ...]"
"""An array, or a tuple of values.  A token is the empty tuple."""

Operands: TypeAlias = Sequence[Any]
"""Operand values; a rule knows from its opcode which of them are arrays."""


def leaves_of(value: Value) -> Iterator[AnyArray]:
    """Arrays in a value, depth first; tokens have none."""
    if isinstance(value, tuple):
        for element in value:
            yield from leaves_of(element)
    else:
        yield value


def array_at(pointer: int | None, dtype: np.dtype[Any], shape: tuple[int, ...]) -> AnyArray:
    """The array that lies at `pointer`."""
    size = dtype.itemsize * prod(shape)
    if pointer is None or size == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.ndarray(shape, dtype, memory)


def copied(value: Value | Operands) -> Any:
    """The value in memory of its own."""
    return tuple(map(copied, value)) if isinstance(value, (tuple, list)) else np.array(value, order="C", copy=True)


def value_from_leaves(shape: Shape, leaves: Iterator[AnyArray]) -> Value:
    """A value of `shape` that takes its arrays from `leaves`, depth first."""
    if shape.is_tuple:
        return tuple(value_from_leaves(element, leaves) for element in shape.elements)
    return next(leaves) if shape.is_array else ()


def one_or_tuple(instruction: Instruction, arrays: Sequence[AnyArray]) -> Value:
    """Results as the instruction's shape wants them: the single array, or a tuple."""
    return tuple(arrays) if instruction.shape.is_tuple else arrays[0]
