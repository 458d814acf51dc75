"""How the outputs of a fusion are computed: traces that are split, divided and shared until the loops are good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated

from hlotool.analysis.indexing import Atom, Index, linearize
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.fusions.step import Job
from hlotool.codegen.kernel import Uses
from hlotool.codegen.llvm.memory import has_masks
from hlotool.codegen.llvm.strided import WIDEST_STEP
from hlotool.codegen.loops.loops import LoopSpec, cost, merge, pick_lane, plain, refine, work
from hlotool.codegen.loops.nodes import Node, body_of, closure, scope_of, variables_of
from hlotool.codegen.loops.rules import can_split, rule_of, split_dimension
from hlotool.codegen.loops.trace import Tracer
from hlotool.codegen.machine import Machine
from hlotool.codegen.nests.outputs import Output, store_output
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Plan", "part_count", "partial_jobs", "partial_uses", "plan_group"]

PART_WORK: Annotated[int, Threshold("elements")] = 1 << 15
"""Elements, roughly, that are worth a partial result of their own."""

MOST_PIECES: Annotated[int, Threshold("pieces")] = 64
"""Pieces into which the space of a concatenation or pad is divided."""

_RESULTS: Annotated[int, Threshold("results")] = 16  # of a reduction that is not divided, with sums of single numbers
_VECTOR_RESULTS: Annotated[int, Threshold("results")] = 8192  # and with sums of vectors
_PARTS: Annotated[int, Threshold("parts")] = 64  # of a reduction, at most
_PART_ROWS: Annotated[int, Threshold("rows")] = 16  # of a part, at least

_SHARED: Annotated[float, Threshold("share")] = 0.75
"""The work of pieces that are computed together over that of each by itself, up to which they are."""


@dataclass(slots=True)
class Plan:
    """The trace of a group of outputs: what to store, over which variables; and the groups still to do.

    `space` has, for every dimension of the group, where it begins and its loop variables.
    """

    tracer: Tracer
    stores: list[Node]
    atoms: list[Atom]
    space: list[tuple[int, tuple[Atom, ...]]]
    left: list[list[Output]]

    def jobs(self) -> list[Job]:
        """What to write, in order: partial results first."""
        return [*partial_jobs(self.tracer), Job(self.tracer, self.stores, self.atoms)]


Box = Mapping[int, tuple[tuple[int, ...], int]]
"""For some dimensions, the parts of it (starts, and their size) that are to be computed, all in the same loops."""


def plan_group(
    groups: list[list[Output]], slots: Sequence[int], machine: Machine
) -> tuple[list[Plan], list[list[Output]]]:
    """Plan the first group, in pieces if it is a concatenation; return the plans and the groups still to do."""
    plan = _plan(groups, slots, machine, {})
    pieces = _pieces(plan, groups[0], slots, machine, {}, MOST_PIECES)
    return (pieces, groups[1:]) if pieces != [plan] else (pieces, plan.left)


def _pieces(
    plan: Plan, group: list[Output], slots: Sequence[int], machine: Machine, box: Box, budget: int
) -> list[Plan]:
    """Divide the space where a concatenation goes from one operand to the next, or a pad from what it pads to what it
    pads with: no piece has to choose."""
    found = _cuts(plan, machine)
    if found is None or len(found[1]) >= budget:
        return [plan]
    d, cuts = found
    start = plan.space[d][0]
    ends = [*cuts, start + group[0].space[d] if d not in box else start + box[d][1]]
    starts = (start, *cuts)
    sizes = {end - start for start, end in zip(starts, ends, strict=True)}
    if len(sizes) == 1:
        together = _plan([group], slots, machine, {**box, d: (starts, sizes.pop())})
        if _cuts(together, machine) is None and _shares(together):
            return [together]
    pieces = []
    for start, end in zip(starts, ends, strict=True):
        part = {**box, d: ((start,), end - start)}
        own = _plan([group], slots, machine, part)
        pieces += _pieces(own, group, slots, machine, part, budget // len(ends))
    return pieces


def _shares(plan: Plan) -> bool:
    """Whether the stores of a plan need much that is the same."""
    return work(scope_of(plan.stores)) <= _SHARED * sum(work(scope_of([store])) for store in plan.stores)


def _cuts(plan: Plan, machine: Machine) -> tuple[int, list[int]] | None:
    """A dimension and the places in it where the source of the elements changes.

    Inner dimensions are cut only where that saves several choices, where they are too short for a vector, or where the
    processor cannot read some lanes of a vector: otherwise one pass with a choice is quicker.
    """
    if plan.tracer.partials or any(n.kind == "reduce" for n in plan.tracer.nodes):
        return None
    for d, (start, atoms) in enumerate(plan.space):
        if len(atoms) != 1:
            continue
        cuts: set[int] = set()
        worth = atoms[0].high < WIDEST_STEP
        for node in scope_of(plan.stores):
            for guard in node.guards:
                if guard.index.terms != ((atoms[0], 1),):
                    continue
                if node.slot == "source":
                    ends = (guard.low - guard.index.constant, guard.high - guard.index.constant)
                    cuts.update(start + end for end in ends if 0 < end <= atoms[0].high)
                elif node.kind == "load":
                    worth = worth or not has_masks(machine, node.type)
        if cuts and (worth or len(cuts) > 2 or not any(a.high for _, before in plan.space[:d] for a in before)):
            return d, sorted(cuts)
    return None


def _plan(groups: list[list[Output]], slots: Sequence[int], machine: Machine, box: Box) -> Plan:
    """Trace the first group, and others that its loops can serve, until nothing is left to improve."""
    tracer = Tracer(rule_of, slots)
    for _ in range(12):
        plan = _stores(tracer, groups, box)
        factors = refine(tracer)
        if factors is not None and factors != tracer.factors:
            tracer = Tracer(rule_of, slots, factors, tracer.parts)
            continue
        parts = _parts(plan, machine) if not tracer.parts else None
        if not parts:
            break
        tracer = Tracer(rule_of, slots, tracer.factors, parts)
    return plan


def _stores(tracer: Tracer, groups: Sequence[Sequence[Output]], box: Box) -> Plan:
    index: list[list[Index]] = []
    atoms: list[Atom] = []
    taken = 0
    space = []
    for d, extent in enumerate(groups[0][0].space):
        starts, extent = box.get(d, ((0,), extent))
        own, variables = tracer.dimension(extent, taken)
        index.append([own + start for start in starts])
        space.append((starts[0], variables))
        taken |= variables_of(variables)
        atoms += variables
    stores = [store_output(tracer, output, place) for place in product(*index) for output in groups[0]]
    left = []
    for group in groups[1:]:
        at = _known_index(tracer, group)
        if at is None or groups[0][0].region is not None:
            left.append(list(group))
        else:
            stores += [store_output(tracer, output, at) for output in group]
    return Plan(tracer, stores, [a for a in atoms if a.high], space, left)


def _known_index(tracer: Tracer, group: Sequence[Output]) -> tuple[Index, ...] | None:
    """An index at which a reduction in the trace has results of the group's dimensions, each exactly once."""
    sizes = group[0].space
    if not sizes or any(output.region is not None for output in group):
        return None
    for index in tracer.found("reduce", sizes):
        stride = 1
        for atom, coefficient in sorted(linearize(index, sizes).terms, key=lambda t: t[1]):
            if atom.kind != "variable" or coefficient != stride:
                break
            stride *= atom.high + 1
        else:
            if stride == prod(sizes):
                return index
    return None


