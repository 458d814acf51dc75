"""Grids with a thread for each of some items that know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import Grid, open_grid
from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.control import when
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Int
from hlotool.codegen.llvm.writer import Unit

__all__ = ["THREADS", "copy_grid", "item_grid"]

THREADS: Annotated[int, Threshold("threads")] = 256
"""Threads of a block, at most: enough for one to wait while others compute."""

_WORDS = ("i128", "i64", "i32", "i16", "i8")
"""What a thread copies at once."""


def item_grid(
    unit: Unit, name: str, chip: Chip, items: int, buffers: int, body: Callable[[Grid, Int], None]
) -> Step:
    """The grid in which a thread does `body` for an item, whose number it is given."""
    threads = min(THREADS, -(-items // chip.warp) * chip.warp)
    grid = open_grid(unit, name, chip, -(-items // threads), threads, buffers)
    with grid.phase(last=True) as thread:
        own = thread.plus(grid.block * threads)
        when(own < items if items % threads else True, lambda: body(grid, own))
    return grid.finish()


def copy_grid(unit: Unit, name: str, chip: Chip, sizes: Sequence[tuple[int, int, int, int]], buffers: int) -> Step:
    """The grid that copies so many bytes from one buffer to another, for all of (bytes, slot, slot, byte there)."""
    word = next(w for w in _WORDS if all(size % (BITS[w] // 8) == 0 for size, _, _, _ in sizes))
    width = BITS[word] // 8

    def copy(grid: Grid, own: Int) -> None:
        for size, source, target, start in sizes:
            def move(source: int = source, target: int = target, start: int = start) -> None:
                value = grid.argument(source).at(word, own).load(word, align=width)
                (grid.argument(target) + start).at(word, own).store(value, width)

            when(own < size // width if size < most else True, move)

    most = max(size for size, _, _, _ in sizes)
    return item_grid(unit, name, chip, most // width, buffers, copy)
