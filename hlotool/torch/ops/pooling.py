"""Pooling over windows and over parts of equal number."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.ir import Computation, Instruction
from hlotool.ir.attributes import Window, WindowDimension
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.indexing import rows_at
from hlotool.torch.ops.pieces import (
    better_pair,
    constant,
    element,
    is_float,
    lowest,
    per_dimension,
    positions,
    sizes,
    spread,
)
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Sizes = int | Sequence[int]


def _window(
    self: Instruction, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sequence[int]
) -> list[WindowDimension]:
    """Windows over the last dimensions, as many as `out` has; at the high end as far as they reach."""
    count, window = len(out), []
    shapes = (kernel_size, stride or kernel_size, padding, dilation)
    each = (per_dimension(one, count) for one in shapes)
    for have, want, k, s, p, d in zip(sizes(self)[-count:], out, *each, strict=True):
        high = (want - 1) * s + (k - 1) * d + 1 - have - p
        window.append(WindowDimension(k, s, p, high, 1, d))
    return [WindowDimension(1)] * (len(sizes(self)) - count) + window


def _refuse_types(has_none: bool, self: Instruction) -> None:
    if has_none:
        raise Refused(f"pooling of {element(self)}, for which PyTorch has no kernel")


def _over(
    c: Context, arrays: Sequence[Instruction], initial: Sequence[Instruction], window: Sequence[WindowDimension],
    reducer: Computation,
) -> Instruction:  # fmt: skip
    attributes = {"window": Window(tuple(window)), "to_apply": reducer}
    return c.builder.add("reduce-window", None, (*arrays, *initial), attributes)


def _max_pool(
    c: Context, self: Instruction, count: int, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[Instruction, Instruction]:
    """The greatest elements of windows, and where in the last `count` dimensions, counted through, they are."""
    window = _window(self, kernel_size, stride, padding, dilation, c.dimensions[-count:])
    places = sizes(self)[-count:]
    _refuse_types(element(self) == "pred", self)
    if not self.shape.size or prod(places) >= 2**31:
        raise Refused("pooling of nothing, or of more than 2^31 places")
    numbers = c.builder.reshape(positions(c, (prod(places),), 0, "s32"), places)
    rank = len(sizes(self))
    numbered = spread(c, numbers, range(rank - count, rank), sizes(self))
    kind = element(self)
    start = c.full(lowest(kind), kind)
    pair = _over(
        c,
        (self, numbered),
        (start, c.full(2**31 - 1, "s32")),
        window,
        better_pair(c, kind, "s32", largest=True, last_nan=True),
    )
    values = _over(c, (self,), (start,), window, c.reducer("maximum", kind))
    return values, c.convert(c.builder.gte(pair, 1), "s64")


@lowering("aten.max_pool2d_with_indices.default")
def max_pool2d_with_indices(
    c: Context, self: Instruction, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[Instruction, Instruction]:  # fmt: skip
    return _max_pool(c, self, 2, kernel_size, stride, padding, dilation)


@lowering("aten.max_pool3d_with_indices.default")
def max_pool3d_with_indices(
    c: Context, self: Instruction, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[Instruction, Instruction]:  # fmt: skip
    return _max_pool(c, self, 3, kernel_size, stride, padding, dilation)


def _scattered(c: Context, grad: Instruction, self: Instruction, indices: Instruction, count: int) -> Instruction:
    """Gradients added up at the places that they come from."""
    b = c.builder
    planes, size = prod(sizes(self)[:-count]), prod(sizes(self)[-count:])
    taken = prod(sizes(grad)[-count:])
    attributes = {
        "update_window_dims": (), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (1,),
        "input_batching_dims": (0,), "scatter_indices_batching_dims": (0,), "index_vector_dim": 2,
        "to_apply": c.reducer("add", element(grad)),
    }  # fmt: skip
    flat = b.reshape(c.convert(indices, "s32"), (planes, taken, 1))
    added = b.add(
        "scatter",
        None,
        (c.full(0, element(grad), (planes, size)), flat, b.reshape(grad, (planes, taken))),
        attributes,
    )
    return b.reshape(added, sizes(self))


@lowering("aten.max_pool2d_with_indices_backward.default")
def max_pool2d_with_indices_backward(
    c: Context, grad_output: Instruction, self: Instruction, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    dilation: Sizes, ceil_mode: bool, indices: Instruction,
) -> Instruction:  # fmt: skip
    wide = c.computed(grad_output)
    return c.convert(_scattered(c, wide, self, indices, 2), c.type)


@lowering("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_with_indices_backward(
    c: Context, grad_output: Instruction, self: Instruction, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    dilation: Sizes, ceil_mode: bool, indices: Instruction,
) -> Instruction:  # fmt: skip
    wide = c.computed(grad_output)
    return c.convert(_scattered(c, wide, self, indices, 3), c.type)


# ---- averages


def _divisors(
    places: Sequence[int], window: Sequence[WindowDimension], padding: Sequence[int], out: Sequence[int],
    count_include_pad: bool,
) -> list[np.ndarray[Any, Any]]:
    """How many elements each window counts, for every dimension: their product is what a sum is divided by."""
    found = []
    for have, one, p, n in zip(places, window, padding, out, strict=True):
        start = np.arange(n) * one.stride - p
        limit = np.minimum(start + one.size, have + p)  # windows of ceil_mode reach farther
        if not count_include_pad:
            start, limit = np.maximum(start, 0), np.minimum(limit, have)
        found.append(limit - start)
    return found


def _divisor(
    c: Context, kind: str, dimensions: Sequence[int], counts: Sequence[np.ndarray[Any, Any]], override: int | None
) -> Instruction:
    """What the sums are divided by, in `dimensions`."""
    if override is not None:
        return c.full(override, kind, dimensions)
    if all((one == one[0]).all() for one in counts if len(one)):
        return c.full(prod(int(one[0]) for one in counts if len(one)), kind, dimensions)
    table = counts[0].astype(np.int32)
    for one in counts[1:]:
        table = table[..., None] * one.astype(np.int32)
    rank = len(dimensions)
    return spread(c, c.convert(constant(c, table), kind), range(rank - len(counts), rank), dimensions)


def _avg_pool(
    c: Context, self: Instruction, count: int, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    count_include_pad: bool, override: int | None,
) -> Instruction:  # fmt: skip
    _refuse_types(not is_float(element(self)) and element(self) != "s64", self)
    out = c.dimensions[-count:]
    window = _window(self, kernel_size, stride, padding, 1, out)
    wide = c.computed(self)
    kind = element(wide)
    sums = _over(c, (wide,), (c.full(0, kind),), window, c.reducer("add", kind))
    counts = _divisors(
        sizes(self)[-count:], window[-count:], per_dimension(padding, count), out, count_include_pad
    )
    by = _divisor(c, kind, sizes(sums), counts, override)
    return c.convert(c.builder.binary("divide", sums, by), c.type)


@lowering("aten.avg_pool1d.default")
def avg_pool1d(
    c: Context, self: Instruction, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Instruction:  # fmt: skip
    return _avg_pool(c, self, 1, kernel_size, stride, padding, count_include_pad, None)


@lowering("aten.avg_pool2d.default")
def avg_pool2d(
    c: Context, self: Instruction, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Instruction:  # fmt: skip
    return _avg_pool(c, self, 2, kernel_size, stride, padding, count_include_pad, divisor_override)


@lowering("aten.avg_pool3d.default")
def avg_pool3d(
    c: Context, self: Instruction, kernel_size: Sizes, stride: Sizes = (), padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Instruction:  # fmt: skip
    return _avg_pool(c, self, 3, kernel_size, stride, padding, count_include_pad, divisor_override)


def _avg_pool_backward(
    c: Context, grad: Instruction, self: Instruction, count: int, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    count_include_pad: bool, override: int | None,
) -> Instruction:  # fmt: skip
    """Each element gets the sum of the divided gradients of the windows that it is in."""
    wide = c.computed(grad)
    kind = element(wide)
    out = sizes(grad)[-count:]
    window = _window(self, kernel_size, stride, padding, 1, out)
    pads = per_dimension(padding, count)
    counts = _divisors(sizes(self)[-count:], window[-count:], pads, out, count_include_pad)
    shares = c.builder.binary("divide", wide, _divisor(c, kind, sizes(wide), counts, override))
    back = [WindowDimension(1)] * (len(sizes(self)) - count)
    for have, one, n in zip(sizes(self)[-count:], window[-count:], out, strict=True):
        low = one.size - 1 - one.padding_low
        high = have + one.size - 1 - low - ((n - 1) * one.stride + 1)
        back.append(WindowDimension(one.size, 1, low, high, one.stride))
    found = _over(c, (shares,), (c.full(0, kind),), back, c.reducer("add", kind))
    return c.convert(found, c.type)


@lowering("aten.avg_pool2d_backward.default")
def avg_pool2d_backward(
    c: Context, grad_output: Instruction, self: Instruction, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Instruction:  # fmt: skip
    way = (kernel_size, stride, padding, count_include_pad, divisor_override)
    return _avg_pool_backward(c, grad_output, self, 2, *way)


@lowering("aten.avg_pool3d_backward.default")
def avg_pool3d_backward(
    c: Context, grad_output: Instruction, self: Instruction, kernel_size: Sizes, stride: Sizes, padding: Sizes,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Instruction:  # fmt: skip
    way = (kernel_size, stride, padding, count_include_pad, divisor_override)
    return _avg_pool_backward(c, grad_output, self, 3, *way)


# ---- parts


def _parts(have: int, want: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where the parts of adaptive pooling start and end."""
    n = np.arange(want)
    return n * have // want, -(-(n + 1) * have // want)


