"""Sampled functions: convolution, interpolation, differences, integrals, and a few functions of signals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy

from hlotool.numpy import linalg
from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.axes import as_axes, as_axis
from hlotool.numpy.contractions import contracted
from hlotool.numpy.dtypes import kind_of
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.products import conjugate

__all__ = ["convolve", "correlate", "cross", "ediff1d", "gradient", "i0", "interp", "trapezoid", "unwrap"]


def _float(x: Any) -> Array:
    (a,) = as_arrays(x)
    return a if kind_of(a.dtype) in ("float", "complex") else convert(a, numpy.dtype(numpy.float64))


@operation("x1", "x2")
def cross(
    x1: Any, x2: Any, /, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of 3 elements; each array has its own axis, and the result, or all one `axis`."""
    first, second, last = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    a, b = as_arrays(x1, x2)
    found = linalg.cross(np.moveaxis(a, first, -1), np.moveaxis(b, second, -1))
    return np.moveaxis(found, -1, last)


# ---- convolution


@operation("a", "v")
def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    """Sums of the products of `a` and `v` reversed, at all shifts; those with full overlap in mode "valid"."""
    one, other = _sequences("convolve", a, v)
    if one.shape[0] < other.shape[0]:
        one, other = other, one
    return _slid(one, np.flip(other), mode)


@operation("a", "v")
def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    """Sums of the products of `a` and the conjugates of `v`, at all shifts; those with full overlap by default."""
    one, other = _sequences("correlate", a, v)
    if one.shape[0] >= other.shape[0]:
        return _slid(one, conjugate(other), mode)
    return np.flip(_slid(conjugate(other), one, mode))


def _sequences(name: str, a: Any, v: Any) -> tuple[Array, ...]:
    found = as_arrays(a, v)
    for one in found:
        if one.ndim != 1 or not one.shape[0]:
            raise value_error(f"{name} takes vectors with elements, not an array of shape {one.shape}")
    return found


