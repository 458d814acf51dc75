"""One page of the catalogue of codes."""

from __future__ import annotations

from hlotool.lazy_dataclass import dataclass

__all__ = ["Page", "entry"]


@dataclass(frozen=True, slots=True)
class Page:
    """What a code means.

    `wrong` gives this code first, `right` gives none.  Both are HLO, or (`language` ``python``) statements that use
    the library.
    """

    code: str
    title: str
    meaning: str
    wrong: str
    right: str
    language: str = "hlo"


def entry(body: str) -> str:
    """A module with one computation."""
    lines = "\n".join(f"  {line}" for line in body.strip().splitlines())
    return f"HloModule example\n\nENTRY main {{\n{lines}\n}}\n"
