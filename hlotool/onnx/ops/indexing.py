"""Elements by index: gathers and scatters, masks, and reading between elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.padding import pad as pad_array
from hlotool.numpy.statistical import cumulative
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.pieces import constant, number

__all__ = ["bounded", "compacted", "interpolated", "read_at"]


def _from_front(index: Array, size: int) -> Array:
    """Indices below 0 count from the end."""
    wide = np.astype(index, numpy.int64) if index.dtype.kind in "iu" else index
    return np.where(wide < number(0, wide), wide + number(size, wide), wide)


@lowering("Gather")
def gather(c: Context, x: Array, index: Array, *, axis: int = 0) -> Array:
    (place,) = normal_axes([axis], x.ndim)
    return np.take(x, _from_front(index, x.shape[place]), axis=place)


@lowering("GatherElements")
def gather_elements(c: Context, x: Array, index: Array, *, axis: int = 0) -> Array:
    (place,) = normal_axes([axis], x.ndim)
    return x[_along(_from_front(index, x.shape[place]), place)]


def _along(index: Array, axis: int) -> tuple[Array, ...]:
    """The index of every element of `index` in all dimensions: its own, but along `axis`, where it is what it holds."""
    found = []
    for n, size in enumerate(index.shape):
        if n == axis:
            found.append(index)
        else:
            sizes = [1] * index.ndim
            sizes[n] = size
            found.append(np.broadcast_to(constant(numpy.arange(size).reshape(sizes)), index.shape))
    return tuple(found)


@lowering("GatherND")
def gather_nd(c: Context, x: Array, index: Array, *, batch_dims: int = 0) -> Array:
    return x[_key(x, index, batch_dims)]


def _key(x: Array, index: Array, batch: int = 0) -> tuple[Array, ...]:
    """Rows of indices as an index for each dimension, of which the first `batch` are those of the row itself."""
    lead = index.shape[:-1]
    found = []
    for n in range(batch):
        sizes = [1] * len(lead)
        sizes[n] = lead[n]
        found.append(np.broadcast_to(constant(numpy.arange(lead[n]).reshape(sizes)), lead))
    return (*found, *(_from_front(index[..., n], x.shape[batch + n]) for n in range(index.shape[-1])))


_REDUCTIONS = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}


def _scattered(x: Array, key: tuple[Array, ...], values: Array, reduction: str) -> Array:
    if reduction not in _REDUCTIONS:
        raise Refused(f"the reduction {reduction!r}")
    found: Array = getattr(x.at[key], _REDUCTIONS[reduction])(values)
    return found


@lowering("Scatter", "ScatterElements")
def scatter_elements(
    c: Context, x: Array, index: Array, values: Array, *, axis: int = 0, reduction: str = "none"
) -> Array:
    (place,) = normal_axes([axis], x.ndim)
    return _scattered(x, _along(_from_front(index, x.shape[place]), place), values, reduction)


@lowering("ScatterND")
def scatter_nd(c: Context, x: Array, index: Array, values: Array, *, reduction: str = "none") -> Array:
    return _scattered(x, _key(x, index), values, reduction)


@lowering("TensorScatter")
def tensor_scatter(
    c: Context, cache: Array, update: Array, places: Array | None = None, *, axis: int = -2, mode: str = "linear"
) -> Array:
    """Rows of a cache written from a place on that each batch has, around its end if `mode` is circular."""
    (where,) = normal_axes([axis], cache.ndim)
    batch, rows, size = cache.shape[0], update.shape[where], cache.shape[where]
    begin = np.zeros((batch,), numpy.int64) if places is None else np.astype(places, numpy.int64)
    index = begin[:, None] + constant(numpy.arange(rows).reshape(1, -1))
    if mode == "circular":
        index = np.remainder(index, number(size, index))
    turned, new = np.moveaxis(cache, where, 1), np.moveaxis(update, where, 1)
    lead = np.broadcast_to(constant(numpy.arange(batch).reshape(-1, 1)), index.shape)
    return np.moveaxis(turned.at[lead, index].set(new), 1, where)


@lowering("OneHot")
def one_hot(c: Context, index: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    count = int(c.static(np.reshape(depth, ()), "the depth"))
    (place,) = normal_axes([axis], index.ndim + 1)
    wide = np.astype(index, numpy.int64)
    wide = np.expand_dims(_from_front(wide, count), axis=place)
    sizes = [1] * (index.ndim + 1)
    sizes[place] = count
    hit = np.equal(wide, constant(numpy.arange(count).reshape(sizes)))
    return np.where(hit, values[1], values[0])


# ---- results whose size depends on values: arrays with a bound, and how much of them there is


def bounded(x: Array, count: Array, axis: int = 0) -> Array:
    """`x`, of which only the first `count` elements along `axis` are there."""
    return apply("set-dimension-size", x, np.astype(count, numpy.int32), dimensions=(axis,))


def compacted(mask: Array) -> tuple[Array, Array]:
    """The places of the true elements of a vector, in order, ahead of others; and how many there are."""
    size = mask.shape[0]
    ones = np.astype(mask, numpy.int64)
    count = np.sum(ones)
    target = cumulative(ones, "add", 0, 0) - number(1, ones)
    target = np.where(mask, target, number(size, target))  # beyond the end: nothing is written
    places = np.zeros((size + 1,), numpy.int64).at[target].set(constant(numpy.arange(size)))
    return places[:size], count


@lowering("NonZero")
def non_zero(c: Context, x: Array) -> Array:
    flat = np.reshape(x, (-1,))
    places, count = compacted(np.not_equal(flat, number(0, flat)))
    rows: list[Array] = []
    rest = places
    for size in reversed(x.shape):
        rows.insert(0, np.remainder(rest, number(size, rest)))
        rest = apply("divide", rest, np.broadcast_to(number(size, rest), rest.shape))
    if not rows:
        return bounded(np.zeros((0, 1), numpy.int64), count, 1)
    return bounded(np.stack(rows, axis=0), count, 1)


@lowering("Compress")
def compress(c: Context, x: Array, condition: Array, *, axis: int | None = None) -> Array:
    flat = np.reshape(x, (-1,)) if axis is None else x
    (place,) = normal_axes([0 if axis is None else axis], flat.ndim)
    known = c.known(condition)
    size = flat.shape[place]
    if known is not None:
        return np.take(flat, constant(numpy.flatnonzero(known[:size]).astype(numpy.int64)), axis=place)
    short = condition[:size]
    mask = pad_array(short, ((0, size - short.shape[0]),), constant_values=False)
    places, count = compacted(mask)
    return bounded(np.take(flat, places, axis=place), count, place)


# ---- between elements


def interpolated(
    x: Array, grid: Sequence[Array], edge: str, mode: str = "linear", maximum: bool = False
) -> Array:
    """The elements of ``x[batch..., channels, places...]`` at the places of `grid`, [batch..., outs...] per dimension.

    Outside, `edge` has them be 0 (``zeros``), the nearest (``border``), or, as regions have it (``roi``), 0 from one
    element away on and the nearest before.  With `maximum` the greatest of the weighted neighbours is taken.
    """
    count = len(grid)
    lead = x.ndim - count - 1
    corners: list[list[tuple[Array, Array | None]]] = []
    outside: Any = None
    for d, place in enumerate(grid):
        size = x.shape[lead + 1 + d]
        last = number(size - 1, place)
        zero, one = number(0, place), number(1, place)
        if edge == "roi":
            beyond = np.logical_or(place < -one, place > number(size, place))
            outside = beyond if outside is None else np.logical_or(outside, beyond)
            place = np.minimum(np.maximum(place, zero), last)
        elif edge == "border":
            place = np.minimum(np.maximum(place, zero), last)
        if mode == "nearest":
            corners.append([(apply("round-nearest-even", place), None)])
            continue
        low = np.floor(place)
        share = place - low
        corners.append([(low, one - share), (low + one, share)])
    total: Any = None
    for choice in product(*corners):
        value = read_at(x, [place for place, _ in choice], lead)
        for _, weight in choice:
            if weight is not None:
                value = value * np.astype(np.expand_dims(weight, axis=lead), value.dtype)
        total = value if total is None else np.maximum(total, value) if maximum else total + value
    if outside is not None:
        total = np.where(np.expand_dims(outside, axis=lead), number(0, total), total)
    return total  # type: ignore[no-any-return]  # there is a corner at least


def read_at(x: Array, places: Sequence[Array], lead: int) -> Array:
    """The elements at whole `places`, [batch..., channels, outs...]; 0 outside."""
    sizes = x.shape[lead + 1 :]
    inside: Any = None
    key = []
    for place, size in zip(places, sizes, strict=True):
        fits = np.logical_and(place >= number(0, place), place <= number(size - 1, place))
        inside = fits if inside is None else np.logical_and(inside, fits)
        whole = np.minimum(np.maximum(place, number(0, place)), number(size - 1, place))
        key.append(np.astype(whole, numpy.int64))
    shape = places[0].shape
    front = []
    for n in range(lead):
        own = [1] * len(shape)
        own[n] = shape[n]
        front.append(np.broadcast_to(constant(numpy.arange(shape[n]).reshape(own)), shape))
    turned = np.moveaxis(x, lead, -1)
    found = np.moveaxis(turned[(*front, *key)], -1, lead)
    return np.where(np.expand_dims(inside, axis=lead), found, number(0, found))
