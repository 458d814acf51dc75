"""Random numbers: the same in every run of a module, by the seed of the node or else by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.onnx.lowering import Context, lowering
from hlotool.onnx.ops.pieces import in_f32, number
from hlotool.onnx.tensors import dtype_of_tensor

__all__: list[str] = []


def _key(c: Context, seed: float | None) -> Array:
    """A key: of the bits of a seed, or of the node's name."""
    if seed is None:
        return np.random.key(crc32(c.name.encode()))
    return np.random.key(int(numpy.float32(seed).view(numpy.uint32)))


def _uniform(key: Array, shape: Sequence[int], dtype: Any, low: float, high: float) -> Array:
    drawn = np.random.uniform(key, tuple(shape), dtype="float64" if numpy.dtype(dtype).itemsize == 8 else "float32")
    return np.astype(drawn * number(high - low, drawn) + number(low, drawn), dtype)


def _normal(key: Array, shape: Sequence[int], dtype: Any, mean: float, scale: float) -> Array:
    drawn = np.random.normal(key, tuple(shape), dtype="float64" if numpy.dtype(dtype).itemsize == 8 else "float32")
    return np.astype(drawn * number(scale, drawn) + number(mean, drawn), dtype)


@lowering("RandomUniform")
def random_uniform(
    c: Context, *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return _uniform(_key(c, seed), shape, dtype_of_tensor(dtype), low, high)


@lowering("RandomUniformLike")
def random_uniform_like(
    c: Context, x: Array, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Array:
    return _uniform(_key(c, seed), x.shape, x.dtype if dtype is None else dtype_of_tensor(dtype), low, high)


@lowering("RandomNormal")
def random_normal(
    c: Context, *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Array:  # fmt: skip
    return _normal(_key(c, seed), shape, dtype_of_tensor(dtype), mean, scale)


@lowering("RandomNormalLike")
def random_normal_like(
    c: Context, x: Array, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Array:
    return _normal(_key(c, seed), x.shape, x.dtype if dtype is None else dtype_of_tensor(dtype), mean, scale)


@lowering("Bernoulli")
def bernoulli(c: Context, x: Array, *, dtype: int | None = None, seed: float | None = None) -> Array:
    wide = in_f32(x)
    drawn = _uniform(_key(c, seed), x.shape, wide.dtype, 0.0, 1.0)
    return np.astype(drawn < wide, x.dtype if dtype is None else dtype_of_tensor(dtype))


@lowering("Multinomial")
def multinomial(
    c: Context, x: Array, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Array:
    """Classes drawn by their logarithms of odds: the greatest of these with noise of Gumbel's distribution."""
    wide = in_f32(x)
    drawn = _uniform(_key(c, seed), (x.shape[0], sample_size, x.shape[1]), wide.dtype, 1e-20, 1.0)
    noisy = wide[:, None] - np.log(-np.log(drawn))
    return np.astype(np.argmax(noisy, axis=-1), dtype_of_tensor(dtype))
