"""Where a layout puts elements: the moves from the logical array to the order of memory."""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.ir.errors import UnsupportedError
from hlotool.ir.shape import Shape
from hlotool.lazy_dataclass import dataclass

__all__ = ["Move", "storage_moves"]


@dataclass(frozen=True, slots=True)
class Move:
    """A step on the way to memory: `kind` is ``transpose`` (`argument` is the order), ``pad`` or ``reshape`` (to the
    sizes `argument`; padding goes to the high ends).  `sizes` are the dimensions before the step, so that it can be
    undone."""

    kind: str
    argument: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def result(self) -> tuple[int, ...]:
        """The dimensions after the step."""
        return tuple(self.sizes[d] for d in self.argument) if self.kind == "transpose" else self.argument


def storage_moves(shape: Shape) -> tuple[Move, ...]:
    """The moves that make the array of `shape` one whose elements, read in row-major order, are those of memory.

    A layout orders the dimensions; each tile then cuts the last dimensions of what there is into blocks that lie one
    after the other, filled up at the ends (XLA's "Tiled layout").  UnsupportedError for tiles that combine dimensions.
    """
    return tuple(_moves(shape))


def _moves(shape: Shape) -> Iterator[Move]:
    layout, sizes = shape.layout, shape.dimensions
    if layout is None:
        return
    order = tuple(reversed(layout.minor_to_major))
    if order != tuple(range(len(order))):
        yield Move("transpose", order, sizes)
        sizes = tuple(sizes[d] for d in order)
    for tile in layout.tiles:
        if len(tile) > len(sizes):
            raise UnsupportedError(f"{shape}: a tile of {len(tile)} dimensions on {len(sizes)} has no known meaning")
        whole = [size for size in tile if size is not None]
        if len(whole) < len(tile) or min(whole, default=1) < 1:
            raise UnsupportedError(f"{shape}: tiles that combine dimensions are not supported")
        outer = len(sizes) - len(whole)
        counts = tuple(-(-size // block) for size, block in zip(sizes[outer:], whole, strict=True))
        full = sizes[:outer] + tuple(count * block for count, block in zip(counts, whole, strict=True))
        if full != sizes:
            yield Move("pad", full, sizes)
        cut = sizes[:outer] + tuple(n for pair in zip(counts, whole, strict=True) for n in pair)
        yield Move("reshape", cut, full)
        blocks = range(outer, len(cut), 2)
        yield Move("transpose", (*range(outer), *blocks, *(b + 1 for b in blocks)), cut)
        sizes = sizes[:outer] + counts + tuple(whole)
