"""Where a sharding comes from: the chain of values from an annotation on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from hlotool.analysis.decision_codes import code_of
from hlotool.analysis.decisions import DecisionLog
from hlotool.inspect.select import find_instruction
from hlotool.ir import InputError, Instruction, Module
from hlotool.ir.sharding import Sharding
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.propagation import Propagation, name_of
from hlotool.passes.sharding.sharding_propagation import RULE_OF_WAY, ShardingPropagation, propagate, why_kept

__all__ = ["CutValue", "ShardingOrigin", "Way", "explain_sharding"]

_PASS = ShardingPropagation.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a value got a sharding: what came from `source` by the instruction `by`, with what there was before."""

    code: str
    rule: str
    sharding: str
    source: str
    by: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutValue:
    """A value, its sharding (None: nothing gives it one), and the ways by which that came; `why` where by none."""

    name: str
    shape: str
    sharding: str | None
    instruction: Instruction
    ways: tuple[Way, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class ShardingOrigin:
    """The values of an instruction, then all that their shardings came from, nearest first; and what does not fit to
    them, in words."""

    values: tuple[CutValue, ...]
    conflicts: tuple[str, ...]


def explain_sharding(module: Module, name: str) -> ShardingOrigin:
    """Where the sharding of the instruction `name` comes from, by `sharding-propagation`, which changes the module.

    InputError when there is no such instruction.
    """
    known = [i.name for i in module.instructions()]
    plain = name.rpartition("/")[2].lstrip("%")
    _, propagation = propagate(module, DecisionLog())
    there = [i for i in module.instructions() if plain in i.origins] if plain in known else []
    gone = there and all(i.name != plain for i in module.instructions())
    chosen = there if gone else [find_instruction(module, name)]
    if propagation is None:
        why = "the module has no annotation"
        leaves = [(one, leaf) for one in chosen for leaf in one.shape.leaves()]
        rows = [CutValue(name=i.name, shape=str(s), sharding=None, instruction=i, why=why) for i, s in leaves]
        return ShardingOrigin(tuple(rows), ())
    if any(one.parent not in propagation.graph.computations for one in chosen):
        raise InputError(f"{name} is in a computation that is applied to elements: it has no sharding")
    start = [node for one in chosen for node in propagation.graph.nodes(one)]
    places = {propagation.graph.node(*place): place for one in chosen for place in _places(one)}
    values = tuple(_chain(propagation, dict.fromkeys(start), places))
    return ShardingOrigin(values, tuple(_conflicts(propagation, start)))


def _places(one: Instruction) -> list[tuple[Instruction, int]]:
    return [(one, n) for n, _ in enumerate(one.shape.leaves())]


def _chain(
    propagation: Propagation, start: dict[int, None], places: dict[int, tuple[Instruction, int]]
) -> Iterator[CutValue]:
    """The values of nodes, and of those that they came from, each once."""
    graph, seen, queue = propagation.graph, set(start), deque(start)
    while queue:
        node = queue.popleft()
        one, leaf = places.get(node, graph.places[node])
        steps = propagation.steps.get(node, ())
        ways = tuple(
            Way(
                code=code_of(_PASS, "rewrite", RULE_OF_WAY[step.edge.way]),
                rule=RULE_OF_WAY[step.edge.way],
                sharding=str(step.sharding),
                source=name_of(graph.places[step.source]),
                by=step.edge.via.name,
                level=step.edge.level,
            )
            for step in steps
        )
        sharding = propagation.found.get(node)
        shape = str(graph.shapes[node])
        found = str(sharding) if sharding is not None else None
        yield CutValue(
            name=name_of((one, leaf)), shape=shape, sharding=found, instruction=one, ways=ways,
            why=_why(propagation, node, one, sharding, len(ways)),
        )  # fmt: skip
        for step in steps:
            if step.source not in seen:
                seen.add(step.source)
                queue.append(step.source)


def _why(propagation: Propagation, node: int, one: Instruction, sharding: Sharding | None, ways: int) -> str:
    if sharding is None:
        return "nothing gives it a sharding: the partitioner chooses"
    annotated = next((i for i, _ in propagation.graph.members[node] if "sharding" in i.attributes), None)
    if node in propagation.given and annotated is not None:
        return "annotated" if annotated is one else f"as {annotated.name}, which is annotated"
    return "" if ways else why_kept(one, node, propagation.graph)


def _conflicts(propagation: Propagation, nodes: Sequence[int]) -> Iterator[str]:
    graph = propagation.graph
    for conflict in propagation.conflicts():
        if conflict.node in nodes or conflict.source in nodes:
            target, source = name_of(graph.places[conflict.node]), name_of(graph.places[conflict.source])
            code = code_of(_PASS, "refuse", "conflict")
            yield f"{code} {target} has {propagation.found[conflict.node]}, {source} would have {conflict.offered}"
