"""How values show themselves in notebooks: by functions of `hlotool.notebook`, which draws with all rooms and which no
room imports.  Classes only name the function; it is found when a notebook asks for a picture, as commands and passes
are when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Picture", "call", "shown_by"]


class Picture(Protocol):
    """A drawing of a module, which notebooks show."""

    @property
    def svg(self) -> str:
        """A picture that needs nothing else."""
        ...

    def save(self, path: str | Path) -> None:
        """Write it to a file, in the form that its name ends in: ``.html``, ``.svg`` or ``.dot``."""
        ...


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of `hlotool.notebook`."""
    return getattr(import_module("hlotool.notebook"), name)(*arguments, **options)


def shown_by(name: str) -> Callable[[Any], str]:
    """A method ``_repr_html_`` that calls a function of `hlotool.notebook`."""

    def _repr_html_(value: Any) -> str:
        return str(call(name, value))

    return _repr_html_
