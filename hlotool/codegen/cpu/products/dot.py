"""Matrix products (`dot`): which way to compute one, and its kernel.

The plan follows from shape and strides alone.  Products that are thin along m or n with both operands
contiguous along k run as dot products (`dot_tiles`).  All others broadcast the left operand over
vectors of the right one (`vector_tiles`); large ones pack what is not laid out well for that first.

Products of bf16 numbers on processors that multiply them in pairs, and of integers that fit 16 bits, are products of
matrices half as deep whose elements are pairs: rows that lie along k are those already, anything else is copied into
pairs, and an odd k is filled up with zeros.  Integers that fit 8 bits are multiplied four at a time in the same way,
where the processor does that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from hlotool.analysis.contraction import MatrixView, dense_strides
from hlotool.analysis.product_prologue import LONG_ROWS
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import COSTS
from hlotool.codegen.cpu.products import bf16x3, blocking
from hlotool.codegen.cpu.products.bf16x3 import BLOCK, CHUNK, LINES, PART
from hlotool.codegen.cpu.products.dot_tiles import DOT_PRODUCTS
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.gemm import emit_product
from hlotool.codegen.cpu.products.microkernel import Microkernel
from hlotool.codegen.cpu.products.operands import Operands, Scratch, joined, own
from hlotool.codegen.cpu.products.pack import Axis
from hlotool.codegen.cpu.products.product import Matrix, Packing, Product, TileShape
from hlotool.codegen.cpu.products.prologue import Prologue
from hlotool.codegen.cpu.products.tiles import SIDE, TILE_REGISTERS
from hlotool.codegen.cpu.products.vector_tiles import VECTORS
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import (
    Arithmetic,
    Element,
    arithmetic,
    element,
    multiplies_bf16x3,
    multiplies_byte_tiles,
    multiplies_bytes,
    multiplies_pairs,
    multiplies_shorts,
    multiplies_tiles,
)
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_dot"]

_THIN: Annotated[int, Threshold("rows")] = 8  # up to which sums go along vectors
_LONG: Annotated[int, Threshold("vectors")] = 8  # of a sum, from which on that pays up to `Costs.rows_along`
_WIDER: Annotated[int, Threshold("times")] = 4  # how much larger an operand is than one that is turned for it
_SIDE: Annotated[int, Threshold("rows")] = 4  # of a tile of sums along vectors, and its columns
_PAIRED: Annotated[int, Threshold("rows")] = 8  # below which making pairs takes longer than they save
_HALVED: Annotated[int, Threshold("rows")] = 64  # that two threads share
_UPDATED: Annotated[int, Threshold("rows")] = 8  # from which on updates pay
_UPDATED_MOST: Annotated[int, Threshold("rows")] = 64  # and up to which they do, against a copy
_SPLIT_PANELS: Annotated[int, Threshold("panels")] = 8  # that tasks split for themselves to meet many rows
_SPLIT_ROWS: Annotated[int, Threshold("rows")] = 512  # from which on panels that all stay in the cache are split ahead
_SPLIT_CHUNKS: Annotated[int, Threshold("chunks")] = 16  # of a panel that a task splits at a time, at least
_SPLIT_BYTES: Annotated[int, Threshold("bytes")] = 128 << 10  # of sums that a task keeps for an epilogue meanwhile
_ROWS_DEEP: Annotated[int, Threshold("rows")] = 64  # that read panels in place which outgrow a cache


def emit_dot(
    name: str, view: MatrixView, machine: Machine, slots: tuple[int, int, int, int] = (0, 1, 2, 3),
    epilogue: Epilogue | None = None, prologues: tuple[Prologue | None, Prologue | None] = (None, None),
) -> Kernel:
    """The kernel `name` of a matrix product; `slots` are the arguments lhs, rhs, out and, if asked for, scratch.

    With an `epilogue` the result is dense and row-major, and goes into that instead of out.  With `prologues` they
    compute lhs or rhs, as dense arrays.  An empty result gives a kernel without steps.  Raises UnsupportedError for
    element types that cannot be combined.
    """
    unit, scratch = Unit(machine), Scratch(slots[3])
    batch, a, b, c = _matrices(view, slots)
    a, b = replace(a, prologue=prologues[0]), replace(b, prologue=prologues[1])
    sums, m, n, k = arithmetic(view.types[3], machine), view.m, view.n, view.k
    operands = Operands(name=name, unit=unit, batch=batch, arithmetic=sums, scratch=scratch)
    if min(m, n, *batch, 1) > 0:
        if k == 0:
            operands.clear(name, c.place, (*batch, m, n), (*c.batch, c.row, c.column))
        else:
            # The vectors run along the result's contiguous dimension; a single column becomes a row.
            if m > 1 and (n == 1 or (c.column != c.element.bytes and c.row == c.element.bytes)):
                m, n, a, b, c = n, m, _turned(b), _turned(a), _turned(c)
            _Dot(
                operands=operands, types=view.types, m=m, n=n, k=k, a=a, b=b, c=c, epilogue=epilogue, machine=machine
            ).emit()
    return finish_kernel(unit, operands.steps, scratch.size, scratch.uses)


def _matrices(view: MatrixView, slots: Sequence[int]) -> tuple[tuple[int, ...], Matrix, Matrix, Matrix]:
    """Extents of the batch and the three matrices; batch dimensions that lie as one are merged."""
    batch = zip(view.batch, view.lhs.batch, view.rhs.batch, view.out.batch, strict=True)
    merged = joined(dimension for dimension in batch if dimension[0] != 1)
    a, b, c = (
        Matrix(
            place=Place(slots[at], 0, element(view.types[at])), batch=tuple(d[1 + at] for d in merged),
            row=matrix.row, column=matrix.column, terms=matrix.terms, lines=matrix.lines,
        )
        for at, matrix in enumerate((view.lhs, view.rhs, view.out))
    )
    return tuple(d[0] for d in merged), a, b, c


def _turned(matrix: Matrix) -> Matrix:
    """A left operand as a right one, and the other way round."""
    return replace(matrix, row=matrix.column, column=matrix.row)


@dataclass(slots=True, kw_only=True)
class _Dot:
    """A product that is not empty, along the columns of whose result vectors run."""

    operands: Operands
    types: tuple[str, str, str, str]
    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    epilogue: Epilogue | None
    machine: Machine

    @property
    def arithmetic(self) -> Arithmetic:
        return self.operands.arithmetic

    @property
    def whole_rows(self) -> bool:
        return self.epilogue is not None and self.epilogue.whole_rows

    @property
    def has_prologue(self) -> bool:
        return self.a.prologue is not None or self.b.prologue is not None

    def emit(self) -> None:
        """Choose between the kinds of tiles, and whether they work on pairs."""
        lhs, rhs, _, sums = self.types
        inner = self._runs_along_terms()
        wide_lhs, wide_rhs = ("f32" if kind == "f16" else kind for kind in (lhs, rhs))
        if multiplies_bf16x3(wide_lhs, wide_rhs, sums, self.machine) and self._serves_bf16x3():
            self._widen()
            return self._emit_bf16x3()
        large = min(self.m, self.k) >= _PAIRED
        if multiplies_byte_tiles(lhs, rhs, sums, self.machine) and not inner and large:
            self._group_bytes(inner, tiles=True)
            return self._emit_outer(True)
        if multiplies_bytes(lhs, rhs, sums, self.machine) and (inner or large):
            self._group_bytes(inner, tiles=False)
            return self._emit_inner() if inner else self._emit_outer(False)
        pairs = multiplies_pairs(lhs, rhs, sums, self.machine)
        shorts = multiplies_shorts(lhs, rhs, sums, self.machine) and not self.has_prologue and not inner
        tiles = multiplies_tiles(lhs, rhs, sums, self.machine) and not inner and self.k % (2 * SIDE) == 0
        if (pairs and inner) or ((pairs or tiles or shorts) and large):
            self._pair(inner, tiles)
        else:
            tiles = False
        if inner:
            return self._emit_inner()
        if self._serves_updates():
            return self._emit_updates()
        return self._emit_outer(tiles)

    def _runs_along_terms(self) -> bool:
        """Whether vectors run along the sum, because the product is thin and its operands lie so."""
        m, n, k, lanes = self.m, self.n, self.k, self.arithmetic.columns
        along_a, along_b = self.a.terms == (self.a.element.bytes,), self.b.terms == (self.b.element.bytes,)
        thin = min(m, n)
        few = thin <= _THIN or (thin <= COSTS.rows_along and k >= _LONG * lanes and along_a and along_b)
        if not few or k < max(lanes // 2, 2) or self.b.lines or self.has_prologue:
            return False
        # A thin operand that does not run along k is cheap to turn; a large one is not.
        return (along_b and (along_a or _WIDER * m <= n)) or (along_a and _WIDER * n <= m and m > 1)

    def _pair(self, inner: bool, tiles: bool) -> None:
        self.operands.arithmetic = replace(self.arithmetic, pairs=True)
        self.a = self.operands.pair("pair_lhs", self.a, self.m, self.k, inner or tiles)
        self.b = _turned(self.operands.pair("pair_rhs", _turned(self.b), self.n, self.k, inner))
        self.k = -(-self.k // 2)

    def _group_bytes(self, inner: bool, tiles: bool) -> None:
        """Make the operands fours of bytes."""
        left, right = ("s8" if matrix.element.kind == "signed" else "u8" for matrix in (self.a, self.b))
        flipped, least = not tiles and left == right, SIDE if tiles else 1
        if flipped:
            left = "s8" if left == "u8" else "u8"
        self.operands.arithmetic = replace(self.arithmetic, bytes=(left, right), flipped=flipped)
        operands, along = self.operands, inner or tiles
        self.a = operands.bytes("bytes_lhs", self.a, self.m, self.k, left=True, along=along, least=least)
        turned = operands.bytes("bytes_rhs", _turned(self.b), self.n, self.k, left=False, along=inner, least=least)
        self.b = _turned(turned)
        self.k = -(-self.k // (4 * least)) * least

    def _product(self, tile: TileShape) -> Product:
        """The product of the operands as they are by now."""
        return Product(
            batch=self.operands.batch, m=self.m, n=self.n, terms=(self.k,), a=self.a, b=self.b, c=self.c,
            arithmetic=self.arithmetic, tile=tile, epilogue=self.epilogue,
        )

    def _add(self, product: Product, microkernel: Microkernel) -> None:
        self.operands.steps.append(emit_product(self.operands.unit, self.operands.name, product, microkernel))

    def _emit_inner(self) -> None:
        m, n, k, components = self.m, self.n, self.k, self.arithmetic.components
        if self.a.terms != (self.a.element.bytes,):
            self.a, _ = self.operands.pack_terms("pack_lhs", self.a, m, k, k)
        if self.b.terms != (self.b.element.bytes,):
            packed, _ = self.operands.pack_terms("pack_rhs", _turned(self.b), n, k, k)
            self.b = _turned(packed)
        most = self.machine.registers // 2
        rows = min(m, _SIDE if n >= _SIDE or self.arithmetic.complex else most // min(n, _SIDE))
        columns = min(n, max(1, most // (rows * components)))
        self._add(self._product(TileShape(rows, columns)), DOT_PRODUCTS)

    def _serves_updates(self) -> bool:
        """Whether `rank_update` can compute this product, and saves time: rows of `b` fall on few sets of the caches,
        and so would have to be copied to be read again."""
        b, c, m, asked = self.b, self.c, self.m, self.machine.choices.updates
        in_place = b.prologue is None and not b.lines and b.column == b.element.bytes and c.column == c.element.bytes
        fewest = _UPDATED if self.machine.vector_bits < 512 else _UPDATED + 1
        few = fewest <= m <= blocking.rows_to_update(_UPDATED_MOST, self.machine)
        some = bool(asked) or (few and b.terms[0] % (COSTS.page_bytes // 4) == 0)
        if not (in_place and not self.whole_rows and some):
            return False
        from hlotool.codegen.cpu.products.rank_update import serves_updates

        return serves_updates(m, self.n, 1, self.k, b.element, self.arithmetic, self.machine)

    def _emit_updates(self) -> None:
        """A product of few rows, whose left operand is copied alone."""
        from hlotool.codegen.cpu.products.rank_update import TERMS, Part, columns_of, rank_updates

        m, n, k, (row,) = self.m, self.n, self.k, self.b.terms
        if self.a.prologue is not None:
            self.a = self.operands.spread("made_lhs", self.a, m, k, self.arithmetic.element)
        packed, block = self.operands.pack_terms("pack_lhs", self.a, m, k, TERMS)
        parts = (Part(0, tuple((at * packed.row, at) for at in range(m))),)
        product = replace(
            self._product(TileShape(m, columns_of(m, n, self.arithmetic, self.machine))),
            terms=(1, k // TERMS, TERMS), a=replace(packed, terms=(0, block, *packed.terms)),
            b=replace(self.b, terms=(0, TERMS * row, row)),
        )
        self._add(product, rank_updates(parts))

    def _emit_outer(self, tiles: bool) -> None:
        m, n, k, machine, arithmetic = self.m, self.n, self.k, self.machine, self.arithmetic
        # Two threads share the rows: few whole ones should not make a tile more for one of them.
        rows = -(-m // 2) if self.whole_rows and m <= _HALVED else m
        _, usual = blocking.choose_tile(rows, n, machine, arithmetic)
        if tiles:
            usual = TileShape(min(m, 2 * SIDE), min(n, 2 * SIDE))
        tile = blocking.choose_tile(rows, n, machine, arithmetic, in_lines=True)[1] if self.b.lines else usual
        microkernel = TILE_REGISTERS if tiles else VECTORS
        out = self.c
        rounds = out.element.storage != arithmetic.type  # so that strips cannot be added up in it
        if rounds and self.epilogue is None and not tiles and m <= blocking.STRIP_ROWS and self._has_long_rows():
            self.c = self._dense_result(arithmetic.element)
        elif out.column != out.element.bytes and n > 1:
            self.c = self._dense_result(out.element)
        deep = k > blocking.block_depth(machine, usual, arithmetic)
        packing, piece = self._pack_right(usual, tile, deep, tiles)
        self._pack_left(tile, deep and not piece)
        product = replace(self._product(tile), piece=piece, packing=packing)
        if self.b.lines:  # the sum is added up as if the columns lay side by side
            piece = blocking.terms_at_a_time(replace(product, tile=usual), microkernel, machine)
            product = replace(product, piece=piece)
        self._add(product, microkernel)
        self._unpack(out)

    def _unpack(self, out: Matrix) -> None:
        """Copy the result to where it belongs, if it is somewhere else."""
        if self.c is not out:
            outer = map(Axis, self.operands.batch, self.c.batch, out.batch)
            down, across = Axis(self.m, self.c.row, out.row), Axis(self.n, self.c.column, out.column)
            self.operands.unpack(outer, down, across, self.c.place, out.place)

    def _dense_result(self, element: Element) -> Matrix:
        """Room for a result whose columns lie side by side."""
        size = element.bytes
        item = self.m * self.n * size
        use = "result with columns side by side"
        place = self.operands.scratch.take(math.prod(self.operands.batch) * item, element, use)
        return Matrix(place=place, batch=dense_strides(self.operands.batch, item), row=self.n * size, column=size)

    def _pack_right(self, usual: TileShape, tile: TileShape, deep: bool, tiles: bool) -> tuple[Packing | None, int]:
        """Pack the right operand where that pays; who does it, if that is the tasks, and with how many terms at a time.

        Not: with few passes over it, or where its rows lie close together.  A row stride of whole pages puts all rows
        on the same sets of the caches; 16-bit floats would be converted again in each pass.  A large operand with long
        rows is packed in strips for few rows, too: tiles that read some columns of many rows wait for memory.
        """
        m, n, k, b, c, machine, batch = self.m, self.n, self.k, self.b, self.c, self.machine, self.operands.batch
        native = b.element.storage == self.arithmetic.type
        most = COSTS.rows_read_in_place(b.terms[0]) if native else COSTS.paged_rows
        few = m <= (min(most, _ROWS_DEEP) if deep else most)
        size, panels = k * usual.columns * self.arithmetic.element.bytes, -(-n // usual.columns) * math.prod(batch)
        close = native and blocking.stays_in_place(m, n, size, machine)
        in_place = b.column == b.element.bytes and not b.partner and b.prologue is None
        stays, pack = few or close, machine.choices.pack_right
        depth = k if c.element.storage == self.arithmetic.type and all(b.batch) else 0
        made_in_rows = b.prologue is not None and b.column == b.element.bytes
        strips = depth > 0 and (made_in_rows or self._has_long_rows()) and m <= blocking.STRIP_ROWS and not tiles
        if in_place and not b.lines and (stays and not strips if pack is None else not pack):
            return None, 0
        group = piece = 0
        if not self.whole_rows:
            width = usual.columns
            if strips:
                wide = self.arithmetic.element.bytes
                group, piece = blocking.strip_to_pack(m, n, k, width=width, size=wide, machine=machine)
            else:
                group, piece = blocking.panels_to_pack(m, panels, size=size, width=width, machine=machine, depth=depth)
        if b.lines:
            return None, piece
        self.b, packing = self.operands.pack_panels(
            "pack_rhs", b, (k,), n, tile.columns, group=group, piece=piece, full=b.prologue is None and not tiles
        )
        return packing, piece

    def _has_long_rows(self) -> bool:
        """Whether the right operand, of floats, has long rows, and comes from memory; and is not read once, as it is,
        which takes no copy.

        The last cache gives columns of many rows quickly enough: there a copy took two to three times as long.  Rows of
        whole pages fall on few of its sets, so that a core's own caches count for those, but where vectors of 512 bits
        read them in few passes, with no conversion.
        """
        b, sums, machine = self.b, self.arithmetic, self.machine
        plain = sums.type == "float" and not (sums.complex or self.operands.batch or self.has_prologue or b.lines)
        in_rows = b.column == b.element.bytes and not b.partner and self.n >= LONG_ROWS
        native = b.element.storage == sums.type
        paged = b.terms[0] % COSTS.page_bytes == 0 and not (native and machine.vector_bits >= 512)
        near = machine.l2 if paged else max(machine.l2, machine.l3)
        return plain and in_rows and (self.m > 1 or not native) and not self.whole_rows and self.k * b.terms[0] > near

    def _pack_left(self, tile: TileShape, deep: bool) -> None:
        """Pack the left operand where that pays: what it converts or turns is used for several panels, or its rows fall
        on few sets of the caches."""
        m, k, a, few_panels = self.m, self.k, self.a, -(-self.n // tile.columns) <= 2
        if a.prologue is not None:
            self.a = a = self.operands.spread("pack_lhs", a, m, k, self.arithmetic.element)
        turned = a.terms != (a.element.bytes,)
        converted = a.element.storage != self.arithmetic.type
        # Rows that fall on few sets of the first-level cache, unless they leave some of its ways (a page each) to
        # others and fill all sets of the second level.
        leaves_some = tile.rows + 2 <= self.machine.l1 >> 12 and not deep
        aliased = a.row % (COSTS.page_bytes // 4) == 0 and not turned and not leaves_some
        pays = not few_panels and m > 1 and (converted or (k > COSTS.terms_in_place and (turned or aliased)))
        asked = self.machine.choices.pack_left
        pays = pays if asked is None else bool(asked)
        if not a.partner and not pays:
            return
        if turned:
            flip = a.partner > 0 and self.arithmetic.flipped
            packed, _ = self.operands.pack_panels("pack_lhs", _turned(a), (k,), m, tile.rows, full=True, flip=flip)
            self.a = _turned(packed)
        else:
            self.a = self.operands.spread("pack_lhs", a, m, k, self.arithmetic.element)

    def _serves_bf16x3(self) -> bool:
        """Whether `bf16x3` can split both matrices, and multiplying those saves more time than it takes."""
        m, n, k, a, b, batch = self.m, self.n, self.k, self.a, self.b, self.operands.batch
        numbers = k * (m * math.prod(own(batch, a)) + n * math.prod(own(batch, b)))
        plain = not self.has_prologue and self.c.column == self.c.element.bytes
        plain = plain and (self._sums_in_place() or self.epilogue is None)
        plain = plain and a.element.bytes in (a.row, a.terms[0]) and b.element.bytes in (b.column, b.terms[0])
        enough, asked = min(m, n) >= LINES and k >= 2 * CHUNK, self.machine.choices.split_f32
        if asked is not None:
            return plain and enough and bool(asked)
        enough = enough and bf16x3.pays(float(m) * n * k * math.prod(batch), numbers)
        # Few rows: splitting all columns is worth it if those stay in a cache until they are multiplied.
        near = m > blocking.SHARED_ROWS or 6 * n * k <= self.machine.l2 or self._panels_to_split()[0] > 0
        return plain and enough and near

    def _panels_to_split(self) -> tuple[int, int]:
        """Panels of `b` which a task should split itself, because it meets all rows, and so many terms of these at a
        time (0: all); no panels where that is better done ahead of all tasks.

        Panels, or pieces of them, are to stay in a core's own cache until the last row has met them, while rows pass
        by, from further away: each is read once for so many panels.
        """
        machine, choices, many = self.machine, self.machine.choices, self.m >= _SPLIT_ROWS
        panels, chunks = -(-self.n // LINES), -(-self.k // CHUNK)
        count, size = panels * math.prod(own(self.operands.batch, self.b)), chunks * BLOCK
        ahead = many and panels * size <= machine.l2 if choices.own_panels is None else not choices.own_panels
        if ahead or count < max(blocking.SHARED_PANELS, machine.cores) or self.whole_rows:
            return 0, 0
        # Where rows stay in the cache beside panels it costs little to go through them more often.
        near = -(-self.m // LINES) * size <= machine.l2 // 2
        tasks = max(16 if near else 8, machine.cores)
        wanted = max(1, min(_SPLIT_PANELS if many else bf16x3.GROUP, count // tasks))
        wanted = min(choices.split_group or wanted, count)
        most = machine.l2 * 3 // 8 // BLOCK  # chunks of panels in the cache
        if choices.terms is not None:
            piece = -(-choices.terms // CHUNK)
        else:
            piece = max(_SPLIT_CHUNKS, most // wanted) if many or size > machine.l2 // 4 else chunks
        pieces = -(-chunks // piece) if self._adds_pieces(wanted) else 1
        piece = -(-chunks // pieces)
        group = min(wanted, choices.split_group or most // piece)
        return group, piece * CHUNK if group and pieces > 1 else 0

    def _adds_pieces(self, panels: int) -> bool:
        """Whether the sums of so many panels can wait, unrounded, for the next piece while all rows meet the last one:
        where they belong, or, for an epilogue, on the stack of a task."""
        room = self.epilogue is None or self.epilogue.kept is not None
        room = room or self.m * panels * LINES * self.c.element.bytes <= _SPLIT_BYTES
        return self._sums_in_place() and room and all(self.b.batch)

    def _sums_in_place(self) -> bool:
        """Whether sums can be added up in the result."""
        return self.c.element.storage == self.arithmetic.type

    def _widen(self) -> None:
        """Make f16 operands f32 numbers, in the order in which they lie."""
        wide = self.arithmetic.element
        if self.a.element.storage != wide.storage:
            self.a = self.operands.widened("wide_lhs", self.a, self.m, self.k, wide)
        if self.b.element.storage != wide.storage:
            self.b = _turned(self.operands.widened("wide_rhs", _turned(self.b), self.n, self.k, wide))

    def _emit_bf16x3(self) -> None:
        """A product of f32 numbers in bf16 parts: both matrices are copied, to blocks."""
        from hlotool.codegen.cpu.products.bf16x3_product import Bf16x3, bf16x3_tiles

        operands, (group, piece), out = self.operands, self._panels_to_split(), self.c
        if not self._sums_in_place():
            self.c = self._dense_result(self.arithmetic.element)
        left, copy_left = operands.split("lhs", _turned(self.a), self.m, self.k, right=False)
        right, copy_right = operands.split(
            "rhs", self.b, self.n, self.k, right=True, group=group, called=group > 0, piece=piece
        )
        step = copy_left if group else bf16x3.both(operands.unit, f"split_{operands.name}", copy_left, copy_right)
        operands.steps.append(step)
        a, b = (
            Matrix(
                place=split.target, batch=tuple(axis.target for axis in split.outer), terms=(BLOCK // SIDE,),
                panel=split.size, row=row,
            )
            for split, row in ((left, CHUNK * 2), (right, 0))
        )
        product = replace(
            self._product(TileShape(LINES, LINES)), terms=(-(-self.k // CHUNK) * SIDE,), a=a, b=b,
            arithmetic=replace(self.arithmetic, pairs=True, bf16x3=True),
            packing=Packing(copy_right.function, right.pieces, group, piece // CHUNK * SIDE) if group else None,
            piece=piece // CHUNK * SIDE,
        )
        self._add(product, bf16x3_tiles(Bf16x3(PART, left.ranges, left.tasks, right.ranges, right.tasks)))
        self._unpack(out)
