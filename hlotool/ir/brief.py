"""Values in a few words, as ``repr`` shows them: one line of bounded length, however large they are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

__all__ = ["listed", "one_line", "short"]


def short(text: str, longest: int) -> str:
    """`text`, with its middle left out when it is long."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}…{text[-half:]}"


def one_line(text: str, longest: int = 60) -> str:
    """`text` in at most that many characters, or their escapes (``\\n``, ``\\x1b``) where they cannot be printed."""
    text = short(text, longest)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def listed(words: Iterable[str], count: int, most: int = 4) -> str:
    """The first of `count` words, and how many more there are: ``a, b, ... 7 more``."""
    shown = list(islice(words, most))
    left = count - len(shown)
    return ", ".join(shown + [f"... {left} more"] * (left > 0))
