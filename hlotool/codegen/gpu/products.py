"""Products as tiles: dots, convolutions, and whatever else is a sum of products of what depends on rows and on columns.

A block computes a tile of the result.  Its threads bring the elements of both operands that a piece of the sums needs
to shared memory, where each is read many times; every thread adds up a small tile of its own, in registers.  In the end
the sums go through shared memory once more, so that what follows them is computed, and stored, along rows.  What makes
the operands is computed where they are brought, so that a convolution is nothing but a product whose left operand has
some indices and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.core_tiles import PIECE, SIDE, CoreTiles
from hlotool.codegen.gpu.grid import Grid, arguments, open_grid
from hlotool.codegen.gpu.matrix_tiles import MATRIX_TYPES, MatrixTiles
from hlotool.codegen.gpu.spaces import bind_all, size_of, within
from hlotool.codegen.kernel import Step
from hlotool.codegen.llvm.control import begin_loop, conditional, when
from hlotool.codegen.llvm.math.elements import compute_element, vector
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, number, zeros
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.loops.loops import LoopSpec, merge, plain
from hlotool.codegen.loops.nodes import Guards, Node, closure, scope_of
from hlotool.codegen.nests.nest import Nest
from hlotool.lazy_dataclass import dataclass

__all__ = ["Product", "product_of", "write_product"]

_LEAST: Annotated[int, Threshold("rows")] = 8
"""Rows and columns from which on tiles are worth it."""

_TERMS: Annotated[int, Threshold("terms")] = 8
"""Of sums that are worth it."""

_BUSY: Annotated[int, Threshold("blocks")] = 264
"""Blocks that keep a chip busy: tiles are smaller where there would be fewer."""

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


def _side(value: Node, loops: tuple[LoopSpec, ...], terms: tuple[LoopSpec, ...], own: int) -> _Side:
    loads = [node for node in closure([value]) if node.kind == "load"]
    by_terms = bool(terms) and any(load.index.coefficient(terms[-1].atom) == 1 for load in loads)
    return _Side(value, loops, size_of(loops), own * SIDE, by_terms)


def write_product(
    unit: Unit, name: str, product: Product, stores: Sequence[Node], chip: Chip, buffers: int
) -> Step:
    """The grid of a product and of what is made of its result."""
    node, terms = product.node, product.terms
    batches, rows, columns = (size_of(loops) for loops in (product.batch, product.rows, product.columns))
    kind, factors = compute_element(node.type), _factors(node, chip)
    tile = MatrixTiles.tile if factors else _tile(batches, rows, columns, BITS[kind])
    left, right = (
        _side(_narrow(operand, factors), loops, terms, own)
        for operand, loops, own in zip(node.operands[:2], (product.rows, product.columns), tile, strict=True)
    )
    tiles = -(-rows // left.size), -(-columns // right.size)
    grid = open_grid(unit, name, chip, batches * prod(tiles), CoreTiles.threads, buffers)
    bases = arguments(grid, sorted(closure(stores), key=lambda n: n.serial), buffers)
    nest = Nest(grid.f, chip.machine, name, bases)
    item, first_row, first_column = _corner(grid.block, tiles, left.size, right.size)
    bind_all(nest.scope, product.batch, item)
    sums: CoreTiles | MatrixTiles
    sums = MatrixTiles(grid, factors) if factors else CoreTiles(grid, kind, tile, bool(node.guards))
    with grid.phase(last=True) as thread:
        sums.clear(thread)
    piece = begin_loop(grid.f, 0, size_of(terms), sums.piece)
    with nest.scope.inner():
        with grid.phase() as thread:
            for which, (side, first) in enumerate(((left, first_row), (right, first_column))):
                put = partial(sums.put, which)
                _bring(grid, nest, () if which else node.guards, side, terms, put, thread, first, piece.index)
        with grid.phase() as thread:
            sums.multiply(thread)
    piece.end()
    whole = grid.shared(kind, left.size * right.size)
    with grid.phase() as thread:
        sums.deposit(thread, whole)
    _finish(grid, nest, product, stores, whole, (left, right), (first_row, first_column))
    return grid.finish()


def _factors(node: Node, chip: Chip) -> str:
    """The type of 16 bits that both factors come in, if the chip has units for such sums; else nothing."""
    kinds = {operand.operands[0].type if _is_widened(operand) else operand.type for operand in node.operands[:2]}
    (kind,) = kinds if len(kinds) == 1 else ("",)
    return kind if node.type == "f32" and kind in MATRIX_TYPES and chip.has_matrices and not node.guards else ""


def _is_widened(node: Node) -> bool:
    return node.kind == "elementwise" and node.opcode == "convert" and node.operands[0].type in MATRIX_TYPES


def _narrow(operand: Node, factors: str) -> Node:
    """What is brought of an operand: what it was before it was widened, where that is multiplied."""
    return operand.operands[0] if factors else operand


_TILES = ((8, 4), (4, 4), (4, 2), (2, 2))
"""Rows and columns of the tile of a thread, the largest first."""


def _tile(batches: int, rows: int, columns: int, bits: int) -> tuple[int, int]:
    """The tile of a thread: the largest one of which there are enough, and whose sums fit shared memory."""
    for down, across in _TILES:
        blocks = batches * -(-rows // (down * SIDE)) * -(-columns // (across * SIDE))
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
    grid: Grid, nest: Nest, guards: Guards, side: _Side, terms: Sequence[LoopSpec],
    put: Callable[[Index, Index, Vector, Vector | None], None], thread: Int, first: Index, term: Index,
) -> None:  # fmt: skip
    """Bring the elements of an operand for a piece of the sums to shared memory: zeros outside of it, and where
    `guards` fail nothing."""
    scope = nest.scope
    sources = [atom.source for guard in guards for atom in guard.index.atoms() if isinstance(atom.source, Node)]
    nodes = scope_of([side.value, *sources])
    loop = begin_loop(grid.f, thread, side.size * PIECE, grid.threads)
    width = PIECE if side.by_terms else side.size
    outer, inner = loop.index // width, loop.index % width
    own, along = (outer, inner) if side.by_terms else (inner, outer)
    place, count = number(grid.f, own).plus(first), number(grid.f, along).plus(term)
    zero, nowhere = zeros(grid.f, compute_element(side.value.type)), zeros(grid.f, "i1")

    def bring() -> tuple[Vector, Vector]:
        with scope.inner():
            bind_all(scope, side.loops, place)
            bind_all(scope, terms, count)
            nest.run((), nodes)
            there = nest.indices.condition(guards, 0) if guards else nowhere
            return vector(scope.value(side.value, 0, 1)), there

    inside = within(place, side.extent, side.size, count, size_of(terms), PIECE)
    value, there = conditional(inside, bring, zero, nowhere)
    put(own, along, value, there if guards else None)
    loop.end()


def _finish(
    grid: Grid, nest: Nest, product: Product, stores: Sequence[Node], whole: Ptr, sides: tuple[_Side, _Side],
    corner: tuple[Index, Index],
) -> None:  # fmt: skip
    """Compute what is made of the sums, neighbouring threads for neighbours in memory."""
    (left, right), node = sides, product.node
    kind = compute_element(node.type)
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
