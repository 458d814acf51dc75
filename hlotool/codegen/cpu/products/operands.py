"""Operands of products, packed, paired or split by steps ahead of the product, or by its tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from hlotool.analysis.contraction import dense_strides
from hlotool.codegen.cpu.products.bf16x3 import BLOCK, CHUNK, GROUP, LINES, RANGE, Split, emit_split
from hlotool.codegen.cpu.products.pack import Axis, Copy, emit_copy, emit_zeros
from hlotool.codegen.cpu.products.product import Matrix, Packing
from hlotool.codegen.kernel import Step, Uses
from hlotool.codegen.llvm.arguments import Place
from hlotool.codegen.llvm.elements import BYTES, Arithmetic, Element, element
from hlotool.codegen.llvm.writer import Unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["Operands", "Scratch", "joined", "own"]


@dataclass(slots=True)
class Scratch:
    """Bytes of the scratch buffer in argument `slot` given out so far."""

    slot: int
    size: int = 0
    parts: list[tuple[str, int]] = field(default_factory=list)  # what they are for, and how many

    @property
    def uses(self) -> Uses:
        return tuple(self.parts)

    def take(self, size: int, kind: Element, use: str) -> Place:
        """A part of `size` bytes, on a cache line of its own, for a `use` in words."""
        start = self.size
        self.size += -(-size // 64) * 64
        self.parts.append((use, self.size - start))
        return Place(self.slot, start, kind)


def joined(dimensions: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Dimensions, each an extent and strides, with neighbours made one that are so in all arrays."""
    found: list[tuple[int, ...]] = []
    for extent, *strides in dimensions:
        if found and all(up == extent * low for up, low in zip(found[-1][1:], strides, strict=True)):
            found[-1] = (found[-1][0] * extent, *strides)
        else:
            found.append((extent, *strides))
    return found


def own(extents: tuple[int, ...], matrix: Matrix) -> tuple[int, ...]:
    """Extents of the batch, 1 where `matrix` is the same for all items."""
    return tuple(extent if stride else 1 for extent, stride in zip(extents, matrix.batch, strict=True))


def _side(label: str) -> str:
    """The operand that the label of a step is about."""
    return "left operand" if "lhs" in label else "right operand"


