"""Counting: bincount, digitize, histograms."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array, concrete
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, convert, operation

__all__ = ["bincount", "digitize", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often every number from 0 on occurs in `x`, or the sums of their `weights`.

    The result is as long as the largest number asks for, which a compiled function does not know: there, `length` says
    it, and numbers beyond it are not counted.
    """
    given = x if isinstance(x, Array) else concrete(x)
    if kind_of(given.dtype) not in ("signed", "unsigned", "pred") or given.ndim != 1:
        raise type_error(f"bincount takes a vector of integers, not {given.dtype}{list(given.shape)}")
    if length is None:
        held = given._concrete("bincount without length=", "pass length=, the number of counts")
        if held.size and held.min() < 0:
            raise value_error("bincount takes no negative numbers")
        length = max(int(held.max()) + 1 if held.size else 0, operator.index(minlength))
    return _bincount(given, weights, length)


@operation("x", "weights")
def _bincount(x: Any, weights: Any, length: int) -> Array:
    if weights is None:
        ones = np.ones(x.shape, dtype=numpy.int64)
    else:
        ones = np.astype(weights, numpy.float64)
        if ones.shape != x.shape:
            raise value_error(f"weights of shape {ones.shape} for numbers of shape {x.shape}")
    # What is out of bounds is counted in a place of its own, which is cut off.
    x = np.astype(x, numpy.int64)
    place = np.where((x < 0) | (x >= length), length, x)
    counts = np.zeros(length + 1, dtype=ones.dtype)
    found: Array = counts.at[place].add(ones) if x.shape[0] else counts
    return found[:length]


@operation("x", "bins")
def _digitize(x: Any, bins: Any, right: bool, descending: bool | None) -> Array:
    side = "left" if right else "right"
    count = bins.shape[0]
    if descending is None:  # it depends on values
        falls = bins[0] > bins[-1]
        found = np.searchsorted(np.where(falls, np.flip(bins), bins), x, side=side)
        return np.where(falls, count - found, found)
    if not descending:
        return np.searchsorted(bins, x, side=side)
    return count - np.searchsorted(np.flip(bins), x, side=side)  # type: ignore[no-any-return]


