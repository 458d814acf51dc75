"""Which backends there are.

Packages add some with an entry point in the group ``hlotool.backends``: its name is the backend's, its value a
`Backend` of that name.
"""

from __future__ import annotations

from hlotool.driver import cpu, evaluator
from hlotool.driver.backend import Backend
from hlotool.ir import UnsupportedError
from hlotool.plugins import load_plugin, plugin_names

__all__ = ["backend_names", "find_backend"]

_GPU_FAMILIES = ("nvptx", "amdgcn")
"""What stands ahead of the name of a chip, as in ``nvptx:sm_90``; loaded when it is asked for."""

_BUILT_IN = {"cpu": cpu.BACKEND, "evaluate": evaluator.BACKEND}


def backend_names() -> list[str]:
    """All backends, built in and installed."""
    return sorted([*_BUILT_IN, *plugin_names("backend", _BUILT_IN)])


def find_backend(name: str) -> Backend:
    """The backend of that name, or for one of its targets (``nvptx:sm_90``); UnsupportedError where there is none, or
    where what is installed is none."""
    family, colon, target = name.partition(":")
    found = _family(family, name)
    if not colon:
        return found
    if found.at is None or (target and target not in found.targets):
        has = f"it has {', '.join(found.targets)}" if found.targets else "it has no targets to choose from"
        raise UnsupportedError(f"backend {family} knows no target {target!r}; {has}")
    return found.at(target)


def _family(family: str, asked: str) -> Backend:
    if family in _BUILT_IN:
        return _BUILT_IN[family]
    if family in _GPU_FAMILIES:
        from hlotool.driver.gpu import FAMILIES

        return FAMILIES[family]
    try:
        found = load_plugin("backend", family, Backend)
    except KeyError:
        raise UnsupportedError(f"unknown backend {asked!r}; there are {', '.join(backend_names())}") from None
    if found.name != family:
        raise UnsupportedError(f"the backend that is installed as {family!r} calls itself {found.name!r}")
    return found
