"""Prologues: an operand of a product, computed while it is copied to where the product's tiles want it.

The copy is one of `pack`: its strides count in an array that does not exist, row-major and dense, whose elements are
computed instead of being read.  The body is traced and written like that of any other fusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from hlotool.analysis.indexing import Atom, Condition, Index, atom_index, constant, delinearize
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.fusions.nest import Nest
from hlotool.codegen.cpu.fusions.step import Job, load_bases, write_nest
from hlotool.codegen.cpu.products.pack import CALLED, TASK_BYTES, Copy
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.addressing import advance, argument, unravel
from hlotool.codegen.llvm.values import Int, Ptr
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.loops import Loop
from hlotool.codegen.loops.nodes import Guards, Node
from hlotool.codegen.loops.rules import rule_of
from hlotool.codegen.loops.trace import Tracer
from hlotool.ir import Instruction, dtype_of

__all__ = ["Prologue"]

_PANEL = "panel"
"""The slot of stores to the panel."""

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
        rows, columns, width, target = copy.rows.extent, copy.columns.extent, copy.width, copy.target.element
        panels = -(-columns // width)
        group = copy.group or max(1, min(panels, _RUN // width))
        chunk = max(_TILE, TASK_BYTES // (min(columns, group * width) * target.bytes) // _TILE * _TILE)
        chunk = min(copy.piece or chunk, rows)
        there, groups, chunks = copy.group == 0, -(-panels // group), -(-rows // chunk)

        f = Function(unit, signature(name) if there else f"void @{name}{CALLED} nounwind")
        job, atoms = self._job(copy)
        bases = load_bases(f, [job], -1)
        write = argument(f, copy.target) if there else "%to"
        task = f.begin_loop("%begin", "%end")
        extents = [axis.extent for axis in copy.outer]
        extents = [*extents[: copy.lead], groups, *extents[copy.lead :], chunks]
        *outer, at_chunk = unravel(f, task.index, extents)
        at_group = outer.pop(copy.lead)
        for number, (axis, at) in enumerate(zip(copy.outer, outer, strict=True)):
            write = advance(f, write, at, axis.target if there or number >= copy.lead else 0)
        first, last = _span(f, at_chunk, chunk, rows)
        if copy.piece:
            write = advance(f, write, first, -copy.rows.target)
        begin, end = _span(f, at_group, group, panels)
        panel = f.begin_loop(begin, end)
        local = panel.index if there else f.let(f"sub i64 {panel.index}, {begin}")
        left, right = _span(f, panel.index, width, columns)
        here = advance(f, advance(f, write, local, copy.panel), left, -copy.columns.target)
        counted = zip(atoms[:-2], outer, strict=True)
        loops = [Loop(atom, atom.high + 1, counter=Int(f, at)) for atom, at in counted if atom.high]
        for atom, start, stop in ((atoms[-2], first, last), (atoms[-1], left, right)):
            if atom.high:
                loops.append(Loop(atom, atom.high + 1, start=Int(f, start), stop=Int(f, stop)))
        own = Job(job.tracer, job.stores, job.atoms, tuple(loops), atoms[-1].high > 0, width, tiles=True)
        time, _ = write_nest(Nest(f, unit.machine, name, {**bases, _PANEL: Ptr(f, here)}), own, False)
        f.end_loop(panel)
        f.end_loop(task)
        f.finish()
        tasks = 1
        for extent in extents:
            tasks *= extent
        return Step(name, tasks, time)

    def _job(self, copy: Copy) -> tuple[Job, Sequence[Atom]]:
        """The store of an element, and the variables that count the outer dimensions, the rows and the columns."""
        tracer, size, held = Tracer(rule_of, self.slots), copy.source.element.bytes, copy.target.element
        position, place, taken = constant(0), constant(0), 0
        atoms: list[Atom] = []
        for number, axis in enumerate((*copy.outer, copy.rows, copy.columns)):
            index, (atom,) = tracer.dimension(axis.extent, taken)
            taken |= atom.variables
            atoms.append(atom)
            position = position + index * (axis.source // size)
            if number >= len(copy.outer):
                place = place + index * (axis.target // held.bytes)
        value, kind = self._element(tracer, position, ()), held.name
        if copy.partner:
            there: Guards = (Condition(atom_index(atoms[-2]), 0, copy.rows.extent - 1),) if copy.odd else ()
            partner = self._element(tracer, position + copy.partner // size, there)
            value, kind = _pair(tracer, value, partner, there), "u32"
        elif value.type != kind:
            value = tracer.elementwise("convert", kind, value)
        store = tracer.node("store", kind, (value,), index=place, slot=_PANEL)
        return Job(tracer, [store], [atom for atom in atoms if atom.high]), atoms

    def _element(self, tracer: Tracer, position: Index, guards: Guards) -> Node:
        return tracer.element(self.operand, delinearize(position, self.operand.shape.dimensions), guards)


def _pair(t: Tracer, low: Node, high: Node, there: Guards) -> Node:
    """Two bf16 numbers in a word; the second one is zero where it is not `there`."""
    words = [t.elementwise("convert", "u32", t.elementwise("bitcast-convert", "u16", value)) for value in (low, high)]
    second = t.choice(there, words[1], t.number("u32", dtype_of("u32").type(0)))
    second = t.elementwise("shift-left", "u32", second, t.number("u32", dtype_of("u32").type(16)))
    return t.elementwise("or", "u32", words[0], second)


def _span(f: Function, number: str, size: int, total: int) -> tuple[str, str]:
    """Where part `number` of `size` of `total` things begins and ends."""
    start = f.let(f"mul nsw i64 {number}, {size}")
    end = f.let(f"add nsw i64 {start}, {size}")
    if total % size:
        end = f.intrinsic("i64", "llvm.smin.i64", [("i64", end), ("i64", str(total))])
    return start, end
