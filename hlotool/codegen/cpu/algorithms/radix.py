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
from hlotool.codegen.llvm.control import Callee, Header, begin_loop, conditional, define, return_when, stop_early
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Vector, number
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["Records", "define_sort", "histogram_bytes", "insert", "sort_cost"]

_INSERTION: Annotated[int, Threshold("records")] = 24
"""Up to this many records insertion sort is the faster one."""
_WIDE_DIGITS: Annotated[int, Threshold("records")] = 1 << 13
"""From this many on wide digits save more passes than their histograms take."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of `bits` bits with keys of `key_bits` bits; `key` writes code from a record to its key (i<key_bits>)."""

    bits: int
    key_bits: int
    key: Callable[[Vector], Vector]

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8

    def load(self, source: Ptr, index: Index) -> Vector:
        """Record number `index`."""
        return source.at(self.type, index).load(self.type, align=self.bytes)


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


def define_sort(unit: Unit, name: str, records: Records, count: int) -> Callee[Ptr]:
    """Define ``ptr @name(ptr a, ptr b, ptr counters, i64 n)`` for n <= count.

    It sorts the n records at `a`, with `b` as a second buffer, and returns the one of both that holds the result.
    Ahead of `counters` is the address of the execution's status; stopped early, the records are in some order.
    """
    f = Function(unit, "")
    a, b, counters, n = Ptr(f, "%a"), Ptr(f, "%b"), Ptr(f, "%counters"), Int(f, "%n")
    if count <= _INSERTION:
        _sort_by_insertion(records, a, n)
        return define(f, name, [a, b, counters, n], a)
    stop_early(f, counters, a)
    result = _sort_by_digits(_Digits(records, count), a, b, counters, n)
    return define(f, name, [a, b, counters, n], result)


def _sort_by_insertion(records: Records, a: Ptr, n: Int) -> None:
    loop = begin_loop(a.f, 1, n)
    record = records.load(a, loop.index)
    key = records.key(record)
    insert(
        a, record, loop.index, records.bytes, ended=lambda at: at.eq(0),
        precedes=lambda other: records.key(other).compare("ugt", key).bit(),
    )  # fmt: skip
    loop.end()


def insert(
    records: Ptr, record: Vector, start: Index, align: int, *, ended: Callable[[Int], Bool],
    precedes: Callable[[Vector], Bool],
) -> None:  # fmt: skip
    """Insert `record` into the sorted records before number `start`: those that it `precedes` move up by one.

    `ended` tells whether a place is that of the first of them.
    """
    f, kind = records.f, record.element
    header = Header(number(f, start))
    at = header.value
    compare, shift, place = f.fresh("compare"), f.fresh("shift"), f.fresh("place")
    f.branch(ended(at).name, place, compare)
    f.label(compare)
    before = at + -1
    other = records.at(kind, before).load(kind, align=align)
    f.branch(precedes(other).name, shift, place)
    f.label(shift)
    records.at(kind, at).store(other, align)
    header.again(before)
    f.label(place)
    records.at(kind, at).store(record, align)


class _Digits:
    """The digits that at most `count` records are sorted by, one after the other."""

    def __init__(self, records: Records, count: int) -> None:
        self.records = records
        self.width = digit_bits(records.key_bits, count)
        self.rounds = passes(records.key_bits, count)
        self.buckets = 1 << self.width

    def read(self, source: Ptr, index: Index) -> tuple[Vector, Int]:
        """A record and its key."""
        record = self.records.load(source, index)
        return record, self.records.key(record).cast("zext", "i64").index()

    def counter(self, key: Int, shift: Index, base: Ptr) -> Ptr:
        """The counter for the digit of `key` that begins at bit `shift`."""
        moved = key if isinstance(shift, int) and shift == 0 else key >> shift
        return base.at("i64", moved & (self.buckets - 1))


def _sort_by_digits(digits: _Digits, a: Ptr, b: Ptr, counters: Ptr, n: Int) -> Ptr:
    """A sweep that counts all digits, then for each one a sweep that deals the records out."""
    f, buckets = a.f, digits.buckets
    counters.clear(digits.rounds * buckets * 8)
    bases = [counters.at("i64", r * buckets) for r in range(digits.rounds)]
    loop = begin_loop(f, 0, n)
    _, key = digits.read(a, loop.index)
    for r, base in enumerate(bases):
        counter = digits.counter(key, r * digits.width, base)
        counter.store(counter.load_int(align=8) + 1, align=8)
    loop.end()
    return_when(n.eq(0), lambda: a)

    rounds = begin_loop(f, 0, digits.rounds, 1, a, b, counters)
    source, target, base = rounds.values
    shift = rounds.index * digits.width
    _, first = digits.read(source, 0)
    shared = digits.counter(first, shift, base).load_int(align=8)

    def move() -> tuple[Ptr, Ptr]:
        scan = begin_loop(f, 0, buckets, 1, Int(f, "0"))
        (before,) = scan.values
        place = base.at("i64", scan.index)
        amount = place.load_int(align=8)
        place.store(before, align=8)
        scan.end(before + amount)
        deal = begin_loop(f, 0, n)
        record, key = digits.read(source, deal.index)
        counter = digits.counter(key, shift, base)
        position = counter.load_int(align=8)
        target.at(record.element, position).store(record, digits.records.bytes)
        counter.store(position + 1, align=8)
        deal.end()
        return target, source

    following = conditional(shared.eq(n), move, source, target, unless=True)
    result, _, _ = rounds.end(*following, base.at("i64", buckets))
    return result
