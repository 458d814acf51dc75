"""Text in the normal form: what ``hlotool fmt`` writes, and what it would lose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hlotool.lazy_dataclass import dataclass
from hlotool.text.load import SEPARATOR, Source, pieces, read_modules
from hlotool.text.presets import print_preset

__all__ = ["Formatted", "formatted"]

_HEAD = re.compile(r"(?:\s*(?://[^\n]*|/\*.*?\*/))+[ \t]*\n", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)
_OWN = re.compile(r"/\*(?:index|i\d+)=\d+\*/|// ?-{5,}\s*")  # written by the printer itself


@dataclass(frozen=True, slots=True)
class Formatted:
    """A text in its new form, and the line of the first comment that it lost."""

    text: str
    lost: int | None = None


def formatted(source: Source, preset: str = "default") -> Formatted:
    """The modules of a file in the normal form; comments ahead of a module stay, if `preset` is one for people.

    Unknown opcodes and attributes stay as they are written.  ParseError where it is not HLO.
    """
    modules = read_modules(source, [])
    if source.form != "hlo":
        return Formatted(f"\n{SEPARATOR}\n\n".join(print_preset(module, preset) for module in modules))
    texts: list[str] = []
    lost: int | None = None
    for module, (piece, line) in zip(modules, pieces(source.text or ""), strict=True):
        head = _HEAD.match(piece) if preset in ("default", "short") else None
        comments = head.group() if head else ""
        texts.append((comments.lstrip("\n") if texts else comments) + print_preset(module, preset))
        if lost is None:
            here = next(_lost_comments(piece, head.end() if head else 0), None)
            lost = None if here is None else here + line - 1
    return Formatted(f"\n{SEPARATOR}\n\n".join(texts), lost)


def _lost_comments(text: str, start: int) -> Iterator[int]:
    """The lines of the comments after `start` that formatting drops."""
    for match in _TOKEN.finditer(text, start):
        comment = match.group(1)
        if comment and not _OWN.fullmatch(comment):
            yield text.count("\n", 0, match.start()) + 1
