"""numba: loops as one writes them for it, in parallel where rows are independent; programs of one step only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numba
import numpy as np

from hlotool.suites.peers.programs import read_program

__all__ = ["arrays", "prepare", "version"]

_F = TypeVar("_F", bound=Callable[..., Any])


def _fast(function: _F) -> _F:
    made: _F = numba.njit(parallel=True, fastmath=True)(function)
    return made


def _plain(function: _F) -> _F:
    made: _F = numba.njit(function)
    return made


@_fast
def _jacobi_2d(x: Any, steps: int) -> Any:
    n, m = x.shape
    now, then = np.zeros((n + 2, m + 2), x.dtype), np.zeros((n + 2, m + 2), x.dtype)
    now[1:-1, 1:-1] = x
    quarter = np.float32(0.25)
    for _ in range(steps):
        for i in numba.prange(1, n + 1):
            for j in range(1, m + 1):
                then[i, j] = quarter * (now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1])
        now, then = then, now
    return now[1:-1, 1:-1].copy()


@_fast
def _heat_3d(x: Any, steps: int) -> Any:
    n, m, k = x.shape
    now, then = np.zeros((n + 2, m + 2, k + 2), x.dtype), np.zeros((n + 2, m + 2, k + 2), x.dtype)
    now[1:-1, 1:-1, 1:-1] = x
    rate, six = np.float32(0.1), np.float32(6)
    for _ in range(steps):
        for i in numba.prange(1, n + 1):
            for j in range(1, m + 1):
                for l in range(1, k + 1):  # noqa: E741
                    around = now[i - 1, j, l] + now[i + 1, j, l] + now[i, j - 1, l] + now[i, j + 1, l]
                    around += now[i, j, l - 1] + now[i, j, l + 1] - six * now[i, j, l]
                    then[i, j, l] = now[i, j, l] + rate * around
        now, then = then, now
    return now[1:-1, 1:-1, 1:-1].copy()


@_fast
def _n_body(place: Any, speed: Any, mass: Any, steps: int) -> Any:
    x, v, count = place.copy(), speed.copy(), len(mass)
    soft, short = np.float32(0.01), np.float32(0.001)
    for _ in range(steps):
        for i in numba.prange(count):
            a = b = c = np.float32(0)
            for j in range(count):
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                square = dx * dx + dy * dy + dz * dz + soft
                pull = mass[j] / (square * math.sqrt(square))
                a, b, c = a + dx * pull, b + dy * pull, c + dz * pull
            v[i, 0] += short * a
            v[i, 1] += short * b
            v[i, 2] += short * c
        x = x + short * v
    return x


@_fast
def _rows_product(values: Any, columns: Any, first: Any, x: Any) -> Any:
    found = np.empty(len(x), x.dtype)
    for i in numba.prange(len(x)):
        total = np.float32(0)
        for k in range(first[i], first[i + 1]):
            total += values[k] * x[columns[k]]
        found[i] = total
    return found


@_fast
def _black_scholes(price: Any, strike: Any, years: Any) -> Any:
    found = np.empty_like(price)
    rate, volatility = np.float32(0.02), np.float32(0.3)
    one, half, p, q = np.float32(1), np.float32(0.5), np.float32(1.5976), np.float32(0.070565992)
    for i in numba.prange(len(price)):
        spread = volatility * math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + (rate + volatility * volatility * half) * years[i]) / spread
        d2 = d1 - spread
        below1 = one / (one + math.exp(-(p * d1 + q * d1 * d1 * d1)))
        below2 = one / (one + math.exp(-(p * d2 + q * d2 * d2 * d2)))
        found[i] = price[i] * below1 - strike[i] * math.exp(-rate * years[i]) * below2
    return found


@_fast
def _three_x_squared_mean(x: Any, y: Any) -> Any:
    total = 0.0
    for i in numba.prange(len(x)):
        total += np.float32(3) * x[i] * x[i] + y[i]
    return total / len(x)


@_plain
def _averages(x: Any) -> Any:
    found, mean = np.empty_like(x), np.zeros(x.shape[1], x.dtype)
    for i in range(len(x)):
        for j in range(x.shape[1]):
            mean[j] = np.float32(0.9) * mean[j] + np.float32(0.1) * x[i, j]
            found[i, j] = mean[j]
    return found


@_plain
def _running_sum(x: Any) -> Any:
    found, total = np.empty_like(x), np.float32(0)
    for i in range(len(x)):
        total += x[i]
        found[i] = total
    return found


@_plain
def _scatter_add(x: Any, rows: Any, updates: Any) -> Any:
    found = x.copy()
    for k in range(len(rows)):
        for j in range(x.shape[1]):
            found[rows[k], j] += updates[k, j]
    return found


def _sparse_product(given: Sequence[Any]) -> Callable[[], Any]:
    """By rows: where each begins is found once, ahead of all calls."""
    values, columns, rows, x = given
    first = np.searchsorted(rows, np.arange(len(x) + 1)).astype(np.int32)
    return lambda: _rows_product(values, columns, first, x)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "jacobi_2d": _jacobi_2d, "heat_3d": _heat_3d, "n_body": _n_body, "black_scholes": _black_scholes,
    "averages": _averages,
}  # fmt: skip


def version() -> str:
    return f"numba {numba.__version__}"


def prepare(source: str, given: Sequence[Any]) -> Callable[[], Any]:
    _, steps, _ = read_program(source)
    (step, *others) = steps
    attributes = dict(step.attributes)
    if step.operation == "sparse_product" and not others:
        call = _sparse_product(given)
    elif step.operation == "running_sum" and not others and given[0].ndim == 1:
        call = lambda: _running_sum(given[0])  # noqa: E731
    elif step.operation == "scatter_add" and not others:
        x, rows, updates = given
        table = x.reshape(len(x), -1)
        call = lambda: _scatter_add(table, rows, updates.reshape(table.shape)).reshape(x.shape)  # noqa: E731
    elif step.operation == "three_x_squared_mean" and not others:
        call = lambda: np.float32(_three_x_squared_mean(*given))  # noqa: E731
    elif others or step.operation not in _OPERATIONS:
        raise LookupError(f"it has no program for {', '.join(sorted({one.operation for one in steps}))}")
    else:
        operation = _OPERATIONS[step.operation]
        extra = tuple(attributes.values())
        call = lambda: operation(*given, *extra)  # noqa: E731
    call()  # compiles
    return lambda: (call(),)


def arrays(found: Sequence[Any]) -> list[Any]:
    return [np.asarray(one) for one in found]
