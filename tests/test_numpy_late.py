"""jit(dynamic=...) and jit(bucket=...): one program for many sizes gives what NumPy gives for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_cases import agree

import hlotool
import hlotool.numpy as np

HERE = "test_numpy_late.py:"
BOUND = 9


def _softmax(n: Any, x: Any, axis: int) -> Any:
    e = n.exp(x - n.max(x, axis=axis, keepdims=True))
    return e / n.sum(e, axis=axis, keepdims=True)


CASES: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    # name: how many programs sizes 2 and more, 1, and 0 take together; the function of a namespace and an array
    "elementwise": (1, lambda n, x: n.tanh(x) * 2 + x),
    "mean": (1, lambda n, x: (n.mean(x, axis=0), n.sum(x, axis=1), n.mean(x, axis=1), n.sum(x))),
    "var": (2, lambda n, x: n.var(x, axis=0)),
    "softmax": (2, lambda n, x: _softmax(n, x, 0)),
    "softmax of rows": (1, lambda n, x: _softmax(n, x, 1)),
    "sort": (1, lambda n, x: (n.sort(x, axis=0), n.argsort(x[:, 0]))),
    "argmax": (1, lambda n, x: (n.argmax(x, axis=0), n.argmin(x, axis=0))),
    "cumulative": (1, lambda n, x: (n.cumsum(x, axis=0), n.cumprod(x, axis=0))),
    "products": (1, lambda n, x: (x @ x.T, x.T @ x, x @ n.ones((4, 3)))),
    "slices": (1, lambda n, x: (x[1:], x[::2], x[::-1], x[:3], x[1:5], x[-3:], n.diff(x, axis=0))),
    "joined": (1, lambda n, x: n.concatenate([x, n.ones((2, 4)), x[:1]])),
    "shapes": (1, lambda n, x: (x.reshape(-1), x.T.reshape(-1), x.reshape(2, -1, 2))),
    "counted": (1, lambda n, x: x + n.arange(x.shape[0])[:, None] / 7),
    "counted by NumPy": (1, lambda n, x: x + numpy.arange(x.shape[0])[:, None]),
    "pad": (1, lambda n, x: n.pad(x, ((1, 2), (0, 0)))),
    "where": (1, lambda n, x: n.where(x > 0, x, n.sum(x))),
    "size": (1, lambda n, x: x * x.shape[0] + x.size),
    "last": (2, lambda n, x: x[-1]),
    "roll": (2, lambda n, x: n.roll(x, 1, axis=0)),
    "median": (2, lambda n, x: n.median(x, axis=0)),
    "norm": (2, lambda n, x: (x - n.mean(x, axis=0)) / (n.std(x, axis=0) + 1)),
    "taken": (1, lambda n, x: x[n.asarray(numpy.array([0, 1, 0]))]),
}


def _result(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (ValueError, IndexError) as error:
        return error


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", [range(BOUND, -1, -1), range(BOUND + 1)], ids=["down", "up"])
def test_every_size_is_as_numpy_has_it(name: str, order: range) -> None:
    programs, body = CASES[name]
    function = hlotool.jit(lambda x: body(np, x), dynamic={"x": {0: BOUND}})
    rng = numpy.random.default_rng(0)
    for size in order:
        x = rng.normal(size=(size, 4))
        with numpy.errstate(all="ignore"):
            wanted = _result(lambda x=x: body(numpy, x))
        if isinstance(wanted, Exception) or (size == 0 and name == "median"):
            continue
        agree(function(x), wanted, rtol=1e-10, same_type=name != "argmax")
    assert function.compilations <= programs, hlotool.explain_last()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_two_axes_of_two_arguments(data: st.DataObject) -> None:
    size, other = data.draw(st.integers(2, 8)), data.draw(st.integers(2, 6))
    rng = numpy.random.default_rng(size * 10 + other)
    x, y = rng.normal(size=(size, 3)), rng.normal(size=(3, other))
    agree(_TWO(x, y), (x @ y, (x @ y).sum(), numpy.concatenate([x.ravel(), y.ravel()])), rtol=1e-10)
    assert _TWO.compilations == 1


_TWO = hlotool.jit(
    lambda x, y: (x @ y, (x @ y).sum(), np.concatenate([x.reshape(-1), y.reshape(-1)])),
    dynamic={"x": {0: 8}, "y": {1: 6}},
)


def test_sizes_that_must_be_equal() -> None:
    function = hlotool.jit(lambda a, b: (a + b["w"]).sum(axis=0), dynamic={"a": {0: 8}, "b": {0: 8}})
    for size in (3, 8, 2, 5):
        a, b = numpy.arange(2.0 * size).reshape(size, 2), numpy.ones((size, 2))
        agree(function(a, {"w": b}), (a + b).sum(0))
    assert function.compilations == 1
    with pytest.raises(ValueError, match=rf"{HERE}.*cannot be broadcast"):
        function(numpy.ones((3, 2)), {"w": numpy.ones((4, 2))})


def test_loops_and_branches() -> None:
    def body(x: Any, k: Any) -> Any:
        def step(state: Any) -> Any:
            n, one = state
            return n + 1, one - one.mean(axis=0) + np.cumsum(one, axis=0) / one.shape[0]

        looped = hlotool.while_loop(lambda state: state[0] < k, step, (0, x))[1]
        chosen = hlotool.cond(k > 2, lambda y: y.sum() + y.shape[0], lambda y: y.max() * y.shape[0], looped)
        carry, rows = hlotool.scan(lambda c, row: (c + row.sum(), c * row), 0.5, looped)
        return looped, chosen, carry, rows

    late, plain = hlotool.jit(body, dynamic={"x": {0: 8}}), hlotool.jit(body)
    for size in (8, 3, 5, 2):
        x = numpy.random.default_rng(size).normal(size=(size, 3))
        for k in (1, 4):
            agree(late(x, k), tuple(map(numpy.asarray, plain(x, k))), rtol=1e-10)
    assert late.compilations == 1


def test_buckets() -> None:
    function = hlotool.jit(lambda x: x.mean(), bucket={"x": {0: (4, 16)}})
    for size in (3, 4, 2, 16, 5, 9):
        agree(function(numpy.arange(float(size))), numpy.arange(float(size)).mean())
    assert function.compilations == 2
    powers = hlotool.jit(lambda x: np.sort(x)[::-1], bucket={0: {-1: "powers of two"}})
    for size in (3, 4, 7, 8, 5):
        agree(powers(numpy.arange(float(size))), numpy.arange(float(size))[::-1])
    assert powers.compilations == 2
    assert "argument 0 was float64[4] and is float64[8]" in hlotool.explain_last()
    with pytest.raises(ValueError, match=rf"{HERE}.*has 17 elements along axis 0, and the bound is 16"):
        function(numpy.ones(17))


def test_why_a_size_has_a_program_of_its_own() -> None:
    @hlotool.jit(dynamic={"x": {0: 20}})
    def function(x: Any) -> Any:
        if x.shape[0] == 5:
            return x.sum() * 100
        return x.sum()

    for size in (8, 5, 4, 5):
        agree(function(numpy.ones(size)), size * (100.0 if size == 5 else 1.0))
    assert function.compilations == 2
    assert "sizes 5 (argument 'x', axis 0) have a program of their own" in hlotool.explain_last()
    assert HERE in hlotool.explain_last()


def test_values_closed_over_are_read_anew() -> None:
    scale = numpy.ones(2)
    function = hlotool.jit(lambda x: (x * scale).sum(axis=0), dynamic={"x": {0: 8}})
    agree(function(numpy.ones((3, 2))), [3.0, 3.0])
    scale[:] = 5
    agree(function(numpy.ones((3, 2))), [15.0, 15.0])
    agree(function(numpy.ones((4, 2))), [20.0, 20.0])
    assert function.compilations == 1


def test_under_gradients_and_other_functions() -> None:
    loss = hlotool.jit(hlotool.value_and_grad(lambda w, x: ((x @ w) ** 2).mean()), dynamic={"x": {0: 16}})
    inner = hlotool.jit(lambda x: x.sum(), dynamic={"x": {0: 16}})
    outer = hlotool.jit(lambda x: inner(x) + 1)
    for size in (16, 3, 7):
        x, w = numpy.random.default_rng(size).normal(size=(size, 3)), numpy.arange(3.0)
        value, gradient = loss(w, x)
        agree(value, ((x @ w) ** 2).mean(), rtol=1e-10)
        agree(gradient, 2 * x.T @ (x @ w) / size, rtol=1e-10)
        agree(outer(x), x.sum() + 1, rtol=1e-10)
    assert loss.compilations == 1


def _rows(x: Any) -> Any:
    total = x[0]
    for n in range(1, x.shape[0]):
        total = total + x[n]  # a line for each row
    return total


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hlotool.jit(_rows, dynamic={"x": {0: 8}})(numpy.ones((4, 2))),
         r"_rows cannot be compiled once for all sizes of axis 0 of argument 'x': .*test_numpy_late.py:\d+: "),
        (lambda: hlotool.jit(np.fft.fft, dynamic={0: {0: 8}})(numpy.ones(4)), "fft along a dimension"),
        (lambda: hlotool.jit(np.linalg.eigvalsh, dynamic={0: {0: 8}})(numpy.ones((4, 3, 3))), "custom-call lapack"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"y": {0: 8}}), "there is no argument 'y'"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"x": 8}), "expected {argument: {axis: size}}"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"x": {0: (4, 8)}}), "is no size"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"x": {0: 0}}), "sizes are between 1 and"),
        (lambda: hlotool.jit(lambda x: x, bucket={"x": {0: "many"}}), "is no size"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"x": {0: 8}}, donate_argnums=0), "donate_argnums cannot go with"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"x": {1: 8}})(numpy.ones(3)), "has 1 dimensions, and no axis 1"),
        (lambda: hlotool.jit(lambda x: x, dynamic={"x": {0: 8}})(3.0), "is a number, and has no axes"),
        (lambda: hlotool.jit(lambda x: x + numpy.ones(4), dynamic={"x": {0: 8}})(numpy.ones(4)), "be broadcast"),
        (lambda: hlotool.jit(lambda x: np.zeros(8 - x.shape[0]), dynamic={"x": {0: 8}})(numpy.ones(4)),
         "larger than at the bounds"),
    ],
)  # fmt: skip
def test_bad_use_is_refused_with_the_place(call: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        call()
    assert HERE in str(caught.value), str(caught.value)


def test_calls_like_earlier_ones_are_told_apart_from_others() -> None:
    scale = np.asarray([2.0])

    @hlotool.jit(dynamic={"x": {0: 8}})
    def scaled(x: Any, y: Any = 1.0) -> Any:
        return x * y * scale

    x = numpy.arange(5.0)
    for _ in range(2):
        agree(scaled(x, y=numpy.full(1, 3.0)), x * 6)  # what is given by name is not forgotten
        agree(scaled(x), x * 2)
        agree(scaled(x, numpy.full(1, 4.0)), x * 8)
        agree(scaled(x.astype(numpy.float32)), x * 2)
        agree(scaled(x[:3]), x[:3] * 2)
    scale[0] = 10.0
    agree(scaled(x), x * 10)
    count = scaled.compilations
    scale[0] = 11.0
    agree(scaled(x), x * 11)
    assert scaled.compilations == count
