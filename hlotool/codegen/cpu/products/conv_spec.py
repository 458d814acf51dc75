"""Convolutions as the kernels see them: a specification, and the phases of a dilated input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["ConvSpec", "Phase"]


@dataclass(frozen=True, slots=True)
class ConvSpec:
    """A convolution with any number of spatial dimensions; strides of the arrays count elements.

    Output pixel o and window element w read input element ``(o * stride + w * window_dilation - padding)
    / base_dilation`` of each spatial dimension where that is a whole number within the input, else zero.
    `padding` is the low one (it may be negative); the high one is implied by `output`.  `reversal` walks
    the window backwards.  With `feature_groups` the input features, with `batch_groups` the batch is split,
    and each group makes its share of the output features.  `accumulate` as in `MatrixView`.
    """

    batch: int
    input: tuple[int, ...]
    input_features: int
    output: tuple[int, ...]
    output_features: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]
    reversal: tuple[bool, ...]
    feature_groups: int
    batch_groups: int
    lhs_batch: int
    lhs_spatial: tuple[int, ...]
    lhs_feature: int
    rhs_spatial: tuple[int, ...]
    rhs_input: int
    rhs_output: int
    out_batch: int
    out_spatial: tuple[int, ...]
    out_feature: int
    lhs: str = "f32"
    rhs: str = "f32"
    out: str = "f32"
    accumulate: str = "f32"

    @property
    def groups(self) -> int:
        return self.feature_groups * self.batch_groups

    @property
    def features(self) -> int:
        """Of the input, those of a group."""
        return self.input_features // self.feature_groups

    @property
    def share(self) -> int:
        """Of the output features, those of a group."""
        return self.output_features // self.groups

    @property
    def result(self) -> tuple[int, ...]:
        """Extents of the result: batch, spatial dimensions, features."""
        return self.batch // self.batch_groups, *self.output, self.output_features

    def phases(self, at: int) -> list[Phase]:
        """The phases of spatial dimension `at`: a single one for an input without holes."""
        holes, stride, dilation = self.base_dilation[at], self.strides[at], self.window_dilation[at]
        period, step = holes // math.gcd(stride, holes), holes // math.gcd(dilation, holes)
        found = []
        for first in range(min(period, self.output[at])):
            # Elements `tap`, `tap` + step... of the windows of these pixels meet the input, the others holes.
            meets = (w for w in range(min(step, self.kernel[at])) if (self._place(at, first, w)) % holes == 0)
            tap = next(meets, self.kernel[at])
            found.append(Phase(
                first, -(-(self.output[at] - first) // period), period, tap, -(-(self.kernel[at] - tap) // step), step,
                self._place(at, first, tap) // holes, period * stride // holes, step * dilation // holes,
            ))
        return _alike(found)

    def _place(self, at: int, pixel: int, tap: int) -> int:
        """Where in the dilated input element `tap` of the window of `pixel` lies."""
        return pixel * self.strides[at] + tap * self.window_dilation[at] - self.padding[at]


@dataclass(frozen=True, slots=True)
class Phase:
    """Part of a spatial dimension: `count` output pixels from `first`, `period` apart, meet `taps` window elements.

    These are the elements from `tap`, `step` apart.  The first pixel's first element is input element `start` (which
    may lie outside); `stride` and `dilation` say how the place moves with the pixel and with the element.  It stands
    for `alike` phases that follow one another, each `next_tap` and `next_start` further than the one before.
    """

    first: int
    count: int
    period: int
    tap: int
    taps: int
    step: int
    start: int
    stride: int
    dilation: int
    alike: int = 1
    next_tap: int = 0
    next_start: int = 0

    @property
    def extent(self) -> tuple[int, int]:
        """The first input element, and one more than the last."""
        far = (self.alike - 1) * self.next_start
        reach = (self.count - 1) * self.stride + (self.taps - 1) * self.dilation
        return self.start + min(far, 0), self.start + max(far, 0) + reach + 1

    def inside(self, size: int) -> tuple[int, int] | None:
        """The first pixel whose window lies within `size` input elements, and one more than the last; None for all."""
        begin, end = self.extent
        reach = (self.count - 1) * self.stride
        first = min(max(-(begin // self.stride), 0), self.count)
        last = max(min((size - end + reach) // self.stride + 1, self.count), first)
        return None if (first, last) == (0, self.count) else (first, last)


def _alike(phases: Sequence[Phase]) -> list[Phase]:
    """Phases with as many pixels and window elements as the one before taken together with it."""
    found: list[Phase] = []
    for phase in phases:
        last = found[-1] if found else phase
        taps, starts = (now - then for now, then in ((phase.tap, last.tap), (phase.start, last.start)))
        taps, starts = taps - (last.alike - 1) * last.next_tap, starts - (last.alike - 1) * last.next_start
        same = (phase.count, phase.taps) == (last.count, last.taps) and phase.taps
        if found and same and (last.alike == 1 or (taps, starts) == (last.next_tap, last.next_start)):
            found[-1] = replace(last, alike=last.alike + 1, next_tap=taps, next_start=starts)
        else:
            found.append(phase)
    return found
