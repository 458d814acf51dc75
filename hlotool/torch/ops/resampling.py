"""Images made larger or smaller: the nearest element, or between the neighbours along every dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.indexing import rows_at
from hlotool.torch.ops.pieces import constant, element, is_complex, is_float, sizes, spread
from hlotool.torch.refusal import Refused

__all__: list[str] = []

Factors = Sequence[float | None]
Places = np.ndarray[Any, Any]


def _factors(scale_factors: Sequence[float] | None, count: int) -> Factors:
    return [None] * count if scale_factors is None else scale_factors


def _step(have: int, want: int, factor: float | None) -> float:
    """How far apart in the input two neighbours of the result are."""
    return 1 / factor if factor else have / want


def _nearest(c: Context, self: Instruction, factors: Factors) -> Instruction:
    if not self.shape.size:
        raise Refused("resampling of nothing")
    for along, factor in enumerate(factors, len(sizes(self)) - len(factors)):
        have, want = sizes(self)[along], c.dimensions[along]
        place = np.arange(want, dtype=np.float32) * np.float32(_step(have, want, factor))
        self = rows_at(c, self, along, constant(c, np.minimum(place.astype(np.int32), have - 1)))
    return self


def _linear(c: Context, self: Instruction, align_corners: bool, factors: Factors) -> Instruction:
    if not self.shape.size or not is_float(element(self)):
        raise Refused("resampling between neighbours of nothing, or of integers")
    b, made = c.builder, c.computed(self)
    own: Any = np.float64 if element(self) == "f64" else np.float32
    for along, factor in enumerate(factors, len(sizes(made)) - len(factors)):
        have, want = sizes(made)[along], c.dimensions[along]
        if have == want:  # every element is its own
            continue
        below, share = _between(have, want, align_corners, factor, own)
        low = rows_at(c, made, along, constant(c, below))
        high = rows_at(c, made, along, constant(c, np.minimum(below + 1, have - 1)))
        weight = spread(c, constant(c, share), (along,), sizes(low))
        left = b.binary("multiply", low, b.binary("subtract", c.like(1, weight), weight))
        made = b.binary("add", left, b.binary("multiply", high, weight))
    return c.convert(made, c.type)


def _between(have: int, want: int, align_corners: bool, factor: float | None, own: Any) -> tuple[Places, Places]:
    """The element below each place, and how much of the one above it counts; in the type PyTorch computes them in."""
    number = np.arange(want, dtype=own)
    if align_corners:
        place = number * own((have - 1) / (want - 1) if want > 1 else 0)
    else:
        place = np.maximum(own(_step(have, want, factor)) * (number + own(0.5)) - own(0.5), own(0))
    below = np.minimum(place.astype(np.int32), have - 1)
    return below, np.clip(place - below.astype(own), 0, 1).astype(own)


@lowering(*(f"aten.upsample_nearest{n}d.vec" for n in (1, 2, 3)))
def nearest_by_factors(
    c: Context, input: Instruction, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None
) -> Instruction:
    return _nearest(c, input, _factors(scale_factors, len(sizes(input)) - 2))


@lowering("aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_trilinear3d.vec")
def linear_by_factors(
    c: Context, input: Instruction, output_size: Sequence[int] | None, align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Instruction:  # fmt: skip
    return _linear(c, input, align_corners, _factors(scale_factors, len(sizes(input)) - 2))


def _each(self: Instruction, along: float | None, *named: float | None) -> Factors:
    """The factors of the dimensions that there are, by the names that schemas have for them: `along` for a single
    one, else depth, height and width."""
    count = len(sizes(self)) - 2
    return (along,) if count == 1 else named[len(named) - count :]


@lowering(*(f"aten.upsample_nearest{n}d.default" for n in (1, 2, 3)))
def nearest(
    c: Context, self: Instruction, output_size: Sequence[int], scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None, *, scales: float | None = None,
) -> Instruction:  # fmt: skip
    return _nearest(c, self, _each(self, scales, scales_d, scales_h, scales_w))


@lowering("aten.upsample_linear1d.default", "aten.upsample_bilinear2d.default", "aten.upsample_trilinear3d.default")
def linear(
    c: Context, self: Instruction, output_size: Sequence[int], align_corners: bool, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None, *, scales: float | None = None,
) -> Instruction:  # fmt: skip
    return _linear(c, self, align_corners, _each(self, scales, scales_d, scales_h, scales_w))


# ---- as products with a matrix for every dimension: what takes more neighbours, and gradients

Table = np.ndarray[Any, Any]


def _by_tables(c: Context, a: Instruction, tables: Sequence[Table], back: bool = False) -> Instruction:
    """The last dimensions multiplied by tables [result, input], or if `back` by their transposes."""
    if not a.shape.size or not (is_float(element(a)) or is_complex(element(a))):
        raise Refused("resampling of nothing, or of integers")
    made = c.computed(a)
    for along, table in enumerate(tables, len(sizes(a)) - len(tables)):
        if table.shape[0] == table.shape[1] and (table == np.eye(len(table))).all():
            continue
        weights = c.convert(constant(c, table), element(made))
        made = c.builder.dot(made, weights, ((along,), (0 if back else 1,)))
        last = len(sizes(made)) - 1
        made = c.builder.transpose(made, (*range(along), last, *range(along, last)))
    return c.convert(made, c.type)


def _weights(places: Table, shares: Table, have: int) -> Table:
    """The table whose row n has ``shares[n]`` at ``places[n]``, which are brought inside; equal places add up."""
    found = np.zeros((len(places), have), shares.dtype)
    np.add.at(found, (np.arange(len(places))[:, None], np.clip(places, 0, have - 1)), shares)
    return found


def _nearest_table(have: int, want: int, factor: float | None, exact: bool) -> Table:
    number = np.arange(want, dtype=np.float32) + np.float32(0.5 if exact else 0)
    place = (number * np.float32(_step(have, want, factor))).astype(np.int32)
    return _weights(np.minimum(place, have - 1)[:, None], np.ones((want, 1), np.float32), have)


def _linear_table(have: int, want: int, factor: float | None, align_corners: bool, own: Any) -> Table:
    below, share = _between(have, want, align_corners, factor, own)
    return _weights(np.stack([below, below + 1], 1), np.stack([1 - share, share], 1), have)


_SHARPNESS = -0.75
"""Keys' parameter of cubic convolution, as PyTorch has it."""


