"""Pooling: the greatest, the mean or a norm of windows, of regions, or of all places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.ir.builder import binary_computation
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import hlo_type
from hlotool.numpy.padding import pad as pad_array
from hlotool.numpy.statistical import lowest
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering
from hlotool.onnx.ops.indexing import interpolated
from hlotool.onnx.ops.pieces import constant, in_f32, number
from hlotool.onnx.ops.windows import per_dimension, window_padding

__all__: list[str] = []

Sizes = Sequence[int]


class _Windows:
    """Where windows lie, by the attributes that pooling operators share."""

    def __init__(
        self, x: Array, kernel: Sizes, auto_pad: str, pads: Sizes | None, strides: Sizes | None,
        dilations: Sizes | None, ceil: int,
    ) -> None:  # fmt: skip
        count = x.ndim - 2
        self.kernel = tuple(kernel)
        self.stride, self.dilation = per_dimension(strides, count), per_dimension(dilations, count)
        if len(self.kernel) != count:
            raise Refused(f"a window of {len(self.kernel)} dimensions for {count}")
        self.padding = window_padding(auto_pad, pads, x.shape[2:], self.kernel, self.stride, self.dilation)
        self.outs, self.beyond = [], []
        for n, size in enumerate(x.shape[2:]):
            low, high = self.padding[n]
            span = (self.kernel[n] - 1) * self.dilation[n] + 1
            room = size + low + high - span
            out = (-(-room // self.stride[n]) if ceil else room // self.stride[n]) + 1
            if ceil and (out - 1) * self.stride[n] >= size + low:
                out -= 1  # the last window has to begin at an element, or in the padding before it
            self.outs.append(out)
            self.beyond.append(max(0, (out - 1) * self.stride[n] + span - size - low - high))

    def window(self, padded: bool = False) -> Window:
        """As HLO has it; of an array that is padded already if `padded`."""
        rows = [WindowDimension(1), WindowDimension(1)]
        for k, s, d, (low, high), more in zip(
            self.kernel, self.stride, self.dilation, self.padding, self.beyond, strict=True
        ):
            before, after = (0, more) if padded else (low, high + more)
            rows.append(WindowDimension(k, s, before, after, 1, d))
        return Window(tuple(rows))

    def reduce(self, x: Array, opcode: str, start: Any, padded: bool = False) -> Array:
        """The elements in each window brought together."""
        found = apply(
            "reduce-window", x, number(start, x), window=self.window(padded),
            to_apply=binary_computation(opcode, hlo_type(x.dtype)),
        )  # fmt: skip
        return found[tuple(slice(0, one) for one in (*x.shape[:2], *self.outs))]


@lowering("MaxPool")
def max_pool(
    c: Context, x: Array, *, kernel_shape: Sizes, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Sizes | None = None, pads: Sizes | None = None, storage_order: int = 0, strides: Sizes | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    windows = _Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    best = windows.reduce(x, "maximum", lowest(x.dtype))
    if not c.wants(1):
        return (best,)
    return best, _places(x, windows, storage_order)


def _places(x: Array, windows: _Windows, by_columns: int) -> Array:
    """The index of the greatest element of each window, in all of `x` as a vector."""
    pairs = ((0, 0), (0, 0), *((low, high + more) for (low, high), more in
                               zip(windows.padding, windows.beyond, strict=True)))  # fmt: skip
    wide = in_f32(x)
    padded = pad_array(wide, pairs, constant_values=number(lowest(wide.dtype), wide))
    sizes = x.shape
    order = (*sizes[:2], *reversed(sizes[2:])) if by_columns else sizes
    own = numpy.arange(x.size, dtype=numpy.int64).reshape(order)
    own = own.transpose(0, 1, *reversed(range(2, x.ndim))) if by_columns else own
    index = constant(numpy.pad(own, pairs))
    best = place = None
    for tap in product(*map(range, windows.kernel)):
        key = (slice(None), slice(None), *(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, windows.dilation, windows.outs, windows.stride, strict=True)
        ))  # fmt: skip
        value, here = padded[key], index[key]
        if best is None or place is None:
            best, place = value, here
        else:
            greater = value > best
            best, place = np.where(greater, value, best), np.where(greater, here, place)
    if place is None:
        raise Refused("a window without elements")
    return place


@lowering("AveragePool")
def average_pool(
    c: Context, x: Array, *, kernel_shape: Sizes, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Sizes | None = None, pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> Array:  # fmt: skip
    windows = _Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    wide = in_f32(x)
    total = windows.reduce(wide, "add", 0)
    ones = np.ones((1, 1, *x.shape[2:]), wide.dtype)
    if count_include_pad:
        ones = pad_array(ones, ((0, 0), (0, 0), *windows.padding), constant_values=1)
    counts = windows.reduce(ones, "add", 0, padded=bool(count_include_pad))
    return np.astype(total / counts, x.dtype)


@lowering("LpPool")
def lp_pool(
    c: Context, x: Array, *, kernel_shape: Sizes, auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Sizes | None = None, p: float = 2, pads: Sizes | None = None, strides: Sizes | None = None,
) -> Array:  # fmt: skip
    windows = _Windows(x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    wide = np.abs(in_f32(x))
    return np.astype(_root(windows.reduce(np.power(wide, float(p)), "add", 0), p), x.dtype)


def _root(x: Array, p: float) -> Array:
    return np.sqrt(x) if p == 2 else np.power(x, 1 / p)


def _places_of(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@lowering("GlobalAveragePool")
def global_average_pool(c: Context, x: Array) -> Array:
    return np.astype(np.mean(in_f32(x), axis=_places_of(x), keepdims=True), x.dtype)


@lowering("GlobalMaxPool")
def global_max_pool(c: Context, x: Array) -> Array:
    return np.max(x, axis=_places_of(x), keepdims=True)


@lowering("GlobalLpPool")
def global_lp_pool(c: Context, x: Array, *, p: float = 2) -> Array:
    total = np.sum(np.power(np.abs(in_f32(x)), float(p)), axis=_places_of(x), keepdims=True)
    return np.astype(_root(total, p), x.dtype)


@lowering("MaxUnpool")
def max_unpool(
    c: Context, x: Array, places: Array, output_shape: Array | None = None, *, kernel_shape: Sizes,
    pads: Sizes | None = None, strides: Sizes | None = None,
) -> Array:  # fmt: skip
    """The elements put back to `places`, which are indices in the unpooled array as a vector."""
    count = x.ndim - 2
    stride = per_dimension(strides, count)
    padding = window_padding("NOTSET", pads, x.shape[2:], kernel_shape, stride, (1,) * count)
    own = [
        (size - 1) * s - low - high + k
        for size, s, (low, high), k in zip(x.shape[2:], stride, padding, kernel_shape, strict=True)
    ]
    sizes = (*x.shape[:2], *own)
    flat = np.zeros((int(numpy.prod(sizes)),), x.dtype)
    found = np.reshape(flat.at[np.reshape(places, (-1,))].set(np.reshape(x, (-1,))), sizes)
    if output_shape is None:
        return found
    wanted = c.ints(output_shape, "the output's shape")
    return pad_array(found, tuple((0, want - have) for want, have in zip(wanted, sizes, strict=True)))


@lowering("MaxRoiPool")
def max_roi_pool(c: Context, x: Array, rois: Array, *, pooled_shape: Sizes, spatial_scale: float = 1.0) -> Array:
    """The greatest element of each bin of each region; 0 of a bin without elements."""
    height, width = x.shape[2:]
    scaled = np.round(rois[:, 1:] * number(spatial_scale, rois))
    images = np.take(x, np.astype(rois[:, 0], numpy.int64), axis=0)  # regions, channels, height, width
    masks = []
    for start, end, bins, size in (
        (scaled[:, 1], scaled[:, 3], pooled_shape[0], height),
        (scaled[:, 0], scaled[:, 2], pooled_shape[1], width),
    ):
        extent = np.maximum(end - start + number(1, rois), number(1, rois)) / number(bins, rois)
        steps = constant(numpy.arange(bins).reshape(1, -1), rois.dtype)
        low = np.floor(steps * extent[:, None]) + start[:, None]
        high = np.ceil((steps + number(1, rois)) * extent[:, None]) + start[:, None]
        place = constant(numpy.arange(size).reshape(1, 1, -1), rois.dtype)
        masks.append(np.logical_and(place >= low[:, :, None], place < high[:, :, None]))
    rows, columns = masks  # regions, bins, places
    least = number(lowest(x.dtype), x)
    by_column = np.max(np.where(columns[:, None, None], images[:, :, :, None], least), axis=-1)  # r c h bins
    turned = np.swapaxes(by_column, 2, 3)[:, :, None]  # r c 1 bins_w h
    found = np.max(np.where(rows[:, None, :, None], turned, least), axis=-1)
    return np.where(found == least, number(0, x), found)


@lowering("RoiAlign")
def roi_align(
    c: Context, x: Array, rois: Array, batches: Array, *, coordinate_transformation_mode: str | None = None,
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:  # fmt: skip
    """Samples between elements, of a grid in each bin of each region."""
    usual = "half_pixel" if c.version >= 16 else "output_half_pixel"
    half = (coordinate_transformation_mode or usual) == "half_pixel"
    boxes = in_f32(rois) * constant(spatial_scale, "f4") - constant(0.5 if half else 0.0, "f4")
    start = (boxes[:, 1], boxes[:, 0])
    extent = [boxes[:, 3] - boxes[:, 1], boxes[:, 2] - boxes[:, 0]]
    if not half:
        extent = [np.maximum(one, constant(1, "f4")) for one in extent]
    outs = (output_height, output_width)
    if sampling_ratio > 0:
        samples = [(sampling_ratio, sampling_ratio)] * rois.shape[0]
    else:
        known = [c.static(one, "the number of samples (sampling_ratio is 0)") for one in extent]
        counts_of = [numpy.maximum(1, numpy.ceil(one / out)).astype(int) for one, out in zip(known, outs, strict=True)]
        samples = list(zip(*(one.tolist() for one in counts_of), strict=True))
    images = np.take(in_f32(x), np.astype(batches, numpy.int64), axis=0)
    found: list[Any] = [None] * rois.shape[0]
    for counts in dict.fromkeys(samples):  # regions with as many samples, together
        chosen = [n for n, one in enumerate(samples) if one == counts]
        pick = constant(numpy.asarray(chosen, numpy.int64))
        grid = []
        for d in (0, 1):
            share = (numpy.arange(outs[d] * counts[d]) + 0.5) / counts[d] / outs[d]
            place = np.take(start[d], pick, axis=0)[:, None] + np.take(extent[d], pick, axis=0)[:, None] * constant(
                share.reshape(1, -1), "f4"
            )
            grid.append(place[:, :, None] if d == 0 else place[:, None, :])
        wide = np.broadcast_arrays(*grid)
        read = interpolated(np.take(images, pick, axis=0), wide, "roi", maximum=mode == "max")
        parts = np.reshape(read, (len(chosen), x.shape[1], outs[0], counts[0], outs[1], counts[1]))
        pooled = np.max(parts, axis=(3, 5)) if mode == "max" else np.mean(parts, axis=(3, 5))
        for n, one in enumerate(chosen):
            found[one] = pooled[n]
    return np.astype(np.stack(found, axis=0), x.dtype)
