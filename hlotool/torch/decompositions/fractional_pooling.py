"""Fractional max pooling (B. Graham, 2014): windows of one size that begin at random, but regular, places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]


def _starts(share: Any, have: int, want: int, size: int) -> Any:
    """Where windows begin, for the random share [...] of every plane: [..., want]."""
    last = torch.full((*share.shape, 1), have - size, dtype=torch.int64)
    if want == 1:
        return last
    step = (have - size) / (want - 1)
    share = share[..., None]
    number = torch.arange(want - 1, dtype=share.dtype)
    return torch.cat([((number + share) * step).to(torch.int64) - (share * step).to(torch.int64), last], -1)


def _forward(count: int) -> Callable[..., Any]:
    def pool(self: Any, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Any) -> Any:
        """The greatest elements, and where they are, counted through the last dimensions."""
        have = self.shape[-count:]
        planes = self.reshape(-1, self.shape[-count - 1], *have)
        order = (0, 1, 2) if count == 3 else (1, 0)  # how the samples of a plane are numbered
        index: Any = 0
        for along, place in enumerate(order):
            start = _starts(random_samples[..., place], have[along], output_size[along], kernel_size[along])
            own = start[..., None] + torch.arange(kernel_size[along])  # [planes, channels, want, size]
            around = [1] * (2 * count)
            around[along], around[count + along] = own.shape[-2:]
            index = index * have[along] + own.reshape(*own.shape[:2], *around)
        index = index.expand(*planes.shape[:2], *output_size, *kernel_size).flatten(-count)
        values = planes.flatten(2).gather(2, index.flatten(2)).reshape(index.shape)
        greatest, number = values.max(-1)
        places = index.gather(-1, number[..., None])[..., 0]
        wanted = (*self.shape[:-count], *output_size)
        return greatest.reshape(wanted), places.reshape(wanted)

    return pool


def _backward(count: int) -> Callable[..., Any]:
    def spread(grad: Any, self: Any, kernel_size: Sequence[int], output_size: Sequence[int], indices: Any) -> Any:
        start = torch.zeros_like(self, memory_format=torch.contiguous_format).flatten(-count)
        return start.scatter_add(-1, indices.flatten(-count), grad.flatten(-count)).reshape(self.shape)

    return spread


_aten = torch.ops.aten

DECOMPOSITIONS = {
    _aten.fractional_max_pool2d.default: _forward(2),
    _aten.fractional_max_pool3d.default: _forward(3),
    _aten.fractional_max_pool2d_backward.default: _backward(2),
    _aten.fractional_max_pool3d_backward.default: _backward(3),
}
