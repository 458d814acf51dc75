"""Window elements of a convolution that lie outside of its input: where tiles leave them out, and nothing is padded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.conv_spec import ConvSpec, Phase
from hlotool.codegen.cpu.products.product import Ends, TileShape

__all__ = ["NO_CUTS", "Cuts", "cuts_of", "extent_of", "is_bordered"]

MOST_ENDS: Annotated[int, Threshold("positions")] = 4
"""Parts of a line of the window, beside the usual one, that some rows of a tile leave out."""


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
