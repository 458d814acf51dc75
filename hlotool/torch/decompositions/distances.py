"""Distances between all rows of a matrix."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]


def _pairs(self: Any) -> tuple[Any, Any]:
    first, second = torch.triu_indices(self.shape[0], self.shape[0], 1)
    return first, second


def _forward(self: Any, p: float = 2) -> Any:
    first, second = _pairs(self)
    if not self.shape[1]:
        return self.new_zeros(first.shape)
    return torch.linalg.vector_norm(self[first] - self[second], p, 1)


def _backward(grad: Any, self: Any, p: float, pdist: Any) -> Any:
    if not self.numel():
        return torch.zeros_like(self)
    first, second = _pairs(self)
    apart = self[first] - self[second]
    size, way, far, weight = apart.abs(), apart.sign(), pdist[:, None], grad[:, None]
    if p == 0:
        return torch.zeros_like(self)
    if p == 1:
        share = weight * way
    elif math.isinf(p):
        share = weight * way * (size == far)
    elif p == 2:
        share = torch.where(far == 0, 0, weight * apart / far)
    else:
        share = torch.where((far == 0) | (size == 0), 0, way * size ** (p - 1) * weight / far ** (p - 1))
    return torch.zeros_like(self).index_add(0, first, share).index_add(0, second, -share)


DECOMPOSITIONS = {
    torch.ops.aten._pdist_forward.default: _forward,
    torch.ops.aten._pdist_backward.default: _backward,
}
