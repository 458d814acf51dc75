"""Epilogues: what reads a product's result, computed block by block while the blocks are in the caches.

A task of a product (`gemm.emit_product`) computes its part of the result in a block on its stack, or in the output
where the result itself is one.  When the sums are complete it calls the epilogue for the rows and columns of the block;
that reads the block in place of the product, other operands of the fusion where they are, and writes its outputs.
The body is traced and written like that of any other fusion.

How another kind of product gets one: add its opcode to `analysis.product_epilogue.PRODUCTS`, let `result_matrix` there
tell rows and columns of its result, make the `Epilogue` of a fusion with `contraction.epilogue_of`, and put it into the
`gemm.Product`; or call the function that `Epilogue.emit` defines from tasks of your own.  Any part of the result may be
a block, as long as each element is in just one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Annotated

from hlotool.analysis.indexing import Atom, Index, delinearize, linearize
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.fusions.step import Job, load_bases, write_nest
from hlotool.codegen.llvm.control import call, open_function
from hlotool.codegen.llvm.values import Int, Ptr, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.loops import LoopSpec, merge, plain
from hlotool.codegen.loops.nodes import Guards, closure
from hlotool.codegen.loops.rules import rule_of
from hlotool.codegen.loops.trace import Rule, Tracer
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.nest import Nest
from hlotool.codegen.nests.outputs import Output, store_output
from hlotool.ir import Instruction, UnsupportedError, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["Block", "Epilogue"]

_BLOCK = "block"
"""The slot of loads from the block."""

_EVEN = 16
"""Elements of which a vector holds as many or a fraction."""

_LONG: Annotated[int, Threshold("cost")] = 10
"""Flops that a function of many instructions counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Where the tasks of a product keep their parts of its result, which is `items` matrices of `rows` x `columns`.

    Rows of a block are `pitch` bytes apart, columns lie side by side.  The first row of a block is a multiple of
    `height`, the first column a multiple of `width`.
    """

    items: int
    rows: int
    columns: int
    pitch: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The parameters of an epilogue's function."""

    args: Ptr
    block: Ptr
    item: Int
    row: Int
    row_end: Int
    column: Int
    column_end: Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """The epilogue of `product`: computes `outputs` from its result.

    These are all outputs of the fusion; one that is the product itself (`kept`) is for the product's own tasks to
    write, and the epilogue then reads blocks of that.  `slots` are the places of the first leaves of the fusion's
    operands in the argument table.  With `whole_rows` it wants blocks of all columns, and `Block.rows` and
    `Block.columns` as `product_epilogue.result_matrix` has them; else the matrix may have any form that has the
    elements in the same order.
    """

    product: Instruction
    outputs: tuple[Output, ...]
    slots: tuple[int, ...]
    whole_rows: bool
    machine: Machine

    @property
    def kept(self) -> Output | None:
        """The output that is the product's result itself."""
        return next((output for output in self.outputs if output.value is self.product), None)

    @property
    def flops(self) -> float:
        """Roughly, of the whole epilogue."""
        body = self.product.parent
        assert body is not None
        members = [i for i in body if i.has("elementwise")]
        return float(sum(i.shape.size * (_LONG if i.has("transcendental") else 1) for i in members))

    def call(
        self, f: Function, name: str, block: Ptr, item: int | Int, rows: tuple[int | Int, int | Int],
        columns: tuple[int | Int, int | Int],
    ) -> None:
        """Call the function `name` that `emit` defines on a block of so many rows and columns, from first to last."""
        call(f, f"@{name}", Ptr(f, "%args"), block, item, *rows, *columns)

    def emit(self, unit: Unit, name: str, block: Block) -> float:
        """Define function `name`, which works on a part of matrix %item, of which the first element is at %block; the
        estimated nanoseconds for all blocks."""
        f, part = open_function(unit, name, _Part, internal=True)
        widths: dict[int, list[Output]] = {}  # by the number of elements that belong to a row of the product
        for output in self.outputs:
            if output is not self.kept:
                widths.setdefault(prod(output.space) // (block.items * block.rows), []).append(output)
        jobs = [self._job(part, width, outputs, block) for width, outputs in widths.items()]
        bases = load_bases(f, jobs, -1)
        size = byte_size(self.product.shape.element_type)
        bases[_BLOCK] = part.block + (number(f, part.row * -block.pitch) + part.column * -size)
        nests = [write_nest(Nest(f, self.machine, name, bases), job, False, near=self.whole_rows) for job in jobs]
        for nest in nests:
            unit.count(nest.work)
        f.finish()
        return sum(nest.time for nest in nests)

    def _job(self, part: _Part, width: int, outputs: Sequence[Output], block: Block) -> Job:
        """Outputs of `width` elements for each row: item, row and place in the row are the loops."""
        space: list[Index] = []

        def read_block(t: Tracer, i: Instruction, index: tuple[Index, ...], guards: Guards, leaf: int) -> Rule:
            yield from ()
            item, row, column = space
            place = linearize(index, i.shape.dimensions) - (item * block.rows + row) * block.columns
            if place.low < 0 or place.high >= block.columns or not (self.whole_rows or place == column):
                raise UnsupportedError(f"{i.name}: its readers want parts of it that are computed elsewhere")
            pitch = block.pitch // byte_size(i.shape.element_type)
            return t.node("load", i.shape.element_type, index=row * pitch + place, slot=_BLOCK)

        tracer = Tracer(lambda i: read_block if i is self.product else rule_of(i), self.slots)
        atoms: list[Atom] = []
        for extent in (block.items, block.rows, width):
            index, (atom,) = tracer.dimension(extent, sum(atom.variables for atom in atoms))
            atoms.append(atom)
            space.append(index)
        item, row, column = space
        position = (item * block.rows + row) * width + column
        stores = [store_output(tracer, output, delinearize(position, output.space)) for output in outputs]
        loops = [
            LoopSpec(atoms[0], block.items, counter=part.item),
            LoopSpec(atoms[1], block.rows, start=part.row, stop=part.row_end),
            LoopSpec(atoms[2], width, start=part.column, stop=part.column_end),
        ]
        multiple = block.width
        if self.whole_rows or block.width >= width:
            loops[2], multiple = plain(atoms[2]), 0
        size = byte_size(self.product.shape.element_type)
        if block.pitch == block.columns * size and block.width >= block.columns and not self.whole_rows:
            flat = merge(loops[1:], closure(stores))
            ahead = 0 if block.height >= block.rows else block.height * block.columns
            if len(flat) == 1 and ahead % _EVEN == 0:  # whole rows, one behind the other
                start, stop = part.row.times(block.columns), part.row_end.times(block.columns)
                loops[1:] = [replace(flat[0], start=start, stop=stop)]
                multiple = ahead
        kept = [loop for loop in loops if loop.extent > 1]
        return Job(tracer, stores, [a for a in atoms if a.high], tuple(kept), width > 1, multiple)
