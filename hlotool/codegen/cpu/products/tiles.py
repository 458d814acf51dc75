"""Tile functions for processors with tile registers (Intel AMX): bf16 pairs, sums in f32; four bytes, sums in s32.

A tile register holds 16 rows of 64 bytes.  One TDPBF16PS multiplies 16 rows of 16 pairs along k by 16 pairs of 16
columns and adds to 16 x 16 sums: what `microkernel` does with some 512 multiply-adds.  TDPBSSD and its like do the same
with four bytes, signed or not, in the place of a pair, and wrap.  Two by two tiles of sums use
each operand twice, as many as the eight registers allow (Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 1, chapter 18).  Subnormal numbers count as zeros.

The shapes of the registers are a state of the processor that takes long to change: whoever calls a tile function does
it, once for many calls (`configure`), and drops it at the end (`release`).
"""

from __future__ import annotations

from hlotool.codegen.cpu.products.microkernel import Calls, FunctionCalls, Microkernel, Tile, open_tile, tile_functions
from hlotool.codegen.cpu.products.product import Blocking, Product, Tap, TileShape
from hlotool.codegen.llvm.control import allocate, begin_loop, when
from hlotool.codegen.llvm.elements import PAIR, store
from hlotool.codegen.llvm.values import Index, Ptr, Vector, equal, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["SIDE", "TILE_REGISTERS", "configure", "move_tile", "operate", "tile_config"]

_CONFIG = "config_"
"""The shapes of registers for a tile function have its name behind this."""

SIDE = 16  # rows of a tile register, and its elements of 32 bits per row
ROW = SIDE * PAIR.bytes


@dataclass(frozen=True, slots=True)
class _Calls(Calls):
    """See `microkernel.Calls`."""

    functions: FunctionCalls

    def multiply(self, tile: Tile) -> None:
        if len(self.functions.names) > 1:
            changes = equal(tile.down.index, 0) | tile.short
            when(changes, lambda: configure(self.functions.find(tile.short, tile.narrow, _CONFIG)))
        self.functions.multiply(tile)

    def end(self) -> None:
        """Leave the tile registers without shapes, as they were."""
        operate(self.functions.f, "tilerelease")


def configure(shapes: Ptr) -> None:
    """Give the tile registers the shapes that a tile function wants."""
    shapes.f.intrinsic("void", "llvm.x86.ldtilecfg", [shapes])


def _emit(unit: Unit, name: str, product: Product, blocking: Blocking, shape: TileShape) -> None:
    """Define tile function `name` for at most 32 x 32 elements.

    The innermost dimension of the sum (%k terms, if it is the only one) is a multiple of 16 pairs, or fours of bytes;
    `a` is contiguous along that, and `b` along its columns.  The process must have asked the system for tiles, and the
    caller must have configured them for the function.
    """
    taps, c, a_row, sums = product.taps, product.c, product.a.row, product.arithmetic
    signs = "".join(kind[0] for kind in sums.bytes)
    multiply = f"tdpb{signs}d" if signs else "tdpbf16ps"
    rows, columns = _cut(shape.rows), _cut(shape.columns)
    unit.data(f"{_CONFIG}{name}", tile_config(rows, columns))
    f, arguments = open_tile(unit, name)
    in_place = c.element.storage == product.arithmetic.type
    spill = None if in_place else allocate(f, sums.type, SIDE * SIDE, 64)
    # Registers from 0 on hold blocks of sums, 4 and 5 rows of `a`, 6 and 7 columns of `b`.
    cells = {2 * r + v: (r, v) for r in range(len(rows)) for v in range(len(columns))}
    corners = {register: SIDE * (r * c.row + v * c.element.size) for register, (r, v) in cells.items()}

    def load_sums() -> None:
        for register, corner in corners.items():
            move_tile("tileloadd64", register, arguments.c + corner, c.row)

    def clear_sums() -> None:
        for register in cells:
            operate(f, "tilezero", register)

    when(arguments.add if blocking.piece < product.terms[0] else False, load_sums, clear_sums)

    def terms(a: Ptr, b: Ptr) -> None:
        for v in range(len(columns)):
            move_tile("tileloadd64", 6 + v, b + v * ROW, taps[-1].b)
        for r in range(len(rows)):
            move_tile("tileloadd64", 4 + r, a + r * SIDE * a_row, a_row)
            for v in range(len(columns)):
                operate(f, multiply, 2 * r + v, 4 + r, 6 + v)

    def nest(taps: tuple[Tap, ...], count: Index, a: Ptr, b: Ptr) -> None:
        """Loops over `taps`, `count` times the first."""
        tap, *inner = taps
        step = 1 if inner else SIDE
        loop = begin_loop(f, 0, count, step, a, b, at_least_once=True)
        a, b = loop.values
        if inner:
            nest((*inner,), inner[0].extent, a, b)
        else:
            terms(a, b)
        loop.end(a + step * tap.a, b + step * tap.b)

    nest(taps, arguments.k, arguments.a, arguments.b)

    for register, (r, v) in cells.items():
        if spill is None:
            move_tile("tilestored64", register, arguments.c + corners[register], c.row)
            continue
        move_tile("tilestored64", register, spill, ROW)
        row = begin_loop(f, 0, rows[r], 1, spill, arguments.c + corners[register])
        source, target = row.values
        store(source.load(sums.type, SIDE, 64), target, c.element, columns[v])
        row.end(source + ROW, target + c.row)
    f.finish()


def _cut(extent: int) -> list[int]:
    return [min(SIDE, extent - at) for at in range(0, extent, SIDE)]


def tile_config(rows: list[int], columns: list[int]) -> bytes:
    """The operand of LDTILECFG: palette 1, bytes per row of each tile (16 bits), rows of each tile (8 bits)."""
    shapes = {2 * r + v: (rows[r], columns[v]) for r in range(len(rows)) for v in range(len(columns))}
    shapes |= {4 + r: (tall, SIDE) for r, tall in enumerate(rows)}
    shapes |= {6 + v: (SIDE, wide) for v, wide in enumerate(columns)}
    config = bytearray(64)
    config[0] = 1
    for tile, (tall, wide) in shapes.items():
        config[16 + 2 * tile] = wide * PAIR.bytes
        config[48 + tile] = tall
    return bytes(config)


def operate(f: Function, operation: str, *registers: int) -> None:
    """An instruction on tile registers, by LLVM's name for it."""
    f.intrinsic("void", f"llvm.x86.{operation}", [Vector(f, "i8", 1, str(register)) for register in registers])


def move_tile(operation: str, register: int, at: Ptr, pitch: Index) -> None:
    """Load or store a tile register whose rows lie `pitch` bytes apart."""
    place = [Vector(at.f, "i8", 1, str(register)), at, number(at.f, pitch)]
    at.f.intrinsic("void", f"llvm.x86.{operation}", place)


def _begin(f: Function, name: str, product: Product, blocking: Blocking) -> _Calls:
    functions = tile_functions(_emit)(f, name, product, blocking)
    if len(functions.names) == 1:
        configure(functions.find(False, False, _CONFIG))
    return _Calls(functions)


TILE_REGISTERS = Microkernel(
    begin=_begin, accumulates=True, columns_together=lambda arithmetic: 0, speed=8.0, plumbing=False
)
"""For products of pairs, or fours of bytes, whose number along the sum is a multiple of 16."""
