"""Kernels of fusions, and of single instructions as fusions of themselves.

The outputs of a fusion are grouped by their dimensions, and each group is a grid.  Where it reduces rows that are long
enough, a block computes a row: its threads share each reduction, and then the elements of the row.  Otherwise every
thread computes some elements side by side, reductions and products included, on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Annotated

from hlotool.analysis.indexing import Atom, Index
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.gpu.block_nest import BlockNest
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import arguments, open_grid
from hlotool.codegen.gpu.items import THREADS
from hlotool.codegen.gpu.products import product_of, wanted_parts, write_product
from hlotool.codegen.gpu.spaces import bind_all, counters, size_of
from hlotool.codegen.gpu.transposes import turned, write_turned
from hlotool.codegen.kernel import Kernel, Note, Step, Uses
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Int
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.loops.loops import LoopSpec, merge, plain, refine
from hlotool.codegen.loops.nodes import Node, body_of, closure, scope_of, variables_of
from hlotool.codegen.loops.products import PRODUCTS, divided_dimension, rule_with_products
from hlotool.codegen.loops.rules import can_split, can_trace, split_dimension
from hlotool.codegen.loops.trace import Tracer
from hlotool.codegen.nests.nest import Nest
from hlotool.codegen.nests.outputs import Output, body_of_one, groups_of, parts_of, store_output
from hlotool.codegen.nests.reductions import reducer_of
from hlotool.codegen.nests.scope import Lane
from hlotool.ir import Instruction, UnsupportedError, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_concatenate", "emit_fusion"]

_ROW: Annotated[int, Threshold("elements")] = 64
"""Elements of a reduction from which on the threads of a block share it."""

_SHORT: Annotated[int, Threshold("elements")] = 8
"""The same where every element along the row would reduce it again."""

_COLUMNS: Annotated[int, Threshold("results")] = 1 << 13
"""Results of reductions whose neighbours read neighbouring elements, from which on each has a thread."""

_PART: Annotated[int, Threshold("elements")] = 1 << 12
"""Elements of a reduction that are worth a block of their own."""

_BLOCKS: Annotated[int, Threshold("blocks")] = 256
"""Rows from which on there is enough to do without dividing them."""

_TOGETHER: Annotated[int, Threshold("operands")] = 64
"""Of a concatenate that a grid copies: each is a buffer of its own, and code of its own."""

_VECTOR_BYTES = 16
"""Bytes that a thread reads and writes at once."""

_REFINEMENTS: Annotated[int, Threshold("cuts")] = 12
"""Most times that dimensions are split further."""


def emit_fusion(name: str, instruction: Instruction, chip: Chip, in_place: frozenset[int] = frozenset()) -> Kernel:
    """The kernel, for `in_place` as other targets have it; UnsupportedError names what no thread can compute."""
    body = body_of_one(instruction)
    for own in body:
        if own.opcode not in PRODUCTS and not can_trace(own):
            raise UnsupportedError(f"{own.name}: {own.opcode} has no code for a grid")
    leaves = (sum(1 for _ in operand.shape.leaves()) for operand in instruction.operands)
    *slots, count = accumulate(leaves, initial=0)
    buffers = count + sum(1 for _ in instruction.shape.leaves())
    return emit_outputs(name, groups_of(body.root, count, in_place), slots, buffers, chip)


def emit_concatenate(name: str, concatenate: Instruction, chip: Chip, there: frozenset[int]) -> Kernel:
    """The kernel of a concatenate: operands of the same dimensions are copied by one grid, but those in `there`."""
    buffers = len(concatenate.operands) + 1
    return emit_outputs(name, parts_of(concatenate, there, _TOGETHER), range(buffers), buffers, chip)


def emit_outputs(name: str, groups: Sequence[list[Output]], slots: Sequence[int], buffers: int, chip: Chip) -> Kernel:
    """The kernel that computes `groups` of outputs; `slots` are those of the first leaves of the body's parameters."""
    unit = Unit(chip.machine)
    steps: list[Step] = []
    notes: list[Note] = []
    scratch = 0
    for group in groups:
        plan, said = _plan(group, slots)
        notes += said
        for job in _jobs(plan):
            step_name = name if not steps else f"s{len(steps)}_{name}"
            step, note = _write(unit, step_name, job, chip, buffers)
            steps.append(step)
            notes += note
        scratch = max(scratch, plan.tracer.scratch)
    uses: Uses = (("partial results of reductions", scratch),) if scratch else ()
    return replace(finish_kernel(unit, steps, scratch, uses), notes=tuple(notes))


# ---- plans


@dataclass(frozen=True, slots=True)
class Job:
    """What a grid computes: everything that `stores` need, for all settings of `atoms`."""

    tracer: Tracer
    stores: list[Node]
    atoms: list[Atom]

    def nodes(self) -> list[Node]:
        """All nodes, in the order in which they were made."""
        return sorted(closure(self.stores), key=lambda node: node.serial)

    def loops(self) -> list[LoopSpec]:
        """The loops over all settings."""
        return merge([plain(atom) for atom in self.atoms], self.nodes())


