"""From one tiling of an array to another, by the collectives that move the fewest bytes.

A way is a sequence of steps, each of which is one collective or none:

* a device takes a part of what it has (nothing is moved);
* tiles along a dimension are gathered, all or some of them;
* tiles along one dimension become tiles along another (all-to-all);
* devices exchange their tiles (collective-permute).

Terms of an array are added up first where others are wanted (all-reduce), and of an array that is to be in terms the
first one has everything.

The cheapest sequence is searched for among the tilings that such steps lead to.  Facts: Xu et al. 2021, GSPMD
(arXiv:2105.04663), section 4.5.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from math import prod
from typing import TypeAlias

from hlotool.ir import Instruction, byte_size
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.tiling import Axis, Tiling, is_grid, replicated, tile_size
from hlotool.passes.spmd.values import Part
from hlotool.passes.spmd.writer import Writer, partial_type

__all__ = ["Way", "bytes_moved", "cut_further", "reshard", "summed_up", "way", "whole"]

_MOST_TILINGS = 200  # that a search looks at


@dataclass(frozen=True, slots=True)
class _Take:
    """Of what a device has, a part."""

    to: Tiling


@dataclass(frozen=True, slots=True)
class _Gather:
    """Tiles along a dimension."""

    to: Tiling
    dimension: int


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Tiles along `source` for tiles along `target`."""

    to: Tiling
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class _Permute:
    """Tiles for others of the same shape."""

    to: Tiling
    pairs: tuple[tuple[int, int], ...]


_Step: TypeAlias = "_Take | _Gather | _Exchange | _Permute"


@dataclass(frozen=True, slots=True)
class Way:
    """Steps from one tiling to another, and how many elements a device receives on it."""

    steps: tuple[_Step, ...]
    elements: int


def bytes_moved(part: Part, target: Tiling) -> int:
    """Bytes that each device receives where `part` gets another tiling."""
    if not part.shape.is_array:
        return 0
    found = way(part.shape.dimensions, part.tiling, target)
    return found.elements * byte_size(part.shape.element_type)


def reshard(writer: Writer, part: Part, target: Tiling) -> Part:
    """The same array with another tiling."""
    if not part.shape.is_array:
        return part
    if part.tiling.terms and part.tiling != target:
        part = summed_up(writer, part)
    if target.terms and part.tiling != target:
        return _in_terms(writer, reshard(writer, part, target.summed), target)
    x, now = part.local, part.tiling
    for step in way(part.shape.dimensions, now, target).steps:
        x = _carried_out(writer, Part(x, part.shape, now), step)
        now = step.to
    return Part(x, part.shape, target)


def summed_up(writer: Writer, part: Part) -> Part:
    """The same array, its terms added up."""
    if not part.tiling.terms:
        return part
    kind = part.local.shape.element_type
    wide = partial_type(kind)
    x = part.local if wide == kind else writer.build.convert(part.local, wide)
    combine = writer.work.combiner("or" if kind == "pred" else "add", wide)
    (x,) = writer.all_reduce([x], part.tiling.term_groups, combine)
    return Part(x if wide == kind else writer.build.convert(x, kind), part.shape, part.tiling.summed)


def _in_terms(writer: Writer, part: Part, target: Tiling) -> Part:
    """Of terms, the first is the array, and all others are zero."""
    build, x = writer.build, part.local
    first = build.compare(writer.table(target.terms), writer.zero("s32"), "EQ")
    zeros = build.broadcast(writer.zero(x.shape.element_type), (), x.shape.dimensions)
    return Part(build.select(build.broadcast(first, (), x.shape.dimensions), x, zeros), part.shape, target)


# ---- finding a way


