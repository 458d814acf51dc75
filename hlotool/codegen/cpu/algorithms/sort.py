"""sort: any number of operands, any dimension, any comparator; always stable.

Recognised comparators sort (key, index) records, or the elements themselves, by radix; any other one is called
by a bottom-up merge sort of indices.  A comparator that is no ordering gives some permutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.keys import Key, emit_key, key_bits, recognise
from hlotool.codegen.cpu.algorithms.radix import Records, define_sort, histogram_bytes, sort_cost
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import (
    Index,
    add,
    address,
    empty_kernel,
    load,
    minimum,
    multiply,
    quotient,
    step_function,
    subtract,
    watch,
)
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import Value
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Function, Loop, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, byte_size

__all__ = ["emit_sort"]

_RUN: Annotated[int, Threshold("elements")] = 12
"""Runs this long are sorted by insertion before merging."""
_GROUPS: Annotated[int, Threshold("lines")] = 16
"""Tasks that lines are dealt to; each has its own part of the scratch buffer."""


@dataclass(frozen=True, slots=True)
class _Lines:
    """`count` lines of `length` elements, `stride` apart, of operands with `types`."""

    count: int
    length: int
    stride: int
    types: tuple[str, ...]

    @property
    def tasks(self) -> int:
        return min(self.count, _GROUPS)

    def start(self, f: Function, line: Index) -> Index:
        """The number of the first element of line number `line`."""
        if self.stride == 1:
            return multiply(f, line, self.length)
        outer = quotient(f, line, self.stride)
        inner = subtract(f, line, multiply(f, outer, self.stride))
        return add(f, multiply(f, outer, self.length * self.stride), inner)


def emit_sort(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of a sort.  `in_place`: output i is the buffer of operand i."""
    operands = [o.shape for o in instruction.operands]
    (dimension,) = instruction.attributes["dimensions"]
    shape, types = operands[0], tuple(o.element_type for o in operands)
    length = shape.dimensions[dimension] if shape.dimensions else 1
    stride = 1
    for size in shape.dimensions[dimension + 1 :]:
        stride *= size
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


def _kernel(unit: Unit, name: str, lines: _Lines, scratch: int, cost: float) -> Kernel:
    return finish_kernel(unit, [Step(name, lines.tasks, cost * lines.count)], scratch)


@dataclass(slots=True)
class _Open:
    """The step function, open inside its loops over tasks and lines."""

    f: Function
    sources: list[str]
    targets: list[str]
    scratch: str  # of this task
    start: Index  # of this line
    loops: tuple[Loop, Loop]

    def close(self) -> None:
        for loop in self.loops:
            self.f.end_loop(loop)
        self.f.finish()


def _open(unit: Unit, name: str, lines: _Lines, slot: int) -> _Open:
    operands = len(lines.types)
    f, pointers = step_function(unit, name, 2 * operands + 1)
    task = f.begin_loop("%begin", "%end")
    first = quotient(f, multiply(f, task.index, lines.count), lines.tasks)
    after = quotient(f, multiply(f, add(f, task.index, 1), lines.count), lines.tasks)
    own = address(f, pointers[-1], "i8", multiply(f, task.index, slot))
    line = f.begin_loop(first, after)
    start = lines.start(f, line.index)
    return _Open(f, pointers[:operands], pointers[operands : 2 * operands], own, start, (line, task))


