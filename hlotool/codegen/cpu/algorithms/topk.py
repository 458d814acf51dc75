"""topk: the k largest (or smallest) of each row, in order, with their positions.

One sweep over the row compares a vector of keys with the k-th best so far; what passes goes into a short sorted
list (small k), or into a buffer that is sorted and cut back to k when it is full, so that every input costs O(n)
comparisons.  Order: XLA's total order of floats (-NaN < -inf < -0 < 0 < inf < NaN); ties go to the lower position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.keys import Key, emit_key, key_bits
from hlotool.codegen.cpu.algorithms.radix import Records, define_sort, histogram_bytes, sort_cost
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import (
    Index,
    add,
    address,
    empty_kernel,
    load,
    multiply,
    quotient,
    splat,
    step_function,
)
from hlotool.codegen.llvm.math.elements import is_float, vector
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import type_text
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError, byte_size, element_type

__all__ = ["emit_topk"]

_LIST: Annotated[int, Threshold("elements")] = 32
"""Up to this k a sorted list is kept."""
_SLACK: Annotated[int, Threshold("elements")] = 512
"""Records that a buffer holds above k before it is cut."""
_TASKS: Annotated[int, Threshold("rows")] = 16  # that are searched at the same time
_HEADER = 64
"""Bytes at the start of a task's scratch: the number of records."""


