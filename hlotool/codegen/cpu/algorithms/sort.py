"""sort: any number of operands, any dimension, any comparator; always stable.

Recognised comparators sort (key, index) records, or the elements themselves, by radix; any other one is called
by a bottom-up merge sort of indices.  A comparator that is no ordering gives some permutation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.items import item_kernel
from hlotool.codegen.cpu.algorithms.keys import Key, emit_key, key_bits, recognise
from hlotool.codegen.cpu.algorithms.radix import Records, define_sort, histogram_bytes, insert, sort_cost
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import empty_kernel, pass_status
from hlotool.codegen.llvm.arrays import aligned, load
from hlotool.codegen.llvm.control import Callee, begin_loop, define, phi, stop_early
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import vector
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, choose, either, minimum, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, byte_size

__all__ = ["emit_sort"]

_RUN: Annotated[int, Threshold("elements")] = 12
"""Runs this long are sorted by insertion before merging."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """`count` lines of `length` elements, `stride` apart, of operands with `types`."""

    count: int
    length: int
    stride: int
    types: tuple[str, ...]

    def start(self, line: Index) -> Index:
        """The number of the first element of line number `line`."""
        if self.stride == 1:
            return line * self.length
        outer = line // self.stride
        inner = line - outer * self.stride
        return outer * (self.length * self.stride) + inner


def emit_sort(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of a sort.  `in_place`: output i is the buffer of operand i."""
    operands = [o.shape for o in instruction.operands]
    (dimension,) = instruction.attributes["dimensions"]
    shape, types = operands[0], tuple(o.element_type for o in operands)
    length = shape.dimensions[dimension] if shape.dimensions else 1
    stride = prod(shape.dimensions[dimension + 1 :])
    unit = Unit(machine)
    if shape.size == 0:
        return empty_kernel(name, machine)
    lines = _Lines(shape.size // length, length, stride, types)
    comparator: Computation = instruction.attributes["to_apply"]
    keys = recognise(comparator)
    if keys and len(types) == 1 and len(keys) == 1:
        return _sort_elements(unit, name, lines, keys[0])
    if keys:
        return _sort_records(unit, name, lines, keys, in_place)
    return _sort_by_comparator(unit, name, lines, comparator, in_place)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that is being sorted."""

    sources: list[Ptr]
    targets: list[Ptr]
    scratch: Ptr  # of this task
    start: Index  # the number of its first element


def _kernel(
    unit: Unit, name: str, lines: _Lines, slot: int, cost: float, body: Callable[[_Line], None]
) -> Kernel:
    operands = len(lines.types)

    def run(arrays: list[Ptr], own: Ptr, line: Index) -> None:
        body(_Line(arrays[:operands], arrays[operands:], own, lines.start(line)))

    return item_kernel(unit, name, run, arguments=2 * operands, items=lines.count, slot=slot, cost=cost)


def _bits(element_type: str) -> int:
    return 8 * byte_size(element_type)


@dataclass(frozen=True, slots=True)
class _Strided:
    """Elements in memory, `stride` apart, from element number `first` on."""

    pointer: Ptr
    first: Index = 0
    stride: int = 1

    def at(self, kind: str, index: Index) -> Ptr:
        return self.pointer.at(kind, self.first + index * self.stride)


def _copy_line(bits: int, count: int, into: _Strided, out: _Strided, order: Ptr | None = None) -> None:
    """Copy elements of `bits` bits; in the order of the i64 positions at `order`, if given."""
    kind, align = f"i{bits}", min(bits // 8, 8)
    loop = begin_loop(into.pointer.f, 0, count)
    index = loop.index if order is None else order.at("i64", loop.index).load_int(align=8)
    element = out.at(kind, index).load(kind, align=align)
    into.at(kind, loop.index).store(element, align)
    loop.end()


def _permute(line: _Line, lines: _Lines, order: Ptr, line_copy: Ptr | None) -> None:
    """Write every operand's line in the order of the i64 positions at `order` (through `line_copy` when given)."""
    for source, target, element_type in zip(line.sources, line.targets, lines.types, strict=True):
        bits, n = _bits(element_type), lines.length
        into, out = _Strided(target, line.start, lines.stride), _Strided(source, line.start, lines.stride)
        if line_copy is None:
            _copy_line(bits, n, into, out, order)
        else:
            _copy_line(bits, n, _Strided(line_copy), out, order)
            _copy_line(bits, n, into, _Strided(line_copy))


def _sort_elements(unit: Unit, name: str, lines: _Lines, key: Key) -> Kernel:
    """One operand: its elements are the records, and their bits the key."""
    bits, n = _bits(key.element_type), lines.length
    records = Records(bits, bits, partial(emit_key, key))
    sort = define_sort(unit, f"sort_{name}", records, n)
    buffer = aligned(n * records.bytes)
    slot = 2 * buffer + 64 + aligned(histogram_bytes(bits, n))

    def sort_line(line: _Line) -> None:
        own = line.scratch
        other, counters = own + buffer, own + (2 * buffer + 64)
        _copy_line(bits, n, _Strided(own), _Strided(line.sources[0], line.start, lines.stride))
        pass_status(own.f, counters)
        result = sort(own.f, own, other, counters, n)
        _copy_line(bits, n, _Strided(line.targets[0], line.start, lines.stride), _Strided(result))

    return _kernel(unit, name, lines, slot, sort_cost(bits, n), sort_line)


def _groups(keys: tuple[Key, ...]) -> list[list[Key]]:
    """Neighbouring keys that fit 64 bits together, the least significant group first."""
    groups: list[list[Key]] = []
    for key in reversed(keys):
        if groups and sum(key_bits(k.element_type) for k in groups[-1]) + key_bits(key.element_type) <= 64:
            groups[-1].insert(0, key)
        else:
            groups.append([key])
    return groups


def _index_records(group: list[Key], length: int) -> tuple[Records, int]:
    """Records of the keys of `group` above an index; returns them and the bits of the index."""
    total = sum(key_bits(k.element_type) for k in group)
    index = 32 if total <= 32 and length < 1 << 32 else 64
    return Records(2 * index, total, lambda record: record.lshr(index).cast("trunc", f"i{total}")), index


def _sort_records(unit: Unit, name: str, lines: _Lines, keys: tuple[Key, ...], in_place: bool) -> Kernel:
    """Sort (keys, index) records, one group of keys after the other, then permute the operands."""
    n = lines.length
    groups = [(group, *_index_records(group, n)) for group in _groups(keys)]
    sorts = [
        define_sort(unit, f"sort{number}_{name}", records, n) for number, (_, records, _) in enumerate(groups)
    ]
    buffer = aligned(n * 16)
    counters_bytes = 64 + max(aligned(histogram_bytes(records.key_bits, n)) for _, records, _ in groups)
    slot = 2 * buffer + counters_bytes + (buffer if in_place else 0)

    def sort_line(line: _Line) -> None:
        f, own = line.scratch.f, line.scratch
        free, counters = own + buffer, own + (2 * buffer + 64)
        pass_status(f, counters)
        spare = own
        order: Callable[[Index], Index] = _itself
        for (group, records, bits), sort in zip(groups, sorts, strict=True):
            _build_records(line, lines, group, order, (spare, records, bits))
            result = sort(f, spare, free, counters, n)
            spare, free = either(result.eq(spare), free, spare), result
            order = partial(_index, result, bits)
        loop = begin_loop(f, 0, n)
        index = order(loop.index)
        spare.at("i64", loop.index).store(number(f, index), align=8)
        loop.end()
        _permute(line, lines, spare, own + (2 * buffer + counters_bytes) if in_place else None)

    cost = sum(sort_cost(records.key_bits, n) for _, records, _ in groups) + 3.0 * n * len(lines.types)
    return _kernel(unit, name, lines, slot, cost, sort_line)


def _itself(position: Index) -> Index:
    return position


def _index(records: Ptr, index_bits: int, position: Index) -> Int:
    """The index of record number `position`."""
    kind = f"i{2 * index_bits}"
    record = records.at(kind, position).load(kind, align=8)
    return record.index() & 0xFFFFFFFF if index_bits == 32 else record.cast("trunc", "i64").index()


def _build_records(
    line: _Line, lines: _Lines, group: list[Key], order: Callable[[Index], Index], into: tuple[Ptr, Records, int]
) -> None:
    """Write the records of `group`; `order` gives the index of the element that the groups before have put in a place.

    `into`: where they go, what they are, and the bits of their index.
    """
    target, records, shift = into
    loop = begin_loop(target.f, 0, lines.length)
    index = order(loop.index)
    place = line.start + index * lines.stride
    record = number(target.f, index).vector().cast("zext", records.type)
    for key in reversed(group):
        width = key_bits(key.element_type)
        raw = line.sources[key.operand].at(f"i{width}", place).load(f"i{width}", align=width // 8)
        record = record | emit_key(key, raw).cast("zext", records.type).shl(shift)
        shift += width
    target.at(records.type, loop.index).store(record, align=8)
    loop.end()


def _sort_by_comparator(unit: Unit, name: str, lines: _Lines, comparator: Computation, in_place: bool) -> Kernel:
    """Merge sort of indices that calls the comparator."""
    n, operands = lines.length, len(lines.types)
    less = _define_less(unit, f"less_{name}", lines, comparator)
    sort_runs = _define_runs(unit, f"runs_{name}", less, n)
    merge = _define_merge(unit, f"merge_{name}", less, n)
    buffer, table = aligned(8 * n), 64 + aligned(8 * operands)
    line_copy = aligned(n * max(map(byte_size, lines.types))) if in_place else 0
    slot = 2 * buffer + table + line_copy

    def sort_line(line: _Line) -> None:
        f, own = line.scratch.f, line.scratch
        other, bases = own + buffer, own + (2 * buffer + 64)
        pass_status(f, bases)
        for place, (pointer, element_type) in enumerate(zip(line.sources, lines.types, strict=True)):
            base = pointer.at(f"i{_bits(element_type)}", line.start)
            bases.at("ptr", place).store(base, align=8)
        loop = begin_loop(f, 0, n)
        own.at("i64", loop.index).store(number(f, loop.index), align=8)
        loop.end()
        sort_runs(f, bases, own)
        source, target, width = own, other, _RUN
        while width < n:
            merge(f, bases, source, target, width)
            source, target = target, source
            width *= 2
        _permute(line, lines, source, own + (2 * buffer + table) if in_place else None)

    return _kernel(unit, name, lines, slot, 6.0 * n * n.bit_length(), sort_line)


def _define_less(unit: Unit, name: str, lines: _Lines, comparator: Computation) -> Callee[Bool]:
    """``i1 @name(ptr bases, i64 i, i64 j)``: the comparator on elements i and j of the lines that `bases` point to."""
    f = Function(unit, "")
    bases, i, j = Ptr(f, "%bases"), Int(f, "%i"), Int(f, "%j")
    values = []
    for place, element_type in enumerate(lines.types):
        base = bases.at("ptr", place).load_ptr(align=8)
        values += [load(base, element_type, index * lines.stride) for index in (i, j)]
    (result,) = emit_inline(f, comparator, values)
    return define(f, name, [bases, i, j], vector(result).bit())


def _define_runs(unit: Unit, name: str, less: Callee[Bool], n: int) -> Callee[None]:
    """``void @name(ptr bases, ptr order)``: insertion sort of runs of `_RUN` indices."""
    f = Function(unit, "")
    bases, order = Ptr(f, "%bases"), Ptr(f, "%order")
    stop_early(f, bases)
    run = begin_loop(f, 0, n, _RUN)
    first = number(f, run.index)
    end = minimum(run.index + _RUN, n)
    item = begin_loop(f, run.index + 1, end)
    moving = order.at("i64", item.index).load("i64", align=8)
    insert(
        order, moving, item.index, 8, ended=lambda at: at <= first,
        precedes=lambda other: less(f, bases, moving, other),
    )  # fmt: skip
    item.end()
    run.end()
    return define(f, name, [bases, order], None)


def _define_merge(unit: Unit, name: str, less: Callee[Bool], n: int) -> Callee[None]:
    """``void @name(ptr bases, ptr from, ptr to, i64 width)``: merge pairs of sorted runs of `width` indices.

    Every output takes from the right run when the left one is used up, or when both have an index and the
    comparator says that the right one is less: n outputs and n reads, whatever the comparator answers.
    """
    f = Function(unit, "")
    bases, source, target, width = Ptr(f, "%bases"), Ptr(f, "%from"), Ptr(f, "%to"), Int(f, "%width")
    stop_early(f, bases, first=lambda: target.clear(8 * n))
    pair = begin_loop(f, 0, n, width << 1)
    middle = minimum(pair.index + width, n)
    end = minimum(middle + width, n)
    out = begin_loop(f, pair.index, end, 1, number(f, pair.index), number(f, middle))
    left, right = out.values
    start, decide, check, take = f.block, f.fresh("decide"), f.fresh("check"), f.fresh("take")
    f.branch((left < middle).name, decide, take)
    f.label(decide)
    f.branch((right < end).name, check, take)
    f.label(check)
    a, b = (source.at("i64", side).load_int(align=8) for side in (left, right))
    smaller = less(f, bases, b, a)
    f.jump(take)
    f.label(take)
    from_right = phi((Bool(f, "true"), start), (Bool(f, "false"), decide), (smaller, check))
    index = source.at("i64", choose(from_right, right, left)).load_int(align=8)
    target.at("i64", out.index).store(index, align=8)
    step = from_right.number()
    out.end(left + (1 - step), right + step)
    pair.end()
    return define(f, name, [bases, source, target, width], None)