def _slid(a: Array, v: Array, mode: str) -> Array:
    """The dot of `v` with every part of `a` that is as long; beyond the ends of `a` there are zeros."""
    n, m = a.shape[0], v.shape[0]
    if mode not in ("full", "same", "valid"):
        raise value_error(f"mode {mode!r} is not known", 'use "full", "same" or "valid"')
    low, high = {"full": (m - 1, m - 1), "valid": (0, 0), "same": (m // 2, m - m // 2 - 1)}[mode]
    kind = a.dtype
    if kind.kind == "b":
        a, v = (convert(one, numpy.dtype(numpy.int64)) for one in (a, v))
    padded = np.concat([np.zeros(low, dtype=a.dtype), a, np.zeros(high, dtype=a.dtype)], axis=0)
    count = n + low + high - m + 1
    if m <= 16:
        total = padded[:count] * v[0]
        for shift in range(1, m):
            total = total + padded[shift : shift + count] * v[shift]
    else:
        total = _by_blocks(padded, v, count)
    return total != 0 if kind.kind == "b" else total


def _by_blocks(a: Array, v: Array, count: int) -> Array:
    """The same as a product of two matrices.

    Of the rows a[i k : i k + k + m - 1], which overlap, every one is multiplied by the band matrix that has `v` in each
    of its k columns, one further down; k is the length of `v`, so that half of the band matrix is not zero.
    """
    m = v.shape[0]
    blocks = -(-count // m)
    filled = np.concat([a, np.zeros((blocks + 1) * m - a.shape[0], dtype=a.dtype)], axis=0)
    rows = np.reshape(filled, (blocks + 1, m))
    pairs = np.concat([rows[:-1], rows[1:]], axis=1)
    # The band: v and m zeros, m times after each other, cut into rows of 2 m - 1... each is one further right.
    line = np.concat([v, np.zeros(m, dtype=v.dtype)], axis=0)
    band = np.reshape(np.reshape(np.broadcast_to(line, (m, 2 * m)), (-1,))[: m * (2 * m - 1)], (m, 2 * m - 1))
    band = np.concat([band, np.zeros((m, 1), dtype=v.dtype)], axis=1)
    return np.reshape(contracted(pairs, band, ((1,), (1,))), (-1,))[:count]


# ---- interpolation


@operation("x", "xp", "fp", "left", "right")
def _interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: float | None) -> Array:
    at, points = (_float(one) for one in (x, xp))
    at, points = as_arrays(at, points)
    values = _float(fp)
    if points.ndim != 1 or points.shape != values.shape or not points.shape[0]:
        raise value_error(f"interp takes two vectors of one length, not of shapes {points.shape} and {values.shape}")
    if period is not None:
        if not period:
            raise value_error("a period is not zero")
        length = abs(float(period))
        at, points = np.remainder(at, length), np.remainder(points, length)
        order = np.argsort(points)
        points, values = np.take(points, order), np.take(values, order)
        points = np.concat([points[-1:] - length, points, points[:1] + length], axis=0)
        values = np.concat([values[-1:], values, values[:1]], axis=0)
    last = points.shape[0] - 1
    above = np.minimum(np.maximum(np.searchsorted(points, np.reshape(at, (-1,)), side="right"), 1), max(last, 1))
    above = np.reshape(above, at.shape)
    low, high = above - 1, np.minimum(above, last)
    x0, x1, y0, y1 = (np.take(one, np.reshape(place, (-1,))) for one in (points, values) for place in (low, high))
    x0, x1, y0, y1 = (np.reshape(one, at.shape) for one in (x0, x1, y0, y1))
    step = x1 - x0
    found = y0 + (at - x0) * ((y1 - y0) / np.where(step == 0, 1, step))
    found = np.where(at == x1, y1, found)
    before, after = values[0], values[-1]
    if left is not None and period is None:
        before = np.astype(left, found.dtype)
    if right is not None and period is None:
        after = np.astype(right, found.dtype)
    found = np.where(at < points[0], before, np.where(at > points[-1], after, found))
    return np.where(np.isnan(at), math.nan, found)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Array:
    """Linear interpolation between the points (xp, fp), of which xp ascends; `left` and `right` beyond them."""
    return _interp(x, xp, fp, left, right, period)


# ---- differences and integrals


@operation("ary", "to_begin", "to_end")
def _ediff1d(ary: Any, to_begin: Any, to_end: Any) -> Array:
    flat = np.reshape(as_arrays(ary)[0], (-1,))
    parts = [flat[1:] - flat[:-1]]
    if to_begin is not None:
        parts.insert(0, np.reshape(np.astype(to_begin, flat.dtype), (-1,)))
    if to_end is not None:
        parts.append(np.reshape(np.astype(to_end, flat.dtype), (-1,)))
    return np.concat(parts, axis=0)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbours in the array as a vector, with something before and behind."""
    return _ediff1d(ary, to_begin, to_end)


@operation("y", "x")
def _trapezoid(y: Any, x: Any, dx: float, axis: int) -> Array:
    values = _float(y)
    place = as_axis(axis, values.ndim)
    ahead, behind = (np.moveaxis(values, place, -1)[..., part] for part in (slice(1, None), slice(None, -1)))
    step: Any = dx
    if x is not None:
        points = _float(x)
        if points.ndim > 1:
            points = np.moveaxis(points, as_axis(axis, points.ndim), -1)
        step = points[..., 1:] - points[..., :-1]
    return np.sum(step * (ahead + behind) / 2, axis=-1)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Array:
    """The integral by the trapezoidal rule, of samples at `x` or `dx` apart."""
    return _trapezoid(y, x, dx, axis)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The derivative by differences on both sides, on one side at the ends (of `edge_order` 1 or 2).

    `varargs` are the distances of samples or their places: one for all axes, or one for each.
    """
    rank = f.ndim if isinstance(f, Array) else numpy.ndim(f)
    axes = as_axes(axis, rank)
    if edge_order not in (1, 2):
        raise value_error(f"edge_order is 1 or 2, not {edge_order}")
    spacings = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    if len(spacings) != len(axes):
        raise type_error(f"gradient takes a spacing for all axes or one for each, not {len(varargs)} for {len(axes)}")
    found = [_gradient(f, spacing, one, edge_order) for spacing, one in zip(spacings, axes, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


@operation("f", "spacing")
def _gradient(f: Any, spacing: Any, axis: int, edge_order: int) -> Array:
    values = np.moveaxis(_float(f), axis, -1)
    n = values.shape[-1]
    if n < edge_order + 1:
        raise value_error(f"gradient with edge_order={edge_order} needs {edge_order + 1} elements, not {n}")
    distance = np.astype(spacing, np.real(values).dtype) if isinstance(spacing, Array) else as_arrays(spacing)[0]
    if distance.ndim > 1 or (distance.ndim == 1 and distance.shape[0] != n):
        raise value_error(f"places of shape {distance.shape} for {n} samples")
    steps = distance[1:] - distance[:-1] if distance.ndim else np.broadcast_to(distance, (n - 1,))
    left, right = steps[:-1], steps[1:]
    below, middle, above = values[..., :-2], values[..., 1:-1], values[..., 2:]
    if distance.ndim:
        inner = (
            -right / (left * (left + right)) * below
            + (right - left) / (left * right) * middle
            + left / (right * (left + right)) * above
        )
    else:
        inner = (above - below) / (2 * distance)
    if edge_order == 1:
        first = (values[..., 1:2] - values[..., 0:1]) / steps[0]
        last = (values[..., n - 1 : n] - values[..., n - 2 : n - 1]) / steps[n - 2]
    else:
        first = _one_sided(values[..., 0:1], values[..., 1:2], values[..., 2:3], steps[0], steps[1])
        c, b, a = (values[..., n - back : n - back + 1] for back in (3, 2, 1))
        last = -_one_sided(a, b, c, steps[n - 2], steps[n - 3])
    return np.moveaxis(np.concat([first, inner, last], axis=-1), -1, axis)


def _one_sided(a: Array, b: Array, c: Array, near: Array, far: Array) -> Array:
    """The derivative at `a` of the parabola through three samples."""
    both = near + far
    return -(near + both) / (near * both) * a + both / (near * far) * b - near / (far * both) * c


# ---- functions


@operation("p")
def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Array:
    """With multiples of `period` added so that neighbours differ by no more than half of it (or `discont`)."""
    values = np.moveaxis(_float(p), as_axis(axis, p.ndim), -1)
    if not values.shape[-1]:
        return np.moveaxis(values, -1, axis)
    half = period / 2
    step = values[..., 1:] - values[..., :-1]
    inside = np.remainder(step + half, period) - half
    inside = np.where((inside == -half) & (step > 0), half, inside)
    limit = half if discont is None else max(discont, half)
    change = np.where(np.abs(step) < limit, 0, inside - step)
    sums = np.cumulative_sum(change, axis=-1)
    found = np.concat([values[..., :1], values[..., 1:] + sums], axis=-1)
    return np.moveaxis(found, -1, axis)


@operation("x")
def i0(x: Any) -> Array:
    """The modified Bessel function of the first kind and order zero."""
    a = np.abs(_float(x))
    large = _chebyshev(16 / np.maximum(a, 8) - 1, _bessel()) / np.sqrt(np.maximum(a, 8))
    square = np.minimum(a, 8) ** 2 / 4
    small = square * 0
    for k in range(30, -1, -1):  # the power series, all of whose terms are positive
        small = small * square + 1 / math.factorial(k) ** 2
    return np.where(a <= 8, small, np.exp(a) * large)


@cache
def _bessel() -> tuple[float, ...]:
    """The Chebyshev series of sqrt(x) exp(-x) I0(x) over 16/x - 1, from 8 on.

    I0(x) is the mean of exp(x cos t) over a circle, which the trapezoidal rule finds to the last place (Trefethen and
    Weideman, "The exponentially convergent trapezoidal rule", 2014).
    """
    circle = numpy.cos(numpy.arange(16384) * (2 * math.pi / 16384)) - 1

    def far(y: Any) -> Any:
        x = 16 / (y + 1)
        return numpy.sqrt(x) * numpy.array([numpy.mean(numpy.exp(one * circle)) for one in x])

    found: list[float] = numpy.polynomial.chebyshev.chebinterpolate(far, 26).tolist()
    return tuple(found)


def _chebyshev(x: Array, series: Sequence[float]) -> Array:
    """The sum of a Chebyshev series (Clenshaw's recurrence)."""
    ahead, found = x * 0, x * 0 + series[-1]
    for one in series[-2:0:-1]:
        ahead, found = found, 2 * x * found - ahead + one
    return x * found - ahead + series[0]