def _aligned(count: int) -> int:
    return -(-count // 64) * 64


def _bits(element_type: str) -> int:
    return 8 * byte_size(element_type)


def _copy_line(
    f: Function, bits: int, count: int, into: tuple[str, Index, int], out: tuple[str, Index, int], pick: str = ""
) -> None:
    """Copy elements of `bits` bits between two (pointer, first, stride); `pick` maps target to source positions.

    `pick` is the pointer to the i64 positions, none means the identity.
    """
    kind, align = f"i{bits}", min(bits // 8, 8)
    loop = f.begin_loop(0, count)
    index: Index = loop.index
    if pick:
        index = f.let(f"load i64, ptr {address(f, pick, 'i64', loop.index)}, align 8")
    element = f.let(
        f"load {kind}, ptr {address(f, out[0], kind, add(f, out[1], multiply(f, index, out[2])))}, align {align}"
    )
    place = address(f, into[0], kind, add(f, into[1], multiply(f, loop.index, into[2])))
    f.do(f"store {kind} {element}, ptr {place}, align {align}")
    f.end_loop(loop)


def _permute(step: _Open, lines: _Lines, order: str, line_copy: str | None) -> None:
    """Write every operand's line in the order of the i64 positions at `order` (through `line_copy` when given)."""
    f, n = step.f, lines.length
    for source, target, element_type in zip(step.sources, step.targets, lines.types, strict=True):
        bits = _bits(element_type)
        into, out = (target, step.start, lines.stride), (source, step.start, lines.stride)
        if line_copy is None:
            _copy_line(f, bits, n, into, out, order)
        else:
            _copy_line(f, bits, n, (line_copy, 0, 1), out, order)
            _copy_line(f, bits, n, into, (line_copy, 0, 1))


def _sort_elements(unit: Unit, name: str, lines: _Lines, key: Key) -> Kernel:
    """One operand: its elements are the records, and their bits the key."""
    bits, n = _bits(key.element_type), lines.length
    records = Records(bits, bits, lambda f, raw: emit_key(f, key, raw))
    sort = define_sort(unit, f"sort_{name}", records, n)
    buffer = _aligned(n * records.bytes)
    slot = 2 * buffer + 64 + _aligned(histogram_bytes(bits, n))
    step = _open(unit, name, lines, slot)
    f, own = step.f, step.scratch
    other, counters = address(f, own, "i8", buffer), address(f, own, "i8", 2 * buffer + 64)
    _copy_line(f, bits, n, (own, 0, 1), (step.sources[0], step.start, lines.stride))
    watch(f, counters)
    result = f.let(f"call ptr {sort}(ptr {own}, ptr {other}, ptr {counters}, i64 {n})")
    _copy_line(f, bits, n, (step.targets[0], step.start, lines.stride), (result, 0, 1))
    step.close()
    return _kernel(unit, name, lines, slot * lines.tasks, sort_cost(bits, n))


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
    kind = f"i{2 * index}"

    def key(f: Function, record: str) -> str:
        high = f.let(f"lshr {kind} {record}, {index}")
        return f.let(f"trunc {kind} {high} to i{total}")

    return Records(2 * index, total, key), index


def _sort_records(unit: Unit, name: str, lines: _Lines, keys: tuple[Key, ...], in_place: bool) -> Kernel:
    """Sort (keys, index) records, one group of keys after the other, then permute the operands."""
    n = lines.length
    groups = [(group, *_index_records(group, n)) for group in _groups(keys)]
    sorts = [
        define_sort(unit, f"sort{number}_{name}", records, n) for number, (_, records, _) in enumerate(groups)
    ]
    buffer = _aligned(n * 16)
    counters_bytes = 64 + max(_aligned(histogram_bytes(records.key_bits, n)) for _, records, _ in groups)
    slot = 2 * buffer + counters_bytes + (buffer if in_place else 0)
    step = _open(unit, name, lines, slot)
    f, own = step.f, step.scratch
    other, counters = address(f, own, "i8", buffer), address(f, own, "i8", 2 * buffer + 64)
    watch(f, counters)
    result, spare, index_bits = "", own, 0
    for (group, records, bits), sort in zip(groups, sorts, strict=True):
        _build_records(step, lines, group, (spare, records, bits), (result, index_bits))
        free = result or other
        result = f.let(f"call ptr {sort}(ptr {spare}, ptr {free}, ptr {counters}, i64 {n})")
        swapped = f.let(f"icmp eq ptr {result}, {spare}")
        spare, index_bits = f.let(f"select i1 {swapped}, ptr {free}, ptr {spare}"), bits
    loop = f.begin_loop(0, n)
    f.do(f"store i64 {_index(f, result, index_bits, loop.index)}, ptr {address(f, spare, 'i64', loop.index)}, align 8")
    f.end_loop(loop)
    _permute(step, lines, spare, address(f, own, "i8", 2 * buffer + counters_bytes) if in_place else None)
    step.close()
    cost = sum(sort_cost(records.key_bits, n) for _, records, _ in groups) + 3.0 * n * len(lines.types)
    return _kernel(unit, name, lines, slot * lines.tasks, cost)


def _index(f: Function, records: str, index_bits: int, position: Index) -> str:
    """The index of record number `position`, as an i64."""
    kind = f"i{2 * index_bits}"
    record = f.let(f"load {kind}, ptr {address(f, records, kind, position)}, align 8")
    if index_bits == 32:
        return f.let(f"and i64 {record}, 4294967295")
    return f.let(f"trunc i128 {record} to i64")


def _build_records(
    step: _Open, lines: _Lines, group: list[Key], into: tuple[str, Records, int], before: tuple[str, int]
) -> None:
    """Write the records of `group` in the order that the groups before have given (`before`: records, index bits)."""
    f, (target, records, bits) = step.f, into
    loop = f.begin_loop(0, lines.length)
    index = _index(f, *before, loop.index) if before[0] else loop.index
    place = add(f, step.start, multiply(f, index, lines.stride))
    kind, shift = records.type, bits
    record = index if kind == "i64" else f.let(f"zext i64 {index} to {kind}")
    for key in reversed(group):
        width = key_bits(key.element_type)
        source = address(f, step.sources[key.operand], f"i{width}", place)
        raw = f.let(f"load i{width}, ptr {source}, align {width // 8}")
        wide = f.let(f"zext i{width} {emit_key(f, key, raw)} to {kind}") if width < 2 * bits else raw
        record = f.let(f"or {kind} {record}, {f.let(f'shl {kind} {wide}, {shift}')}")
        shift += width
    f.do(f"store {kind} {record}, ptr {address(f, target, kind, loop.index)}, align 8")
    f.end_loop(loop)


def _sort_by_comparator(unit: Unit, name: str, lines: _Lines, comparator: Computation, in_place: bool) -> Kernel:
    """Merge sort of indices that calls the comparator."""
    n, operands = lines.length, len(lines.types)
    less = _define_less(unit, f"less_{name}", lines, comparator)
    runs, merge = f"runs_{name}", f"merge_{name}"
    _define_runs(unit, runs, less, n)
    _define_merge(unit, merge, less, n)
    buffer, table = _aligned(8 * n), 64 + _aligned(8 * operands)
    line_copy = _aligned(n * max(map(byte_size, lines.types))) if in_place else 0
    slot = 2 * buffer + table + line_copy
    step = _open(unit, name, lines, slot)
    f, own = step.f, step.scratch
    other, bases = address(f, own, "i8", buffer), address(f, own, "i8", 2 * buffer + 64)
    watch(f, bases)
    for number, (source, element_type) in enumerate(zip(step.sources, lines.types, strict=True)):
        base = address(f, source, f"i{_bits(element_type)}", step.start)
        f.do(f"store ptr {base}, ptr {address(f, bases, 'ptr', number)}, align 8")
    loop = f.begin_loop(0, n)
    f.do(f"store i64 {loop.index}, ptr {address(f, own, 'i64', loop.index)}, align 8")
    f.end_loop(loop)
    f.do(f"call void @{runs}(ptr {bases}, ptr {own})")
    widths = []
    width = _RUN
    while width < n:
        widths.append(width)
        width *= 2
    source, target = own, other
    for width in widths:
        f.do(f"call void @{merge}(ptr {bases}, ptr {source}, ptr {target}, i64 {width})")
        source, target = target, source
    _permute(step, lines, source, address(f, own, "i8", 2 * buffer + table) if in_place else None)
    step.close()
    rounds = n.bit_length()
    return _kernel(unit, name, lines, slot * lines.tasks, 6.0 * n * rounds)


def _define_less(unit: Unit, name: str, lines: _Lines, comparator: Computation) -> str:
    """``i1 @name(ptr bases, i64 i, i64 j)``: the comparator on elements i and j of the lines that `bases` point to."""
    f = Function(unit, f"internal i1 @{name}(ptr %bases, i64 %i, i64 %j) nounwind")
    values: list[Value] = []
    for number, element_type in enumerate(lines.types):
        base = f.let(f"load ptr, ptr {address(f, '%bases', 'ptr', number)}, align 8")
        for index in ("%i", "%j"):
            values.append(load(f, element_type, base, multiply(f, index, lines.stride)))
    (result,) = emit_inline(f, comparator, values)
    f.finish(f"i1 {result}")
    return f"@{name}"


def _define_runs(unit: Unit, name: str, less: str, n: int) -> None:
    """``void @name(ptr bases, ptr order)``: insertion sort of runs of `_RUN` indices."""
    f = Function(unit, f"internal void @{name}(ptr %bases, ptr %order) nounwind")
    f.watch, f.stop = "%bases", ("ret void",)
    run = f.begin_loop(0, n, _RUN)
    end = minimum(f, add(f, run.index, _RUN), n)
    item = f.begin_loop(add(f, run.index, 1), end)
    moving = f.let(f"load i64, ptr {address(f, '%order', 'i64', item.index)}, align 8")
    entry = f.block
    head, compare, shift, place = (f.fresh(x) for x in ("head", "compare", "shift", "place"))
    at, before = f.fresh("at"), f.fresh("before")
    f.jump(head)
    f.label(head)
    f.do(f"%{at} = phi i64 [ {item.index}, %{entry} ], [ %{before}, %{shift} ]")
    f.branch(f.let(f"icmp sle i64 %{at}, {run.index}"), place, compare)
    f.label(compare)
    f.do(f"%{before} = add i64 %{at}, -1")
    other = f.let(f"load i64, ptr {address(f, '%order', 'i64', f'%{before}')}, align 8")
    f.branch(f.let(f"call i1 {less}(ptr %bases, i64 {moving}, i64 {other})"), shift, place)
    f.label(shift)
    f.do(f"store i64 {other}, ptr {address(f, '%order', 'i64', f'%{at}')}, align 8")
    f.jump(head)
    f.label(place)
    f.do(f"store i64 {moving}, ptr {address(f, '%order', 'i64', f'%{at}')}, align 8")
    f.end_loop(item)
    f.end_loop(run)
    f.finish()


def _define_merge(unit: Unit, name: str, less: str, n: int) -> None:
    """``void @name(ptr bases, ptr from, ptr to, i64 width)``: merge pairs of sorted runs of `width` indices.

    Every output takes from the right run when the left one is used up, or when both have an index and the
    comparator says that the right one is less: n outputs and n reads, whatever the comparator answers.
    """
    f = Function(unit, f"internal void @{name}(ptr %bases, ptr %from, ptr %to, i64 %width) nounwind")
    clear = unit.declare("void", "llvm.memset.p0.i64", ["ptr", "i8", "i64", "i1"])
    f.watch, f.stop = "%bases", (f"call void {clear}(ptr %to, i8 0, i64 {8 * n}, i1 false)", "ret void")
    pair = f.begin_loop(0, n, f.let("shl i64 %width, 1"))
    middle = minimum(f, add(f, pair.index, "%width"), n)
    end = minimum(f, add(f, middle, "%width"), n)
    out = f.begin_loop(pair.index, end, 1, [("i64", pair.index), ("i64", str(middle))])
    left, right = out.values
    decide, check, take = f.fresh("decide"), f.fresh("check"), f.fresh("take")
    start = f.block
    f.branch(f.let(f"icmp slt i64 {left}, {middle}"), decide, take)
    f.label(decide)
    f.branch(f.let(f"icmp slt i64 {right}, {end}"), check, take)
    f.label(check)
    a = f.let(f"load i64, ptr {address(f, '%from', 'i64', left)}, align 8")
    b = f.let(f"load i64, ptr {address(f, '%from', 'i64', right)}, align 8")
    smaller = f.let(f"call i1 {less}(ptr %bases, i64 {b}, i64 {a})")
    f.jump(take)
    f.label(take)
    from_right = f.let(f"phi i1 [ true, %{start} ], [ false, %{decide} ], [ {smaller}, %{check} ]")
    chosen = f.let(f"select i1 {from_right}, i64 {right}, i64 {left}")
    index = f.let(f"load i64, ptr {address(f, '%from', 'i64', chosen)}, align 8")
    f.do(f"store i64 {index}, ptr {address(f, '%to', 'i64', out.index)}, align 8")
    step = f.let(f"zext i1 {from_right} to i64")
    f.end_loop(out, [f.let(f"add i64 {left}, {f.let(f'sub i64 1, {step}')}"), f.let(f"add i64 {right}, {step}")])
    f.end_loop(pair)
    f.finish()
