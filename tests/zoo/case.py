"""A model of the zoo, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Case", "Make"]


@dataclass(frozen=True, slots=True)
class Case:
    """A module in any mode, arguments of it, and what else can be done with it.

    `trains`: its results have a gradient.  `words`: how many tokens it knows, if it generates text.
    """

    model: Any
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    trains: bool = True
    words: int = 0


Make = Callable[[], Case]
