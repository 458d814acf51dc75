"""The cases of suites by their names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from hlotool.suites.case import FULL, Case, Scale

__all__ = ["suite_cases"]

def suite_cases(name: str, scale: Scale = FULL) -> list[Case]:
    """The cases of a suite."""
    cases: Callable[[Scale], list[Case]] = import_module(f"hlotool.suites.{name.replace('-', '_')}").cases
    return cases(scale)
