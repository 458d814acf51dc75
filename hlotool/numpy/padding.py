"""Padding, Kronecker products, and a few other ways to make larger and smaller arrays of an array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy

from hlotool.ir.attributes import PaddingDimension
from hlotool.numpy import standard as np
from hlotool.numpy.array import Array, concrete, concrete_value
from hlotool.numpy.axes import as_axis
from hlotool.numpy.errors import value_error
from hlotool.numpy.operation import as_arrays, operation
from hlotool.numpy.trace import apply

__all__ = ["delete", "diagflat", "dsplit", "kron", "pad"]


@operation("arr")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """`arr` without the elements at the positions `obj` (constants)."""
    a = np.reshape(arr, (-1,)) if axis is None else arr
    place = 0 if axis is None else as_axis(axis, a.ndim)
    if isinstance(obj, Array):
        obj = concrete_value(obj, "delete", "how many are left depends on it: use np.where, or make it static")
    kept = numpy.delete(numpy.arange(a.shape[place]), obj)
    return np.take(a, Array(kept), axis=place)


def dsplit(ary: Any, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """`split` along the third dimension."""
    if ary.ndim < 3:
        raise value_error("dsplit takes an array of three dimensions at least")
    return np.split(ary, indices_or_sections, axis=2)


@operation("v")
def diagflat(v: Any, k: int = 0) -> Array:
    """`diag` of all elements as a vector."""
    return np.diag(np.reshape(v, (-1,)), k)


@operation("a", "b")
def kron(a: Any, b: Any) -> Array:
    """The Kronecker product: every element of `a` times all of `b`."""
    one, other = as_arrays(a, b)
    rank = max(one.ndim, other.ndim)
    one, other = (np.reshape(each, (*(1,) * (rank - each.ndim), *each.shape)) for each in (one, other))
    left = np.reshape(one, tuple(size for n in range(rank) for size in (one.shape[n], 1)))
    right = np.reshape(other, tuple(size for n in range(rank) for size in (1, other.shape[n])))
    return np.reshape(left * right, tuple(n * m for n, m in zip(one.shape, other.shape, strict=True)))


# ---- pad


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, end_values: Any = 0) -> Array:
    """With elements around it.

    `mode` is constant, edge, reflect, symmetric, wrap, empty, maximum, minimum, mean or linear_ramp.  `pad_width` is a
    number, (before, after), or such a pair for every dimension.
    """
    given = array if isinstance(array, Array) else concrete(array)
    widths = _pairs(pad_width, given.ndim)
    if any(one < 0 for pair in widths for one in pair):
        raise value_error(f"pad has no negative widths: {pad_width}")
    if mode == "constant":
        return _pad_constant(given, constant_values, widths)
    if mode == "linear_ramp":
        return _pad_ramp(given, end_values, widths)
    return _pad(given, widths, mode)


def _pairs(widths: Any, rank: int) -> tuple[tuple[int, int], ...]:
    try:
        if isinstance(widths, dict):
            pairs = [(0, 0)] * rank
            for axis, width in widths.items():
                pairs[as_axis(axis, rank)] = width if isinstance(width, tuple) else (width, width)
            found = numpy.asarray(pairs).reshape(rank, 2)
        else:
            found = numpy.broadcast_to(numpy.asarray(widths), (rank, 2))
        return tuple((operator.index(low), operator.index(high)) for low, high in found)
    except (TypeError, ValueError) as error:
        raise value_error(f"pad_width {widths!r} does not fit an array of {rank} dimensions") from error


def _padded(a: Array, widths: Sequence[tuple[int, int]], value: Array) -> Array:
    return apply("pad", a, value, padding=tuple(PaddingDimension(low, high, 0) for low, high in widths))


@operation("a", "values")
def _pad_constant(a: Any, values: Any, widths: tuple[tuple[int, int], ...]) -> Array:
    if not a.ndim:
        return a  # type: ignore[no-any-return]  # it is an array
    fill = np.astype(values if isinstance(values, Array) else as_arrays(values)[0], a.dtype)
    if not fill.ndim:
        return _padded(a, widths, fill)
    fill = np.broadcast_to(fill, (a.ndim, 2))
    for axis, (low, high) in enumerate(widths):
        for side, pair in ((0, (low, 0)), (1, (0, high))):
            around = [(0, 0)] * a.ndim
            around[axis] = pair
            a = _padded(a, around, fill[axis, side])
    return a  # type: ignore[no-any-return]  # it is an array


@operation("a")
def _pad(a: Any, widths: tuple[tuple[int, int], ...], mode: str) -> Array:
    for axis, (low, high) in enumerate(widths):
        if not low and not high:
            continue
        if mode in ("maximum", "minimum", "mean"):
            reduce: Any = {"maximum": np.max, "minimum": np.min}.get(mode, np.mean)
            found = reduce(a, axis=axis, keepdims=True)
            if a.dtype.kind in "iu":
                found = np.round(found) if mode == "mean" else found
            line = np.astype(found, a.dtype)
            parts = [np.broadcast_to(line, (*a.shape[:axis], size, *a.shape[axis + 1 :])) for size in (low, high)]
            a = np.concat([parts[0], a, parts[1]], axis=axis)
        elif mode in ("edge", "reflect", "symmetric", "wrap", "empty"):
            if not a.shape[axis]:
                raise value_error(f"pad in mode {mode!r} needs elements, and dimension {axis} has none")
            own = numpy.arange(a.shape[axis])
            order = numpy.pad(own, (low, high), mode="edge" if mode == "empty" else mode)  # type: ignore[call-overload]  # stubs want literals
            a = np.take(a, Array(order), axis=axis)
        else:
            raise value_error(f"pad knows no mode {mode!r}")
    return a  # type: ignore[no-any-return]  # it is an array


@operation("a", "ends")
def _pad_ramp(a: Any, ends: Any, widths: tuple[tuple[int, int], ...]) -> Array:
    limits = np.broadcast_to(ends, (a.ndim, 2))
    for axis, (low, high) in enumerate(widths):
        lead = (slice(None),) * axis
        parts = [a]
        shape = (*(1,) * axis, -1, *(1,) * (a.ndim - axis - 1))
        if low:
            edge = a[(*lead, slice(0, 1))]
            share = Array(numpy.arange(low).reshape(shape) / low)
            parts.insert(0, np.astype(limits[axis, 0] + (edge - limits[axis, 0]) * share, a.dtype))
        if high:
            edge = a[(*lead, slice(a.shape[axis] - 1, None))]
            share = Array(numpy.arange(high)[::-1].reshape(shape) / high)
            parts.append(np.astype(limits[axis, 1] + (edge - limits[axis, 1]) * share, a.dtype))
        a = np.concat(parts, axis=axis) if len(parts) > 1 else a
    return a  # type: ignore[no-any-return]  # it is an array
