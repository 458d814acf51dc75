"""Writes the nodes of a trace into loops.

Every node is written at the level of the innermost loop that it depends on, so whatever does not change in a
loop stands before it: scalars, partial addresses, whole reductions.  At most one loop at a time is the *lane*
loop: nodes that depend on its variable are vectors of `width` consecutive settings, in `copies` registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from hlotool.analysis.indexing import Atom, Condition, Index, atom_index
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm import memory
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import broadcast, compute_element, is_complex
from hlotool.codegen.llvm.math.elementwise import Value, constant, emit_elementwise
from hlotool.codegen.llvm.reduce import Reducer, parts, product_sum, reducer, unparts
from hlotool.codegen.llvm.strided import (
    WIDEST_STEP,
    Chunk,
    load_chunks,
    load_strided,
    pick,
    store_interleaved,
    store_strided,
)
from hlotool.codegen.llvm.values import Ptr, Vector, constants
from hlotool.codegen.llvm.vectors import quotient, remainder, transposed
from hlotool.codegen.llvm.writer import Function
from hlotool.codegen.loops.loops import Loop, bound_loops
from hlotool.codegen.loops.nodes import Node, Row, body_of, closure, fits_in_32_bits, scope_of
from hlotool.codegen.loops.stages import BLOCK, Stage
from hlotool.codegen.machine import LINE, Machine
from hlotool.ir import Instruction, Literal, UnsupportedError, byte_size, element_type

__all__ = ["Lane", "Nest"]

Carried = list[tuple[str, str]]
Column = tuple[object, str, tuple[tuple[Atom, int], ...]]
"""Buffer, type and index less its constant: of elements that lie at fixed distances from each other."""
_MISSING = object()

_NOTHING = object()
"""The buffer to read where there is nothing to read."""

_WIDEST: Annotated[int, Threshold("bytes")] = 128
"""Bytes of the widest vector that is read: of complex numbers."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The lane loop: vectors of `width` settings of `atom`; the last has `active` lanes that count.

    There are `copies` of every vector, for settings of `copied` that are `step` apart: of the lane variable itself, or
    in a tile (which transposes in registers) of another one, and then all copies have `active` lanes.
    """

    atom: Atom
    width: int
    copies: int
    active: int
    copied: Atom
    step: int

    @property
    def is_tile(self) -> bool:
        return self.copied != self.atom

    def is_partial(self, copy: int) -> bool:
        return self.active < self.width and (self.is_tile or copy == self.copies - 1)


_NO_ATOM = Atom(("none",), 0, 0, 0)


class Nest:
    """The state of writing one function: what is open, and the values and addresses known so far.

    `streams` are the slots of outputs that no cache can hold; `far` tells whether operands come from beyond the caches,
    slower than they are needed.
    """

    def __init__(
        self, f: Function, machine: Machine, name: str, bases: dict[object, str], streams: Collection[object] = (),
        far: bool = False,
    ) -> None:  # fmt: skip
        self.f = f
        self.machine = machine
        self.name = name
        self.lane: Lane | None = None
        self.open = 0
        self.stack: tuple[int, ...] = ()
        self.values: dict[Node, tuple[Value, ...]] = {}
        self.splats: dict[tuple[Node, int, int], Value] = {}
        self.counters: dict[Atom, str] = {}
        self.sums: dict[tuple[tuple[Atom, int], ...], str] = {}
        self.addresses: dict[tuple[object, tuple[tuple[Atom, int], ...]], tuple[int, str]] = {}
        self.columns: dict[Column, list[Node]] = {}
        self.chunks: dict[tuple[Column, int, int], list[Chunk]] = {}
        self.conditions: dict[tuple[tuple[Condition, ...], int], tuple[str, bool]] = {}
        self.bases = dict(bases)
        self.rows: dict[Node, Node] = {}
        self.row_stores: dict[Node, list[Node]] = {}
        self.stages: Sequence[Stage] = ()
        self.streams = streams
        self.far = far
        self.outputs: Sequence[Node] = ()
        self.coming: Sequence[tuple[Node, Index, int]] = ()
        self._journal: list[tuple[dict[Any, Any], Any, Any]] = []

    # ---- scopes

    def keep(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Remember something until the innermost scope closes."""
        self._journal.append((table, key, table.get(key, _MISSING)))
        if value is _MISSING:
            del table[key]
        else:
            table[key] = value

    @contextmanager
    def scope(self) -> Iterator[None]:
        mark, lane, variables, stack = len(self._journal), self.lane, self.open, self.stack
        try:
            yield
        finally:
            while len(self._journal) > mark:
                table, key, old = self._journal.pop()
                if old is _MISSING:
                    del table[key]
                else:
                    table[key] = old
            self.lane, self.open, self.stack = lane, variables, stack

    def bind(self, loop: Loop, counter: str) -> None:
        """Let the variables of `loop` have values; what was known for others of the same name is hidden."""
        clash = self.open & loop.variables
        if clash:
            for node in [n for n in self.values if n.variables & clash]:
                self.keep(self.values, node, _MISSING)
            for spread in [k for k in self.splats if k[0].variables & clash]:
                self.keep(self.splats, spread, _MISSING)
            for terms in [t for t in self.sums if any(a.variables & clash for a, _ in t)]:
                self.keep(self.sums, terms, _MISSING)
            for key in [k for k in self.addresses if any(a.variables & clash for a, _ in k[1])]:
                self.keep(self.addresses, key, _MISSING)
            for read in [k for k in self.chunks if any(a.variables & clash for a, _ in k[0][2])]:
                self.keep(self.chunks, read, _MISSING)
            for guards in [k for k in self.conditions if any(g.index.variables & clash for g in k[0])]:
                self.keep(self.conditions, guards, _MISSING)
        for atom in loop.absorbed:
            self.keep(self.counters, atom, "0")
        self.keep(self.counters, loop.atom, counter)
        self.open |= loop.variables
        self.stack = (*(bits & ~loop.variables for bits in self.stack), loop.variables)

    # ---- loops

    def run(
        self, loops: Sequence[Loop], nodes: Sequence[Node], carried: Carried, finish: Callable[[Carried], Carried]
    ) -> Carried:
        """Open `loops`, write `nodes` at their levels, and `finish` innermost; return the carried values after."""
        self.columns = _columns(n for n in nodes if n.kind == "load" and not n.guards)
        levels: list[list[Node]] = [[] for _ in range(len(loops) + 1)]
        for node in nodes:
            depth = max((k + 1 for k, loop in enumerate(loops) if loop.variables & node.variables), default=0)
            levels[depth].append(node)

        def at(depth: int, carried: Carried) -> Carried:
            self.write(levels[depth])
            if depth == len(loops):
                return finish(carried)
            for deeper in levels[depth + 1 :]:
                for node in deeper:
                    self.prepare(node)
            if self.stages and loops[depth].lane is not None:
                self.staged(loops[depth])
                return carried
            return self.loop(loops[depth], carried, lambda c: at(depth + 1, c))

        return at(0, carried)

    def loop(self, loop: Loop, carried: Carried, body: Callable[[Carried], Carried]) -> Carried:
        if loop.counter is not None:
            with self.scope():
                self.bind(loop, loop.counter)
                return body(carried)
        if loop.lane is None and not loop.tile:
            return self._counted(loop, loop.start, loop.stop, 1, None, carried, body)
        width, copies = loop.lane or (1, loop.tile)
        block = width * copies
        main = loop.extent // block * block
        rest = loop.extent - main
        start, stop = loop.start, loop.stop
        known = isinstance(start, int) and isinstance(stop, int)
        if main:
            last: int | str = main
            if not known:
                limits = [("i64", str(stop)), ("i64", str(main))]
                last = self.f.intrinsic("i64", "llvm.smin.i64", limits) if rest else stop
            carried = self._counted(loop, start, last, block, self._lane_of(loop, copies, width), carried, body)
        if rest:
            copies = -(-rest // width)
            tail = self._lane_of(loop, copies, rest - (copies - 1) * width)
            # Where the bounds are not known, a loop of at most one trip: only the last chunk has the tail.
            end: int | str = main + 1 if known else stop
            carried = self._counted(loop, main, end, block, tail, carried, body)
        return carried

    def staged(self, loop: Loop) -> None:
        """Write the stages of the lane loop, one after the other for every block of its elements."""
        f = self.f
        block = f.begin_loop(loop.start, loop.stop, BLOCK)
        limits = [("i64", f.let(f"add nsw i64 {block.index}, {BLOCK}")), ("i64", str(loop.stop))]
        part = replace(loop, start=block.index, stop=f.intrinsic("i64", "llvm.smin.i64", limits))
        back = f.let(f"sub nsw i64 0, {block.index}")
        with self.scope():
            for load in self.rows.values():
                self.keep(self.bases, load.slot, self._offset(self.bases[load.slot], load.type, back))
            for stage in self.stages:
                with self.scope():
                    self._stage(part, stage)
        f.end_loop(block)

    def _stage(self, part: Loop, stage: Stage) -> None:
        for node in stage.kept:
            self.keep(self.rows, node, _MISSING)

        def body(carried: Carried) -> Carried:
            self.write(stage.nodes)
            return carried

        self.loop(part, [], body)

    def _lane_of(self, loop: Loop, copies: int, active: int) -> Lane:
        """The lane state inside `loop`, which is a lane loop or the outer loop of a tile."""
        if loop.lane is None:
            return Lane(_NO_ATOM, 1, copies, 1, loop.atom, 1)
        width = loop.lane[0]
        if self.lane is not None and self.lane.is_tile:
            return replace(self.lane, atom=loop.atom, width=width, active=active)
        return Lane(loop.atom, width, copies, active, loop.atom, width)

    def _counted(
        self, loop: Loop, start: int | str, stop: int | str, step: int, lane: Lane | None, carried: Carried,
        body: Callable[[Carried], Carried],
    ) -> Carried:  # fmt: skip
        if isinstance(start, int) and isinstance(stop, int) and start + step >= stop:
            with self.scope():
                self.lane = lane or self.lane
                self.bind(loop, str(start))
                return body(carried)
        opened = self.f.begin_loop(start, stop, step, carried)
        with self.scope():
            self.lane = lane or self.lane
            self.bind(loop, opened.index)
            inside = list(zip((t for t, _ in carried), opened.values, strict=True))
            after = body(inside)
        ends = self.f.end_loop(opened, [name for _, name in after])
        return list(zip((t for t, _ in carried), ends, strict=True))

    # ---- values

    def is_vector(self, variables: int) -> bool:
        return self.lane is not None and bool(variables & self.lane.atom.variables)

    def is_copied(self, variables: int) -> bool:
        return self.lane is not None and bool(variables & self.lane.copied.variables)

    def copies(self, node: Node) -> int:
        return self.lane.copies if self.lane is not None and self.is_copied(node.variables) else 1

    def shift(self, index: Index, copy: int) -> int:
        """How much larger `index` is for `copy` than for the first."""
        return index.coefficient(self.lane.copied) * self.lane.step * copy if self.lane is not None else 0

    def lanes(self, node: Node) -> int:
        return self.lane.width if self.lane is not None and self.is_vector(node.variables) else 1

    def value(self, node: Node, copy: int, lanes: int) -> Value:
        """A written node's value for `copy`, spread over `lanes` if it is a scalar."""
        copy = copy if self.is_copied(node.variables) else 0
        value = self.values[node][copy]
        if lanes == 1 or self.is_vector(node.variables):
            return value
        key = node, copy, lanes
        spread = self.splats.get(key)
        if spread is None:
            spread = broadcast(self.f, node.type, lanes, value)
            self.keep(self.splats, key, spread)
        return spread

    def write(self, nodes: Sequence[Node]) -> None:
        """Write nodes of one level, in order; reductions over the same space share their loops."""
        beside = self._side_by_side([n for n in nodes if n.kind == "store"])
        for position, node in enumerate(nodes):
            if node in self.values:
                continue
            if node in beside:
                stores = beside[node]
                if node is max(stores, key=lambda n: n.serial):
                    for copy in range(self.copies(node)):
                        self._store_all(stores, copy)
                continue
            if node.kind == "reduce":
                self.reduce(self._together(node, nodes[position + 1 :]))
                continue
            if node in self.rows:
                load, lanes = self.rows[node], self.lanes(node)
                self.keep(self.values, node, tuple(self._load(load, c, lanes) for c in range(self.copies(node))))
                continue
            if self._is_tiled(node):
                self.keep(self.values, node, self._load_tile(node))
                continue
            self.keep(self.values, node, tuple(self._one(node, copy) for copy in range(self.copies(node))))

    def _one(self, node: Node, copy: int) -> Value:
        lanes = self.lanes(node)
        operands = [self.value(o, copy, lanes) for o in node.operands] if node.kind not in ("store", "leaf") else []
        match node.kind:
            case "constant":
                return constant(node.type, 1, node.slot.value)
            case "load":
                return self._load(node, copy, lanes)
            case "store":
                self._store(node, copy, lanes)
                return ""
            case "position":
                assert node.index is not None
                kind, value = self.integers(node.index, copy, lanes)
                return emit_elementwise(
                    self.f, "convert", {}, ["s32" if kind == "i32" else "s64"], node.type, lanes, [value]
                )
            case "elementwise":
                types = [o.type for o in node.operands]
                return emit_elementwise(self.f, node.opcode, node.attributes, types, node.type, lanes, operands)
            case "inline":
                assert node.computation is not None
                return emit_inline(self.f, node.computation, operands, lanes)[0]
            case "select":
                return self._select(node.guards, copy, lanes, node.type, operands)
            case "leaf":
                own = copy * self._width_of(node.operands[0]) + int(node.slot)
                return self.values[node.operands[0]][own]
        raise UnsupportedError(f"no code for a node of kind {node.kind}")

    @staticmethod
    def _width_of(whole: Node) -> int:
        return len(whole.operands) // 2

    def _select(self, guards: tuple[Condition, ...], copy: int, lanes: int, kind: str, choices: list[Value]) -> Value:
        condition, wide = self.condition(guards, copy)
        if lanes > 1 and not wide:
            condition = Vector(self.f, 'i1', 1, condition).spread(lanes).name
        return emit_elementwise(self.f, "select", {}, ["pred", kind, kind], kind, lanes, [condition, *choices])

    # ---- integers

    def prepare(self, node: Node) -> None:
        """Write what is known already of the addresses and integers that `node` will need deeper inside."""
        for index in node.indices():
            if node.kind in ("load", "store") and index is node.index:
                self._address(node.slot, node.type, index)
            else:
                self._sum([t for t in index.terms if self._known(t[0])])

    def _known(self, atom: Atom) -> bool:
        if atom.variables & ~self.open:
            return False
        if atom.inner is None and atom.source is None:
            return True
        inside = (atom, *atom.inner.atoms()) if atom.inner is not None else (atom,)
        return not self.is_vector(atom.variables) and all(a.source in self.values for a in inside if a.source)

    def integer(self, index: Index) -> str:
        """An index as a scalar i64 (the value of the first lane where it depends on the lane)."""
        total = self._sum(index.terms)
        if not index.constant:
            return total
        return self._add(total, str(index.constant))

    def _add(self, left: str, right: str) -> str:
        if left == "0" or right == "0":
            return right if left == "0" else left
        if not left.startswith("%") and not right.startswith("%"):
            return str(int(left) + int(right))
        return self.f.let(f"add nsw i64 {left}, {right}")

    def _sum(self, terms: Sequence[tuple[Atom, int]]) -> str:
        """The sum of terms, outer loops first so that the beginning is shared."""
        order = tuple(sorted(terms, key=lambda t: self._depth(t[0].variables)) if len(terms) > 1 else terms)
        known = self.sums.get(order)
        if known is not None:
            return known
        if not order:
            return "0"
        atom, coefficient = order[-1]
        own = self._atom(atom)
        if own != "0" and coefficient != 1:
            known_number = not own.startswith("%")
            own = str(int(own) * coefficient) if known_number else self.f.let(f"mul nsw i64 {own}, {coefficient}")
        total = self._add(self._sum(order[:-1]), own)
        self.keep(self.sums, order, total)
        return total

    def _depth(self, variables: int) -> int:
        for depth in range(len(self.stack) - 1, -1, -1):
            if self.stack[depth] & variables:
                return depth
        return -1

    def _atom(self, atom: Atom) -> str:
        if atom.kind == "variable":
            return self.counters[atom]
        key = ((atom, 1),)
        known = self.sums.get(key)
        if known is not None:
            return known
        if atom.inner is not None:
            value = self.integer(atom.inner)
            value = self._divided(atom, Vector(self.f, 'i64', 1, value))
        else:
            assert isinstance(atom.source, Node)
            value = self._clamped(atom, self.values[atom.source][0], 1, "i64")
        self.keep(self.sums, key, value)
        return value

    @staticmethod
    def _divided(atom: Atom, value: Vector) -> str:
        assert atom.inner is not None
        if value.is_constant and value.lanes == 1:
            number = int(value.name)
            return str(number // atom.divisor if atom.kind == "quotient" else number % atom.divisor)
        return (quotient if atom.kind == "quotient" else remainder)(value, atom.divisor, atom.inner.low < 0).name

    def _clamped(self, atom: Atom, value: Value, lanes: int, kind: str) -> str:
        assert isinstance(atom.source, Node)
        source = atom.source.type
        wide = "u64" if source == "u64" else "s64"
        limits = [constant(wide, lanes, n) for n in (atom.low, atom.high)]
        value = emit_elementwise(self.f, "convert", {}, [source], wide, lanes, [value])
        value = emit_elementwise(self.f, "clamp", {}, [wide] * 3, wide, lanes, [limits[0], value, limits[1]])
        if kind == "i32":
            value = emit_elementwise(self.f, "convert", {}, [wide], "s32", lanes, [value])
        assert isinstance(value, str)
        return value

    def integers(self, index: Index, copy: int, lanes: int) -> tuple[str, str]:
        """An index for all lanes of `copy`: the scalar type (i32 where it fits) and the value."""
        if lanes == 1 or not self.is_vector(index.variables):
            value = self._add(self.integer(index), str(self.shift(index, copy)))
            return "i64", value if lanes == 1 else Vector(self.f, 'i64', 1, value).spread(lanes).name
        kind = "i32" if fits_in_32_bits(index, (self.lane.width * self.lane.copies) if self.lane else 0) else "i64"
        return kind, self._vector(index, copy, lanes, kind)

    def _vector(self, index: Index, copy: int, lanes: int, kind: str) -> str:
        assert self.lane is not None
        f, lane = self.f, self.lane.atom
        wide = f"<{lanes} x {kind}>"
        scalars = [(a, c) for a, c in index.terms if not self.is_vector(a.variables) or a == lane]
        step = index.coefficient(lane)
        base = self._add(self._sum(scalars), str(index.constant + self.shift(index, copy)))
        if kind == "i32":
            base = f.let(f"trunc i64 {base} to i32") if base.startswith("%") else base
        total = Vector(f, kind, 1, base).spread(lanes).name
        if step:
            ramp = "<" + ", ".join(f"{kind} {k * step}" for k in range(lanes)) + ">"
            total = ramp if base == "0" else f.let(f"add {wide} {total}, {ramp}")
        for atom, coefficient in index.terms:
            if atom == lane or not self.is_vector(atom.variables):
                continue
            if atom.inner is not None:
                own = self._vector(atom.inner, copy, lanes, kind)
                own = self._divided(atom, Vector(f, kind, lanes, own))
            else:
                assert isinstance(atom.source, Node)
                own = self._clamped(atom, self.value(atom.source, copy, lanes), lanes, kind)
            if coefficient != 1:
                own = f.let(f"mul {wide} {own}, splat ({kind} {coefficient})")
            total = f.let(f"add {wide} {total}, {own}")
        return total

    def condition(self, guards: tuple[Condition, ...], copy: int) -> tuple[str, bool]:
        """Whether all guards hold: an i1, or a vector of them (then True) when they depend on the lane."""
        known = self.conditions.get((guards, copy))
        if known is None:
            known = self._condition(guards, copy)
            self.keep(self.conditions, (guards, copy), known)
        return known

    def _condition(self, guards: tuple[Condition, ...], copy: int) -> tuple[str, bool]:
        f = self.f
        scalar: str | None = None
        vector: str | None = None
        for guard in guards:
            wide = self.is_vector(guard.index.variables)
            lanes = self.lane.width if wide and self.lane is not None else 1
            own = self._within(guard, copy, lanes)
            if own is None:
                continue
            if wide:
                vector = own if vector is None else f.let(f"and <{lanes} x i1> {vector}, {own}")
            else:
                scalar = own if scalar is None else f.let(f"and i1 {scalar}, {own}")
        if vector is not None:
            if scalar is not None:
                assert self.lane is not None
                wide_scalar = Vector(f, 'i1', 1, scalar).spread(self.lane.width).name
                vector = f.let(f"and <{self.lane.width} x i1> {vector}, {wide_scalar}")
            return vector, True
        return scalar or "true", False

    def _within(self, guard: Condition, copy: int, lanes: int) -> str | None:
        """Whether `guard` holds for each lane; None where it always does."""
        f, index = self.f, guard.index
        bits = "i1" if lanes == 1 else f"<{lanes} x i1>"
        rises, falls = index.low < guard.low, index.high >= guard.high
        if not rises and not falls:
            return None
        if lanes * 32 > self.machine.vector_bits and lanes > 1 and self._lane_form(index) == 1:
            # Of so many lanes only their numbers fill no more than one vector.
            kind = f"i{max(8, self.machine.vector_bits // lanes)}"
            first = self._add(self.integer(index), str(self.shift(index, copy)))
            ramp = "<" + ", ".join(f"{kind} {k}" for k in range(lanes)) + ">"
            sides = [("sge", guard.low)] * rises + [("slt", guard.high)] * falls
            ends = [
                f.let(f"icmp {predicate} <{lanes} x {kind}> {ramp}, {self._lane_at(limit, first, lanes, kind)}")
                for predicate, limit in sides
            ]
            return ends[0] if len(ends) == 1 else f.let(f"and {bits} {ends[0]}, {ends[1]}")
        kind, value = self.integers(index, copy, lanes)
        full = f"<{lanes} x {kind}>" if lanes > 1 else kind
        # One unsigned comparison tells 0 <= x < n.
        if rises and falls and guard.low == 0:
            return f.let(f"icmp ult {full} {value}, {Vector(f, kind, lanes, '').like(guard.high).name}")
        own = f.let(f"icmp sge {full} {value}, {Vector(f, kind, lanes, '').like(guard.low).name}") if rises else None
        if falls:
            below = f.let(f"icmp slt {full} {value}, {Vector(f, kind, lanes, '').like(guard.high).name}")
            own = below if own is None else f.let(f"and {bits} {own}, {below}")
        return own

    def _lane_at(self, place: int, first: str, lanes: int, kind: str) -> str:
        """The number of the lane at `place`, if lane 0 is at `first`, in all lanes; 0 or `lanes` if there is none."""
        f = self.f
        lane = f.let(f"sub i64 {place}, {first}")
        for intrinsic, limit in (("smax", 0), ("smin", lanes)):
            lane = f.intrinsic("i64", f"llvm.{intrinsic}.i64", [("i64", lane), ("i64", str(limit))])
        return Vector(f, kind, 1, f.let(f"trunc i64 {lane} to {kind}")).spread(lanes).name

    # ---- memory

    def base(self, slot: object) -> str:
        """The pointer of a buffer; those of the argument table were loaded at the entry, others are globals."""
        if slot not in self.bases:
            if not (isinstance(slot, Literal) or slot is _NOTHING):
                raise KeyError(f"buffer {slot} was not loaded at the entry")
            name = f"constant{len(self.f.unit.definitions)}_{self.name}"
            self.f.unit.data(name, slot.value().tobytes() if isinstance(slot, Literal) else bytes(_WIDEST))
            self.bases[slot] = f"@{name}"
        return self.bases[slot]

    def _address(self, slot: object, element_type: str, index: Index) -> str:
        """The address of position `index` less its constant, as far as its terms are known now."""
        key = slot, index.terms
        done, pointer = self.addresses.get(key, (0, self.base(slot)))
        known = [k for k, (atom, _) in enumerate(index.terms) if not done >> k & 1 and self._known(atom)]
        if known:
            offset = self._sum([index.terms[k] for k in known])
            if offset != "0":
                pointer = self.f.let(f"getelementptr {memory.address_type(element_type)}, ptr {pointer}, i64 {offset}")
            for k in known:
                done |= 1 << k
            self.keep(self.addresses, key, (done, pointer))
        return pointer

    def _offset(self, pointer: str, element_type: str, by: int | str) -> str:
        if not by:
            return pointer
        return self.f.let(f"getelementptr {memory.address_type(element_type)}, ptr {pointer}, i64 {by}")

    def _place(self, node: Node, index: Index, copy: int) -> str:
        """The address of the first lane of `copy`."""
        pointer = self._address(node.slot, node.type, index)
        return self._offset(pointer, node.type, index.constant + self.shift(index, copy))

    def _is_aligned(self, node: Node, index: Index, lanes: int) -> bool:
        """Whether vectors of the lane begin at multiples of their size (lane loops begin at multiples of `lanes`)."""
        assert self.lane is not None
        steps = [c for a, c in index.terms if a != self.lane.atom]
        return lanes * byte_size(node.type) in (16, 32, 64) and not any(n % lanes for n in (*steps, index.constant))

    def _is_tiled(self, node: Node) -> bool:
        """Whether the copies of a load are the columns of a tile whose rows lie in memory."""
        lane = self.lane
        if lane is None or not lane.is_tile or node.kind != "load" or node.guards or not self.is_vector(node.variables):
            return False
        assert node.index is not None
        return self._lane_form(node.index) not in (None, 0, 1) and node.index.coefficient(lane.copied) == 1

    def _load_tile(self, node: Node) -> tuple[Value, ...]:
        """Load a row for every lane and transpose: copy c gets element c of each row."""
        lane, index, f = self.lane, node.index, self.f
        assert lane is not None
        assert index is not None
        pointer = self._place(node, index, 0)
        mask = memory.first_lanes(f, lane.copies, lane.width)
        step = index.coefficient(lane.atom)
        rows = [
            memory.load(node.type, lane.width, Ptr(f, self._offset(pointer, node.type, step * k)), mask)
            for k in range(lane.active)
        ]
        rows += rows[:1] * (lane.width - lane.active)
        kind = compute_element(node.type)
        if isinstance(rows[0], str):
            columns: list[Value] = [*self._transposed(kind, [str(r) for r in rows])]
        else:
            both = [self._transposed(kind, [r[part] for r in rows]) for part in (0, 1)]
            columns = list(zip(both[0], both[1], strict=True))
        return tuple(columns[: lane.copies])

    def _transposed(self, kind: str, rows: Sequence[str]) -> list[str]:
        return [row.name for row in transposed([Vector(self.f, kind, len(rows), row) for row in rows])]

    def _lane_form(self, index: Index) -> int | None:
        """How far apart neighbouring lanes are; None when they are not evenly spaced."""
        assert self.lane is not None
        if any(self.is_vector(a.variables) and a != self.lane.atom for a, _ in index.terms):
            return None
        return index.coefficient(self.lane.atom)

    def _is_close(self, kind: str, step: int | None) -> bool:
        """Whether lanes so far apart are picked from whole vectors, or put into them."""
        simple = kind != "pred" and not is_complex(kind)
        return simple and step is not None and 1 < step <= WIDEST_STEP

    def _pointers(self, node: Node, copy: int, lanes: int) -> Vector:
        """The vector of addresses of a node whose lanes do not lie side by side."""
        assert node.index is not None
        kind, offsets = self.integers(node.index, copy, lanes)
        base = self.base(node.slot)
        text = f"getelementptr {memory.address_type(node.type)}, ptr {base}, <{lanes} x {kind}> {offsets}"
        return Vector(self.f, "ptr", lanes, self.f.let(text))

    def _load(self, node: Node, copy: int, lanes: int) -> Value:
        f, index = self.f, node.index
        assert index is not None
        condition, wide = self.condition(node.guards, copy) if node.guards else ("true", False)
        if lanes == 1:
            pointer = self._place(node, index, copy)
            if node.guards:
                pointer = f.let(f"select i1 {condition}, ptr {pointer}, ptr {self.base(node.slot)}")
            return memory.load(node.type, 1, Ptr(f, pointer))
        assert self.lane is not None
        mask = memory.first_lanes(f, self.lane.active, lanes) if self.lane.is_partial(copy) else None
        step = self._lane_form(index)
        if node.guards and not wide and step == 1:
            # All lanes or none: what is read in the latter case is of no interest.
            pointer = self._place(node, index, copy)
            pointer = f.let(f"select i1 {condition}, ptr {pointer}, ptr {self.base(_NOTHING)}")
            return memory.load(node.type, lanes, Ptr(f, pointer), mask)
        if node.guards:
            own = Vector(f, 'i1', lanes, condition) if wide else Vector(f, 'i1', 1, condition).spread(lanes)
            mask = own if mask is None else own & mask
        if step == 0:
            # The guards alone make it a vector: one element, if any lane may read it.
            pointer = self._place(node, index, copy)
            assert mask is not None
            any_lane = f.intrinsic("i1", f"llvm.vector.reduce.or.v{lanes}i1", [(mask.type, mask.name)])
            pointer = f.let(f"select i1 {any_lane}, ptr {pointer}, ptr {self.base(node.slot)}")
            return broadcast(f, node.type, lanes, memory.load(node.type, 1, Ptr(f, pointer)))
        if step == 1:
            pointer = self._place(node, index, copy)
            if self.far and isinstance(node.slot, int) and self.stack[-1] & self.lane.atom.variables:
                memory.prefetch(Ptr(f, pointer))
            return memory.load(node.type, lanes, Ptr(f, pointer), mask)
        if step == -1 and mask is None:
            pointer = self._offset(self._place(node, index, copy), node.type, 1 - lanes)
            value = memory.load(node.type, lanes, Ptr(f, pointer))
            turned = [
                Vector(f, compute_element(node.type), lanes, part).shuffle(range(lanes - 1, -1, -1)).name
                for part in ((value,) if isinstance(value, str) else value)
            ]
            return turned[0] if len(turned) == 1 else (turned[0], turned[1])
        if self._is_close(node.type, step) and not node.guards and step is not None:
            return self._load_strided(node, index, copy, lanes, step)
        pointers = self._pointers(node, copy, lanes)
        return memory.load_gathered(node.type, pointers, mask or Vector(f, 'i1', lanes, 'splat (i1 true)'))

    def _load_strided(self, node: Node, index: Index, copy: int, lanes: int, step: int) -> Value:
        """A load of every `step`-th element; others of the elements between are picked from the same vectors."""
        assert self.lane is not None
        active = self.lane.active if self.lane.is_partial(copy) else lanes
        column = _column(node)
        constants = [_constant(n) for n in self.columns.get(column, ())]
        first = next((c for c in constants if c <= index.constant < c + step and c + step - 1 in constants), None)
        if first is None:
            return load_strided(node.type, lanes, Ptr(self.f, self._place(node, index, copy)), step, active)
        key = column, first, copy
        chunks = self.chunks.get(key)
        if chunks is None:
            pointer = self._offset(self._place(node, index, copy), node.type, first - index.constant)
            chunks = load_chunks(node.type, lanes, Ptr(self.f, pointer), step * active)
            self.keep(self.chunks, key, chunks)
        return pick(node.type, chunks, step, index.constant - first, active)

    def _side_by_side(self, stores: Sequence[Node]) -> dict[Node, list[Node]]:
        """The stores whose lanes lie between those of others without gaps: all of these, in order."""
        found: dict[Node, list[Node]] = {}
        for (_, kind, _), among in _columns(n for n in stores if self.is_vector(n.variables)).items():
            assert among[0].index is not None
            step = self._lane_form(among[0].index)
            if step is None or not self._is_close(kind, step):
                continue
            for first in range(len(among) - step + 1):
                group = among[first : first + step]
                if group[0] not in found and _constant(group[-1]) - _constant(group[0]) == step - 1:
                    found.update(dict.fromkeys(group, group))
        return found

    def _store_all(self, stores: Sequence[Node], copy: int) -> None:
        """Write what lies side by side in all lanes, `stores` in the order of their places."""
        first, lanes = stores[0], self.lanes(stores[0])
        assert self.lane is not None
        assert first.index is not None
        active = self.lane.active if self.lane.is_partial(copy) else lanes
        values = [self.value(store.operands[0], copy, lanes) for store in stores]
        store_interleaved(first.type, lanes, Ptr(self.f, self._place(first, first.index, copy)), active, values)

    def _store(self, node: Node, copy: int, lanes: int) -> None:
        f, index = self.f, node.index
        assert index is not None
        value = self.value(node.operands[0], copy, lanes)
        if lanes == 1:
            pointer = self._place(node, index, copy)
            memory.store(node.type, 1, Ptr(f, pointer), value)
            return
        assert self.lane is not None
        partial = self.lane.is_partial(copy)
        active = self.lane.active if partial else lanes
        step = self._lane_form(index)
        if step == 1:
            pointer = self._place(node, index, copy)
            if not partial and node.slot in self.streams and self._is_aligned(node, index, lanes):
                memory.stream(node.type, lanes, Ptr(f, pointer), value)
                return
            memory.store(node.type, lanes, Ptr(f, pointer), value, memory.first_lanes(f, active, lanes))
            if isinstance(node.slot, Row) and copy * lanes * byte_size(node.type) % LINE == 0:
                for there, where, further in self.coming:
                    f.fetch(self._offset(self._place(there, where, copy), there.type, further))
            return
        if self._is_close(node.type, step) and step is not None and memory.has_masks(self.machine, node.type):
            store_strided(node.type, lanes, Ptr(f, self._place(node, index, copy)), step, active, value)
            return
        if step is not None:
            pointer = self._place(node, index, copy)
            ends = [Ptr(f, self._offset(pointer, node.type, step * k)) for k in range(active)]
            memory.store_scattered(node.type, lanes, ends, value)
            return
        pointers = self._pointers(node, copy, lanes)
        ends = [Ptr(f, pointers[k].name) for k in range(active)]
        memory.store_scattered(node.type, lanes, ends, value)

    # ---- reductions

    def _together(self, first: Node, later: Sequence[Node]) -> list[Node]:
        """`first` and those reductions of the same level that can be done in the same loops."""
        group = [first]
        for node in later:
            if node.kind != "reduce" or node.bound != first.bound or node in self.values:
                continue
            if _reducer(node).in_order != _reducer(first).in_order:
                continue
            if self.is_vector(node.variables) != self.is_vector(first.variables):
                continue
            if node.inputs() == group[-1].inputs():  # another result of one reduction: what it needs is there
                group.append(node)
                continue
            if not closure([node]).isdisjoint(group):
                continue
            ahead = [n for n in scope_of([node], self.rows) if n is not node and n not in self.values]
            if any(n.kind == "reduce" or n.variables & ~self.open for n in ahead):
                continue
            self.write(ahead)
            group.append(node)
        return group

    def _coming(self, reduce: Node, inner: Sequence[Node]) -> Sequence[tuple[Node, Index, int]]:
        """What is needed soon while a row is made that a later pass over it reads: places, and elements from there.

        That is the next row of the operands, as those in memory are pages that processors do not go on from, and the
        row of the outputs.  A row takes long enough to make for all of this to come meanwhile.
        """
        own, *others = reduce.bound
        if others or not self.stack or self.machine.vector_bits == 512:  # with which nothing was measured
            return ()
        found: dict[tuple[object, int], tuple[Node, Index, int]] = {}
        for node in (*inner, *self.outputs):
            index = node.index
            if index is None or not isinstance(node.slot, int) or node.guards or not self._comes_from_afar(node):
                continue
            new = [atom for atom, _ in index.terms if atom not in self.counters]
            if len(new) != 1 or index.coefficient(new[0]) != 1 or (new[0].low, new[0].high) != (own.low, own.high):
                continue
            further = 0
            if node.kind == "load":
                further = max((c for atom, c in index.terms if atom.variables & self.stack[-1]), default=0)
                if not further:
                    continue
            found.setdefault((node.slot, further), (node, index - atom_index(new[0]) + atom_index(own), further))
        return tuple(found.values())

    def _comes_from_afar(self, node: Node) -> bool:
        """Whether what a load or store moves in all does not stay in the second-level cache."""
        return byte_size(node.type) * node.trips > self.machine.l2

    def reduce(self, group: list[Node]) -> None:
        """Write reductions over the same variables as one nest of loops; their values become known here."""
        f = self.f
        reducers = [_reducer(node) for node in group]
        outer = self.lane if self.is_vector(group[0].variables) else None
        stores = [s for node in group for s in self.row_stores.get(node, ())]
        kept = {s.operands[0] for s in stores}
        cut = [n for n in self.rows if n not in kept]
        body = {n for node in group for n in body_of(node, cut)}
        inner = sorted(body, key=lambda n: n.serial) + stores
        free = outer is None and not reducers[0].in_order
        loops = bound_loops(group, inner, self.machine, free, any(how.place is not None for how in reducers))
        own = next((loop.lane for loop in loops if loop.lane is not None), None)
        lanes, copies = own if own is not None else (outer.width, outer.copies) if outer is not None else (1, 1)
        starts: list[Value] = []
        types: list[str] = []
        for node, how in zip(group, reducers, strict=True):
            first = how.neutral(lanes)
            if first is None:
                first = [self.value(n, 0, lanes) for n in node.operands[len(node.operands) // 2 :]]
            starts += first * copies
            types += list(how.types) * copies
        carried = parts(types, starts, lanes)

        def step(carried: Carried) -> Carried:
            values = unparts(types, [name for _, name in carried])
            active = self.lane.copies if lanes > 1 and self.lane is not None else 1
            at = 0
            for node, how in zip(group, reducers, strict=True):
                for copy in range(copies):
                    if copy < active:
                        old = values[at : at + len(how.types)]
                        values[at : at + len(how.types)] = self._step(node, how, old, copy, lanes, own is not None)
                    at += len(how.types)
            return parts(types, values, lanes)

        with self.scope():
            for node in kept:
                self.keep(self.rows, node, _MISSING)
            if own is not None:
                self.lane = None
            self.coming = self._coming(group[0], inner) if stores else ()
            carried = self.run(loops, inner, carried, step)
            self.coming = ()
        values = unparts(types, [name for _, name in carried])
        at = 0
        for node, how in zip(group, reducers, strict=True):
            count = len(how.types)
            found = [values[at + c * count : at + (c + 1) * count] for c in range(copies)]
            at += count * copies
            if own is not None:
                found = [how.fold(f, found, lanes)]
            width = 1 if own is not None else lanes
            results: list[Value] = []
            for total in found:
                if how.opcodes:
                    initial = [self.value(n, 0, width) for n in node.operands[len(node.operands) // 2 :]]
                    total = how.step(f, initial, total, width)
                results += how.finish(f, total, width)
            self.keep(self.values, node, tuple(results))

    def _step(self, node: Node, how: Reducer, old: list[Value], copy: int, lanes: int, own: bool) -> list[Value]:
        """One step of one accumulator; lanes that do not count, or where guards fail, keep what they have."""
        f = self.f
        inputs = [self.value(n, copy, lanes) for n in node.operands[: len(node.operands) // 2]]
        new = how.step(f, old, inputs, lanes)
        mask: str | None = None
        if own and self.lane is not None and self.lane.is_partial(copy):
            mask = constants(f, "i1", [k < self.lane.active for k in range(lanes)]).name
        if node.guards:
            condition, wide = self.condition(node.guards, copy)
            if lanes > 1 and not wide:
                condition = Vector(f, 'i1', 1, condition).spread(lanes).name
            mask = condition if mask is None else f.let(f"and <{lanes} x i1> {condition}, {mask}")
        if mask is None:
            return new
        return [
            emit_elementwise(f, "select", {}, ["pred", t, t], t, lanes, [mask, a, b])
            for t, a, b in zip(how.types, new, old, strict=True)
        ]


def _reducer(node: Node) -> Reducer:
    if node.computation is None:
        return product_sum(node.type)
    inputs = node.operands[: len(node.operands) // 2]
    rising = [k for k, n in enumerate(inputs) if _rises(n, node.bound) or _counts(node.slot, k)]
    return reducer(node.computation, [n.type for n in inputs], rising)


def _counts(reduction: Instruction, number: int) -> bool:
    """Whether input `number` of a reduce counts the elements along the dimension that is reduced."""
    source, sizes = reduction.operands[number], reduction.operands[number].shape.dimensions
    gone = [d for d in reduction.attributes.get("dimensions") or () if sizes[d] > 1]
    if len(gone) != 1:
        return False
    (dimension,) = gone
    if source.opcode == "broadcast" and dimension in source.attributes["dimensions"]:
        dimension = source.attributes["dimensions"].index(dimension)
        source = source.operands[0]
    if source.opcode != "iota" or source.attributes["iota_dimension"] != dimension:
        return False
    size: int = source.shape.dimensions[dimension]
    return size <= 1 << (element_type(source.shape.element_type).bits - 1)


def _rises(position: Node, bound: Sequence[Atom]) -> bool:
    """Whether a node is a position that grows with every step of the loops over `bound`, the last the innermost."""
    index = position.index
    if position.kind != "position" or index is None:
        return False
    if index.low < 0 or index.high >= 1 << (element_type(position.type).bits - 1):
        return False
    hidden, reach = 0, 0
    for atom in reversed(bound):
        coefficient = index.coefficient(atom)
        if coefficient <= reach:
            return False
        reach += coefficient * (atom.high - atom.low)
        hidden |= atom.variables
    return all(atom in bound for atom, _ in index.terms if atom.variables & hidden)


def _column(node: Node) -> Column:
    assert node.index is not None
    return node.slot, node.type, node.index.terms


def _constant(node: Node) -> int:
    assert node.index is not None
    return node.index.constant


def _columns(nodes: Iterable[Node]) -> dict[Column, list[Node]]:
    """Loads or stores by their columns, in the order of their places."""
    found: dict[Column, list[Node]] = {}
    for node in sorted(nodes, key=_constant):
        found.setdefault(_column(node), []).append(node)
    return found
