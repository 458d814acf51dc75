"""Long computations of single elements, cut into stages.

A processor looks some hundred instructions ahead, less than a long chain of functions takes for one vector: while it
waits for one, it does not see the next.  So a block of elements goes through a part of the chain in a short loop of its
own, then through the next part; what a later part needs of an earlier one lies in a row on the stack meanwhile, in the
nearest cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Annotated

from hlotool.analysis.indexing import atom_index
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.loops.loops import LoopSpec, weight
from hlotool.codegen.loops.nodes import Node, Row
from hlotool.codegen.loops.trace import Tracer
from hlotool.codegen.machine import Machine
from hlotool.ir import byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["Stage", "block_of", "stages_of"]

BLOCK: Annotated[int, Threshold("elements")] = 1024
"""Elements that go through one stage before the next: so many that beginning and ending a loop hardly count, and so few
that all arrays of a stage are in the nearest cache."""

_STAGE: Annotated[float, Threshold("operations")] = 72.0
"""Cycles of work on a vector that a stage may have."""

_LEAST: Annotated[int, Threshold("elements")] = 1 << 15
"""Elements from which on what stages save is worth compiling them."""

_CROSSING: Annotated[int, Threshold("rows")] = 8
"""Most rows that a later stage may need."""

_AWAY: Annotated[float, Threshold("share")] = 0.3
"""Of the work to be divided, how far from its middle a cut may be."""

_DIVIDER = {"divide": 10.0, "sqrt": 12.0, "remainder": 20.0}
"""Cycles for which the one unit for divisions is busy; where all wait for that nothing else matters."""

_PLAIN = frozenset(["f32", "f64", "s32", "u32", "s64", "u64"])
"""Types that rows have: what a register holds of them is what memory holds."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The nodes of a stage in the order to write them, and those of them that it leaves in rows for later ones."""

    nodes: tuple[Node, ...]
    kept: tuple[Node, ...]


def block_of(machine: Machine) -> int:
    """Elements that go through one stage before the next."""
    return machine.choices.stage_elements or BLOCK


def stages_of(
    tracer: Tracer, scope: Sequence[Node], lane: LoopSpec, machine: Machine
) -> tuple[list[Stage], dict[Node, Node]]:
    """The stages of what `scope` computes in the loop `lane`, and the loads of all rows; none where one stage will do.

    Loads, and what is quickly computed of nothing else, are repeated in every stage; all outputs are written in the
    last one, so that no stage reads what another has overwritten.
    """
    inside = [n for n in scope if n.variables & lane.variables]
    own = [n for n in inside if n.kind not in ("load", "store")]
    work = sum(map(weight, own))
    most = machine.choices.stage_cycles or _STAGE
    block = block_of(machine)
    if work <= most or lane.extent < block or max(n.trips for n in inside) < _LEAST:
        return [], {}
    if 2 * sum(_DIVIDER.get(n.opcode, 0.0) for n in own) > work or any(n.kind in ("reduce", "leaf") for n in own):
        return [], {}
    needs = {n: [i for i in n.inputs if i.variables & lane.variables] for n in inside}
    if any(needs[n] for n in inside if n.kind == "load"):
        return [], {}  # elements that lie where another one says
    steps = [n for n in own if weight(n) > 1 or any(i.kind != "load" for i in needs[n])]
    outputs = [n for n in inside if n.kind == "store"]
    last = {i: k for k, n in enumerate([*steps, *outputs]) for i in needs[n]}
    ends = [*_cuts(steps, last, most), len(steps)]
    rows: dict[Node, Node] = {}
    stages = []
    first = 0
    for end in ends if len(ends) > 1 else []:
        made = steps[first:end]
        nodes = {*made, *(outputs if end == len(steps) else ())}
        wanted = {i for n in nodes for i in needs[n]} - nodes
        nodes |= wanted | {i for n in wanted if n not in rows for i in needs[n]}
        kept = [n for n in made if last[n] >= end] if end < len(steps) else []
        stores = []
        for n in kept:
            slot, index = Row(len(rows), block * byte_size(n.type)), atom_index(lane.atom)
            rows[n] = tracer.node("load", n.type, index=index, slot=slot)
            stores.append(tracer.node("store", n.type, (n,), index=index, slot=slot))
        stages.append(Stage((*sorted(nodes, key=lambda n: n.serial), *stores), tuple(kept)))
        first = end
    return stages, rows


def _cuts(steps: Sequence[Node], last: Mapping[Node, int], most: float) -> list[int]:
    """Before which steps to cut: again and again in two about equal parts at a place that few values cross.

    A step is wanted until number ``last[step]``; parts take `most` cycles, where they can be cut.
    """
    crossing = [0] * (len(steps) + 1)
    for k, n in enumerate(steps):
        cost = 1 if n.type in _PLAIN else _CROSSING + 1
        crossing[k + 1] += cost
        if last[n] + 1 < len(steps):
            crossing[last[n] + 1] -= cost
    crossing = list(accumulate(crossing))
    done = [0.0, *accumulate(map(weight, steps))]
    cuts: list[int] = []
    parts = [(0, len(steps))]
    while parts:
        first, end = parts.pop()
        length = done[end] - done[first]
        if length <= most:
            continue
        away = {k: abs((done[k] - done[first]) / length - 0.5) for k in range(first + 1, end)}
        places = [k for k in away if away[k] <= _AWAY and crossing[k] <= _CROSSING]
        if places:
            cut = min(places, key=lambda k: crossing[k] + 4 * away[k])
            cuts.append(cut)
            parts += [(first, cut), (cut, end)]
    return sorted(cuts)
