"""Convolutions as the kernels see them: a specification, and the phases of a dilated input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["ConvSpec", "Phase", "Spatial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial:
    """A spatial dimension: extents, how its windows lie, and its strides in bytes in input, kernel and result.

    Output pixel o and window element w read input element ``(o * stride + w * window_dilation - padding)
    / base_dilation`` where that is a whole number within the input, else zero.  `padding` is the low one (it may be
    negative); the high one is implied by `output`.  `rhs` goes along the window, so it may be negative.
    """

    input: int = 1
    kernel: int = 1
    output: int = 1
    stride: int = 1
    padding: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    lhs: int = 0
    rhs: int = 0
    out: int = 0

    @property
    def reach(self) -> int:
        """Elements of the (dilated) input that all windows lie in."""
        return (self.output - 1) * self.stride + (self.kernel - 1) * self.window_dilation + 1

    def phases(self) -> list[Phase]:
        """The phases: a single one for an input without holes."""
        holes, stride, dilation = self.base_dilation, self.stride, self.window_dilation
        period, step = holes // math.gcd(stride, holes), holes // math.gcd(dilation, holes)
        found = []
        for first in range(min(period, self.output)):
            # Elements `tap`, `tap` + step... of the windows of these pixels meet the input, the others holes.
            tap = next((w for w in range(min(step, self.kernel)) if self._place(first, w) % holes == 0), self.kernel)
            found.append(Phase(
                first, -(-(self.output - first) // period), period, tap, -(-(self.kernel - tap) // step), step,
                self._place(first, tap) // holes, period * stride // holes, step * dilation // holes,
            ))
        return _alike(found)

    def _place(self, pixel: int, tap: int) -> int:
        """Where in the dilated input element `tap` of the window of `pixel` lies."""
        return pixel * self.stride + tap * self.window_dilation - self.padding


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvSpec:
    """A convolution with any number of spatial dimensions; strides of the arrays are in bytes.

    With `feature_groups` the input features, with `batch_groups` the batch is split, and each group makes its share of
    the output features.  `types` as in `MatrixView`.
    """

    batch: int
    input_features: int
    output_features: int
    spatial: tuple[Spatial, ...]
    feature_groups: int
    batch_groups: int
    lhs_batch: int
    lhs_feature: int
    rhs_input: int
    rhs_output: int
    out_batch: int
    out_feature: int
    types: tuple[str, str, str, str]

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
    def rhs_start(self) -> int:
        """Where in the kernel the first element of windows is, some of whose dimensions may be walked backwards."""
        return sum(-d.rhs * (d.kernel - 1) for d in self.spatial if d.rhs < 0)

    @property
    def window(self) -> int:
        """Elements of a window."""
        return math.prod(d.kernel for d in self.spatial)

    @property
    def input(self) -> tuple[int, ...]:
        """Extents of the input: batch, spatial dimensions, features."""
        return self.batch, *(d.input for d in self.spatial), self.input_features

    @property
    def result(self) -> tuple[int, ...]:
        """Extents of the result, likewise."""
        return self.batch // self.batch_groups, *(d.output for d in self.spatial), self.output_features

    @property
    def strides(self) -> tuple[int, ...]:
        """Those of the result."""
        return self.out_batch, *(d.out for d in self.spatial), self.out_feature


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
