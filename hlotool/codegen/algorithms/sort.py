"""sort: any number of operands, any dimension, any comparator; always stable.

Recognised comparators sort (key, index) records, or the elements themselves, by radix; any other one is called
by a bottom-up merge sort of indices.  A comparator that is no ordering gives some permutation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.items import item_kernel
from hlotool.codegen.algorithms.keys import Key, emit_key, key_bits, recognise
from hlotool.codegen.algorithms.radix import Records, define_sort, indexed, insert
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.llvm.arguments import empty_kernel, pass_status
from hlotool.codegen.llvm.arrays import aligned, load
from hlotool.codegen.llvm.control import Callee, begin_loop, conditional, define, stop_early
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import vector
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Vector, choose, either, minimum, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, byte_size
from hlotool.lazy_dataclass import dataclass

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
class _Elements:
    """Elements of LLVM type `kind` in memory, `stride` apart, from element number `first` on."""

    pointer: Ptr
    kind: str
    first: Index = 0
    stride: int = 1

    def place(self, index: Index) -> Index:
        return self.first + index * self.stride

    def at(self, index: Index) -> Ptr:
        return self.pointer.at(self.kind, self.place(index))

    def copy_from(self, source: _Elements, count: int, order: Ptr | None = None) -> None:
        """Copy `count` elements; in the order of the i64 positions at `order`, if given."""
        align = min(BITS[self.kind] // 8, 8)
        loop = begin_loop(self.pointer.f, 0, count)
        index = loop.index if order is None else order.at("i64", loop.index).load_int(align=8)
        element = source.at(index).load(self.kind, align=align)
        self.at(loop.index).store(element, align)
        loop.end()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that is being sorted: of every operand and every result; and two buffers and the `rest` of the scratch."""

    sources: list[_Elements]
    targets: list[_Elements]
    first: Ptr
    second: Ptr
    rest: Ptr

    def permute(self, n: int, order: Ptr, line_copy: Ptr | None) -> None:
        """Write every line in the order of the i64 positions at `order` (through `line_copy` when given)."""
        for source, target in zip(self.sources, self.targets, strict=True):
            if line_copy is None:
                target.copy_from(source, n, order)
            else:
                between = _Elements(line_copy, source.kind)
                between.copy_from(source, n, order)
                target.copy_from(between, n)


def _kernel(
    unit: Unit, name: str, lines: _Lines, buffer: int, rest: int, cost: float, sort_line: Callable[[_Line], None]
) -> Kernel:
    """The kernel that sorts lines at `cost` ns each, with two buffers and the rest of so many bytes.

    Ahead of the rest is the address of the execution's status.
    """
    kinds = [f"i{8 * byte_size(element_type)}" for element_type in lines.types]

    def run(arrays: list[Ptr], own: Ptr, number: Index) -> None:
        start = lines.start(number)
        pairs = zip(arrays, kinds * 2, strict=True)
        elements = [_Elements(pointer, kind, start, lines.stride) for pointer, kind in pairs]
        line = _Line(elements[: len(kinds)], elements[len(kinds) :], own, own + buffer, own + (2 * buffer + 64))
        pass_status(own.f, line.rest)
        sort_line(line)

    slot = 2 * buffer + 64 + rest
    return item_kernel(unit, name, run, arguments=2 * len(kinds), items=lines.count, slot=slot, cost=cost)


def _sort_elements(unit: Unit, name: str, lines: _Lines, key: Key) -> Kernel:
    """One operand: its elements are the records, and their bits the key."""
    bits, n = key_bits(key.element_type), lines.length
    records = Records(bits, bits, partial(emit_key, key), _digit_bits(unit))
    sort = define_sort(unit, f"sort_{name}", records, n)

    def sort_line(line: _Line) -> None:
        (source,), (target,) = line.sources, line.targets
        _Elements(line.first, source.kind).copy_from(source, n)
        result = sort(line.first.f, line.first, line.second, line.rest, n)
        target.copy_from(_Elements(result, source.kind), n)

    rest = aligned(records.histogram_bytes(n))
    return _kernel(unit, name, lines, aligned(n * records.bytes), rest, records.sort_cost(n), sort_line)


def _digit_bits(unit: Unit) -> int | None:
    return None if unit.machine is None else unit.machine.choices.digit_bits


def _groups(keys: tuple[Key, ...]) -> list[list[Key]]:
    """Neighbouring keys that fit 64 bits together, the least significant group first."""
    groups: list[list[Key]] = []
    for key in reversed(keys):
        if groups and _bits(groups[-1]) + key_bits(key.element_type) <= 64:
            groups[-1].insert(0, key)
        else:
            groups.append([key])
    return groups


def _bits(group: list[Key]) -> int:
    return sum(key_bits(key.element_type) for key in group)


