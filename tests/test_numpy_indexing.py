"""Indices against NumPy: reading and writing, at once and under jit."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np

X = numpy.arange(2 * 3 * 4 * 5, dtype=numpy.float64).reshape(2, 3, 4, 5)
P, Q = numpy.array([0, 1, -1]), numpy.array([[2], [-3]])

KEYS: list[Any] = [
    0, -1, (1, 2), (1, 2, 3, 4), ..., (..., 0), (0, ..., -1), None, (None, 0, None), slice(None), slice(1, None),
    (slice(None), slice(0, 2), slice(3, 0, -1)), (slice(None, None, -2), slice(5, 2)), (slice(None), slice(None, -1)),
    P, (P,), (slice(None), P), (slice(None), slice(None), Q, P), (P, slice(None), P), (0, slice(None), P),
    (slice(None), 0, P), (slice(None), P, 0, slice(1, 3)), (P, None, slice(None)), (P, P, P, P), (P, Q, ..., 2),
    (..., Q), (slice(1), None, P, ..., None), [0, 1], (slice(None), [2, 0]), X[:, :, 0, 0] > 30, X > 50,
    (slice(None), numpy.array([True, False, True])), numpy.array([], int), (), (numpy.int64(1), 2),
    (slice(None), P, slice(None, None, 2), slice(-1, 0, -3)), (slice(1), slice(None), slice(3, 1, -1), Q),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_reading(key: Any) -> None:
    agree(np.asarray(X)[key], X[key])
    agree(hlotool.jit(lambda x: x[key])(X), X[key])


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
@pytest.mark.parametrize("how", ["set", "add", "min"])
def test_writing(key: Any, how: str) -> None:
    values = numpy.asarray(X[key] * 2 - 60)
    wanted = X.copy()
    if how == "set":
        wanted[key] = values
    else:
        (numpy.add if how == "add" else numpy.minimum).at(wanted, key, values)
    array = np.asarray(X)
    if how == "set" and values.size:  # of an index that occurs twice, any of the values
        agree(getattr(array.at[key], how)(values), wanted)
    agree(hlotool.jit(lambda x, v: getattr(x.at[key], how)(v))(X, values), wanted)


def test_the_array_stays_as_it_was() -> None:
    x = np.asarray([1.0, 2.0])
    y = x.at[0].set(5)
    assert (x.tolist(), y.tolist()) == ([1, 2], [5, 2])


def test_traced_indices() -> None:
    @hlotool.jit
    def both(x: Any, i: Any, v: Any) -> Any:
        return x[i], x.at[i].set(v), x.at[i].add(v), x.at[i, 1].multiply(v)

    x = numpy.arange(12.0).reshape(4, 3)
    for i in (0, 3, -1, numpy.array([1, 1, 2])):
        read, written, added, times = both(x, i, 10.0)
        agree(read, x[i])
        for found, how in ((written, "set"), (added, numpy.add.at)):
            wanted = x.copy()
            if how == "set":
                wanted[i] = 10
            else:
                numpy.add.at(wanted, i, 10)
            agree(found, wanted)
        wanted = x.copy()
        numpy.multiply.at(wanted, (i, 1), 10)
        agree(times, wanted)


def test_what_is_written_out_of_bounds_is_dropped() -> None:
    x = numpy.arange(3.0)
    found = hlotool.jit(lambda x, i: x.at[i].set(9.0))(x, numpy.array([7, 1, -9]))
    agree(found, [0.0, 9.0, 2.0])
    far = hlotool.jit(lambda x, i: x.at[i].set(9.0))(x, numpy.array([2**32, 1, -(2**32)]))
    agree(far, [0.0, 9.0, 2.0])


@pytest.mark.parametrize(
    ("key", "says"),
    [(5, "index 5 is out of bounds for axis 0 with size 2"), ((0,) * 5, "too many indices"), ("a", "is no index"),
     (numpy.array([9]), "index 9 is out of bounds"), (1.5, "is no index"), ((..., ...), "single ellipsis")],
)  # fmt: skip
def test_wrong_indices(key: Any, says: str) -> None:
    with pytest.raises(IndexError, match=says):
        np.asarray(X)[key]


def test_masks_under_jit() -> None:
    x = numpy.array([1.0, -2.0, 3.0])
    agree(hlotool.jit(lambda x: x.at[x < 0].set(0))(x), [1.0, 0.0, 3.0])
    with pytest.raises(TypeError, match=r"test_numpy_indexing.py:\d+: an index that is a mask needs the value"):
        hlotool.jit(lambda x: x[x < 0])(x)


def test_take() -> None:
    for axis in range(4):
        agree(np.take(X, P, axis=axis), numpy.take(X, P, axis=axis))
        order = numpy.argsort(-X, axis=axis)
        agree(np.take_along_axis(X, order, axis=axis), numpy.take_along_axis(X, order, axis=axis))
    agree(np.take(X, Q), numpy.take(X, Q))
    agree(np.take(X, 1, axis=2), numpy.take(X, 1, axis=2))
    agree(np.dynamic_slice(X, (0, 1, 2, 9), (1, 2, 2, 2)), X[0:1, 1:3, 2:4, 3:5])
