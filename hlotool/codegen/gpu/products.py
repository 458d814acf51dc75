"""Products as tiles: dots, convolutions, and whatever else is a sum of products of what depends on rows and on columns.

A block computes a tile of the result.  Its threads bring the elements of both operands that a piece of the sums needs
to shared memory, where each is read many times; every thread adds up a small tile of its own, in registers.  In the end
the sums go through shared memory once more, so that what follows them is computed, and stored, along rows.  What makes
the operands is computed where they are brought, so that a convolution is nothing but a product whose left operand has
some indices and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.core_tiles import SIDE, CoreTiles
from hlotool.codegen.gpu.grid import Grid, arguments, open_grid
from hlotool.codegen.gpu.matrix_tiles import FORMS, Form, MatrixTiles
from hlotool.codegen.gpu.matrix_tiles import SIDE as SIDE_OF_MATRICES
from hlotool.codegen.gpu.spaces import bind_all, size_of, within
from hlotool.codegen.kernel import Note, Step
from hlotool.codegen.llvm.control import begin_loop, conditional, when
from hlotool.codegen.llvm.math.elements import compute_element, vector
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, number, zeros
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.loops.loops import LoopSpec, merge, plain
from hlotool.codegen.loops.nodes import Guards, Node, closure, scope_of
from hlotool.codegen.nests.nest import Nest
from hlotool.lazy_dataclass import dataclass

__all__ = ["Product", "product_of", "wanted_parts", "write_product"]

_LEAST: Annotated[int, Threshold("rows")] = 8
"""Rows and columns from which on tiles are worth it."""

_TERMS: Annotated[int, Threshold("terms")] = 8
"""Of sums that are worth it."""

_SPLIT: Annotated[int, Threshold("multiplications")] = 1 << 22
"""Of f32 numbers that make up for their parts, three for each."""

_SPLIT_TERMS: Annotated[int, Threshold("terms")] = 32
"""Of sums beside whose rounding what the parts leave out is nothing."""

_PART_TERMS: Annotated[int, Threshold("terms")] = 256
"""Of sums that are worth a block of their own, and another one for their sum."""

_BUSY: Annotated[int, Threshold("blocks")] = 264
"""Blocks that keep a chip busy: tiles are smaller where there would be fewer."""

_KINDS = frozenset({"f32", "f64", "s32", "s64", "u32", "u64"})


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


def wanted_parts(product: Product) -> int:
    """Into how many parts to divide the sums, so that there are blocks for all of the chip."""
    batches, rows, columns = (size_of(loops) for loops in (product.batch, product.rows, product.columns))
    blocks = batches * -(-rows // SIDE_OF_MATRICES) * -(-columns // SIDE_OF_MATRICES)
    return min(_BUSY // blocks, size_of(product.terms) // _PART_TERMS) if blocks else 1


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
    unit: Unit, name: str, product: Product, stores: Sequence[Node], chip: Chip, buffers: int, scratch: bool
) -> tuple[Step, Note]:
    """The grid of a product and of what is made of its result; it takes so many buffers, and one of `scratch`."""
    node, terms = product.node, product.terms
    batches, rows, columns = (size_of(loops) for loops in (product.batch, product.rows, product.columns))
    kind, (form, why) = compute_element(node.type), _form(product, chip)
    tile = (4, 4) if form else _tile(batches, rows, columns, BITS[kind])
    left, right = (
        _side(_narrow(operand, form), loops, terms, own)
        for operand, loops, own in zip(node.operands[:2], (product.rows, product.columns), tile, strict=True)
    )
    tiles = -(-rows // left.size), -(-columns // right.size)
    grid = open_grid(unit, name, chip, batches * prod(tiles), CoreTiles.threads, buffers + scratch)
    bases = arguments(grid, sorted(closure(stores), key=lambda n: n.serial), buffers)
    nest = Nest(grid.f, chip.machine, name, bases)
    item, first_row, first_column = _corner(grid.block, tiles, left.size, right.size)
    bind_all(nest.scope, product.batch, item)
    sums: CoreTiles | MatrixTiles
    sums = MatrixTiles(grid, form, bool(node.guards)) if form else CoreTiles(grid, kind, tile, bool(node.guards))
    with grid.phase() as thread:
        sums.clear(thread)
    piece = begin_loop(grid.f, 0, size_of(terms), sums.piece)
    with nest.scope.inner():
        with grid.phase() as thread:
            for which, (side, first) in enumerate(((left, first_row), (right, first_column))):
                put = partial(sums.put, which)
                guards = () if which else node.guards
                _bring(grid, nest, guards, side, terms, sums.piece, put, thread, first, piece.index)
        with grid.phase() as thread:
            sums.multiply(thread)
    piece.end()
    whole = grid.shared(kind, left.size * right.size)
    with grid.phase() as thread:
        sums.deposit(thread, whole)
    _finish(grid, nest, product, stores, whole, (left, right), (first_row, first_column))
    numbers = {"rows": rows, "columns": columns, "terms": size_of(terms), "blocks": grid.blocks}
    return grid.finish(), Note("tensor-cores" if form else "core-tiles", why, tuple(numbers.items()))


def _form(product: Product, chip: Chip) -> tuple[Form | None, str]:
    """How tensor cores multiply, or that they do not, and why."""
    node = product.node
    narrow = {_narrow_type(operand) for operand in node.operands[:2]}
    kind = _common(narrow)
    sums = "float" if node.type == "f32" else "i32" if node.type in ("s32", "u32") else ""
    form = FORMS.get(kind)
    if not chip.has_matrices:
        return None, f"{chip.name} is given no products of matrices"
    if form is None or form.total != sums:
        both = " and ".join(sorted(narrow))
        return None, f"factors of {both} with sums in {node.type} have none on tensor cores"
    if kind != "f32":
        return form, f"factors are {' and '.join(sorted(narrow))}, sums {node.type}"
    attributes = node.slot.attributes
    if attributes.get("algorithm") == "dot_tf32_tf32_f32":
        return FORMS["tf32"], "its operands were rounded to TF32"
    if "highest" in attributes.get("operand_precision", ()):
        return None, "it is asked for as much precision as there is"
    terms = size_of(product.terms)
    work = prod(size_of(loops) for loops in (product.batch, product.rows, product.columns)) * terms
    least = min(size_of(product.rows), size_of(product.columns))
    if work < _SPLIT or terms < _SPLIT_TERMS or least < SIDE_OF_MATRICES:
        return None, "too little work to pay for splitting f32 numbers"
    return form, "f32 numbers are split into two of TF32"


def _common(kinds: Collection[str]) -> str:
    """The form that takes factors of all of these types as they are, or nothing."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "tf32" if set(kinds) <= {"bf16", "f16"} else "f32" if set(kinds) <= {"bf16", "f16", "f32"} else ""


