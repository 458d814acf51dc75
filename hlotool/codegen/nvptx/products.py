"""Products as tiles: dots, convolutions, and whatever else is a sum of products of what depends on rows and on columns.

A block computes a tile of the result.  Its threads bring the elements of both operands that a piece of the sums needs
to shared memory, where each is read many times; every thread adds up a small tile of its own, in registers.  In the end
the sums go through shared memory once more, so that what follows them is computed, and stored, along rows.  What makes
the operands is computed where they are brought, so that a convolution is nothing but a product whose left operand has
some indices and bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.control import begin_loop, conditional, when
from hlotool.codegen.llvm.math.elements import compute_element, vector
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, number, where, zeros
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.loops.loops import LoopSpec, merge, plain
from hlotool.codegen.loops.nodes import Node, closure, scope_of
from hlotool.codegen.nests.nest import Nest
from hlotool.codegen.nvptx.chip import Chip
from hlotool.codegen.nvptx.grid import Grid, Private, arguments, open_grid
from hlotool.codegen.nvptx.spaces import bind_all, size_of, within

__all__ = ["Product", "product_of", "write_product"]

_LEAST: Annotated[int, Threshold("rows")] = 8
"""Rows and columns from which on tiles are worth it."""

_TERMS: Annotated[int, Threshold("terms")] = 8
"""Of sums that are worth it."""

_BUSY: Annotated[int, Threshold("blocks")] = 264
"""Blocks that keep a chip busy: tiles are smaller where there would be fewer."""

_SIDE = 16
"""Threads of a block along rows, and along columns."""

_PIECE = 16
"""Terms of the sums that are in shared memory at a time."""

_KINDS = frozenset({"f32", "f64", "s32", "s64"})


@dataclass(frozen=True, slots=True)
class Product:
    """The sum `node` of products, and the loops of its job: for both operands, rows, columns and terms."""

    node: Node
    batch: tuple[LoopSpec, ...]
    rows: tuple[LoopSpec, ...]
    columns: tuple[LoopSpec, ...]
    terms: tuple[LoopSpec, ...]


def product_of(stores: Sequence[Node], loops: Sequence[LoopSpec], everything: Sequence[Node]) -> Product | None:
    """The only product that `stores` need, if its form and its size are those of tiles."""
    found = [node for node in scope_of(stores) if node.kind == "reduce"]
    if len(found) != 1:
        return None
    (node,) = found
    if node.computation is not None or node.type not in _KINDS or len(node.operands) != 4:
        return None
    left, right = node.operands[0].variables, node.operands[1].variables
    for guard in node.guards:
        left |= guard.index.variables
    batch = tuple(loop for loop in loops if loop.variables & left and loop.variables & right)
    rows = tuple(loop for loop in loops if loop.variables & left and not loop.variables & right)
    columns = tuple(loop for loop in loops if loop.variables & right and not loop.variables & left)
    if len(batch) + len(rows) + len(columns) < len(loops):
        return None
    terms = tuple(merge([plain(atom) for atom in node.bound], everything))
    if min(size_of(rows), size_of(columns)) < _LEAST or size_of(terms) < _TERMS:
        return None
    return Product(node, batch, rows, columns, terms)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand: the value brought, its loops beside the terms, how many settings these have, and how many of them a
    tile has; whether neighbouring threads bring neighbouring terms."""

    value: Node
    loops: tuple[LoopSpec, ...]
    extent: int
    size: int
    by_terms: bool

    @property
    def pitch(self) -> int:
        """Elements from one term to the next in shared memory, so that threads meet in few banks."""
        return self.size + 4


def _side(value: Node, loops: tuple[LoopSpec, ...], terms: tuple[LoopSpec, ...], own: int) -> _Side:
    loads = [node for node in closure([value]) if node.kind == "load"]
    by_terms = bool(terms) and any(load.index.coefficient(terms[-1].atom) == 1 for load in loads)
    return _Side(value, loops, size_of(loops), own * _SIDE, by_terms)


