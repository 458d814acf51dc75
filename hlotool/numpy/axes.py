"""Axes and sizes as users give them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy

from hlotool.numpy.array import Array
from hlotool.numpy.errors import axis_error, type_error, value_error

__all__ = ["as_axes", "as_axis", "reduced_axes", "target_shape"]


def as_axis(axis: Any, ndim: int, what: str = "axis") -> int:
    """A dimension, counted from 0."""
    if isinstance(axis, Array):
        axis = axis._concrete(f"the {what}", "axes must be constants: make the argument static "
                              "(hlotool.jit(..., static_argnums=...))")
    try:
        number = operator.index(axis)
    except TypeError as error:
        raise type_error(f"{what} {axis!r} is no whole number") from error
    if not -ndim <= number < ndim:
        raise axis_error(f"{what} {number} is out of bounds for array of dimension {ndim}")
    return number % ndim


def as_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Several dimensions in order; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [as_axis(one, ndim) for one in given]
    if len(set(axes)) < len(axes):
        raise value_error(f"axes {tuple(given)} name a dimension twice")
    return tuple(axes)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions that a reduction is over: none of a single number, for which NumPy's ufuncs take axis 0 and -1."""
    return () if not ndim and _is_only_axis(axis) else as_axes(axis, ndim)


def _is_only_axis(axis: Any) -> bool:
    return isinstance(axis, (int, numpy.integer)) and axis in (0, -1)


def target_shape(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The shape of a reshape of `size` elements: one -1 stands for what is left."""
    unknown = [n for n, one in enumerate(shape) if one == -1]
    known = math.prod(one for one in shape if one != -1)
    if len(unknown) > 1 or any(one < -1 for one in shape):
        raise value_error(f"{shape} is no shape: one size at most may be -1")
    if unknown and known and size % known == 0:
        return tuple(size // known if n == unknown[0] else one for n, one in enumerate(shape))
    if unknown or known != size:
        raise value_error(f"an array of {size} elements cannot have the shape {shape}")
    return shape
