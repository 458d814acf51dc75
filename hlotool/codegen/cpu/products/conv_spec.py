"""Convolutions as the kernels see them: a specification, and the phases of a dilated input.

Also where tiles leave out window elements that lie outside of the input, so that nothing is padded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.product import Ends, TileShape
from hlotool.lazy_dataclass import dataclass

__all__ = ["NO_CUTS", "ConvSpec", "Cuts", "Phase", "Spatial", "cuts_of", "extent_of", "is_bordered"]

MOST_ENDS: Annotated[int, Threshold("positions")] = 4
"""Parts of a line of the window, beside the usual one, that some rows of a tile leave out."""


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


class Cuts(NamedTuple):
    """Spatial dimensions whose window elements outside of the input are left out, not read as zeros.

    `outer` is the outermost one of the window; `line` is the one that pixels of a tile lie along, with its `ends`.
    """

    outer: int | None = None
    line: int | None = None
    ends: Ends | None = None


NO_CUTS = Cuts()


def extent_of(spec: ConvSpec, at: int, cuts: Cuts = NO_CUTS) -> tuple[int, int]:
    """The first element of the input that spatial dimension `at` reads, and one more than the last; holes left out."""
    extents = [phase.extent for phase in spec.spatial[at].phases() if phase.taps]
    first, end = min((first for first, _ in extents), default=0), max((end for _, end in extents), default=1)
    return (max(first, 0), min(end, spec.spatial[at].input)) if at in cuts[:2] else (first, end)


def is_bordered(spec: ConvSpec, cuts: Cuts = NO_CUTS) -> bool:
    """Whether windows reach beyond the input, but for what is left out."""
    extents = [(*extent_of(spec, at, cuts), d.input) for at, d in enumerate(spec.spatial)]
    return any(first < 0 or end > size for first, end, size in extents)


def cuts_of(spec: ConvSpec, in_order: bool, tile: Callable[[int], tuple[float, TileShape]]) -> Cuts:
    """Where a product whose vectors lie along features leaves window elements out.

    Its rows are as they follow one another in the result (`in_order`), or what makes the best tiles: `tile` gives that
    for so many rows, and what one of them costs.  The outermost dimension of the sum is then one of the window, and the
    innermost one, but for features, is another.  Nothing is left out of a dilated input, or where some other dimension
    makes better rows of tiles than lines do.
    """
    spatial = spec.spatial
    every = [d.phases() for d in spatial]
    order = sorted((at for at, d in enumerate(spatial) if d.output > 1), key=lambda at: -spatial[at].lhs)
    if not order or any(len(phases) > 1 or phases[0].alike > 1 or not phases[0].taps for phases in every):
        return NO_CUTS
    outer, line = order[0], order[-1]
    others = [(spec.out_batch, spec.result[0]), *((spatial[at].out, spatial[at].output) for at in order[:-1])]
    others = [(stride, extent) for stride, extent in others if extent > 1]
    if in_order:
        usual = all(spatial[line].out < stride for stride, _ in others)
    else:
        cost = tile(spatial[line].output)[0]
        usual = all(cost <= tile(extent)[0] for _, extent in others)
    steps = [phases[0].dilation * d.lhs for phases, d in zip(every, spatial, strict=True)]
    inner = [spec.lhs_feature if spec.features > 1 else 0, *(step for at, step in enumerate(steps) if at != outer)]
    if not usual or max(inner) >= steps[outer]:
        return NO_CUTS
    ends = None
    if min(steps) == steps[line] > inner[0] and steps.count(steps[line]) == 1:
        _, shape = tile(spatial[line].output)
        ends = _ends(every[line][0], spatial[line].input, shape.rows)
    joined = spatial[line].kernel == spatial[line].stride == 1  # its lines make one, unless something is left out
    apart = outer != line and not joined and _some_outside(every[outer][0], spatial[outer].input)
    return Cuts(outer if apart else None, line if ends else None, ends)


def _some_outside(phase: Phase, size: int) -> bool:
    """Whether windows reach beyond the `size` elements of a dimension, but none is all outside."""
    begin, end = phase.extent
    reach = (phase.taps - 1) * phase.dilation
    return (begin < 0 or end > size) and begin + reach >= 0 and end - reach <= size and phase.dilation <= size


def _ends(phase: Phase, size: int, rows: int) -> Ends | None:
    """What tiles of `rows` rows leave out at the ends of a line of `size` elements; None if nothing, or if they cannot.

    The first and the last tile alone do, each element of the window in one of them, and there is little code for it.
    """
    count, stride = phase.count, phase.stride
    places = range(phase.start, phase.start + phase.taps * phase.dilation, phase.dilation)
    before = [min(max(-(at // stride), 0), count) for at in places]
    behind = [count - min(max(-((at - size) // stride), 0), count) for at in places]
    first, last, rest = before[0], behind[-1], count % rows
    simple = (0, 0) in zip(before, behind, strict=True) and not any(map(min, before, behind))
    fits = first < rows and last < rows and (not rest or (last <= rest and first <= count - rows))
    at_start, at_end = (
        tuple((len(list(alike)), missing) for missing, alike in groupby(side) if missing) for side in (before, behind)
    )
    return Ends(at_start, at_end) if simple and fits and 0 < len(at_start) + len(at_end) <= MOST_ENDS else None
