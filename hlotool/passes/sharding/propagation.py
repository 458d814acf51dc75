"""From the shardings that are given to those of all other values: carried along the edges of a graph to a fixed point.

Levels are gone through in order (`hlotool.passes.sharding.factors`), each until nothing changes: as far as results
follow from operands, in program order, then as far as operands follow from results, the last first, and so on.  A
sharding that arrives where there is one already refines it, if both fit together; else the first one stays.  What is
given stays as it is, but along dimensions that are left open.  Every refinement multiplies the number of tiles, so the
work is that of the edges times the logarithm of the number of devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from hlotool.ir import Instruction
from hlotool.ir.sharding import Sharding
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.factors import LEVELS
from hlotool.passes.sharding.graph import Edge, Graph
from hlotool.passes.sharding.projection import restricted, unite

__all__ = ["Conflict", "Propagation", "Step", "name_of"]

_FORWARD = frozenset({"operand", "manual", "group", "beside"})
_BACKWARD = frozenset({"user", "group"})


@dataclass(frozen=True, slots=True)
class Step:
    """A node got `sharding`: what came from `source` by `edge`, with what it had before."""

    sharding: Sharding
    source: int
    edge: Edge


@dataclass(frozen=True, slots=True)
class Conflict:
    """What `source` would have a node have by `edge`, and its own sharding, do not go together."""

    node: int
    source: int
    edge: Edge
    offered: Sharding


class _Sweep:
    """Nodes that are to look again at what comes to them in some ways: in program order (`step` 1), or the last first.

    A node looks at what changed, in the order of the instructions by which it comes.
    """

    def __init__(self, ways: frozenset[str], step: int, level: int, graph: Graph) -> None:
        self.ways, self.level, self.graph = ways, level, graph
        self.queue: list[int] = []
        self._step = step
        self._changed: dict[int, dict[int, tuple[int, Edge]]] = {}  # target -> number of an edge -> source, edge

    def changed(self, source: int) -> None:
        """The node `source` has another sharding."""
        for number, edge in self.graph.edges[source]:
            if edge.level > self.level or edge.way not in self.ways:
                continue
            waiting = self._changed.setdefault(edge.target, {})
            if not waiting:
                heappush(self.queue, self._step * edge.target)
            waiting[number] = source, edge

    def pop(self) -> list[tuple[int, Edge]]:
        """What the next node is to look at: sources and edges."""
        found = self._changed.pop(self._step * heappop(self.queue))
        return [found[number] for number in sorted(found)]


class Propagation:
    """The shardings of the nodes of a graph.

    `given` are those that stay, `hints` those that may be refined; `opened` has, of given ones, the dimensions that may
    be cut further.  `run` fills `found` and `steps`.
    """

    def __init__(
        self,
        graph: Graph,
        given: Mapping[int, Sharding],
        hints: Mapping[int, Sharding],
        opened: Mapping[int, Sequence[int]],
    ) -> None:
        self.graph = graph
        self.given = given
        self.opened = opened
        self.found: dict[int, Sharding] = {**hints, **given}
        self.steps: dict[int, list[Step]] = {}

    def run(self) -> None:
        for level in LEVELS:
            self._spread(level)

    def conflicts(self) -> list[Conflict]:
        """The edges whose ends do not fit together: what is moved between devices there."""
        rows: list[Conflict] = []
        for node, edges in enumerate(self.graph.edges):
            mine = self.found.get(node)
            if mine is None:
                continue
            for _, edge in edges:
                theirs = self.found.get(edge.target)
                if theirs is None or edge.way not in ("operand", "group"):
                    continue
                offered = edge.carry(mine)
                if offered is not None and unite(offered, theirs) is None:
                    rows.append(Conflict(edge.target, node, edge, offered))
        return rows

    def _spread(self, level: int) -> None:
        """All that follows at a level: as far as results follow from operands, then as far as the other way."""
        sweeps = [_Sweep(_FORWARD, 1, level, self.graph), _Sweep(_BACKWARD, -1, level, self.graph)]
        for node in self.found:
            for sweep in sweeps:
                sweep.changed(node)
        while any(sweep.queue for sweep in sweeps):
            for sweep in sweeps:
                while sweep.queue:
                    for source, edge in sweep.pop():
                        offered = edge.carry(self.found[source])
                        if offered is not None and self._offer(source, edge, offered):
                            for other in sweeps:
                                other.changed(edge.target)

    def _offer(self, source: int, edge: Edge, offered: Sharding) -> bool:
        """Whether the target of the edge got another sharding."""
        node = edge.target
        if node in self.given and node not in self.opened:
            return False
        before = self.found.get(node)
        after = offered if before is None else _refined(before, offered)
        if after == before or not self._may_have(node, after):
            return False
        self.found[node] = after
        self.steps.setdefault(node, []).append(Step(after, source, edge))
        return True

    def _may_have(self, node: int, after: Sharding) -> bool:
        given = self.given.get(node)
        if given is None:
            return True
        if not given.is_tiled:
            return after.is_tiled and all(d in self.opened[node] for d in after.split_dimensions)
        pairs = zip(given.tiles, after.tiles, strict=True)
        return all(a == b or d in self.opened[node] for d, (a, b) in enumerate(pairs))


def _refined(before: Sharding, offered: Sharding) -> Sharding:
    """Both, or as many dimensions of what is offered as go together with what there was."""
    whole = unite(before, offered)
    if whole is not None:
        return whole
    if not (before.is_tiled and offered.is_tiled):
        return before
    after = before
    for dimension in offered.split_dimensions if len(offered.split_dimensions) > 1 else ():
        after = unite(after, restricted(offered, (dimension,))) or after
    return after


def name_of(place: tuple[Instruction, int]) -> str:
    """``while.3`` or, of a leaf of a tuple, ``while.3{2}``."""
    one, leaf = place
    return f"{one.name}{{{leaf}}}" if one.shape.is_tuple else one.name
