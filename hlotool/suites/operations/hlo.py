"""Operations as HLO where hlotool.numpy has no word for them, and its loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import hlotool
import hlotool.numpy as np
from hlotool.ir import array
from hlotool.ir.attributes import ConvDimensionNumbers, ReplicaGroups, Window, WindowDimension
from hlotool.ir.builder import binary_computation
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.trace import apply
from hlotool.suites.operations.plain import PLAIN, Tools, adam

__all__ = ["HLO", "TOOLS"]


def _repeat(count: int, body: Callable[[Any], Any], x: Any) -> Any:
    return hlotool.fori_loop(0, count, lambda _, value: body(value), x)


TOOLS = Tools(np, _repeat, hlotool.scan)


def convolution(t: Tools, x: Any, w: Any, stride: list[int], pad: list[int], groups: int = 1) -> Any:
    """``dim_labels=b01f_01io->b01f``, of any rank."""
    rank = x.ndim - 2
    places = tuple(range(1, rank + 1))
    labels = ConvDimensionNumbers(
        0, rank + 1, places, rank, rank + 1, tuple(range(rank)), 0, rank + 1, places
    )  # fmt: skip
    window = Window(tuple(map(WindowDimension, w.shape[:rank], stride, pad, pad)))
    return apply("convolution", x, w, window=window, dim_labels=labels, feature_group_count=groups)


def convolution_gradients(t: Tools, x: Any, w: Any, slope: Any, stride: list[int], pad: list[int]) -> Any:
    """Of a convolution with these results' slopes: those of its input and of its weights."""
    _, back = hlotool.vjp(lambda x, w: convolution(t, x, w, stride, pad), x, w)
    return back(slope)


def max_pool(t: Tools, x: Any, window: list[int], stride: list[int], pad: list[int]) -> Any:
    inner = tuple(map(WindowDimension, window, stride, pad, pad))
    whole = Window((WindowDimension(1), *inner, WindowDimension(1)))
    lowest = np.asarray(-numpy.inf, dtype=x.dtype)
    return apply("reduce-window", x, lowest, window=whole, to_apply=binary_computation("maximum", hlo_type(x.dtype)))


def matmul_int8(t: Tools, a: Any, b: Any) -> Any:
    """Sums of 32 bits of products of 8 bits."""
    shape = array("s32", (a.shape[0], b.shape[1]))
    return apply("dot", a, b, shape=shape, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))


def scatter_add(t: Tools, x: Any, rows: Any, updates: Any) -> Any:
    return x.at[rows].add(updates)


def sparse_product(t: Tools, values: Any, columns: Any, rows: Any, x: Any) -> Any:
    """A square matrix, sorted by rows, times a vector: a gather and a scatter."""
    return (0 * x).at[rows].add(values * np.take(x, columns, axis=0))


def train_mlp(t: Tools, x: Any, y: Any, *weights: Any, rate: float) -> Any:
    """A step of Adam, the first, of the mean squared error of dense layers with ReLU: the new weights."""

    def loss(weights: Any) -> Any:
        h = x
        for number in range(0, len(weights), 2):
            h = np.matmul(h, weights[number]) + weights[number + 1]
            h = np.maximum(h, 0) if number + 2 < len(weights) else h
        return np.mean((h - y) ** 2)

    gradients = hlotool.grad(loss)(list(weights))
    return tuple(adam(t, p, g, rate) for p, g in zip(weights, gradients, strict=True))


def all_reduce(t: Tools, x: Any, devices: int) -> Any:
    """The sum over all devices."""
    groups = ReplicaGroups((tuple(range(devices)),))
    kind = hlo_type(x.dtype)
    made = array(kind, x.shape)
    return apply("all-reduce", x, shape=made, replica_groups=groups, to_apply=binary_computation("add", kind))


HLO: dict[str, Callable[..., Any]] = PLAIN | {
    function.__name__: function
    for function in (
        convolution, convolution_gradients, max_pool, matmul_int8, scatter_add, sparse_product, train_mlp, all_reduce,
    )
}  # fmt: skip
