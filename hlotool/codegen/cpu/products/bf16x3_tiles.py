"""Tiles of f32 products in bf16 parts, for processors that multiply tiles of those: see `bf16x3`."""

from __future__ import annotations

from hlotool.codegen.cpu.products.bf16x3_product import Bf16x3, emit_begin, emit_end, emit_multiply
from hlotool.codegen.cpu.products.microkernel import Calls, Microkernel, Tile
from hlotool.codegen.cpu.products.product import Product
from hlotool.codegen.cpu.products.tiles import SIDE
from hlotool.codegen.llvm.values import Bool, Index, Truth, choose, number
from hlotool.codegen.llvm.writer import Function

__all__ = ["bf16x3_tiles"]


def bf16x3_tiles(operands: Bf16x3) -> Microkernel:
    """One function is for tiles of all shapes, and for all products."""
    return Microkernel(
        begin=lambda f, name, product, blocking: _Calls(f, operands, product), accumulates=True,
        columns_together=lambda arithmetic: 0, speed=0.85,
    )


class _Calls(Calls):
    """See `microkernel.Calls`.  Parts of `b` that tasks make can be multiplied or not, from task to task."""

    def __init__(self, f: Function, operands: Bf16x3, product: Product) -> None:
        self.f, self.operands, self.product = f, operands, product
        self.safe: Bool | None = None if product.packing else emit_begin(f, operands)

    def begin_task(self, task: Index) -> None:
        self.safe = emit_begin(self.f, self.operands, task)

    def multiply(self, tile: Tile) -> None:
        assert self.safe is not None
        product, (rows, columns), (tap,) = self.product, self.product.tile, self.product.taps
        high, wide = _left(tile.short, product.m, rows), _left(tile.narrow, product.n, columns)
        emit_multiply(
            a=tile.a, a_row=product.a.row, a_part=self.operands.part, a_chunk=SIDE * tap.a, b=tile.b, c=tile.c,
            c_row=product.c.row, rows=high, columns=wide,
            chunks=number(self.f, tile.terms).signed_quotient(SIDE), add=tile.add, safe=self.safe,
        )

    def end(self) -> None:
        emit_end(self.f)


def _left(rest: Truth, total: int, size: int) -> Index:
    """What is left of `total` after things of `size`, if this is for the rest."""
    return choose(rest, total % size, size)
