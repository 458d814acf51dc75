"""Products of matrices as data: what is multiplied, where it lies, and how that is cut into tasks.

Convolutions are products as well: an output pixel is a row, the window and the features are the sum, which then has
several dimensions.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from hlotool.analysis.contraction import PANEL_BYTES, Strides
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.prologue import Prologue
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.control import call
from hlotool.codegen.llvm.elements import Arithmetic, Element
from hlotool.codegen.llvm.values import Index, Ptr
from hlotool.codegen.llvm.writer import Function
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Blocking", "Border", "Dimension", "Ends", "Matrix", "Packing", "Product", "Reach", "Tap", "TaskDimension",
    "TileShape",
]  # fmt: skip


class TileShape(NamedTuple):
    """Rows and columns of a tile, the part of the result that is computed in registers."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix(Strides):
    """A matrix of a product in memory: its first element is at `place`.

    A packed left operand lies in panels of as many rows as tiles have, a right one in panels of as many columns,
    `panel` bytes from one to the next; with `whole` the last panel ends with the last row or column, and has some that
    the one before has too.  With `partner` the elements are parts of pairs (or fours, see `Arithmetic.together`) along
    the sum, so many bytes apart, and there are so many `singles` of them: the last ones may lack some.  What a
    `prologue` computes does not lie anywhere: the strides are those of a dense array.
    """

    place: Place
    panel: int = 0
    whole: bool = False
    partner: int = 0
    singles: int = 0
    prologue: Prologue | None = None

    @property
    def element(self) -> Element:
        return self.place.element


class Tap(NamedTuple):
    """A dimension of the sum and its strides in bytes in both operands."""

    extent: int
    a: int
    b: int


class Packing(NamedTuple):
    """Panels of `b` packed by the tasks that use them: `tasks` tasks of copy `function` for `panels` panels.

    With `piece` the product goes through all rows with so many terms of the sum at a time, and each of the tasks of the
    copy is for one of these pieces.  Calls of a step's function pack all their tasks' panels to one place, that of
    their first task: writing to what is in the cache already is most of the gain.
    """

    function: str
    tasks: int
    panels: int
    piece: int = 0


@dataclass(frozen=True, slots=True)
class Border:
    """Sees to rows of a result that may be at the border of a convolution: `function` does, by a `table`.

    Tasks of a product do not call it on rows inside: these lie, in each dimension of the batch and of the matrix's
    rows, from the first number given here to before the second one.
    """

    function: str
    table: str
    batch: tuple[tuple[int, int], ...] = ()
    rows: tuple[int, int] = (0, 0)

    def call(
        self, f: Function, first: Ptr, place: Index, *, rows: Index, columns: Index, row: int, place_row: int
    ) -> None:
        """Call it on `rows` x `columns` elements, of which the first is at `first` and belongs `place` bytes from the
        start of the result; rows are `row` bytes apart, and `place_row` where they belong."""
        args, table = Ptr(f, "%args"), Ptr(f, f"@{self.table}")
        call(f, f"@{self.function}", args, table, first, place, rows, columns, row, place_row)


class Reach(NamedTuple):
    """Where the outermost dimension of a sum lies inside of its array, for each item of a dimension of the batch.

    That is dimension number `batch`; element t of item i is element ``start + i * step + t * dilation``, and the array
    has `size` of them.  Each item has one inside at least.
    """

    batch: int
    start: int
    step: int
    dilation: int
    size: int


