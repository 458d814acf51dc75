"""Pictures that stand alone: SVG with the colours of its theme, light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hlotool.text.visible import visible

__all__ = ["byte_words", "count_words", "escaped", "picture", "text", "time_words"]

_STYLE = """
svg { --paper: #fff; --ink: #1c1f24; --grey: #5d6573; --rule: #dfe3e8; --fill: #aecbf0; --mark: #b3261e; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #16181c; --ink: #e8eaed; --grey: #a6aebb; --rule: #343a42; --fill: #234a7a; --mark: #ff8a80; }
}
.paper { fill: var(--paper); }
text { font: 12px system-ui, "Liberation Sans", sans-serif; fill: var(--ink); }
.title { font-size: 15px; font-weight: 600; } .axis, .dim { fill: var(--grey); font-size: 11px; }
.inside { fill: #15181c; font-size: 11px; } .grid { stroke: var(--rule); } .roof { stroke: var(--ink); fill: none; }
.level { fill: var(--fill); } .mark { stroke: var(--mark); } .marked { fill: var(--mark); }
""".strip()


def escaped(words: str) -> str:
    """Words as XML takes them."""
    return escape(visible(words))


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A whole file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escaped(title)}">',
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Words that begin (``start``), end or have their ``middle`` at x, on the line y."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}"'
        + (f' class="{kind}"' if kind else "")
        + (f' text-anchor="{anchor}"' if anchor != "start" else "")
        + f">{escaped(words)}</text>"
    )


def byte_words(number: float, digits: int = 3) -> str:
    """Bytes with a binary unit, in so many digits, or in four where three would not do."""
    return _scaled(number, 1024, (" B", " KiB", " MiB", " GiB", " TiB"), digits)


def count_words(number: float, digits: int = 3) -> str:
    """A number with a decimal unit, in so many digits."""
    return _scaled(number, 1000, ("", " k", " M", " G", " T", " P"), digits)


def time_words(seconds: float, digits: int = 3) -> str:
    """A time from nanoseconds to seconds, in so many digits."""
    return _scaled(seconds * 1e9, 1000, (" ns", " µs", " ms", " s"), digits)


def _scaled(number: float, step: int, units: tuple[str, ...], digits: int) -> str:
    for unit in units[:-1]:
        if number < step:
            return f"{number:.{4 if step == 1024 and number >= 1000 else digits}g}{unit}"
        number /= step
    return f"{number:.{digits}g}{units[-1]}"
