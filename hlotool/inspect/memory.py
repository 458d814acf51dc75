"""The buffer plan of a compiled module: as text, and as a picture of offsets over time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from html import escape

from hlotool.codegen.kernel import Uses
from hlotool.codegen.plan.buffers import ALIASES
from hlotool.codegen.plan.values import Assignment, Value
from hlotool.display import shown_by
from hlotool.inspect.svg import byte_words
from hlotool.ir import Instruction, Module
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass
from hlotool.text.sources import Sources

__all__ = [
    "Buffer", "BufferPlan", "buffer_plan", "live_bytes", "peak_buffers", "peak_position", "plan_picture", "plan_text",
    "step_at",
]  # fmt: skip

_MOST_DRAWN = 1500
_WIDTH, _HEIGHT, _LEFT, _TOP = 1160, 460, 76, 10
_GROUPS = {"temporary": 0, "scratch": 0, "output": 1, "parameter": 2, "constant": 3}


@dataclass(frozen=True, slots=True)
class Buffer:
    """One piece of storage: `kind` is ``temporary`` or ``scratch`` (in the arena, at `offset`), ``output``,
    ``parameter`` or ``constant``; `start` and `end` are positions on the time line, `names` the instructions whose
    results, or leaves of them (NAME{1}), are there, or are a part of it, or which the scratch belongs to.

    `touches` are the instructions that read or write it, with their positions; `uses` says what scratch is for.
    `op_name` and `source` are those of the first instruction that has them, `line` that of the first in the HLO text.
    """

    number: int
    kind: str
    size: int
    offset: int | None
    start: int
    end: int
    names: tuple[str, ...]
    shape: str
    uses: Uses = ()
    touches: tuple[tuple[int, str], ...] = ()
    op_name: str = ""
    source: str = ""
    line: int | None = None

    def __repr__(self) -> str:
        return f"Buffer('{one_line(self.title)}', {self.kind}, {self.size:,} bytes, {self.start}..{self.end})"

    @property
    def title(self) -> str:
        """What to call it."""
        if self.kind == "scratch":
            return f"scratch of {self.names[0]}"
        return self.names[0] if self.names else f"{self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """All buffers in order of time, the instructions by position, and the bytes of the arena."""

    buffers: tuple[Buffer, ...]
    steps: tuple[tuple[int, str], ...]
    arena_bytes: int

    def __repr__(self) -> str:
        words = f"{len(self.buffers)} buffers, {len(self.steps)} steps, {self.arena_bytes:,} bytes in the arena"
        return f"BufferPlan({words})"

    _repr_html_ = shown_by("plan_html")

    @property
    def end(self) -> int:
        return max((buffer.end for buffer in self.buffers), default=0)


def buffer_plan(assignment: Assignment, module: Module) -> BufferPlan:
    """What buffer assignment decided for `module`."""
    held: dict[Value, dict[Instruction, str]] = {}
    for instruction, values in assignment.leaves.items():
        for number, value in enumerate(values):
            name = instruction.name if len(values) == 1 else f"{instruction.name}{{{number}}}"
            held.setdefault(value.storage(), {}).setdefault(instruction, name)
    touches = _touches(assignment)
    sources = Sources(module)
    results = {value.storage(): f"result {number}" for number, value in enumerate(assignment.outputs)}
    found = []
    for value in dict.fromkeys(value.storage() for value in assignment.values):
        start = value.intervals[0][0] if value.intervals else 0
        end = value.intervals[-1][1] if value.intervals else start
        owner, uses = assignment.scratches.get(value, (None, ()))
        called = held.get(value, {}) if owner is None else {owner: owner.name}
        instructions, names = list(called), tuple(called.values()) or tuple(filter(None, [results.get(value)]))
        places = (sources.of(instruction) for instruction in instructions)
        place = next(filter(None, places), None)
        op_names = (i.metadata.op_name for i in instructions if i.metadata is not None)
        lines = (i.location.line for i in instructions if i.location is not None)
        found.append(
            Buffer(
                value.number, "scratch" if owner is not None else _kind(value), value.size, value.offset, start, end,
                names, str(value.shape) if value.shape is not None else "scratch", uses,
                tuple(touches.get(value, ())), next(filter(None, op_names), ""),
                f"{place.file}:{place.line}" if place is not None else "", next(lines, None),
            )
        )  # fmt: skip
    found.sort(key=lambda buffer: (_GROUPS[buffer.kind], buffer.start, buffer.offset or 0, buffer.number))
    return BufferPlan(tuple(found), tuple(_steps(assignment.positions)), assignment.arena_bytes)


def _touches(assignment: Assignment) -> dict[Value, list[tuple[int, str]]]:
    """The instructions that read or write each piece of storage, in order."""
    found: dict[Value, list[tuple[int, str]]] = {}
    for instruction, position in sorted(assignment.positions.items(), key=lambda item: item[1]):
        if instruction.opcode in ALIASES or instruction in assignment.views:
            continue
        near = [instruction, *instruction.operands]
        values = (value.storage() for one in near for value in assignment.leaves.get(one, ()))
        for value in dict.fromkeys(values):
            found.setdefault(value, []).append((position, instruction.name))
    return found


def _kind(value: Value) -> str:
    if value.parameter is not None:
        return "parameter"
    if value.constant is not None:
        return "constant"
    return "output" if value.output is not None else "temporary"


def _steps(positions: dict[Instruction, int]) -> Iterable[tuple[int, str]]:
    return sorted((position, instruction.name) for instruction, position in positions.items())


# ---- text


def plan_text(plan: BufferPlan) -> str:
    """The plan as a table, and what is alive when the arena is fullest."""
    live = live_bytes(plan)
    peak = max((amount for _, amount in live), default=0)
    lines = [
        f"arena: {plan.arena_bytes} bytes, of which {peak} are in use at most",
        f"{'buffer':>8}  {'kind':9}  {'bytes':>12}  {'offset':>12}  {'from':>6}  {'to':>6}  shape, instructions",
    ]
    for b in plan.buffers:
        offset = "" if b.offset is None else str(b.offset)
        lines.append(
            f"{b.number:>8}  {b.kind:9}  {b.size:>12}  {offset:>12}  {b.start:>6}  {b.end:>6}  "
            f"{b.shape}  {', '.join(b.names)}"
        )
    lines += ["", "largest buffers when the arena is fullest:"]
    lines += [f"{b.size:>12}  {b.shape}  {', '.join(b.names[:4])}" for b in peak_buffers(plan)[:20]]
    lines += ["", "time line:", *(f"{position:>8}  {name}" for position, name in plan.steps)]
    return "\n".join(lines) + "\n"


def live_bytes(plan: BufferPlan) -> list[tuple[int, int]]:
    """(position, bytes of the arena in use from there on), where that changes."""
    changes: dict[int, int] = {}
    for b in _placed(plan):
        changes[b.start] = changes.get(b.start, 0) + b.size
        changes[b.end + 1] = changes.get(b.end + 1, 0) - b.size
    found, now = [], 0
    for position in sorted(changes):
        now += changes[position]
        found.append((position, now))
    return found


def peak_position(plan: BufferPlan) -> int:
    """The first position at which the arena is fullest; 0 where it is empty."""
    return max(live_bytes(plan), key=lambda item: (item[1], -item[0]), default=(0, 0))[0]


def step_at(plan: BufferPlan, position: int) -> str:
    """The instruction that runs at a position, or the last one ahead of it."""
    place = bisect_right(plan.steps, position, key=lambda step: step[0])
    return plan.steps[place - 1][1] if place else ""


def peak_buffers(plan: BufferPlan) -> list[Buffer]:
    """The temporaries that are alive when the arena is fullest, largest first."""
    at = peak_position(plan)
    alive = [b for b in _placed(plan) if b.start <= at <= b.end]
    return sorted(alive, key=lambda b: (-b.size, b.number))


def _placed(plan: BufferPlan) -> list[Buffer]:
    return [b for b in plan.buffers if b.offset is not None]


# ---- picture

_PALETTE = ("#6aa5e3", "#e2a35c", "#7cc08a", "#b38bd6", "#d98ba3", "#8fb8c9", "#c9b458", "#9aa7b5")


def plan_picture(plan: BufferPlan) -> str:
    """An SVG drawing: a rectangle per temporary, live range by offset; below it the bytes in use over time."""
    placed = _placed(plan)
    if not placed:
        return "<p>No temporaries: everything lives in parameters, outputs and constants.</p>"
    drawn = sorted(placed, key=lambda b: (-(b.end - b.start + 1) * b.size, b.number))[:_MOST_DRAWN]
    last = max(b.end for b in placed) + 1
    across, down = _WIDTH / last, _HEIGHT / max(plan.arena_bytes, 1)
    parts = [
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + 10} {_TOP + _HEIGHT + 150}" role="img" '
        f'aria-label="buffers: offset over time">',
        *_grid(plan.arena_bytes, last),
    ]
    for b in sorted(drawn, key=lambda b: (b.offset or 0, b.start)):
        x, y = _LEFT + b.start * across, _TOP + _HEIGHT - ((b.offset or 0) + b.size) * down
        width, height = max(1.5, (b.end - b.start + 1) * across), max(1.0, b.size * down)
        colour = _PALETTE[b.number % len(_PALETTE)]
        place = f"{b.size:,} bytes at {b.offset:,}, {b.start} to {b.end}"
        title = f"{', '.join(b.names[:6]) or b.title}\n{b.shape}: {place}"
        parts.append(f'<g><title>{escape(title)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                     f'height="{height:.1f}" rx="2" fill="{colour}"/>')  # fmt: skip
        name = b.title
        if name and height > 13 and width > 7 * len(name) + 8:
            parts.append(f'<text x="{x + 4:.1f}" y="{y + min(height / 2 + 4, 15):.1f}" '
                         f'style="fill:#15181c">{escape(name)}</text>')  # fmt: skip
        parts.append("</g>")
    parts += _curve(live_bytes(plan), last)
    parts.append("</svg>")
    return "\n".join(parts)


def _grid(arena: int, last: int) -> list[str]:
    parts = []
    for number in range(5):
        y = _TOP + _HEIGHT * (1 - number / 4)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{byte_words(arena * number // 4)}</text>")  # fmt: skip
    for number in range(6):
        x = _LEFT + _WIDTH * number / 5
        parts.append(f'<text class="axis" x="{x:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">'
                     f"{last * number // 5}</text>")  # fmt: skip
    return parts


def _curve(live: Sequence[tuple[int, int]], last: int) -> list[str]:
    """The bytes in use, as a filled step line."""
    top, height = _TOP + _HEIGHT + 36, 96
    most = max((amount for _, amount in live), default=0) or 1
    points = [f"{_LEFT},{top + height}"]
    y = float(top + height)
    for position, amount in live:
        x = _LEFT + position * _WIDTH / last
        points.append(f"{x:.1f},{y:.1f}")
        y = top + height * (1 - amount / most)
        points.append(f"{x:.1f},{y:.1f}")
    points.append(f"{_LEFT + _WIDTH},{y:.1f} {_LEFT + _WIDTH},{top + height}")
    return [
        f'<polygon class="level" points="{" ".join(points)}"/>',
        f'<text class="axis" x="{_LEFT - 6}" y="{top + 8}" text-anchor="end">{byte_words(most)}</text>',
        f'<text class="axis" x="{_LEFT - 6}" y="{top + height}" text-anchor="end">in use</text>',
    ]