class Ends(NamedTuple):
    """Elements at the ends of a dimension of a sum that some rows leave out: the one with `within` others within it.

    Each of `before` and `behind` is a number of elements, and how many rows of the first tile (its first ones) and of
    the last tile (its last ones) do without them.
    """

    before: tuple[tuple[int, int], ...]
    behind: tuple[tuple[int, int], ...]
    within: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``c[batch, i, j] = sum over terms of a[batch, i, terms] * b[batch, terms, j]``.

    `batch` and `terms` are the extents of dimensions (one of terms for a matrix product), outermost first.  Where `a`
    runs along the columns too (it has a stride there) it is multiplied with `b` element by element: the depthwise
    convolution.  The result is unrounded between pieces of the sum: `piece` terms of its outermost dimension, if that
    is given.  With an `epilogue` that is what computes the outputs, from blocks of the result which the tasks keep for
    it; then nothing lies at `c`, unless it is an output too.  Terms that `reach` has outside are left out, and those
    that `ends` tells.
    """

    batch: tuple[int, ...] = ()
    m: int
    n: int
    terms: tuple[int, ...]
    a: Matrix
    b: Matrix
    c: Matrix
    arithmetic: Arithmetic
    tile: TileShape
    packing: Packing | None = None
    piece: int = 0
    reach: Reach | None = None
    ends: Ends | None = None
    epilogue: Epilogue | None = None
    border: Border | None = None

    @property
    def items(self) -> int:
        return math.prod(self.batch)

    @property
    def depth(self) -> int:
        """Terms of the sum."""
        return math.prod(self.terms)

    @property
    def taps(self) -> tuple[Tap, ...]:
        return tuple(map(Tap, self.terms, self.a.terms, self.b.terms))

    @property
    def nanoseconds(self) -> float:
        """A rough time of one core, for the multiplications (of real numbers) with additions."""
        multiplications = float(self.m) * self.n * self.depth * self.items
        return multiplications * self.arithmetic.components**2 / (self.arithmetic.lanes * 3.0)

    @property
    def row_tiles(self) -> int:
        return -(-self.m // self.tile.rows)

    @property
    def panels(self) -> int:
        """Tiles side by side."""
        return -(-self.n // self.tile.columns)

    @property
    def a_step(self) -> int:
        """Bytes from a tile's rows of `a` to the next one's."""
        return self.a.panel or self.tile.rows * self.a.row

    @property
    def b_step(self) -> int:
        """Bytes from a tile's columns of `b` to the next one's."""
        step = self.tile.columns * self.b.column
        return self.b.panel or (step // PANEL_BYTES * self.b.lines if self.b.lines else step)

    @property
    def own(self) -> tuple[int, ...]:
        """Numbers of the batch dimensions along which `b` differs."""
        return tuple(number for number, stride in enumerate(self.b.batch) if stride)

    @property
    def shared(self) -> tuple[int, ...]:
        """Numbers of the batch dimensions that all have the same `b`."""
        return tuple(number for number, stride in enumerate(self.b.batch) if not stride)


Dimension = int | Literal["rows", "columns", "pieces"]
"""Of tasks: the number of a dimension of the batch, blocks of rows or of columns, or pieces of the sum."""


class TaskDimension(NamedTuple):
    """One of the dimensions that tasks count, and how many blocks it has."""

    name: Dimension
    extent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """How a product is cut into tasks.

    A task is the block of the result at a point of the dimensions `tasks`, major first; it goes through the dimensions
    `visits` itself, where it packs what all of these use.  A block has `row_tiles` times `panels` tiles, and gets
    `piece` terms of the outermost dimension of the sum at a time.  Tasks write to `c`: where the result belongs, or to
    a `buffer` of their own, of so many bytes.  There, where it belongs, rows are `place_row` bytes apart.

    Tile functions have `shapes`, by whether they are for the rest of the rows and for that of the columns.  Where none
    is for the rest of the rows, whole tiles that begin earlier compute it, and some rows again; if `keeps_rows` they do
    not write those.  The same for columns.
    """

    tasks: tuple[TaskDimension, ...]
    visits: tuple[TaskDimension, ...] = ()
    row_tiles: int
    panels: int
    piece: int
    c: Matrix
    buffer: int
    place_row: int
    shapes: dict[tuple[bool, bool], TileShape]
    repeats_rows: bool
    keeps_rows: bool
    repeats_columns: bool