def _sort_records(unit: Unit, name: str, lines: _Lines, keys: tuple[Key, ...], in_place: bool) -> Kernel:
    """Sort (keys, index) records, one group of keys after the other, then permute the operands."""
    n = lines.length
    groups = _groups(keys)
    kinds = [indexed(_bits(group), n, _digit_bits(unit)) for group in groups]
    sorts = [define_sort(unit, f"sort{number}_{name}", records, n) for number, records in enumerate(kinds)]
    buffer, counters = aligned(n * 16), max(aligned(records.histogram_bytes(n)) for records in kinds)

    def sort_line(line: _Line) -> None:
        f, free, spare = line.first.f, line.second, line.first
        order: Callable[[Index], Index] = _itself
        for group, records, sort in zip(groups, kinds, sorts, strict=True):
            loop = begin_loop(f, 0, n)
            records.store(spare, loop.index, _record(line, group, records, order(loop.index)))
            loop.end()
            result = sort(f, spare, free, line.rest, n)
            spare, free = either(result.eq(spare), free, spare), result
            order = partial(_index, records, result)
        loop = begin_loop(f, 0, n)
        index = order(loop.index)
        spare.at("i64", loop.index).store(number(f, index), align=8)
        loop.end()
        line.permute(n, spare, line.rest + counters if in_place else None)

    rest = counters + (buffer if in_place else 0)
    cost = sum(records.sort_cost(n) for records in kinds) + 3.0 * n * len(lines.types)
    return _kernel(unit, name, lines, buffer, rest, cost, sort_line)


def _itself(position: Index) -> Index:
    return position


def _index(records: Records, source: Ptr, position: Index) -> Int:
    """The index in record number `position`."""
    record = records.load(source, position)
    return record.index() & 0xFFFFFFFF if records.bits == 64 else record.cast("trunc", "i64").index()


def _record(line: _Line, group: list[Key], records: Records, index: Index) -> Vector:
    """The record of element `index`."""
    place, shift = line.sources[0].place(index), records.bits // 2
    record = number(line.first.f, index).vector().cast("zext", records.type)
    for key in reversed(group):
        source = line.sources[key.operand]
        raw = source.pointer.at(source.kind, place).load(source.kind, align=BITS[source.kind] // 8)
        record = record | emit_key(key, raw).cast("zext", records.type).shl(shift)
        shift += key_bits(key.element_type)
    return record


def _sort_by_comparator(unit: Unit, name: str, lines: _Lines, comparator: Computation, in_place: bool) -> Kernel:
    """Merge sort of indices that calls the comparator."""
    n = lines.length
    less = _define_less(unit, f"less_{name}", lines, comparator)
    sort_runs = _define_runs(unit, f"runs_{name}", less, n)
    merge = _define_merge(unit, f"merge_{name}", less, n)
    table = aligned(8 * len(lines.types))

    def sort_line(line: _Line) -> None:
        f, source, target, bases = line.first.f, line.first, line.second, line.rest
        for place, operand in enumerate(line.sources):
            base = operand.at(0)
            bases.slot(place).store(base, align=8)
        loop = begin_loop(f, 0, n)
        source.at("i64", loop.index).store(number(f, loop.index), align=8)
        loop.end()
        sort_runs(f, bases, source)
        width = _RUN
        while width < n:
            merge(f, bases, source, target, width)
            source, target = target, source
            width *= 2
        line.permute(n, source, bases + table if in_place else None)

    rest = table + (aligned(n * max(map(byte_size, lines.types))) if in_place else 0)
    return _kernel(unit, name, lines, aligned(8 * n), rest, 6.0 * n * n.bit_length(), sort_line)


def _define_less(unit: Unit, name: str, lines: _Lines, comparator: Computation) -> Callee[Bool]:
    """``i1 @name(ptr bases, i64 i, i64 j)``: the comparator on elements i and j of the lines that `bases` point to."""
    f = Function(unit, "")
    bases, i, j = Ptr(f, "%bases"), Int(f, "%i"), Int(f, "%j")
    values = []
    for place, element_type in enumerate(lines.types):
        base = bases.slot(place).load_ptr(align=8)
        values += [load(base, element_type, index * lines.stride) for index in (i, j)]
    (result,) = emit_inline(f, comparator, values)
    return define(f, name, [bases, i, j], vector(result).bit())


def _define_runs(unit: Unit, name: str, less: Callee[Bool], n: int) -> Callee[None]:
    """``void @name(ptr bases, ptr order)``: insertion sort of runs of `_RUN` indices."""
    f = Function(unit, "")
    bases, order = Ptr(f, "%bases"), Ptr(f, "%order")
    stop_early(f, bases)
    run = begin_loop(f, 0, n, _RUN)
    end = minimum(run.index + _RUN, n)
    item = begin_loop(f, run.index + 1, end)
    moving = order.at("i64", item.index).load("i64", align=8)
    insert(order, run.index, item.index, moving, lambda other: less(f, bases, moving, other))
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

    def right_is_less() -> tuple[Bool]:
        a, b = (source.at("i64", side).load_int(align=8) for side in (left, right))
        return (less(f, bases, b, a),)

    (from_right,) = conditional(
        left < middle, lambda: conditional(right < end, right_is_less, Bool(f, "false")), Bool(f, "true")
    )  # fmt: skip
    index = source.at("i64", choose(from_right, right, left)).load_int(align=8)
    target.at("i64", out.index).store(index, align=8)
    step = from_right.number()
    out.end(left + (1 - step), right + step)
    pair.end()
    return define(f, name, [bases, source, target, width], None)
