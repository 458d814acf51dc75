"""x[index] = value: an array gets another value, and so do those that share elements with it, as in NumPy."""

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
        "deepcopy": copy.deepcopy(first), "reshape": np.reshape(first, (3,), copy=True), "flatten": first.flatten(),
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


PARTS: list[Callable[[Any, Any], Any]] = [
    lambda n, x: x[0], lambda n, x: x[1:][0], lambda n, x: x[:, ::-1, 1], lambda n, x: x.T, lambda n, x: x.mT,
    lambda n, x: x[..., None], lambda n, x: next(iter(x)), lambda n, x: n.reshape(x, (4, 6)), lambda n, x: n.ravel(x),
    lambda n, x: n.flip(x), lambda n, x: n.moveaxis(x, 0, 1), lambda n, x: n.expand_dims(x, axis=1)[0],
    lambda n, x: n.unstack(x, axis=2)[1] if hasattr(n, "unstack") else x[..., 1], lambda n, x: x.real,
    lambda n, x: n.split(x, 2, axis=2)[1], lambda n, x: n.swapaxes(x, 0, 2)[1], lambda n, x: n.rot90(x),
    lambda n, x: n.reshape(x.T, (-1,)), lambda n, x: x[[1, 0]], lambda n, x: x[x > 5], lambda n, x: n.atleast_3d(x)[1],
    lambda n, x: n.squeeze(x[:1]), lambda n, x: n.fliplr(x)[0], lambda n, x: n.reshape(x, (6, 4), order="F"),
    lambda n, x: n.reshape(x.T, (6, 4), order="F"), lambda n, x: n.reshape(n.transpose(x, (1, 0, 2)), (6, 4)),
]  # fmt: skip


def test_parts_of_an_array_that_nobody_has_share_their_elements() -> None:
    for kind in ("float32", "bfloat16", "complex64"):
        x = np.arange(6).astype(getattr(np, kind))
        first, last, turned = x[:4], x[2:], np.reshape(x, (2, 3)).T
        del x
        first[3] = 9
        last[1:][1] = 8
        agree(first, numpy.array([0, 1, 2, 9]).astype(first.dtype))
        agree(last, numpy.array([2, 9, 8, 5]).astype(first.dtype))
        agree(turned, numpy.array([[0, 9], [1, 8], [2, 5]]).astype(first.dtype))


def test_parts_of_parts_are_found_in_one_step() -> None:
    x = np.arange(600)
    part = x
    while part.size > 1:
        part = part[1:] if part.size % 2 else part[::-1][:-1]
    part[0] = -1
    wanted = numpy.arange(600)
    wanted[numpy.asarray(x) == -1] = -1
    assert (numpy.asarray(x) == -1).sum() == 1
    agree(x, wanted)


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_parts_share_their_elements_as_in_numpy(number: int) -> None:
    def program(n: Any) -> list[Any]:
        x = n.asarray(X.copy())
        part, other = PARTS[number](n, x), x[1]
        found = []
        for step in range(5):
            if step == 0:
                part[0] = 50
            elif step == 1:
                part += 3
            elif step == 2:
                x[0, 0] = -9
                x[1][2] = 11
            elif step == 3:
                other *= 2
            else:
                x[1] += n.asarray(1)
            found += [numpy.array(one) for one in (x, part, other)]
        del x
        part[-1] = 77  # of an array that nobody has any more
        return [*found, numpy.array(part)]

    for one, wanted in zip(program(np), program(numpy), strict=True):
        agree(one, wanted)


def test_parts_of_what_is_changed_in_place() -> None:
    complex_numbers = np.ones(3, dtype=np.complex64)
    complex_numbers.imag[1:] = 5
    agree(complex_numbers, numpy.array([1, 1 + 5j, 1 + 5j], numpy.complex64))
    whole = np.asarray([1, 2, 3])
    part = whole[1:]
    with pytest.raises(TypeError, match="the result is float64, which an array of int64 cannot hold"):
        part += 0.5
    function = hlotool.jit(lambda x: x * part)
    for value in (5, 7):
        whole[2] = value
        agree(function(np.asarray([1, 1])), numpy.array([2, value]))


def test_what_cannot_be_written_through_is_refused() -> None:
    array = np.zeros((2, 2))
    for part in (lambda: np.broadcast_to(array, (3, 2, 2)), lambda: np.diagonal(array)):
        with pytest.raises(TypeError, match=r"test_numpy_assignment.py:\d+: this array is a part of another one.*\nh"):
            part()[0] = 1

    def function(x: Any) -> Any:
        made = x + 1
        made[0][1] = 5
        return made

    with pytest.raises(TypeError, match=r"test_numpy_assignment.py:\d+: this array is a part of another one"):
        hlotool.jit(function)(array)


def test_parts_that_are_gone_take_no_memory() -> None:
    array = np.zeros((4, 3))
    for _ in range(1000):
        array[1][2] = 3
    assert len(array._ties.parts) < 100  # type: ignore[union-attr] # it has some


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
