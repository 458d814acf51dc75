"""Layers of ``torch.nn`` that PyTorch has as one operation for inference: attention of several heads, and an encoder
around it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

__all__ = ["DECOMPOSITIONS"]

_OF_PAIRS, _OF_KEYS = 0, 1
"""Kinds of masks: for every query and key, or for the keys of each sequence; others are of all four dimensions."""


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    if query is key and key is value:
        return tuple(functional.linear(query, weight, bias).chunk(3, -1))
    rows = zip((query, key, value), weight.chunk(3), bias.chunk(3), strict=True)
    return tuple(functional.linear(*row) for row in rows)


def _shares(scores: Any, mask: Any, kind: int | None) -> Any:
    """Softmax over the keys that are not masked."""
    if mask is None:
        return scores.softmax(-1)
    left_out = mask.to(torch.bool)
    if kind == _OF_KEYS:
        left_out = left_out[:, None, None, :]
    elif kind == _OF_PAIRS:
        left_out = left_out[None, None]
    return torch.where(left_out, -math.inf, scores).softmax(-1)


def _attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    if query.is_nested or not query.numel():
        return NotImplemented
    batch, length, width = query.shape
    parts = _projected(query, key, value, qkv_weight, qkv_bias)
    q, k, v = (one.reshape(batch, -1, num_head, width // num_head).transpose(1, 2) for one in parts)
    shares = _shares((q / math.sqrt(width // num_head)) @ k.transpose(-2, -1), mask, mask_type)
    found = (shares @ v).transpose(1, 2).reshape(batch, length, width)
    weights = None
    if need_weights:
        weights = shares.mean(1) if average_attn_weights else shares
    return functional.linear(found, proj_weight, proj_bias), weights


def _layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
    norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    if src.is_nested or not src.numel():
        return NotImplemented

    def attended(x: Any) -> Any:
        arguments = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False)
        return _attention(x, x, x, *arguments, mask_type=mask_type)[0]

    def widened(x: Any) -> Any:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    norms = ((norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2))
    x = src
    for step, norm in zip((attended, widened), norms, strict=True):
        if norm_first:
            x = x + step(functional.layer_norm(x, (embed_dim,), *norm, eps))
        else:
            x = functional.layer_norm(x + step(x), (embed_dim,), *norm, eps)
    return x


DECOMPOSITIONS = {
    torch.ops.aten._native_multi_head_attention.default: _attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _layer,
}
