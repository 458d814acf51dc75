"""Quantised numbers: to and from them, and products of them.

A value is ``(quantised - zero point) * scale``.  Scales are one for all, one for each index along an axis, or one for
each block of elements along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir import ELEMENT_TYPES, element_type_of
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.casting import cast_to
from hlotool.onnx.ops.convolutions import integer_convolution
from hlotool.onnx.ops.pieces import constant, in_f32, number
from hlotool.onnx.ops.products import as_columns, as_rows, integer_products
from hlotool.onnx.tensors import dtype_of_tensor

__all__: list[str] = []


def _spread(value: Array, x: Array, axis: int, block: int) -> Array:
    """A scale or zero point such that it broadcasts to `x`."""
    if value.size == 1:
        return np.reshape(value, ())
    (place,) = normal_axes([axis], x.ndim)
    if not block:
        sizes = [1] * x.ndim
        sizes[place] = value.shape[0]
        return np.reshape(value, tuple(sizes))
    repeated = np.repeat(value, block, axis=place)
    return repeated[tuple(slice(0, one) for one in x.shape)]


def _bounds(dtype: numpy.dtype[Any]) -> tuple[float, float]:
    """The least and greatest number of an integer type, or float of 8 bits and fewer."""
    row = ELEMENT_TYPES[element_type_of(dtype)]
    if row.is_float:
        most = np.finfo(dtype).max
        return -most, most
    if row.kind == "signed":
        return -float(2 ** (row.bits - 1)), float(2 ** (row.bits - 1) - 1)
    return 0.0, float(2**row.bits - 1)


def quantised(x: Array, scale: Array, zero: Array | None, dtype: numpy.dtype[Any], saturate: bool = True) -> Array:
    """`x` rounded to multiples of `scale`, to even, in `dtype`; all of shapes that broadcast."""
    divided = x / scale
    if ELEMENT_TYPES[element_type_of(dtype)].is_float:
        shifted = divided if zero is None else divided + np.astype(zero, divided.dtype)
        return cast_to(shifted, dtype, saturate)
    whole = apply("round-nearest-even", divided)
    if zero is not None:
        whole = whole + np.astype(zero, whole.dtype)
    low, high = _bounds(dtype)
    inside = np.minimum(np.maximum(whole, number(low, whole)), number(high, whole))
    return np.astype(np.astype(inside, numpy.int32), dtype)


@lowering("QuantizeLinear")
def quantize_linear(
    c: Context, x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Array:  # fmt: skip
    wanted = zero.dtype if zero is not None else dtype_of_tensor(output_dtype) if output_dtype else numpy.dtype("u1")
    if hlo_type(wanted) == "f8e8m0fnu":
        raise Refused("quantisation to float8e8m0")
    kind = dtype_of_tensor(precision) if precision else None
    wide, by = in_f32(x), in_f32(scale)
    if kind is not None and kind.itemsize == 8:
        wide, by = np.astype(wide, kind), np.astype(by, kind)
    elif wide.dtype != by.dtype:
        wide, by = np.astype(wide, numpy.float32), np.astype(by, numpy.float32)
    point = None if zero is None else _spread(zero, x, axis, block_size)
    return quantised(wide, _spread(by, x, axis, block_size), point, wanted, bool(saturate))


@lowering("DequantizeLinear")
def dequantize_linear(
    c: Context, x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Array:  # fmt: skip
    wanted = dtype_of_tensor(output_dtype) if output_dtype else scale.dtype
    by = np.astype(scale, numpy.float32)
    if ELEMENT_TYPES[hlo_type(x.dtype)].is_integer:
        wide = np.astype(x, numpy.int32)
        if zero is not None:
            wide = wide - np.astype(_spread(zero, x, axis, block_size), numpy.int32)
    else:
        wide = x
    return np.astype(np.astype(wide, numpy.float32) * _spread(by, x, axis, block_size), wanted)


@lowering("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Context, x: Array) -> tuple[Array, Array, Array]:
    zero, most = number(0, x), number(255, x)
    low, high = np.minimum(np.min(x), zero), np.maximum(np.max(x), zero)
    scale = (high - low) / most
    safe = np.where(scale == zero, number(1, x), scale)
    point = np.astype(apply("round-nearest-even", np.minimum(np.maximum(-low / safe, zero), most)), numpy.uint8)
    return quantised(x, safe, point, numpy.dtype("u1")), scale, point


def _requantised(total: Array, factor: Array, zero: Array, dtype: numpy.dtype[Any]) -> Array:
    """Sums of integers times `factor`, as quantised numbers."""
    return quantised(np.astype(total, numpy.float32) * factor, constant(1, "f4"), zero, dtype)


@lowering("QLinearMatMul")
def qlinear_matmul(
    c: Context, a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, y_scale: Array,
    y_zero: Array,
) -> Array:  # fmt: skip
    total = integer_products(c, a, a_zero, b, b_zero)
    scales = [np.astype(one, numpy.float32) for one in (a_scale, b_scale, y_scale)]
    factor = as_rows(scales[0]) * as_columns(scales[1]) / as_rows(scales[2])
    return _requantised(total, factor, as_rows(y_zero), y_zero.dtype)


@lowering("QLinearConv")
def qlinear_conv(
    c: Context, x: Array, x_scale: Array, x_zero: Array, w: Array, w_scale: Array, w_zero: Array, y_scale: Array,
    y_zero: Array, bias: Array | None = None, *, auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None,
    group: int = 1, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:  # fmt: skip
    total = integer_convolution(
        c, x, x_zero, w, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    channels = (-1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = total + np.reshape(bias, channels)
    weight = np.reshape(w_scale, ()) if w_scale.size == 1 else np.reshape(w_scale, channels)
    factor = np.reshape(x_scale, ()) * weight / np.reshape(y_scale, ())
    return _requantised(total, factor, np.reshape(y_zero, ()), y_zero.dtype)
