"""hlotool.jit: containers, statics, what is closed over, donation, methods, reasons, and bad use."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np
from hlotool.numpy import pytree

HERE = "test_numpy_jit.py:"


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Layer:
    weights: Any
    bias: Any
    name: str = field(default="", metadata={"static": True})


def test_containers_come_back_as_they_went_in() -> None:
    x = numpy.arange(3.0)
    tree = {"b": (x, [x + 1, None]), "a": Pair(x, 2.0), "layer": Layer(x, 1, "first")}
    found = hlotool.jit(lambda t: t)(tree)
    assert list(found) == ["a", "b", "layer"]
    assert isinstance(found["a"], Pair)
    assert found["layer"].name == "first"
    assert found["b"][1][1] is None
    for path, one in (("a", found["a"].left), ("b", found["b"][0])):
        assert isinstance(one, np.Array), path
        agree(one, x)


def test_registered_classes_are_containers() -> None:
    class Point:
        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

    pytree.register(Point, lambda p: ((p.x, p.y), None), lambda _, children: Point(*children))
    found = hlotool.jit(lambda p: Point(p.y, p.x))(Point(1.0, numpy.ones(2)))
    agree(found.y, 1.0)
    paths = pytree.leaf_paths(pytree.flatten({"a": [1, Layer(1, 2)]})[1])
    assert paths == ["['a'][0]", "['a'][1].weights", "['a'][1].bias"]


def test_it_is_traced_once_for_each_kind_of_arguments() -> None:
    seen = []

    @hlotool.jit
    def function(x: Any, k: Any) -> Any:
        seen.append(x.shape)
        return x * k

    for shape in ((3,), (3,), (4,), (3,)):
        agree(function(numpy.ones(shape), 2.0), 2 * numpy.ones(shape))
    function(numpy.ones(3), 3.5)
    assert seen == [(3,), (4,)]
    assert "argument 0 was float64[3] and is float64[4]" in hlotool.explain_last()
    function(numpy.ones(3, numpy.float32), 2.0)
    assert "was float64[3] and is float32[3]" in hlotool.explain_last()
    assert HERE in hlotool.explain_last()
    function(numpy.ones(3, numpy.uint16), 2)
    found = function(np.asarray(numpy.ones(3), dtype=np.bfloat16), 2)
    assert (found.dtype, seen[-1]) == (np.bfloat16, (3,))
    assert len(seen) == 5


def test_unsigned_integers_are_not_taken_for_floats_with_the_same_bits() -> None:
    function = hlotool.jit(lambda x: x + 1)
    for dtype in (np.bfloat16, np.uint16, np.bfloat16):
        for _ in range(2):
            agree(function(numpy.ones(2, dtype)), numpy.full(2, 2, dtype))


@pytest.mark.parametrize("tree", [(), {}, None, [()], {"a": (1.0, None)}, ((1.0, [2]), {"b": 3j})], ids=str)
def test_repeated_calls_of_any_container(tree: Any) -> None:
    function = hlotool.jit(lambda t, *rest, **more: (t, rest, more))
    for _ in range(3):
        found, rest, more = function(tree, numpy.ones(1), key=tree)
        assert pytree.flatten(found)[1] == pytree.flatten(tree)[1] == pytree.flatten(more["key"])[1]
        assert len(rest) == 1
    assert len(function(tree, [numpy.ones(1)])) == 3  # another structure


def test_bytes_in_another_order_are_put_in_order() -> None:
    x = numpy.arange(3, dtype=">f4")
    function = hlotool.jit(lambda x: x * 2)
    for _ in range(2):
        agree(function(x), numpy.float32([0, 2, 4]))
    agree(np.asarray(x) + x, numpy.float32([0, 2, 4]))


def test_static_arguments() -> None:
    @hlotool.jit(static_argnums=1, static_argnames="how")
    def function(x: Any, n: int, how: str = "sum") -> Any:
        return getattr(np, how)(x.reshape(n, -1), axis=0)

    x = numpy.arange(6.0)
    agree(function(x, 2), x.reshape(2, -1).sum(0))
    agree(function(x, n=3), x.reshape(3, -1).sum(0))
    agree(function(x, 2, how="max"), x.reshape(2, -1).max(0))
    assert "static argument" in hlotool.explain_last()
    with pytest.raises(TypeError, match=f"{HERE}.*static argument 1 of .*function is a set, which cannot be hashed"):
        function(x, {1})
    with pytest.raises(ValueError, match="there is no argument 5"):
        hlotool.jit(lambda x: x, static_argnums=5)
    with pytest.raises(ValueError, match="there is no argument 'y'"):
        hlotool.jit(lambda x: x, static_argnames="y")


def test_one_and_true_are_different_constants() -> None:
    function = hlotool.jit(lambda x, k: x * k if k is True else x - k, static_argnums=1)
    agree(function(numpy.ones(1), 1), [0.0])
    agree(function(numpy.ones(1), True), [1.0])


def test_what_is_closed_over() -> None:
    changing, fixed = numpy.ones(3), np.asarray([1.0, 2.0, 3.0])
    big = np.asarray(numpy.arange(300_000.0))

    @hlotool.jit
    def function(x: Any) -> Any:
        return x * fixed + changing, big[5] + x

    agree(function(numpy.ones(3))[0], [2.0, 3.0, 4.0])
    changing[:] = 10
    first, second = function(numpy.ones(3))
    agree(first, [11.0, 12.0, 13.0])
    agree(second, [6.0, 6.0, 6.0])


def test_arrays_do_not_see_what_is_written_to_their_source() -> None:
    source = numpy.ones(3)
    array = np.asarray(source)
    source[:] = 7
    agree(array, [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        numpy.asarray(array)[0] = 3


def test_donated_arrays_are_written_over() -> None:
    step = hlotool.jit(lambda state, x: {"w": state["w"] + x}, donate_argnums=0)
    state = {"w": np.asarray(numpy.zeros(1000))}
    first = state["w"]
    for _ in range(3):
        state = step(state, 1.0)
    agree(state["w"], 3 * numpy.ones(1000))
    with pytest.raises(ValueError, match="the array was donated"):
        first + 1


def test_methods_and_functions_in_functions() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 3.0

        @hlotool.jit(static_argnums=0)
        def __call__(self, x: Any) -> Any:
            return self.inner(x) * self.scale

        @hlotool.jit(static_argnums=0)
        def inner(self, x: Any) -> Any:
            return x + 1

    agree(Model()(numpy.ones(2)), [6.0, 6.0])


def test_the_program_can_be_looked_at() -> None:
    function = hlotool.jit(lambda x: np.sin(x) * 2)
    text = hlotool.print_module(function.module(numpy.ones(3, numpy.float32)))
    assert "f32[3]{0} sine(" in text
    assert HERE.removesuffix(":") in text
    agree(function.executable(numpy.ones(3))(numpy.ones(3))[0], 2 * numpy.sin(numpy.ones(3)))


def test_threads_trace_on_their_own() -> None:
    function = hlotool.jit(lambda x, y: (x * y).sum())
    found: dict[int, float] = {}

    def work(n: int) -> None:
        found[n] = float(function(numpy.ones(n), 2.0))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {n: 2.0 * n for n in range(1, 9)}


def _branches(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _leaks() -> Any:
    kept = []
    hlotool.jit(lambda x: kept.append(x))(1.0)
    return kept[0] + 1


def _recursion(x: Any) -> Any:
    return hlotool.jit(_recursion)(x)


def _endless() -> Any:
    @hlotool.jit
    def function(x: Any) -> Any:
        return function(x)

    return function(1.0)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: hlotool.jit(_branches)(numpy.ones(2)), r"needs the value of an array.*traced: pred\[\]"),
        (_leaks, "is used where it does not exist"),
        (lambda: hlotool.jit(lambda x: float(x))(1.0), r"float\(\) needs the value"),
        (lambda: hlotool.jit(lambda x: numpy.array2string(x))(numpy.eye(2)), "numpy.array2string needs the value"),
        (lambda: hlotool.jit(lambda x: list(range(x)))(3), "shapes, sizes and axes must be constants"),
        (lambda: hlotool.jit(lambda x, n: x.reshape(n, 1))(numpy.ones(2), 2), "static_argnums"),
        (lambda: hlotool.jit(lambda x, n: np.zeros(n))(numpy.ones(2), 2), "static_argnums"),
        (lambda: hlotool.jit(lambda x, n: np.sum(x, axis=n))(numpy.ones((2, 2)), 0), "must be constants"),
        (lambda: hlotool.jit(lambda x, n: x[:n])(numpy.ones(2), 1), "dynamic_slice"),
        (lambda: hlotool.jit(lambda x: x)("text"), "an argument is a str"),
        (lambda: hlotool.jit(lambda x: object())(1.0), "a value of type object is no array|a object is no array"),
        (lambda: hlotool.jit(lambda x: x)(numpy.array(["a"])), "cannot be compiled"),
        (_endless, "calls itself without end"),
        (lambda: hlotool.jit(3), "jit takes a function"),
        (lambda: hlotool.jit(lambda x: np.nonzero(x))(numpy.ones(2)), "nonzero needs the value"),
    ],
    ids=range(15),
)  # fmt: skip
def test_bad_use_is_refused_with_the_place(function: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        function()
    assert HERE in str(caught.value), str(caught.value)
