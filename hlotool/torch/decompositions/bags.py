"""Sums, means and maxima of bags of embeddings; rows of an embedding that are made no longer than a norm."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]

_SUM, _MEAN, _MAX = range(3)


def _bag_of(indices: Any, offsets: Any) -> Any:
    """The bag that every index is in: the last one that begins there or before."""
    places = torch.arange(indices.shape[0], dtype=offsets.dtype)
    return torch.searchsorted(offsets.contiguous(), places, right=True) - 1


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = _SUM, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The bags, the bag of every index, how many each holds, and of which index a maximum is."""
    starts = offsets[:-1] if include_last_offset else offsets
    count, width = starts.shape[0], weight.shape[1]
    if sparse or not indices.shape[0] or not count:
        return NotImplemented
    bag = _bag_of(indices, starts)
    counted = indices != padding_idx
    rows = weight[indices]
    held = torch.zeros(count, dtype=torch.int64).index_add(0, bag, counted.to(torch.int64))
    if mode == _MAX:
        rows = torch.where(counted[:, None], rows, -torch.inf)
        every = bag[:, None].expand(-1, width)
        most = weight.new_full((count, width), -torch.inf).scatter_reduce(0, every, rows, "amax")
        places = torch.arange(indices.shape[0], dtype=torch.int64)[:, None].expand(-1, width)
        greatest = (rows == most[bag]) & counted[:, None]
        first = torch.full((count, width), indices.shape[0], dtype=torch.int64)
        first = first.scatter_reduce(0, every, torch.where(greatest, places, indices.shape[0]), "amin")
        empty = (held == 0)[:, None]
        found = torch.where(empty, 0, most).to(weight.dtype)
        of = torch.where(first < indices.shape[0], indices[first.clamp(max=indices.shape[0] - 1)], 0)
        return found, bag.to(offsets.dtype), held.to(offsets.dtype), of.to(offsets.dtype)
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    if per_sample_weights is not None:
        wide = wide * per_sample_weights[:, None]
    wide = wide * counted[:, None].to(wide.dtype)
    found = wide.new_zeros((count, width)).index_add(0, bag, wide)
    if mode == _MEAN:
        found = found / held.clamp(min=1)[:, None].to(wide.dtype)
    else:
        held = torch.zeros_like(held)  # as PyTorch leaves it
    fast = mode == _SUM and padding_idx < 0 and weight.dtype in (torch.float32, torch.float16)
    own = bag[:0] if fast else bag
    return found.to(weight.dtype), own.to(offsets.dtype), held.to(offsets.dtype), held.to(offsets.dtype)


def _forward_only(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = _SUM, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The same, without gradients: rows need not be dense then."""
    options = (scale_grad_by_freq, mode, False, per_sample_weights, include_last_offset, padding_idx)
    return _embedding_bag(weight, indices, offsets, *options)


def _backward(
    grad: Any, indices: Any, offsets: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    if sparse or not indices.shape[0]:
        return NotImplemented
    start = grad.new_zeros((num_weights, grad.shape[1]), dtype=torch.promote_types(grad.dtype, torch.float32))
    if mode == _MAX:
        shares = torch.where((bag_size != 0)[:, None], grad, 0).to(start.dtype)
        return start.scatter_add(0, maximum_indices.to(torch.int64), shares).to(grad.dtype)
    bag = _bag_of(indices, offsets)
    rows = grad[bag].to(start.dtype)
    if mode == _MEAN:
        rows = rows / bag_size[bag].clamp(min=1)[:, None].to(start.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if scale_grad_by_freq:
        often = torch.zeros(num_weights, dtype=torch.int64).index_add(0, indices, torch.ones_like(bag))
        rows = rows / often[indices][:, None].to(start.dtype)
    rows = rows * (indices != padding_idx)[:, None].to(start.dtype)
    return start.index_add(0, indices, rows).to(grad.dtype)


def _per_sample_weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    if not indices.shape[0]:
        return NotImplemented
    wide = torch.promote_types(grad.dtype, torch.float32)
    found = (grad[_bag_of(indices, offsets)].to(wide) * weight[indices].to(wide)).sum(1)
    return torch.where(indices != padding_idx, found, 0).to(grad.dtype)


def _renorm(self: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Rows that are looked up are made no longer than `max_norm`."""
    places = indices.reshape(-1)
    rows = self[places]
    norm = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True)
    shorter = rows * (max_norm / (norm + 1e-7))
    return self.index_put((places,), torch.where(norm > max_norm, shorter, rows))


_aten = torch.ops.aten

DECOMPOSITIONS = {
    _aten._embedding_bag.default: _embedding_bag,
    _aten._embedding_bag_forward_only.default: _forward_only,
    _aten._embedding_bag_backward.default: _backward,
    _aten._embedding_bag_per_sample_weights_backward.default: _per_sample_weights_backward,
    _aten.embedding_renorm.default: _renorm,
}
