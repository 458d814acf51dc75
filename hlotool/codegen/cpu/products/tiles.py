"""Tile functions for processors with tile registers (Intel AMX): bf16 pairs, sums in f32.

A tile register holds 16 rows of 64 bytes.  One TDPBF16PS multiplies 16 rows of 16 pairs along k by 16 pairs of 16
columns and adds to 16 x 16 sums: what `microkernel` does with some 512 multiply-adds.  Two by two tiles of sums use
each operand twice, as many as the eight registers allow (Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 1, chapter 18).  Subnormal numbers count as zeros.

The shapes of the registers are a state of the processor that takes long to change: whoever calls a tile function does
it, once for many calls (`configure`), and drops it at the end (`release`).
"""

from __future__ import annotations

from hlotool.codegen.cpu.products.microkernel import TILE_PARAMETERS, Outer
from hlotool.codegen.llvm.addressing import offset, store
from hlotool.codegen.llvm.elements import PAIR, Arithmetic
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["CONFIG", "SIDE", "configure", "emit_tiles", "operate", "release", "tile_config"]

CONFIG = "config_"
SIDE = 16  # rows of a tile register, and its elements of 32 bits per row
ROW = SIDE * PAIR.bytes


def emit_tiles(unit: Unit, name: str, tile: Outer, how: Arithmetic) -> None:
    """Define tile function `name` for at most 32 x 32 elements of pairs; %k is a multiple of 16 pairs.

    `a` is contiguous along k and `b` along its columns.  The process must have asked the system for tiles, and the
    caller must have configured them for the function.
    """
    (tap,) = tile.taps
    rows, columns = _cut(tile.rows), _cut(tile.columns)
    cells = [(r, v) for r in range(len(rows)) for v in range(len(columns))]
    unit.data(f"{CONFIG}{name}", tile_config(rows, columns))
    f = Function(unit, f"internal void @{name}{TILE_PARAMETERS} nounwind")
    in_place = tile.c.storage == how.type
    spill = "" if in_place else f.let(f"alloca [{SIDE * SIDE} x float], align 64")

    def corner(r: int, v: int) -> str:
        return offset(f, "%c", SIDE * (r * tile.c_row + v * tile.c.size))

    if tile.accumulate:
        more, first, begin = f.fresh("more"), f.fresh("first"), f.fresh("begin")
        f.branch("%add", more, first)
        f.label(more)
        for r, v in cells:
            operate(f, "tileloadd64", [("i8", _sum(r, v)), ("ptr", corner(r, v)), ("i64", str(tile.c_row))])
        f.jump(begin)
        f.label(first)
    for r, v in cells:
        operate(f, "tilezero", [("i8", _sum(r, v))])
    if tile.accumulate:
        f.jump(begin)
        f.label(begin)

    loop = f.begin_loop(0, "%k", SIDE, [("ptr", "%a"), ("ptr", "%b")], at_least_once=True)
    a, b = loop.values
    for v in range(len(columns)):
        operate(f, "tileloadd64", [("i8", f"{6 + v}"), ("ptr", offset(f, b, v * ROW)), ("i64", str(tap.b))])
    for r in range(len(rows)):
        at = offset(f, a, r * SIDE * tile.a_row)
        operate(f, "tileloadd64", [("i8", f"{4 + r}"), ("ptr", at), ("i64", str(tile.a_row))])
        for v in range(len(columns)):
            operate(f, "tdpbf16ps", [("i8", _sum(r, v)), ("i8", f"{4 + r}"), ("i8", f"{6 + v}")])
    f.end_loop(loop, [offset(f, a, ROW), offset(f, b, SIDE * tap.b)])

    for r, v in cells:
        to, pitch = (corner(r, v), tile.c_row) if in_place else (spill, ROW)
        operate(f, "tilestored64", [("i8", _sum(r, v)), ("ptr", to), ("i64", str(pitch))])
        if not in_place:
            row = f.begin_loop(0, rows[r], 1, [("ptr", spill), ("ptr", corner(r, v))])
            value = f.let(f"load <{SIDE} x float>, ptr {row.values[0]}, align 64")
            store(f, value, row.values[1], tile.c, how, SIDE, columns[v])
            f.end_loop(row, [offset(f, row.values[0], ROW), offset(f, row.values[1], tile.c_row)])
    f.finish()


def configure(f: Function, config: str) -> None:
    """Give the tile registers the shapes that a tile function wants: `config` points to what has its name, `CONFIG`."""
    operate(f, "ldtilecfg", [("ptr", config)])


def release(f: Function) -> None:
    """Leave the tile registers without shapes, as they were."""
    operate(f, "tilerelease", [])


def _cut(extent: int) -> list[int]:
    return [min(SIDE, extent - at) for at in range(0, extent, SIDE)]


def _sum(r: int, v: int) -> str:
    """The tile register of a block of sums; 4 and 5 hold rows of `a`, 6 and 7 columns of `b`."""
    return str(2 * r + v)


def tile_config(rows: list[int], columns: list[int]) -> bytes:
    """The operand of LDTILECFG: palette 1, bytes per row of each tile (16 bits), rows of each tile (8 bits)."""
    shapes = {2 * r + v: (rows[r], columns[v]) for r in range(len(rows)) for v in range(len(columns))}
    shapes |= {4 + r: (tall, SIDE) for r, tall in enumerate(rows)}
    shapes |= {6 + v: (SIDE, wide) for v, wide in enumerate(columns)}
    held = bytearray(64)
    held[0] = 1
    for tile, (tall, wide) in shapes.items():
        held[16 + 2 * tile] = wide * PAIR.bytes
        held[48 + tile] = tall
    return bytes(held)


def operate(f: Function, operation: str, arguments: list[tuple[str, str]]) -> None:
    """An instruction on tile registers, by LLVM's name for it."""
    f.intrinsic("void", f"llvm.x86.{operation}", arguments)
