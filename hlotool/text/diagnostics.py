"""Diagnostics for people and for programs."""

from __future__ import annotations

from typing import Any

from hlotool.ir import Diagnostic, Location
from hlotool.text.sources import split_lines

__all__ = ["render", "suggestion", "to_json"]

_RED, _BLUE, _BOLD, _END = "\033[1;31m", "\033[1;34m", "\033[1m", "\033[0m"
_WIDEST = 160  # columns of a source line that are shown


def render(diagnostic: Diagnostic, source: str | None = None, colour: bool = False) -> str:
    """``file:line:column: error[CODE]: message``, the source line, a caret range and the hint; several lines."""
    red, blue, bold, end = (_RED, _BLUE, _BOLD, _END) if colour else ("", "", "", "")
    place = f"{_place(diagnostic.location)}: " if diagnostic.location is not None else ""
    severity = f"{diagnostic.severity}[{diagnostic.code}]"
    lines = [f"{bold}{place}{end}{red}{severity}:{end} {bold}{diagnostic.message}{end}"]
    if diagnostic.location is not None and source is not None:
        lines += _excerpt(diagnostic.location, source, red, end)
    for text, location in diagnostic.related:
        lines.append(f"{blue}{_place(location)}: note:{end} {text}")
        same_file = diagnostic.location is not None and location.file == diagnostic.location.file
        if source is not None and same_file:
            lines += _excerpt(location, source, blue, end)
    if diagnostic.hint is not None:
        lines.append(f"{blue}hint:{end} {diagnostic.hint}")
    return "\n".join(lines)


def _place(location: Location) -> str:
    return f"{location.file}:{location.line}:{location.column}"


def _excerpt(location: Location, source: str, colour: str, end: str) -> list[str]:
    """The line of a place and a line of carets under it; long lines are cut round the place."""
    lines = split_lines(source)
    if not 1 <= location.line <= len(lines):
        return []
    line = lines[location.line - 1]
    first = location.column - 1
    last = location.end_column - 1 if location.end_line == location.line else len(line)
    start = max(0, first - _WIDEST // 2) if len(line) > _WIDEST else 0
    shown = line[start : start + _WIDEST]
    blank = "".join("\t" if c == "\t" else " " for c in shown[: first - start])
    carets = "^" * max(1, min(last, start + _WIDEST) - first)
    clean = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in shown)
    return [f"  {clean}", f"  {blank}{colour}{carets}{end}"]


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A dictionary for JSON: code, severity, place, message, suggestion and related places.

    Lines and columns count from 1; ``end_column`` is exclusive.  ``suggestion`` is the replacement that the hint
    proposes, None where it proposes none.
    """
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        **_place_json(diagnostic.location),
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "suggestion": suggestion(diagnostic),
        "related": [{**_place_json(location), "message": text} for text, location in diagnostic.related],
    }


def suggestion(diagnostic: Diagnostic) -> str | None:
    """The replacement that the hint proposes."""
    hint = diagnostic.hint
    if hint is None or not hint.startswith("did you mean '"):
        return None
    return hint.removeprefix("did you mean '").removesuffix("'?")


def _place_json(location: Location | None) -> dict[str, Any]:
    if location is None:
        return {"file": None, "line": None, "column": None, "end_line": None, "end_column": None}
    return {
        "file": location.file,
        "line": location.line,
        "column": location.column,
        "end_line": location.end_line,
        "end_column": location.end_column,
    }
