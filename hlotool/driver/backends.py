"""Which backends there are.

Packages add some with an entry point in the group ``hlotool.backends``: its name is the backend's, its value a
`Backend`.
"""

from __future__ import annotations

from hlotool.driver import cpu, evaluator
from hlotool.driver.backend import Backend
from hlotool.ir import UnsupportedError
from hlotool.plugins import load_plugin, plugin_names

__all__ = ["GPU_FAMILIES", "backend_names", "find_backend"]

GPU_FAMILIES = ("nvptx", "amdgcn")
"""What stands ahead of the name of a chip, as in ``nvptx:sm_90``."""

_BUILT_IN = {"cpu": cpu.BACKEND, "evaluate": evaluator.BACKEND}


def backend_names() -> list[str]:
    """All backends, built in and installed."""
    return sorted([*_BUILT_IN, *plugin_names("backend", _BUILT_IN)])


def find_backend(name: str) -> Backend:
    """The backend of that name; UnsupportedError where there is none, or where what is installed is none."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    family, colon, chip = name.partition(":")
    if family in GPU_FAMILIES and colon:
        from hlotool.driver.gpu import find

        return find(family, chip)
    try:
        return load_plugin("backend", name, Backend)
    except KeyError:
        raise UnsupportedError(f"unknown backend {name!r}; there are {', '.join(backend_names())}") from None
