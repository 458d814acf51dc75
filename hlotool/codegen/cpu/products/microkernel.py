"""What a product wants of that which multiplies its tiles, one kind of which each of the other files has.

A tile function ``void @name(ptr %a, ptr %b, ptr %c, i64 %k, i1 %add)`` computes a small block of
``c[i, j] (+)= sum_k a[i, k] * b[k, j]``; %k takes the place of the extent of the outermost dimension of the sum.  All
strides are static.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hlotool.codegen.cpu.products.product import Blocking, Product, TileShape
from hlotool.codegen.llvm.control import call
from hlotool.codegen.llvm.elements import Arithmetic
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Truth, choose, either, equal, negated
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["Calls", "FunctionCalls", "Microkernel", "Tile", "TileArguments", "TileRange", "open_tile", "tile_functions"]


@dataclass(frozen=True, slots=True)
class TileRange:
    """A loop over the tiles of a block in one dimension: `index` counts `tiles` of block number `block` of `blocks`."""

    block: Index
    blocks: int
    tiles: Index
    index: Index = 0

    def is_first(self) -> Truth:
        """Whether the loop is at the first tile of all."""
        return equal(self.block, 0) & equal(self.index, 0)

    def is_last(self) -> Truth:
        """Whether the loop has come to the last tile of all."""
        last = self.blocks == 1 or equal(self.block, self.blocks - 1)
        return last if isinstance(self.index, int) else self.index.eq(self.tiles - 1) & last


class Tile(NamedTuple):
    """A tile to multiply: where its rows of `a`, its columns of `b` and its part of the result begin.

    The sum has so many `terms` of its outermost dimension; `add` says whether it is added to what is there.  `short`
    and `narrow` are whether it is for the rest of the rows and of the columns; False where nothing is left over.
    """

    a: Ptr
    b: Ptr
    c: Ptr
    terms: Index
    add: Truth
    down: TileRange
    across: TileRange
    short: Truth
    narrow: Truth


class Calls:
    """The calls of a microkernel in a step function, in the order in which they are written."""

    __slots__ = ()

    def begin_panels(self, task: Index) -> None:
        """Ahead of the tiles that meet panels of `b`, or pieces of them, which a task has packed by this task of the
        copy and the following ones."""

    def multiply(self, tile: Tile) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Behind all tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Microkernel:
    """A way to multiply tiles.

    `begin` defines what a step with this name will call, and writes what gets it ready: `tile_functions` makes one of
    what writes a tile function.  `accumulates` says whether sums can be added to what the result holds, `keeps_rows`
    whether the first rows of a tile can be left as they are.  A tile computes a multiple of `columns_together` columns;
    it is 0 where none of them may be there already.  `speed` is how many times as fast as vectors it is.  Where the
    functions that it calls do all of the work, steps that call them are `plumbing`.  With `along` vectors run along the
    sum.  With `rows_first` all tiles of some rows of a block come before those of the next rows: what is large is then
    the left operand, which comes from further away than a panel of the right one.
    """

    begin: Callable[[Function, str, Product, Blocking], Calls]
    accumulates: bool = False
    keeps_rows: bool = False
    columns_together: Callable[[Arithmetic], int] = lambda arithmetic: arithmetic.columns
    speed: float = 1.0
    plumbing: bool = True
    along: bool = False
    rows_first: bool = False


class TileArguments(NamedTuple):
    """The parameters of a tile function."""

    a: Ptr
    b: Ptr
    c: Ptr
    k: Int
    add: Bool


def open_tile(unit: Unit, name: str, *more: str) -> tuple[Function, TileArguments]:
    """Open tile function `name`, whose last parameters are conditions of the names `more`."""
    flags = "".join(f", i1 %{flag}" for flag in ("add", *more))
    f = Function(unit, f"internal void @{name}(ptr %a, ptr %b, ptr %c, i64 %k{flags}) nounwind")
    return f, TileArguments(Ptr(f, "%a"), Ptr(f, "%b"), Ptr(f, "%c"), Int(f, "%k"), Bool(f, "%add"))


@dataclass(frozen=True, slots=True)
class FunctionCalls(Calls):
    """Calls of tile functions, which have `names` by whether they are for the rest of the rows and of the columns.

    Those for the rest that are whole tiles begin earlier: one call is for all of them.
    """

    f: Function
    product: Product
    blocking: Blocking
    names: Mapping[tuple[bool, bool], str]

    def multiply(self, tile: Tile) -> None:
        product, blocking, (rows, columns) = self.product, self.blocking, self.product.tile
        function, flags = self.find(tile.short, tile.narrow), list[Truth]()
        if product.ends is not None:  # rows of the first and of the last tile leave terms out
            flags += tile.down.is_first(), tile.down.is_last() if tile.short is False else tile.short
        if blocking.keeps_rows:
            flags.append(negated(tile.short))
        a, b, c = tile.a, tile.b, tile.c
        if product.m > rows:
            before = rows - product.m % rows
            a += _where(tile.short, before * product.a.row * (product.a.whole - blocking.repeats_rows))
            c += _where(tile.short, -before * product.c.row * blocking.repeats_rows)
        if product.n > columns:
            before, again = columns - product.n % columns, blocking.repeats_columns
            a += _where(tile.narrow, -before * product.a.column * again)
            b += _where(tile.narrow, before * product.b.column * (product.b.whole - again))
            c += _where(tile.narrow, -before * product.c.column * again)
        call(self.f, function.name, a, b, c, tile.terms, tile.add, *flags)

    def find(self, short: Truth, narrow: Truth, prefix: str = "") -> Ptr:
        """The tile function, or what is called that with `prefix`, for a tile of the rest if it is one."""
        found = {rest: Ptr(self.f, f"@{prefix}{name}") for rest, name in self.names.items()}
        whole, rest = (_either(narrow, found.get((edge, True)), found.get((edge, False))) for edge in (False, True))
        one = _either(short, rest, whole)
        assert one is not None
        return one


def _either(condition: Truth, yes: Ptr | None, no: Ptr | None) -> Ptr | None:
    """One of two pointers, where both are something."""
    return either(condition, yes, no) if yes and no and isinstance(condition, Bool) else yes or no


def _where(condition: Truth, amount: int) -> Index:
    """So many bytes under a condition, else none."""
    return choose(condition, amount, 0) if amount else 0


TileWriter = Callable[[Unit, str, Product, Blocking, TileShape], None]
"""Defines the tile function of a name, for tiles of a shape."""


def tile_functions(emit: TileWriter) -> Callable[[Function, str, Product, Blocking], FunctionCalls]:
    """What defines all tile functions that a step needs, each by `emit`, as `Microkernel.begin` does."""

    def begin(f: Function, name: str, product: Product, blocking: Blocking) -> FunctionCalls:
        names = {rest: f"tile{shape.rows}x{shape.columns}_{name}" for rest, shape in blocking.shapes.items()}
        for rest, shape in blocking.shapes.items():
            emit(f.unit, names[rest], product, blocking, shape)
        return FunctionCalls(f, product, blocking, names)

    return begin
