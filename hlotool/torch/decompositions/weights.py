"""Weights made of a direction and a length (``weight_norm``): the gradients by both.

With the direction v and the length g, rows of the weight are ``w = g v / |v|`` (T. Salimans, D. P. Kingma, 2016).
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["DECOMPOSITIONS"]


def _backward(grad_w: Any, saved_v: Any, saved_g: Any, saved_norms: Any, dim: int) -> tuple[Any, Any]:
    over = [d for d in range(saved_v.dim()) if d != dim % saved_v.dim()]
    norms = saved_norms.to(grad_w.dtype)
    by_length = (grad_w * saved_v).sum(over, keepdim=True) / norms
    return saved_g / norms * (grad_w - saved_v * by_length / norms), by_length.to(saved_g.dtype)


DECOMPOSITIONS = {torch.ops.aten._weight_norm_interface_backward.default: _backward}
