"""What the namespace has beyond the standard, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import hlotool
import hlotool.numpy as np

GENERATOR = numpy.random.default_rng(0)
A = GENERATOR.normal(size=(3, 5, 4))
HOLES = A.copy()
HOLES[0, 1, 2] = HOLES[1, :, 3] = numpy.nan
ROWS = GENERATOR.normal(size=(3, 20))
POINTS = numpy.sort(GENERATOR.normal(size=7))
PLACES = numpy.concatenate([GENERATOR.normal(size=20) * 2, POINTS, [numpy.nan, numpy.inf, -numpy.inf]])
C = GENERATOR.normal(size=5)
ANGLES = numpy.cumsum(GENERATOR.normal(size=(3, 30)) * 2, axis=-1) % (2 * numpy.pi)
WEIGHTS = numpy.arange(1.0, 21)


def agree(name: str, *arguments: Any, near: float = 1e-11, **options: Any) -> None:
    with numpy.errstate(all="ignore"):
        expected = getattr(numpy, name)(*arguments, **options)
    found = getattr(np, name)(*arguments, **options)
    pairs = [(found, expected)] if not isinstance(expected, (list, tuple)) else zip(found, expected, strict=True)
    for one, other in pairs:
        held, wanted = numpy.asarray(one), numpy.asarray(other)
        assert (held.shape, held.dtype.kind) == (wanted.shape, wanted.dtype.kind)
        assert numpy.allclose(held, wanted, rtol=near, atol=near, equal_nan=True)


def quantiles() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    for x in (A, HOLES, (A * 10).astype(int)):
        for axis in (None, 1, (0, 2)):
            for name in ("median", "nanmedian"):
                yield name, (x,), {"axis": axis}
            for name in ("quantile", "nanquantile"):
                yield name, (x, numpy.array([0.0, 0.25, 0.3, 1.0])), {"axis": axis}
        for name in ("nanprod", "nanvar", "nanstd", "nancumsum", "nancumprod"):
            yield name, (x,), {"axis": 1}
    yield "percentile", (A, 30), {}
    yield "nanpercentile", (HOLES, 30), {"axis": 0, "keepdims": True}
    yield "quantile", (A, numpy.array([0.1, 0.5])), {"axis": (0, 2), "keepdims": True}
    yield "median", (numpy.array([1, numpy.inf, numpy.inf, 2.0]),), {}
    yield "nanargmax", (HOLES[0],), {"axis": 0}
    yield "nanargmin", (HOLES[0],), {}
    for method in (
        "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased", "normal_unbiased",
        "interpolated_inverted_cdf",
    ):  # fmt: skip
        yield "quantile", (A, numpy.array([0.0, 0.1, 0.33, 0.5, 0.77, 1.0])), {"axis": 1, "method": method}


def covariances() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    frequencies = numpy.arange(20) % 3
    for options in (
        {}, {"rowvar": False}, {"bias": True}, {"ddof": 0}, {"fweights": frequencies}, {"aweights": WEIGHTS},
        {"fweights": frequencies, "aweights": WEIGHTS},
    ):  # fmt: skip
        yield "cov", (ROWS,), options
    yield "cov", (ROWS, ROWS[:1]), {}
    yield "cov", (ROWS[0],), {}
    yield "cov", (numpy.arange(12).reshape(3, 4),), {}
    for rows in (ROWS, ROWS[0], ROWS + 1j * ROWS**2):
        yield "corrcoef", (rows,), {}


def samples() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    for n, m in ((1, 1), (5, 3), (3, 5), (40, 17), (17, 40), (100, 33), (18, 17)):
        for dtype in ("f8", "c16", "i8"):
            a, v = ((GENERATOR.normal(size=size) * 5).astype(dtype) for size in (n, m))
            v = v * (1 - 2j) if dtype == "c16" else v
            for mode in ("full", "same", "valid")[:: 1 if n < 20 else 2]:
                yield "convolve", (a, v, mode), {}
                yield "correlate", (a, v, mode), {}
    yield "convolve", (numpy.array([True, False, True]), numpy.array([True, True])), {}
    values = GENERATOR.normal(size=7)
    for options in ({}, {"left": -5.0, "right": 7.0}):
        yield "interp", (PLACES, POINTS, values), options
    yield "interp", (PLACES[:-3], POINTS, values), {"period": 1.5}
    yield "interp", (PLACES, POINTS, values * 1j), {}
    steps = numpy.array([0.0, 1, 1, 2]), numpy.array([0.0, 1, 5, 6])
    yield "interp", (numpy.array([0.0, 0.5, 1, 1.5, 2, 3]), *steps), {}
    yield "ediff1d", (A,), {"to_begin": numpy.array([1.0, 2]), "to_end": 3.0}
    for arguments, options in (
        ((A,), {}), ((A,), {"dx": 0.5, "axis": 1}), ((A, numpy.arange(5) ** 2.0), {"axis": 1}),
        ((A, A * A), {"axis": 0}),
    ):  # fmt: skip
        yield "trapezoid", arguments, options
    for order in (1, 2):
        for spacing in ((), (2.0,), (0.5, numpy.arange(5) ** 2.0, 3)):
            yield "gradient", (A, *spacing), {"edge_order": order}
        yield "gradient", (numpy.arange(6) ** 2,), {"edge_order": order}
    for options in ({}, {"axis": 0}, {"discont": 4.0}, {"period": 3.0}):
        yield "unwrap", (ANGLES,), options
    yield "i0", (numpy.concatenate([numpy.linspace(-30, 30, 101), [0.0, 8.0, -8.0, 600.0, 1e-300]]),), {}


def polynomials() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    yield "polyval", (C, A), {}
    yield "vander", (C,), {}
    yield "vander", (numpy.arange(4), 3), {"increasing": True}
    yield "polyfit", (numpy.linspace(0, 1, 20), WEIGHTS**0.5, 3), {"near": 1e-7}
    yield "polyfit", (numpy.arange(20), ROWS.T, 3), {"near": 1e-7}
    yield "polyfit", (numpy.arange(20.0), WEIGHTS**0.5, 3), {"w": WEIGHTS, "near": 1e-7}
    for name in ("polyadd", "polysub", "polymul"):
        yield name, (C, C[:2]), {}
        yield name, (C[:3], C), {}
    for times in (1, 2, 7):
        yield "polyder", (C, times), {}
    yield "polyint", (C,), {}
    yield "polyint", (C, 2, [1.0, 2.0]), {}
    yield "poly", (C,), {}


def shapes() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "linear_ramp"):
        yield "pad", (A, ((1, 2), (3, 0), (2, 7)), mode), {}
        yield "pad", (numpy.arange(7), (2, 3), mode), {}
    yield "pad", (A, 2), {"constant_values": 3}
    yield "pad", (A, ((1, 2), (0, 1), (1, 1))), {"constant_values": ((1, 2), (3, 4), (5, 6))}
    yield "kron", (A[0], C), {}
    yield "kron", (A[0], A[1]), {}
    yield "delete", (A, [1, 2]), {"axis": 1}
    yield "dsplit", (A, 2), {}
    yield "diagflat", (C, 1), {}
    yield "cross", (A[..., :3], A[..., 1:]), {}
    yield "cross", (A, A + 1), {"axis": 0}
    yield "cross", (A, numpy.moveaxis(A, 0, 2) - 1), {"axisa": 0, "axisb": 2, "axisc": 1}


def counts() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    numbers = numpy.array([0, 3, 3, 7, 1])
    yield "bincount", (numbers,), {}
    yield "bincount", (numbers, numpy.arange(5.0)), {"minlength": 12}
    yield "bincount", (numpy.zeros(0, int),), {"minlength": 2}
    for edges in (numpy.array([-1.0, 0, 0.5, 2]), numpy.array([2, 0.5, 0, -1.0])):
        for right in (False, True):
            yield "digitize", (numpy.concatenate([A.ravel(), edges]), edges), {"right": right}
    for options in (
        {}, {"bins": 4}, {"range": (-1, 1)}, {"bins": [-1.0, 0, 0.1, 2]}, {"density": True},
        {"weights": A * A, "bins": 5},
    ):  # fmt: skip
        yield "histogram", (A,), options
    yield "histogram", (numpy.full(5, 2.0),), {}
    yield "histogram", (numpy.array([1, 2, 2, 9]),), {"bins": 4}
    yield "histogram_bin_edges", (A, 6), {}


CASES = [
    case for group in (quantiles, covariances, samples, polynomials, shapes, counts) for case in group()
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_as_numpy_does(number: int) -> None:
    name, arguments, options = CASES[number]
    agree(name, *arguments, **options)


def test_within_a_compiled_function() -> None:
    @hlotool.jit
    def several(x: Any) -> Any:
        return np.median(x, axis=0), np.cov(x), np.bincount(np.astype(x[0] > 0, int), length=2), np.histogram(x)[0]

    found = several(ROWS)
    expected = (
        numpy.median(ROWS, axis=0), numpy.cov(ROWS), numpy.bincount((ROWS[0] > 0).astype(int), minlength=2),
        numpy.histogram(ROWS)[0],
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        assert numpy.allclose(one, other)
    with pytest.raises(TypeError, match="length="):
        hlotool.jit(lambda x: np.bincount(x))(numpy.arange(3))


def test_bad_use_is_told() -> None:
    for call in (
        lambda: np.pad(A, -1), lambda: np.pad(A, 1, "other"), lambda: np.convolve(A, A),
        lambda: np.quantile(A, 0.5, method="x"),
        lambda: np.bincount(numpy.array([-1])), lambda: np.digitize(A, numpy.array([0.0, 2, 1])),
        lambda: np.histogram(A, "other"), lambda: np.gradient(A, 1.0, 2.0),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert __file__ in str(caught.value)


def test_complex_numbers_are_looked_for_among_others() -> None:
    x, known = numpy.asarray([[1 + 2j, 3], [0, numpy.nan]]), numpy.asarray([3, numpy.nan, 1 + 2j])
    for dtype in ("complex64", "complex128"):
        for invert in (False, True):
            agree("isin", x.astype(dtype), known.astype(dtype), invert=invert)
            agree("isin", x.astype(dtype), known[:0], invert=invert)
        found = hlotool.jit(np.isin)(x.astype(dtype), known.astype(dtype))
        numpy.testing.assert_array_equal(found, numpy.isin(x, known))
    with pytest.raises(TypeError, match=r"test_numpy_more.py:\d+: searchsorted is not for arrays of complex128: "):
        np.searchsorted(known, x)


def test_complex_numbers_become_real_ones_with_a_warning_at_the_line_that_asks_for_it() -> None:
    x = np.asarray([1 + 2j])
    for asked in (
        lambda: x.astype("float32"), lambda: np.astype(x, np.int8), lambda: np.asarray(x, dtype=float),
        lambda: np.astype(numpy.asarray(x), float), lambda: hlotool.jit(lambda y: y.astype(float))(x),
    ):  # fmt: skip
        with pytest.warns(numpy.exceptions.ComplexWarning, match="imaginary parts are left out") as told:
            assert float(asked()[0]) == 1
        assert {one.filename for one in told} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (x.astype("bool"), x.astype("complex64"), np.real(x).astype(float)) == (True, 1 + 2j, 1)
