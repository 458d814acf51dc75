"""Elements a few places apart: picked from whole vectors, and put into them.

Vectors that lie side by side, as memory has them, are called chunks here.  No type is complex.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.math.elements import Value, from_memory, memory_type, to_memory
from hlotool.codegen.llvm.memory import alignment, constant_mask, load_raw, store_raw
from hlotool.codegen.llvm.types import type_text
from hlotool.codegen.llvm.writer import Function

__all__ = ["WIDEST_STEP", "Chunk", "load_chunks", "load_strided", "pick", "store_interleaved", "store_strided"]

WIDEST_STEP: Annotated[int, Threshold("elements")] = 4
"""How far apart elements may lie to be picked from whole vectors instead of one by one."""

Chunk = tuple[int, str]
"""How many elements behind a place a chunk begins, and the chunk."""


def load_strided(f: Function, element_type: str, lanes: int, pointer: str, step: int, active: int) -> Value:
    """Every `step`-th element from `pointer` for the first `active` lanes.

    Nothing behind the last element is read.
    """
    needed = (active - 1) * step + 1
    if needed <= lanes:
        return pick(f, element_type, lanes, load_chunks(f, element_type, lanes, pointer, needed), step, 0, active)
    memory, count = memory_type(element_type), -(-needed // lanes)
    # Evenly spaced they mostly have no two elements in the same lane: `step` of them are lanes - 1 apart.
    starts = [k * (needed - lanes) // (count - 1) for k in range(count)]
    chunks = [(start, load_raw(f, element_type, lanes, _at(f, memory, pointer, start))) for start in starts]
    return pick(f, element_type, lanes, chunks, step, 0, active)


def load_chunks(f: Function, element_type: str, lanes: int, pointer: str, count: int) -> list[Chunk]:
    """The chunks of `count` elements from `pointer` on."""
    memory = memory_type(element_type)
    chunks = []
    for start in range(0, count, lanes):
        mask = constant_mask(count - start, lanes) if count - start < lanes else None
        chunks.append((start, load_raw(f, element_type, lanes, _at(f, memory, pointer, start), mask)))
    return chunks


def pick(
    f: Function, element_type: str, lanes: int, chunks: Sequence[Chunk], step: int, first: int, active: int
) -> Value:
    """Every `step`-th element from number `first` on for the first `active` lanes; they lie in `chunks`."""
    kind = type_text(memory_type(element_type), lanes)
    places = [first + step * min(k, active - 1) for k in range(lanes)]
    holders = [next(n for n, (start, _) in enumerate(chunks) if place < start + lanes) for place in places]
    found = [place - chunks[n][0] for place, n in zip(places, holders, strict=True)]
    owner = dict(zip(found, holders, strict=True))
    if len(owner) == active:  # no two lie in the same lane: blend, and rearrange once
        used = sorted(set(holders))
        picked = chunks[used[0]][1]
        for n in used[1:]:
            picked = _shuffled(f, kind, picked, chunks[n][1], [k + lanes * (owner.get(k) == n) for k in range(lanes)])
        return from_memory(f, element_type, lanes, _shuffled(f, kind, picked, "poison", found))
    picked, order = chunks[0][1], [0 if n else lane for lane, n in zip(found, holders, strict=True)]
    for n in range(1, len(chunks)):
        order = [lanes + lane if m == n else rest for lane, m, rest in zip(found, holders, order, strict=True)]
        picked, order = _shuffled(f, kind, picked, chunks[n][1], order), list(range(lanes))
    return from_memory(f, element_type, lanes, picked)


def store_strided(
    f: Function, element_type: str, lanes: int, pointer: str, step: int, active: int, value: Value
) -> None:
    """Write the first `active` lanes to every `step`-th element from `pointer`; what lies between is not written."""
    raw = to_memory(f, element_type, lanes, value)
    assert isinstance(raw, str)
    memory, align = memory_type(element_type), alignment(element_type)
    kind = type_text(memory, lanes)
    for start in range(0, (active - 1) * step + 1, lanes):
        places = range(start, start + lanes)
        written = [place % step == 0 and place // step < active for place in places]
        if sum(written) == 1:
            lane = next(place // step for place, own in zip(places, written, strict=True) if own)
            own = f.let(f"extractelement {kind} {raw}, i64 {lane}")
            f.do(f"store {memory} {own}, ptr {_at(f, memory, pointer, lane * step)}, align {align}")
            continue
        # Were they repeated, LLVM 22's DAG combiner would swap this and the masks of small integers for ever.
        order = [place // step if own else None for place, own in zip(places, written, strict=True)]
        spread = _shuffled(f, kind, raw, "poison", order)
        mask = "<" + ", ".join(f"i1 {str(own).lower()}" for own in written) + ">"
        store_raw(f, memory, lanes, _at(f, memory, pointer, start), spread, align, mask)


def store_interleaved(
    f: Function, element_type: str, lanes: int, pointer: str, active: int, values: Sequence[Value]
) -> None:
    """Write the first `active` lanes of two to four `values` from `pointer` on: lane 0 of each, lane 1 of each, ..."""
    memory, align = memory_type(element_type), alignment(element_type)
    raw = [to_memory(f, element_type, lanes, value) for value in values]
    count = active * len(raw)
    chunks = _interleaved(f, type_text(memory, lanes), lanes, [str(r) for r in raw])
    for start, chunk in zip(range(0, count, lanes), chunks, strict=False):
        mask = constant_mask(count - start, lanes) if count - start < lanes else None
        store_raw(f, memory, lanes, _at(f, memory, pointer, start), chunk, align, mask)


def _interleaved(f: Function, kind: str, lanes: int, values: Sequence[str]) -> list[str]:
    """As many vectors as `values`: lane 0 of each of those, then lane 1 of each, and so on."""
    count = len(values)
    if count == 1:
        return list(values)
    if count % 2 == 0:  # pairs that are interleaved are the lanes of half as many
        halves = (_interleaved(f, kind, lanes, values[first::2]) for first in (0, 1))
        orders = ([first + k // 2 + k % 2 * lanes for k in range(lanes)] for first in (0, lanes // 2))
        low, high = orders
        return [_shuffled(f, kind, x, y, order) for x, y in zip(*halves, strict=True) for order in (low, high)]
    # Each value's lanes come to the same places in all vectors, where they are rearranged before they are chosen.
    turned = []
    for number, value in enumerate(values):
        order = [0] * lanes
        for lane in range(lanes):
            order[(lane * count + number) % lanes] = lane
        turned.append(_shuffled(f, kind, value, "poison", order))
    chunks = []
    for start in range(0, count * lanes, lanes):
        chunk = turned[0]
        for number in range(1, count):
            order = [k + lanes * ((start + k) % count == number) for k in range(lanes)]
            chunk = _shuffled(f, kind, chunk, turned[number], order)
        chunks.append(chunk)
    return chunks


def _at(f: Function, memory: str, pointer: str, offset: int) -> str:
    return f.let(f"getelementptr {memory}, ptr {pointer}, i64 {offset}") if offset else pointer


def _shuffled(f: Function, kind: str, first: str, second: str, order: Sequence[int | None]) -> str:
    """Lanes of two vectors; None is any."""
    picks = ", ".join("i32 poison" if o is None else f"i32 {o}" for o in order)
    return f.let(f"shufflevector {kind} {first}, {kind} {second}, <{len(order)} x i32> <{picks}>")
