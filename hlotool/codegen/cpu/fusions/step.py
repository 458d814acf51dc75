"""One step of a kernel: a function whose tasks are pieces of a nest of loops."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated, NamedTuple

from hlotool.analysis.indexing import Atom
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm import values
from hlotool.codegen.llvm.arguments import begin_tasks
from hlotool.codegen.llvm.control import when
from hlotool.codegen.llvm.values import Int, Ptr, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.loops.loops import (
    HEAVY,
    LoopSpec,
    copies_for,
    cost,
    depth_in,
    is_long,
    merge,
    pick_lane,
    plain,
    tile_loop,
    total_cost,
    width_for,
    work,
)
from hlotool.codegen.loops.nodes import Node, Row, Scratch, body_of, closure, joint_index, scope_of, variables_of
from hlotool.codegen.loops.stages import Stage, stages_of
from hlotool.codegen.loops.trace import Tracer
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.nest import Nest
from hlotool.ir import byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["Job", "Written", "emit_step", "load_bases", "write_nest"]

TASK_NS: Annotated[float, Threshold("nanoseconds")] = 8000.0
"""Time that a task should take: long against the cost of handing it to a thread, short against imbalance."""

MOST_TASKS: Annotated[int, Threshold("tasks")] = 128  # of a loop

ROW_BYTES: Annotated[int, Threshold("bytes")] = 1 << 16
"""Most that a value kept for a later pass over its row may take (of the stack, and of the nearest caches)."""

_MOST_KEPT = 1 << 18
"""Bytes of rows that are kept where that is asked for."""

_LARGE, _NEVER = 1 << 20, 1 << 62
"""Bytes of an array that is past the caches where that is asked for; and never is."""

REPEATED_NS: Annotated[float, Threshold("nanoseconds")] = 300.0
"""A reduction quicker than this may be computed again by every task."""


@dataclass(frozen=True, slots=True)
class Job:
    """A nest to write: everything that `stores` need, in loops over `atoms`.

    `loops` are given where the caller decides about them; then only the last may become the lane loop, and not
    without `may_lane`.  It begins at multiples of `multiple` (0: at 0), and trades places with the one before where
    that would read the same again and again: what is made of a product's block is small, and in cache.  With `tiles`
    another one may form tiles with it, and begins at multiples of 16.
    """

    tracer: Tracer
    stores: list[Node]
    atoms: list[Atom]
    loops: tuple[LoopSpec, ...] = ()
    may_lane: bool = True
    multiple: int = 0
    tiles: bool = False
    ahead: int = 0  # see `Access`


def emit_step(
    unit: Unit, name: str, jobs: Sequence[Job], machine: Machine, scratch_slot: int, in_place: Collection[int] = ()
) -> Step:
    """Write one step.  A single job is divided into tasks; several are done one after the other in one task.

    Outputs `in_place` are not written past the caches: what was read of the same memory is there.
    """
    f = Function(unit, signature(name))
    total, tasks = 0.0, 1
    bases = load_bases(f, jobs, scratch_slot)
    for job in jobs:
        nodes = closure(job.stores)
        past = machine.choices.past_caches
        most = machine.l3 if past is None else _NEVER if not past else _LARGE
        far = {n for n in nodes if isinstance(n.slot, int) and n.moved > most}
        aligned = [n.slot for n in job.stores if n in far and n.slot not in in_place and _keeps_alignment(n)]
        if aligned and work(nodes) <= HEAVY:
            nest = _streaming(f, name, machine, bases, job, aligned, len(jobs) == 1)
        else:
            nest = write_nest(Nest(f, machine, name, bases, far=bool(far), ahead=job.ahead), job, len(jobs) == 1)
        unit.count({**nest.work, "planned": nest.time})
        total += nest.time
        tasks = nest.tasks
    f.finish()
    return Step(name, tasks, total)


def load_bases(f: Function, jobs: Sequence[Job], scratch_slot: int) -> dict[object, Ptr]:
    """The pointers to all buffers that the jobs read and write, from the argument table ``%args``."""
    table, bases = Ptr(f, "%args"), dict[object, Ptr]()
    for job in jobs:
        everything = sorted(closure(job.stores), key=lambda n: n.serial)
        for slot in dict.fromkeys(n.slot for n in everything if n.kind in ("load", "store")):
            if slot in bases:
                continue
            if isinstance(slot, int):
                bases[slot] = table.slot(slot).load_ptr()
            elif isinstance(slot, Scratch):
                bases[slot] = table.slot(scratch_slot).load_ptr() + slot.offset
    return bases


def _streaming(
    f: Function, name: str, machine: Machine, bases: Mapping[object, Ptr], job: Job, slots: list[int], divide: bool
) -> Written:
    """Write a job whose outputs no cache can hold: past the caches where they are aligned, the usual way where not."""
    together, *others = (bases[slot].address() for slot in slots)
    for address in others:
        together = together | address
    found: list[Written] = []

    def write(streams: Collection[object]) -> None:
        found.append(write_nest(Nest(f, machine, name, bases, streams, far=True), job, divide))

    def write_past() -> None:
        write(set(slots))
        f.fence()  # streaming stores are ordered by nothing less

    when((together & 63).eq(0), write_past, lambda: write(()))
    return found[0]


class Written(NamedTuple):
    """Loops as they were written: estimated nanoseconds, how many tasks there are, and the work they do."""

    time: float
    tasks: int
    work: Mapping[str, float]


def write_nest(nest: Nest, job: Job, divide: bool, near: bool = False) -> Written:
    """Choose the loops of a job and write them.

    `near` says that all comes from the nearest caches.
    """
    tracer, stores, atoms, machine = job.tracer, job.stores, job.atoms, nest.machine
    keep = machine.choices.keep_rows
    rows, row_stores = _rows(tracer, stores, atoms, ROW_BYTES if keep is None else (_MOST_KEPT if keep else 0))
    scope = scope_of(stores, rows)
    everything = sorted(closure(stores), key=lambda n: n.serial)
    everything += list(rows.values())
    reduces = [(n, body_of(n)) for n in scope if n.kind == "reduce"]
    loops = list(job.loops) or merge([plain(a) for a in atoms if a.high], everything)
    candidates = (loops[-1:] if job.loops else loops) if job.may_lane else []
    lane = pick_lane(candidates, scope, reduces, machine)
    if lane is not None and any(n.variables & lane.variables for n in row_stores):
        # A buffer holds one row, not several.
        rows, row_stores = {}, {}
        scope = scope_of(stores)
    stages: list[Stage] = []
    if lane is not None:
        vector = [*scope, *(n for r, body in reduces if r.variables & lane.variables for n in body)]
        width = width_for(vector, lane, machine)
        accumulators = sum(1 for r, _ in reduces if r.variables & lane.variables)
        tile = None if reduces or (job.loops and not job.tiles) else tile_loop(loops, lane, scope)
        tile = None if machine.choices.tiled == 0 else tile
        if not (reduces or job.loops or tile):
            stages, rows = stages_of(tracer, scope, lane, machine)
        parts = [stage.nodes for stage in stages] or [tuple(vector)]
        waits, within = nest.access.far or near, bool(job.loops)
        copies = min(copies_for(part, lane, width, machine, accumulators, waits, within) for part in parts)
        while job.multiple % (width * copies):
            width, copies = (width, copies // 2) if copies > 1 else (width // 2, 1)
        wide = replace(lane, lane=(width, copies))
        if reduces:
            loops = [wide if loop is lane else loop for loop in loops]
        elif tile is None:
            loops = [*(loop for loop in loops if loop is not lane), wide]
            if job.loops and _is_reread(scope, loops):
                loops[-2:] = [wide, loops[-2]]
        else:
            width = min(width, 16)
            outer = [loop for loop in loops if loop is not lane and loop is not tile]
            loops = [*outer, replace(tile, tile=width), replace(lane, lane=(width, 1))]
    time = _time(scope, reduces, lane, machine)
    fixed = stores + [n for n, body in reduces if _step_time(body, n, machine) > REPEATED_NS]
    limit = min((depth_in(loops, n) for n in fixed), default=0)
    nest.keep_rows(rows, row_stores)
    nest.stages, nest.outputs = stages, stores
    tasks = _write(nest, loops, limit if divide else 0, scope, time)
    return Written(time, tasks, nest.count.work)


def _is_reread(scope: Sequence[Node], loops: Sequence[LoopSpec]) -> bool:
    """Whether the innermost loop reads something that the one around it does not change."""
    if len(loops) < 2:
        return False
    inner, around = loops[-1].variables, loops[-2].variables
    return any(n.kind == "load" and n.variables & inner and not n.variables & around for n in scope)


def _rows(
    tracer: Tracer, stores: list[Node], atoms: list[Atom], most: int
) -> tuple[dict[Node, Node], dict[Node, list[Node]]]:
    """Expensive values of a row that a reduction computes and a later pass over the row needs again.

    They are kept in buffers of at most so many bytes: the loads of each, and for the reduction that makes them their
    stores.
    """
    looped = variables_of(atoms)
    scope = scope_of(stores)
    rows: dict[Node, Node] = {}
    makers: dict[Node, list[Node]] = {}
    for reduce in scope:
        if reduce.kind != "reduce" or reduce.hidden & ~looped or reduce.variables & ~looped:
            continue
        body = set(body_of(reduce))
        costly = [
            n for n in scope
            if n in body and n not in rows and is_long(n) and not n.variables & ~(reduce.variables | reduce.hidden)
            and n.variables & reduce.hidden == reduce.hidden
        ]  # fmt: skip
        reached = set(scope_of(stores, costly))
        for node in costly:
            position = joint_index(reduce.bound)
            size = (position.high + 1) * byte_size(node.type)
            if node not in reached or size + sum(kept.slot.bytes for kept in rows.values()) > most:
                continue
            slot = Row(len(rows), -(-size // 64) * 64)
            rows[node] = tracer.node("load", node.type, index=position, slot=slot)
            store = tracer.node("store", node.type, (node,), index=position, slot=slot)
            makers.setdefault(reduce, []).append(store)
    return rows, makers


def _keeps_alignment(store: Node) -> bool:
    """Whether vectors of 16 elements start at multiples of 16 in the output of `store`."""
    outer = [c for _, c in store.index.terms if c != 1]
    return isinstance(store.slot, int) and not any(n % 16 for n in (*outer, store.index.constant))


def _step_time(body: Sequence[Node], reduce: Node, machine: Machine) -> float:
    """Nanoseconds of one result of a reduction."""
    work = sum(cost(n, None, machine) for n in body) + 1
    return work / 3.0 / prod(a.high + 1 for a in reduce.atoms)


def _time(
    scope: Sequence[Node], reduces: Sequence[tuple[Node, list[Node]]], lane: LoopSpec | None, machine: Machine
) -> float:
    """Estimated nanoseconds of all tasks: cycles of the instructions, or the time of moving the bytes if longer.

    Arrays that are read at several places near each other come from memory once.
    """
    cycles = total_cost(lane, scope, reduces, machine) + sum(_combining(node, machine) for node, _ in reduces)
    touched: dict[object, int] = {}
    for node in (*scope, *(n for _, body in reduces for n in body)):
        if node.kind in ("load", "store"):
            touched[node.slot] = max(touched.get(node.slot, 0), node.moved)
    return max(cycles / 3.0, sum(touched.values()) / 30.0)


def _combining(reduce: Node, machine: Machine) -> float:
    """Cycles of all applications of a computation of several operations, which no other node stands for."""
    operations = sum(1 for i in reduce.computation or () if i.has("elementwise"))
    elements = reduce.trips * prod(a.high - a.low + 1 for a in reduce.bound)
    return elements * operations / machine.lanes(32) if operations > 1 else 0.0


def _write(nest: Nest, loops: list[LoopSpec], limit: int, scope: Sequence[Node], time: float) -> int:
    """Distribute the outer loops over tasks and write everything; return the number of tasks."""
    f = nest.f
    asked = f.unit.machine.choices.task_ns if f.unit.machine is not None else None
    want = int(min(max(time / (asked or TASK_NS), 1), MOST_TASKS))
    count = 1
    digits: list[tuple[int, int]] = []  # per distributed loop: how many parts, iterations in each
    for loop in loops[:limit]:
        if count >= want:
            break
        parts = -(-want // count)
        size = max(1, loop.extent // parts)
        size = -(-size // loop.block) * loop.block
        parts = -(-loop.extent // size)
        digits.append((parts, size))
        count *= parts
        if size > 1:
            break
    if count == 1:
        nest.run(loops, scope)
        return 1
    if len(digits) == 1:
        parts, size = digits[0]
        start, stop = _chunk(Int(f, "%begin"), Int(f, "%end"), size, loops[0].extent)
        nest.run([replace(loops[0], start=start, stop=stop), *loops[1:]], scope)
        return count
    task = begin_tasks(f)
    left = number(f, task.index)
    outer: list[LoopSpec] = []
    for loop, (parts, size) in zip(loops[len(digits) - 1 :: -1], digits[::-1], strict=True):
        own = left if loop is loops[0] else number(f, left % parts)
        left = left if loop is loops[0] else left // parts
        if size == 1:
            outer.insert(0, replace(loop, counter=own, lane=None))
        else:
            start, stop = _chunk(own, own.plus(1), size, loop.extent)
            outer.insert(0, replace(loop, start=start, stop=stop))
    nest.run([*outer, *loops[len(digits) :]], scope)
    task.end()
    return count


def _chunk(first: Int, last: Int, size: int, extent: int) -> tuple[values.Index, values.Index]:
    """Bounds of parts ``first..last-1`` of `size` iterations each; the last part may be shorter."""
    start, stop = first.times(size), last.times(size)
    return start, number(first.f, stop).at_most(extent) if extent % size else stop
