"""Reductions, and sums and products of all elements up to each one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.padding import pad as pad_array
from hlotool.numpy.statistical import cumulative, highest, lowest, reduced
from hlotool.onnx.lowering import Context, lowering, normal_axes
from hlotool.onnx.ops.pieces import in_f32, kind, number

__all__: list[str] = []

Reduction = Callable[[Array, tuple[int, ...], bool], Array]


def _sum(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return reduced(x, "add", 0, axes, keep)


def _mean(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    count = int(numpy.prod([x.shape[n] for n in axes], dtype=numpy.int64))
    return _sum(x, axes, keep) / number(count, x) if x.dtype.kind == "f" else _whole_mean(x, axes, keep, count)


def _whole_mean(x: Array, axes: tuple[int, ...], keep: bool, count: int) -> Array:
    from hlotool.numpy.trace import apply

    total = _sum(x, axes, keep)
    return apply("divide", total, np.broadcast_to(number(count, x), total.shape))


def _greatest(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if kind(x) == "pred":
        return reduced(x, "or", False, axes, keep)
    return reduced(x, "maximum", lowest(x.dtype), axes, keep)


def _least(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    if kind(x) == "pred":
        return reduced(x, "and", True, axes, keep)
    return reduced(x, "minimum", highest(x.dtype), axes, keep)


def _log_sum_exp(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    x = x if x.dtype.kind == "f" else np.astype(x, numpy.float64)
    most = _greatest(x, axes, True)
    most = np.where(np.isfinite(most), most, number(0, most))
    total = np.log(_sum(np.exp(x - most), axes, True)) + most
    return total if keep else np.squeeze(total, axes)


def _real(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Of integers, in f64."""
    return lambda x: function(x if x.dtype.kind == "f" else np.astype(x, numpy.float64))


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": lambda x, axes, keep: reduced(x, "multiply", 1, axes, keep),
    "ReduceMax": _greatest,
    "ReduceMin": _least,
    "ReduceL1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: _real(np.sqrt)(_sum(x * x, axes, keep)),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: _real(np.log)(_sum(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _enter(name: str, function: Reduction) -> None:
    @lowering(name)
    def lower(
        c: Context, x: Array, given: Array | None = None, *, axes: Sequence[int] | None = None, keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:  # fmt: skip
        chosen = axes if given is None else c.ints(given, "the axes")
        if not chosen and noop_with_empty_axes:
            places: tuple[int, ...] = ()
        else:
            places = normal_axes(chosen, x.ndim) if chosen else tuple(range(x.ndim))
        return np.astype(function(in_f32(x), places, bool(keepdims)), x.dtype)


for _name, _function in _REDUCTIONS.items():
    _enter(_name, _function)


def _cumulative(name: str, opcode: str, start: int) -> None:
    @lowering(name)
    def lower(c: Context, x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
        (place,) = normal_axes([c.whole(axis, "the axis")], x.ndim)
        wide = in_f32(x)
        if reverse:
            wide = np.flip(wide, axis=place)
        if exclusive and x.shape[place]:
            pairs = [(0, 0)] * x.ndim
            pairs[place] = (1, 0)
            ahead = pad_array(wide, tuple(pairs), constant_values=number(start, wide))
            wide = ahead[tuple(slice(0, one) for one in x.shape)]
        found = cumulative(wide, opcode, start, place)
        return np.astype(np.flip(found, axis=place) if reverse else found, x.dtype)


_cumulative("CumSum", "add", 0)
_cumulative("CumProd", "multiply", 1)


def _arg(name: str, opcode: Callable[..., Any]) -> None:
    @lowering(name)
    def lower(c: Context, x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        (place,) = normal_axes([axis], x.ndim)
        turned = np.flip(x, axis=place) if select_last_index else x
        found = opcode(turned, axis=place, keepdims=bool(keepdims))
        if select_last_index:
            found = number(x.shape[place] - 1, found) - found
        return np.astype(found, numpy.int64)


_arg("ArgMax", np.argmax)
_arg("ArgMin", np.argmin)
