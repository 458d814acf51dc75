"""Prologues: an operand of a product, computed while it is copied to where the product's tiles want it.

The copy is one of `pack`: its strides count in an array that does not exist, row-major and dense, whose elements are
computed instead of being read.  The body is traced and written like that of any other fusion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from hlotool.analysis import indexing
from hlotool.analysis.indexing import Atom, Condition, atom_index, constant, delinearize
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.fusions.step import Job, load_bases, write_nest
from hlotool.codegen.cpu.products.pack import CALLED, TASK_BYTES, Copy
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import argument, begin_tasks, unravel
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.values import Index, Int, Ptr, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.loops import LoopSpec
from hlotool.codegen.loops.nodes import Guards, Node
from hlotool.codegen.loops.rules import rule_of
from hlotool.codegen.loops.trace import Tracer
from hlotool.codegen.nests.nest import Nest
from hlotool.ir import Instruction, dtype_of
from hlotool.lazy_dataclass import dataclass

__all__ = ["ELEMENTS_AHEAD", "Prologue"]

_PANEL = "panel"
"""The slot of stores to the panel."""

ELEMENTS_AHEAD: Annotated[int, Threshold("elements")] = 8192
"""How far ahead large weights are asked for: by the time that it takes to compute with so many, they are there.
Processors ask for nothing beyond a page by themselves."""

_TILE: Annotated[int, Threshold("rows")] = 16
"""Rows that are transposed together, in which tasks begin."""

_RUN: Annotated[int, Threshold("columns")] = 256
"""Columns, about as many, that a task computes side by side."""


@dataclass(frozen=True, slots=True)
class Prologue:
    """`operand` is what a product reads; `slots` are the places of the first leaves of its fusion's operands."""

    operand: Instruction
    slots: tuple[int, ...]

    def emit(self, unit: Unit, name: str, copy: Copy) -> Step:
        """Define step function `name`, or one for others to call, as `pack.emit_copy` does."""
        assert unit.machine is not None
        rows, width, stays = copy.rows.extent, copy.width, copy.group > 0
        group = copy.group or max(1, min(copy.panels, _RUN // width))
        row_bytes = min(copy.columns.extent, group * width) * copy.target.element.bytes
        chunk = min(copy.piece or max(_TILE, TASK_BYTES // row_bytes // _TILE * _TILE), rows)

        f = Function(unit, f"void @{name}{CALLED} nounwind" if stays else signature(name))
        job, atoms = self._job(copy)
        bases = load_bases(f, [job], -1)
        write = Ptr(f, "%to") if stays else argument(f, copy.target)
        task = begin_tasks(f)
        extents = [axis.extent for axis in copy.outer]
        extents = [*extents[: copy.lead], -(-copy.panels // group), *extents[copy.lead :], -(-rows // chunk)]
        *outer, at_chunk = unravel(task.index, extents)
        at_group = outer.pop(copy.lead)
        for axis, at in zip(copy.outer, outer, strict=True):
            write += at * axis.target
        first, last = _span(f, at_chunk, chunk, rows)
        if copy.piece:
            write += first * -copy.rows.target
        begin, end = _span(f, at_group, group, copy.panels)
        panel = begin_loop(f, begin, end)
        at_panel = number(f, panel.index)
        to = at_panel - begin if stays else at_panel
        left, right = _span(f, at_panel, width, copy.columns.extent)
        write = write + to * copy.panel + left * -copy.columns.target
        loops = [
            LoopSpec(atom, atom.high + 1, counter=number(f, at))
            for atom, at in zip(atoms[:-2], outer, strict=True) if atom.high
        ]
        for atom, start, stop in ((atoms[-2], first, last), (atoms[-1], left, right)):
            if atom.high:
                loops.append(LoopSpec(atom, atom.high + 1, start=start, stop=stop))
        own = Job(job.tracer, job.stores, job.atoms, tuple(loops), atoms[-1].high > 0, width, tiles=True)
        ahead = 0
        if copy.columns.source == copy.source.element.bytes:
            together, across = (copy.piece, group * width) if copy.piece else (1, width)
            ahead = -(-ELEMENTS_AHEAD // (together * across)) * together * copy.rows.source // copy.source.element.bytes
        nest = write_nest(Nest(f, unit.machine, name, {**bases, _PANEL: write}, ahead=ahead), own, False)
        unit.count({**nest.work, "planned": nest.time})
        panel.end()
        task.end()
        f.finish()
        return Step(name, math.prod(extents), nest.time)

    def _job(self, copy: Copy) -> tuple[Job, Sequence[Atom]]:
        """The store of an element, and the variables that count the outer dimensions, the rows and the columns."""
        tracer, size, target = Tracer(rule_of, self.slots), copy.source.element.bytes, copy.target.element
        position, place = constant(0), constant(0)
        atoms: list[Atom] = []
        for d, axis in enumerate((*copy.outer, copy.rows, copy.columns)):
            index, (atom,) = tracer.dimension(axis.extent, sum(atom.variables for atom in atoms))
            atoms.append(atom)
            position = position + index * (axis.source // size)
            if d >= len(copy.outer):
                place = place + index * (axis.target // target.bytes)
        value, kind = self._element(tracer, position, ()), target.name
        if copy.partner:
            odd = copy.singles % 2 == 1
            present: Guards = (Condition(atom_index(atoms[-2]), 0, copy.rows.extent - 1),) if odd else ()
            partner = self._element(tracer, position + copy.partner // size, present)
            value, kind = _pair(tracer, value, partner, present), "u32"
        elif value.type != kind:
            value = tracer.elementwise("convert", kind, value)
        if copy.flip:
            top = dtype_of(kind).type(128 if kind == "u8" else -128)
            value = tracer.elementwise("xor", kind, value, tracer.number(kind, top))
        store = tracer.node("store", kind, (value,), index=place, slot=_PANEL)
        return Job(tracer, [store], [atom for atom in atoms if atom.high]), atoms

    def _element(self, tracer: Tracer, position: indexing.Index, guards: Guards) -> Node:
        return tracer.element(self.operand, delinearize(position, self.operand.shape.dimensions), guards)


def _pair(t: Tracer, low: Node, high: Node, present: Guards) -> Node:
    """Two bf16 numbers in a word; the second one is zero where it is not `present`."""
    words = [t.elementwise("convert", "u32", t.elementwise("bitcast-convert", "u16", value)) for value in (low, high)]
    second = t.choice(present, words[1], t.number("u32", dtype_of("u32").type(0)))
    second = t.elementwise("shift-left", "u32", second, t.number("u32", dtype_of("u32").type(16)))
    return t.elementwise("or", "u32", words[0], second)


def _span(f: Function, part: Index, size: int, total: int) -> tuple[Int, Int]:
    """Where part number `part` of `size` of `total` things begins and ends."""
    start = number(f, number(f, part).times(size))
    end = start.plus(size)
    return start, end.at_most(total) if total % size else end
