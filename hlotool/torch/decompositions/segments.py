"""Segments of a dimension, which lengths or offsets describe: reductions over them, and numbers repeated."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]

_REDUCTIONS = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}
_NOTHING = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


def _lengths(lengths: Any, offsets: Any) -> Any:
    return offsets.diff(dim=-1) if lengths is None else lengths


def _segments(data: Any, lengths: Any, axis: int) -> Any:
    """The segment of every place along the axis, as large as `data`; those beyond the last one count on."""
    ends = lengths.cumsum(-1).contiguous()
    places = torch.arange(data.shape[axis], dtype=ends.dtype).expand(*ends.shape[:-1], -1).contiguous()
    found = torch.searchsorted(ends, places, right=True)
    return found.reshape(*found.shape, *[1] * (data.dim() - axis - 1)).expand(data.shape)


def _forward(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    if indices is not None or not data.numel():
        return NotImplemented
    own = _lengths(lengths, offsets)
    count = own.shape[-1]
    start = _NOTHING[reduce] if initial is None else initial
    into = data.new_full((*data.shape[:axis], count + 1, *data.shape[axis + 1 :]), start)
    found = into.scatter_reduce(axis, _segments(data, own, axis), data, _REDUCTIONS[reduce])
    found = found.narrow(axis, 0, count)
    if reduce != "mean":
        return found
    size = own.reshape(*own.shape, *[1] * (data.dim() - axis - 1)).to(data.dtype)
    empty = math.nan if initial is None else initial
    return torch.where(size == 0, empty, found / size.clamp(min=1))


def _backward(
    grad: Any, output: Any, data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
    initial: Any = None,
) -> Any:  # fmt: skip
    if reduce == "prod" or not data.numel():
        return NotImplemented
    own = _lengths(lengths, offsets)
    count = own.shape[-1]
    segments = _segments(data, own, axis)
    place, there = segments.clamp(max=count - 1), segments < count
    shares = grad.gather(axis, place)
    if reduce == "mean":
        size = own.reshape(*own.shape, *[1] * (data.dim() - axis - 1)).to(data.dtype)
        shares = shares / size.expand(grad.shape).gather(axis, place)
    elif reduce in ("max", "min"):
        best = output.gather(axis, place)
        equal = ((data == best) | data.isnan()) & there
        many = torch.zeros_like(grad).scatter_add(axis, place, equal.to(grad.dtype))
        shares = torch.where(equal, shares / many.gather(axis, place), 0)
    return torch.where(there, shares, 0)


def _repeated(repeats: Any, *, output_size: int | None = None) -> Any:
    """Each number of a segment as often as it is long; how many there are has to be known."""
    if output_size is None or not repeats.numel():
        return NotImplemented
    places = torch.arange(output_size, dtype=repeats.dtype)
    return torch.searchsorted(repeats.cumsum(0, dtype=repeats.dtype), places, right=True).to(repeats.dtype)


DECOMPOSITIONS = {
    torch.ops.aten.repeat_interleave.Tensor: _repeated,
    torch.ops.aten.segment_reduce.default: _forward,
    torch.ops.aten._segment_reduce_backward.default: _backward,
}
