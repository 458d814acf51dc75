"""Operators about shapes: other shapes and orders of the same elements, parts of arrays, and arrays made of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy

import hlotool.numpy as np
from hlotool.ir.attributes import SliceDimension
from hlotool.numpy.array import Array
from hlotool.numpy.padding import pad as pad_array
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.pieces import constant, number
from hlotool.onnx.tensors import dtype_of_tensor

__all__ = ["sliced"]


@lowering("Constant")
def constant_node(
    c: Context, *, value: Any = None, sparse_value: Any = None, value_float: float | None = None,
    value_floats: Any = None, value_int: int | None = None, value_ints: Any = None, value_string: str | None = None,
    value_strings: Any = None,
) -> Any:  # fmt: skip
    found = value if value is not None else sparse_value
    if found is None:
        rows = ((value_float, "f4"), (value_floats, "f4"), (value_int, "i8"), (value_ints, "i8"))
        found = next((numpy.asarray(one, dtype) for one, dtype in rows if one is not None), None)
    if found is None:
        return numpy.asarray(value_string if value_string is not None else value_strings, object)
    return found if found.dtype.kind in "OSU" else constant(found)


@lowering("ConstantOfShape")
def constant_of_shape(c: Context, shape: Array, *, value: Any = None) -> Array:
    fill = numpy.zeros(1, numpy.float32) if value is None else value
    return np.broadcast_to(constant(fill.reshape(())), c.ints(shape, "the shape"))


@lowering("Shape")
def shape(c: Context, x: Array, *, start: int = 0, end: int | None = None) -> Array:
    _check_static(x)
    return constant(x.shape[slice(start, end)], numpy.int64)


@lowering("Size")
def size(c: Context, x: Array) -> Array:
    _check_static(x)
    return constant(prod(x.shape), numpy.int64)


def _check_static(x: Array) -> None:
    if x._trace is not None and any(x._value.shape.dynamic or ()):
        raise Refused("the size of an array whose size depends on values")


@lowering("Reshape", since=5)
def reshape(c: Context, x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    return _reshaped(x, c.ints(shape, "the shape"), bool(allowzero))


@lowering("Reshape")
def reshape_by_attribute(c: Context, x: Array, *, shape: Sequence[int], consumed_inputs: Any = None) -> Array:
    return _reshaped(x, tuple(shape), False)


def _reshaped(x: Array, wanted: tuple[int, ...], zeros: bool) -> Array:
    if not zeros:
        if any(one == 0 and n >= x.ndim for n, one in enumerate(wanted)):
            raise Refused(f"a shape of {list(wanted)}, whose zeros stand for sizes that there are not")
        wanted = tuple(x.shape[n] if one == 0 else one for n, one in enumerate(wanted))
    if -1 in wanted:
        known = prod(one for one in wanted if one != -1)
        wanted = tuple((x.size // known if known else 0) if one == -1 else one for one in wanted)
    return np.reshape(x, wanted)


@lowering("Flatten")
def flatten(c: Context, x: Array, *, axis: int = 1) -> Array:
    place = axis + x.ndim if axis < 0 else axis
    if not 0 <= place <= x.ndim:
        raise Refused(f"the axis {axis} of an array with {x.ndim} dimensions")
    return np.reshape(x, (prod(x.shape[:place]), prod(x.shape[place:])))


@lowering("Transpose")
def transpose(c: Context, x: Array, *, perm: Sequence[int] | None = None) -> Array:
    return np.permute_dims(x, tuple(reversed(range(x.ndim))) if perm is None else tuple(perm))


@lowering("Squeeze")
def squeeze(c: Context, x: Array, given: Array | None = None, *, axes: Sequence[int] | None = None) -> Array:
    wanted = axes if given is None else c.ints(given, "the axes")
    if wanted is None:
        wanted = tuple(n for n, one in enumerate(x.shape) if one == 1)
    return np.squeeze(x, normal_axes(wanted, x.ndim)) if wanted else x


@lowering("Unsqueeze")
def unsqueeze(c: Context, x: Array, given: Array | None = None, *, axes: Sequence[int] | None = None) -> Array:
    wanted = axes if given is None else c.ints(given, "the axes")
    if wanted is None:
        raise Refused("no axes")
    rank = x.ndim + len(wanted)
    places = normal_axes(wanted, rank)
    sizes = iter(x.shape)
    return np.reshape(x, tuple(1 if n in places else next(sizes) for n in range(rank)))


@lowering("Expand")
def expand(c: Context, x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, c.ints(shape, "the shape")))


@lowering("Concat")
def concat(c: Context, *values: Array, axis: int = 1) -> Array:
    return np.concat(list(values), axis=axis)


@lowering("Split")
def split(
    c: Context, x: Array, sizes: Array | None = None, *, axis: int = 0, split: Sequence[int] | None = None,
    num_outputs: int | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    (place,) = normal_axes([axis], x.ndim)
    whole = x.shape[place]
    if sizes is not None or split is not None:
        wanted = c.ints(split if sizes is None else sizes, "the sizes")  # type: ignore[arg-type]  # one is there
    else:
        count = num_outputs or len(c.wanted)
        each = -(-whole // count)
        wanted = tuple(max(0, min(each, whole - n * each)) for n in range(count))
    if sum(wanted) != whole or any(one < 0 for one in wanted):
        raise Refused(f"parts of sizes {list(wanted)} of {whole}")
    ends = numpy.cumsum(wanted).tolist()
    return tuple(
        sliced(x, [(place, end - one, end, 1)]) for one, end in zip(wanted, ends, strict=True)
    )


def sliced(x: Array, parts: Sequence[tuple[int, int, int, int]]) -> Array:
    """The parts (axis, start, stop, step) of an array, with positive steps and bounds that are inside."""
    ranges = [SliceDimension(0, one, 1) for one in x.shape]
    for axis, start, stop, step in parts:
        ranges[axis] = SliceDimension(start, max(start, stop), step)
    return apply("slice", x, slice=tuple(ranges))


@lowering("Slice", since=10)
def slice_(
    c: Context, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    first = c.known(starts)
    if first is None and c.statics.value(starts) is None:
        return _moving(c, x, starts, ends, axes, steps)
    begin, end = c.ints(starts, "the starts"), c.ints(ends, "the ends")
    return _sliced(
        x, begin, end, tuple(range(len(begin))) if axes is None else c.ints(axes, "the axes"),
        (1,) * len(begin) if steps is None else c.ints(steps, "the steps"),
    )  # fmt: skip


@lowering("Slice")
def slice_by_attributes(
    c: Context, x: Array, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Array:
    return _sliced(x, starts, ends, tuple(range(len(starts))) if axes is None else axes, (1,) * len(starts))


def _sliced(
    x: Array, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> Array:
    parts, back = [], []
    for axis, start, stop, step in zip(normal_axes(axes, x.ndim), starts, ends, steps, strict=True):
        if not step:
            raise Refused("a step of 0")
        places = range(x.shape[axis])[start:stop:step]
        if step < 0:
            places = places[::-1]
            back.append(axis)
        parts.append((axis, places[0] if places else 0, places[-1] + 1 if places else 0, abs(step)))
    found = sliced(x, parts)
    return np.flip(found, axis=tuple(back)) if back else found


def _moving(
    c: Context, x: Array, starts: Array, ends: Array, axes: Array | None, steps: Array | None
) -> Array:
    """A slice whose place is computed in the program, and whose size is known: ``x[i : i + n]``."""
    where = tuple(range(starts.shape[0])) if axes is None else c.ints(axes, "the axes")
    if steps is not None and any(one != 1 for one in c.ints(steps, "the steps")):
        c.static(starts, "the starts")
    lengths = c.static(ends - starts, "the size of a slice")
    sizes, begin = list(x.shape), [constant(0, numpy.int64)] * x.ndim
    for n, axis in enumerate(normal_axes(where, x.ndim)):
        sizes[axis] = int(lengths.reshape(-1)[n])
        begin[axis] = np.astype(starts[n], numpy.int64)
    return apply("dynamic-slice", x, *begin, dynamic_slice_sizes=tuple(sizes))


@lowering("Tile")
def tile(c: Context, x: Array, repeats: Array) -> Array:
    return np.tile(x, c.ints(repeats, "the repeats"))


@lowering("Pad", since=11)
def pad(
    c: Context, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None, *,
    mode: str = "constant",
) -> Array:  # fmt: skip
    widths = c.ints(pads, "the padding")
    where = tuple(range(x.ndim)) if axes is None else normal_axes(c.ints(axes, "the axes"), x.ndim)
    return _padded(x, widths, where, mode, value)


@lowering("Pad")
def pad_by_attributes(
    c: Context, x: Array, *, pads: Sequence[int] | None = None, paddings: Sequence[int] | None = None,
    mode: str = "constant", value: float = 0.0,
) -> Array:  # fmt: skip
    return _padded(x, tuple(pads or paddings or ()), tuple(range(x.ndim)), mode, number(value, x))


def _padded(x: Array, widths: Sequence[int], axes: Sequence[int], mode: str, value: Array | None) -> Array:
    count = len(axes)
    if len(widths) != 2 * count:
        raise Refused(f"{len(widths)} numbers of padding for {count} dimensions")
    for n, axis in enumerate(axes):
        low, high = widths[n], widths[n + count]
        if low < 0 or high < 0:
            x = sliced(x, [(axis, max(0, -low), x.shape[axis] - max(0, -high), 1)])
    pairs = [(0, 0)] * x.ndim
    for n, axis in enumerate(axes):
        pairs[axis] = (max(0, widths[n]), max(0, widths[n + count]))
    if mode == "constant":
        fill = number(0, x) if value is None else np.reshape(value, ())
        return pad_array(x, tuple(pairs), constant_values=fill)
    if mode not in ("edge", "reflect", "wrap"):
        raise Refused(f"the mode {mode!r}")
    return pad_array(x, tuple(pairs), mode=mode)


@lowering("Range")
def range_(c: Context, start: Array, limit: Array, delta: Array, **_: Any) -> Array:
    first, last, step = (c.static(np.reshape(one, ()), "the size of a range") for one in (start, limit, delta))
    count = max(0, int(numpy.ceil((last.astype("f8") - first.astype("f8")) / step.astype("f8"))))
    if start.dtype.kind in "iu":
        return constant(int(first) + int(step) * numpy.arange(count), start.dtype)
    return constant((first.astype("f8") + step.astype("f8") * numpy.arange(count)).astype(start.dtype))


@lowering("EyeLike")
def eye_like(c: Context, x: Array, *, dtype: int | None = None, k: int = 0) -> Array:
    return np.eye(x.shape[0], x.shape[1], k=k, dtype=x.dtype if dtype is None else dtype_of_tensor(dtype))


@lowering("Trilu")
def trilu(c: Context, x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    diagonal = 0 if k is None else c.whole(k, "the diagonal")
    function = np.triu if upper else np.tril
    return function(x, k=diagonal)


@lowering("DepthToSpace")
def depth_to_space(c: Context, x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    n, channels, *places = x.shape
    rank, depth = len(places), channels // blocksize ** len(places)
    blocks = (blocksize,) * rank
    if mode == "DCR":
        parts, first, own = np.reshape(x, (n, *blocks, depth, *places)), 1, rank + 1
    else:
        parts, first, own = np.reshape(x, (n, depth, *blocks, *places)), 2, 1
    pairs = [one for d in range(rank) for one in (rank + 2 + d, first + d)]
    turned = np.permute_dims(parts, (0, own, *pairs))
    return np.reshape(turned, (n, depth, *(one * blocksize for one in places)))


@lowering("SpaceToDepth")
def space_to_depth(c: Context, x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    n, channels, *places = x.shape
    rank = len(places)
    split_ = [size for one in places for size in (one // blocksize, blocksize)]
    parts = np.reshape(x, (n, channels, *split_))
    outer, inner = [2 + 2 * d for d in range(rank)], [3 + 2 * d for d in range(rank)]
    order = (0, *inner, 1, *outer) if mode == "DCR" else (0, 1, *inner, *outer)
    turned = np.permute_dims(parts, order)
    return np.reshape(turned, (n, channels * blocksize**rank, *(one // blocksize for one in places)))


@lowering("ReverseSequence")
def reverse_sequence(c: Context, x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    """The first `lengths` elements of each row in reverse, the others as they are."""
    steps = x.shape[time_axis]
    sizes = np.reshape(np.astype(lengths, numpy.int64), (-1, 1))
    place = constant(numpy.arange(steps).reshape(1, -1))
    order = np.where(place < sizes, sizes - constant(1, numpy.int64) - place, place)  # rows, steps
    shape_ = [1] * x.ndim
    shape_[batch_axis], shape_[time_axis] = order.shape
    index = order if batch_axis < time_axis else np.permute_dims(order, (1, 0))
    return np.take_along_axis(x, np.broadcast_to(np.reshape(index, tuple(shape_)), x.shape), axis=time_axis)
