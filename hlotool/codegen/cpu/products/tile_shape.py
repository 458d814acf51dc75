"""Which tile a product is made of: the one that wastes the fewest cycles."""

from __future__ import annotations

from hlotool.codegen.cpu.products.product import TileShape
from hlotool.codegen.llvm.elements import Arithmetic
from hlotool.codegen.machine import LINE, Machine

__all__ = ["choose_tile", "nanoseconds"]


def nanoseconds(multiplications: float, arithmetic: Arithmetic) -> float:
    """A rough time of one core for `multiplications` (of real numbers) with additions."""
    return multiplications * arithmetic.components**2 / (arithmetic.lanes * 3.0)


def choose_tile(
    m: int, n: int, machine: Machine, arithmetic: Arithmetic, windows: bool = False, in_lines: bool = False
) -> tuple[float, TileShape]:
    """The outer tile that wastes the fewest cycles on an `m` x `n` result, and those cycles per step of the sum.

    Every tile size that fits the registers is weighed with its edges (see `_cycles`).
    With `windows` the rows of `a` are windows that overlap.  Edges that ask for tile functions of their own must then
    be worth the code.  With `in_lines` rows of tiles are whole lines of the caches.
    """
    width = arithmetic.columns
    best: tuple[float, int, int] | None = None
    for vectors in range(1, min(8 if m == 1 else 4, -(-n // width)) + 1):
        # Beside sums and vectors of `b`: broadcasts from memory need a register of their own, and two of 16 are too
        # many where they would cost a sum; products too where they are not fused with the addition.
        spare = 2 if machine.registers == 32 else 3 if arithmetic.complex else 1 if vectors == 3 else 2
        spare = 6 if machine.instructions.overwrites else spare
        highest = (machine.registers - vectors - spare) // (vectors * arithmetic.components)
        if highest < 1 or (in_lines and vectors * width * arithmetic.element.bytes % LINE):
            continue
        fewest = -(-m // highest)
        for row_count in range(fewest, min(fewest + (3 if windows else 1), m + 1)):
            rows = -(-m // row_count)
            cost, edges = 0.0, -1
            for r, row_tiles in ((rows, m // rows), (m % rows, 1)):
                for v, panels in ((vectors, n // (vectors * width)), (-(-(n % (vectors * width)) // width), 1)):
                    if r and v and panels:
                        cost += row_tiles * panels * _cycles(r, v, machine, arithmetic, windows)
                        edges += 1
            if windows:
                cost *= 1 + 0.04 * edges
            if best is None or cost < best[0]:
                best = (cost, rows, vectors)
    assert best is not None
    return best[0], TileShape(best[1], best[2] * width)


def _cycles(rows: int, vectors: int, machine: Machine, arithmetic: Arithmetic, windows: bool) -> float:
    """Cycles of a step of the sum in a tile of `rows` by `vectors`.

    That is as long as the busier of its multiply-adds and its loads, and no less than the latency of a multiply-add.
    What else there is of instructions adds a little, more so where a core is shared by two threads.  Windows come from
    the first-level cache, and vectors of `b` are what costs.
    """
    broadcasts = rows * arithmetic.components
    if machine.registers == 32:
        reads = (broadcasts + vectors) / 2
        extra = 2.0 + 0.3 * vectors + 0.1 * broadcasts if windows else 0.2 * reads
        return max(broadcasts * vectors * machine.instructions.fma_cycles, reads, 4.0) + extra
    return max(broadcasts * vectors / 2, (broadcasts + vectors) / 1.8, 4.0) + 0.14 * broadcasts + 0.32 * vectors + 0.35
