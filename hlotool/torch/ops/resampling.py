"""Images made larger or smaller: the nearest element, or between the neighbours along every dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlotool.ir import Instruction
from hlotool.torch.lowering import Context, lowering
from hlotool.torch.ops.indexing import rows_at
from hlotool.torch.ops.pieces import constant, element, is_float, sizes, spread
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
