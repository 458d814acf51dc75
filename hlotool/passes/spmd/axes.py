"""Which dimensions of operands and results go together, and how those of an instruction are to be divided.

A rule names axes: a dimension of an operand and one of the result with the same number are divided alike, and a device
then needs of that operand only what belongs to its part of the result.  An axis that operands alone have is one along
which devices get partial results, which are combined.  Of all ways to divide the axes, the one is chosen in which the
fewest bytes are moved: by the operands, by combining, and by the result on its way to the tiling that is asked for.
Facts: Xu et al. 2021, GSPMD (arXiv:2105.04663), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import TypeAlias

from hlotool.ir import Shape, byte_size
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.reshard import bytes_moved, cut_further, way
from hlotool.passes.spmd.tiling import Axis, Tiling, is_grid, tiled_by
from hlotool.passes.spmd.values import Part

__all__ = ["Axes", "Chosen", "Labels", "cheapest", "choose", "scattering"]

Labels: TypeAlias = "tuple[int | None, ...]"
_MOST_CANDIDATES = 7
_WORK_OF_A_BYTE = 64
"""Operations that a device does while a byte comes over a network, about: 1.6 TFLOP/s beside 25 GB/s."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The axis of each dimension of each operand and of each array of the result; None: it has to be whole.

    `combined` axes give partial results.  Along `mirrored` ones, the tiles of results are counted from the other end.
    The tiles of an axis in `divides` divide that number.  `halo` says how many bytes come from neighbours along an
    axis, where all axes are divided so; None where that is not possible.  `work` is how many operations the whole
    result takes.
    """

    operands: tuple[Labels, ...]
    results: tuple[Labels, ...]
    combined: frozenset[int] = frozenset()
    divides: Mapping[int, int] = field(default_factory=dict)
    halo: Callable[[int, Chosen], int | None] | None = None
    work: int = 0
    mirrored: frozenset[int] = frozenset()

    def results_in(self, chosen: Chosen) -> list[Tiling]:
        """The tilings that results get."""
        return [self.turned(labels, chosen.tiling(labels)) for labels in self.results]

    def turned(self, labels: Labels, tiling: Tiling) -> Tiling:
        """Of a result, the tiling of an operand that has the same elements on each device; and the other way round."""
        for d, label in enumerate(labels):
            if label in self.mirrored:
                tiling = tiling.with_axis(d, tiling.axes[d].mirrored)
        return tiling


@dataclass(frozen=True, slots=True)
class Chosen:
    """How each axis is divided, None where it is not."""

    axes: Mapping[int, Axis]
    worlds: tuple[int, ...]

    def tiling(self, labels: Labels) -> Tiling:
        """Of an operand with these axes, or of a result that is not mirrored."""
        return tiled_by([None if label is None else self.axes.get(label) for label in labels], self.worlds)

    @property
    def parts(self) -> int:
        """Into how many parts the work is divided."""
        return prod([axis.count for axis in self.axes.values()])


def choose(
    axes: Axes,
    parts: Sequence[Part],
    results: Sequence[Shape],
    wanted: Sequence[Tiling] | None,
    worlds: tuple[int, ...],
) -> Chosen:
    """The cheapest division for operands `parts` and `results`, which are `wanted` in some tilings."""
    return cheapest(axes, parts, results, wanted, worlds)[0]


def cheapest(
    axes: Axes,
    parts: Sequence[Part],
    results: Sequence[Shape],
    wanted: Sequence[Tiling] | None,
    worlds: tuple[int, ...],
) -> tuple[Chosen, int]:
    """The same, and the bytes that are moved, with the time that is computed in bytes."""
    candidates = _candidates(axes, parts, results, wanted)
    best: Chosen | None = None
    least: tuple[int, int] = (0, 0)
    for subset in _subsets(candidates, worlds):
        chosen = Chosen(subset, worlds)
        cost = _cost(axes, chosen, parts, results, wanted)
        if cost is not None and (best is None or (cost, -chosen.parts) < least):
            best, least = chosen, (cost, -chosen.parts)
    assert best is not None
    return best, least[0]


def _candidates(
    axes: Axes, parts: Sequence[Part], results: Sequence[Shape], wanted: Sequence[Tiling] | None
) -> list[tuple[int, Axis]]:
    """Divisions of axes that operands have or that are wanted, those of the largest arrays first; then such in which
    tiles that are in the way are tiles along another dimension instead."""
    weights: dict[tuple[int, Axis], int] = {}
    turned: dict[tuple[int, Axis], int] = {}
    rows = [(labels, part.tiling, part.shape) for labels, part in zip(axes.operands, parts, strict=True)]
    if wanted is not None:
        asked = zip(axes.results, wanted, results, strict=True)
        rows += [(labels, axes.turned(labels, tiling), shape) for labels, tiling, shape in asked]
    for labels, tiling, shape in rows:
        for d, (label, axis) in enumerate(zip(labels, tiling.axes, strict=True)):
            if axis.count == 1:
                continue
            more = _needed(axes, label, axis, tiling.worlds)
            if label is not None and more is not None:
                weights[label, axis] = weights.get((label, axis), 0) + shape.byte_size
            if more == 0:
                continue
            for other, instead in _turned(labels, tiling, shape, d):
                if _needed(axes, other, instead, tiling.worlds) == 0:
                    turned[other, instead] = turned.get((other, instead), 0) + shape.byte_size
    return [
        key
        for found in (weights, {key: weight for key, weight in turned.items() if key not in weights})
        for key in sorted(found, key=lambda key: (-found[key], key[0], key[1].count, key[1].places))
    ][:_MOST_CANDIDATES]


def _needed(axes: Axes, label: int | None, axis: Axis, worlds: tuple[int, ...]) -> int | None:
    """How many bytes come from neighbours where one axis is divided; None where it cannot be."""
    if label is None or axes.divides.get(label, axis.count) % axis.count:
        return None
    return 0 if axes.halo is None else axes.halo(label, Chosen({label: axis}, worlds))


def _turned(labels: Labels, tiling: Tiling, shape: Shape, dimension: int) -> Iterator[tuple[int, Axis]]:
    """Axes of the other dimensions, divided further by the tiles of one, where that is even."""
    by = tiling.axes[dimension]
    for d, (label, axis) in enumerate(zip(labels, tiling.axes, strict=True)):
        if d == dimension or label is None or shape.dimensions[d] % (axis.count * by.count):
            continue
        finer = cut_further(shape.dimensions[d], axis, by, by.count)
        if finer is not None:
            yield label, finer


def _subsets(candidates: Sequence[tuple[int, Axis]], worlds: tuple[int, ...]) -> Iterator[dict[int, Axis]]:
    """All sets of divisions that go together."""
    stack: list[tuple[int, dict[int, Axis]]] = [(0, {})]
    while stack:
        number, taken = stack.pop()
        if number == len(candidates):
            yield taken
            continue
        stack.append((number + 1, taken))
        label, axis = candidates[number]
        if label not in taken and is_grid((*taken.values(), axis), worlds):
            stack.append((number + 1, {**taken, label: axis}))


def _cost(
    axes: Axes, chosen: Chosen, parts: Sequence[Part], results: Sequence[Shape], wanted: Sequence[Tiling] | None
) -> int | None:
    """Bytes that a device receives, and the time that it computes, in bytes."""
    found = sum([bytes_moved(part, chosen.tiling(labels)) for part, labels in zip(parts, axes.operands, strict=True)])
    members = prod([chosen.axes[label].count for label in axes.combined if label in chosen.axes])
    rows = zip(axes.results, axes.results_in(chosen), results, strict=True)
    for number, (labels, tiling, shape) in enumerate(rows):
        target = wanted[number] if wanted is not None else tiling
        width = byte_size(shape.element_type)
        if members > 1 and members != max(target.terms, default=0) + 1:  # else partial results stay what they are
            size = prod(tiling.local(shape).dimensions) * width
            scattered = scattering(axes, chosen, labels, target)
            if scattered is not None:
                d, axis = scattered
                found += size * (members - 1) // members
                tiling = tiling.with_axis(d, axis)
            else:
                found += 2 * size * (members - 1) // members
        found += way(shape.dimensions, tiling, target).elements * width
    if axes.halo is not None:
        for label in chosen.axes:
            more = axes.halo(label, chosen)
            if more is None:
                return None
            found += more
    return found + axes.work // chosen.parts // _WORK_OF_A_BYTE


def scattering(axes: Axes, chosen: Chosen, labels: Labels, target: Tiling) -> tuple[int, Axis] | None:
    """The dimension of a result in which partial results can be combined and divided at once, and how: where what is
    asked for has just the division of the only axis that is combined."""
    divided = [chosen.axes[label] for label in sorted(axes.combined) if label in chosen.axes]
    if len(divided) != 1:
        return None
    for d, label in enumerate(labels):
        free = label is None or label not in chosen.axes
        if free and target.axes[d] == divided[0]:
            return d, divided[0]
    return None
