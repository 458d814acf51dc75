"""Normalisation of batches, layers, groups and instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hlotool.numpy as np
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.builder import binary_computation
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.pieces import in_f32, number

__all__: list[str] = []


def _by_channel(value: Array, x: Array) -> Array:
    """A vector along the second dimension of `x`, in the type that it is computed in."""
    return np.reshape(np.astype(value, in_f32(x).dtype), (-1, *(1,) * (x.ndim - 2)))


def _normal(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """`x` with mean 0 and variance 1 over `axes`; the mean, and one over the deviation."""
    mean = np.mean(x, axis=tuple(axes), keepdims=True)
    rest = x - mean
    inverse = apply("rsqrt", np.mean(rest * rest, axis=tuple(axes), keepdims=True) + number(epsilon, x))
    return rest * inverse, mean, inverse


@lowering("BatchNormalization")
def batch_normalization(
    c: Context, x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, is_test: int = 1, consumed_inputs: Any = None,
) -> tuple[Array, ...]:  # fmt: skip
    if not spatial:
        raise Refused("statistics of each place (spatial = 0)")
    wide = in_f32(x)
    if training_mode:
        axes = (0, *range(2, x.ndim))
        own, spread = np.mean(wide, axis=axes), np.var(wide, axis=axes)
        keep = number(momentum, wide)
        rest = number(1 - momentum, wide)
        after = [
            np.astype(np.astype(old, wide.dtype) * keep + new * rest, old.dtype)
            for old, new in ((mean, own), (variance, spread))
        ]
        mean, variance = own, spread
    factor = _by_channel(scale, x) * apply("rsqrt", _by_channel(variance, x) + number(epsilon, wide))
    found = np.astype((wide - _by_channel(mean, x)) * factor + _by_channel(bias, x), x.dtype)
    return (found, *after)[: len(c.wanted)] if training_mode else (found,)


@lowering("InstanceNormalization")
def instance_normalization(
    c: Context, x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5, consumed_inputs: Any = None
) -> Array:
    normal, _, _ = _normal(in_f32(x), range(2, x.ndim), epsilon)
    return np.astype(normal * _by_channel(scale, x) + _by_channel(bias, x), x.dtype)


@lowering("LayerNormalization")
def layer_normalization(
    c: Context, x: Array, scale: Array, bias: Array | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Array, ...]:  # fmt: skip
    (first,) = normal_axes([axis], x.ndim)
    normal, mean, inverse = _normal(in_f32(x), range(first, x.ndim), epsilon)
    found = np.astype(normal, x.dtype) * scale
    return (found if bias is None else found + bias, mean, inverse)[: max(1, len(c.wanted))]


@lowering("RMSNormalization")
def rms_normalization(
    c: Context, x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    (first,) = normal_axes([axis], x.ndim)
    wide = in_f32(x)
    square = np.mean(wide * wide, axis=tuple(range(first, x.ndim)), keepdims=True)
    normal = wide * apply("rsqrt", square + number(epsilon, wide))
    return np.astype(np.astype(normal, x.dtype) * scale, scale.dtype)


@lowering("GroupNormalization")
def group_normalization(
    c: Context, x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    """Scale and bias are those of channels, before version 21 of groups."""
    wide = in_f32(x)
    parts = np.reshape(wide, (x.shape[0], num_groups, -1))
    normal = np.reshape(_normal(parts, (2,), epsilon)[0], x.shape)
    if scale.shape[0] != x.shape[1]:
        scale, bias = (np.repeat(one, x.shape[1] // num_groups) for one in (scale, bias))
    return np.astype(normal * _by_channel(scale, x) + _by_channel(bias, x), x.dtype)


@lowering("LRN")
def lrn(c: Context, x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """Divided by the squares of channels near by."""
    wide = in_f32(x)
    before = (size - 1) // 2
    rows = [WindowDimension(1) for _ in range(x.ndim)]
    rows[1] = WindowDimension(size, 1, before, size - 1 - before)
    total = apply(
        "reduce-window", wide * wide, number(0, wide), window=Window(tuple(rows)),
        to_apply=binary_computation("add", hlo_type(wide.dtype)),
    )  # fmt: skip
    base = number(bias, wide) + number(alpha / size, wide) * total
    return np.astype(wide / np.power(base, number(beta, wide)), x.dtype)


@lowering("LpNormalization")
def lp_normalization(c: Context, x: Array, *, axis: int = -1, p: int = 2) -> Array:
    wide = in_f32(x)
    if p == 1:
        norm = np.sum(np.abs(wide), axis=axis, keepdims=True)
    else:
        norm = np.sqrt(np.sum(wide * wide, axis=axis, keepdims=True))
    zero = number(0, wide)
    return np.astype(np.where(norm == zero, zero, wide / norm), x.dtype)


@lowering("MeanVarianceNormalization")
def mean_variance_normalization(c: Context, x: Array, *, axes: Sequence[int] = (0, 2, 3)) -> Array:
    wide = in_f32(x)
    places = normal_axes(axes, x.ndim)
    rest = wide - np.mean(wide, axis=places, keepdims=True)
    deviation = np.sqrt(np.mean(rest * rest, axis=places, keepdims=True))
    return np.astype(rest / (deviation + number(1e-9, wide)), x.dtype)