def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """The numbers of the bins, between the ascending or descending `bins`, that elements lie in."""
    edges = bins if isinstance(bins, Array) else concrete(bins)
    if edges.ndim != 1:
        raise value_error(f"bins are a vector, not an array of shape {edges.shape}")
    descending: bool | None = False
    if edges._trace is not None and edges.size > 1:
        descending = None
    elif edges.size > 1:
        held = numpy.asarray(edges)
        descending = bool(held[0] > held[-1])
        if (numpy.diff(held) * (-1 if descending else 1) < 0).any():
            raise value_error("bins ascend or descend")
    return _digitize(x, edges, right, descending)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of the bins of a histogram: `bins` of equal widths, or the edges themselves."""
    if isinstance(bins, str):  # how many there are depends on values
        given = a if isinstance(a, Array) else concrete(a)
        held = given._concrete(f"a histogram with bins={bins!r}", "pass a number of bins, or their edges")
        try:
            return Array(numpy.histogram_bin_edges(held, bins, None if range is None else tuple(map(_bound, range))))
        except (TypeError, ValueError) as error:
            raise value_error(str(error)) from error
    if hasattr(bins, "__index__") and not isinstance(bins, Array):
        count = operator.index(bins)
        if count < 1:
            raise value_error(f"a histogram has one bin at least, not {count}")
        return _edges(a, count, None if range is None else tuple(map(_bound, range)))
    edges = bins if isinstance(bins, Array) else concrete(bins)
    if edges.ndim != 1 or edges.size < 2:
        raise value_error(f"edges are a vector of two elements at least, not an array of shape {edges.shape}")
    return edges


def _bound(one: Any) -> Any:
    return one._concrete("the range of a histogram", "pass numbers").item() if isinstance(one, Array) else one


@operation("a")
def _edges(a: Any, count: int, range: tuple[float, float] | None) -> Array:
    (values,) = as_arrays(a)
    dtype = values.dtype if kind_of(values.dtype) == "float" else numpy.dtype(numpy.float64)
    if range is not None:
        if range[0] > range[1]:
            raise value_error(f"the range of a histogram ascends: {range}")
        low, high = (Array(numpy.asarray(one, dtype)) for one in range)
    elif values.size:
        low, high = (np.astype(one, dtype) for one in (np.min(values), np.max(values)))
    else:
        low, high = (Array(numpy.asarray(one, dtype)) for one in (0, 1))
    same = low == high
    low, high = np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)
    steps = Array(numpy.arange(count + 1).astype(dtype))
    return np.where(steps == count, high, low + steps * ((high - low) / count))


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Array, Array]:
    """How many elements lie in each bin (or the sums of their `weights`, or a density), and the edges.

    A bin has its lower edge, and the last one both.
    """
    edges = histogram_bin_edges(a, bins, range)
    return _histogram(a, edges, weights, density), edges


@operation("a", "edges", "weights")
def _histogram(a: Any, edges: Any, weights: Any, density: bool) -> Array:
    values = np.reshape(as_arrays(a)[0], (-1,))
    count = edges.shape[0] - 1
    place = np.searchsorted(edges, values, side="right") - 1
    place = np.where(values == edges[-1], count - 1, place)
    place = np.where(np.isnan(values), count, place) if kind_of(values.dtype) == "float" else place
    if weights is not None:
        weights = np.reshape(weights, (-1,))
    found = _bincount(place, weights, count)
    if not density:
        return found if weights is None else convert(found, weights.dtype)
    widths = edges[1:] - edges[:-1]
    return np.divide(convert(found, numpy.dtype(numpy.float64)) / widths, np.sum(found))


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Array, tuple[Array, ...]]:
    """A histogram of points, the rows of `sample` (or vectors of coordinates), and the edges along each dimension."""
    if isinstance(sample, (tuple, list)):
        columns = [np.reshape(one, (-1,)) if isinstance(one, Array) else concrete(one) for one in sample]
        if len({one.shape for one in columns}) > 1 or any(one.ndim != 1 for one in columns):
            points = np.asarray(sample)
            columns = [points[:, n] for n in _numbers(points.shape[1])]
    else:
        points = sample if isinstance(sample, Array) else concrete(sample)
        if points.ndim == 1:
            points = np.reshape(points, (-1, 1))
        if points.ndim != 2:
            raise value_error(f"a histogram of points takes a row each, not an array of shape {points.shape}")
        columns = [points[:, n] for n in _numbers(points.shape[1])]
    each = list(bins) if isinstance(bins, (tuple, list)) else [bins] * len(columns)
    limits = [None] * len(columns) if range is None else list(range)
    if len(each) != len(columns) or len(limits) != len(columns):
        raise value_error(f"{len(each)} kinds of bins and {len(limits)} ranges for {len(columns)} dimensions")
    edges = [
        histogram_bin_edges(one, own, limit) for one, own, limit in zip(columns, each, limits, strict=True)
    ]
    return _histogramdd(columns, edges, weights, density), tuple(edges)


def _numbers(count: int) -> list[int]:
    return numpy.arange(count).tolist()


@operation("arrays", "operands", "weights")
def _histogramdd(arrays: Any, operands: Any, weights: Any, density: bool) -> Array:
    place = None
    outside = None
    counts = [edges.shape[0] - 1 for edges in operands]
    for values, edges, count in zip(arrays, operands, counts, strict=True):
        own = np.searchsorted(edges, values, side="right") - 1
        own = np.where(values == edges[-1], count - 1, own)
        wrong = (own < 0) | (own >= count)
        if kind_of(values.dtype) == "float":
            wrong = wrong | np.isnan(values)
        outside = wrong if outside is None else outside | wrong
        place = own if place is None else place * count + own
    size = int(numpy.prod(counts))
    found = np.reshape(_bincount(np.where(outside, size, place), weights, size), tuple(counts))
    found = np.astype(found, numpy.float64)
    if not density:
        return found
    total = np.sum(found)
    for axis, edges in enumerate(operands):
        widths = np.astype(edges[1:] - edges[:-1], numpy.float64)
        found = found / np.reshape(widths, tuple(-1 if n == axis else 1 for n in _numbers(len(counts))))
    return found / total


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Array, Array, Array]:
    """A histogram of points with coordinates `x` and `y`, and both edges."""
    one, other = (each if isinstance(each, Array) else concrete(each) for each in (x, y))
    if one.shape != other.shape or one.ndim != 1:
        raise value_error(f"coordinates are two vectors of one length, not {one.shape} and {other.shape}")
    if isinstance(bins, (tuple, list)):
        chosen: Any = bins if len(bins) in (1, 2) else [bins, bins]
        chosen = [*chosen, *chosen] if len(chosen) == 1 else chosen
    else:
        chosen = bins if hasattr(bins, "__index__") and getattr(bins, "ndim", 0) == 0 else [bins, bins]
    found, (first, second) = histogramdd([one, other], chosen, range, density, weights)
    return found, first, second
