"""topk: the k largest (or smallest) of each row, in order, with their positions.

One sweep over the row compares a vector of keys with the k-th best so far; what passes goes into a short sorted
list (small k), or into a buffer that is sorted and cut back to k when it is full, so that every input costs O(n)
comparisons.  Order: XLA's total order of floats (-NaN < -inf < -0 < 0 < inf < NaN); ties go to the lower position.
"""

from __future__ import annotations

import math
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.items import item_kernel
from hlotool.codegen.algorithms.keys import Key, emit_key, key_bits
from hlotool.codegen.algorithms.radix import Records, define_sort, indexed, insert
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import empty_kernel, pass_status
from hlotool.codegen.llvm.arrays import aligned, load
from hlotool.codegen.llvm.control import Callee, begin_loop, conditional, define, return_when
from hlotool.codegen.llvm.math.elements import is_float, vector
from hlotool.codegen.llvm.values import Index, Ptr, Vector, choose, constants, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError, byte_size, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_topk"]

_LIST: Annotated[int, Threshold("elements")] = 32
"""Up to this k a sorted list is kept."""
_SLACK: Annotated[int, Threshold("elements")] = 512
"""Records that a buffer holds above k before it is cut."""
_OFFER_NS: Annotated[float, Threshold("nanoseconds")] = 5.0
"""Of an element that is among the best so far, which no processor foresees."""
_HEADER = 64
"""Bytes at the start of a task's scratch: the number of records."""


