"""Which right operands of products are packed, and whether ahead of all tasks or by those that use them."""

from __future__ import annotations

from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import COLUMNS_IN_PLACE
from hlotool.codegen.cpu.products.product import TileShape
from hlotool.codegen.llvm.elements import Arithmetic
from hlotool.codegen.machine import LINE, Machine

__all__ = [
    "BLOCK_ROWS", "COLUMNS", "SHARED_PANELS", "SHARED_ROWS", "block_depth", "panel_bytes", "panels_to_pack",
    "piece_to_pack", "stays_in_place",
]  # fmt: skip

BLOCK_ROWS: Annotated[int, Threshold("rows")] = 112  # of `a` (about as many) that a task takes together
COLUMNS: Annotated[int, Threshold("columns")] = 256  # that a task takes together
KEPT_BYTES: Annotated[int, Threshold("bytes")] = 48 << 10
"""Of the result that a task keeps on its stack, where a panel comes in pieces."""
PIECE_DEPTH: Annotated[int, Threshold("terms")] = 512
"""Terms of the sum whose part of a panel a task packs and uses at a time."""
SHARED_ROWS: Annotated[int, Threshold("rows")] = 256  # that one task may take, and so pack for itself
SHARED_PANELS: Annotated[int, Threshold("panels")] = 8  # that are enough for threads to share
MANY_ROWS: Annotated[int, Threshold("rows")] = 512  # that meet a panel often enough to pack it


def block_depth(machine: Machine, tile: TileShape, arithmetic: Arithmetic) -> int:
    """So many terms of the sum that a task's rows of `a` and a panel of `b` stay in the second-level cache."""
    return machine.l2 * 3 // 4 // ((BLOCK_ROWS + tile.columns) * arithmetic.element.bytes)


def panel_bytes(machine: Machine) -> int:
    """Bytes of packed `b` that should stay in the second-level cache."""
    return machine.l2 // 2


def stays_in_place(
    rows: int, columns: int, depth: int, *, tile: TileShape, arithmetic: Arithmetic, machine: Machine
) -> bool:
    """Whether rows of `b` that lie close together need no packing, where that alone would be the reason.

    Arrays from outside seldom begin with a cache line.  Vectors that lie across two lines cost more than packing does
    where many rows of the result meet panels that do not stay in the first-level cache.
    """
    panel = depth * tile.columns * arithmetic.element.bytes
    return columns <= COLUMNS_IN_PLACE and (rows < MANY_ROWS or panel <= machine.l1 // 2)


def panels_to_pack(
    rows: int, columns: int, depth: int, *, items: int, tile: TileShape, arithmetic: Arithmetic, machine: Machine,
    in_pieces: bool = False,
) -> tuple[int, int]:
    """Panels of `b` that a task should pack for itself, or 0 when packing is better done ahead of all tasks.

    A task that meets all `rows` of the result can use panels while they are still in its cache.  That leaves
    the columns (and the `items` of a batch) to share between threads, and has every task read all of `a`.
    Comes with so many terms of the sum as to pack at a time (0: all), where `in_pieces` allows that.
    """
    size, most = tile.columns * depth * arithmetic.element.bytes, panel_bytes(machine)
    panels = -(-columns // tile.columns)
    if rows > SHARED_ROWS or items * panels < SHARED_PANELS:
        return 0, 0
    if in_pieces and depth > PIECE_DEPTH:
        pieces = -(-depth // PIECE_DEPTH)
        return 1, min(depth, -(-depth // (16 * pieces)) * 16)
    if size > (most if machine.instructions.tuned else most // 2):
        return 0, 0
    return max(1, min(COLUMNS // tile.columns, most // size, items * panels // 16)), 0


def piece_to_pack(
    rows: int, columns: int, depth: int, *, first: int, items: int, tile: TileShape, arithmetic: Arithmetic,
    machine: Machine,
) -> int:
    """How much of the outermost dimension of a sum, `first` long, tasks should pack of a panel at a time; 0 for all.

    For where a whole panel does not stay in the second-level cache: a convolution of few pixels with many features.
    """
    row = tile.columns * arithmetic.element.bytes
    size, most = row * depth, panel_bytes(machine)
    piece = most * first // size
    kept = rows * (2 * LINE + row) <= KEPT_BYTES
    # With vectors of 512 bits nothing was measured.
    worth = machine.instructions.tuned and kept and items * -(-columns // tile.columns) >= SHARED_PANELS
    return -(-first // -(-first // piece)) if worth and size > most // 2 and 1 <= piece < first else 0
