"""Statistics against NumPy: types, masks, weights, results in arrays that are there, and axes of single numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np

X = numpy.random.default_rng(0).normal(size=(3, 4))
HOLES = X.copy()
HOLES[0, 1] = HOLES[2] = numpy.nan
MASK = X > -0.5
WEIGHTS = numpy.array([1, 2, 0.5, 0])
SINGLE = numpy.array(3.0)

OF_HOLES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "nansum": lambda xp, x, m: xp.nansum(x, axis=1, where=m, initial=2.0),
    "nansum of a type": lambda xp, x, m: xp.nansum(x, dtype=numpy.float32),
    "nanprod": lambda xp, x, m: xp.nanprod(x, axis=0, where=m, initial=2.0, keepdims=True),
    "nanmax": lambda xp, x, m: xp.nanmax(x, axis=1, where=m, initial=-9.0),
    "nanmax of nothing": lambda xp, x, m: xp.nanmax(x, axis=1),
    "nanmin": lambda xp, x, m: xp.nanmin(x, axis=0, where=m, initial=9.0),
    "nanmean": lambda xp, x, m: xp.nanmean(x, axis=1, where=m),
    "nanmean of a type": lambda xp, x, m: xp.nanmean(x, axis=0, dtype=numpy.float32),
    "nanvar": lambda xp, x, m: xp.nanvar(x, axis=0, where=m, ddof=1),
    "nanvar of a type": lambda xp, x, m: xp.nanvar(x, correction=1, dtype=numpy.float32, keepdims=True),
    "nanstd": lambda xp, x, m: xp.nanstd(x, axis=1, where=m),
    "var of a mean": lambda xp, x, m: xp.var(x, axis=1, mean=xp.mean(x, axis=1, keepdims=True)),
    "std of a mean": lambda xp, x, m: xp.std(x, mean=xp.zeros((1, 1)), where=m & (x == x), ddof=1),
    "average of integers": lambda xp, x, m: xp.average(xp.asarray([1, 2]), weights=xp.asarray([1, 2], dtype="f4")),
}


@pytest.mark.parametrize("name", OF_HOLES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy_does(name: str) -> None:
    wanted = OF_HOLES[name](numpy, HOLES, MASK)
    agree(OF_HOLES[name](np, np.asarray(HOLES), np.asarray(MASK)), wanted, rtol=1e-6)
    agree(hlotool.jit(lambda x, m: OF_HOLES[name](np, x, m))(HOLES, MASK), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanvar", "nanmedian", "median", "nanmax"])
def test_results_in_an_array_that_is_there(name: str) -> None:
    held = np.zeros(4)
    assert getattr(np, name)(np.asarray(X), axis=0, out=held) is held
    agree(held, getattr(numpy, name)(X, axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", ["argmax", "cumsum", "nancumsum", "count_nonzero", "ptp", "trace"])
def test_what_is_no_function_of_elements_takes_no_masks(name: str) -> None:
    with pytest.raises(TypeError, match=f"test_numpy_statistics.py.*: {name} takes no where="):
        getattr(np, name)(np.asarray(X), where=MASK)


METHODS = ("linear", "hazen", "midpoint", "lower", "nearest", "inverted_cdf", "averaged_inverted_cdf")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i4", "i1"])
def test_quantiles_are_of_the_types_of_numpy(method: str, kind: str) -> None:
    x = (X * 9).astype(kind)
    for q in (0.25, numpy.float64(0.25), numpy.array([0.25, 0.75]), numpy.array([0.25, 0.75], "f4")):
        for call in (
            lambda xp, x: xp.quantile(x, q, axis=1, method=method),  # noqa: B023
            lambda xp, x: xp.percentile(x, q * 100, axis=1, method=method),  # noqa: B023
        ):
            wanted = call(numpy, x)
            agree(call(np, np.asarray(x)), wanted, rtol=1e-2 if kind == "f2" else 1e-6)
            agree(hlotool.jit(lambda x: call(np, x))(x), wanted, rtol=1e-2 if kind == "f2" else 1e-6)  # noqa: B023


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["f4", "i4"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quantiles_of_no_elements(method: str, kind: str) -> None:
    nothing = numpy.zeros((0, 3), kind)
    wanted = numpy.nanquantile(nothing, 0.5, axis=0, method=method)
    agree(np.nanquantile(nothing, 0.5, axis=0, method=method), wanted)
    with pytest.raises(ValueError, match="a quantile of no elements"):
        np.quantile(nothing, 0.5, axis=0, method=method)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_weighted_quantiles(name: str) -> None:
    x = HOLES if name == "nanquantile" else X
    for q in (0, 0.5, 0.9, 1, numpy.array([0.2, 0.7])):
        for options in (
            {"weights": numpy.abs(X)}, {"weights": numpy.abs(X), "axis": 0}, {"weights": WEIGHTS, "axis": 1},
            {"weights": numpy.array([3, 1, 2]), "axis": 0, "keepdims": True},
        ):  # fmt: skip
            theirs = dict(options)
            if options["weights"].ndim == 1:  # of which NumPy's nanquantile makes nothing
                own = numpy.expand_dims(options["weights"], 1 - options["axis"])
                theirs["weights"] = numpy.broadcast_to(own, x.shape)
            wanted = getattr(numpy, name)(x, q, method="inverted_cdf", **theirs)
            agree(getattr(np, name)(np.asarray(x), q, method="inverted_cdf", **options), wanted)
    with pytest.raises(ValueError, match="takes no weights"):
        np.quantile(X, 0.5, weights=X)
    with pytest.raises(ValueError, match="need an axis"):
        np.quantile(X, 0.5, weights=WEIGHTS, method="inverted_cdf")


def test_shares_lie_between_0_and_1() -> None:
    for call in (
        lambda: np.quantile(X, 1.2), lambda: np.percentile(X, [3, -1]), lambda: np.nanquantile(X, numpy.nan),
        lambda: hlotool.jit(lambda x: np.quantile(x, 1.5))(X),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"shares lie between 0 and 1"):
            call()
    with pytest.raises(TypeError, match="no quantiles"):
        np.quantile(X * 1j, 0.5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_covariances_are_of_f64_where_nothing_else_is_said() -> None:
    x = X.astype("f4")
    agree(np.cov(x), numpy.cov(x), rtol=1e-6)
    agree(np.corrcoef(x), numpy.corrcoef(x), rtol=1e-6)
    agree(np.cov(x, dtype="f4"), numpy.cov(x, dtype="f4"), rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "any", "argmin", "cumsum", "nansum", "ptp"])
@pytest.mark.parametrize("axis", [0, -1])
def test_a_single_number_has_an_axis(name: str, axis: int) -> None:
    wanted = getattr(numpy, name)(SINGLE, axis=axis)
    agree(getattr(np, name)(np.asarray(SINGLE), axis=axis), wanted)
    agree(hlotool.jit(lambda x: getattr(np, name)(x, axis=axis))(SINGLE), wanted)
    for other in (name, "mean", "var"):  # these are as strict as NumPy's
        with pytest.raises(IndexError, match="out of bounds"):
            getattr(np, other)(np.asarray(SINGLE), axis=1 if other == name else axis)


def test_bins_that_descend_are_seen_in_traced_functions() -> None:
    edges = numpy.array([2, 0.5, 0, -1.0])
    values = numpy.concatenate([X.ravel(), edges])
    for bins in (edges, edges[::-1].copy()):
        for right in (False, True):
            found = hlotool.jit(lambda x, e: np.digitize(x, e, right=right))(values, bins)  # noqa: B023
            agree(found, numpy.digitize(values, bins, right=right))


def test_histograms_of_weights_and_of_rules() -> None:
    for kind in ("f4", "i4", "f8"):
        weights = numpy.arange(12).reshape(3, 4).astype(kind)
        agree(np.histogram(X, bins=4, weights=weights)[0], numpy.histogram(X, bins=4, weights=weights)[0])
    for rule in ("auto", "fd", "sturges"):
        agree(np.histogram(np.asarray(X), bins=rule), numpy.histogram(X, bins=rule), rtol=1e-12)
    with pytest.raises(TypeError, match="pass a number of bins"):
        hlotool.jit(lambda x: np.histogram(x, bins="auto"))(X)
