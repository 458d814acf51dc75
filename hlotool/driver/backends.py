"""Which backends there are.

Packages add some with an entry point in the group ``hlotool.backends``: its name is the backend's, its value a
`Backend`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from hlotool.driver import cpu, evaluator
from hlotool.driver.backend import Backend
from hlotool.ir import UnsupportedError

__all__ = ["backend_names", "find_backend"]

_BUILT_IN = {"cpu": cpu.BACKEND, "evaluate": evaluator.BACKEND}


def backend_names() -> list[str]:
    """All backends, built in and installed."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group="hlotool.backends"))})


def find_backend(name: str) -> Backend:
    """The backend of that name; UnsupportedError where there is none, or where what is installed is none."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    installed = {entry.name: entry for entry in entry_points(group="hlotool.backends")}
    if name not in installed:
        raise UnsupportedError(f"unknown backend {name!r}; there are {', '.join(backend_names())}")
    found = installed[name].load()
    if not isinstance(found, Backend):
        raise UnsupportedError(f"backend {name!r} is a {type(found).__name__}, not a hlotool.driver.Backend")
    return found