def _cubic_table(have: int, want: int, factor: float | None, align_corners: bool, own: Any) -> Table:
    """Cubic convolution (R. Keys, 1981) with four neighbours."""
    number = np.arange(want, dtype=own)
    if align_corners:
        place = number * own((have - 1) / (want - 1) if want > 1 else 0)
    else:
        place = own(_step(have, want, factor)) * (number + own(0.5)) - own(0.5)
    below = np.floor(place)
    t = place - below
    a = own(_SHARPNESS)

    def near(x: Table) -> Table:
        found: Table = ((a + 2) * x - (a + 3)) * x * x + 1
        return found

    def far(x: Table) -> Table:
        found: Table = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return found

    shares = np.stack([far(t + 1), near(t), near(1 - t), far(2 - t)], 1).astype(own)
    return _weights(below.astype(np.int64)[:, None] + np.arange(-1, 3), shares, have)


_SHARPNESS_SMOOTHED = -0.5
"""The parameter where an image made smaller is smoothed."""


def _smoothed_table(have: int, want: int, factor: float | None, align_corners: bool, own: Any, cubic: bool) -> Table:
    """Between neighbours that are as far apart as places of the result are, where these are the farther apart ones."""
    corners = (have - 1) / (want - 1) if want > 1 else 0
    step = own(corners if align_corners else _step(have, want, factor))
    reach = own(2 if cubic else 1) * np.maximum(step, own(1))
    middle = step * (np.arange(want, dtype=own) + own(0.5))
    first = np.maximum((middle - reach + own(0.5)).astype(np.int64), 0)
    limit = np.minimum((middle + reach + own(0.5)).astype(np.int64), have)
    places = first[:, None] + np.arange((limit - first).max())
    x = np.abs((places - middle[:, None] + own(0.5)) / np.maximum(step, own(1))).astype(own)
    a = own(_SHARPNESS_SMOOTHED)
    if cubic:
        near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        shares = np.where(x < 1, near, np.where(x < 2, far, 0))
    else:
        shares = np.maximum(1 - x, 0)
    shares = np.where(places < limit[:, None], shares, 0).astype(own)
    return _weights(places, shares / shares.sum(1, keepdims=True), have)