def _averaging(have: int, want: int) -> np.ndarray[Any, Any]:
    """The matrix [want, have] that adds each part up and divides by its size."""
    start, limit = _parts(have, want)
    place = np.arange(have)
    inside = (place >= start[:, None]) & (place < limit[:, None])
    found: np.ndarray[Any, Any] = inside / np.maximum(limit - start, 1)[:, None]
    return found


def _adaptive(c: Context, self: Instruction, have: Sequence[int], want: Sequence[int], back: bool) -> Instruction:
    """Averages over parts of the last dimensions, by windows where parts are equal, else one product a dimension."""
    count = len(have)
    made = c.computed(self)
    kind = element(made)
    _refuse_types(not is_float(kind), self)
    if not self.shape.size or not prod(want):
        raise Refused("adaptive pooling of nothing")
    for n, (many, few) in enumerate(zip(have, want, strict=True)):
        along = len(sizes(made)) - count + n
        if not many % few:
            made = _equal_parts(c, made, along, many, few, back)
            continue
        table = c.convert(constant(c, _averaging(many, few)), kind)
        rest = [d for d in range(len(sizes(made))) if d != along]
        made = c.builder.dot(made, table, ((along,), (0 if back else 1,)))
        order = list(range(len(rest)))
        order.insert(along, len(rest))
        made = c.builder.transpose(made, order)
    return c.convert(made, c.type)


