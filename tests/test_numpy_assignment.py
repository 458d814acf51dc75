"""x[index] = value: an array gets another value, and no other array changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np

X = numpy.arange(24.0).reshape(2, 3, 4)
MASK = X % 3 == 1
KEYS: list[Any] = [
    1, -1, (0, 2), (0, 2, 3), slice(None), (slice(None), 1), (slice(None, None, -2), slice(1, 3)), ..., (..., 2), None,
    (1, None), [1, 0, 1], (slice(None), [0, 2]), ([0, 1], [2, 2], [3, 0]), MASK, (0, MASK[0]), numpy.array(1),
    (numpy.array([1]), slice(None), 2), slice(5, 9), [],
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_elements_are_as_numpy_has_them(key: Any) -> None:
    for value in (7, 2.5, -X[key]):
        wanted = X.copy()
        wanted[key] = value
        array = np.asarray(X)
        array[key] = value
        agree(array, wanted)

        def assigned(x: Any, value: Any, key: Any = key) -> Any:
            made = x.copy()
            made[key] = value
            return x, made

        before, after = hlotool.jit(assigned)(X, value)
        agree(before, X)
        agree(after, wanted)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float32", "complex128", "bfloat16"])
def test_the_type_stays(dtype: str) -> None:
    array = np.zeros(3, getattr(np, dtype))
    array[1] = True
    array[2] = np.asarray(1, getattr(np, dtype))
    assert array.dtype == np.dtype(getattr(np, dtype))
    agree(array, numpy.array([0, 1, 1]).astype(array.dtype))


def test_other_arrays_stay_as_they_were() -> None:
    held = numpy.arange(3.0)
    first = np.asarray(held, copy=False)
    others = {
        "copy": first.copy(), "asarray": np.asarray(first, copy=True), "array": np.array(first),
        "astype": np.astype(first, first.dtype), "positive": +first, "copy.copy": copy.copy(first),
        "deepcopy": copy.deepcopy(first), "reshape": np.reshape(first, (3,), copy=True), "row": first[...],
        "numpy": held, "view": numpy.asarray(first), "traced": hlotool.jit(lambda x: x)(first),
    }  # fmt: skip
    same = first
    first[0] = 9
    first[1] = 8  # the memory is its own now
    later = first.copy()
    first[2] = 7
    assert same.tolist() == [9, 8, 7]
    assert later.tolist() == [9, 8, 2]
    for name, one in others.items():
        assert one.tolist() == [0, 1, 2], name
    second = others["asarray"]
    second[0] = 5
    assert (first.tolist(), held.tolist()) == ([9, 8, 7], [0, 1, 2])


def test_parts_of_arrays_that_are_there_are_refused() -> None:
    array = np.zeros((2, 2))
    parts = (
        lambda: array[0], lambda: array.T, lambda: array.real, lambda: array[:1][0], lambda: next(iter(array)),
        lambda: np.reshape(array, (4,)), lambda: array.reshape(4), lambda: np.moveaxis(array, 0, 1),
        lambda: np.flip(array), lambda: np.unstack(array)[1], lambda: numpy.ravel(array),
        lambda: np.split(np.expand_dims(array, 0), 2, axis=1)[0],
    )  # fmt: skip
    for part in parts:
        with pytest.raises(TypeError, match=r"test_numpy_assignment.py:\d+: this array is a part of another one.*\nh"):
            part()[0] = 1
    row = np.zeros((2, 2))[0]  # of an array that nobody has
    row[1] = 3
    assert row.tolist() == [0, 3]
    assert array.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("key", "value", "error"), [(5, 1, IndexError), ((0, 0, 0, 0), 1, IndexError), (0.5, 1, IndexError),
                                (0, [1, 2, 3], ValueError), ("a", 1, IndexError), (0, "a", ValueError)], ids=str,
)  # fmt: skip
def test_bad_ones_are_refused(key: Any, value: Any, error: type[Exception]) -> None:
    array = np.asarray(X)
    with pytest.raises(error, match=r"test_numpy_assignment.py:\d+: "):
        array[key] = value
    agree(array, X)


def test_arrays_of_traced_functions() -> None:
    def function(x: Any, i: Any) -> Any:
        zeros, listed, scaled = np.zeros(4), np.asarray([1, 2, 3]), x * 2
        zeros[i] = x[0]
        zeros[-1] = 5
        listed[0] = 9.7
        scaled[x > 1] = 0
        kept = scaled
        scaled[0] = -1

        def body(n: Any, carry: Any) -> Any:
            carry[n] = n
            return carry

        return zeros, listed, kept, hlotool.fori_loop(0, 3, body, x)

    x = numpy.arange(4.0)
    found = hlotool.jit(function)(x, 1)
    for one, wanted in zip(found, ([0, 0, 0, 5.0], [9, 2, 3], [-1, 2.0, 0, 0], [0, 1, 2, 3.0]), strict=True):
        agree(one, numpy.asarray(wanted))


OUTSIDE = np.zeros(2)


def _closed_over(x: Any) -> Any:
    OUTSIDE[0] = x[0]
    return x


def _from_around_a_loop(x: Any) -> Any:
    made = x + 1

    def body(n: Any, carry: Any) -> Any:
        made[0] = n
        return carry

    return hlotool.fori_loop(0, 3, body, x)


def _constant_from_around_a_loop(x: Any) -> Any:
    made = np.asarray([1.0, 2.0])

    def body(n: Any, carry: Any) -> Any:
        made[0] = n
        return carry

    return hlotool.fori_loop(0, 3, body, x), made


def _argument(x: Any) -> Any:
    x[0] = 1
    return x


def _fails(x: Any) -> Any:
    OUTSIDE[0] = x[0]
    return np.reshape(x, (7,))


@pytest.mark.parametrize(
    "function", [_closed_over, _from_around_a_loop, _constant_from_around_a_loop, _argument, _fails]
)
def test_what_a_traced_function_cannot_change(function: Callable[..., Any]) -> None:
    says = r"(?s)test_numpy_assignment.py:\d+: .*(assigned to.*hint|cannot have the shape)"
    with pytest.raises((TypeError, ValueError), match=says):
        hlotool.jit(function)(np.ones(2))
    assert OUTSIDE.tolist() == [0, 0]


def test_what_a_function_reads_counts() -> None:
    weights = np.asarray([1.0, 2.0])
    jitted = hlotool.jit(lambda x: x * weights)
    gradient = hlotool.jit(hlotool.grad(lambda x: np.sum(x * weights)))
    late = hlotool.jit(lambda x: x * weights[0], dynamic={"x": {0: 8}})
    x = np.ones(2)
    for value in (1.0, 5.0, 7.0):
        weights[0] = value
        for _ in range(2):
            agree(jitted(x), numpy.array([value, 2]))
            agree(gradient(x), numpy.array([value, 2]))
            agree(late(x), numpy.array([value, value]))
    assert jitted.compilations == 1  # it was assigned to before
    fresh = np.asarray([1.0, 2.0])
    other = hlotool.jit(lambda x: x * fresh)
    counts = []
    for value in (1.0, 5.0, 7.0):
        agree(other(x), numpy.asarray(fresh))
        counts.append(other.compilations)
        fresh[0] = value
    assert counts == [1, 2, 2]
    assert "an array that the function reads was assigned to" in hlotool.explain_last()


def test_memory_of_its_own_is_written_in_place() -> None:
    array = np.zeros(3)
    array[0] = 1

    def place() -> int:
        return int(array._value.__array_interface__["data"][0])

    before = place()
    array[1] = 2
    assert place() == before
    view = numpy.asarray(array)
    array[2] = 3
    assert place() != before
    assert view.tolist() == [1, 2, 0]
