"""Drawings: a module as a Graphviz graph.

Every instruction is a box coloured by the group of its opcode.  A fusion is a box around its body; so are the
computations of loops, branches and calls, drawn where they are first called.  Small constants are written into their
users, and a get-tuple-element is the number on an edge.  Node names are made of computation and instruction names, so
the same module gives the same text, and a node keeps its name from step to step.
"""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from typing import Any, NamedTuple

import graphviz

from hlotool.inspect.labels import inline_value, is_word, label, shape_text, short, title, tooltip
from hlotool.ir import Computation, Instruction, Module

__all__ = ["GROUP_COLOURS", "draw"]

GROUP_COLOURS = {
    "elementwise": "#ffffff",
    "broadcast": "#fff0b3",
    "data-movement": "#d3efd3",
    "dot": "#aecbf0",
    "linalg": "#aecbf0",
    "reduction": "#dfcbf2",
    "sort": "#dfcbf2",
    "gather": "#dfcbf2",
    "rng": "#f7cfe0",
    "control": "#a9dcc3",
    "custom": "#a9dcc3",
    "fusion": "#e8e8e8",
    "parameter": "#ffd6a5",
    "constant": "#ededed",
    "tuple": "#ededed",
    "collective": "#e3c8ac",
    "feed": "#e3c8ac",
}
"""Fill colour by the opcode table's group; a group that is not here is white."""

_LARGE_PARAMETER = "#ffb561"
_LARGE_ELEMENTS = 4096
_CHANGED, _ROOT, _CONTROL, _PLAIN_EDGE = "#c62828", "#6d4c41", "#3f8f6b", "#666666"
_DEEPEST = 12
_FONT = "Helvetica,Arial,sans-serif"
_BOX_FILLS = ("#f4faf6", "#e9f4ee")


class _End(NamedTuple):
    """Where an edge starts: a node, and the number of the tuple element that it carries."""

    node: str
    element: str = ""


def draw(module: Module, changed: Collection[Instruction] = ()) -> str:
    """The DOT text of a module.  Instructions in `changed` get a red outline."""
    heading = f"<<b>{escape(module.name)}</b>>"
    graph = graphviz.Digraph(
        name=module.name,
        graph_attr={
            "rankdir": "TB", "fontname": _FONT, "fontsize": "12", "label": heading, "labelloc": "t",
            "nodesep": "0.22", "ranksep": "0.32", "bgcolor": "white",
        },
        node_attr={
            "shape": "box", "style": "filled,rounded", "fontname": _FONT, "fontsize": "10", "fillcolor": "white",
            "color": "#8a8a8a", "margin": "0.09,0.045", "height": "0.25", "width": "0.4",
        },
        edge_attr={
            "color": _PLAIN_EDGE, "arrowsize": "0.6", "fontname": _FONT, "fontsize": "8", "fontcolor": "#7a4b00",
        },
    )  # fmt: skip
    drawer = _Drawer(frozenset(changed), module.entry)
    drawer.computation(graph, module.entry, module.entry.name, 0)
    # An edge written inside a box would pull its far end into the box.
    for tail, head, style in drawer.edges:
        graph.edge(tail, head, **style)
    return str(graph.source)


