"""Functions that NumPy has beyond the array API standard: each with NumPy's own, over types, shapes and edge values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree, dtype_of, sample

import hlotool
import hlotool.numpy as np

HERE = "test_numpy_beyond.py:"
X = numpy.array([[3.0, -1.0, 2.0], [0.5, 2.0, -0.0]])
V = numpy.array([4.0, -2.0, 7.0, 1.0, 7.0, math.inf, -0.0])
K = numpy.array([3, 1, 2, 0, 2])
M = numpy.array([True, False, True, False, False])

Case = Callable[[Any], Any]
CASES: dict[str, Case] = {
    "select": lambda n: n.select([K > 2, K > 0], [K * 2, K * 3.0], -1),
    "select broadcast": lambda n: n.select([X > 0, X < 0], [X, n.ones(3)]),
    "piecewise": lambda n: n.piecewise(n.asarray(V), [V < 0, V >= 4], [lambda x: -x, lambda x: x * 2]),
    "piecewise otherwise": lambda n: n.piecewise(n.asarray(K), [K < 1, K > 2], [7, lambda x: x * 2, lambda x: x + 1]),
    "choose": lambda n: n.choose(K, [K * 10, K * 20, 7, K]),
    "choose wrap": lambda n: n.choose(n.asarray([-1, 5]), [[1, 2], [3, 4]], mode="wrap"),
    "choose clip": lambda n: n.choose(n.asarray([-1, 5]), [[1, 2], [3, 4]], mode="clip"),
    "compress": lambda n: (n.compress(M, K), n.compress([True, False], X, axis=0), n.compress([False, True], X)),
    "insert": lambda n: (
        n.insert(K, 1, 9), n.insert(K, [1, 3], [7, 8]), n.insert(X, 1, 5, axis=1), n.insert(X, -1, [1, 2, 3], axis=0),
        n.insert(K, slice(1, 4), 5), n.insert(X, [1], [[1], [2]], axis=1), n.insert(K, [2, 2], [6, 7]),
        n.insert(X, [0, 2], 9, axis=1), n.insert(K, [], []), n.insert(K, [1, 4, 1], [7, 8, 9]),
        n.insert(X, 1, [5, 6], axis=1),
    ),
    "resize": lambda n: (n.resize(K, (2, 4)), n.resize(K, 3), n.resize(X, (0, 2)), n.resize(X, (4, 3))),
    "block": lambda n: (
        n.block([[X, X * 2], [n.ones((1, 6))]]), n.block([1, 2, n.ones(3)]), n.block(X), n.block([[1, 2], [3, 4]]),
        n.block([[[X], [X]]]),
    ),
    "row_stack": lambda n: n.vstack([K, K]),
    "apply_along_axis": lambda n: (
        n.apply_along_axis(lambda r: r.sum(), 1, n.asarray(X)), n.apply_along_axis(lambda r: r * 2, 0, n.asarray(X)),
        n.apply_along_axis(lambda r: r[:, None] * r, 1, n.asarray(X)),
    ),
    "apply_over_axes": lambda n: n.apply_over_axes(n.sum, n.ones((2, 3, 4)), (0, 2)),
    "fromfunction": lambda n: n.fromfunction(lambda i, j: i * 3 + j, (2, 3), dtype=int),
    "lexsort": lambda n: n.lexsort((n.asarray([3, 1, 2, 2, 1]), n.asarray([0, 1, 0, 1, 0]))),
    "sort_complex": lambda n: n.sort_complex(n.asarray([3 + 1j, 1 - 2j, 3 - 1j])),
    "trim_zeros": lambda n: (n.trim_zeros(n.asarray([0, 0, 1, 0, 2, 0])), n.trim_zeros(n.asarray([0.0, 1]), "b")),
    "triangles": lambda n: (
        *n.tril_indices(4, 1), *n.triu_indices(3, -1, 5), *n.tril_indices_from(X), *n.triu_indices_from(X, 1),
        *n.diag_indices(3), *n.diag_indices_from(n.ones((2, 2, 2))), *n.mask_indices(3, n.triu),
    ),
    "ix_": lambda n: n.ix_(n.asarray([1, 2]), n.asarray([0, 3, 4])),
    "grids": lambda n: (n.mgrid[0:3, 1:2:3j], *n.ogrid[0:3, 0:2]),
    "ravel_multi_index": lambda n: (
        n.ravel_multi_index(([1, 2], [0, 3]), (3, 4)), n.ravel_multi_index(([1, 2], [0, 3]), (3, 4), order="F"),
        n.ravel_multi_index(([4, -1], [9, 3]), (3, 4), mode=("wrap", "clip")),
    ),
    "unravel_index": lambda n: (
        *n.unravel_index(n.asarray([3, 7, 11]), (3, 4)), *n.unravel_index(n.asarray([[3], [7]]), (3, 4), order="F"),
    ),
    "windows": lambda n: (n.bartlett(5), n.blackman(4), n.hamming(6), n.hanning(1), n.kaiser(5, 2.0)),
    "array_equal": lambda n: tuple(bool(one) for one in (
        n.array_equal(X, X), n.array_equal(X, X[0]), n.array_equal([math.nan], [math.nan]),
        n.array_equal([math.nan], [math.nan], equal_nan=True), n.array_equiv(n.ones((2, 3)), n.ones(3)),
        n.array_equiv(n.ones((2, 3)), n.ones(2)), n.allclose(X, X + 1e-9), n.allclose(X, X + 1e-3),
        n.allclose([math.nan], [math.nan]), n.allclose([math.nan], [math.nan], equal_nan=True), n.array_equal([], []),
    )),
    "kinds": lambda n: (
        n.iscomplex(n.asarray([1j, 2])), n.isreal(n.asarray([1j, 2])), n.iscomplex(X), n.isposinf(V), n.isneginf(-V),
        n.iscomplexobj(X), n.isrealobj(X), n.ndim(X), n.shape(X), n.size(X, 1), n.isscalar(3), n.isscalar([3]),
    ),
    "angle": lambda n: (n.angle(n.asarray([1j, -1, 1 + 1j, 0])), n.angle(n.asarray([1j, -1]), deg=True), n.angle(-V)),
    "bits": lambda n: n.bitwise_count(n.asarray([-7, 0, 255, -128], dtype=n.int16)),
    "gcd": lambda n: (n.gcd(n.asarray([12, -18, 0, 0]), n.asarray([8, 27, 5, 0])), n.lcm(n.asarray([12, -18, 0]), 8)),
    "histogram2d": lambda n: n.histogram2d(V[:5], V[:5] ** 2, bins=3),
    "histogram2d with edges": lambda n: n.histogram2d(
        V[:5], V[:5], bins=[n.asarray([-3.0, 0, 5, 8]), 2], weights=n.asarray(V[:5]), density=True),
    "histogram with limits that are arrays": lambda n: n.histogram(
        V[:5], 3, range=(n.min(n.asarray(V[:5])), n.asarray(9))),
    "polynomials": lambda n: n.polydiv(n.asarray([3.0, 5.0, 2.0]), n.asarray([2.0, 1.0])),
    "tensors": lambda n: (
        n.linalg.tensorsolve(n.eye(6).reshape(2, 3, 6) * 2, n.ones((2, 3))),
        n.linalg.tensorinv(n.eye(24).reshape(4, 6, 8, 3) * 2, ind=2),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_numpy_has_it(name: str) -> None:
    case = CASES[name]
    found, wanted = _flat(case(np)), _flat(case(numpy))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        agree(one, other, rtol=1e-12, same_type=isinstance(one, np.Array))


def _flat(value: Any) -> list[Any]:
    return [one for part in value for one in _flat(part)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_of_floats(dtype: str) -> None:
    info = numpy.finfo(dtype)
    edges = numpy.array([info.tiny, info.smallest_subnormal, -info.max, 1.0, -0.75, 3e-40], dtype)
    x = numpy.concatenate([sample(dtype, (40,)), edges])
    with numpy.errstate(all="ignore"):
        agree(np.modf(x), numpy.modf(x))
        fraction, exponent = np.frexp(x)
        wanted = numpy.frexp(x)
        finite = numpy.isfinite(x)
        agree(fraction, wanted[0])
        agree(numpy.asarray(exponent)[finite], wanted[1][finite])
        agree(np.spacing(x), numpy.spacing(x))
        powers = numpy.resize([0, 1, -1, 40, -40, 130, -150, 1100, -1100, 100000, -100000], x.shape)
        agree(np.ldexp(x, powers), numpy.ldexp(x, powers))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "bool"])
def test_orders(dtype: str, shape: tuple[int, ...]) -> None:
    x = sample(dtype, shape).astype(dtype_of(dtype))
    for axis in (-1, None) if x.size else (-1,):
        size = x.size if axis is None else x.shape[axis]
        if not size:
            continue
        kth = size // 2
        found = numpy.asarray(np.partition(x, kth, axis=axis))
        wanted = numpy.sort(x, axis=axis)
        agree(found, wanted)
        places = numpy.asarray(np.argpartition(x, kth, axis=axis))
        agree(numpy.take_along_axis(x.ravel() if axis is None else x, places, axis=-1), wanted)
    agree(np.array_equal(x, x), numpy.asarray(numpy.array_equal(x, x)))


@pytest.mark.parametrize("method", ["inverted_cdf", "averaged_inverted_cdf", "closest_observation", "hazen", "linear"])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_quantiles_that_are_steps(method: str, size: int) -> None:
    x = numpy.random.default_rng(size).permutation(size).astype(numpy.float64)
    shares = numpy.linspace(0, 1, 17)
    agree(np.quantile(x, shares, method=method), numpy.quantile(x, shares, method=method), rtol=1e-12)
    held = numpy.array([[1.0, math.nan, 3.0, 2.0], [4.0, 1.0, 0.0, 2.0]])
    agree(np.nanquantile(held, 0.5, axis=1, method=method), numpy.nanquantile(held, 0.5, axis=1, method=method))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 4, 4), (0, 0), (0, 3, 3)])
def test_eigenvalues_of_any_matrix(dtype: str, shape: tuple[int, ...]) -> None:
    a = numpy.random.default_rng(0).normal(size=shape).astype(dtype)
    if dtype.startswith("complex"):
        a = a + 1j * numpy.random.default_rng(1).normal(size=shape).astype(dtype)
    values, vectors = (numpy.asarray(one) for one in hlotool.jit(np.linalg.eig)(a))
    assert values.dtype == vectors.dtype == numpy.result_type(a.dtype, numpy.complex64)
    tolerance = 1e-4 if a.dtype.itemsize <= 8 and dtype != "float64" else 1e-10
    numpy.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], atol=tolerance)
    wanted = numpy.sort_complex(numpy.linalg.eigvals(a).astype(values.dtype))
    numpy.testing.assert_allclose(numpy.sort_complex(numpy.asarray(np.linalg.eigvals(a))), wanted, atol=tolerance)


def test_roots() -> None:
    for p in ([1, -6, 11, -6], [0, 0, 2, 0, -8, 0, 0], [5], [0, 0], [1, 2j, -1]):
        found = numpy.sort_complex(numpy.asarray(np.roots(p)))
        numpy.testing.assert_allclose(found, numpy.sort_complex(numpy.roots(p)), atol=1e-6)
    found = numpy.sort_complex(numpy.asarray(hlotool.jit(np.roots)(numpy.array([1.0, -3.0, 2.0]))))
    numpy.testing.assert_allclose(found, [1, 2], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hlotool.jit(lambda x: np.compress(x > 0, x))(numpy.ones(3)), "compress needs the value"),
        (lambda: hlotool.jit(np.trim_zeros)(numpy.ones(3)), "trim_zeros needs the value"),
        (lambda: hlotool.jit(lambda x, n: np.insert(x, n, 1.0))(numpy.ones(3), 1), "insert needs the value"),
        (lambda: hlotool.jit(lambda x: np.choose(x, [1, 2]))(numpy.array([0])), "choose with mode='raise' needs"),
        (lambda: hlotool.jit(np.polydiv)(numpy.ones(3), numpy.ones(2)), "polydiv needs the value"),
        (lambda: np.choose([2], [1, 2]), "a number beyond them"),
        (lambda: np.unravel_index([12], (3, 4)), "out of bounds"),
        (lambda: np.ravel_multi_index(([3], [0]), (3, 4)), "out of bounds"),
        (lambda: np.insert(K, 9, 1), "out of bounds for 5 elements"),
        (lambda: np.select([K], [K]), "conditions are arrays of bools"),
        (lambda: np.quantile(V, 0.5, method="best"), "is not known"),
        (lambda: np.gcd(X, X), "gcd is for integers"),
        (lambda: np.lexsort(()), "one key at least"),
    ],
)
def test_bad_use_is_refused_with_the_place(call: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=says) as caught:
        call()
    assert HERE in str(caught.value)
