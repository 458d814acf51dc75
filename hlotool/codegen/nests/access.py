"""Loads and stores of nodes: scalars, and vectors whose lanes lie side by side, evenly spaced, or anywhere.

This is where the target's vectors come in: masks for lanes that do not count or must not be read, elements picked from
whole vectors, squares transposed in registers, stores past the caches, and what is fetched ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

from hlotool.analysis.indexing import Atom, Index
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm import memory, nibbles, strided, values
from hlotool.codegen.llvm.math.elements import Register, broadcast, is_complex, joined, parts, vector
from hlotool.codegen.llvm.values import Ptr, Vector, either, number, plus, where
from hlotool.codegen.llvm.vectors import transposed
from hlotool.codegen.loops.nodes import Node, Row
from hlotool.codegen.machine import LINE
from hlotool.codegen.nests.indices import Indices, Terms, terms_variables
from hlotool.codegen.nests.scope import Known
from hlotool.ir import Literal, byte_size

__all__ = ["Access", "columns_of", "is_close"]

Column = tuple[object, str, Terms]
"""Buffer, type and index less its constant: of elements that lie at fixed distances from each other."""

_NOTHING = object()
"""The buffer to read where there is nothing to read."""

_WIDEST: Annotated[int, Threshold("bytes")] = 128
"""Bytes of the widest vector that is read: of complex numbers."""


class Access:
    """What the loads and stores at `indices` need: pointers to the buffers, and addresses as far as they are known.

    `bases` are the buffers in the argument table; `streams` the slots of outputs that no cache can hold; `far` tells
    whether operands come from beyond the caches, slower than they are needed.  What will be read so many elements
    `ahead` (0: nothing) is asked for, where an operand is more than a core's own caches hold.
    """

    def __init__(
        self, indices: Indices, name: str, bases: Mapping[object, Ptr], streams: Collection[object], far: bool,
        ahead: int,
    ) -> None:  # fmt: skip
        self.indices = indices
        self.scope = scope = indices.scope
        self.f = scope.f
        self.name = name
        self.streams = streams
        self.far = far
        self.ahead = ahead
        self.bases: Known[object, Ptr] = scope.table(lambda slot: 0)
        self.bases.update(bases)
        self.aligned = False  # whether vectors of neighbours begin at multiples of their size
        self.columns: dict[Column, list[Node]] = {}  # the loads of the loops being written
        self.coming: Sequence[tuple[Node, Index, int]] = ()  # to be fetched while a row is written; how far on
        self._addresses: Known[tuple[object, Terms], tuple[int, Ptr]] = scope.table(lambda key: terms_variables(key[1]))
        self._chunks: Known[tuple[Column, int, int], list[strided.Chunk]] = scope.table(
            lambda key: terms_variables(key[0][2])
        )

    # ---- addresses

    def base(self, slot: object) -> Ptr:
        """The pointer of a buffer; those of the argument table were loaded at the entry, others are globals."""
        if slot not in self.bases:
            if not (isinstance(slot, Literal) or slot is _NOTHING):
                raise KeyError(f"buffer {slot} was not loaded at the entry")
            name = f"constant{len(self.f.unit.definitions)}_{self.name}"
            self.f.unit.data(name, slot.value() if isinstance(slot, Literal) else bytes(_WIDEST))
            self.bases[slot] = Ptr(self.f, f"@{name}")
        return self.bases[slot]

    def prepare(self, node: Node) -> None:
        """Write what is known already of the addresses and integers that `node` will need deeper inside."""
        for index in node.indices:
            if node.kind in ("load", "store") and index is node.index:
                self._address(node.slot, node.type, _in_bytes(index) if node.packed else index.terms)
            else:
                self.indices.sum([term for term in index.terms if self.indices.is_known(term[0])])

    def _address(self, slot: object, element_type: str, terms: Terms) -> Ptr:
        """The address of the position that is the sum of `terms`, as far as these are known now."""
        key = slot, terms
        done, pointer = self._addresses.get(key) or (0, self.base(slot))
        known = [k for k, (atom, _) in enumerate(terms) if not done >> k & 1 and self.indices.is_known(atom)]
        if known:
            offset = self.indices.sum([terms[k] for k in known])
            pointer = pointer.at(memory.address_type(element_type), offset)
            for k in known:
                done |= 1 << k
            self._addresses.keep(key, (done, pointer))
        return pointer

    def place(self, node: Node, copy: int, further: int = 0, index: Index | None = None) -> Ptr:
        """The address of the first lane of `copy`, or of the element so much `further` on; at another `index` if one
        is given."""
        if node.packed:
            return self._halves(node, copy, further, index)[0]
        kind, index = memory.address_type(node.type), index or node.index
        pointer = self._address(node.slot, node.type, index.terms)
        return pointer.at(kind, index.constant + self.scope.shift(index, copy)).at(kind, further)

    def _halves(self, node: Node, copy: int, further: int = 0, index: Index | None = None) -> tuple[Ptr, values.Index]:
        """The same of packed elements: the byte, and which half of it."""
        index = index or node.index
        start = index.constant + self.scope.shift(index, copy) + further
        odd = [(atom, 1) for atom, coefficient in index.terms if coefficient % 2 and not self._is_even(atom)]
        even = [(atom, 1) for atom, coefficient in index.terms if coefficient % 2 and self._is_even(atom)]
        pointer = self._address(node.slot, "u8", _in_bytes(index)) + start // 2
        if even:
            pointer += number(self.f, self.indices.sum(even)) >> 1
        if not odd:
            return pointer, start % 2
        rest = number(self.f, plus(self.indices.sum(odd), start % 2))
        return pointer + (rest >> 1), rest & 1

    def _is_even(self, atom: Atom) -> bool:
        """Whether a variable is even: it counts in vectors or tiles, at whose multiples lane loops and loops of tiles
        begin."""
        lane = self.scope.lane
        return (atom == lane.atom and lane.width > 1) or (lane.is_tile and atom == lane.copied and lane.copies % 2 == 0)

    def move(self, node: Node, amount: values.Index) -> None:
        """Let the buffer of a node begin so many of its elements further on, until the innermost scope closes."""
        place = self.bases[node.slot].at(memory.address_type(node.type), amount)
        self.bases.keep(node.slot, place)

    def _places(self, node: Node, copy: int, lanes: int) -> Vector:
        """The addresses of a node whose lanes do not lie side by side."""
        offsets = self.indices.lanes(node.index, copy, lanes)
        return self.base(node.slot).at_each(memory.address_type(node.type), offsets)

    # ---- loads

    def load(self, node: Node, copy: int) -> Register:
        """What a load reads: a vector in the lane loop."""
        lanes = self.scope.lanes(node)
        if node.packed:
            return self._load_packed(node, copy, lanes)
        if lanes > 1:
            return self._load_vector(node, copy, lanes)
        if not node.guards:
            return memory.load(node.type, 1, self.place(node, copy))
        condition = self.indices.condition(node.guards, copy).bit()
        return memory.load(node.type, 1, either(condition, self.place(node, copy), self.base(node.slot)))

    def _load_vector(self, node: Node, copy: int, lanes: int) -> Register:
        mask, step = self._active(copy, lanes), self.scope.step(node.index)
        if node.guards:
            condition = self.indices.condition(node.guards, copy)
            if condition.lanes == 1 and step == 1:
                # All lanes or none: what is read in the latter case is of no interest.
                place = either(condition.bit(), self.place(node, copy), self.base(_NOTHING))
                return memory.load(node.type, lanes, place, mask)
            own = self.indices.mask(node.guards, copy, lanes)
            mask = own if mask is None else own & mask
        if step == 0:
            # The guards alone make it a vector: one element, if any lane may read it.
            assert mask is not None
            place = self.place(node, copy)
            place = either(mask.reduce("or").bit(), place, self.base(node.slot))
            return broadcast(memory.load(node.type, 1, place), lanes)
        if step == 1:
            place = self.place(node, copy)
            self._fetch(node, copy, lanes, place)
            return memory.load(node.type, lanes, place, mask, self.aligned)
        if step == -1 and mask is None:
            value = memory.load(node.type, lanes, self.place(node, copy, 1 - lanes))
            return joined([part.shuffle(range(lanes)[::-1]) for part in parts(value)])
        if step is not None and is_close(node.type, step) and not node.guards:
            return self._load_strided(node, copy, lanes, step)
        return memory.load_gathered(
            node.type, self._places(node, copy, lanes), mask or Vector(self.f, "i1", lanes, "splat (i1 true)")
        )

    def _fetch(self, node: Node, copy: int, lanes: int, place: Ptr) -> None:
        """Ask for what a vector load at a place will read later on."""
        if not isinstance(node.slot, int) or not self.scope.stack[-1] & self.scope.lane.atom.variables:
            return
        if self.far:
            memory.prefetch(place)
        elif self.ahead and node.moved > self.scope.machine.l2:
            size = lanes // 2 if node.packed else lanes * byte_size(node.type)
            if copy * size % LINE < size:  # once for each line
                self.place(node, copy, self.ahead).fetch()

    def _load_packed(self, node: Node, copy: int, lanes: int) -> Register:
        """A load of elements that share bytes."""
        condition = self.indices.condition(node.guards, copy) if node.guards else None
        if lanes == 1 or (self.scope.step(node.index) == 1 and (condition is None or condition.lanes == 1)):
            place, half = self._halves(node, copy)
            if condition is not None:
                place = either(condition.bit(), place, self.base(_NOTHING))
            elif lanes > 1:
                self._fetch(node, copy, lanes, place)
            return self._unpacked(node, lanes, place, half, self.scope.lane.active_in(copy) if lanes > 1 else 1)
        mask = self._active(copy, lanes) or Vector(self.f, "i1", lanes, "splat (i1 true)")
        if condition is not None:
            mask &= self.indices.mask(node.guards, copy, lanes)
        numbers = self.indices.lanes(node.index, copy, lanes)
        found = vector(memory.load_gathered("u8", self.base(node.slot).at_each("i8", numbers.ashr(1)), mask))
        codes = where((numbers & 1).ne(0), found.lshr(4), found)
        return codes if node.type == "u8" else nibbles.codes_as(node.type, codes)

    def _unpacked(self, node: Node, lanes: int, place: Ptr, half: values.Index, active: int) -> Register:
        if node.type == "u8":
            return nibbles.load_codes(lanes, place, half, active)
        return nibbles.load(node.type, lanes, place, half, active)

    def _load_strided(self, node: Node, copy: int, lanes: int, step: int) -> Register:
        """A load of every `step`-th element; others of the elements between are picked from the same vectors."""
        active, own, column = self.scope.lane.active_in(copy), _constant(node), _column(node)
        constants = [_constant(n) for n in self.columns.get(column, ())]
        first = next((c for c in constants if c <= own < c + step and c + step - 1 in constants), None)
        if first is None:
            return strided.load_strided(node.type, lanes, self.place(node, copy), step, active)
        key = column, first, copy
        chunks = self._chunks.get(key)
        if chunks is None:
            chunks = strided.load_chunks(node.type, lanes, self.place(node, copy, first - own), step * active)
            self._chunks.keep(key, chunks)
        return strided.pick(node.type, chunks, step, own - first, active)

    def is_tiled(self, node: Node) -> bool:
        """Whether the copies of a load are the columns of a tile whose rows lie in memory."""
        lane, index = self.scope.lane, node.index
        if not lane.is_tile or node.kind != "load" or node.guards:
            return False
        if not self.scope.is_vector(node.variables) or index.coefficient(lane.copied) != 1:
            return False
        return self.scope.step(index) not in (None, 0, 1)

    def load_tile(self, node: Node) -> tuple[Register, ...]:
        """Load a row for every lane and transpose: copy c gets element c of each row."""
        lane, step = self.scope.lane, node.index.coefficient(self.scope.lane.atom)
        if node.packed:
            places = [self._halves(node, 0, step * k) for k in range(lane.active)]
            rows = [self._unpacked(node, lane.width, place, half, lane.copies) for place, half in places]
        else:
            place, kind = self.place(node, 0), memory.address_type(node.type)
            mask = memory.first_lanes(self.f, lane.copies, lane.width)
            rows = [memory.load(node.type, lane.width, place.at(kind, step * k), mask) for k in range(lane.active)]
        rows += rows[:1] * (lane.width - lane.active)
        columns = [transposed(plane) for plane in zip(*map(parts, rows), strict=True)]
        return tuple([joined(column) for column in zip(*columns, strict=True)][: lane.copies])

    # ---- stores

    def store(self, node: Node, copy: int) -> None:
        """Write the operand of a store."""
        lanes = self.scope.lanes(node)
        value = self.scope.value(node.operands[0], copy, lanes)
        if lanes == 1:
            memory.store(node.type, self.place(node, copy), value)
            return
        active, step = self.scope.lane.active_in(copy), self.scope.step(node.index)
        if step == 1:
            self._store_consecutive(node, copy, lanes, value)
        elif step is None:
            places = self._places(node, copy, lanes)
            memory.store_scattered(node.type, [Ptr(self.f, places[k].name) for k in range(active)], value)
        elif is_close(node.type, step) and memory.has_masks(self.scope.machine, node.type):
            strided.store_strided(node.type, self.place(node, copy), step, active, value)
        else:
            place, kind = self.place(node, copy), memory.address_type(node.type)
            memory.store_scattered(node.type, [place.at(kind, step * k) for k in range(active)], value)

    def _store_consecutive(self, node: Node, copy: int, lanes: int, value: Register) -> None:
        place, mask = self.place(node, copy), self._active(copy, lanes)
        if mask is None and node.slot in self.streams and self._is_aligned(node, lanes):
            memory.stream(node.type, place, value)
            return
        memory.store(node.type, place, value, mask, self.aligned)
        if isinstance(node.slot, Row) and copy * lanes * byte_size(node.type) % LINE == 0:
            for coming, index, further in self.coming:
                self.place(coming, copy, further, index).fetch()

    def side_by_side(self, stores: Sequence[Node]) -> dict[Node, list[Node]]:
        """The stores whose lanes lie between those of others without gaps: all of these, in order."""
        found: dict[Node, list[Node]] = {}
        for (_, kind, _), among in columns_of(n for n in stores if self.scope.is_vector(n.variables)).items():
            step = self.scope.step(among[0].index)
            if step is None or not is_close(kind, step):
                continue
            for first in range(len(among) - step + 1):
                group = among[first : first + step]
                if group[0] not in found and _constant(group[-1]) - _constant(group[0]) == step - 1:
                    found.update(dict.fromkeys(group, group))
        return found

    def store_all(self, stores: Sequence[Node], copy: int) -> None:
        """Write what lies side by side in all lanes, `stores` in the order of their places."""
        first, lanes = stores[0], self.scope.lanes(stores[0])
        values = [self.scope.value(store.operands[0], copy, lanes) for store in stores]
        strided.store_interleaved(first.type, self.place(first, copy), self.scope.lane.active_in(copy), values)

    # ---- lanes

    def _active(self, copy: int, lanes: int) -> Vector | None:
        """The mask of the lanes of `copy` that count; None for all."""
        return memory.first_lanes(self.f, self.scope.lane.active_in(copy), lanes)

    def _is_aligned(self, node: Node, lanes: int) -> bool:
        """Whether vectors of the lane begin at multiples of their size (lane loops begin at multiples of `lanes`)."""
        index, lane = node.index, self.scope.lane
        steps = [coefficient for atom, coefficient in index.terms if atom != lane.atom]
        return lanes * byte_size(node.type) in (16, 32, 64) and not any(n % lanes for n in (*steps, index.constant))


def is_close(kind: str, step: int) -> bool:
    """Whether lanes so far apart are picked from whole vectors, or put into them."""
    return 1 < step <= strided.WIDEST_STEP and kind != "pred" and not is_complex(kind)


def columns_of(nodes: Iterable[Node]) -> dict[Column, list[Node]]:
    """Loads or stores by their columns, in the order of their places."""
    found: dict[Column, list[Node]] = {}
    for node in sorted(nodes, key=_constant):
        found.setdefault(_column(node), []).append(node)
    return found


def _in_bytes(index: Index) -> Terms:
    """The terms of an index of packed elements, each as so many whole bytes."""
    return tuple([(atom, coefficient // 2) for atom, coefficient in index.terms if coefficient not in (0, 1)])


def _column(node: Node) -> Column:
    return node.slot, node.type, node.index.terms


def _constant(node: Node) -> int:
    return node.index.constant
