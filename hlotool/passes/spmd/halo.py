"""Pieces of a divided dimension that do not begin where tiles do: what is missing comes from other devices.

A device that wants elements `start` to ``start + size`` of a dimension gets, tile by tile, what it needs of those in
which they are: one exchange for each of the tiles that a piece may reach into.  Facts: Xu et al. 2021, GSPMD
(arXiv:2105.04663), section 4.3.
"""

from __future__ import annotations

from math import prod

from hlotool.ir import Instruction, Shape, byte_size
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.tiling import Axis, Tiling, tile_size
from hlotool.passes.spmd.values import Part
from hlotool.passes.spmd.writer import Writer

__all__ = ["Piece", "halo_bytes", "piece_of"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Of each tile number n along an axis, the elements from ``starts[n]`` on, `size` of them.

    Elements before the first and behind the last there are may be anything.
    """

    starts: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class _Slot:
    """What comes in one exchange: of the tile ``sources[n]``, for those with tile n, elements `low` to `high`."""

    sources: tuple[int | None, ...]
    low: int
    high: int


def _slots(piece: Piece, size: int, axis: Axis) -> list[_Slot] | None:
    """The exchanges; None where a device would have to send to two others at once."""
    tile = tile_size(size, axis.count)
    first = [start // tile for start in piece.starts]
    reach = [(start + piece.size - 1) // tile for start in piece.starts]
    number = max(last - begin for begin, last in zip(first, reach, strict=True)) + 1
    if number > axis.count:
        return None
    slots = []
    for j in range(number):
        low, high = tile, 0
        sources: list[int | None] = []
        for start, begin in zip(piece.starts, first, strict=True):
            tile_number = begin + j
            low = min(low, max(start - tile_number * tile, 0))
            high = max(high, min(start + piece.size - tile_number * tile, tile))
            # a tile that is needed, and is there
            needed = start < (tile_number + 1) * tile and tile_number * tile < min(start + piece.size, size)
            sources.append(tile_number if needed and 0 <= tile_number < axis.count else None)
        known = [s for s in sources if s is not None]
        if len(set(known)) != len(known):
            return None
        slots.append(_Slot(tuple(sources), 0 if j else low, high if j == number - 1 else tile))
    return slots


def halo_bytes(piece: Piece, shape: Shape, dimension: int, tiling: Tiling) -> int | None:
    """How many bytes a device receives for a piece of a dimension of an array that is divided so; None where neighbours
    cannot send it."""
    slots = _slots(piece, shape.dimensions[dimension], tiling.axes[dimension])
    if slots is None:
        return None
    row = prod([n for d, n in enumerate(tiling.local(shape).dimensions) if d != dimension])
    return sum([(slot.high - slot.low) * row for slot in slots if not _is_own(slot)]) * byte_size(shape.element_type)


def _is_own(slot: _Slot) -> bool:
    """Whether nobody needs what another has."""
    return all(source is None or source == n for n, source in enumerate(slot.sources))


def piece_of(writer: Writer, part: Part, x: Instruction, dimension: int, piece: Piece) -> Instruction:
    """Of what devices have in `x`, which is divided along `dimension` as `part` is, the piece of each."""
    axis, size = part.tiling.axes[dimension], part.shape.dimensions[dimension]
    tile = tile_size(size, axis.count)
    if axis.count == 1:
        return writer.at(x, {dimension: [piece.starts[0]] * len(axis.places)}, {dimension: piece.size})
    slots = _slots(piece, size, axis)
    assert slots is not None
    strips = []
    for slot in slots:
        strip = _strip(writer, x, dimension, slot)
        strips.append(strip if _is_own(slot) else writer.permute(strip, _pairs(part, dimension, slot)))
    joined = strips[0] if len(strips) == 1 else writer.build.concatenate(strips, dimension)
    begins = [start - (start // tile * tile + slots[0].low) for start in piece.starts]
    return writer.at(joined, {dimension: [begins[place] for place in axis.places]}, {dimension: piece.size})


def _strip(writer: Writer, x: Instruction, dimension: int, slot: _Slot) -> Instruction:
    sizes = x.shape.dimensions
    if (slot.low, slot.high) == (0, sizes[dimension]):
        return x
    starts = [slot.low if d == dimension else 0 for d in range(len(sizes))]
    return writer.build.slice(x, starts, [slot.high if d == dimension else n for d, n in enumerate(sizes)])


def _pairs(part: Part, dimension: int, slot: _Slot) -> tuple[tuple[int, int], ...]:
    found = []
    for group in part.tiling.groups([dimension]):
        for n, source in enumerate(slot.sources):
            if source is not None:
                found.append((group[source], group[n]))
    return tuple(sorted(found))
