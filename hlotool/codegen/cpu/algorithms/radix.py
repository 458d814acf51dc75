"""Sorting records by an unsigned key: least-significant-digit radix sort, insertion sort for a handful.

A record is an integer of `bits` bits; its key is a function of it.  Both sorts are stable.
(Radix sort after D. Knuth, The Art of Computer Programming 3, 5.2.5: all histograms in one sweep, digits that
every record shares skipped.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.access import address
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["Records", "define_sort", "histogram_bytes", "sort_cost"]

_INSERTION: Annotated[int, Threshold("records")] = 24
"""Up to this many records insertion sort is the faster one."""
_WIDE_DIGITS: Annotated[int, Threshold("records")] = 1 << 13
"""From this many on wide digits save more passes than their histograms take."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of `bits` bits with keys of `key_bits` bits; `key` writes code from a record to its key (i<key_bits>)."""

    bits: int
    key_bits: int
    key: Callable[[Function, str], str]

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8


def digit_bits(key_bits: int, count: int) -> int:
    """Wide digits save passes over long arrays, narrow ones save histogram work on short ones."""
    if count >= _WIDE_DIGITS and key_bits > 16:
        return 11
    return 8


def passes(key_bits: int, count: int) -> int:
    return -(-key_bits // digit_bits(key_bits, count))


def histogram_bytes(key_bits: int, count: int) -> int:
    """Bytes of counters that the sort of at most `count` records needs."""
    return 0 if count <= _INSERTION else passes(key_bits, count) * (8 << digit_bits(key_bits, count))


def sort_cost(key_bits: int, count: int) -> float:
    """Nanoseconds to sort `count` records, roughly."""
    if count <= _INSERTION:
        return 1.0 + count * count * 0.4
    rounds = passes(key_bits, count)
    return rounds * (1.3 * count + 0.4 * (1 << digit_bits(key_bits, count)))


def define_sort(unit: Unit, name: str, records: Records, count: int) -> str:
    """Define ``ptr @name(ptr a, ptr b, ptr counters, i64 n)`` for n <= count; return the name with ``@``.

    It sorts the n records at `a` with `b` as a second buffer and returns the one that holds the result; stopped early
    (what to look at is ahead of `counters`), one that holds records.
    """
    if count <= _INSERTION:
        _define_insertion(unit, name, records)
    else:
        _define_radix(unit, name, records, count)
    return f"@{name}"


def _define_insertion(unit: Unit, name: str, records: Records) -> None:
    f = Function(unit, f"internal ptr @{name}(ptr %a, ptr %b, ptr %counters, i64 %n) nounwind")
    kind = records.type
    loop = f.begin_loop(1, "%n")
    record = f.let(f"load {kind}, ptr {address(f, '%a', kind, loop.index)}, align {records.bytes}")
    key = records.key(f, record)
    entry = f.block
    head, compare, shift, place = (f.fresh(x) for x in ("head", "compare", "shift", "place"))
    f.jump(head)
    f.label(head)
    at = f.fresh("at")
    before = f.fresh("before")
    f.do(f"%{at} = phi i64 [ {loop.index}, %{entry} ], [ %{before}, %{shift} ]")
    f.branch(f.let(f"icmp eq i64 %{at}, 0"), place, compare)
    f.label(compare)
    f.do(f"%{before} = add i64 %{at}, -1")
    other = f.let(f"load {kind}, ptr {address(f, '%a', kind, f'%{before}')}, align {records.bytes}")
    f.branch(f.let(f"icmp ugt i{records.key_bits} {records.key(f, other)}, {key}"), shift, place)
    f.label(shift)
    f.do(f"store {kind} {other}, ptr {address(f, '%a', kind, f'%{at}')}, align {records.bytes}")
    f.jump(head)
    f.label(place)
    f.do(f"store {kind} {record}, ptr {address(f, '%a', kind, f'%{at}')}, align {records.bytes}")
    f.end_loop(loop)
    f.finish("ptr %a")


def _define_radix(unit: Unit, name: str, records: Records, count: int) -> None:
    f = Function(unit, f"internal ptr @{name}(ptr %a, ptr %b, ptr %counters, i64 %n) nounwind")
    f.watch, f.stop = "%counters", ("ret ptr %a",)
    kind, width = records.type, digit_bits(records.key_bits, count)
    rounds, buckets = passes(records.key_bits, count), 1 << width
    key_type = f"i{records.key_bits}"
    wide = "i64"

    def key_of(source: str, index: str | int) -> tuple[str, str]:
        record = f.let(f"load {kind}, ptr {address(f, source, kind, index)}, align {records.bytes}")
        key = records.key(f, record)
        return record, key if key_type == wide else f.let(f"zext {key_type} {key} to {wide}")

    def counter_of(key: str, shift: str | int, base: str) -> str:
        moved = key if shift == 0 else f.let(f"lshr {wide} {key}, {shift}")
        digit = f.let(f"and {wide} {moved}, {buckets - 1}")
        return f.let(f"getelementptr i64, ptr {base}, i64 {digit}")

    f.clear("%counters", rounds * buckets * 8)
    bases = [address(f, "%counters", "i64", r * buckets) for r in range(rounds)]
    loop = f.begin_loop(0, "%n")
    _, key = key_of("%a", loop.index)
    for r, base in enumerate(bases):
        counter = counter_of(key, r * width, base)
        seen = f.let(f"load i64, ptr {counter}, align 8")
        f.do(f"store i64 {f.let(f'add i64 {seen}, 1')}, ptr {counter}, align 8")
    f.end_loop(loop)
    empty, work = f.fresh("empty"), f.fresh("work")
    f.branch(f.let("icmp eq i64 %n, 0"), empty, work)
    f.label(empty)
    f.do("ret ptr %a")
    f.label(work)

    rounds_loop = f.begin_loop(0, rounds, 1, [("ptr", "%a"), ("ptr", "%b"), ("ptr", "%counters")])
    source, target, base = rounds_loop.values
    shift = f.let(f"mul i64 {rounds_loop.index}, {width}")
    _, first = key_of(source, 0)
    shared = f.let(f"load i64, ptr {counter_of(first, shift, base)}, align 8")
    move, done = f.fresh("move"), f.fresh("moved")
    before = f.block
    f.branch(f.let(f"icmp eq i64 {shared}, %n"), done, move)
    f.label(move)
    scan = f.begin_loop(0, buckets, 1, [("i64", "0")])
    place = address(f, base, "i64", scan.index)
    amount = f.let(f"load i64, ptr {place}, align 8")
    f.do(f"store i64 {scan.values[0]}, ptr {place}, align 8")
    f.end_loop(scan, [f.let(f"add i64 {scan.values[0]}, {amount}")])
    deal = f.begin_loop(0, "%n")
    record, key = key_of(source, deal.index)
    counter = counter_of(key, shift, base)
    position = f.let(f"load i64, ptr {counter}, align 8")
    f.do(f"store {kind} {record}, ptr {address(f, target, kind, position)}, align {records.bytes}")
    f.do(f"store i64 {f.let(f'add i64 {position}, 1')}, ptr {counter}, align 8")
    f.end_loop(deal)
    after = f.block
    f.jump(done)
    f.label(done)
    source_next = f.let(f"phi ptr [ {source}, %{before} ], [ {target}, %{after} ]")
    target_next = f.let(f"phi ptr [ {target}, %{before} ], [ {source}, %{after} ]")
    result = f.end_loop(rounds_loop, [source_next, target_next, address(f, base, "i64", buckets)])
    f.finish(f"ptr {result[0]}")
