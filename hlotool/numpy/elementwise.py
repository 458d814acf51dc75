"""Functions of elements."""

from __future__ import annotations

from typing import Any

import numpy

from hlotool.ir import array as hlo_array
from hlotool.numpy.array import Array
from hlotool.numpy.errors import value_error
from hlotool.numpy.operation import as_arrays, operation
from hlotool.numpy.trace import apply, shape_of

__all__ = ["broadcast_arrays_", "elementwise", "expand"]


def expand(value: Array, shape: tuple[int, ...]) -> Array:
    """`value` broadcast to `shape`, in a trace."""
    own = value.shape
    if own == shape:
        return value
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)):
        raise value_error(f"an array of shape {own} cannot be broadcast to {shape}")
    lead = len(shape) - len(own)
    kept = [n for n, size in enumerate(own) if size == shape[lead + n]]
    if len(kept) < len(own):
        value = apply("reshape", value, shape=hlo_array(shape_of(value).element_type, [own[n] for n in kept]),
                      weak=value._weak)
    target = hlo_array(shape_of(value).element_type, shape)
    return apply("broadcast", value, shape=target, weak=value._weak, dimensions=tuple(lead + n for n in kept))


def broadcast_arrays_(values: tuple[Array, ...]) -> tuple[Array, ...]:
    """All of them with the shape that they have in common, in a trace."""
    shapes = {value.shape for value in values}
    if len(shapes) == 1:
        return values
    try:
        shape = numpy.broadcast_shapes(*shapes)
    except ValueError as error:
        listed = " and ".join(str(value.shape) for value in values)
        raise value_error(f"arrays of shapes {listed} cannot be broadcast together") from error
    return tuple(expand(value, shape) for value in values)


def elementwise(opcode: str, *values: Any, **attributes: Any) -> Array:
    """An elementwise opcode of values that are promoted and broadcast, in a trace."""
    arrays = as_arrays(*values)
    return apply(opcode, *broadcast_arrays_(arrays), weak=arrays[0]._weak, **attributes)


@operation("x1", "x2")
def add(x1: Any, x2: Any, /) -> Array:
    return elementwise("add", x1, x2)


@operation("x1", "x2")
def multiply(x1: Any, x2: Any, /) -> Array:
    return elementwise("multiply", x1, x2)


@operation("x")
def sin(x: Any, /) -> Array:
    return elementwise("sine", x)