@dataclass(frozen=True, slots=True)
class _Selection:
    """Of rows of `length` elements the best `k`, first by `key`, then by position.

    A record is a key above a position; up to `capacity` of them lie in scratch.
    """

    length: int
    k: int
    key: Key
    source: str
    records: Records
    capacity: int
    lanes: int

    @property
    def key_type(self) -> str:
        return f"i{self.records.key_bits}"

    def keys(self, row: Ptr, index: Index, lanes: int) -> Vector:
        """The keys of `lanes` elements from `index` on; lower is better."""
        kind = self.key_type
        if self.source == self.key.element_type:
            raw = row.at(kind, index).load(kind, lanes, align=byte_size(self.source))
        else:
            raw = vector(load(row, self.source, index, lanes)).bits()
        return emit_key(self.key, raw)

    def record_of(self, key: Vector, index: Index) -> Vector:
        wide = key.cast("zext", self.records.type)
        position = number(key.f, index).vector().cast("zext", self.records.type)
        return wide.shl(self.records.bits // 2) | position

    def key_at(self, records: Ptr, index: Index) -> Vector:
        """The key of record number `index`."""
        return self.records.key(self.records.load(records, index))


def emit_topk(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``(values, s32 positions) topk(operand), k=, largest=`` along the last dimension."""
    shape, k = instruction.operands[0].shape, int(instruction.attributes["k"])
    source = shape.element_type
    if not shape.dimensions or element_type(source).is_complex:
        raise UnsupportedError(f"{instruction.name}: topk of {shape}")
    length = shape.dimensions[-1]
    unit = Unit(machine)
    if k == 0 or shape.size == 0:
        return empty_kernel(name, machine)
    # 8-bit floats have no common bit layout: they are ordered as f32.
    ordered = "f32" if is_float(source) and element_type(source).bits <= 8 else source
    key = Key(0, ordered, instruction.attributes.get("largest") is not False, False)
    small = k <= _LIST
    capacity = k if small else min(length, k + max(k, _SLACK))
    bits = key_bits(ordered)
    records = indexed(bits, length)
    selection = _Selection(length, k, key, source, records, capacity, machine.lanes(bits))
    buffer = aligned(capacity * records.bytes)
    counters = _HEADER + 2 * buffer + 64  # ahead of which is the address of the execution's status
    slot = _HEADER + buffer if small else counters + records.histogram_bytes(capacity)
    if small:
        offer, cut = _define_insert(unit, f"offer_{name}", selection), None
    else:
        sort = define_sort(unit, f"sort_{name}", records, capacity)
        cut = _define_cut(unit, f"cut_{name}", selection, sort, buffer, counters)
        offer = _define_append(unit, f"offer_{name}", selection, cut)

    def search(arrays: list[Ptr], own: Ptr, row: Index) -> None:
        data = arrays[0] + row * (length * byte_size(source))
        if cut is not None:
            pass_status(own.f, own + counters)
        _select(selection, offer, data, own)
        if cut is not None:
            cut(own.f, own)
        _write(selection, own + _HEADER, data, arrays[1:], row)

    offers = min(length, k * (1 + math.log(length / min(k, length))))  # of a row in random order
    cuts = 1 + offers / max(1, capacity - k)
    choosing = offers * (_OFFER_NS + k / 8) if small else offers * _OFFER_NS + cuts * records.sort_cost(capacity)
    return item_kernel(
        unit, name, search, arguments=3, items=shape.size // length, slot=slot,
        cost=0.1 * length * bits / 32 + choosing,
    )  # fmt: skip


def _write(selection: _Selection, records: Ptr, row: Ptr, results: list[Ptr], line: Index) -> None:
    """Write the values and the positions of the best k records of `row`, to this `line` of the results."""
    values, positions = results
    size = byte_size(selection.source)
    out = begin_loop(row.f, 0, selection.k)
    index = selection.records.load(records, out.index).cast("trunc", "i32")
    element = row.at(f"i{8 * size}", index.cast("zext", "i64").index()).load(f"i{8 * size}", align=size)
    place = line * selection.k + out.index
    values.at(element.element, place).store(element, size)
    positions.at("i32", place).store(index, align=4)
    out.end()


def _select(selection: _Selection, offer: Callee[Vector], row: Ptr, own: Ptr) -> None:
    """Offer the first `capacity` elements of the row, then every one that is better than the k-th best."""
    f, n, start, lanes = own.f, selection.length, selection.capacity, selection.lanes

    def candidate(index: Index) -> Vector:
        return offer(f, own, selection.record_of(selection.keys(row, index, 1), index))

    own.store(0, align=8)
    seed = begin_loop(f, 0, start, 1, constants(f, selection.key_type, [0]))
    (limit,) = seed.end(candidate(seed.index))
    stop = start + (n - start) // lanes * lanes if lanes > 1 else start
    if stop > start:
        loop = begin_loop(f, start, stop, lanes, limit.spread(lanes))
        (limits,) = loop.values
        better = selection.keys(row, loop.index, lanes).compare("ult", limits).mask().cast("zext", "i64")

        def offer_better() -> tuple[Vector]:
            # One trip per set bit: the loop counts them down by clearing the lowest.
            count = better.call("ctpop").index()
            seen = constants(f, selection.key_type, [0])
            each = begin_loop(f, 0, count, 1, better, seen, at_least_once=True, most=lanes)
            left, _ = each.values
            lane = left.call("cttz", constants(f, "i1", [True])).index()
            rest = left & (left + -1)
            _, limit = each.end(rest, candidate(loop.index + lane))
            return (limit.spread(lanes),)

        loop.end(*conditional(better.eq(0).bit(), offer_better, limits, unless=True))
    if stop < n:
        tail = begin_loop(f, stop, n)
        candidate(tail.index)
        tail.end()


def _define_insert(unit: Unit, name: str, selection: _Selection) -> Callee[Vector]:
    """``key @name(ptr own, record)``: keep the record in the sorted list if it is among the best k.

    Returns the key of the worst one kept.  Records are unique, and compare by key, then position.
    """
    k = selection.k
    f = Function(unit, "")
    own, record = Ptr(f, "%own"), Vector(f, selection.records.type, 1, "%record")
    records = own + _HEADER
    count = own.load_int(align=8)
    full = count.eq(k)
    worst = selection.records.load(records, k - 1)
    no_better = record.compare("ugt", worst).bit()
    return_when(full & no_better, lambda: selection.records.key(worst))
    last = number(f, choose(full, k - 1, count))
    own.store(last + 1, align=8)
    insert(records, 0, last, record, lambda other: other.compare("ugt", record).bit())
    return define(f, name, [own, record], selection.key_at(records, last))


def _define_append(unit: Unit, name: str, selection: _Selection, cut: Callee[Vector]) -> Callee[Vector]:
    """``key @name(ptr own, record)``: append; a full buffer is cut.  Returns the key that better ones must beat."""
    f = Function(unit, "")
    own, record = Ptr(f, "%own"), Vector(f, selection.records.type, 1, "%record")
    records = own + _HEADER
    count = own.load_int(align=8)
    selection.records.store(records, count, record)
    more = count + 1
    own.store(more, align=8)
    return_when(more.eq(selection.capacity), lambda: cut(f, own))
    # Right after a cut record k - 1 is the k-th best, and stays there until the next one.
    return define(f, name, [own, record], selection.key_at(records, selection.k - 1))


def _define_cut(
    unit: Unit, name: str, selection: _Selection, sort: Callee[Ptr], buffer: int, counters: int
) -> Callee[Vector]:
    """``key @name(ptr own)``: sort the records and keep the best k; returns the key of the last of them."""
    f = Function(unit, "")
    own = Ptr(f, "%own")
    records = own + _HEADER
    result = sort(f, records, records + buffer, own + counters, own.load_int(align=8))
    records.copy_from(result, selection.records.bytes * selection.k, may_overlap=True)
    own.store(selection.k, align=8)
    return define(f, name, [own], selection.key_at(records, selection.k - 1))
