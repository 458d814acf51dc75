"""Products of few rows with a large right operand, which is read once, from where it lies.

A register tile (`vector_tiles`) keeps sums in registers, and so reads `b` again for every few rows: from a copy, which
for few rows in all takes a good part of the product's time.  Here a block of the result, with all rows, stays in the
first-level cache and is updated for `TERMS` terms of the sum at a time (a rank-k update): what registers keep are these
elements of some rows of `a`, while the sums and as many rows of `b` go by, a vector at a time.  The rows of `b` are
brought together first, since vectors of arrays from outside lie across lines of the caches; all rows of the result use
them before the next ones are needed, which are fetched meanwhile.

A table says which rows meet a part of the sum, and where in `a` that is, so that a convolution leaves out what lies
outside of its input.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products import blocking
from hlotool.codegen.cpu.products.microkernel import Microkernel, open_tile, tile_functions
from hlotool.codegen.cpu.products.product import Blocking, Product, TileShape
from hlotool.codegen.llvm.control import allocate, begin_loop
from hlotool.codegen.llvm.elements import Arithmetic, Element, load, multiply_add, store
from hlotool.codegen.llvm.values import Int, Ptr, Vector, number
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import LINE, Machine

__all__ = ["TERMS", "Part", "columns_of", "rank_updates", "serves_updates"]

TERMS: Annotated[int, Threshold("terms")] = 4  # of the sum, that an update adds
MOST_ROWS: Annotated[int, Threshold("rows")] = 128
"""Whose sums stay in the first-level cache; with more a copy of `b` is used often enough, too."""
PANELS: Annotated[int, Threshold("panels")] = 8
"""Of columns, that are enough for threads to share, unless there are more cores."""
LARGE: Annotated[int, Threshold("times")] = 1
"""How many times what a core's own cache holds `b` has, if reading it counts."""
_FEWEST: Annotated[int, Threshold("vectors")] = 2  # of a row of a tile
_MOST: Annotated[int, Threshold("vectors")] = 8
"""Of one at most: against these, bringing elements of `a` to registers counts little."""


class Part(NamedTuple):
    """Part of a sum: bytes from the start of `b`; and rows of the result, each with where it begins in `a`."""

    b: int
    rows: tuple[tuple[int, int], ...]


def serves_updates(
    rows: int, columns: int, parts: int, terms: int, b: Element, arithmetic: Arithmetic, machine: Machine
) -> bool:
    """Whether a product can be made so, of which `parts` times `terms` rows of `b` are too much for a core's own cache.

    The columns of `b` lie side by side.
    """
    plain = arithmetic.type in ("float", "double") and not arithmetic.complex and not arithmetic.pairs
    plain = plain and b.storage == arithmetic.type
    whole = terms % TERMS == 0 and columns % arithmetic.lanes == 0 and columns >= _FEWEST * PANELS * arithmetic.lanes
    large, asked = parts * terms * columns * b.bytes > LARGE * machine.l2, machine.choices.updates
    pays = large and machine.instructions.tuned if asked is None else bool(asked)
    most = MOST_ROWS if asked else blocking.rows_to_update(MOST_ROWS, machine)
    return plain and whole and pays and rows <= most


def columns_of(rows: int, columns: int, arithmetic: Arithmetic, machine: Machine) -> int:
    """Columns of a tile of a product that `serves_updates`, whose sums take half of the first-level cache at most."""
    near = machine.l1 // 2 // (rows * arithmetic.lanes * arithmetic.element.bytes)
    shared = columns // (max(PANELS, machine.cores) * arithmetic.lanes)
    return arithmetic.lanes * max(_FEWEST, min(_MOST, near, shared))


def _together(machine: Machine) -> int:
    """Rows whose elements of `a` are kept, beside their sums, a vector of `b` and, unless fused, a product."""
    others = 2 if machine.instructions.overwrites else 1
    return (machine.registers - others) // (TERMS + 1)


def rank_updates(parts: tuple[Part, ...]) -> Microkernel:
    """Tiles as high as the result, of whole vectors of columns, and of whole sums.

    The first dimension of the sum counts `parts`, the second one blocks of terms of a part, and the third one `TERMS`
    terms: these lie side by side in `a`, and in rows of `b`.
    """

    def emit(unit: Unit, name: str, product: Product, blocking: Blocking, shape: TileShape) -> None:
        _Update(unit, name, product, shape, parts).write()

    return Microkernel(begin=tile_functions(emit))


