"""Loops and branches: at once, under jit, inside each other, and what is said of bodies that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from numpy_cases import agree

import hlotool
import hlotool.numpy as np
from hlotool.analysis.trip_count import known_trip_count


def _both(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return [function(*arguments), hlotool.jit(function)(*arguments)]


def test_while_loop() -> None:
    def power(x: Any, limit: Any) -> Any:
        return hlotool.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, s[1] * x), (0, x))

    for count, value in _both(power, np.asarray([1.0, 2.0]), np.asarray(3)):
        assert int(count) == 3
        agree(value, [1.0, 16.0])


def test_numbers_that_a_loop_carries_take_the_type_of_the_body() -> None:
    x = np.asarray([1.5], dtype=np.float32)
    for total, times in _both(lambda x: hlotool.fori_loop(0, 3, lambda i, s: (s[0] + x.sum(), s[1] * 2), (0, 1)), x):
        assert total.dtype == numpy.float32
        assert (float(total), int(times)) == (4.5, 8)


def test_fori_loop_has_a_known_trip_count() -> None:
    module = hlotool.jit(lambda x: hlotool.fori_loop(2, 9, lambda i, v: v * i, x)).module(np.asarray(1.0))
    assert [known_trip_count(one) for one in module.instructions() if one.opcode == "while"] == [7]
    for found in _both(lambda x, n: hlotool.fori_loop(0, n, lambda i, v: v + i, x), np.asarray(0.0), np.asarray(5)):
        agree(found, 10.0)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    xs = numpy.arange(12.0).reshape(4, 3)

    def running(xs: Any) -> Any:
        return hlotool.scan(lambda c, x: (c + x, {"sum": c + x, "twice": x * 2}), np.zeros(3), xs, reverse=reverse)

    wanted = (xs[::-1] if reverse else xs).cumsum(0)
    for total, rows in _both(running, xs):
        agree(total, wanted[-1])
        agree(rows["sum"], wanted[::-1] if reverse else wanted)
        agree(rows["twice"], xs * 2)


def test_scan_without_rows_and_of_none() -> None:
    for total, rows in _both(lambda x: hlotool.scan(lambda c, _: (c * 2, c), x, None, length=3), np.asarray(1.0)):
        agree(total, 8.0)
        agree(rows, [1.0, 2.0, 4.0])
    total, rows = hlotool.scan(lambda c, x: (c + x, c), np.asarray(1.0), np.zeros(0))
    agree(total, 1.0)
    assert rows.shape == (0,)


def test_map() -> None:
    xs = numpy.arange(6.0).reshape(3, 2)
    for found in _both(lambda xs: hlotool.map(lambda x: (x * x).sum(), xs), xs):
        agree(found, (xs * xs).sum(1))


def test_cond_and_switch() -> None:
    def chosen(x: Any, k: Any) -> Any:
        low = hlotool.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, x)
        return low, hlotool.switch(k, [lambda: x, lambda: 2 * x, lambda: x * x])

    for x in (numpy.array([3.0]), numpy.array([-3.0])):
        for k, wanted in ((0, x), (1, 2 * x), (2, x * x), (7, x * x), (-1, x)):
            for low, switched in _both(chosen, np.asarray(x), np.asarray(k)):
                agree(low, x + numpy.sign(x))
                agree(switched, wanted)


def test_loops_in_loops_read_values_from_around_them() -> None:
    table = numpy.array([1.0, 2.0, 3.0])

    @hlotool.jit
    def function(x: Any, scale: Any) -> Any:
        def outer(i: Any, total: Any) -> Any:
            row = table[0] * scale + i

            def inner(carry: Any, y: Any) -> Any:
                return carry + y * row, hlotool.cond(y > 1, lambda: y * scale, lambda: row)

            last, _ = hlotool.scan(inner, total, np.asarray(table))
            return last

        return hlotool.fori_loop(0, 3, outer, x)

    agree(function(np.asarray(0.5), 2.0), 0.5 + sum(6 * (2 + i) for i in range(3)))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda: hlotool.while_loop(lambda s: s, lambda s: s, 1), "the condition gives s64"),
        (lambda: hlotool.while_loop(lambda s: s < 3, lambda s: (s, s), 1), r"was given \* and gives \(\*, \*\)"),
        (lambda: hlotool.fori_loop(0, 3, lambda i, x: x[:2], np.ones(3)), r"was given f64\[3\] at \[1\] and gives"),
        (lambda: hlotool.fori_loop(0.5, 3, lambda i, x: x, 1), "must be a single integer"),
        (lambda: hlotool.scan(lambda c, x: c, 0.0, np.ones(3)), r"it must give \(carry, y\)"),
        (lambda: hlotool.scan(lambda c, x: (c, x), 0.0), "say the length"),
        (lambda: hlotool.scan(lambda c, x: (c, x), 0.0, (np.ones(3), np.ones(2))), "different numbers of rows"),
        (lambda: hlotool.jit(lambda x: hlotool.cond(x > 0, lambda: x, lambda: (x, x)))(1.0), "branches give"),
        (lambda: hlotool.jit(lambda x: hlotool.cond(x > 0, lambda: np.ones(3), lambda: np.ones(2)))(1.0),
         r"branches give f64\[3\] and f64\[2\]"),
        (lambda: hlotool.cond(np.ones(3), lambda: 1, lambda: 2), "must be a single value"),
        (lambda: hlotool.while_loop(3, lambda s: s, 1), "takes functions, not a int"),
    ],
    ids=range(11),
)  # fmt: skip
def test_bodies_that_do_not_fit_are_refused_with_the_place(function: Callable[[], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        function()
    assert "test_numpy_control.py:" in str(caught.value)
