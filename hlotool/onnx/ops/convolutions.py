"""Convolutions of arrays [batch, channels, places...]: plain, transposed, deformable, and of integers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir.attributes import ConvDimensionNumbers, Window, WindowDimension
from hlotool.numpy.array import Array
from hlotool.numpy.padding import pad
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering
from hlotool.onnx.ops.indexing import interpolated
from hlotool.onnx.ops.pieces import constant, in_f32
from hlotool.onnx.ops.products import centred, wide_integers, zero_point
from hlotool.onnx.ops.windows import per_dimension, window_padding

__all__ = ["integer_convolution"]

Sizes = Sequence[int]


def _convolution(base: Array, kernel: Array, window: Sequence[WindowDimension], groups: int) -> Array:
    """Kernels are [channels out, channels in / groups, places...]."""
    places = tuple(range(2, base.ndim))
    numbers = ConvDimensionNumbers(0, 1, places, 1, 0, places, 0, 1, places)
    attributes: dict[str, Any] = {"window": Window(tuple(window)), "dim_labels": numbers}
    if groups != 1:
        attributes["feature_group_count"] = groups
    return apply("convolution", base, kernel, **attributes)


def convolved(
    x: Array, w: Array, *, auto_pad: str = "NOTSET", dilations: Sizes | None = None, group: int = 1,
    kernel_shape: Sizes | None = None, pads: Sizes | None = None, strides: Sizes | None = None,
) -> Array:  # fmt: skip
    """A convolution with the attributes of Conv."""
    count = x.ndim - 2
    if count < 0 or w.ndim != x.ndim or (kernel_shape and tuple(kernel_shape) != w.shape[2:]):
        raise Refused(f"weights {list(w.shape)} for an input {list(x.shape)}")
    stride, dilation = per_dimension(strides, count), per_dimension(dilations, count)
    padding = window_padding(auto_pad, pads, x.shape[2:], w.shape[2:], stride, dilation)
    window = [
        WindowDimension(k, s, low, high, 1, d)
        for k, s, (low, high), d in zip(w.shape[2:], stride, padding, dilation, strict=True)
    ]
    return _convolution(x, w, window, group)


def integer_convolution(
    c: Context, x: Array, x_zero: Array | None, w: Array, w_zero: Array | None, *, auto_pad: str,
    dilations: Sizes | None, group: int, kernel_shape: Sizes | None, pads: Sizes | None, strides: Sizes | None,
) -> Array:  # fmt: skip
    """A convolution of integers less their zero points, in s32; weights may have one for each channel.

    The zero point of the input is taken off the sums, so that products are of integers of eight bits: where windows
    reach beyond the input they meet it, too.
    """
    w, w_zero = centred(c, w, _zero_of_channels(w, w_zero))
    x_zero = zero_point(c, x_zero)
    given: dict[str, Any] = {"dilations": dilations, "group": group, "kernel_shape": kernel_shape, "strides": strides}
    if w_zero is not None or x_zero is None or w.ndim != x.ndim:
        left, right = wide_integers(x, x_zero), wide_integers(w, w_zero)
        return convolved(left, right, auto_pad=auto_pad, pads=pads, **given)
    count = x.ndim - 2
    stride, dilation = per_dimension(strides, count), per_dimension(dilations, count)
    around = window_padding(auto_pad, pads, x.shape[2:], w.shape[2:], stride, dilation)
    if any(one < 0 for pair in around for one in pair):
        return convolved(wide_integers(x, x_zero), wide_integers(w, None), auto_pad=auto_pad, pads=pads, **given)
    point = np.reshape(x_zero, ())
    bordered = pad(x, [(0, 0), (0, 0), *around], constant_values=point) if any(map(any, around)) else x
    wide = np.astype(w, numpy.int32)
    total = convolved(np.astype(bordered, numpy.int32), wide, auto_pad="NOTSET", pads=None, **given)
    held, axes = c.known(w), tuple(range(1, w.ndim))
    sums = np.sum(wide, axis=axes, dtype=numpy.int32) if held is None else constant(
        held.astype(numpy.int32).sum(axes, numpy.int32)
    )
    return total - np.reshape(sums, (-1, *(1,) * count)) * np.astype(point, numpy.int32)


def _zero_of_channels(w: Array, zero: Array | None) -> Array | None:
    """A zero point for each of the first dimension of weights, such that it broadcasts."""
    return zero if zero is None or zero.size == 1 else np.reshape(zero, (-1, *(1,) * (w.ndim - 1)))


def _with_bias(found: Array, bias: Array | None) -> Array:
    return found if bias is None else found + np.reshape(bias, (-1, *(1,) * (found.ndim - 2)))


@lowering("Conv")
def conv(
    c: Context, x: Array, w: Array, bias: Array | None = None, *, auto_pad: str = "NOTSET",
    dilations: Sizes | None = None, group: int = 1, kernel_shape: Sizes | None = None, pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Array:  # fmt: skip
    found = convolved(
        in_f32(x), in_f32(w), auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    return np.astype(_with_bias(found, None if bias is None else in_f32(bias)), x.dtype)


@lowering("ConvInteger")
def conv_integer(
    c: Context, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, *,
    auto_pad: str = "NOTSET", dilations: Sizes | None = None, group: int = 1, kernel_shape: Sizes | None = None,
    pads: Sizes | None = None, strides: Sizes | None = None,
) -> Array:  # fmt: skip
    return integer_convolution(
        c, x, x_zero, w, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip


@lowering("ConvTranspose")
def conv_transpose(
    c: Context, x: Array, w: Array, bias: Array | None = None, *, auto_pad: str = "NOTSET",
    dilations: Sizes | None = None, group: int = 1, kernel_shape: Sizes | None = None,
    output_padding: Sizes | None = None, output_shape: Sizes | None = None, pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Array:  # fmt: skip
    """Weights are [channels in, channels out / groups, places...]."""
    count = x.ndim - 2
    stride, dilation = per_dimension(strides, count), per_dimension(dilations, count)
    extra = per_dimension(output_padding, count, 0)
    sizes, kernel = x.shape[2:], w.shape[2:]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        given = output_shape[-count:] if output_shape else [one * s for one, s in zip(sizes, stride, strict=True)]
        padding = []
        for n, want in enumerate(given):
            total = stride[n] * (sizes[n] - 1) + extra[n] + spans[n] - want
            if total < 0:  # larger than what windows reach
                extra, total = (*extra[:n], extra[n] - total, *extra[n + 1 :]), 0
            half = total // 2
            padding.append((half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half))
    else:
        padding = window_padding(auto_pad, pads, sizes, kernel, stride, dilation)
    window = []
    for n in range(count):
        low, high = padding[n]
        before, after = spans[n] - 1 - low, spans[n] - 1 - high + extra[n]
        window.append(WindowDimension(kernel[n], 1, before, after, stride[n], dilation[n], reversal=True))
    into, out = w.shape[:2]
    grouped = np.reshape(in_f32(w), (group, into // group, out, *kernel))
    turned = np.reshape(np.swapaxes(grouped, 1, 2), (group * out, into // group, *kernel))
    found = _convolution(in_f32(x), turned, window, group)
    return np.astype(_with_bias(found, None if bias is None else in_f32(bias)), x.dtype)


@lowering("DeformConv")
def deform_conv(
    c: Context, x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None, *,
    dilations: Sizes | None = None, group: int = 1, kernel_shape: Sizes | None = None, offset_group: int = 1,
    pads: Sizes | None = None, strides: Sizes | None = None,
) -> Array:  # fmt: skip
    """A convolution each of whose taps reads where `offset` moves it to, between elements."""
    count = x.ndim - 2
    stride, dilation = per_dimension(strides, count), per_dimension(dilations, count)
    padding = window_padding("NOTSET", pads, x.shape[2:], w.shape[2:], stride, dilation)
    taps = list(product(*map(range, w.shape[2:])))
    batch, channels, outs = x.shape[0], x.shape[1], offset.shape[2:]
    moves = np.reshape(in_f32(offset), (batch, offset_group, len(taps), count, *outs))
    spread = np.reshape(in_f32(x), (batch, offset_group, channels // offset_group, *x.shape[2:]))
    columns = []
    for tap, place in enumerate(taps):
        grid = []
        for d in range(count):
            start = numpy.arange(outs[d]) * stride[d] - padding[d][0] + place[d] * dilation[d]
            shape = [1] * count
            shape[d] = outs[d]
            grid.append(moves[:, :, tap, d] + constant(start.reshape(shape), moves.dtype))
        read = interpolated(spread, grid, "zeros")
        if mask is not None:
            weight = np.reshape(in_f32(mask), (batch, offset_group, 1, len(taps), *outs))[:, :, :, tap]
            read = read * weight
        columns.append(np.reshape(read, (batch, channels, *outs)))
    stacked = np.stack(columns, axis=2)  # batch, channels, taps, outs
    own = channels // group
    rows = np.reshape(stacked, (batch, group, own * len(taps), prod(outs)))
    kernel = np.reshape(in_f32(w), (group, w.shape[0] // group, own * len(taps)))
    found = np.reshape(np.matmul(kernel, rows), (batch, w.shape[0], *outs))
    return np.astype(_with_bias(found, None if bias is None else in_f32(bias)), x.dtype)


@lowering("Col2Im")
def col2im(
    c: Context, x: Array, image: Array, block: Array, *, dilations: Sizes | None = None, pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Array:  # fmt: skip
    """Columns put back where they came from, and added where several meet."""
    sizes, kernel = c.ints(image, "the image's shape"), c.ints(block, "the block's shape")
    count = len(sizes)
    stride, dilation = per_dimension(strides, count), per_dimension(dilations, count)
    padding = window_padding("NOTSET", pads, sizes, kernel, stride, dilation)
    outs = [
        (size + low + high - (k - 1) * d - 1) // s + 1
        for size, (low, high), k, d, s in zip(sizes, padding, kernel, dilation, stride, strict=True)
    ]
    batch, channels = x.shape[0], x.shape[1] // prod(kernel)
    parts = np.reshape(x, (batch, channels, prod(kernel), *outs))
    whole = [size + low + high for size, (low, high) in zip(sizes, padding, strict=True)]
    total = np.zeros((batch, channels, *whole), x.dtype)
    for tap, place in enumerate(product(*map(range, kernel))):
        key = tuple(
            slice(p * d, p * d + (o - 1) * s + 1, s)
            for p, d, o, s in zip(place, dilation, outs, stride, strict=True)
        )
        total = total.at[(slice(None), slice(None), *key)].add(parts[:, :, tap])
    inside = tuple(slice(low, low + size) for size, (low, _) in zip(sizes, padding, strict=True))
    return total[(slice(None), slice(None), *inside)]


