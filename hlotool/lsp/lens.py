"""What can be done with a module at the click of a word: run it, compare it, draw it."""

from __future__ import annotations

import sys

from hlotool.lazy_dataclass import dataclass
from hlotool.lsp.document import Document

__all__ = ["COMMANDS", "EXPLAIN", "Command", "Lens", "lenses"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the editor's, and what it runs: `words` are those of hlotool, with ``{file}`` in them for the text
    of the document and ``{out}`` for a page, of the type `page`, that the editor then opens."""

    title: str
    words: tuple[str, ...]
    page: str = ""

    def line(self, **places: str) -> list[str]:
        """The command line of a process."""
        return [sys.executable, "-m", "hlotool", "--color", "never", *(word.format(**places) for word in self.words)]


COMMANDS: dict[str, Command] = {
    "hlotool.run": Command("run", ("run", "{file}")),
    "hlotool.compare": Command("compare with evaluator", ("compare", "{file}", "--against", "evaluate")),
    "hlotool.graph": Command("open graph", ("graph", "{file}", "-o", "{out}"), ".html"),
}
"""The commands about documents, by the names that editors call."""

EXPLAIN = Command("explain", ("explain", "{code}"), ".txt")
"""The command about codes; its output is the page."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A word over a line of the text, and the command that a click on it calls."""

    start: int
    end: int
    command: str


def lenses(document: Document) -> list[Lens]:
    """The lenses of a text: over the entry of its module; none of texts with several, which no command takes."""
    scopes = document.scan.scopes
    entries = [scope for scope in scopes if scope.is_entry]
    if len(entries) != 1 or any(scope.module != entries[0].module for scope in scopes):
        return []
    return [Lens(entries[0].start, entries[0].body, name) for name in COMMANDS]
