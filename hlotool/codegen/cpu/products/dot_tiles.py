"""Tiles of dot products: both operands are read as vectors along the sum.

For skinny products whose operands are contiguous there.
"""

from __future__ import annotations

from hlotool.codegen.cpu.products.microkernel import Microkernel, open_tile, tile_functions
from hlotool.codegen.cpu.products.product import Blocking, Product, TileShape
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.elements import alternating, load, multiply_add, plus, store, sum_of_lanes, surplus, swapped
from hlotool.codegen.llvm.values import Ptr, Vector, zeros
from hlotool.codegen.llvm.writer import Unit

__all__ = ["DOT_PRODUCTS"]


def _emit(unit: Unit, name: str, product: Product, blocking: Blocking, shape: TileShape) -> None:
    """Define tile function `name`; %k and %add are not used."""
    f, arguments = open_tile(unit, name)
    arithmetic, (a, b, c), kind = product.arithmetic, (product.a, product.b, product.c), product.arithmetic.type
    lanes, parts = arithmetic.lanes, arithmetic.components
    cells = [(i, j) for i in range(shape.rows) for j in range(shape.columns)]
    scalars = product.depth * parts
    # Enough independent sums to cover the latency of the multiply-add, however few cells there are.
    ways = max(1, min(8 // (len(cells) * parts), scalars // lanes))

    def step(at_a: Ptr, at_b: Ptr, sums: list[Vector], way: int, active: int) -> list[Vector]:
        rows = [load(at_a + i * a.row, a.element, kind, lanes, active) for i in range(shape.rows)]
        columns = [load(at_b + j * b.column, b.element, kind, lanes, active) for j in range(shape.columns)]
        crossed = [swapped(column) for column in columns] if arithmetic.complex else []
        result = list(sums)
        for j in range(shape.columns if arithmetic.flipped else 0):
            place = len(sums) - shape.columns * ways + j * ways + way
            result[place] = surplus(arithmetic, columns[j], result[place])
        for cell, (i, j) in enumerate(cells):
            place = (cell * ways + way) * parts
            result[place] = multiply_add(arithmetic, rows[i], columns[j], result[place])
            if arithmetic.complex:
                result[place + 1] = multiply_add(arithmetic, rows[i], crossed[j], result[place + 1])
        return result

    # With flipped numbers the surplus of the sums of each column stands behind those of cells.
    count = len(cells) * parts + shape.columns * arithmetic.flipped
    sums, left = [zeros(f, kind, lanes)] * (count * ways), scalars
    at_a, at_b = arguments.a, arguments.b
    for width in dict.fromkeys((ways, 1)):
        trips, left = divmod(left, width * lanes)
        if trips:
            loop = begin_loop(f, 0, trips, 1, at_a, at_b, *sums)
            at_a, at_b, *sums = loop.values
            for shift in range(0, width * lanes, lanes):
                sums = step(at_a + shift * a.element.size, at_b + shift * b.element.size, sums, shift // lanes, 0)
            by = width * lanes
            at_a, at_b, *sums = loop.end(at_a + by * a.element.size, at_b + by * b.element.size, *sums)
    if left:
        sums = step(at_a, at_b, sums, 0, left)
    for cell, (i, j) in enumerate(cells):
        at = arguments.c + (i * c.row + j * c.column)
        for part in range(parts):
            total = sums[cell * ways * parts + part]
            for way in range(1, ways):
                total = plus(arithmetic, total, sums[(cell * ways + way) * parts + part])
            if arithmetic.flipped:
                for extra in sums[(len(cells) + j) * ways : (len(cells) + j + 1) * ways]:
                    total = total - extra
            if arithmetic.complex and part == 0:  # the real part is the sum of re*re less the sum of im*im
                total = total * alternating(total, "1.0", "-1.0")
            store(sum_of_lanes(arithmetic, total), at + part * c.element.size, c.element)
    f.finish()


DOT_PRODUCTS = Microkernel(begin=tile_functions(_emit), columns_together=lambda arithmetic: 1, along=True)
