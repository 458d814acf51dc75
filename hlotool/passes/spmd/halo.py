"""Pieces of a divided dimension that do not begin where tiles do: what is missing comes from other devices.

A device that wants elements `start` to ``start + size`` of a dimension gets, tile by tile, what it needs of those in
which they are: one exchange for each of the tiles that a piece may reach into.  Elements that an operation moves
apart first have places between them that are filled.  Facts: Xu et al. 2021, GSPMD (arXiv:2105.04663), section 4.3.
"""

from __future__ import annotations

from math import prod

from hlotool.ir import Instruction, Shape, byte_size
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.tiling import Axis, Tiling, tile_size
from hlotool.passes.spmd.values import Part
from hlotool.passes.spmd.writer import Writer

__all__ = ["Piece", "filled_piece", "halo_bytes", "piece_of"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Of each tile number n along an axis, the places from ``starts[n]`` on, `size` of them; an element stands in
    every `dilation`-th place, the first one in place 0.

    What stands before the first element and behind the last one may be anything.
    """

    starts: tuple[int, ...]
    size: int
    dilation: int = 1

    @property
    def elements(self) -> Piece:
        """The elements in these places, or as many more behind them as other tiles need."""
        return Piece(tuple([-(-start // self.dilation) for start in self.starts]), -(-self.size // self.dilation))

    @property
    def ahead(self) -> tuple[int, ...]:
        """How many places are in front of the first element of each tile's piece."""
        pairs = zip(self.elements.starts, self.starts, strict=True)
        return tuple([first * self.dilation - start for first, start in pairs])


@dataclass(frozen=True, slots=True)
class _Slot:
    """What comes in one exchange: of the tile ``sources[n]``, for those with tile n, elements `low` to `high`."""

    sources: tuple[int | None, ...]
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """The exchanges; what comes in the first one for tile n begins in tile ``begins[n]``."""

    begins: tuple[int, ...]
    slots: tuple[_Slot, ...]

    @property
    def length(self) -> int:
        """How many elements a device receives, of each row."""
        return sum([slot.high - slot.low for slot in self.slots if not _is_own(slot)])


def _plan(piece: Piece, size: int, axis: Axis) -> _Plan | None:
    """The exchanges in which the least comes: for each device, they begin with the tile in which its piece begins, or
    else as far from its own tile as for all others; None where a device would have to send to two at once."""
    tile = tile_size(size, axis.count)
    first = [start // tile for start in piece.starts]
    shift = min([begin - n for n, begin in enumerate(first)])
    plans = [_planned(begins, piece, size, axis.count) for begins in (first, [n + shift for n in range(axis.count)])]
    return min([plan for plan in plans if plan is not None], key=lambda plan: plan.length, default=None)


def _planned(begins: list[int], piece: Piece, size: int, count: int) -> _Plan | None:
    tile = tile_size(size, count)
    last = [(start + piece.size - 1) // tile for start in piece.starts]
    number = max(end - begin for begin, end in zip(begins, last, strict=True)) + 1
    if number > count + 1:  # more tiles than there are, and what is beside them on both sides
        return None
    slots = []
    for j in range(number):
        low, high = tile, 0
        sources: list[int | None] = []
        for start, begin in zip(piece.starts, begins, strict=True):
            tile_number = begin + j
            low = min(low, max(start - tile_number * tile, 0))
            high = max(high, min(start + piece.size - tile_number * tile, tile))
            # a tile that is needed, and is there
            needed = start < (tile_number + 1) * tile and tile_number * tile < min(start + piece.size, size)
            sources.append(tile_number if needed and 0 <= tile_number < count else None)
        known = [s for s in sources if s is not None]
        if len(set(known)) != len(known):
            return None
        slots.append(_Slot(tuple(sources), 0 if j else low, high if j == number - 1 else tile))
    return _Plan(tuple(begins), tuple(slots))


def halo_bytes(piece: Piece, shape: Shape, dimension: int, tiling: Tiling) -> int | None:
    """How many bytes a device receives for a piece of a dimension of an array that is divided so; None where neighbours
    cannot send it."""
    plan = _plan(piece.elements, shape.dimensions[dimension], tiling.axes[dimension])
    if plan is None:
        return None
    row = prod([n for d, n in enumerate(tiling.local(shape).dimensions) if d != dimension])
    return plan.length * row * byte_size(shape.element_type)


def _is_own(slot: _Slot) -> bool:
    """Whether nobody needs what another has."""
    return all(source is None or source == n for n, source in enumerate(slot.sources))


def piece_of(writer: Writer, part: Part, x: Instruction, dimension: int, piece: Piece) -> Instruction:
    """Of what devices have in `x`, which is divided along `dimension` as `part` is, the piece of each: its elements."""
    piece = piece.elements
    axis, size = part.tiling.axes[dimension], part.shape.dimensions[dimension]
    tile = tile_size(size, axis.count)
    if axis.count == 1:
        return writer.at(x, {dimension: [piece.starts[0]] * len(axis.places)}, {dimension: piece.size})
    plan = _plan(piece, size, axis)
    assert plan is not None
    strips = []
    for slot in plan.slots:
        strip = _strip(writer, x, dimension, slot)
        strips.append(strip if _is_own(slot) else writer.permute(strip, _pairs(part, dimension, slot)))
    joined = strips[0] if len(strips) == 1 else writer.build.concatenate(strips, dimension)
    low = plan.slots[0].low
    begins = [start - begin * tile - low for start, begin in zip(piece.starts, plan.begins, strict=True)]
    return writer.at(joined, {dimension: [begins[place] for place in axis.places]}, {dimension: piece.size})


def filled_piece(
    writer: Writer, part: Part, x: Instruction, dimension: int, piece: Piece, fill: Instruction | None = None
) -> Instruction:
    """The same with all its places: with `fill` (zero) between elements, before the first and behind the last one."""
    own, axis, gap = piece.elements, part.tiling.axes[dimension], piece.dilation
    x = piece_of(writer, part, x, dimension, own)
    starts = [own.starts[place] for place in axis.places]
    x = writer.within(x, dimension, starts, part.shape.dimensions[dimension], fill)
    if gap == 1:
        return x
    behind = max(0, piece.size - 1 - (own.size - 1) * gap)
    rows = [(gap - 1, behind, gap - 1) if d == dimension else (0, 0) for d in range(x.shape.rank)]
    spread = writer.padded(x, rows, fill)
    begins = [gap - 1 - piece.ahead[place] for place in axis.places]
    return writer.at(spread, {dimension: begins}, {dimension: piece.size})


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