@lru_cache(maxsize=16384)
def way(dimensions: tuple[int, ...], source: Tiling, target: Tiling) -> Way:
    """The cheapest way from `source` to `target` of an array with these `dimensions`."""
    if source.axes == target.axes:
        return Way((), 0)
    if not source.is_manual and target.is_manual:  # all devices have the same there
        source = Tiling(source.axes, target.worlds)
    target = Tiling(target.axes, source.worlds)
    if _is_within(dimensions, source, target):
        return Way((_Take(target),), 0)
    number = count()
    queue: list[tuple[int, int, int, Tiling, tuple[_Step, ...]]] = [(0, 0, next(number), source, ())]
    best: dict[Tiling, tuple[int, int]] = {source: (0, 0)}
    while queue:
        cost, length, _, now, steps = heappop(queue)
        if now.axes == target.axes:
            return Way(steps, cost)
        if (cost, length) > best[now] or len(best) > _MOST_TILINGS:
            continue
        for step, more in _moves(dimensions, now, target):
            reached = cost + more, length + 1
            if reached < best.get(step.to, (1 << 62, 0)):
                best[step.to] = reached
                heappush(queue, (*reached, next(number), step.to, (*steps, step)))
    raise AssertionError("everything can be gathered")


def _moves(dimensions: tuple[int, ...], now: Tiling, target: Tiling) -> Iterator[tuple[_Step, int]]:
    """Steps that may lead on, and how many elements a device receives in each."""
    if _is_within(dimensions, now, target):
        yield _Take(target), 0
        return
    if now.counts == target.counts and is_grid(now.axes, now.worlds) and is_grid(target.axes, target.worlds):
        yield _Permute(target, _pairs(now, target)), _elements(dimensions, now)
    differing = [d for d in range(now.rank) if now.axes[d] != target.axes[d]]
    for d in differing:
        taken = now.with_axis(d, target.axes[d])
        possible = now.axes[d].count < target.axes[d].count and is_grid(taken.axes, taken.worlds)
        if possible and _is_within(dimensions, now, taken):
            yield _Take(taken), 0
    for d in differing:
        held = now.axes[d].count
        for factor in _factors(held):
            gathered = _coarser(dimensions[d], now.axes[d], factor)
            if gathered is None:
                continue
            to = now.with_axis(d, gathered)
            yield _Gather(to, d), _elements(dimensions, now) * (factor - 1)
            for other in differing:
                finer = cut_further(dimensions[other], now.axes[other], now.axes[d], factor)
                if other != d and target.axes[other].count > now.axes[other].count and finer is not None:
                    part = _elements(dimensions, now.with_axis(other, finer))
                    yield _Exchange(to.with_axis(other, finer), d, other), part * (factor - 1)


@lru_cache(maxsize=256)
def _factors(number: int) -> tuple[int, ...]:
    return tuple([n for n in range(2, number + 1) if number % n == 0])


def _elements(dimensions: tuple[int, ...], tiling: Tiling) -> int:
    return prod([tile_size(n, axis.count) for n, axis in zip(dimensions, tiling.axes, strict=True)])


