"""What one run of the command line carries from command to command and into error messages."""

from __future__ import annotations

import os
import sys
from dataclasses import field

import click

from hlotool.lazy_dataclass import dataclass

__all__ = ["Session", "current"]


@dataclass(slots=True)
class Session:
    """`color` is auto, always or never; `sources` the texts that were read, by the name that errors give them;
    `reproducers` the files in which warnings of passes that failed have left a module."""

    color: str = "auto"
    sources: dict[str, str] = field(default_factory=dict)
    reproducers: list[str] = field(default_factory=list)

    def use_colour(self) -> bool:
        """Whether to colour messages: --color, then NO_COLOR and the kind of terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return sys.stderr.isatty()


def current() -> Session:
    """The session of the command that is running."""
    context = click.get_current_context(silent=True)
    return Session() if context is None else context.find_root().ensure_object(Session)