def _plan(group: Sequence[Output], slots: Sequence[int]) -> tuple[Job, list[Note]]:
    """Trace a group of outputs, until no division is left that splitting a dimension removes, and long reductions are
    divided among blocks; what to say of that."""
    tracer = Tracer(rule_with_products, slots)
    for _ in range(_REFINEMENTS):
        plan = _stores(tracer, group)
        factors = refine(tracer)
        if factors is not None and factors != tracer.factors:
            tracer = Tracer(rule_with_products, slots, factors, tracer.parts)
            continue
        parts = {} if tracer.parts else _parts(plan)
        if not parts:
            break
        tracer = Tracer(rule_with_products, slots, tracer.factors, parts)
    reason = "there are too few results for all of a chip"
    return plan, [Note("partial-sums", reason, (("parts", count),)) for count in tracer.parts.values()]


def _stores(tracer: Tracer, group: Sequence[Output]) -> Job:
    index: list[Index] = []
    atoms: list[Atom] = []
    taken = 0
    for extent in group[0].space:
        own, variables = tracer.dimension(extent, taken)
        index.append(own)
        taken |= variables_of(variables)
        atoms += variables
    stores = [store_output(tracer, output, tuple(index)) for output in group]
    return Job(tracer, stores, [atom for atom in atoms if atom.high])


