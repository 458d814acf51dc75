"""Scenes as data for the pages: compact JSON in which what several stages have in common is written once.

The data is ``{"strings": [...], "records": [[...], ...], "stages": [...]}``.  A record describes a box and the edges
that end at it (`FIELDS` names its places; words are numbers of strings).  A stage lists its boxes as runs of record
numbers, outer boxes first, and says what changed since the stage before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.traffic import shape_bytes
from hlotool.inspect.labels import label_of, plain_text, shape_text, short
from hlotool.inspect.scene import Box, Edge, Scene
from hlotool.ir import Instruction
from hlotool.text.printer import print_shape
from hlotool.text.sources import Sources

__all__ = ["FIELDS", "Records"]

FIELDS = (
    "path", "parent", "kind", "group", "title", "name", "arguments", "shape", "details", "text", "layout", "source",
    "op_name", "origins", "computation", "shown", "opcode", "bytes", "flops", "moved", "seconds", "error",
    "compared", "flags", "edges",
)  # fmt: skip
"""`bytes` is the size of the value, `moved` what is read and written; -1 where unknown.  `flags` add up: 1 root,
2 cut, 4 a lower bound.  `edges` is flat: source path, kind, element, operand number for each."""

_EDGE_KINDS = {"data": 0, "control": 1, "next": 2}
_NUMBERS = frozenset({"bytes", "flops", "moved", "seconds", "error", "flags", "edges"})


@dataclass(slots=True)
class Records:
    """Collects stages.  `seconds` are measured times by computation and instruction name; `errors` how many bits of a
    value are wrong, and what a comparison says of it."""

    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    errors: Mapping[Instruction, tuple[float, str]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)
    known: dict[tuple[Any, ...], int] = field(default_factory=dict)
    stages: list[dict[str, Any]] = field(default_factory=list)

    def add(self, scene: Scene, name: str, marked: Collection[Instruction] = (), **notes: Any) -> None:
        """Add a stage; `marked` are instructions that are new or changed."""
        costs = ModuleCost(scene.module)
        sources = Sources(scene.module)
        entering: dict[Box, list[int]] = {}
        for edge in scene.edges:
            entering.setdefault(edge.target, []).extend(self.edge(edge))
        numbers = []
        for box in scene.root.walk():
            row = self.row(box, costs, sources)
            row["edges"] = tuple(entering.get(box, ()))
            record = tuple(row[key] if key in _NUMBERS else self.word(row[key]) for key in FIELDS)
            numbers.append(self.known.setdefault(record, len(self.known)))
        wanted = set(marked)
        changed = [self.word(box.path) for box in scene.root.walk() if box.instruction in wanted]
        self.stages.append({"name": name, "boxes": _runs(numbers), "marked": changed, **notes})

    def add_listing(self, name: str, text: str, **notes: Any) -> None:
        """Add a stage that is a text: code, or a table."""
        self.stages.append({"name": name, "boxes": [], "marked": [], "listing": text, **notes})

    @property
    def last_drawing(self) -> int:
        """The place of the last stage with boxes."""
        return max((place for place, stage in enumerate(self.stages) if "listing" not in stage), default=0)

    def data(self) -> dict[str, Any]:
        """What the page gets."""
        return {
            "fields": FIELDS,
            "strings": list(self.strings),
            "records": list(self.known),
            "stages": self.stages,
        }

    def word(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def edge(self, edge: Edge) -> tuple[int, int, int, int]:
        return self.word(edge.source.path), _EDGE_KINDS[edge.kind], self.word(edge.element), edge.operand

    def row(self, box: Box, costs: ModuleCost, sources: Sources) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(FIELDS, "")
        row |= {
            "path": box.path, "parent": box.parent.path if box.parent is not None else "", "kind": box.kind,
            "shown": box.shown, "bytes": -1, "flops": 0, "moved": 0, "seconds": 0.0, "error": 0.0,
            "flags": 2 * box.cut,
        }  # fmt: skip
        instruction = box.instruction
        if instruction is not None:
            self.describe(row, box, instruction, costs, sources)
            return row
        row["title"], row["group"] = box.title, box.kind
        cost = None
        if box.computation is not None:
            row["name"] = box.computation.name
            cost = costs.computation(box.computation)
        else:
            row["details"] = _contents(box)
        held = [one.instruction for one in box.children if one.instruction is not None]
        if cost is None:
            inner = [one for one in box.walk() if one.instruction is not None and _is_outermost(one, box)]
            held = [one.instruction for one in inner if one.instruction is not None]
            row["flops"] = sum(costs.of(one).flops + costs.of(one).transcendentals for one in held)
            row["moved"] = sum(costs.of(one).bytes for one in held)
        else:
            row["flops"], row["moved"] = cost.flops + cost.transcendentals, cost.bytes
            row["flags"] = 4 * bool(cost.unknown + cost.loops)
        row["seconds"] = sum(map(self.time, held))
        return row

    def describe(
        self, row: dict[str, Any], box: Box, instruction: Instruction, costs: ModuleCost, sources: Sources
    ) -> None:
        if box.kind == "value" and box.title:
            row |= {"title": box.title, "group": "constant", "name": instruction.name, "opcode": "constant"}
            row["shape"] = row["layout"] = shape_text(instruction.shape)
            return
        words, cost = label_of(instruction), costs.of(instruction)
        place = sources.of(instruction)
        metadata = instruction.metadata
        body = f"{len(box.computation)} instructions" if box.computation is not None else ""
        row |= {
            "group": instruction.info.group, "title": words.title, "name": words.name, "arguments": words.arguments,
            "shape": words.shape, "details": words.details or body, "text": plain_text(instruction),
            "layout": short(print_shape(instruction.shape, index_comments=False), 400),
            "source": f"{place.file}:{place.line}" if place is not None else "",
            "op_name": metadata.op_name if metadata is not None else "",
            "origins": ",".join(instruction.origins),
            "computation": instruction.parent.name if instruction.parent is not None else "",
            "opcode": instruction.written, "flops": cost.flops + cost.transcendentals, "moved": cost.bytes,
            "seconds": self.time(instruction),
        }  # fmt: skip
        row["error"], row["compared"] = self.errors.get(instruction, (0.0, ""))
        size = shape_bytes(instruction.shape)
        row["bytes"] = -1 if size is None else size
        row["flags"] += instruction.is_root + 4 * bool(cost.unknown + cost.loops)

    def time(self, instruction: Instruction) -> float:
        home = instruction.parent.name if instruction.parent is not None else ""
        return self.seconds.get((home, instruction.name), 0.0)


def _is_outermost(box: Box, scope: Box) -> bool:
    """Whether no instruction between `box` and `scope` holds it already."""
    parent = box.parent
    while parent is not None and parent is not scope:
        if parent.instruction is not None:
            return False
        parent = parent.parent
    return True


def _contents(scope: Box) -> str:
    """The commonest opcodes in a scope: ``dot ×4, add ×3``."""
    counts = Counter(box.instruction.opcode for box in scope.walk() if box.instruction is not None)
    counts.pop("parameter", None)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]
    return ", ".join(f"{opcode} ×{count}" if count > 1 else opcode for opcode, count in most)


def _runs(numbers: list[int]) -> list[int]:
    """Numbers as (first, count) pairs of rising runs, flat."""
    runs: list[int] = []
    for number in numbers:
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return runs