def _narrow_type(operand: Node) -> str:
    """The type of an operand before it was widened to that of the sums."""
    return operand.operands[0].type if _is_widened(operand) else operand.type


def _is_widened(node: Node) -> bool:
    return node.kind == "elementwise" and node.opcode == "convert" and node.operands[0].type in FORMS


def _narrow(operand: Node, form: Form | None) -> Node:
    """What is brought of an operand: what it was before it was widened, where that is multiplied."""
    return operand.operands[0] if form and _is_widened(operand) and form.factor != "f32" else operand


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
    grid: Grid, nest: Nest, guards: Guards, side: _Side, terms: Sequence[LoopSpec], piece: int,
    put: Callable[[Index, Index, Vector, Vector | None], None], thread: Int, first: Index, term: Index,
) -> None:  # fmt: skip
    """Bring the elements of an operand for a piece of the sums to shared memory: zeros outside of it, and where
    `guards` fail nothing."""
    scope = nest.scope
    sources = [atom.source for guard in guards for atom in guard.index.atoms() if isinstance(atom.source, Node)]
    nodes = scope_of([side.value, *sources])
    loop = begin_loop(grid.f, thread, side.size * piece, grid.threads)
    width = piece if side.by_terms else side.size
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

    inside = within(place, side.extent, side.size, count, size_of(terms), piece)
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