def _smoothed(name: str, cubic: bool) -> None:
    @lowering(f"aten._upsample_{name}2d_aa.default")
    def lower(
        c: Context, self: Instruction, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Instruction:  # fmt: skip
        ends = zip(_ends(self, output_size, None), (scales_h, scales_w), strict=True)
        own = _own(self)
        return _by_tables(c, self, [_smoothed_table(*one, f, align_corners, own, cubic) for one, f in ends])

    @lowering(f"aten._upsample_{name}2d_aa_backward.default")
    def lower_backward(
        c: Context, grad_output: Instruction, output_size: Sequence[int], input_size: Sequence[int],
        align_corners: bool, scales_h: float | None = None, scales_w: float | None = None,
    ) -> Instruction:  # fmt: skip
        ends = zip(_ends(grad_output, output_size, input_size), (scales_h, scales_w), strict=True)
        own = _own(grad_output)
        tables = [_smoothed_table(*one, f, align_corners, own, cubic) for one, f in ends]
        return _by_tables(c, grad_output, tables, back=True)


def _own(a: Instruction) -> Any:
    return np.float64 if element(a) == "f64" else np.float32


def _ends(a: Instruction, output_size: Sequence[int], input_size: Sequence[int] | None) -> list[tuple[int, int]]:
    """Sizes before and after, of every dimension that changes."""
    have = (sizes(a) if input_size is None else tuple(input_size))[-len(output_size) :]
    return list(zip(have, output_size, strict=True))


@lowering("aten.upsample_bicubic2d.default")
def bicubic(
    c: Context, self: Instruction, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Instruction:  # fmt: skip
    ends = zip(_ends(self, output_size, None), (scales_h, scales_w), strict=True)
    return _by_tables(c, self, [_cubic_table(*one, factor, align_corners, _own(self)) for one, factor in ends])


@lowering("aten.upsample_bicubic2d_backward.default")
def bicubic_backward(
    c: Context, grad_output: Instruction, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Instruction:  # fmt: skip
    ends = zip(_ends(grad_output, output_size, input_size), (scales_h, scales_w), strict=True)
    tables = [_cubic_table(*one, factor, align_corners, _own(grad_output)) for one, factor in ends]
    return _by_tables(c, grad_output, tables, back=True)


@lowering(*(f"aten.upsample_{n}_backward.default" for n in ("linear1d", "bilinear2d", "trilinear3d")))
def linear_backward(
    c: Context, grad_output: Instruction, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool,
    scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None, *,
    scales: float | None = None,
) -> Instruction:  # fmt: skip
    factors = _each(grad_output, scales, scales_d, scales_h, scales_w)
    ends = zip(_ends(grad_output, output_size, input_size), factors, strict=True)
    tables = [_linear_table(*one, factor, align_corners, _own(grad_output)) for one, factor in ends]
    return _by_tables(c, grad_output, tables, back=True)


def _nearest_backward(exact: bool, names: Sequence[str]) -> None:
    @lowering(*(f"aten.{name}{n}d_backward.default" for name in names for n in (1, 2, 3)))
    def lower(
        c: Context, grad_output: Instruction, output_size: Sequence[int], input_size: Sequence[int],
        scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None, *,
        scales: float | None = None,
    ) -> Instruction:  # fmt: skip
        factors = _each(grad_output, scales, scales_d, scales_h, scales_w)
        ends = zip(_ends(grad_output, output_size, input_size), factors, strict=True)
        tables = [_nearest_table(*one, factor, exact) for one, factor in ends]
        return _by_tables(c, grad_output, tables, back=True)


_nearest_backward(False, ["upsample_nearest"])
_nearest_backward(True, ["_upsample_nearest_exact"])


@lowering(*(f"aten.replication_pad{n}d_backward.default" for n in (1, 2, 3)))
def replication_pad_backward(
    c: Context, grad_output: Instruction, self: Instruction, padding: Sequence[int]
) -> Instruction:
    tables = []
    for have, low, high in zip(sizes(self)[::-1], padding[::2], padding[1::2], strict=False):
        places = np.arange(-low, have + high)[:, None]
        tables.append(_weights(places, np.ones(places.shape, np.float32), have))
    return _by_tables(c, grad_output, tables[::-1], back=True)


_smoothed("bilinear", cubic=False)
_smoothed("bicubic", cubic=True)
