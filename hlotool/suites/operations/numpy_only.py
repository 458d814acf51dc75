"""Operations as NumPy says them where hlotool says them in another way, and the tools of a Python loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlotool.suites.operations.plain import PLAIN, Tools, adam

__all__ = ["NUMPY", "TOOLS"]


def _repeat(count: int, body: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(count):
        x = body(x)
    return x


def _scan(f: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any) -> tuple[Any, Any]:
    rows = []
    for x in xs:
        carry, row = f(carry, x)
        rows.append(row)
    return carry, np.stack(rows)


TOOLS = Tools(np, _repeat, _scan)


def _windows(x: Any, window: list[int], stride: list[int], pad: list[int], value: float) -> Any:
    """(batch, outputs..., features, window...), a view."""
    padded = np.pad(x, [(0, 0), *((p, p) for p in pad), (0, 0)], constant_values=value)
    axes = tuple(range(1, x.ndim - 1))
    found = np.lib.stride_tricks.sliding_window_view(padded, window, axes)
    return found[(slice(None), *(slice(None, None, s) for s in stride))]


def convolution(t: Tools, x: Any, w: Any, stride: list[int], pad: list[int], groups: int = 1) -> Any:
    """Windows of x as rows of a matrix, times the weights (window..., from, to)."""
    rank = x.ndim - 2
    rows = _windows(x, list(w.shape[:rank]), stride, pad, 0.0)
    order = (*range(rank + 2, 2 * rank + 2), rank + 1)  # the window, then the features
    if groups == 1:
        return np.tensordot(rows, w, (order, tuple(range(rank + 1))))
    each, to = x.shape[-1] // groups, w.shape[-1] // groups
    parts = [
        np.tensordot(rows[(..., slice(g * each, (g + 1) * each), *[slice(None)] * rank)],
                     w[..., g * to : (g + 1) * to], (order, tuple(range(rank + 1))))
        for g in range(groups)
    ]  # fmt: skip
    return np.concatenate(parts, axis=-1)


def max_pool(t: Tools, x: Any, window: list[int], stride: list[int], pad: list[int]) -> Any:
    rank = x.ndim - 2
    return _windows(x, window, stride, pad, -np.inf).max(axis=tuple(range(rank + 2, 2 * rank + 2)))


def matmul_int8(t: Tools, a: Any, b: Any) -> Any:
    return np.matmul(a.astype(np.int32), b.astype(np.int32))


def scatter_add(t: Tools, x: Any, rows: Any, updates: Any) -> Any:
    found = x.copy()
    np.add.at(found, rows, updates)
    return found


def sparse_product(t: Tools, values: Any, columns: Any, rows: Any, x: Any) -> Any:
    """A square matrix, sorted by rows, times a vector."""
    return np.bincount(rows, values * x[columns], len(x)).astype(x.dtype)


def train_mlp(t: Tools, x: Any, y: Any, *weights: Any, rate: float) -> Any:
    """A step of Adam, the first, of the mean squared error of dense layers with ReLU: the new weights."""
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    kept = [x]
    for number, (w, b) in enumerate(layers):
        h = kept[-1] @ w + b
        kept.append(np.maximum(h, 0) if number + 1 < len(layers) else h)
    slope = 2 * (kept[-1] - y) / y.size
    gradients: list[Any] = []
    for number in range(len(layers) - 1, -1, -1):
        if number + 1 < len(layers):
            slope = slope * (kept[number + 1] > 0)
        gradients = [kept[number].T @ slope, slope.sum(axis=0), *gradients]
        slope = slope @ layers[number][0].T if number else slope
    return tuple(adam(t, p, g, rate) for p, g in zip(weights, gradients, strict=True))


NUMPY: dict[str, Callable[..., Any]] = PLAIN | {
    function.__name__: function
    for function in (convolution, max_pool, matmul_int8, scatter_add, sparse_product, train_mlp)
}
