"""Products of matrices."""

from __future__ import annotations

import numpy

import hlotool.numpy as np
from hlotool.ir import ELEMENT_TYPES
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.summation import einsum as sum_of_products
from hlotool.onnx.lowering import Context, lowering
from hlotool.onnx.ops.pieces import constant, in_f32, number

__all__ = ["as_columns", "as_rows", "centred", "integer_products", "wide_integers", "zero_point"]


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


def zero_point(c: Context, zero: Array | None) -> Array | None:
    """A zero point; None where it is known to be 0."""
    known = None if zero is None else c.known(zero)
    return None if known is not None and not known.any() else zero


def centred(c: Context, x: Array, zero: Array | None) -> tuple[Array, Array | None]:
    """Integers of eight bits with their zero point, which constants have taken off if they are such integers then."""
    zero = zero_point(c, zero)
    held, point = c.known(x), None if zero is None else c.known(zero)
    if held is None or point is None:
        return x, zero
    whole = held.astype(numpy.int32) - point.astype(numpy.int32).reshape(point.shape if point.size > 1 else ())
    fits = whole.shape == held.shape and whole.size and whole.min() >= -128 and whole.max() < 128
    return (constant(whole, "i1"), None) if fits else (x, zero)


def integer_products(c: Context, a: Array, a_zero: Array | None, b: Array, b_zero: Array | None) -> Array:
    """Products of matrices of integers less their zero points, in s32: of one for all, or for each row of `a` and each
    column of `b`.

    Zero points are taken off the sums, so that products are of integers of eight bits.  What is too large for s32 on
    the way there wraps, and so does what is taken off: sums that fit are right.
    """
    if min(a.ndim, b.ndim) < 2 or not all(ELEMENT_TYPES[hlo_type(one.dtype)].is_integer for one in (a, b)):
        left = wide_integers(a, a_zero, a.ndim - 2 if a.ndim > 1 else None)
        return np.matmul(left, wide_integers(b, b_zero, b.ndim - 1))
    b, b_zero = centred(c, b, b_zero)
    a_zero = zero_point(c, a_zero)
    left, right = np.astype(a, numpy.int32), np.astype(b, numpy.int32)
    total = np.matmul(left, right)
    row = None if a_zero is None else as_rows(np.astype(a_zero, numpy.int32))
    if row is not None:
        held = c.known(b)
        if held is None:
            sums = np.sum(right, axis=-2, dtype=numpy.int32, keepdims=True)
        else:
            sums = constant(held.astype(numpy.int32).sum(-2, numpy.int32, keepdims=True))
        total = total - row * sums
    if b_zero is not None:
        sums = np.sum(left, axis=-1, dtype=numpy.int32, keepdims=True)
        if row is not None:
            sums = sums - row * number(a.shape[-1], left)
        total = total - as_columns(np.astype(b_zero, numpy.int32)) * sums
    return total


def as_rows(value: Array) -> Array:
    """A number for each row of matrices, or for all."""
    if value.size == 1:
        return np.reshape(value, ())
    return np.reshape(value, (*value.shape, 1)) if value.ndim == 1 else value


def as_columns(value: Array) -> Array:
    return np.reshape(value, ()) if value.size == 1 else value


@lowering("MatMulInteger")
def matmul_integer(
    c: Context, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> Array:
    return integer_products(c, a, a_zero, b, b_zero)
