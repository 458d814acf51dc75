"""What was compiled of PyTorch's programs, what runs eagerly instead, and why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from hlotool.analysis.clusters import Partition
from hlotool.frontends.programs import Program
from hlotool.inspect.cluster_drawing import draw_clusters, draw_clusters_svg
from hlotool.lazy_dataclass import dataclass

__all__ = ["Explanation", "Fallback", "Graph", "clear", "explain", "record", "reports"]

_MOST = 10_000  # graphs that are remembered, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Operations of one kind that run eagerly: how many, why, and where the user wrote them."""

    operation: str
    reason: str
    count: int
    where: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that came in: its record, with times, and how it was cut into clusters."""

    program: Program
    partition: Partition

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """What runs eagerly, by operation and reason."""
        rows = self.partition.report().fallbacks
        return tuple(Fallback(operation=r.op, reason=r.reason, count=r.count, where=r.where) for r in rows)

    def dot(self, most: int = 200) -> str:
        """The clusters as a drawing, as DOT text; one with more than `most` operations is one box."""
        return draw_clusters(self.partition, most)

    def svg(self, most: int = 200) -> bytes:
        """The same as a picture; UnsupportedError where Graphviz is not installed."""
        return draw_clusters_svg(self.partition, most)

    def __str__(self) -> str:
        program = self.program
        took = f"compiled in {program.compile_seconds:.3g} s"
        return f"{program.name} {program.signature}: {took}\n  " + self.partition.report().text().replace("\n", "\n  ")


_GRAPHS: deque[Graph] = deque(maxlen=_MOST)


def record(graph: Graph) -> None:
    """Remember a graph for `explain`."""
    _GRAPHS.append(graph)


def clear() -> None:
    """Forget all graphs."""
    _GRAPHS.clear()


def reports() -> tuple[Graph, ...]:
    """The graphs that came in, oldest first."""
    return tuple(_GRAPHS)


class Explanation:
    """The graphs of this process; its text is what people read."""

    __slots__ = ("graphs",)

    def __init__(self, graphs: tuple[Graph, ...]) -> None:
        self.graphs = graphs

    def __iter__(self) -> Iterator[Graph]:
        return iter(self.graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    def as_json(self) -> list[dict[str, Any]]:
        """All graphs for ``json.dumps``."""
        return [
            graph.program.as_json()
            | {
                "fallbacks": [
                    {"operation": f.operation, "reason": f.reason, "count": f.count, "where": list(f.where)}
                    for f in graph.fallbacks
                ]
            }
            for graph in self.graphs
        ]

    def __str__(self) -> str:
        if not self.graphs:
            return "no graph has come in yet"
        texts = []
        for text, same in groupby(map(str, self.graphs)):
            count = len(list(same))
            texts.append(text if count == 1 else f"{count} times: {text}")
        return "\n".join(texts)

    __repr__ = __str__


def explain() -> Explanation:
    """What became of every graph that PyTorch handed over in this process."""
    return Explanation(reports())
