"""Gradients of losses that are means: PyTorch's decompositions divide by how many elements there are, even by none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

__all__ = ["DECOMPOSITIONS"]


def _also_of_nothing(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """`decomposition`, and for losses of nothing a gradient without elements."""

    def backward(grad_output: Any, self: Any, target: Any, *options: Any) -> Any:
        if not self.numel():
            return torch.empty_like(self)
        return decomposition(grad_output, self, target, *options)

    return backward


_aten = torch.ops.aten

DECOMPOSITIONS = {
    operation: _also_of_nothing(decomposition_table[operation])
    for operation in (
        _aten.huber_loss_backward.default, _aten.mse_loss_backward.default, _aten.smooth_l1_loss_backward.default
    )
}  # fmt: skip
