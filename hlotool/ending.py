"""The end of a process.  Python takes all objects apart then, which takes a quarter of a second where JAX is loaded and
changes nothing: that is left to the system, unless somebody waits for it."""

from __future__ import annotations

import atexit
import gc
import io
import sys
from collections.abc import Iterable
from itertools import compress
from types import GeneratorType, ModuleType

__all__ = ["end_quickly"]

_HOMES = frozenset({"hlotool", "jax", "jaxlib", "llvmlite", "ml_dtypes", "numpy"})
"""Packages whose objects may be left as they are."""

_FILES = (io.TextIOWrapper, io.BufferedWriter, io.FileIO)
_STREAMS = (0, 1, 2)  # the files of a process, which Python flushes in any case


def end_quickly() -> None:
    """Have the process end without a last collection of garbage, where nobody can tell the difference."""
    atexit.register(_end)


def _end() -> None:
    try:
        nobody_waits = all(map(_is_harmless, _with_finalisers()))
    except Exception:  # objects of others are in any state in the end
        return
    if nobody_waits:
        _keep_modules()
        gc.freeze()


class _Kept:
    """Stands in for a module in ``sys.modules``: Python empties the modules that it finds there, and this is none."""

    __slots__ = ("_module",)

    def __init__(self, module: ModuleType) -> None:
        object.__setattr__(self, "_module", module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._module, name, value)


def _keep_modules() -> None:
    """Have the modules of `_HOMES` stay as they are when Python empties all modules."""
    kept: list[object] = []
    kept.append(kept)  # a cycle, which nobody collects
    for name, module in [*sys.modules.items()]:
        if isinstance(module, ModuleType) and _is_at_home(name):
            kept.append(module)
            sys.modules[name] = _Kept(module)  # type: ignore[assignment]


def _with_finalisers() -> Iterable[object]:
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if any("__del__" in vars(base) for base in kind.__mro__)}
    return compress(objects, map(kinds.__contains__, map(type, objects)))


def _is_harmless(one: object) -> bool:
    """Whether nothing is lost where the finaliser of an object is not called."""
    if isinstance(one, io.IOBase):
        in_memory = type(one) in (io.BytesIO, io.StringIO)
        return in_memory or one.closed or not one.writable() or (isinstance(one, _FILES) and one.fileno() in _STREAMS)
    if isinstance(one, GeneratorType):
        return one.gi_frame is None or _is_at_home(one.gi_frame.f_globals.get("__name__"))
    return _is_at_home(type(one).__module__)


def _is_at_home(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _HOMES
