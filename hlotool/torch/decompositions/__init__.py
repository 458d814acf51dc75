"""Operations that are taken apart into others of PyTorch, which have lowerings: where PyTorch has no decomposition, or
one that computes something else than its own kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlotool.torch.decompositions import (
    bags,
    distances,
    dropout,
    encoders,
    fractional_pooling,
    grids,
    lists,
    losses,
    masked,
    powers,
    segments,
    weights,
)

__all__ = ["OWN"]

OWN: dict[Any, Callable[..., Any]] = {
    operation: function
    for part in (
        bags, distances, dropout, encoders, fractional_pooling, grids, lists, losses, masked, powers, segments, weights
    )
    for operation, function in part.DECOMPOSITIONS.items()
}  # fmt: skip
"""By overload; a function that gives NotImplemented leaves the operation whole."""
