"""Drawings: a scene as a Graphviz graph.

Every instruction is a box coloured by the group of its opcode, or by how much it costs.  Node names are the paths of
the scene, so the same module gives the same text, and a node keeps its name from step to step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape
from typing import Any

import graphviz

from hlotool.inspect.colours import CHANGED, GROUPS, heat_colour
from hlotool.inspect.labels import label, shape_text, short, title, tooltip
from hlotool.inspect.scene import Box, Scene, build_scene
from hlotool.ir import Instruction, Module
from hlotool.text.visible import visible

__all__ = ["draw", "draw_scene"]

_LARGE_PARAMETER = "#ffb561"
_LARGE_ELEMENTS = 4096
_ROOT, _CONTROL, _PLAIN_EDGE = "#6d4c41", "#3f8f6b", "#666666"
_FONT = "Helvetica,Arial,sans-serif"
_BOX_FILLS = ("#f4faf6", "#e9f4ee")


def draw(module: Module, changed: Collection[Instruction] = ()) -> str:
    """The DOT text of a module.  Instructions in `changed` get a red outline."""
    return draw_scene(build_scene(module), changed)


def draw_scene(
    scene: Scene, changed: Collection[Instruction] = (), heat: Mapping[Instruction, float] | None = None
) -> str:
    """The DOT text of a scene.  `heat` gives colours by amount (bytes, flops, seconds) instead of by opcode."""
    module = scene.module
    graph = graphviz.Digraph(
        name=module.name,
        graph_attr={
            "rankdir": "TB", "fontname": _FONT, "fontsize": "12", "label": f"<<b>{escape(module.name)}</b>>",
            "labelloc": "t", "nodesep": "0.22", "ranksep": "0.32", "bgcolor": "white",
        },
        node_attr={
            "shape": "box", "style": "filled,rounded", "fontname": _FONT, "fontsize": "10", "fillcolor": "white",
            "color": "#8a8a8a", "margin": "0.09,0.045", "height": "0.25", "width": "0.4",
        },
        edge_attr={
            "color": _PLAIN_EDGE, "arrowsize": "0.6", "fontname": _FONT, "fontsize": "8", "fontcolor": "#7a4b00",
        },
    )  # fmt: skip
    drawer = _Drawer(scene, frozenset(changed), heat)
    for box in scene.root.children:
        drawer.box(graph, box, 0)
    # An edge written inside a box would pull its far end into the box.
    drawer.draw_edges(graph)
    return visible(graph.source)  # names and strings may hold what XML, and so SVG, forbids


class _Drawer:
    """Writes the boxes and edges of a scene."""

    def __init__(self, scene: Scene, changed: frozenset[Instruction], heat: Mapping[Instruction, float] | None) -> None:
        self.scene, self.changed, self.heat = scene, changed, heat
        self.most = 0.0
        if heat is not None:
            shown = (box.instruction for box in scene.root.walk() if not box.children and box.instruction is not None)
            self.most = max((heat.get(one, 0.0) for one in shown), default=0.0)
        self.ends = {box for edge in scene.edges for box in (edge.source, edge.target)}

    def box(self, graph: Any, box: Box, depth: int) -> None:
        """A node, or a cluster around what a box holds, with a node of its own where edges end at the box."""
        if not box.children:
            self.node(graph, box)
            return
        with graph.subgraph(name=f"cluster_{_node(box)}") as inside:
            inside.attr(style="rounded,filled", **self.cluster(box, depth))
            for child in box.children:
                self.box(inside, child, depth + 1)
            if box in self.ends:
                self.node(inside, box)

    def cluster(self, box: Box, depth: int) -> dict[str, str]:
        instruction = box.instruction
        if instruction is None:
            heading = _heading(box.title, box.computation.name if box.computation is not None else "")
            return {
                "label": heading, "fillcolor": "white", "color": "#9cc9b3", "fontcolor": "#2b6b4d", "fontsize": "9",
            }  # fmt: skip
        outline = CHANGED if instruction in self.changed else _ROOT if instruction.is_root else ""
        style = {"tooltip": graphviz.escape(tooltip(instruction)), "fontsize": "10"}
        style["penwidth"] = "2" if outline else "1"
        if instruction.opcode == "fusion":
            return style | {
                "label": _heading(instruction.name, str(instruction.attributes.get("kind", ""))), "labeljust": "l",
                "fontcolor": "#222222", "fillcolor": self.fill(instruction), "color": outline or "#9a9a9a",
            }  # fmt: skip
        return style | {
            "label": _heading(title(instruction), instruction.name), "fillcolor": _BOX_FILLS[depth % 2],
            "color": outline or _CONTROL, "fontcolor": "#2b6b4d",
        }  # fmt: skip

    def node(self, graph: Any, box: Box) -> None:
        instruction = box.instruction
        if instruction is None:
            graph.node(_node(box), label=graphviz.escape(box.title))
            return
        if box.kind == "value" and box.title:
            light = GROUPS["constant"].light
            graph.node(_node(box), label=graphviz.escape(box.title), fillcolor=light, tooltip=instruction.name)
            return
        style = {"fillcolor": self.fill(instruction)}
        if instruction.is_root:
            style |= {"color": _ROOT, "penwidth": "2"}
            if instruction.parent is self.scene.module.entry:
                style["peripheries"] = "2"
        if instruction in self.changed:
            style |= {"color": CHANGED, "penwidth": "2"}
        if instruction.opcode in ("while", "conditional"):
            style["shape"] = "ellipse"
        if box.cut:
            style["style"] = "filled,rounded,dashed"
        graph.node(_node(box), label=label(instruction), tooltip=graphviz.escape(tooltip(instruction)), **style)

    def fill(self, instruction: Instruction) -> str:
        if self.heat is not None:
            part = self.heat.get(instruction, 0.0) / self.most if self.most else 0.0
            return heat_colour(min(1.0, part) ** 0.5)
        shape = instruction.shape
        if instruction.opcode == "parameter" and shape.is_array and shape.size >= _LARGE_ELEMENTS:
            return _LARGE_PARAMETER
        return GROUPS[instruction.info.group].light

    def draw_edges(self, graph: Any) -> None:
        for edge in self.scene.edges:
            style = {"tooltip": graphviz.escape(f"{edge.value.name} {shape_text(edge.value.shape)}")}
            if edge.kind == "control":
                style = {"style": "dotted", "tooltip": "control dependency"}
            elif edge.kind == "next":
                style = {"style": "dashed", "color": _CONTROL, "constraint": "false", "tooltip": "next iteration"}
            if edge.operand >= 0:
                style["headlabel"] = f" {edge.operand} "
            if edge.element:
                style["taillabel"] = f" {edge.element} "
            graph.edge(_node(edge.source), _node(edge.target), **style)


def _heading(words: str, name: str) -> str:
    """Two words as a label; DOT takes no element without contents."""
    strong = f"<b>{escape(short(words))}</b>" if words else ""
    weak = f'<font color="#5f5f5f">{escape(short(name))}</font>' if name else ""
    return f"<{strong}  {weak}>" if strong or weak else ""


def _node(box: Box) -> str:
    """The name of the node of a box; a colon would begin a port."""
    return box.path.replace(":", "\N{MODIFIER LETTER COLON}")