def _parts(plan: Plan, machine: Machine) -> dict[Instruction, int]:
    """Reductions to be done in parts because there are too few results to share the work among threads.

    Sums down long columns are done in parts as well: a part is short enough for its rows to stay in the
    translation buffers.
    """
    scope = scope_of(plan.stores)
    reduces = [(n, body_of(n)) for n in scope if n.kind == "reduce"]
    if not reduces:
        return {}
    lane = pick_lane(merge([plain(a) for a in plan.atoms], plan.tracer.nodes), scope, reduces, machine)
    parts: dict[Instruction, int] = {}
    for node, body in reduces:
        if node.slot.opcode != "reduce" or not node.slot.attributes["dimensions"] or not can_split(node.slot):
            continue
        extent = node.slot.operands[0].shape.dimensions[split_dimension(node.slot)]
        count = part_count(node, body, lane, extent, machine)
        if count > 1:
            parts[node.slot] = count
    return parts


def part_count(node: Node, body: Sequence[Node], lane: LoopSpec | None, extent: int, machine: Machine) -> int:
    """In how many parts to do a reduction with loops over `body`, of which one goes over `extent` values."""
    work = sum(cost(n, None, machine) for n in body)
    results = prod(a.high + 1 for a in node.atoms)
    vectors = lane is not None and bool(node.variables & lane.variables)
    if work < PART_WORK * 2 or results >= (_VECTOR_RESULTS if vectors else _RESULTS):
        return 1
    rows = prod(a.high + 1 for a in node.bound)
    most = int(min(_PARTS if vectors else -(-_PARTS // results), work // PART_WORK, extent, rows // _PART_ROWS))
    asked = machine.choices.parts
    if asked is not None:
        return min(asked, extent)
    good = [n for n in range(2, most + 1) if extent % n == 0]
    return good[-1] if good and good[-1] * 3 >= most else most


def partial_uses(scratch: int) -> Uses:
    """What so many bytes of scratch of a tracer are for."""
    return (("partial results of reductions", scratch),) if scratch else ()


def partial_jobs(tracer: Tracer) -> list[Job]:
    """The stores of partial results; those that can be computed together in one job."""
    jobs: list[Job] = []
    behind: set[object] = set()
    for partial in tracer.partials:
        store = tracer.node("store", partial.value.type, (partial.value,), index=partial.index, slot=partial.slot)
        needs = {n.slot for n in closure([partial.value]) if n.kind == "load"}
        atoms = list(partial.atoms)
        if jobs and jobs[-1].atoms == atoms and not needs & behind:
            jobs[-1].stores.append(store)
        else:
            jobs.append(Job(tracer, [store], atoms))
            behind = set()
        behind.add(partial.slot)
    return jobs