@dataclass(slots=True, kw_only=True)
class Operands:
    """Makes operands of kernel `name` ready: adds `steps` that copy them to `scratch`.

    A right operand has terms and columns, a left one terms and rows: turned, one is the other.
    """

    name: str
    unit: Unit
    batch: tuple[int, ...]
    arithmetic: Arithmetic
    scratch: Scratch
    steps: list[Step] = field(default_factory=list)

    def pack_panels(
        self, label: str, source: Matrix, terms: tuple[int, ...], columns: int, width: int, *, group: int = 0,
        piece: int = 0, full: bool = False, flip: bool = False,
    ) -> tuple[Matrix, Packing | None]:
        """Copy a right operand to panels of `width` columns.

        With `group` the copy is not a step, but for the product's tasks to call, for as many panels at a time, and with
        `piece` for as many terms.  With `full` the last panel is whole, and ends with the last column.
        """
        size, panels = self.arithmetic.element.bytes, -(-columns // width)
        panel, groups = (piece or math.prod(terms)) * width * size, -(-panels // (group or 1))
        place = self._take(groups * (group or 1) * panel, self.arithmetic.element, f"packed {_side(label)}")
        batch, steps = dense_strides(self.batch, panels * panel), dense_strides(terms, width * size)
        *outer, rows = map(Axis, terms, source.terms, steps)
        stays = (0,) * len(batch) if group else batch  # others say where that goes
        step = self._copy(label, source, Copy(
            outer=(*self._outer(source, stays), *outer), rows=rows,
            columns=Axis(columns, source.column, size), width=width, panel=panel, source=source.place, target=place,
            arithmetic=self.arithmetic, lead=len(self.batch), group=group, piece=piece,
            full=full and columns > width and columns % width > 0, partner=source.partner, singles=source.singles,
            flip=flip,
        ))
        matrix = Matrix(place=place, batch=batch, column=size, terms=steps, panel=panel, whole=full)
        if group:
            return matrix, Packing(step.function, step.tasks // (math.prod(self.batch) * groups), group, piece)
        self.steps.append(step)
        return matrix, None

    def pack_terms(self, label: str, source: Matrix, rows: int, terms: int, width: int) -> tuple[Matrix, int]:
        """Copy a left operand to panels of `width` terms; also the bytes between panels."""
        turned = replace(source, column=source.terms[0], terms=(source.row,))
        packed, _ = self.pack_panels(label, turned, (rows,), terms, width)
        matrix = Matrix(place=packed.place, batch=packed.batch, row=packed.terms[0], terms=(packed.column,))
        return matrix, packed.panel

    def pair(self, label: str, source: Matrix, rows: int, terms: int, along: bool) -> Matrix:
        """A left operand as pairs along the sum; `along` asks for pairs that follow one another."""
        size, pair, (step,) = source.element.bytes, self.arithmetic.element, source.terms
        if source.prologue is None and _in_pairs(source, terms):
            return replace(source, place=replace(source.place, element=pair), terms=(pair.bytes,))
        if source.row == size and not along:
            return replace(source, terms=(2 * step,), partner=step, singles=terms)
        half = source.element if source.element.kind == "float" else element("s16")
        copy = self.spread(label, source, rows, terms, half)
        if terms % 2:
            end = replace(copy.place, start=copy.place.start + terms * half.bytes)
            self.clear(f"{label}_end_{self.name}", end, (*self.batch, rows, 1), (*copy.batch, copy.row, half.bytes))
        return replace(copy, place=replace(copy.place, element=pair), terms=(pair.bytes,))

    def bytes(
        self, label: str, source: Matrix, rows: int, terms: int, *, left: bool, along: bool, least: int
    ) -> Matrix:
        """A left operand, or a right one turned, as four bytes along the sum; `along` asks for these to follow one
        another.  There are a multiple of `least` of them, where what is too much is 0, or times 0: see `pack`.  The
        left one may have to be flipped."""
        arithmetic, (step,) = self.arithmetic, source.terms
        flip, kind = left and arithmetic.flipped, element(arithmetic.bytes[0 if left else 1])
        plain = source.prologue is None and not source.element.width
        if plain and not flip and _in_words(source, terms, 4 * least):
            return replace(source, place=replace(source.place, element=BYTES), terms=(BYTES.bytes,))
        if plain and source.row == source.element.bytes and not along:
            return replace(source, terms=(4 * step,), partner=step, singles=terms)
        whole = -(-terms // (4 * least)) * 4 * least
        copy = self.spread(label, source, rows, terms, kind, room=whole - terms, flip=flip)
        if whole > terms:
            end = replace(copy.place, start=copy.place.start + terms)
            extents = *self.batch, rows, whole - terms
            self.clear(f"{label}_end_{self.name}", end, extents, (*copy.batch, copy.row, kind.bytes))
        return replace(copy, place=replace(copy.place, element=BYTES), terms=(BYTES.bytes,))

    def spread(
        self, label: str, source: Matrix, rows: int, terms: int, kind: Element, *, room: int = 0, flip: bool = False
    ) -> Matrix:
        """Copy a left operand to rows, contiguous and a little more than `terms` and `room` apart."""
        together = 4 if self.arithmetic.bytes else 2
        pitch = -(-(terms + room + 16) // together) * together * kind.bytes
        place = self._take(rows * pitch, kind, f"{_side(label)} in rows")
        batch = dense_strides(self.batch, rows * pitch)
        width = 4 * self.arithmetic.columns
        self.steps.append(self._copy(label, source, Copy(
            outer=self._outer(source, batch), rows=Axis(rows, source.row, pitch),
            columns=Axis(terms, source.terms[0], kind.bytes), width=width, panel=width * kind.bytes,
            source=source.place, target=place, arithmetic=self.arithmetic, flip=flip,
        )))
        return Matrix(place=place, batch=batch, row=pitch, terms=(kind.bytes,))

    def widened(self, label: str, source: Matrix, rows: int, terms: int, kind: Element) -> Matrix:
        """Copy a left operand, or a right one turned, to another type; rows or terms lie side by side as they do."""
        if source.row != source.element.bytes:
            return self.spread(label, source, rows, terms, kind)
        turned = replace(source, row=source.terms[0], terms=(source.row,))
        copy = self.spread(label, turned, terms, rows, kind)
        return replace(copy, row=copy.terms[0], terms=(copy.row,))

    def split(
        self, label: str, source: Matrix, lines: int, terms: int, *, right: bool, group: int = 0, called: bool = False,
        together: bool = False, piece: int = 0,
    ) -> tuple[Split, Step]:
        """The copy of a right operand, or of a left one turned, to blocks of parts, `group` to a task; it may be for
        others to call, with `piece` terms (0: all) at a time.  What all items of the batch share is copied once.  A
        block has the same lines of all items `together`, or items lie one behind the other."""
        extents, words = own(self.batch, source), element("u32")
        along = source.terms == (source.element.bytes,) and not source.lines
        piece = piece or terms
        items, blocks, size = math.prod(extents), -(-lines // LINES), -(-piece // CHUNK) * BLOCK
        group = group or (1 if along else min(GROUP, -(-blocks // 4)))
        strides = dense_strides(extents, size if together else blocks * size)
        strides = tuple(stride if apart else 0 for stride, apart in zip(strides, source.batch, strict=True))
        groups = -(-blocks // group)
        copy = Split(
            outer=tuple(map(Axis, extents, source.batch, strides)), lines=lines, line=source.column, terms=terms,
            term=source.terms[0], along=along, right=right, source=source.place,
            target=self.scratch.take(
                items * (blocks if together else groups * group) * size, words, f"{_side(label)} in parts of bf16"
            ),
            ranges=self.scratch.take(
                RANGE * groups * -(-terms // piece) * items, words, f"ranges of {_side(label)}"
            ),
            panel=source.lines, group=group, piece=piece, called=called, size=size * items if together else size,
            ahead=self._ahead(along),
        )
        return copy, emit_split(self.unit, f"split_{label}_{self.name}", copy)

    def _ahead(self, along: bool) -> int:
        """How many terms before they are split numbers are fetched: the next chunk, or some where terms lie side by
        side, which are soon done."""
        assert self.unit.machine is not None
        asked = self.unit.machine.choices.fetch_terms
        return (4 * CHUNK if along else CHUNK) if asked is None else asked

    def clear(self, name: str, place: Place, extents: Sequence[int], strides: Sequence[int]) -> None:
        """Clear an array with these strides in bytes."""
        self.steps.append(emit_zeros(self.unit, name, place, extents, strides))

    def unpack(self, outer: Iterable[Axis], rows: Axis, columns: Axis, source: Place, target: Place) -> None:
        """Copy a result whose columns lie side by side to where it belongs."""
        width = min(columns.extent, 64)
        self.steps.append(emit_copy(self.unit, f"unpack_{self.name}", Copy(
            outer=tuple(outer), rows=rows, columns=columns, width=width, panel=width * columns.target, source=source,
            target=target, arithmetic=self.arithmetic,
        )))

    def _take(self, size: int, kind: Element, use: str) -> Place:
        return self.scratch.take(math.prod(self.batch) * size, kind, use)

    def _outer(self, source: Matrix, target: tuple[int, ...]) -> tuple[Axis, ...]:
        return tuple(map(Axis, self.batch, source.batch, target))

    def _copy(self, label: str, source: Matrix, copy: Copy) -> Step:
        name = f"{label}_{self.name}"
        return source.prologue.emit(self.unit, name, copy) if source.prologue else emit_copy(self.unit, name, copy)


def _in_words(source: Matrix, terms: int, multiple: int) -> bool:
    """Whether the rows of a left operand, of bytes, are words as they lie, and have a multiple of so many terms."""
    aligned = not any(step % 4 for step in (*source.batch, source.row))
    return source.terms == (1,) and terms % multiple == 0 and aligned


def _in_pairs(source: Matrix, terms: int) -> bool:
    """Whether the rows of a left operand are pairs as they lie."""
    size = source.element.bytes
    aligned = not any(step % (2 * size) for step in (*source.batch, source.row))
    return size == 2 and source.terms == (size,) and terms % 2 == 0 and aligned
