"""Statistics beyond the standard: quantiles, covariances, and what leaves out NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy

from hlotool.numpy import standard as np
from hlotool.numpy.array import Array
from hlotool.numpy.axes import as_axes
from hlotool.numpy.creation import diagonal_of
from hlotool.numpy.dtypes import DType, kind_of, promote
from hlotool.numpy.errors import type_error, value_error
from hlotool.numpy.operation import as_arrays, convert, operation
from hlotool.numpy.outputs import written
from hlotool.numpy.statistical import weights_of
from hlotool.numpy.trace import apply

__all__ = [
    "corrcoef", "cov", "median", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmedian", "nanpercentile",
    "nanquantile", "percentile", "quantile",
]  # fmt: skip

_METHODS = {  # (alpha, beta) of Hyndman and Fan, "Sample quantiles in statistical packages" (1996)
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_ROUNDED = ("lower", "higher", "nearest", "midpoint")
_STEPS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")  # theirs that are not continuous
_CHOSEN = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")  # that give elements as they are


def _float(x: Any) -> Array:
    """As floats."""
    (a,) = as_arrays(x)
    return a if kind_of(a.dtype) in ("float", "complex") else convert(a, numpy.dtype(numpy.float64))


# ---- quantiles


def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """The values below which shares `q` of the elements lie, or of their `weights`; NaN where there is a NaN."""
    return _of_shares(a, _within(q, 1), 1, axis, out, method, keepdims, weights, False)


def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """`quantile` with shares in percent."""
    return _of_shares(a, _within(q, 100), 100, axis, out, method, keepdims, weights, False)


def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """`quantile` of the elements that are no NaN."""
    return _of_shares(a, _within(q, 1), 1, axis, out, method, keepdims, weights, True)


def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None,
) -> Array:  # fmt: skip
    """`percentile` of the elements that are no NaN."""
    return _of_shares(a, _within(q, 100), 100, axis, out, method, keepdims, weights, True)


def _within(q: Any, whole: int) -> Any:
    """The shares `q`, checked to lie between 0 and `whole`; those of a traced function are not known yet."""
    if not isinstance(q, Array) or q._trace is None:
        held = numpy.asarray(q._value if isinstance(q, Array) else q)
        if held.dtype.kind not in "biuf":
            raise type_error(f"shares are real numbers, not {held.dtype}")
        if not ((held >= 0) & (held <= whole)).all():
            raise value_error(f"shares lie between 0 and {whole}, not {held.tolist()}")
    return q


def _of_shares(
    a: Any, q: Any, whole: int, axis: Any, out: Any, method: str, keepdims: bool, weights: Any, skip: bool
) -> Array:
    if method not in (known := [*_METHODS, *_ROUNDED, *_STEPS]):
        raise value_error(f"the quantile method {method!r} is not known", f"use one of {known}")
    q = float(q) if type(q) in (bool, int) else q  # which takes the type of an array of floats
    if weights is None:
        found = _quantile(a, q, whole, axis, method, keepdims, skip)
    elif method != "inverted_cdf":
        raise value_error(f"the quantile method {method!r} takes no weights", 'use "inverted_cdf"')
    else:
        found = _weighted_quantile(a, q, weights, whole, axis, keepdims, skip)
    return found if out is None else written(out, found)


def _shares_for(a: Any, q: Any, whole: int, method: str) -> tuple[Array, Array, DType]:
    """Elements and shares as floats of one type, and the type of the result."""
    (given,) = as_arrays(a)
    if kind_of(given.dtype) == "complex":
        raise type_error("complex numbers have no order, and no quantiles")
    values, shares = as_arrays(given, _float(q) / whole)
    # As in NumPy, what is one of the elements is of their type.
    return values, shares, given.dtype if method in _CHOSEN else values.dtype


@operation("a", "q")
def _quantile(a: Any, q: Any, whole: int, axis: Any, method: str, keepdims: bool, skip: bool) -> Array:
    values, shares, target = _shares_for(a, q, whole, method)
    values, axes = _gathered(values, axis)
    values = np.sort(values, axis=-1)
    missing = np.isnan(values)
    count = values.shape[-1]
    if not count:
        if not skip:
            raise value_error("a quantile of no elements")
        kind = target if kind_of(target) == "float" else values.dtype  # integers know no NaN
        found = np.full((*shares.shape, *values.shape[:-1]), math.nan, dtype=kind)
        return _kept(found, axes, shares.ndim) if keepdims else found
    number_of = np.sum(np.astype(~missing, values.dtype), axis=-1)
    n = number_of if skip else np.full(number_of.shape, count, dtype=values.dtype)
    index = np.reshape(shares, (*shares.shape, *(1,) * number_of.ndim))
    if method in _METHODS:
        alpha, beta = _METHODS[method]
        index = (n - 1) * index if method == "linear" else n * index + (alpha + index * (1 - alpha - beta)) - 1
    elif method in _STEPS:
        index = n * index - (1.5 if method == "closest_observation" else 1)
        low = np.floor(index)
        exact = index == low
        if method == "closest_observation":
            exact = exact & (low % 2 == 1)
        index = np.where(exact, low + 0.5 if method == "averaged_inverted_cdf" else low, low + 1)
    else:
        index = (n - 1) * index
        index = {
            "lower": np.floor, "higher": np.ceil, "nearest": np.round,
            "midpoint": lambda one: 0.5 * (np.floor(one) + np.ceil(one)),
        }[method](index)  # fmt: skip
    found = _between(values, np.minimum(np.maximum(index, 0), np.maximum(n - 1, 0)), shares.ndim)
    found = np.where(n == 0 if skip else np.any(missing, axis=-1), math.nan, found)
    found = convert(found, target)
    return _kept(found, axes, shares.ndim) if keepdims else found


@operation("a", "q", "weights")
def _weighted_quantile(
    a: Any, q: Any, weights: Any, whole: int, axis: Any, keepdims: bool, skip: bool
) -> Array:
    """The least element up to which the weights come to a share of all of them; those of weight 0 do not count."""
    values, shares, target = _shares_for(a, q, whole, "inverted_cdf")
    own = np.astype(weights, numpy.float64)
    own = weights_of(own, values.shape, axis)
    (values, axes), (own, _) = _gathered(values, axis), _gathered(own, axis)
    if not values.shape[-1]:
        raise value_error("a quantile of no elements")
    order = np.argsort(values, axis=-1)
    values, own = (np.take_along_axis(one, order, axis=-1) for one in (values, own))
    missing = np.isnan(values)
    own = np.where(missing, 0.0, own) if skip else own
    level = np.cumulative_sum(own, axis=-1)
    level = level / level[..., -1:]
    wanted = np.reshape(np.astype(shares, numpy.float64), (*shares.shape, *(1,) * values.ndim))
    reached = (level >= wanted) & (level > 0)
    place = np.argmax(reached, axis=-1, keepdims=True)
    rows = np.broadcast_to(values, (*shares.shape, *values.shape))
    found = np.take_along_axis(rows, place, axis=-1)[..., 0]
    nothing = np.all(missing, axis=-1) if skip else np.any(missing, axis=-1)
    found = convert(np.where(nothing, math.nan, found), target)
    return _kept(found, axes, shares.ndim) if keepdims else found


def _between(values: Array, index: Array, lead: int) -> Array:
    """Sorted `values` at positions with fractions."""
    low = np.floor(index)
    share = index - low
    values = np.reshape(values, (*(1,) * lead, *values.shape))
    values = np.broadcast_to(values, (*index.shape, values.shape[-1]))
    first = np.astype(low, numpy.int64)
    second = np.minimum(first + 1, values.shape[-1] - 1)
    a, b = (np.take_along_axis(values, one[..., None], axis=-1)[..., 0] for one in (first, second))
    step = b - a
    whole = np.where(share >= 0.5, b - step * (1 - share), a + step * share)  # as exact at both ends
    return np.where(share == 0, a, whole)


def _gathered(a: Array, axis: Any) -> tuple[Array, tuple[int, ...]]:
    """The dimensions `axis` as one at the end, and which they were, in ascending order."""
    axes = tuple(sorted(as_axes(axis, a.ndim)))
    rest = tuple(n for n in range(a.ndim) if n not in axes)
    moved = np.permute_dims(a, rest + axes)
    return np.reshape(moved, (*(a.shape[n] for n in rest), math.prod(a.shape[n] for n in axes))), axes


def _kept(found: Array, axes: tuple[int, ...], lead: int = 0) -> Array:
    """With dimensions of 1 in the place of those that were reduced."""
    return np.expand_dims(found, tuple(lead + n for n in axes)) if axes else found


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The element in the middle, or the mean of the two there; NaN where there is a NaN."""
    found = _median(a, axis, keepdims, False)
    return found if out is None else written(out, found)


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The median of the elements that are no NaN."""
    found = _median(a, axis, keepdims, True)
    return found if out is None else written(out, found)


@operation("a")
def _median(a: Any, axis: Any, keepdims: bool, skip: bool) -> Array:
    values, axes = _gathered(_float(a), axis)
    values = np.sort(values, axis=-1)
    missing = np.isnan(values)
    if not values.shape[-1]:
        found = np.full(values.shape[:-1], math.nan, dtype=values.dtype)
        return _kept(found, axes) if keepdims else found
    full = np.full(values.shape[:-1], values.shape[-1], dtype=numpy.int64)
    n = np.sum(np.astype(~missing, numpy.int64), axis=-1) if skip else full
    low, high = np.maximum((n - 1) // 2, 0), n // 2
    places = (low, np.minimum(high, full - 1))
    one, other = (np.take_along_axis(values, at[..., None], axis=-1)[..., 0] for at in places)
    found = np.where(low == high, one, (one + other) * 0.5)
    found = np.where(n == 0 if skip else np.any(missing, axis=-1), math.nan, found)
    return _kept(found, axes) if keepdims else found


# ---- covariances


@operation("m", "y", "fweights", "aweights")
def _cov(m: Any, y: Any, fweights: Any, aweights: Any, rowvar: bool, ddof: int, dtype: Any) -> Array:
    rows = _observations(m, rowvar)
    if y is not None:
        rows = np.concat(list(as_arrays(rows, _observations(y, rowvar))), axis=0)
    # NumPy's covariances have 64 bits at least where nothing else is said.
    wide = promote(rows.dtype, numpy.dtype(numpy.float64))
    rows = _float(convert(rows, wide) if dtype is None else np.astype(rows, dtype))
    weights = None
    for one in (fweights, aweights):
        if one is not None:
            if one.shape != (rows.shape[1],):
                raise value_error(f"weights of shape {one.shape} for {rows.shape[1]} observations")
            given = np.astype(one, np.real(rows).dtype)
            weights = given if weights is None else weights * given
    if weights is None:
        mean, total = np.mean(rows, axis=1, keepdims=True), rows.shape[1]
        scale: Any = max(total - ddof, 0)
    else:
        sums = np.sum(weights)
        mean = np.sum(rows * weights, axis=1, keepdims=True) / sums
        if not ddof:
            scale = sums
        elif aweights is None:
            scale = sums - ddof
        else:
            scale = sums - ddof * np.sum(weights * aweights) / sums
    centred = rows - mean
    weighted = centred if weights is None else centred * weights
    product = np.matmul(weighted, np.permute_dims(np.conj(centred), (1, 0)))
    return product / (np.astype(np.asarray(scale), product.dtype) if isinstance(scale, Array) else scale or math.nan)


def _observations(m: Any, rowvar: bool) -> Array:
    (a,) = as_arrays(m)
    if a.ndim > 2:
        raise value_error(f"cov takes arrays of two dimensions at most, not of shape {a.shape}")
    if a.ndim < 2:
        return np.reshape(a, (1, -1))
    return a if rowvar or a.shape[0] == 1 else np.permute_dims(a, (1, 0))


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Array:
    """The covariances of variables, a row each (a column each unless `rowvar`)."""
    freedom = (0 if bias else 1) if ddof is None else ddof
    return _squeezed(_cov(m, y, fweights, aweights, rowvar, freedom, dtype))


@operation("c")
def _squeezed(c: Any) -> Array:
    return c[0, 0] if c.shape == (1, 1) else as_arrays(c)[0]


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    """The correlation coefficients of variables."""
    return _correlated(cov(x, y, rowvar, dtype=dtype))


@operation("c")
def _correlated(c: Any) -> Array:
    if not c.ndim:
        return as_arrays(c / c)[0]
    deviations = np.sqrt(np.real(diagonal_of(c, 0)))
    found = c / deviations[:, None] / deviations
    if kind_of(c.dtype) == "complex":
        return apply("complex", np.clip(np.real(found), -1, 1), np.clip(np.imag(found), -1, 1))
    return np.clip(found, -1, 1)


# ---- without NaN


def _without_nan(a: Any, value: float) -> tuple[Array, Array | None]:
    """With `value` in the place of NaN, and where there are numbers; None of integers."""
    (x,) = as_arrays(a)
    if kind_of(x.dtype) not in ("float", "complex"):
        return x, None
    missing = np.isnan(x)
    return np.where(missing, Array(numpy.asarray(value, x.dtype)), x), ~missing


def _running(x: Array, axis: int | None) -> tuple[Array, int]:
    return (np.reshape(x, (-1,)), 0) if axis is None else (x, axis)


@operation("a")
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Array:
    """Running sums in which NaN is 0."""
    x, place = _running(_without_nan(a, 0)[0], axis)
    return np.cumulative_sum(x, axis=place, dtype=dtype)


@operation("a")
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Array:
    """Running products in which NaN is 1."""
    x, place = _running(_without_nan(a, 1)[0], axis)
    return np.cumulative_prod(x, axis=place, dtype=dtype)


@operation("a")
def nanargmax(a: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the largest of the elements that are no NaN stands (0 where all are, of which NumPy raises an error)."""
    return np.argmax(_without_nan(a, -math.inf)[0], axis=axis, keepdims=keepdims)


@operation("a")
def nanargmin(a: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the least of the elements that are no NaN stands (0 where all are, of which NumPy raises an error)."""
    return np.argmin(_without_nan(a, math.inf)[0], axis=axis, keepdims=keepdims)
