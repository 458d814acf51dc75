"""Writes the nodes of a trace into loops.

Every node is written at the level of the innermost loop that it depends on, so whatever does not change in a loop
stands before it: scalars, partial addresses, whole reductions.  Nodes that depend on the variable of the lane loop are
vectors of `width` consecutive settings, in `copies` registers.  `scope` knows what is open and what has been written,
`indices` the integers, `access` how buffers are read and written, `reductions` what accumulates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from hlotool.analysis.indexing import Index, atom_index
from hlotool.codegen.llvm import values
from hlotool.codegen.llvm.control import allocate, begin_loop
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.avx512 import picked
from hlotool.codegen.llvm.math.elements import Register, constant, from_memory, vector
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.values import Ptr, Vector, iota, number, plus
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.loops.loops import LoopSpec, bound_loops, depth_in
from hlotool.codegen.loops.nodes import Node, body_of, closure, scope_of
from hlotool.codegen.loops.stages import Stage, block_of
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.access import Access, columns_of
from hlotool.codegen.nests.counting import Count
from hlotool.codegen.nests.indices import Indices
from hlotool.codegen.nests.reductions import Accumulators, reducer_of
from hlotool.codegen.nests.scope import NO_ATOM, NO_LANE, Known, Lane, Scope
from hlotool.codegen.nests.tables import ENTRIES, Table, tables_of
from hlotool.ir import UnsupportedError

__all__ = ["Nest"]

Carried = Sequence[Vector]
"""What loops carry."""


class Nest:
    """Writes loops into function `f`; for `bases`, `streams`, `far` and `ahead` see `Access`.

    `rows` are the loads of values that are kept in a buffer while a row is computed, `row_stores` for the reductions
    that compute them their stores, `stages` the parts of the lane loop where it is written in several, `outputs` the
    stores of all.
    """

    def __init__(
        self, f: Function, machine: Machine, name: str, bases: Mapping[object, Ptr],
        streams: Collection[object] = (), far: bool = False, ahead: int = 0,
    ) -> None:  # fmt: skip
        self.f = f
        self.machine = machine
        self.scope = Scope(f, machine)
        self.indices = Indices(self.scope)
        self.access = Access(self.indices, name, bases, streams, far, ahead)
        self.rows: Known[Node, Node] = self.scope.table(lambda node: 0)
        self.tables: Known[Node, Table] = self.scope.table(lambda node: 0)
        self.count = Count(self.scope)
        self._entries: Known[Node, Vector] = self.scope.table(lambda node: self.tables[node].variables)
        self.row_stores: Mapping[Node, list[Node]] = {}
        self.stages: Sequence[Stage] = ()
        self.outputs: Sequence[Node] = ()

    def keep_rows(self, rows: Mapping[Node, Node], row_stores: Mapping[Node, list[Node]]) -> None:
        """Make buffers for the values of rows."""
        self.rows.update(rows)
        self.row_stores = row_stores
        for load in rows.values():
            self.access.bases[load.slot] = allocate(self.f, "i8", load.slot.bytes, align=64)

    # ---- loops

    def run(
        self, loops: Sequence[LoopSpec], nodes: Sequence[Node], carried: Carried = (),
        finish: Callable[[Carried], Carried] = lambda carried: carried, wanted: Sequence[Node] = (),
    ) -> Carried:  # fmt: skip
        """Open `loops`, write `nodes` at their levels, and `finish`, which reads those `wanted`, innermost; return the
        carried values after."""
        nodes = self._with_tables(loops, nodes, wanted)
        self.access.columns = columns_of(n for n in nodes if n.kind == "load" and not n.guards)
        levels: list[list[Node]] = [[] for _ in range(len(loops) + 1)]
        for node in nodes:
            levels[depth_in(loops, node)].append(node)

        def at(depth: int, carried: Carried) -> Carried:
            self.write(levels[depth])
            if depth == len(loops):
                return finish(carried)
            for deeper in levels[depth + 1 :]:
                for node in deeper:
                    self.access.prepare(node)
                    if node in self.tables and all(n in self.scope.values for n in self.tables[node].shared):
                        self._table(node)
            if self.stages and loops[depth].lane is not None:
                self._staged(loops[depth])
                return carried
            return self._loop(loops[depth], carried, lambda c: at(depth + 1, c))

        return at(0, carried)

    def _loop(self, loop: LoopSpec, carried: Carried, body: Callable[[Carried], Carried]) -> Carried:
        if loop.counter is not None:
            with self.scope.inner():
                self.scope.runs *= loop.extent
                self.scope.bind(loop, loop.counter)
                return body(carried)
        if loop.lane is None and not loop.tile:
            return self._counted(loop, 1, loop.extent, self.scope.lane, carried, body)
        width, copies = loop.lane or (1, loop.tile)
        block = width * copies
        main = loop.extent // block * block
        rest = loop.extent - main
        known = isinstance(loop.start, int) and isinstance(loop.stop, int)
        if main:
            last: values.Index = main
            if not known:
                last = number(self.f, loop.stop).at_most(main) if rest else loop.stop
            lane = self._lane_of(loop, copies, width)
            carried = self._counted(replace(loop, stop=last), block, main // block, lane, carried, body)
        if rest:
            copies = -(-rest // width)
            tail = self._lane_of(loop, copies, rest - (copies - 1) * width)
            # Where the bounds are not known, a loop of at most one trip: only the last chunk has the tail.
            end = replace(loop, start=main, stop=main + 1 if known else loop.stop)
            carried = self._counted(end, block, 1, tail, carried, body)
        return carried

    def _counted(
        self, loop: LoopSpec, step: int, trips: int, lane: Lane, carried: Carried, body: Callable[[Carried], Carried]
    ) -> Carried:
        """A loop that `step` settings of its variable share a trip of, with `lane` inside; all tasks together make so
        many `trips`."""
        scope, start, stop = self.scope, loop.start, loop.stop
        if isinstance(start, int) and isinstance(stop, int) and start + step >= stop:
            with scope.inner():
                scope.lane = lane
                scope.bind(loop, start)
                return body(carried)
        self.count.loop(trips)
        opened = begin_loop(self.f, start, stop, step, *carried)
        with scope.inner():
            scope.runs *= trips
            scope.lane = lane
            scope.bind(loop, opened.index)
            after = body(opened.values)
        return opened.end(*after)

    def _lane_of(self, loop: LoopSpec, copies: int, active: int) -> Lane:
        """The lane state inside `loop`, which is a lane loop or the outer loop of a tile."""
        if loop.lane is None:
            return Lane(NO_ATOM, 1, copies, 1, loop.atom, 1)
        width, lane = loop.lane[0], self.scope.lane
        if lane.is_tile:
            return replace(lane, atom=loop.atom, width=width, active=active)
        return Lane(loop.atom, width, copies, active, loop.atom, width)

    def _staged(self, loop: LoopSpec) -> None:
        """Write the stages of the lane loop, one after the other for every block of its elements."""
        size = block_of(self.machine)
        block = begin_loop(self.f, loop.start, loop.stop, size)
        stop = number(self.f, plus(block.index, size)).at_most(loop.stop)
        part = replace(loop, start=block.index, stop=stop)
        back = number(self.f, 0).minus(block.index)
        with self.scope.inner():
            for load in self.rows.values():
                self.access.move(load, back)
            for stage in self.stages:
                with self.scope.inner():
                    self._stage(part, stage)
        block.end()

    def _stage(self, part: LoopSpec, stage: Stage) -> None:
        for node in stage.kept:
            self.rows.hide(node)

        def body(carried: Carried) -> Carried:
            self.write(stage.nodes)
            return carried

        self._loop(part, (), body)

    # ---- tables

    def _with_tables(
        self, loops: Sequence[LoopSpec], nodes: Sequence[Node], wanted: Sequence[Node]
    ) -> Sequence[Node]:
        """`nodes` without those that only tables need, and with the codes of these."""
        lane = next((loop for loop in loops if loop.lane is not None), None)
        width, bits = self.scope.lane.width, self.scope.lane.atom.variables
        copied = self.scope.lane.copied.variables
        if lane is not None and lane.lane is not None:
            width, bits = lane.lane[0], lane.variables
            copied = next((loop.variables for loop in loops if loop.tile), bits)
        if width != ENTRIES or self.stages or self.machine.instructions.picked < ENTRIES:
            return nodes
        tables, left = tables_of(nodes, wanted, self.rows, bits, copied)
        self.tables.update(tables)
        return left

    def _table(self, node: Node) -> Vector:
        """The entries of the table of a node, which are written here if they are not known yet."""
        entries = self._entries.get(node)
        if entries is None:
            table = self.tables[node]
            known = {table.load: from_memory(table.load.type, iota(self.f, "i8", ENTRIES))}
            for step in table.steps:
                types = [operand.type for operand in step.operands]
                operands = [known[o] if o in known else self.scope.value(o, 0, ENTRIES) for o in step.operands]
                known[step] = emit_elementwise(step.opcode, step.attributes, types, step.type, operands)
            entries = vector(known[node])
            self._entries.keep(node, entries)
        return entries

    def _looked_up(self, node: Node) -> tuple[Register, ...]:
        """The values of a node that has a table."""
        codes, entries = self.tables[node].codes, self._table(node)
        self.write([codes])
        return tuple([picked(entries, vector(code)) for code in self.scope.values[codes]])

    # ---- nodes

    def write(self, nodes: Sequence[Node]) -> None:
        """Write nodes of one level, in order; reductions over the same space share their loops."""
        known = self.scope.values
        beside = self.access.side_by_side([n for n in nodes if n.kind == "store"])
        for position, node in enumerate(nodes):
            if node in known:
                continue
            if node.kind != "reduce":
                loaded = self.rows.get(node)
                self.count.node(node if loaded is None else loaded, self.access.is_tiled(node), node in self.tables)
            if node in beside:
                stores = beside[node]
                if node is max(stores, key=lambda n: n.serial):
                    for copy in range(self.scope.copies(node)):
                        self.access.store_all(stores, copy)
            elif node.kind == "reduce":
                self._reduce(self._together(node, nodes[position + 1 :]))
            elif node.kind == "store":
                for copy in range(self.scope.copies(node)):
                    self.access.store(node, copy)
                known.keep(node, ())
            elif node in self.rows:
                load = self.rows[node]
                known.keep(node, tuple([self.access.load(load, copy) for copy in range(self.scope.copies(node))]))
            elif self.access.is_tiled(node):
                known.keep(node, self.access.load_tile(node))
            elif node in self.tables and self.scope.lanes(node) == ENTRIES:
                known.keep(node, self._looked_up(node))
            else:
                lanes = self.scope.lanes(node)
                known.keep(node, tuple([self._value(node, copy, lanes) for copy in range(self.scope.copies(node))]))

    def _value(self, node: Node, copy: int, lanes: int) -> Register:
        f, scope = self.f, self.scope
        match node.kind:
            case "constant":
                return constant(f, node.type, 1, node.slot.value)
            case "load":
                return self.access.load(node, copy)
            case "position":
                position = self.indices.lanes(node.index, copy, lanes)
                source = "s32" if position.element == "i32" else "s64"
                return emit_elementwise("convert", {}, [source], node.type, [position])
            case "leaf":
                (whole,) = node.operands
                return scope.values[whole][copy * (len(whole.operands) // 2) + int(node.slot)]
        operands = [scope.value(operand, copy, lanes) for operand in node.operands]
        match node.kind:
            case "elementwise":
                types = [operand.type for operand in node.operands]
                return emit_elementwise(node.opcode, node.attributes, types, node.type, operands)
            case "inline":
                assert node.computation is not None
                return emit_inline(f, node.computation, operands, lanes)[0]
            case "select":
                types = ["pred", node.type, node.type]
                condition = self.indices.mask(node.guards, copy, lanes)
                return emit_elementwise("select", {}, types, node.type, [condition, *operands])
        raise UnsupportedError(f"no code for a node of kind {node.kind}")

    # ---- reductions

    def _together(self, first: Node, later: Sequence[Node]) -> list[Node]:
        """`first` and those reductions of the same level that can be done in the same loops."""
        scope, group = self.scope, [first]
        for node in later:
            if node.kind != "reduce" or node.bound != first.bound or node in scope.values:
                continue
            if reducer_of(node).in_order != reducer_of(first).in_order:
                continue
            if scope.is_vector(node.variables) != scope.is_vector(first.variables):
                continue
            if node.inputs == group[-1].inputs:  # another result of one reduction: what it needs is there
                group.append(node)
                continue
            if not closure([node]).isdisjoint(group):
                continue
            ahead = [n for n in scope_of([node], self.rows) if n is not node and n not in scope.values]
            if any(n.kind == "reduce" or n.variables & ~scope.open for n in ahead):
                continue
            self.write(ahead)
            group.append(node)
        return group

    def _reduce(self, group: list[Node]) -> None:
        """Write reductions over the same variables as one nest of loops; their values become known here."""
        scope, reducers = self.scope, [reducer_of(node) for node in group]
        outer = scope.lane if scope.is_vector(group[0].variables) else NO_LANE
        stores = [store for node in group for store in self.row_stores.get(node, ())]
        kept = {store.operands[0] for store in stores}
        cut = [n for n in self.rows if n not in kept]
        body = {n for node in group for n in body_of(node, cut)}
        inner = sorted(body, key=lambda n: n.serial) + stores
        may_lane = outer is NO_LANE and not reducers[0].in_order
        loops = bound_loops(group, inner, self.machine, may_lane, any(own.place is not None for own in reducers))
        own = next((loop.lane for loop in loops if loop.lane is not None), None)
        lanes, copies = own or (outer.width, outer.copies)
        accumulators = Accumulators(self.indices, group, reducers, lanes, copies, folds=own is not None)
        carried: Carried = accumulators.first()
        with scope.inner():
            for node in kept:
                self.rows.hide(node)
            if own is not None:
                scope.lane = NO_LANE
            self.access.coming = self._next_row(group[0], inner) if stores else ()
            wanted = [n for node in group for n in node.inputs]
            steps, before = 0.0, self.count.cycles

            def step(totals: Carried) -> Carried:
                nonlocal steps
                steps += scope.runs
                self.count.reduction_step(group, lanes)
                return accumulators.step(totals)

            carried = self.run(loops, inner, carried, step, wanted)
            self.access.coming = ()
        self.count.reductions(group, steps, self.count.cycles - before, own, outer.copies)
        for node, results in zip(group, accumulators.results(carried), strict=True):
            scope.values.keep(node, results)

    def _next_row(self, reduce: Node, inner: Sequence[Node]) -> Sequence[tuple[Node, Index, int]]:
        """What is needed soon while a row is made that a later pass over it reads: places, and elements from there.

        That is the next row of the operands, as those in memory are pages that processors do not go on from, and the
        row of the outputs.  A row takes long enough to make for all of this to come meanwhile.
        """
        scope, (row, *others) = self.scope, reduce.bound
        if others or not scope.stack or not self.machine.instructions.tuned:  # with which nothing was measured
            return ()
        found: dict[tuple[object, int], tuple[Node, Index, int]] = {}
        for node in (*inner, *self.outputs):
            index = node.index
            if not isinstance(node.slot, int) or node.guards:
                continue
            if node.moved <= self.machine.l2:  # what it moves in all stays in that cache
                continue
            new = [atom for atom, _ in index.terms if atom not in scope.counters]
            if len(new) != 1 or index.coefficient(new[0]) != 1 or (new[0].low, new[0].high) != (row.low, row.high):
                continue
            further = 0
            if node.kind == "load":
                further = max((c for atom, c in index.terms if atom.variables & scope.stack[-1]), default=0)
                if not further:
                    continue
            found.setdefault((node.slot, further), (node, index - atom_index(new[0]) + atom_index(row), further))
        return tuple(found.values())
