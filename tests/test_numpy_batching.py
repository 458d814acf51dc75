"""``hlotool.vmap``: what a function does for one example, for many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
import pytest

import hlotool
import hlotool.numpy as np
from hlotool.ir import UnsupportedError

GENERATOR = numpy.random.default_rng(3)


def some(*sizes: int) -> Any:
    return GENERATOR.normal(size=sizes).astype(numpy.float32)


def close(found: Any, wanted: Any) -> None:
    numpy.testing.assert_allclose(numpy.asarray(found), wanted, rtol=1e-5, atol=1e-5)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Layer:
    weights: Any
    bias: Any


FUNCTIONS: list[tuple[str, Callable[..., Any], tuple[Any, ...], Any]] = [
    ("elementwise", lambda x, y: np.sin(x) * y + 1, (some(4, 3), some(4, 3)), 0),
    ("numbers", lambda x: 2 * x, (some(5),), 0),
    ("shared", lambda x, w: np.sum(w * x, axis=1), (some(4, 3), some(2, 3)), (0, None)),
    ("outer", lambda x, y: x[:, None] * y[None, :], (some(4, 2), some(4, 3)), 0),
    ("middle", lambda x: np.sum(x, axis=0) - np.max(x), (some(3, 6, 2),), 1),
    ("last", lambda x, y: np.concat([x, y]), (some(3, 6), some(6, 2)), (-1, 0)),
    ("several", lambda x: (np.min(x), np.flip(x)), (some(4, 7),), 0),
    ("index", lambda x, n: x[n], (some(4, 7), numpy.array([0, 3, -1, 6])), 0),
    ("rows", lambda x, n: np.take(x, n, axis=0), (some(7, 2), numpy.array([[0, 3], [1, 6]])), (None, 0)),
    ("where", lambda x: np.where(x > 0, x, x * x), (some(4, 3),), 0),
    ("cumulative", lambda x: np.cumulative_sum(x), (some(4, 3),), 0),
    ("types", lambda x: np.astype(x, np.int32) // 2, (10 * some(4, 3),), 0),
]


@pytest.mark.parametrize(("name", "function", "arguments", "axes"), FUNCTIONS, ids=[row[0] for row in FUNCTIONS])
def test_many_at_once_are_one_after_the_other(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], axes: Any
) -> None:
    own = axes if isinstance(axes, tuple) else (axes,) * len(arguments)
    count = next(x.shape[a] for x, a in zip(arguments, own, strict=True) if a is not None)
    rows = [
        function(*[x if a is None else np.asarray(numpy.take(x, n, a)) for x, a in zip(arguments, own, strict=True)])
        for n in range(count)
    ]
    for batched in (hlotool.vmap(function, axes), hlotool.jit(hlotool.vmap(function, axes))):
        found = batched(*arguments)
        if not isinstance(found, tuple):
            close(found, numpy.stack([numpy.asarray(row) for row in rows]))
            continue
        for part, *wanted in zip(found, *rows, strict=True):
            close(part, numpy.stack([numpy.asarray(row) for row in wanted]))


def test_batches_of_batches() -> None:
    x, y = some(4, 3), some(5, 3)
    outer = hlotool.vmap(hlotool.vmap(lambda a, b: np.sum(a * b), in_axes=(None, 0)), in_axes=(0, None))
    close(outer(x, y), x @ y.T)
    close(hlotool.jit(outer)(x, y), x @ y.T)
    swapped = hlotool.vmap(hlotool.vmap(lambda a, b: np.sum(a * b), (0, None)), (None, 0), out_axes=1)
    close(swapped(x, y), x @ y.T)


def test_values_of_a_function_around_are_shared() -> None:
    x, w = some(4, 3), some(3)
    found = hlotool.vmap(lambda a: hlotool.vmap(lambda b: np.sum(a) * b * w)(np.asarray(x)))(x)
    close(found, x.sum(1)[:, None, None] * x[None] * w)


def test_containers() -> None:
    x, w = some(4, 3), some(3, 4)

    def function(data: dict[str, Any], pair: Pair, layer: Layer, *, scale: Any) -> Any:
        total = np.sum(data["x"][:, None] * layer.weights, axis=0) + layer.bias
        return {"total": scale * total, "pair": Pair(pair.second, (pair.first, None))}

    arguments = {"x": x}, Pair(some(4), [some(2, 4)]), Layer(w, some(4))
    batched = hlotool.vmap(
        function, in_axes=({"x": 0}, (0, 1), Layer(None, None)), out_axes={"total": 1, "pair": (0, 0)}
    )  # fmt: skip
    found = batched(*arguments, scale=numpy.arange(4, dtype=numpy.float32))
    close(found["total"], (numpy.arange(4)[:, None] * (x @ w + arguments[2].bias)).T)
    assert isinstance(found["pair"], Pair)
    close(found["pair"].first[0], arguments[1].second[0].T)
    assert found["pair"].second[1] is None


def test_results_that_are_the_same_for_all() -> None:
    x, w = some(4, 3), some(3)
    function = lambda a, b: (a + b, np.exp(b))  # noqa: E731
    close(hlotool.vmap(function, (0, None), (0, None))(x, w)[1], numpy.exp(w))
    close(hlotool.vmap(function, (0, None))(x, w)[1], numpy.exp(w)[None].repeat(4, 0))


def test_python_numbers_give_way() -> None:
    found = hlotool.vmap(lambda x, n: x * n, in_axes=(0, None))(some(3).astype(numpy.float16), 2.5)
    assert found.dtype == numpy.float16


def test_it_compiles_once_for_each_kind_of_arguments() -> None:
    calls = []
    batched = hlotool.vmap(lambda x: calls.append(x.shape) or x + 1)
    for count in (3, 3, 4):
        batched(some(count, 2))
    assert calls == [(2,), (2,)]


def test_loops_and_branches_of_each_example() -> None:
    def steps(n: Any) -> Any:
        after = hlotool.while_loop(
            lambda s: s[0] > 1, lambda s: (np.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0)
        )
        return after[1]

    close(hlotool.vmap(steps)(numpy.array([27, 1, 6, 97], numpy.int32)), [111, 0, 8, 118])
    x = some(2, 3)
    found = hlotool.vmap(lambda p, a: hlotool.cond(p, np.sin, lambda b: 2 * b, a))(numpy.array([True, False]), x)
    close(found, [numpy.sin(x[0]), 2 * x[1]])
    total, partial = hlotool.vmap(lambda a: hlotool.scan(lambda c, b: (c + b, c * b), 0.0, a))(x)
    close(total, x.sum(1))
    close(partial, (numpy.cumsum(x, 1) - x) * x)


def test_products() -> None:
    x, w = some(4, 2, 3), some(3, 5)
    close(hlotool.vmap(np.matmul, in_axes=(0, None))(x, w), x @ w)
    close(hlotool.vmap(np.matmul, in_axes=(None, 0))(w.T, x.transpose(0, 2, 1)), w.T @ x.transpose(0, 2, 1))
    close(hlotool.vmap(np.matmul)(x, x.transpose(0, 2, 1)), x @ x.transpose(0, 2, 1))


def test_gradients_of_each_example() -> None:
    if not hasattr(hlotool, "grad"):
        pytest.skip("hlotool.grad is not there")
    x, y, w = some(6, 3), some(6), some(3)
    loss = lambda w, x, y: (np.sum(np.tanh(w) * x) - y) ** 2  # noqa: E731
    found = hlotool.vmap(hlotool.grad(loss), in_axes=(None, 0, 0))(w, x, y)
    wanted = 2 * (x @ numpy.tanh(w) - y)[:, None] * x * (1 - numpy.tanh(w) ** 2)
    close(found, wanted)
    total = hlotool.grad(lambda w: np.sum(hlotool.vmap(loss, (None, 0, 0))(w, x, y)))(w)
    close(total, wanted.sum(0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: hlotool.vmap(f)(some(3, 2), some(4, 2)), r"arguments\[0\] has 3 examples, and arguments\[1\] has 4"),
        (lambda f: hlotool.vmap(f, (0, 0, 0))(some(3), some(3)), "in_axes is for 3 arguments, 2 were given"),
        (lambda f: hlotool.vmap(f)(some(3), numpy.float32(1)), r"arguments\[1\] has 0 dimensions, and no axis 0"),
        (lambda f: hlotool.vmap(f, (2, None))(some(3, 2), some()), "no axis 2"),
        (lambda f: hlotool.vmap(f, None)(some(3), some(3)), "no argument has examples"),
        (lambda f: hlotool.vmap(f)(some(0, 3), some(0, 3)), "there are no examples"),
        (lambda f: hlotool.vmap(f, (0, [None]))(some(3), some(3)), r"in_axes has \[None\] for \*"),
        (lambda f: hlotool.vmap(f, 0, None)(some(3), some(3)), "out_axes is None for result"),
        (lambda f: hlotool.vmap(f, 0, 2)(some(3), some(3)), "out_axes: result has 1 dimension, and no axis 2"),
        (lambda f: hlotool.vmap(f, 0, (0, 0))(some(3), some(3)), r"out_axes has \(0, 0\) for \*"),
        (lambda f: hlotool.vmap(f, "x"), "in_axes: expected a number"),
        (lambda f: hlotool.vmap(3), "vmap takes a function"),
    ],
)
def test_bad_use_is_told(call: Callable[..., Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        call(lambda x, y: x + y)
    assert "test_numpy_batching.py:" in str(caught.value)


def test_what_cannot_be_batched_names_the_line() -> None:
    from hlotool.numpy.trace import apply

    def function(x: Any) -> Any:
        return apply("custom-call", x, shape=hlotool.ir.array("f32", (2,)), custom_call_target="unknown_to_all")

    with pytest.raises(UnsupportedError, match=r"test_numpy_batching.py:\d+\): custom-call 'unknown_to_all'"):
        hlotool.vmap(function)(some(3, 2))