class _Drawer:
    """Draws the nodes of computations into graphs and collects the edges.

    `drawn` holds the path of every computation that has its box already; `ends` where edges from an instruction start
    if not at a node of its own.
    """

    def __init__(self, changed: frozenset[Instruction], entry: Computation) -> None:
        self.changed, self.entry = changed, entry
        self.edges: list[tuple[str, str, dict[str, str]]] = []
        self.ends: dict[tuple[str, Instruction], _End] = {}
        self.drawn: dict[Computation, str] = {}

    def computation(self, graph: Any, computation: Computation, path: str, depth: int) -> None:
        """Draw what a computation holds into `graph`; `path` makes node names unique."""
        self.drawn.setdefault(computation, path)
        for instruction in computation:
            if inline_value(instruction) is not None or self.is_element(instruction):
                continue
            body = instruction.attributes.get("calls")
            if instruction.opcode == "fusion" and isinstance(body, Computation) and self.may_draw(body, depth):
                self.fusion(graph, instruction, body, path, depth)
            else:
                self.instruction(graph, instruction, path, depth)

    def may_draw(self, computation: Computation, depth: int) -> bool:
        """Whether to draw a computation here: bodies that call nothing anywhere, the others once and not too deep."""
        nested = any(not is_word(one, c) for one in computation for c in one.called)
        return depth < _DEEPEST and not (nested and computation in self.drawn)

    # ---- instructions

    def instruction(self, graph: Any, instruction: Instruction, path: str, depth: int) -> None:
        node = f"{path}/{instruction.name}"
        boxes = [(key, c) for key, c in _called(instruction) if not is_word(instruction, c)]
        fresh = [(key, c) for key, c in boxes if c not in self.drawn and depth < _DEEPEST]
        if fresh:
            with graph.subgraph(name=f"cluster_{node}") as box:
                box.attr(
                    label=f"<{_heading(title(instruction), instruction.name)}>", style="rounded,filled",
                    fillcolor=_BOX_FILLS[depth % 2], color=_CHANGED if instruction in self.changed else _CONTROL,
                    fontcolor="#2b6b4d", fontsize="10", tooltip=graphviz.escape(tooltip(instruction)),
                )  # fmt: skip
                for key, callee in fresh:
                    self.callee(box, instruction, key, callee, path, depth)
                self.node(box, instruction, node)
        else:
            self.node(graph, instruction, node)
        for key, callee in boxes:
            self.result(key, callee, node)
        entered = {number for key, callee in fresh for _, number in _entering(instruction, key, callee)}
        self.operands(instruction, entered, path, node)
        for before in instruction.control_predecessors:
            style = {"style": "dotted", "tooltip": "control dependency"}
            self.edges.append((self.end(before, path).node, node, style))

    def node(self, graph: Any, instruction: Instruction, node: str) -> None:
        style = {"fillcolor": GROUP_COLOURS.get(instruction.info.group, "#ffffff")}
        if instruction.opcode == "parameter" and instruction.shape.is_array:
            style["fillcolor"] = _LARGE_PARAMETER if instruction.shape.size >= _LARGE_ELEMENTS else style["fillcolor"]
        if instruction.is_root:
            style |= {"color": _ROOT, "penwidth": "2"}
            if instruction.parent is self.entry:
                style["peripheries"] = "2"
        if instruction in self.changed:
            style |= {"color": _CHANGED, "penwidth": "2"}
        if instruction.opcode in ("while", "conditional"):
            style["shape"] = "ellipse"
        graph.node(node, label=label(instruction), tooltip=graphviz.escape(tooltip(instruction)), **style)

    def operands(self, instruction: Instruction, entered: Collection[int], path: str, node: str) -> None:
        """Edges from the operands, but for those that enter a box; numbered where their order matters."""
        operands = [(number, o) for number, o in enumerate(instruction.operands) if number not in entered]
        drawn = [(number, o) for number, o in operands if inline_value(o) is None]
        ordered = len(drawn) > 1 and not instruction.has("commutative") and instruction.opcode != "tuple"
        for number, operand in drawn:
            self.edge(operand, path, node, {"headlabel": f" {number} "} if ordered else {})

    def edge(self, operand: Instruction, path: str, node: str, style: dict[str, str]) -> None:
        end = self.end(operand, path)
        style = {"tooltip": graphviz.escape(f"{operand.name} {shape_text(operand.shape)}"), **style}
        if end.element:
            style["taillabel"] = f" {end.element} "
        self.edges.append((end.node, node, style))

    def end(self, operand: Instruction, path: str) -> _End:
        """The node that an edge from `operand` starts at."""
        found = self.ends.get((path, operand))
        if found is not None:
            return found
        if self.is_element(operand):
            whole = self.end(operand.operands[0], path)
            inner = self.ends.get((whole.node, operand.operands[0]))
            number = operand.attributes["index"]
            return inner or _End(whole.node, f"{whole.element}.{number}")
        return _End(f"{path}/{operand.name}")

    def is_element(self, instruction: Instruction) -> bool:
        """A get-tuple-element that is only the number on an edge."""
        return instruction.opcode == "get-tuple-element" and not instruction.is_root and bool(instruction.users)

    # ---- boxes

    def callee(self, box: Any, caller: Instruction, key: str, callee: Computation, path: str, depth: int) -> None:
        """The box of a computation of a loop, branch or call, with edges from the values that enter it."""
        inner = f"{path}/{caller.name}/{key}"
        with box.subgraph(name=f"cluster_{inner}") as inside:
            inside.attr(
                label=f"<{_heading(key, callee.name)}>", style="rounded,filled", fillcolor="white", color="#9cc9b3",
                fontcolor="#2b6b4d", fontsize="9",
            )  # fmt: skip
            self.computation(inside, callee, inner, depth + 1)
        for parameter, number in _entering(caller, key, callee):
            operand = caller.operands[number]
            if inline_value(operand) is None:
                self.edge(operand, path, f"{inner}/{parameter.name}", {"color": _CONTROL})
        if key == "body":
            style = {"style": "dashed", "color": _CONTROL, "constraint": "false", "tooltip": "next iteration"}
            self.edges.append((self.end(callee.root, inner).node, f"{inner}/{callee.parameters[0].name}", style))

    def result(self, key: str, callee: Computation, node: str) -> None:
        """The edge from a called computation to its caller."""
        inner = self.drawn.get(callee)
        if inner is None:
            return
        here = inner == f"{node}/{key}"
        style = {"color": _CONTROL, "tooltip": f"{key} {callee.name}", "style": "dashed"}
        if not here:
            style |= {"style": "dotted", "constraint": "false"}
        self.edges.append((self.end(callee.root, inner).node, node, style))

    def fusion(self, graph: Any, fusion: Instruction, body: Computation, path: str, depth: int) -> None:
        """A box with the body of a fusion.  Its parameters are not drawn: their users hang on the operands."""
        node = f"{path}/{fusion.name}"
        for parameter, operand in zip(body.parameters, fusion.operands, strict=True):
            if inline_value(operand) is None:
                self.ends[node, parameter] = self.end(operand, path)
            else:
                self.ends[node, parameter] = _End(f"{node}/{parameter.name}")
        self.drawn.setdefault(body, node)
        root = body.root
        parts = root.operands if root.opcode == "tuple" and _read_by_elements(fusion) else []
        kind = str(fusion.attributes.get("kind", ""))
        with graph.subgraph(name=f"cluster_{node}") as box:
            outline = _CHANGED if fusion in self.changed else _ROOT if fusion.is_root else "#9a9a9a"
            box.attr(
                label=f"<{_heading(fusion.name, kind)}>", labeljust="l", style="rounded,filled", fontsize="10",
                fontcolor="#222222",
                fillcolor=GROUP_COLOURS["fusion"], color=outline, tooltip=graphviz.escape(tooltip(fusion)),
                penwidth="2" if fusion in self.changed or fusion.is_root else "1",
            )  # fmt: skip
            for instruction in body:
                hidden = inline_value(instruction) is not None or self.is_element(instruction)
                if hidden or (parts and instruction is root):
                    continue
                if instruction.opcode != "parameter":
                    self.instruction(box, instruction, node, depth + 1)
                elif self.ends[node, instruction].node == f"{node}/{instruction.name}" or instruction.is_root:
                    self.value_of_parameter(box, instruction, fusion, node)
        self.ends[path, fusion] = self.end(root, node)
        if parts:
            for user in fusion.users:
                self.ends[path, user] = self.end(parts[user.attributes["index"]], node)

    def value_of_parameter(self, box: Any, parameter: Instruction, fusion: Instruction, node: str) -> None:
        """A fusion's parameter that has no edge to hang on: it reads a small constant, or it is the result."""
        operand = fusion.operands[parameter.parameter_number]
        name = f"{node}/{parameter.name}"
        value = inline_value(operand)
        box.node(name, label=value or label(parameter), fillcolor=GROUP_COLOURS["constant"], tooltip=parameter.name)
        if value is None:
            self.edges.append((self.ends[node, parameter].node, name, {}))
        self.ends[node, parameter] = _End(name)