class _Update:
    """Writes a tile function; %k and %add are not used."""

    def __init__(self, unit: Unit, name: str, product: Product, shape: TileShape, parts: tuple[Part, ...]) -> None:
        assert unit.machine is not None
        self.product, self.shape, self.parts, self.arithmetic = product, shape, parts, product.arithmetic
        self.together, self.size = _together(unit.machine), product.arithmetic.element.bytes
        self.pitch, self.vector = shape.columns * self.size, product.arithmetic.lanes * self.size
        _, self.block, self.term = product.taps
        spots, starts = self._table()
        for label, numbers in (("spots", spots), ("parts", starts)):
            text = ", ".join(f"i64 {number}" for number in numbers)
            unit.constant(f"{label}_{name}", f"[{len(numbers)} x i64] [{text}], align 64")
        self.f, self.arguments = open_tile(unit, name)
        self.spots, self.starts = Ptr(self.f, f"@spots_{name}"), Ptr(self.f, f"@parts_{name}")
        self.sums = allocate(self.f, "i8", (shape.rows + 1) * self.pitch, 64)
        self.near = allocate(self.f, "i8", TERMS * self.pitch, 64)

    def write(self) -> None:
        f = self.f
        self.sums.clear((self.shape.rows + 1) * self.pitch)
        part = begin_loop(f, 0, len(self.parts))
        start = self.starts + part.index * 16
        first, last, at_b = ((start + at).load_int() for at in (0, 16, 8))
        block = begin_loop(f, 0, self.block.extent, 1, self.arguments.a, self.arguments.b + at_b)
        a, b = block.values
        self._bring(b)
        spot = begin_loop(f, first, last, self.together * 16)
        self._update(a, number(f, spot.index))
        spot.end()
        block.end(a + self.block.a, b + TERMS * self.term.b)
        part.end()

        c = self.product.c
        row = begin_loop(f, 0, self.shape.rows, 1, self.sums, self.arguments.c)
        source, target = row.values
        for at in range(0, self.shape.columns, self.arithmetic.lanes):
            store(self._load(source + at * self.size), target + at * c.element.size, c.element)
        row.end(source + self.pitch, target + c.row)
        f.finish()

    def _load(self, at: Ptr) -> Vector:
        return at.load(self.arithmetic.type, self.arithmetic.lanes, self.vector)

    def _bring(self, b: Ptr) -> None:
        """Bring rows of `b` together, and have the next ones fetched."""
        for term in range(TERMS):
            for line in range(0, self.pitch + LINE - 1, LINE):
                (b + ((TERMS + term) * self.term.b + min(line, self.pitch - 1))).fetch()
        for term in range(TERMS):
            for at in range(0, self.pitch, self.vector):
                row = b + (term * self.term.b + at)
                value = load(row, self.product.b.element, self.arithmetic.type, self.arithmetic.lanes)
                (self.near + (term * self.pitch + at)).store(value, self.vector)

    def _update(self, a: Ptr, spot: Int) -> None:
        """Update as many rows of sums as registers keep elements of `a` for, from number `spot` of the table on."""
        kept: list[list[Vector]] = []
        targets: list[Ptr] = []
        arithmetic = self.arithmetic
        for entry in [self.spots + (spot + 16 * row) for row in range(self.together)]:
            at_a = a + entry.load_int()
            targets.append(self.sums + (entry + 8).load_int())
            values = [load(at_a + term * self.size, arithmetic.element, arithmetic.type) for term in range(TERMS)]
            kept.append([value.spread(arithmetic.lanes) for value in values])
        across = begin_loop(self.f, 0, self.pitch, self.vector)
        column = self.near + across.index
        places = [target + across.index for target in targets]
        totals = [self._load(place) for place in places]
        for term in range(TERMS):
            right = self._load(column + term * self.pitch)
            pairs = zip(kept, totals, strict=True)
            totals = [multiply_add(arithmetic, left[term], right, total) for left, total in pairs]
        for place, total in zip(places, totals, strict=True):
            place.store(total, self.vector)
        across.end()

    def _table(self) -> tuple[list[int], list[int]]:
        """For each row of each part where it begins in `a` and in the sums; for each part where its rows begin in that,
        and where it begins in `b`.  Rows come `together`, filled up with one that nobody reads."""
        spots: list[int] = []
        starts: list[int] = []
        for part in self.parts:
            starts += 8 * len(spots), part.b
            for at, row in (*part.rows, *[(0, self.shape.rows)] * (-len(part.rows) % self.together)):
                spots += at, row * self.pitch
        return spots, [*starts, 8 * len(spots)]
