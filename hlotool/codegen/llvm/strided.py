"""Elements a few places apart: picked from whole vectors, and put into them.

Vectors that lie side by side, as memory has them, are called chunks here.  No type is complex.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elements import Register, from_memory, memory_type, to_memory, vector
from hlotool.codegen.llvm.memory import alignment, first_lanes, load_raw, store_raw
from hlotool.codegen.llvm.values import Ptr, Vector, constants

__all__ = ["WIDEST_STEP", "Chunk", "load_chunks", "load_strided", "pick", "store_interleaved", "store_strided"]

WIDEST_STEP: Annotated[int, Threshold("elements")] = 4
"""How far apart elements may lie to be picked from whole vectors instead of one by one."""

Chunk = tuple[int, Vector]
"""How many elements behind a place a chunk begins, and the chunk."""


def load_strided(element_type: str, lanes: int, place: Ptr, step: int, active: int) -> Register:
    """Every `step`-th element from `place` for the first `active` lanes.

    Nothing behind the last element is read.
    """
    needed = (active - 1) * step + 1
    if needed <= lanes:
        return pick(element_type, load_chunks(element_type, lanes, place, needed), step, 0, active)
    memory, count = memory_type(element_type), -(-needed // lanes)
    # Evenly spaced they mostly have no two elements in the same lane: `step` of them are lanes - 1 apart.
    starts = [k * (needed - lanes) // (count - 1) for k in range(count)]
    chunks = [(start, load_raw(element_type, lanes, place.at(memory, start))) for start in starts]
    return pick(element_type, chunks, step, 0, active)


def load_chunks(element_type: str, lanes: int, place: Ptr, count: int) -> list[Chunk]:
    """The chunks of `count` elements from `place` on."""
    memory = memory_type(element_type)
    return [
        (start, load_raw(element_type, lanes, place.at(memory, start), first_lanes(place.f, count - start, lanes)))
        for start in range(0, count, lanes)
    ]


def pick(element_type: str, chunks: Sequence[Chunk], step: int, first: int, active: int) -> Register:
    """Every `step`-th element from number `first` on for the first `active` lanes; they lie in `chunks`."""
    picked = chunks[0][1]
    lanes = picked.lanes
    places = [first + step * min(k, active - 1) for k in range(lanes)]
    holders = [next(n for n, (start, _) in enumerate(chunks) if place < start + lanes) for place in places]
    found = [place - chunks[n][0] for place, n in zip(places, holders, strict=True)]
    owner = dict(zip(found, holders, strict=True))
    if len(owner) == active:  # no two lie in the same lane: blend, and rearrange once
        used = sorted(set(holders))
        picked = chunks[used[0]][1]
        for n in used[1:]:
            picked = picked.shuffle([k + lanes * (owner.get(k) == n) for k in range(lanes)], chunks[n][1])
        return from_memory(element_type, picked.shuffle(found))
    order = [0 if n else lane for lane, n in zip(found, holders, strict=True)]
    for n in range(1, len(chunks)):
        order = [lanes + lane if m == n else rest for lane, m, rest in zip(found, holders, order, strict=True)]
        picked, order = picked.shuffle(order, chunks[n][1]), list(range(lanes))
    return from_memory(element_type, picked)


def store_strided(element_type: str, place: Ptr, step: int, active: int, value: Register) -> None:
    """Write the first `active` lanes to every `step`-th element from `place`; what lies between is not written."""
    raw, align = vector(to_memory(element_type, value)), alignment(element_type)
    lanes = raw.lanes
    for start in range(0, (active - 1) * step + 1, lanes):
        # A lane of `raw` for every element, -1 for those between.  Were they repeated, LLVM 22's DAG combiner would
        # swap this and the masks of small integers for ever.
        order = [k // step if k % step == 0 and k // step < active else -1 for k in range(start, start + lanes)]
        written = [lane for lane in order if lane >= 0]
        if len(written) == 1:
            own = raw[written[0]]
            place.at(raw.element, written[0] * step).store(own, align)
            continue
        spread = raw.shuffle(order)
        mask = constants(place.f, "i1", [lane >= 0 for lane in order])
        store_raw(place.at(raw.element, start), spread, align, mask)


def store_interleaved(element_type: str, place: Ptr, active: int, values: Sequence[Register]) -> None:
    """Write the first `active` lanes of two to four `values` from `place` on: lane 0 of each, lane 1 of each, ..."""
    align, count = alignment(element_type), active * len(values)
    chunks = _interleaved([vector(to_memory(element_type, value)) for value in values])
    lanes = chunks[0].lanes
    for start, chunk in zip(range(0, count, lanes), chunks, strict=False):
        store_raw(place.at(chunk.element, start), chunk, align, first_lanes(place.f, count - start, lanes))


def _interleaved(values: Sequence[Vector]) -> list[Vector]:
    """As many vectors as `values`: lane 0 of each of those, then lane 1 of each, and so on."""
    count, lanes = len(values), values[0].lanes
    if count == 1:
        return list(values)
    if count % 2 == 0:  # pairs that are interleaved are the lanes of half as many
        halves = [_interleaved(values[first::2]) for first in (0, 1)]
        low, high = [[first + k // 2 + k % 2 * lanes for k in range(lanes)] for first in (0, lanes // 2)]
        return [x.shuffle(order, y) for x, y in zip(*halves, strict=True) for order in (low, high)]
    # Each value's lanes come to the same places in all vectors, where they are rearranged before they are chosen.
    turned = []
    for number, value in enumerate(values):
        order = [0] * lanes
        for lane in range(lanes):
            order[(lane * count + number) % lanes] = lane
        turned.append(value.shuffle(order))
    chunks = []
    for start in range(0, count * lanes, lanes):
        chunk = turned[0]
        for number in range(1, count):
            chunk = chunk.shuffle([k + lanes * ((start + k) % count == number) for k in range(lanes)], turned[number])
        chunks.append(chunk)
    return chunks
