"""What other packages add: backends, commands, passes, and rules of the algebraic simplifier.

They have entry points in the groups ``hlotool.backends``, ``hlotool.commands``, ``hlotool.passes`` and
``hlotool.rules``, whose names are those of what they add.  Nothing is loaded before it is asked for by name, and no
name of hlotool's own is taken: what claims one is left out, with a PluginWarning.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import TypeVar

__all__ = ["PluginWarning", "author_of", "load_plugin", "plugin_names"]

_GROUPS = {
    "backend": "hlotool.backends", "command": "hlotool.commands", "pass": "hlotool.passes", "rule": "hlotool.rules",
}  # fmt: skip

_T = TypeVar("_T")


class PluginWarning(UserWarning):
    """Something that another package adds is left out: what, and why."""


def plugin_names(what: str, own: Collection[str]) -> list[str]:
    """The names of the installed ``backend``, ``command``, ``pass`` or ``rule``s, sorted, but for those in `own`."""
    found = _entries(what)
    for name in sorted(found.keys() & set(own)):
        warnings.warn(f"{_called(what, found[name][0])} is left out: hlotool has one of that name", PluginWarning, 2)
    return sorted(found.keys() - set(own))


def load_plugin(what: str, name: str, kind: type[_T]) -> _T:
    """What is installed under a name; UnsupportedError where it cannot be loaded, is no `kind`, or two packages add it.

    KeyError where there is nothing of that name.
    """
    from hlotool.ir import UnsupportedError  # with NumPy, which ``hlotool --help`` does without

    entry, *others = _entries(what)[name]
    if others:
        places = " and ".join(_place(one) for one in (entry, *others))
        raise UnsupportedError(f"several packages add a {what} {name!r}: {places}")
    try:
        found = entry.load()
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}"
        raise UnsupportedError(f"{_called(what, entry)} cannot be loaded: {said}") from error
    if not isinstance(found, kind):
        wanted = f"{kind.__module__}.{kind.__name__}"
        raise UnsupportedError(f"{_called(what, entry)} is a {type(found).__name__}, not a {wanted}")
    return found


def author_of(error: BaseException) -> str:
    """The package in which an error was raised: one that adds something, else hlotool."""
    packages = {entry.value.partition(":")[0].partition(".")[0] for group in _GROUPS for entries in
        _entries(group).values() for entry in entries}  # fmt: skip
    found = "hlotool"
    while error.__cause__ is not None:
        error = error.__cause__
    for frame, _ in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "hlotool" or package in packages:
            found = package
    return found


@cache
def _entries(what: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=_GROUPS[what]):
        found.setdefault(entry.name, []).append(entry)
    return found


def _called(what: str, entry: EntryPoint) -> str:
    return f"{what} {entry.name!r} of {_place(entry)}"


def _place(entry: EntryPoint) -> str:
    return f"{entry.value} ({entry.dist.name})" if entry.dist is not None else entry.value