def write_product(
    unit: Unit, name: str, product: Product, stores: Sequence[Node], chip: Chip, buffers: int
) -> Step:
    """The grid of a product and of what is made of its result."""
    node, terms = product.node, product.terms
    batches, rows, columns = (size_of(loops) for loops in (product.batch, product.rows, product.columns))
    kind = compute_element(node.type)
    down, across = _tile(batches, rows, columns, BITS[kind])
    left = _side(node.operands[0], product.rows, terms, down)
    right = _side(node.operands[1], product.columns, terms, across)
    tiles = -(-rows // left.size), -(-columns // right.size)
    threads = _SIDE * _SIDE
    grid = open_grid(unit, name, chip, batches * prod(tiles), threads, buffers)
    bases = arguments(grid, sorted(closure(stores), key=lambda n: n.serial), buffers)
    nest = Nest(grid.f, chip.machine, name, bases)
    item, first_row, first_column = _corner(grid.block, tiles, left.size, right.size)
    bind_all(nest.scope, product.batch, item)
    held = [grid.shared(kind, _PIECE * side.pitch) for side in (left, right)]
    sums = grid.private(kind, down * across)
    zero = zeros(grid.f, kind, across)
    with grid.phase(last=True) as thread:
        for row in range(down):
            grid.at(sums, thread, row * across).store(zero, align=BITS[kind] // 8)
    count = size_of(terms)
    piece = begin_loop(grid.f, 0, count, _PIECE)
    with nest.scope.inner():
        with grid.phase() as thread:
            _bring(grid, nest, node, left, terms, held[0], thread, first_row, piece.index)
            _bring(grid, nest, None, right, terms, held[1], thread, first_column, piece.index)
        with grid.phase() as thread:
            _multiply(grid, sums, held, (left, right), (down, across), thread)
    piece.end()
    _finish(grid, nest, product, stores, sums, (left, right), (first_row, first_column))
    return grid.finish()


_TILES = ((8, 4), (4, 4), (4, 2), (2, 2))
"""Rows and columns of the tile of a thread, the largest first."""


def _tile(batches: int, rows: int, columns: int, bits: int) -> tuple[int, int]:
    """The tile of a thread: the largest one of which there are enough, and whose sums fit shared memory."""
    for down, across in _TILES:
        blocks = batches * -(-rows // (down * _SIDE)) * -(-columns // (across * _SIDE))
        if blocks >= _BUSY and down * across * bits <= _TILES[0][0] * _TILES[0][1] * 32:
            return down, across
    return _TILES[-1]


def _corner(block: Index, tiles: tuple[int, int], down: int, across: int) -> tuple[Index, Index, Index]:
    """The number of the item of the batch that a block is for, and the first row and column of its tile."""
    if isinstance(block, int):
        return 0, 0, 0
    item, rest = block // prod(tiles), block % prod(tiles)
    row, column = (rest, 0) if isinstance(rest, int) else (rest // tiles[1], rest % tiles[1])
    return item, row * down, column * across


def _bring(
    grid: Grid, nest: Nest, product: Node | None, side: _Side, terms: Sequence[LoopSpec], held: Ptr, thread: Int,
    first: Index, term: Index,
) -> None:  # fmt: skip
    """Bring the elements of an operand for a piece of the sums to shared memory; outside of the operand, and where the
    guards of `product` fail, that are zeros."""
    kind, scope = compute_element(side.value.type), nest.scope
    guards = () if product is None else product.guards
    sources = [atom.source for guard in guards for atom in guard.index.atoms() if isinstance(atom.source, Node)]
    nodes = scope_of([side.value, *sources])
    loop = begin_loop(grid.f, thread, side.size * _PIECE, grid.threads)
    item = loop.index
    if side.by_terms:
        own, along = item // _PIECE, item % _PIECE
    else:
        own, along = item // side.size, item % side.size
        own, along = along, own
    place, count = number(grid.f, own).plus(first), number(grid.f, along).plus(term)
    zero = zeros(grid.f, kind)

    def bring() -> tuple[Vector]:
        with scope.inner():
            bind_all(scope, side.loops, place)
            bind_all(scope, terms, count)
            nest.run((), nodes)
            value = vector(scope.value(side.value, 0, 1))
            if guards:
                value = where(nest.indices.condition(guards, 0), value, zero)
            return (value,)

    is_there = within(place, side.extent, side.size, count, size_of(terms), _PIECE)
    (value,) = conditional(is_there, bring, zero)
    held.at(kind, number(grid.f, along) * side.pitch).at(kind, own).store(value)
    loop.end()


def _corner_of(thread: Int, tile: tuple[int, int]) -> tuple[Index, Index]:
    """The first row and column of a thread's tile within that of its block."""
    return (thread // _SIDE) * tile[0], number(thread.f, thread % _SIDE) * tile[1]


def _rows_of(grid: Grid, kind: str, tile: tuple[int, int], sums: Ptr) -> list[Ptr]:
    """Where the rows of a thread's sums are."""
    return [sums.at(kind, row * tile[1]) for row in range(tile[0])]


def _align(kind: str, lanes: int) -> int:
    return min(16, lanes * BITS[kind] // 8)


def _multiply(
    grid: Grid, sums: Private, held: Sequence[Ptr], sides: tuple[_Side, _Side], tile: tuple[int, int], thread: Int
) -> None:
    """Add the products of a piece of the sums to those of a thread."""
    kind, (down, across) = sums.kind, tile
    row, column = _corner_of(thread, tile)
    places = _rows_of(grid, kind, tile, grid.at(sums, thread))
    before = [place.load(kind, across, _align(kind, across)) for place in places]
    loop = begin_loop(grid.f, 0, _PIECE, 1, *before)
    left, right = (
        base.at(kind, number(grid.f, loop.index) * side.pitch).at(kind, first)
        for base, side, first in zip(held, sides, (row, column), strict=True)
    )
    factors = left.load(kind, down, _align(kind, down))
    others = right.load(kind, across, _align(kind, across))
    after = []
    for n, total in enumerate(loop.values):
        factor = factors[n].spread(across)
        after.append(fma(factor, others, total) if total.is_float else factor * others + total)
    for place, total in zip(places, loop.end(*after), strict=True):
        place.store(total, _align(kind, across))


def _finish(
    grid: Grid, nest: Nest, product: Product, stores: Sequence[Node], sums: Private, sides: tuple[_Side, _Side],
    corner: tuple[Index, Index],
) -> None:  # fmt: skip
    """Compute what is made of the sums, neighbouring threads for neighbours in memory."""
    kind, (left, right), node = sums.kind, sides, product.node
    tile = left.size // _SIDE, right.size // _SIDE
    whole = grid.shared(kind, left.size * right.size)
    with grid.phase() as thread:
        row, column = _corner_of(thread, tile)
        for n, place in enumerate(_rows_of(grid, kind, tile, grid.at(sums, thread))):
            at = whole.at(kind, (row + n) * right.size).at(kind, column)
            at.store(place.load(kind, tile[1], _align(kind, tile[1])), _align(kind, tile[1]))
    rest = [n for n in scope_of(stores, (node,)) if n is not node]
    by_rows = bool(product.rows) and any(s.index.coefficient(product.rows[-1].atom) == 1 for s in stores)
    with grid.phase(last=True) as thread:
        loop = begin_loop(grid.f, thread, left.size * right.size, grid.threads)
        width = left.size if by_rows else right.size
        outer, inner = loop.index // width, loop.index % width
        row, column = (inner, outer) if by_rows else (outer, inner)
        total = whole.at(kind, number(grid.f, row) * right.size).at(kind, column).load(kind)
        own, beside = number(grid.f, row).plus(corner[0]), number(grid.f, column).plus(corner[1])

        def store() -> None:
            with nest.scope.inner():
                bind_all(nest.scope, product.rows, own)
                bind_all(nest.scope, product.columns, beside)
                nest.scope.values.keep(node, (total,))
                nest.run((), rest)

        when(within(own, left.extent, left.size, beside, right.extent, right.size), store)
        loop.end()
