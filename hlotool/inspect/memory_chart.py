"""Live ranges as a chart: a bar with its name for each buffer, over time, and the bytes in use above; in SVG and text.

Time counts instructions by twos, those of loop bodies once.  Arguments, results and constants are alive all the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from hlotool.inspect.labels import short
from hlotool.inspect.memory import Buffer, BufferPlan, live_bytes, peak_position, step_at
from hlotool.inspect.svg import byte_words, escaped, picture, text

__all__ = ["charted", "live_range_chart", "live_range_text"]

_COLOURS = {"temporary": "#6aa5e3", "scratch": "#e2a35c", "output": "#7cc08a", "parameter": "#b38bd6",
            "constant": "#9aa7b5"}  # fmt: skip
_WORDS = {"temporary": "temporaries", "scratch": "scratch of kernels", "output": "results", "parameter": "arguments",
          "constant": "constants"}  # fmt: skip
_SIGNS = {"temporary": "█", "scratch": "▓", "output": "▒", "parameter": "░", "constant": "·"}
_LEVELS = " ▁▂▃▄▅▆▇█"


def charted(plan: BufferPlan, limit: int) -> list[Buffer]:
    """The largest `limit` buffers (0: all), in order of their kinds and of time."""
    sized = [buffer for buffer in plan.buffers if buffer.size]
    largest = sorted(sized, key=lambda b: (-b.size, b.number))[: limit or None]
    kept = {buffer.number for buffer in largest}
    return [buffer for buffer in sized if buffer.number in kept]


def live_range_chart(plan: BufferPlan, title: str, limit: int = 60) -> str:
    """An SVG file; ranges and sizes of all bars are in their titles too."""
    rows = charted(plan, limit)
    left, wide, top, curve, row = 290, 620, 64, 90, 18
    width, height = left + wide + 110, top + curve + 40 + row * len(rows) + 46
    last = plan.end + 1
    at = peak_position(plan)

    def across(position: float) -> float:
        return left + wide * position / last

    parts = [text(16, 24, title, "title"), *_legend(rows)]
    parts += _curve(plan, left, wide, top, curve)
    begin = top + curve + 40
    for number in range(6):
        x = left + wide * number / 5
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{begin + row * len(rows)}"/>')
        parts.append(text(x, begin - 8, str(last * number // 5), "axis", "middle"))
    parts.append(text(16, begin - 8, "time, in steps of two", "axis"))
    for number, buffer in enumerate(rows):
        y = begin + row * number
        start, end = _range(buffer, plan)
        long = max(2.0, across(end) - across(start))
        parts.append(
            f"<g><title>{escaped(_words(buffer, plan))}</title>{text(16, y + 13, short(buffer.title, 42))}"
            f'<rect x="{across(start):.1f}" y="{y + 2}" width="{long:.1f}" height="{row - 4}" rx="2" '
            f'fill="{_COLOURS[buffer.kind]}"/>{text(left + wide + 8, y + 13, byte_words(buffer.size), "axis")}</g>'
        )
    if plan.arena_bytes:
        x, bottom = across(at), begin + row * len(rows)
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{bottom}" stroke-width="1.5"/>')
        side = "end" if x > left + wide / 2 else "start"
        words = f"peak, at {short(step_at(plan, at), 50)}"
        parts.append(text(x + (-6 if side == "end" else 6), bottom + 16, words, "marked", side))
    rest = _left_out(plan, rows)
    if rest:
        parts.append(text(16, height - 10, rest, "dim"))
    return picture(width, height, title, parts)


def live_range_text(plan: BufferPlan, limit: int = 20, width: int = 60) -> str:
    """The same in characters: a line for each buffer; ``|`` is where the arena is fullest."""
    rows = charted(plan, limit)
    names = [short(buffer.title, 32) for buffer in rows]
    margin = max([*map(len, names), 6])
    at = min(width - 1, peak_position(plan) * width // (plan.end + 1))
    lines = []
    if plan.arena_bytes:
        lines.append(f"{'in use':>{margin}}  {_level(plan, width)}  {byte_words(_peak(plan))} at most")
    for name, buffer in zip(names, rows, strict=True):
        start, end = (position * width // (plan.end + 1) for position in _range(buffer, plan))
        bar = [" "] * width
        if plan.arena_bytes:
            bar[at] = "|"
        for column in range(start, min(width, max(start + 1, end))):
            bar[column] = _SIGNS[buffer.kind]
        lines.append(f"{name:>{margin}}  {''.join(bar)}  {byte_words(buffer.size)}")
    kinds = dict.fromkeys(buffer.kind for buffer in rows)
    lines.append(f"{'':>{margin}}  {', '.join(f'{_SIGNS[kind]} {_WORDS[kind]}' for kind in kinds)}")
    rest = _left_out(plan, rows)
    return "\n".join([*lines, rest] if rest else lines)


def _range(buffer: Buffer, plan: BufferPlan) -> tuple[int, int]:
    """From when on, and up to when, it is taken."""
    return (buffer.start, buffer.end + 1) if buffer.offset is not None else (0, plan.end + 1)


def _peak(plan: BufferPlan) -> int:
    return max((amount for _, amount in live_bytes(plan)), default=0)


def _level(plan: BufferPlan, width: int) -> str:
    """The bytes in use in every column: the most of its time."""
    most = [0] * width
    live = [*live_bytes(plan), (plan.end + 1, 0)]
    for (start, amount), (end, _) in pairwise(live):
        first = start * width // (plan.end + 1)
        for column in range(first, min(width, max(first, (end - 1) * width // (plan.end + 1)) + 1)):
            most[column] = max(most[column], amount)
    return "".join(_LEVELS[-(-amount * 8 // (_peak(plan) or 1))] for amount in most)


def _legend(rows: Sequence[Buffer]) -> list[str]:
    parts, x = [], 16
    for kind in dict.fromkeys(buffer.kind for buffer in rows):
        parts.append(f'<rect x="{x}" y="36" width="12" height="12" rx="2" fill="{_COLOURS[kind]}"/>')
        parts.append(text(x + 17, 46, _WORDS[kind], "axis"))
        x += 34 + 7 * len(_WORDS[kind])
    return parts


def _curve(plan: BufferPlan, left: float, wide: float, top: float, high: float) -> list[str]:
    """The bytes of the arena in use, as a filled step line."""
    live, most = live_bytes(plan), _peak(plan)
    if not most:
        return [text(left, top + 20, "no temporaries: all is in arguments, results and constants", "dim")]
    points, y = [f"{left},{top + high}"], top + high
    for position, amount in live:
        x = left + wide * position / (plan.end + 1)
        points.append(f"{x:.1f},{y:.1f}")
        y = top + high * (1 - amount / most)
        points.append(f"{x:.1f},{y:.1f}")
    points.append(f"{left + wide},{y:.1f} {left + wide},{top + high}")
    return [
        f'<polygon class="level" points="{" ".join(points)}"/>',
        text(left - 8, top + 10, f"{byte_words(most)} in use", "axis", "end"),
    ]


def _words(buffer: Buffer, plan: BufferPlan) -> str:
    where = f"{buffer.size:,} bytes" + (f" at {buffer.offset:,}" if buffer.offset is not None else "")
    start, end = _range(buffer, plan)
    lines = [buffer.title, ", ".join(buffer.names[1:6]), f"{buffer.shape}: {where}, {start} to {end - 1}"]
    lines += [f"{use}: {byte_words(size)}" for use, size in buffer.uses]
    return "\n".join(filter(None, [*lines, buffer.op_name, buffer.source]))


def _left_out(plan: BufferPlan, rows: Sequence[Buffer]) -> str:
    shown = {buffer.number for buffer in rows}
    rest = [buffer for buffer in plan.buffers if buffer.size and buffer.number not in shown]
    counts = Counter(buffer.kind for buffer in rest)
    kinds = ", ".join(f"{count} {_WORDS[kind]}" for kind, count in counts.items())
    return f"not drawn: {kinds}, {byte_words(max(b.size for b in rest))} each at most" if rest else ""
