"""Small pictures without Graphviz: the outermost boxes of a scene in rows, each above those that read it, as SVG.

Boxes get their row from below (one above the highest of their readers), so that parameters stand close to what reads
them, and go further up where a row is full.  A few sweeps then order every row by the mean place of its neighbours,
and the boxes of a row move towards that place as far as their neighbours let them: the steps of Sugiyama, Tagawa and
Toda (1981) in their simplest form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from hlotool.inspect.colours import GROUPS
from hlotool.inspect.labels import label_of, short
from hlotool.inspect.scene import Box, Scene
from hlotool.inspect.svg import escaped
from hlotool.lazy_dataclass import dataclass

__all__ = ["outer_boxes", "sketch"]

_FULL = 6  # boxes in a row
_HIGH, _GAP, _BESIDE, _BORDER = 38, 34, 18, 10
_LETTER, _LONGEST = 6.4, 26
_SWEEPS = 4


@dataclass(slots=True, eq=False)
class _Node:
    """What stands at a place: a box, or (without one) the bend of an edge that crosses its row."""

    box: Box | None
    row: int
    lines: tuple[str, str] = ("", "")
    x: float = 0.0
    above: list[_Node] = field(default_factory=list)
    below: list[_Node] = field(default_factory=list)

    @property
    def width(self) -> float:
        return 8.0 if self.box is None else 18 + _LETTER * max(map(len, self.lines))


def outer_boxes(scene: Scene) -> list[Box]:
    """The boxes that a sketch shows."""
    return scene.root.children


def sketch(scene: Scene) -> str:
    """The picture; its cost grows with the product of boxes and rows, so that it is for some dozens of boxes."""
    boxes = outer_boxes(scene)
    edges = _outer_edges(scene, boxes)
    rows = _rows(boxes, edges)
    nodes = {box: _Node(box, rows[box], _words(box)) for box in boxes}
    paths = [_path(nodes[source], nodes[target]) for source, target in edges]
    bends = [node for path in paths for node in path if node.box is None]
    levels: list[list[_Node]] = [[] for _ in range(1 + max(rows.values(), default=0))]
    for node in [*nodes.values(), *bends]:
        levels[node.row].append(node)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for level in levels if downwards else reversed(levels):
            _order(level, (lambda node: node.above) if downwards else (lambda node: node.below))
    width = max((sum(node.width + _BESIDE for node in level) for level in levels), default=0.0)
    for level in levels:
        _spread(level, width, lambda node: ())
    for _ in range(_SWEEPS):
        for level in (*levels, *reversed(levels)):
            _spread(level, width, lambda node: (*node.above, *node.below))
    return _svg(scene, levels, paths, width)


def _outer_edges(scene: Scene, boxes: Sequence[Box]) -> list[tuple[Box, Box]]:
    """Edges between outermost boxes, each once; none leads from a box to itself or against the order."""
    outer: dict[Box, Box] = {inner: box for box in boxes for inner in box.walk()}
    place = {box: number for number, box in enumerate(boxes)}
    found: dict[tuple[Box, Box], None] = {}
    for edge in scene.edges:
        source, target = outer.get(edge.source), outer.get(edge.target)
        if source is not None and target is not None and place[source] < place[target]:
            found[source, target] = None
    return list(found)


def _rows(boxes: Sequence[Box], edges: Sequence[tuple[Box, Box]]) -> Mapping[Box, int]:
    """The row of every box, counted from the top."""
    readers: dict[Box, list[Box]] = {box: [] for box in boxes}
    for source, target in edges:
        readers[source].append(target)
    level: dict[Box, int] = {}
    count: dict[int, int] = {}
    for box in reversed(boxes):
        own = 1 + max((level[reader] for reader in readers[box]), default=-1)
        while count.get(own, 0) >= _FULL:
            own += 1
        level[box] = own
        count[own] = count.get(own, 0) + 1
    top = max(level.values(), default=0)
    return {box: top - own for box, own in level.items()}


def _path(source: _Node, target: _Node) -> list[_Node]:
    """Source, a bend in every row between, and target, each linked to the next."""
    path = [source, *(_Node(None, row) for row in range(source.row + 1, target.row)), target]
    for one, other in pairwise(path):
        one.below.append(other)
        other.above.append(one)
    return path


def _order(level: list[_Node], neighbours: Callable[[_Node], Sequence[_Node]]) -> None:
    """Sort a row by the mean place of the neighbours; what has none keeps its place."""
    own = {id(node): float(number) for number, node in enumerate(level)}

    def wanted(node: _Node) -> float:
        near = neighbours(node)
        return sum(one.x for one in near) / len(near) if near else own[id(node)]

    level.sort(key=wanted)
    for number, node in enumerate(level):
        node.x = float(number)


def _spread(level: Sequence[_Node], width: float, neighbours: Callable[[_Node], Sequence[_Node]]) -> None:
    """Put the middles of a row where their neighbours are, one after the other without overlap; at first, centred."""
    if not level:
        return
    together = sum(node.width + _BESIDE for node in level)
    left, places = (width - together) / 2, []
    for node in level:
        near = neighbours(node)
        centred = left + (node.width + _BESIDE) / 2
        places.append(sum(one.x for one in near) / len(near) if near else centred)
        left += node.width + _BESIDE
    start = 0.0
    for number, node in enumerate(level):  # from the left, without leaving the picture
        rest = sum(one.width + _BESIDE for one in level[number:])
        middle = min(max(places[number], start + (node.width + _BESIDE) / 2), width - rest + (node.width + _BESIDE) / 2)
        node.x = middle
        start = middle + (node.width + _BESIDE) / 2


def _words(box: Box) -> tuple[str, str]:
    """The two lines of a box."""
    instruction = box.instruction
    if instruction is None:
        return short(box.title, _LONGEST), ""
    words = label_of(instruction)
    inside = f"{len(box.computation)} inside" if box.computation is not None else words.arguments or words.details
    first = " ".join(filter(None, [words.title, words.name]))
    return short(first, _LONGEST), short(f"{words.shape}  {inside}" if inside else words.shape, _LONGEST)


def _svg(scene: Scene, levels: Sequence[Sequence[_Node]], paths: Sequence[Sequence[_Node]], width: float) -> str:
    high = len(levels) * (_HIGH + _GAP) - _GAP + 2 * _BORDER
    wide = width + 2 * _BORDER
    title = escaped(short(scene.module.name, 80))
    groups = sorted({_group(node.box) for level in levels for node in level if node.box is not None})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hlo-sketch" viewBox="0 0 {wide:.0f} {high}" '
        f'width="{wide:.0f}" height="{high}" role="img" aria-label="{title}" style="max-width:100%;height:auto">',
        f"<style>{_style(groups)}</style>",
    ]
    parts += [_line(path) for path in paths]
    parts += [_box(node) for level in levels for node in level if node.box is not None]
    return "\n".join([*parts, "</svg>\n"])


def _top(node: _Node) -> float:
    return _BORDER + node.row * (_HIGH + _GAP)


def _line(path: Sequence[_Node]) -> str:
    """A curve through the bends of an edge."""
    x, y = path[0].x + _BORDER, _top(path[0]) + _HIGH
    words = [f"M{x:.1f} {y:.1f}"]
    for node in path[1:]:
        to, below = node.x + _BORDER, _top(node)
        half = (below - y) / 2
        words.append(f"C{x:.1f} {y + half:.1f} {to:.1f} {below - half:.1f} {to:.1f} {below:.1f}")
        x, y = to, below
        if node.box is None:
            y += _HIGH
            words.append(f"V{y:.1f}")
    return f'<path class="e" d="{"".join(words)}" fill="none" stroke="#8b93a0"/>'


def _box(node: _Node) -> str:
    assert node.box is not None
    instruction = node.box.instruction
    group = _group(node.box)
    left, top, middle = node.x + _BORDER - node.width / 2, _top(node), node.x + _BORDER
    root = instruction is not None and instruction.is_root
    tip = escaped(short(instruction.name if instruction is not None else node.box.title, 200))
    first, second = (escaped(line) for line in node.lines)
    return (
        f'<g><title>{tip}</title><rect class="{group}{" r" if root else ""}" x="{left:.1f}" y="{top}" rx="6" '
        f'width="{node.width:.1f}" height="{_HIGH}" fill="{GROUPS[group].light}" '
        f'stroke="{"#6d4c41" if root else "#a3a9b3"}" stroke-width="{2 if root else 1}"/>'
        f'<text class="a" x="{middle:.1f}" y="{top + (16 if second else 23)}" text-anchor="middle">{first}</text>'
        f'<text class="b" x="{middle:.1f}" y="{top + 30}" text-anchor="middle">{second}</text></g>'
    )


def _group(box: Box) -> str:
    return "constant" if box.instruction is None else box.instruction.info.group


def _style(groups: Sequence[str]) -> str:
    """The colours as variables: of the system's theme, or of the notebook's where that says what it is.  Light ones
    stand in the elements as well, so that the picture holds without a style."""
    light = "--ink:#1c1f24;--grey:#5d6573;--root:#6d4c41"
    light += "".join(f";--{name}:{GROUPS[name].light}" for name in groups)
    dark = "--ink:#e8eaed;--grey:#b6bdc9;--root:#c8a08f"
    dark += "".join(f";--{name}:{GROUPS[name].dark}" for name in groups)
    return (
        ".hlo-sketch text{font:11px ui-monospace,'Liberation Mono',Menlo,Consolas,monospace;fill:var(--ink)}"
        ".hlo-sketch .a{font-weight:600}.hlo-sketch .b{fill:var(--grey);font-size:10px}"
        ".hlo-sketch .r{stroke:var(--root)}"
        + "".join(f".hlo-sketch .{name}{{fill:var(--{name})}}" for name in groups)
        + f".hlo-sketch{{{light}}}@media (prefers-color-scheme:dark){{.hlo-sketch{{{dark}}}}}"
        f'[data-jp-theme-light="true"] .hlo-sketch{{{light}}}'
        f'[data-jp-theme-light="false"] .hlo-sketch,.vscode-dark .hlo-sketch{{{dark}}}'
    )
