"""Dropout: a draw, whose numbers are PyTorch's own, and a product."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

__all__ = ["DECOMPOSITIONS"]


def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """PyTorch's own way on the CPU."""
    if train is False or p == 0 or not input.numel():
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    if p == 1:  # nothing is drawn
        return input * 0, torch.zeros_like(input, dtype=torch.bool)
    order = compute_elementwise_output_logical_to_physical_perm(input)
    if order and not isinstance(order[0], int):  # in newer versions of PyTorch that is one of two results
        order = order[0]
    lying = torch.empty([input.shape[n] for n in order], dtype=torch.bool)  # numbers are drawn as elements lie
    kept = torch.ops.aten.bernoulli.p(lying, 1 - p).permute([order.index(n) for n in range(input.dim())])
    return input * kept * (1 / (1 - p)), kept


DECOMPOSITIONS = {torch.ops.aten.native_dropout.default: native_dropout}