def _heading(title_: str, name: str) -> str:
    return f'<b>{escape(short(title_))}</b>  <font color="#5f5f5f">{escape(short(name))}</font>'


def _read_by_elements(fusion: Instruction) -> bool:
    """Whether every reader takes one element of the fusion's tuple."""
    return not fusion.is_root and all(u.opcode == "get-tuple-element" and not u.is_root for u in fusion.users)


def _called(instruction: Instruction) -> list[tuple[str, Computation]]:
    """Called computations under the words that tell them apart."""
    found = []
    for key, value in instruction.attributes.items():
        if isinstance(value, Computation):
            found.append((key.removesuffix("_computation").replace("to_apply", "computation"), value))
        elif isinstance(value, tuple) and value and isinstance(value[0], Computation):
            found += [(f"branch {number}", c) for number, c in enumerate(value)]
    return found


def _entering(caller: Instruction, key: str, callee: Computation) -> list[tuple[Instruction, int]]:
    """(parameter, operand number) pairs of a computation that is entered with its caller's operands."""
    if caller.opcode in ("while", "call"):
        return [(parameter, number) for number, parameter in enumerate(callee.parameters)]
    if caller.opcode == "conditional":
        branch = {"true": 0, "false": 1}.get(key)
        return [(callee.parameters[0], 1 + (int(key.split()[1]) if branch is None else branch))]
    return []