def _parts(plan: Job) -> dict[Instruction, int]:
    """Into how many parts to divide reductions and products with few results, so that there is work for all of the
    chip."""
    parts: dict[Instruction, int] = {}
    reductions = [node for node in scope_of(plan.stores) if node.kind == "reduce"]
    product = product_of(plan.stores, plan.loops(), plan.nodes()) if reductions else None
    for node in reductions:
        elements, results = prod(a.high + 1 for a in node.bound), prod(a.high + 1 for a in node.atoms)
        wanted = min(elements // _PART, -(-_BLOCKS // results)) if results < _BLOCKS else 1
        if product is not None:
            wanted = wanted_parts(product)
        count = _possible(node.slot, wanted)
        if count > 1:
            parts[node.slot] = count
    return parts


def _possible(reduction: Instruction, wanted: int) -> int:
    """Into how many parts a reduction or dot can be divided, at most as many as are wanted."""
    if reduction.opcode == "reduce":
        possible = reduction.attributes["dimensions"] and can_split(reduction)
        return min(wanted, reduction.operands[0].shape.dimensions[split_dimension(reduction)]) if possible else 1
    divided = divided_dimension(reduction) if reduction.opcode == "dot" else None
    if divided is None:
        return 1
    size = reduction.operands[0].shape.dimensions[divided]
    return next((count for count in range(min(wanted, size), 1, -1) if size % count == 0), 1)


def _jobs(plan: Job) -> list[Job]:
    """What to compute in order: partial results first."""
    jobs = []
    for partial in plan.tracer.partials:
        store = plan.tracer.node(
            "store", partial.value.type, (partial.value,), index=partial.index, slot=partial.slot
        )  # fmt: skip
        jobs.append(Job(plan.tracer, [store], [atom for atom in partial.atoms if atom.high]))
    return [*jobs, plan]


# ---- code


def _write(unit: Unit, name: str, job: Job, chip: Chip, buffers: int) -> tuple[Step, list[Note]]:
    """The kernel of a job, whose buffers are so many arguments and one for scratch; what there is to say of it."""
    everything, loops = job.nodes(), job.loops()
    product = product_of(job.stores, loops, everything)
    if product is not None:
        step, note = write_product(unit, name, product, job.stores, chip, buffers, bool(job.tracer.scratch))
        return step, [note]
    shared = _shared(job)
    if shared:
        step = _write_rows(unit, name, job, loops, shared, chip, buffers)
        return step, [_note("block-per-row", "its threads share the reductions of a row", step)]
    across = turned(job.stores, loops, everything)
    if across is not None:
        step = write_turned(unit, name, across, job.stores, loops, chip, buffers)
        return step, [_note("squares", "what is read along one dimension is written along another", step)]
    return _write_elements(unit, name, job, loops, everything, chip, buffers), []


def _note(rule: str, reason: str, step: Step) -> Note:
    return Note(rule, reason, (("blocks", step.tasks), ("threads", step.threads)))


def _shared(job: Job) -> frozenset[Node]:
    """The reductions that blocks share."""
    found = []
    for node in scope_of(job.stores):
        if node.kind != "reduce" or reducer_of(node).in_order:
            continue
        elements, results = prod(a.high + 1 for a in node.bound), prod(a.high + 1 for a in node.atoms)
        again = prod(atom.high + 1 for atom in job.atoms) > results
        if elements < (_SHORT if again else _ROW) or (results >= _COLUMNS and _is_by_columns(node)):
            continue
        found.append(node)
    return frozenset(found)


def _is_by_columns(reduce: Node) -> bool:
    """Whether neighbouring results read neighbouring elements, and neighbouring terms do not."""
    loads = [node for node in body_of(reduce) if node.kind == "load"]
    side = {atom for load in loads for atom, c in load.index.terms if abs(c) == 1}
    return bool(side) and side.isdisjoint(reduce.bound)


def _write_elements(
    unit: Unit, name: str, job: Job, loops: Sequence[LoopSpec], everything: Sequence[Node], chip: Chip, buffers: int
) -> Step:
    """Every thread computes the elements of a vector."""
    scope = scope_of(job.stores)
    lane = loops[-1] if loops else None
    width = _width(lane, scope, everything) if lane is not None else 1
    extents = [loop.extent for loop in loops]
    if lane is not None:
        extents[-1] //= width
    count = prod(extents)
    threads = min(THREADS, -(-count // chip.warp) * chip.warp)
    blocks = -(-count // threads)
    grid = open_grid(unit, name, chip, blocks, threads, buffers + bool(job.tracer.scratch))
    bases = arguments(grid, everything, buffers)

    def compute(number: Int) -> None:
        nest = Nest(grid.f, chip.machine, name, bases)
        if width > 1 and lane is not None:
            nest.scope.lane = Lane(lane.atom, width, 1, width, lane.atom, width)
            nest.access.aligned = True
        places = counters(number, extents)
        if width > 1:
            places[-1] = places[-1] * width
        for loop, place in zip(loops, places, strict=True):
            nest.scope.bind(loop, place)
        nest.run((), scope)

    with grid.phase(last=True) as thread:
        own = thread.plus(grid.block * threads)
        when(own < count if count % threads else True, lambda: compute(own))
    return grid.finish()


def _width(lane: LoopSpec, scope: Sequence[Node], everything: Sequence[Node]) -> int:
    """Elements that a thread computes side by side: where all lie so in memory, as many as one access can have."""
    if any(node.hidden & lane.variables for node in everything):
        return 1  # a reduction goes along the same variable
    inside = [node for node in scope if node.variables & lane.variables]
    size = max((byte_size(node.type) for node in inside if node.kind in ("load", "store")), default=_VECTOR_BYTES)
    for node in inside:
        plain_in = all(atom.kind == "variable" or not atom.variables & lane.variables for atom, _ in node.index.terms)
        if node.kind == "reduce" or any(guard.index.variables & lane.variables for guard in node.guards):
            return 1
        if node.kind in ("load", "store") and not (plain_in and node.index.coefficient(lane.atom) in (0, 1)):
            return 1
    width = _VECTOR_BYTES // size
    while width > 1 and (lane.extent % width or any(_is_apart(node, lane, width) for node in inside)):
        width //= 2
    return max(1, width)


def _is_apart(node: Node, lane: LoopSpec, width: int) -> bool:
    """Whether vectors of a load or store begin elsewhere than at multiples of their size."""
    if node.kind not in ("load", "store") or not node.index.coefficient(lane.atom):
        return False
    rest = [coefficient for atom, coefficient in node.index.terms if atom != lane.atom]
    return any(number % width for number in (*rest, node.index.constant))


def _write_rows(
    unit: Unit, name: str, job: Job, loops: Sequence[LoopSpec], shared: frozenset[Node], chip: Chip, buffers: int
) -> Step:
    """Every block computes a row: the reductions over it, and what lies along it."""
    scope = scope_of(job.stores)
    kept = 0
    for node in shared:
        kept |= node.variables
    rows = [loop for loop in loops if loop.variables & kept]
    along = [loop for loop in loops if not loop.variables & kept]
    inner = variables_of(atom for loop in along for atom in (loop.atom, *loop.absorbed))
    longest = max(size_of(along), *(prod(atom.high + 1 for atom in node.bound) for node in shared))
    threads = chip.warp
    while threads < THREADS and threads * 2 <= longest:
        threads *= 2
    grid = open_grid(unit, name, chip, size_of(rows), threads, buffers + bool(job.tracer.scratch))
    nest = BlockNest(grid, arguments(grid, sorted(closure(job.stores), key=lambda n: n.serial), buffers), shared)
    bind_all(nest.scope, rows, grid.block)
    nest.run((), [node for node in scope if node.kind != "store" and not node.variables & inner])
    whole = [node for node in scope if node.kind == "store" and not node.variables & inner]
    rest = [node for node in scope if node.variables & inner]

    def store() -> None:
        nest.run((), whole)

    with grid.phase(last=True) as thread, nest.scope.inner():
        if whole:
            with nest.scope.inner():
                when(thread.eq(0), store)
        if rest:
            loop = begin_loop(grid.f, thread, size_of(along), threads)
            with nest.scope.inner():
                bind_all(nest.scope, along, loop.index)
                nest.run((), rest)
            loop.end()
    return grid.finish()
