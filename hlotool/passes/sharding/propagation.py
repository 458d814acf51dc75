"""From the shardings that are given to those of all other values: carried along the edges of a graph to a fixed point.

Levels are gone through in order (`hlotool.passes.sharding.factors`), each until nothing changes; within one, what is
near to an annotation is reached before what is far, and where two are as near, large arrays speak before small ones.  A
sharding that arrives where there is one already refines it, if both fit together; else the first one stays.  What is
given stays as it is, but along dimensions that are left open.  Every refinement multiplies the number of tiles, so the
work is that of the edges times the logarithm of the number of devices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from hlotool.ir import Instruction
from hlotool.ir.sharding import Sharding
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.sharding.factors import LEVELS
from hlotool.passes.sharding.graph import Edge, Graph
from hlotool.passes.sharding.projection import restricted, unite

__all__ = ["Conflict", "Propagation", "Step"]


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
        order = range(len(self.graph.edges))
        for level in LEVELS:
            seeds = [node for node in order if node in self.found]
            seeds.sort(key=lambda node: -self.graph.shapes[node].byte_size)
            self._spread(level, seeds)

    def conflicts(self) -> list[Conflict]:
        """The edges whose ends do not fit together: what is moved between devices there."""
        rows: list[Conflict] = []
        for node, edges in enumerate(self.graph.edges):
            mine = self.found.get(node)
            for edge in edges if mine is not None else ():
                theirs = self.found.get(edge.target)
                if theirs is None or edge.way not in ("operand", "group"):
                    continue
                offered = edge.carry(mine)
                if offered is not None and unite(offered, theirs) is None:
                    rows.append(Conflict(edge.target, node, edge, offered))
        return rows

    def _spread(self, level: int, seeds: Sequence[int]) -> None:
        queue = deque(seeds)
        waiting = set(seeds)
        while queue:
            node = queue.popleft()
            waiting.discard(node)
            for edge in self.graph.edges[node]:
                if edge.level > level:
                    continue
                offered = edge.carry(self.found[node])
                if offered is not None and self._offer(node, edge, offered) and edge.target not in waiting:
                    waiting.add(edge.target)
                    queue.append(edge.target)

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
