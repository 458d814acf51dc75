"""Scenes as data for the pages: compact JSON in which what several stages have in common is written once.

The data is ``{"strings": [...], "records": [[...], ...], "stages": [...]}``.  A record describes a box and the edges
that end at it (`FIELDS` names its places; words are numbers of strings).  A stage lists its boxes as runs of record
numbers, outer boxes first, and says what changed since the stage before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.decision_codes import KINDS
from hlotool.analysis.decisions import Decision
from hlotool.analysis.traffic import shape_bytes
from hlotool.inspect.contents import amount_words, contents, heaviest_group, outermost, parameter_scope, strip_readers
from hlotool.inspect.labels import label_of, plain_text, shape_text, short
from hlotool.inspect.node_reasons import node_reasons
from hlotool.inspect.scene import Box, Edge, Scene
from hlotool.inspect.sharding_colours import sharding_words
from hlotool.inspect.svg import byte_words
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_shape
from hlotool.text.sources import Sources

__all__ = ["FIELDS", "Records"]

FIELDS = (
    "path", "parent", "kind", "group", "title", "name", "arguments", "shape", "details", "inner", "text", "layout",
    "source", "op_name", "origins", "computation", "shown", "opcode", "bytes", "flops", "moved", "seconds", "error",
    "compared", "sharding", "flags", "edges",
)  # fmt: skip
"""`bytes` is the size of the value, `moved` what is read and written; -1 where unknown.  `flags` add up: 1 result,
2 cut, 4 a lower bound.  `inner` is the group of opcodes that most of the work in a box is.  `edges` is flat: source
path, kind, element, operand number for each."""

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
    parameters: Mapping[Box, Collection[str]] = field(default_factory=dict)
    codes: set[str] = field(default_factory=set)
    result: Instruction | None = None

    def add(
        self,
        scene: Scene,
        name: str,
        marked: Collection[Instruction] = (),
        decisions: Iterable[Decision] = (),
        **notes: Any,
    ) -> None:
        """Add a stage; `marked` are instructions that are new or changed, `decisions` led to the module."""
        costs = ModuleCost(scene.module)
        self.result = scene.root.computation.root if scene.root.computation is not None else None
        sources = Sources(scene.module)
        self.parameters = strip_readers(scene)
        entering: dict[Box, list[int]] = {}
        for edge in scene.edges:
            entering.setdefault(edge.target, []).extend(self.edge(edge))
        leaving = _leaving_scopes(scene)
        numbers = []
        for box in scene.root.walk():
            row = self.row(box, costs, sources, leaving)
            row["edges"] = tuple(entering.get(box, ()))
            record = tuple(row[key] if key in _NUMBERS else self.word(row[key]) for key in FIELDS)
            numbers.append(self.known.setdefault(record, len(self.known)))
        wanted = set(marked)
        changed = [self.word(box.path) for box in scene.root.walk() if box.instruction in wanted]
        stage = {"name": name, "boxes": _runs(numbers), "marked": changed, **notes}
        if reasons := self.reasons(scene, decisions):
            stage["reasons"] = reasons
        self.stages.append(stage)

    def reasons(self, scene: Scene, decisions: Iterable[Decision]) -> list[list[Any]]:
        """Path, line and details (code, words) of the boxes that there are reasons for."""
        found = node_reasons(scene.module, decisions)
        rows: list[list[Any]] = []
        for box in scene.root.walk() if found else ():
            reason = found.get(box.instruction) if box.instruction is not None else None
            if reason is not None and box.kind == "instruction":
                self.codes.update(code for code, _ in reason.details)
                details = [self.word(word) for pair in reason.details for word in pair]
                rows.append([self.word(box.path), self.word(reason.line), details])
        return rows

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
            "codes": {code: [KINDS[code].title, KINDS[code].meaning] for code in sorted(self.codes) if code in KINDS},
        }

    def word(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def edge(self, edge: Edge) -> tuple[int, int, int, int]:
        return self.word(edge.source.path), _EDGE_KINDS[edge.kind], self.word(edge.element), edge.operand

    def row(
        self, box: Box, costs: ModuleCost, sources: Sources, leaving: Mapping[Box, dict[Instruction, None]]
    ) -> dict[str, Any]:
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
            row["details"] = self.summary(box, costs)
            row["inner"] = heaviest_group(box, costs) if box.kind != "strip" else "parameter"
            row["name"] = parameter_scope(box, self.parameters)
            row["shape"] = _leaving(leaving.get(box, ()))
        held = [one.instruction for one in box.children if one.instruction is not None]
        if cost is None:
            held = list(outermost(box))
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
        if box.children:
            body = contents(box) or body
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
        row["inner"] = heaviest_group(box, costs) if instruction.opcode == "fusion" else ""
        row["sharding"] = sharding_words(instruction)
        row["error"], row["compared"] = self.errors.get(instruction, (0.0, ""))
        size = shape_bytes(instruction.shape)
        row["bytes"] = -1 if size is None else size
        row["flags"] += (instruction is self.result) + 4 * bool(cost.unknown + cost.loops)

    def summary(self, box: Box, costs: ModuleCost) -> str:
        """What is in a scope, a part or a strip of parameters."""
        if box.kind != "strip":
            words = contents(box)
            return words if " · " in box.title else " · ".join(filter(None, (words, amount_words(box, costs))))
        sizes = [shape_bytes(one.shape) for one in outermost(box)]
        return f"{len(sizes)}, {byte_words(sum(size or 0 for size in sizes))} in all"

    def time(self, instruction: Instruction) -> float:
        home = instruction.parent.name if instruction.parent is not None else ""
        return self.seconds.get((home, instruction.name), 0.0)


def _leaving_scopes(scene: Scene) -> dict[Box, dict[Instruction, None]]:
    """The values that leave scopes, in order."""
    found: dict[Box, dict[Instruction, None]] = {}
    for edge in scene.edges:
        box = edge.source.parent
        if edge.kind == "data" and box is not None and box.kind == "scope":
            around = set()
            outer: Box | None = edge.target
            while outer is not None:
                around.add(outer)
                outer = outer.parent
            while box is not None and box not in around:
                if box.kind == "scope":
                    found.setdefault(box, {})[edge.value] = None
                box = box.parent
    return found


def _leaving(values: Collection[Instruction]) -> str:
    """What is written on a scope about the values that leave it."""
    if len(values) <= 1:
        return "".join(short(shape_text(one.shape)) for one in values)
    return f"{len(values)} values, {byte_words(sum(shape_bytes(one.shape) or 0 for one in values))}"


def _runs(numbers: list[int]) -> list[int]:
    """Numbers as (first, count) pairs of rising runs, flat."""
    runs: list[int] = []
    for number in numbers:
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return runs
