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
from hlotool.inspect.svg import count_words
from hlotool.ir import Instruction, Module
from hlotool.text.visible import visible

__all__ = ["draw", "draw_scene"]

_LARGE_PARAMETER = "#ffb561"
_LARGE_ELEMENTS = 4096
_ROOT, _CONTROL, _PLAIN_EDGE = "#6d4c41", "#3f8f6b", "#666666"
_FONT = "Helvetica,Arial,sans-serif"
_BOX_FILLS = ("#f4faf6", "#e9f4ee")
_BOX_LEGENDS = ("loop, branch or call around what it runs", "the same, inside another one")
_LEGEND_SIZE = "9"


def draw(module: Module, changed: Collection[Instruction] = ()) -> str:
    """The DOT text of a module.  Instructions in `changed` get a red outline."""
    return draw_scene(build_scene(module), changed)


def draw_scene(
    scene: Scene,
    changed: Collection[Instruction] = (),
    heat: Mapping[Instruction, float] | None = None,
    *,
    fills: Mapping[Instruction, tuple[str, str]] | None = None,
    changed_as: str = "new or changed",
    heat_as: str = "",
) -> str:
    """The DOT text of a scene.

    `heat` gives colours by amount (bytes, flops, seconds) instead of by opcode, `fills` a colour for each instruction
    with its words in the legend.  `changed_as` and `heat_as` say in the
    legend what red outlines and amounts are.
    """
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
    drawer = _Drawer(scene, frozenset(changed), heat, fills or {})
    for box in scene.root.children:
        drawer.box(graph, box, 0)
    drawer.legend(graph, changed_as, heat_as)
    # An edge written inside a box would pull its far end into the box.
    drawer.draw_edges(graph)
    return visible(graph.source)  # names and strings may hold what XML, and so SVG, forbids


class _Drawer:
    """Writes the boxes and edges of a scene."""

    def __init__(
        self,
        scene: Scene,
        changed: frozenset[Instruction],
        heat: Mapping[Instruction, float] | None,
        fills: Mapping[Instruction, tuple[str, str]],
    ) -> None:
        self.scene, self.changed, self.heat, self.fills = scene, changed, heat, fills
        top = scene.root.computation
        self.result = top.root if top is not None else None
        self.used: dict[str, str] = {}  # words of the legend -> colour, as boxes were filled
        self.outlines: set[str] = set()
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
        outline = self.outline(instruction)
        style = {"tooltip": graphviz.escape(tooltip(instruction)), "fontsize": "10"}
        style["penwidth"] = "2" if outline else "1"
        if instruction.opcode == "fusion":
            return style | {
                "label": _heading(instruction.name, str(instruction.attributes.get("kind", ""))), "labeljust": "l",
                "fontcolor": "#222222", "fillcolor": self.fill(instruction), "color": outline or "#9a9a9a",
            }  # fmt: skip
        return style | {
            "label": _heading(title(instruction), instruction.name), "fillcolor": self.around(depth),
            "color": outline or _CONTROL, "fontcolor": "#2b6b4d",
        }  # fmt: skip

    def node(self, graph: Any, box: Box) -> None:
        instruction = box.instruction
        if instruction is None:
            graph.node(_node(box), label=graphviz.escape(box.title))
            return
        if box.kind == "value" and box.title and not self.fills:
            light = self.use(GROUPS["constant"].light, GROUPS["constant"].legend)
            graph.node(_node(box), label=graphviz.escape(box.title), fillcolor=light, tooltip=instruction.name)
            return
        style = {"fillcolor": self.fill(instruction)}
        if outline := self.outline(instruction):
            style |= {"color": outline, "penwidth": "2"}
        if instruction is self.result:
            style["peripheries"] = "2"
        if instruction.opcode in ("while", "conditional"):
            style["shape"] = "ellipse"
        if box.cut:
            style["style"] = "filled,rounded,dashed"
        graph.node(_node(box), label=label(instruction), tooltip=graphviz.escape(tooltip(instruction)), **style)

    def outline(self, instruction: Instruction) -> str:
        """The colour of what is around an instruction that is more than one of many; else empty."""
        if instruction in self.changed:
            self.outlines.add(CHANGED)
            return CHANGED
        if instruction is self.result:
            self.outlines.add(_ROOT)
            return _ROOT
        return ""

    def fill(self, instruction: Instruction) -> str:
        if self.heat is not None:
            part = self.heat.get(instruction, 0.0) / self.most if self.most else 0.0
            return heat_colour(min(1.0, part) ** 0.5)
        if instruction in self.fills:
            return self.use(*self.fills[instruction])
        shape = instruction.shape
        if instruction.opcode == "parameter" and shape.is_array and shape.size >= _LARGE_ELEMENTS:
            return self.use(_LARGE_PARAMETER, f"parameter of {_LARGE_ELEMENTS:,} elements or more")
        group = GROUPS[instruction.info.group]
        return self.use(group.light, group.legend)

    def around(self, depth: int) -> str:
        """The fill of a box around a loop, branch or call."""
        return self.use(_BOX_FILLS[depth % 2], _BOX_LEGENDS[depth % 2])

    def use(self, colour: str, words: str) -> str:
        self.used.setdefault(words, colour)
        return colour

    def legend(self, graph: Any, changed_as: str, heat_as: str) -> None:
        """A table of the colours that were used."""
        if self.heat is not None:
            amount = f"{count_words(self.most)} {heat_as}".strip()
            for fraction in (0.0, 0.25, 0.5, 1.0):
                colour = heat_colour(fraction)
                self.used[f"{fraction * fraction:.0%} of {amount}" if fraction < 1 else amount] = colour
        boxed = 'border="1" color="#8a8a8a"'
        rows = [_legend_row(words, f'bgcolor="{colour}" {boxed}') for words, colour in self.used.items()]
        for colour, words in ((CHANGED, changed_as), (_ROOT, "result")):
            if colour in self.outlines:
                rows.append(_legend_row(words, f'border="2" color="{colour}"'))
        kinds = {edge.kind for edge in self.scene.edges}
        for kind, line, words in (("control", "· · ·", "control dependency"), ("next", "- - -", "next iteration")):
            if kind in kinds:
                colour = _PLAIN_EDGE if kind == "control" else _CONTROL
                rows.append(_legend_row(words, 'border="0"', f'<font color="{colour}">{line}</font>'))
        if not rows:
            return
        table = f'<<table border="0" cellborder="0" cellspacing="2" cellpadding="2">{"".join(rows)}</table>>'
        with graph.subgraph(name="cluster legend") as inside:
            inside.attr(label="legend", style="rounded", color="#cccccc", fontcolor="#5f5f5f", fontsize="9")
            inside.node("legend of colours", label=table, shape="plain", style="")

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


def _legend_row(words: str, cell: str, inside: str = "") -> str:
    return (
        f'<tr><td {cell} width="18" height="12" fixedsize="{"false" if inside else "true"}">{inside}</td>'
        f'<td align="left"><font point-size="{_LEGEND_SIZE}">{escape(words)}</font></td></tr>'
    )


def _heading(words: str, name: str) -> str:
    """Two words as a label; DOT takes no element without contents."""
    strong = f"<b>{escape(short(words))}</b>" if words else ""
    weak = f'<font color="#5f5f5f">{escape(short(name))}</font>' if name else ""
    return f"<{strong}  {weak}>" if strong or weak else ""


def _node(box: Box) -> str:
    """The name of the node of a box; a colon would begin a port."""
    return box.path.replace(":", "\N{MODIFIER LETTER COLON}")
