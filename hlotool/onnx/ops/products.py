"""Products of matrices."""

from __future__ import annotations

import numpy

import hlotool.numpy as np
from hlotool.ir import ELEMENT_TYPES
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.summation import einsum as sum_of_products
from hlotool.onnx.lowering import Context, lowering
from hlotool.onnx.ops.pieces import in_f32, number

__all__ = ["wide_integers"]


@lowering("MatMul")
def matmul(c: Context, a: Array, b: Array) -> Array:
    return np.astype(np.matmul(in_f32(a), in_f32(b)), a.dtype)


@lowering("Gemm")
def gemm(
    c: Context, a: Array, b: Array, bias: Array | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0, broadcast: int = 0,  # noqa: N803  # names of the format
) -> Array:  # fmt: skip
    left, right = in_f32(a), in_f32(b)
    found = np.matmul(left.T if transA else left, right.T if transB else right)
    if alpha != 1:
        found = found * number(alpha, found)
    if bias is not None and beta:
        extra = in_f32(bias)
        found = found + (extra if beta == 1 else extra * number(beta, extra))
    return np.astype(found, a.dtype)


@lowering("Einsum")
def einsum(c: Context, *operands: Array, equation: str) -> Array:
    found = sum_of_products(equation.replace(" ", ""), *map(in_f32, operands))
    return np.astype(found, operands[0].dtype)


@lowering("Det")
def det(c: Context, x: Array) -> Array:
    return np.astype(np.linalg.det(in_f32(x)), x.dtype)


def wide_integers(x: Array, zero: Array | None, axis: int | None = None) -> Array:
    """Integers less their zero point, as s32; a zero point for each index is along `axis`."""
    wide = np.astype(x, numpy.int32) if ELEMENT_TYPES[hlo_type(x.dtype)].is_integer else x
    if zero is None:
        return wide
    point = np.astype(zero, wide.dtype)
    if axis is not None and point.ndim == 1 and point.shape[0] > 1:
        sizes = [1] * x.ndim
        sizes[axis] = point.shape[0]
        point = np.reshape(point, tuple(sizes))
    elif point.size == 1:
        point = np.reshape(point, ())
    return wide - point


@lowering("MatMulInteger")
def matmul_integer(
    c: Context, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> Array:
    left = wide_integers(a, a_zero, a.ndim - 2 if a.ndim > 1 else None)
    return np.matmul(left, wide_integers(b, b_zero, b.ndim - 1))