@dataclass(frozen=True, slots=True)
class _Selection:
    """Rows of `length` elements; `capacity` records are held, `key` orders them (best first)."""

    length: int
    k: int
    key: Key
    source: str
    index_bits: int
    capacity: int

    @property
    def record(self) -> str:
        return f"i{2 * self.index_bits}"

    @property
    def bits(self) -> int:
        return key_bits(self.key.element_type)

    def keys(self, f: Function, row: str, index: Index, lanes: int) -> str:
        """The keys of `lanes` elements from `index` on; lower is better."""
        bits = self.bits
        if self.source == self.key.element_type:
            place = address(f, row, f"i{bits}", index)
            raw = f.let(f"load {type_text(f'i{bits}', lanes)}, ptr {place}, align {bits // 8}")
        else:
            raw = vector(f, self.source, lanes, load(f, self.source, row, index, lanes)).bits().name
        return emit_key(f, self.key, raw, lanes)

    def record_of(self, f: Function, key: str, index: Index) -> str:
        wide = key if self.bits == 2 * self.index_bits else f.let(f"zext i{self.bits} {key} to {self.record}")
        position = index if self.record == "i64" else f.let(f"zext i64 {index} to {self.record}")
        return f.let(f"or {self.record} {f.let(f'shl {self.record} {wide}, {self.index_bits}')}, {position}")

    def key_of(self, f: Function, record: str) -> str:
        return f.let(f"trunc {self.record} {f.let(f'lshr {self.record} {record}, {self.index_bits}')} to i{self.bits}")


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
    selection = _Selection(length, k, key, source, 32 if key_bits(ordered) <= 32 else 64, capacity)
    rows = shape.size // length
    tasks = min(rows, _TASKS)
    records = Records(2 * selection.index_bits, selection.bits, selection.key_of)
    buffer = -(-capacity * records.bytes // 64) * 64
    slot = _HEADER + (buffer if small else 2 * buffer + histogram_bytes(records.key_bits, capacity))
    if small:
        _define_insert(unit, f"offer_{name}", selection)
    else:
        sort = define_sort(unit, f"sort_{name}", records, capacity)
        _define_cut(unit, f"cut_{name}", selection, sort, buffer)
        _define_append(unit, f"offer_{name}", selection, f"@cut_{name}")
    _define_step(unit, name, selection, machine, rows, tasks, slot)
    choosing = k * k / 4 if small else 2 * sort_cost(selection.bits, capacity)
    cost = rows * (0.1 * length * key_bits(ordered) / 32 + choosing)
    return finish_kernel(unit, [Step(name, tasks, cost)], slot * tasks)


def _define_step(
    unit: Unit, name: str, selection: _Selection, machine: Machine, rows: int, tasks: int, slot: int
) -> None:
    f, (source, values, positions, scratch) = step_function(unit, name, 4)
    task = f.begin_loop("%begin", "%end")
    own = address(f, scratch, "i8", multiply(f, task.index, slot))
    records = address(f, own, "i8", _HEADER)
    first = quotient(f, multiply(f, task.index, rows), tasks)
    after = quotient(f, multiply(f, add(f, task.index, 1), rows), tasks)
    row = f.begin_loop(first, after)
    size = byte_size(selection.source)
    data = address(f, source, "i8", multiply(f, row.index, selection.length * size))
    _select(f, f"offer_{name}", selection, machine, data, own)
    if selection.k > _LIST:
        f.do(f"call i{selection.bits} @cut_{name}(ptr {own})")
    out = f.begin_loop(0, selection.k)
    record = f.let(f"load {selection.record}, ptr {address(f, records, selection.record, out.index)}, align 8")
    index = f.let(f"trunc {selection.record} {record} to i32")
    at = f.let(f"zext i32 {index} to i64")
    kind = f"i{8 * size}"
    element = f.let(f"load {kind}, ptr {address(f, data, kind, at)}, align {size}")
    place = add(f, multiply(f, row.index, selection.k), out.index)
    f.do(f"store {kind} {element}, ptr {address(f, values, kind, place)}, align {size}")
    f.do(f"store i32 {index}, ptr {address(f, positions, 'i32', place)}, align 4")
    f.end_loop(out)
    f.end_loop(row)
    f.end_loop(task)
    f.finish()


def _select(f: Function, offer: str, selection: _Selection, machine: Machine, row: str, own: str) -> None:
    """Offer the first `capacity` elements of the row, then every one that is better than the k-th best."""
    n, start, bits = selection.length, selection.capacity, f"i{selection.bits}"

    def candidate(index: Index) -> str:
        record = selection.record_of(f, selection.keys(f, row, index, 1), index)
        return f.let(f"call {bits} @{offer}(ptr {own}, {selection.record} {record})")

    f.do(f"store i64 0, ptr {own}, align 8")
    seed = f.begin_loop(0, start, 1, [(bits, "0")])
    (limit,) = f.end_loop(seed, [candidate(seed.index)])
    lanes = machine.lanes(selection.bits)
    stop = start + (n - start) // lanes * lanes
    vectors = type_text(bits, lanes)
    if lanes > 1 and stop > start:
        loop = f.begin_loop(start, stop, lanes, [(vectors, splat(f, bits, lanes, limit))])
        keys = selection.keys(f, row, loop.index, lanes)
        better = f.let(f"icmp ult {vectors} {keys}, {loop.values[0]}")
        mask = f.let(f"bitcast <{lanes} x i1> {better} to i{lanes}")
        mask = mask if lanes == 64 else f.let(f"zext i{lanes} {mask} to i64")
        some, following = f.fresh("some"), f.fresh("following")
        before = f.block
        f.branch(f.let(f"icmp eq i64 {mask}, 0"), following, some)
        f.label(some)
        # One trip per set bit: the loop counts them down by clearing the lowest.
        count = f.intrinsic("i64", "llvm.ctpop.i64", [("i64", mask)])
        each = f.begin_loop(0, count, 1, [("i64", mask), (bits, "0")], at_least_once=True, most=lanes)
        lane = f.intrinsic("i64", "llvm.cttz.i64", [("i64", each.values[0]), ("i1", "true")])
        rest = f.let(f"and i64 {each.values[0]}, {f.let(f'add i64 {each.values[0]}, -1')}")
        _, limit = f.end_loop(each, [rest, candidate(add(f, loop.index, lane))])
        lowered = splat(f, bits, lanes, limit)
        after = f.block
        f.jump(following)
        f.label(following)
        kept = f.let(f"phi {vectors} [ {loop.values[0]}, %{before} ], [ {lowered}, %{after} ]")
        f.end_loop(loop, [kept])
    else:
        stop = start
    if stop < n:
        tail = f.begin_loop(stop, n)
        candidate(tail.index)
        f.end_loop(tail)


def _define_insert(unit: Unit, name: str, selection: _Selection) -> None:
    """``key @name(ptr own, record)``: keep the record in the sorted list if it is among the best k.

    Returns the key of the worst one held.  Records are unique, and compare by key, then position.
    """
    kind, k = selection.record, selection.k
    f = Function(unit, f"internal i{selection.bits} @{name}(ptr %own, {kind} %record) nounwind")
    records = address(f, "%own", "i8", _HEADER)
    count = f.let("load i64, ptr %own, align 8")
    full = f.let(f"icmp eq i64 {count}, {k}")
    worst = f.let(f"load {kind}, ptr {address(f, records, kind, k - 1)}, align 8")
    no_better = f.let(f"icmp ugt {kind} %record, {worst}")
    refuse, accept = f.fresh("refuse"), f.fresh("accept")
    f.branch(f.let(f"and i1 {full}, {no_better}"), refuse, accept)
    f.label(refuse)
    f.do(f"ret i{selection.bits} {selection.key_of(f, worst)}")
    f.label(accept)
    last = f.let(f"select i1 {full}, i64 {k - 1}, i64 {count}")
    f.do(f"store i64 {f.let(f'add i64 {last}, 1')}, ptr %own, align 8")
    head, compare, shift, place = (f.fresh(x) for x in ("head", "compare", "shift", "place"))
    at, before = f.fresh("at"), f.fresh("before")
    entry = f.block
    f.jump(head)
    f.label(head)
    f.do(f"%{at} = phi i64 [ {last}, %{entry} ], [ %{before}, %{shift} ]")
    f.branch(f.let(f"icmp eq i64 %{at}, 0"), place, compare)
    f.label(compare)
    f.do(f"%{before} = add i64 %{at}, -1")
    other = f.let(f"load {kind}, ptr {address(f, records, kind, f'%{before}')}, align 8")
    f.branch(f.let(f"icmp ugt {kind} {other}, %record"), shift, place)
    f.label(shift)
    f.do(f"store {kind} {other}, ptr {address(f, records, kind, f'%{at}')}, align 8")
    f.jump(head)
    f.label(place)
    f.do(f"store {kind} %record, ptr {address(f, records, kind, f'%{at}')}, align 8")
    held = f.let(f"load {kind}, ptr {address(f, records, kind, last)}, align 8")
    f.finish(f"i{selection.bits} {selection.key_of(f, held)}")


def _define_append(unit: Unit, name: str, selection: _Selection, cut: str) -> None:
    """``key @name(ptr own, record)``: append; a full buffer is cut.  Returns the key that better ones must beat."""
    kind, bits = selection.record, f"i{selection.bits}"
    f = Function(unit, f"internal {bits} @{name}(ptr %own, {kind} %record) nounwind")
    records = address(f, "%own", "i8", _HEADER)
    count = f.let("load i64, ptr %own, align 8")
    f.do(f"store {kind} %record, ptr {address(f, records, kind, count)}, align 8")
    more = f.let(f"add i64 {count}, 1")
    f.do(f"store i64 {more}, ptr %own, align 8")
    full, room = f.fresh("full"), f.fresh("room")
    f.branch(f.let(f"icmp eq i64 {more}, {selection.capacity}"), full, room)
    f.label(full)
    f.do(f"ret {bits} {f.let(f'call {bits} {cut}(ptr %own)')}")
    f.label(room)
    # Right after a cut record k - 1 is the k-th best, and stays there until the next one.
    held = f.let(f"load {kind}, ptr {address(f, records, kind, selection.k - 1)}, align 8")
    f.finish(f"{bits} {selection.key_of(f, held)}")


def _define_cut(unit: Unit, name: str, selection: _Selection, sort: str, buffer: int) -> None:
    """``key @name(ptr own)``: sort the records held and keep the best k; returns the key of the last of them."""
    kind, bits = selection.record, f"i{selection.bits}"
    f = Function(unit, f"internal {bits} @{name}(ptr %own) nounwind")
    records = address(f, "%own", "i8", _HEADER)
    other, counters = address(f, records, "i8", buffer), address(f, records, "i8", 2 * buffer)
    count = f.let("load i64, ptr %own, align 8")
    result = f.let(f"call ptr {sort}(ptr {records}, ptr {other}, ptr {counters}, i64 {count})")
    size = 2 * selection.index_bits // 8 * selection.k
    f.intrinsic(
        "void", "llvm.memmove.p0.p0.i64", [("ptr", records), ("ptr", result), ("i64", str(size)), ("i1", "false")]
    )
    f.do(f"store i64 {selection.k}, ptr %own, align 8")
    held = f.let(f"load {kind}, ptr {address(f, records, kind, selection.k - 1)}, align 8")
    f.finish(f"{bits} {selection.key_of(f, held)}")
