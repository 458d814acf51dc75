"""What several families of lowerings are written with."""

from __future__ import annotations

from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir import ELEMENT_TYPES
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type, kind_of
from hlotool.onnx.lowering import Refused

__all__ = [
    "constant", "in_f32", "is_float", "kind", "lowest", "moved_last", "narrow", "number", "old_broadcast", "widened",
]  # fmt: skip


def constant(value: Any, dtype: Any = None) -> Array:
    """A NumPy array as a constant of the program."""
    found = numpy.asarray(value, dtype)
    if found.flags.writeable:
        found = found.copy()
        found.flags.writeable = False
    return Array(found)


def number(value: Any, like: Array) -> Array:
    """A Python number in the type of `like`."""
    return constant(value, like.dtype)


def kind(value: Array) -> str:
    """``pred signed unsigned float complex``."""
    return kind_of(value.dtype)


def is_float(value: Array) -> bool:
    return kind_of(value.dtype) == "float"


def narrow(value: Array) -> bool:
    """Whether elements are floats with fewer bits than f32."""
    return is_float(value) and ELEMENT_TYPES[hlo_type(value.dtype)].bits < 32


def in_f32(value: Array) -> Array:
    """`value`, in f32 if its floats are narrower: formulas of several steps are computed in it."""
    return np.astype(value, numpy.float32) if narrow(value) else value


def widened(value: Array) -> Array:
    """Integers as s32 or u32 at least, narrow floats as f32: what sums are computed in."""
    bits = ELEMENT_TYPES[hlo_type(value.dtype)].bits
    if kind(value) == "signed" and bits < 32:
        return np.astype(value, numpy.int32)
    if kind(value) == "unsigned" and bits < 32:
        return np.astype(value, numpy.uint32)
    return in_f32(value)


def lowest(dtype: numpy.dtype[Any]) -> Any:
    """The least value of a type: -inf of floats."""
    from hlotool.numpy.statistical import lowest as found

    return found(dtype)


def moved_last(value: Array, axis: int) -> Array:
    """`value` with this dimension as the last."""
    return np.moveaxis(value, axis, -1)


def old_broadcast(a: Array, b: Array, axis: int | None) -> Array:
    """`b` with dimensions such that it broadcasts to `a` as before version 7: its first one is `axis` of `a`."""
    if axis is None or not b.ndim:
        return b
    place = axis + a.ndim if axis < 0 else axis
    if place + b.ndim > a.ndim:
        raise Refused(f"axis {axis} does not fit arrays of {a.ndim} and {b.ndim} dimensions")
    return np.reshape(b, (*b.shape, *(1,) * (a.ndim - place - b.ndim)))