def _equal_parts(c: Context, a: Instruction, along: int, many: int, few: int, back: bool) -> Instruction:
    """Averages over `many / few` neighbours; `back`: each neighbour's share of the average's gradient."""
    b, each = c.builder, many // few
    if each == 1:
        return a
    size = c.like(each, a)
    dimensions = sizes(a)
    if back:
        kept = [d for d in range(len(dimensions) + 1) if d != along + 1]
        wanted = (*dimensions[: along + 1], each, *dimensions[along + 1 :])
        grown = b.broadcast(b.binary("divide", a, size), kept, wanted)
        return b.reshape(grown, (*dimensions[:along], many, *dimensions[along + 1 :]))
    split = b.reshape(a, (*dimensions[:along], few, each, *dimensions[along + 1 :]))
    total = c.reduce(split, (along + 1,), "add", 0)
    return b.binary("divide", total, c.like(each, total))


@lowering("aten._adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(c: Context, self: Instruction, output_size: Sizes) -> Instruction:
    return _adaptive(c, self, sizes(self)[-2:], c.dimensions[-2:], back=False)


@lowering("aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(c: Context, self: Instruction, output_size: Sizes) -> Instruction:
    return _adaptive(c, self, sizes(self)[-3:], c.dimensions[-3:], back=False)


@lowering("aten._adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(c: Context, grad_output: Instruction, self: Instruction) -> Instruction:
    return _adaptive(c, grad_output, sizes(self)[-2:], sizes(grad_output)[-2:], back=True)


@lowering("aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(c: Context, grad_output: Instruction, self: Instruction) -> Instruction:
    return _adaptive(c, grad_output, sizes(self)[-3:], sizes(grad_output)[-3:], back=True)


@lowering("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(
    c: Context, grad_output: Instruction, self: Instruction, indices: Instruction
) -> Instruction:
    return c.convert(_scattered(c, c.computed(grad_output), self, indices, 2), c.type)


@lowering("aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(
    c: Context, grad_output: Instruction, self: Instruction, indices: Instruction
) -> Instruction:
    return c.convert(_scattered(c, c.computed(grad_output), self, indices, 3), c.type)


def _adaptive_max(c: Context, self: Instruction, count: int) -> tuple[Instruction, Instruction]:
    """The greatest element of every part of the last dimensions, and where it is, counted through."""
    have, want = sizes(self)[-count:], c.dimensions[-count:]
    _refuse_types(not is_float(element(self)), self)
    if not self.shape.size or not prod(want):
        raise Refused("pooling of nothing")
    b, kind, lead = c.builder, element(self), len(sizes(self)) - count
    made, inside = self, np.ones((1,) * (2 * count), np.bool_)
    numbers = np.arange(prod(have), dtype=np.int32).reshape(have)
    for n, (many, few) in enumerate(zip(have, want, strict=True)):
        start, limit = _parts(many, few)
        place = start[:, None] + np.arange((limit - start).max())
        shape = [1] * (2 * count)
        shape[2 * n : 2 * n + 2] = place.shape
        inside = inside & (place < limit[:, None]).reshape(shape)
        index = np.minimum(place, many - 1).astype(np.int32)
        made = rows_at(c, made, lead + 2 * n, constant(c, index))
        numbers = np.take(numbers, index, axis=2 * n)
    kept = range(lead, len(sizes(made)))
    seen = spread(c, constant(c, np.broadcast_to(inside, numbers.shape).copy()), kept, sizes(made))
    lowest_of = c.full(lowest(kind), kind, sizes(made))
    last = np.where(inside, numbers, 2**31 - 1).astype(np.int32)
    pair = b.reduce(
        (b.select(seen, made, lowest_of), spread(c, constant(c, last), kept, sizes(made))),
        (c.full(lowest(kind), kind), c.full(2**31 - 1, "s32")),
        tuple(lead + 2 * n + 1 for n in range(count)),
        better_pair(c, kind, "s32", largest=True, last_nan=True),
    )
    return b.gte(pair, 0), c.convert(b.gte(pair, 1), "s64")


@lowering("aten.adaptive_max_pool2d.default")
def adaptive_max_pool2d(c: Context, self: Instruction, output_size: Sizes) -> tuple[Instruction, Instruction]:
    return _adaptive_max(c, self, 2)


@lowering("aten.adaptive_max_pool3d.default")
def adaptive_max_pool3d(c: Context, self: Instruction, output_size: Sizes) -> tuple[Instruction, Instruction]:
    return _adaptive_max(c, self, 3)
