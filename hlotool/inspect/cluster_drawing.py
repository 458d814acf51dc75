"""A partition as a drawing: clusters in frames, in the order in which they run, what falls back in red.

What is compiled is drawn one by one in small graphs only, and else as one box for each cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import graphviz

from hlotool.analysis.clusters import Node, Part, Partition
from hlotool.inspect.colours import GROUPS
from hlotool.inspect.labels import short
from hlotool.inspect.render import HOW_TO_GET_DOT, NoPicture, find_dot, picture
from hlotool.ir import UnsupportedError
from hlotool.text.visible import visible

__all__ = ["draw_clusters", "draw_clusters_svg"]

_FONT = "Helvetica,Arial,sans-serif"
_COMPILED, _FALLBACK = GROUPS["control"].light, GROUPS["unknown"].light


def draw_clusters(partition: Partition, most: int = 200) -> str:
    """The DOT text; a cluster of more operations than `most` is one box with their number."""
    graph = graphviz.Digraph(
        name="clusters",
        graph_attr={
            "rankdir": "TB", "fontname": _FONT, "fontsize": "12", "labelloc": "t", "bgcolor": "white",
            "label": f"<<b>{escape(partition.report().headline)}</b>>",
        },
        node_attr={
            "shape": "box", "style": "filled,rounded", "fontname": _FONT, "fontsize": "10", "color": "#8a8a8a",
            "fillcolor": "white", "margin": "0.09,0.045", "height": "0.25",
        },
        edge_attr={"color": "#666666", "arrowsize": "0.6"},
    )  # fmt: skip
    boxes: dict[str, str] = {}
    clusters = 0
    for number, part in enumerate(partition.parts):
        clusters += part.compiled
        if part.compiled and part.operations > most:
            name = f"part{number}"
            boxes.update({node.name: name for node in part.nodes})
            words = f"<b>cluster {clusters}</b><br/>{part.operations} ops"
            graph.node(name, label=f"<{words}>", fillcolor=_COMPILED)
        else:
            _frame(graph, f"cluster {clusters}" if part.compiled else "falls back", number, part, boxes)
    for source, target in _edges(partition.nodes, boxes):
        graph.edge(source, target)
    return visible(graph.source)


def draw_clusters_svg(partition: Partition, most: int = 200, seconds: float = 60.0) -> bytes:
    """The picture, by Graphviz's ``dot``; UnsupportedError where it is not installed, or makes none in that time."""
    dot = find_dot()
    if dot is None:
        raise UnsupportedError(f"drawing clusters as SVG needs the program dot: {HOW_TO_GET_DOT}")
    try:
        return picture(dot, draw_clusters(partition, most), "svg", seconds)
    except NoPicture as problem:
        raise UnsupportedError(f"no picture of the clusters: {problem}") from None


def _frame(graph: Any, words: str, number: int, part: Part, boxes: dict[str, str]) -> None:
    fill = _COMPILED if part.compiled else _FALLBACK
    with graph.subgraph(name=f"cluster_{number}") as frame:
        frame.attr(label=words, style="filled,rounded", color=fill, fillcolor="#fafafa", fontname=_FONT, fontsize="11")
        for position, node in enumerate(part.nodes):
            name = f"part{number}_{position}"
            boxes[node.name] = name
            lines = [f"<b>{escape(short(node.op))}</b>", escape(short(node.name)), escape(short(node.where))]
            if node.reason:
                lines.append(f"<i>{escape(short(node.reason))}</i>")
            tip = "\n".join(filter(None, (node.name, node.where, node.reason)))
            label = "<" + "<br/>".join(filter(None, lines)) + ">"
            frame.node(name, label=label, fillcolor=fill, tooltip=graphviz.escape(tip))


def _edges(nodes: Iterable[Node], boxes: dict[str, str]) -> Iterable[tuple[str, str]]:
    """Edges between boxes, each once."""
    found: dict[tuple[str, str], None] = {}
    for node in nodes:
        for name in node.inputs:
            if name in boxes and boxes[name] != boxes[node.name]:
                found[boxes[name], boxes[node.name]] = None
    return found