def _coarser(size: int, axis: Axis, factor: int) -> Axis | None:
    """With tiles that are `factor` of those side by side; None where these are no tiles of that many elements."""
    left = axis.count // factor
    if left > 1 and tile_size(size, axis.count) * factor != tile_size(size, left):
        return None
    return Axis(left, tuple([place // factor for place in axis.places]))


def cut_further(size: int, axis: Axis, by: Axis, factor: int) -> Axis | None:
    """Tiles cut into `factor` parts, in the order in which `by` counts devices."""
    new = axis.count * factor
    if axis.count > 1 and tile_size(size, new) * factor != tile_size(size, axis.count):
        return None
    places = [place * factor + other % factor for place, other in zip(axis.places, by.places, strict=True)]
    return Axis(new, tuple(places))


@lru_cache(maxsize=16384)
def _is_within(dimensions: tuple[int, ...], source: Tiling, target: Tiling) -> bool:
    """Whether every device has all of what it is to have."""
    for size, given, wanted in zip(dimensions, source.axes, target.axes, strict=True):
        if given == wanted or given.count == 1:
            continue
        have, want = tile_size(size, given.count), tile_size(size, wanted.count)
        for mine, other in zip(given.places, wanted.places, strict=True):
            start, end = other * want, min((other + 1) * want, size)
            if start < end and not (mine * have <= start and end <= (mine + 1) * have):
                return False
    return True


def _pairs(source: Tiling, target: Tiling) -> tuple[tuple[int, int], ...]:
    """Who sends to whom: each device sends once, and to itself where it has what it is to have."""
    holders: dict[object, list[int]] = defaultdict(list)
    for device, world in enumerate(source.worlds):
        holders[world, source.place(device)].append(device)
    wanted = [(world, target.place(device)) for device, world in enumerate(source.worlds)]
    found = []
    for device, key in enumerate(wanted):
        if device in holders[key]:
            holders[key].remove(device)
            found.append((device, device))
    settled = {device for _, device in found}
    for device, key in enumerate(wanted):
        if device not in settled:
            found.append((holders[key].pop(0), device))
    return tuple(sorted(found))


# ---- going it


def _carried_out(writer: Writer, part: Part, step: _Step) -> Instruction:
    match step:
        case _Take():
            return _taken(writer, part, step.to)
        case _Gather():
            return _gathered(writer, part, step)
        case _Exchange():
            return _exchanged(writer, part, step)
        case _Permute():
            return writer.permute(part.local, step.pairs)


def _taken(writer: Writer, part: Part, to: Tiling) -> Instruction:
    starts, sizes = {}, {}
    for d, (size, given, wanted) in enumerate(zip(part.shape.dimensions, part.tiling.axes, to.axes, strict=True)):
        if given == wanted:
            continue
        have, want = tile_size(size, given.count), tile_size(size, wanted.count)
        begins = [other * want - mine * have for mine, other in zip(given.places, wanted.places, strict=True)]
        # a device whose tile is empty takes anything
        empty = [other * want >= size for other in wanted.places]
        starts[d] = [0 if none else begin for none, begin in zip(empty, begins, strict=True)]
        sizes[d] = want
    return writer.at(part.local, starts, sizes)


def _gathered(writer: Writer, part: Part, step: _Gather) -> Instruction:
    d = step.dimension
    axis = part.tiling.axes[d]
    factor = axis.count // step.to.axes[d].count
    gathered = writer.all_gather(part.local, d, _groups(part.tiling, d, step.to, factor))
    return writer.cut(gathered, d, tile_size(part.shape.dimensions[d], step.to.axes[d].count))


def _groups(tiling: Tiling, dimension: int, to: Tiling, factor: int) -> tuple[tuple[int, ...], ...]:
    """Devices whose tiles along a dimension become one, in order of the tiles."""
    places = tiling.axes[dimension].places
    apart = Tiling(
        (*to.axes[:dimension], Axis(factor, tuple([p % factor for p in places])), *to.axes[dimension:]), to.worlds
    )
    return apart.groups([dimension])


def _exchanged(writer: Writer, part: Part, step: _Exchange) -> Instruction:
    """The other dimension is cut into parts, one for each device of the group, which go in front; those that come are
    put together along the dimension that was cut."""
    build = writer.build
    source, target = step.source, step.target
    factor = step.to.axes[target].count // part.tiling.axes[target].count
    before = part.tiling.with_axis(source, step.to.axes[source])
    groups = _groups(part.tiling, source, before, factor)
    size = tile_size(part.shape.dimensions[target], step.to.axes[target].count)
    x = writer.grown(part.local, target, size * factor)
    sizes = list(x.shape.dimensions)
    apart = build.reshape(x, (*sizes[:target], factor, size, *sizes[target + 1 :]))
    moved = writer.all_to_all(apart, target, groups)
    # the parts that came: in front of the dimension that they are tiles of
    rest = [d for d in range(len(sizes) + 1) if d != target]
    inside = source if source < target else source + 1
    place = rest.index(inside)
    order = [*rest[:place], target, *rest[place:]]
    turned = build.transpose(moved, order)
    sizes[target] = size
    sizes[source] *= factor
    joined = build.reshape(turned, tuple(sizes))
    return writer.cut(joined, source, tile_size(part.shape.dimensions[source], step.to.axes[source].count))


def whole(part: Part) -> Tiling:
    """The tiling of `part` with all of it on every device."""
    return replicated(part.tiling.rank, len(part.tiling.worlds), part.tiling.worlds)
