"""Sorting records by an unsigned key: least-significant-digit radix sort, insertion sort for a handful.

A record is an integer of `bits` bits; its key is a function of it.  Both sorts are stable.
(Radix sort after D. Knuth, The Art of Computer Programming 3, 5.2.5: all histograms in one sweep, digits that
every record shares skipped.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.llvm.control import Callee, Header, begin_loop, conditional, define, return_when, stop_early
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Vector, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.lazy_dataclass import dataclass

__all__ = ["Records", "define_sort", "indexed", "insert"]

_INSERTION: Annotated[int, Threshold("records")] = 24
"""Up to this many records insertion sort is the faster one."""
_WIDE_DIGITS: Annotated[int, Threshold("records")] = 1 << 13
"""From this many on wide digits save more passes than their histograms take."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of `bits` bits with keys of `key_bits` bits; `key` writes code from a record to its key (i<key_bits>).

    They are sorted by digits of `digit_bits` bits, or as many as are good for their number if that is None.
    """

    bits: int
    key_bits: int
    key: Callable[[Vector], Vector]
    digit_bits: int | None = None

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    @property
    def bytes(self) -> int:
        return self.bits // 8

    def load(self, source: Ptr, index: Index) -> Vector:
        """Record number `index`."""
        return source.at(self.type, index).load(self.type, align=self.bytes)

    def store(self, target: Ptr, index: Index, record: Vector) -> None:
        """Write record number `index`."""
        target.at(self.type, index).store(record, self.bytes)

    def digits(self, count: int) -> tuple[int, int]:
        """How many digits at most `count` records are sorted by, one after the other, and the bits of each.

        Wide digits save passes over long arrays, narrow ones save histogram work on short ones.
        """
        width = self.digit_bits or (11 if count >= _WIDE_DIGITS and self.key_bits > 16 else 8)
        return -(-self.key_bits // width), width

    def histogram_bytes(self, count: int) -> int:
        """Bytes of counters that the sort of at most `count` records needs."""
        rounds, width = self.digits(count)
        return 0 if count <= _INSERTION else rounds * (8 << width)

    def sort_cost(self, count: int) -> float:
        """Nanoseconds to sort `count` records, roughly."""
        if count <= _INSERTION:
            return 1.0 + count * count * 0.4
        rounds, width = self.digits(count)
        return rounds * (1.3 * count + 0.4 * (1 << width))


def indexed(key_bits: int, length: int, digit_bits: int | None = None) -> Records:
    """Records of a key above an index less than `length`, with half of the bits for each; see `Records`."""
    half = 32 if key_bits <= 32 and length < 1 << 32 else 64
    return Records(2 * half, key_bits, lambda record: record.lshr(half).cast("trunc", f"i{key_bits}"), digit_bits)


def define_sort(unit: Unit, name: str, records: Records, count: int) -> Callee[Ptr]:
    """Define ``ptr @name(ptr a, ptr b, ptr counters, i64 n)`` for n <= count.

    It sorts the n records at `a`, with `b` as a second buffer, and returns the one of both that holds the result.
    Ahead of `counters` is the address of the execution's status; stopped early, the records are in some order.
    """
    f = Function(unit, "")
    a, b, counters, n = Ptr(f, "%a"), Ptr(f, "%b"), Ptr(f, "%counters"), Int(f, "%n")
    if count <= _INSERTION:
        loop = begin_loop(f, 1, n)
        record = records.load(a, loop.index)
        key = records.key(record)
        insert(a, 0, loop.index, record, lambda other: records.key(other).compare("ugt", key).bit())
        loop.end()
        return define(f, name, [a, b, counters, n], a)
    stop_early(f, counters, a)
    return define(f, name, [a, b, counters, n], _sort_by_digits(records, records.digits(count), a, b, counters, n))


def insert(records: Ptr, first: Index, stop: Index, record: Vector, precedes: Callable[[Vector], Bool]) -> None:
    """Insert `record` into the sorted records [first, stop): those that it `precedes` move up by one."""
    f, kind, align = records.f, record.element, BITS[record.element] // 8
    header = Header(number(f, stop))
    at = header.value
    compare, shift, place = f.fresh("compare"), f.fresh("shift"), f.fresh("place")
    f.branch(at.eq(first).name, place, compare)
    f.label(compare)
    before = at + -1
    other = records.at(kind, before).load(kind, align=align)
    f.branch(precedes(other).name, shift, place)
    f.label(shift)
    records.at(kind, at).store(other, align)
    header.again(before)
    f.label(place)
    records.at(kind, at).store(record, align)


def _sort_by_digits(records: Records, digits: tuple[int, int], a: Ptr, b: Ptr, counters: Ptr, n: Int) -> Ptr:
    """A sweep that counts all digits, then for each one a sweep that deals the records out."""
    f, (count, width) = a.f, digits
    buckets = 1 << width

    def read(source: Ptr, index: Index) -> tuple[Vector, Int]:
        """A record and its key."""
        record = records.load(source, index)
        return record, records.key(record).cast("zext", "i64").index()

    def counter(key: Int, shift: Index, base: Ptr) -> Ptr:
        """The counter for the digit of `key` that begins at bit `shift`."""
        moved = key if isinstance(shift, int) and shift == 0 else key >> shift
        return base.at("i64", moved & (buckets - 1))

    counters.clear(count * buckets * 8)
    bases = [counters.at("i64", r * buckets) for r in range(count)]
    loop = begin_loop(f, 0, n)
    _, key = read(a, loop.index)
    for r, base in enumerate(bases):
        place = counter(key, r * width, base)
        place.store(place.load_int(align=8) + 1, align=8)
    loop.end()
    return_when(n.eq(0), lambda: a)

    rounds = begin_loop(f, 0, count, 1, a, b, counters)
    source, target, base = rounds.values
    shift = rounds.index * width
    _, first = read(source, 0)
    shared = counter(first, shift, base).load_int(align=8)

    def move() -> tuple[Ptr, Ptr]:
        scan = begin_loop(f, 0, buckets, 1, Int(f, "0"))
        (before,) = scan.values
        place = base.at("i64", scan.index)
        amount = place.load_int(align=8)
        place.store(before, align=8)
        scan.end(before + amount)
        deal = begin_loop(f, 0, n)
        record, key = read(source, deal.index)
        taken = counter(key, shift, base)
        position = taken.load_int(align=8)
        records.store(target, position, record)
        taken.store(position + 1, align=8)
        deal.end()
        return target, source

    following = conditional(shared.eq(n), move, source, target, unless=True)
    result, _, _ = rounds.end(*following, base.at("i64", buckets))
    return result
