"""The end of a process.  Python takes all objects apart then, which takes a quarter of a second where JAX is loaded and
changes nothing: that is left to the system, unless somebody waits for it."""

from __future__ import annotations

import atexit
import gc
import io
from collections.abc import Iterator
from types import GeneratorType

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
        gc.freeze()


def _with_finalisers() -> Iterator[object]:
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if any("__del__" in vars(base) for base in kind.__mro__)}
    return (one for one in objects if type(one) in kinds)


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
