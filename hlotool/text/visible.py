"""Text of which every character can be seen: what commands a terminal, or is not allowed in XML, becomes an escape."""

from __future__ import annotations

import re

__all__ = ["visible"]

_LINES = re.compile(r"([\n\t])")


def visible(text: str) -> str:
    """`text` with every character that is not printable written as an escape (``\\x1b``); lines and tabs stay."""
    if text.isprintable():
        return text
    parts = _LINES.split(text)
    return "".join(part if n % 2 or part.isprintable() else _escaped(part) for n, part in enumerate(parts))


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
