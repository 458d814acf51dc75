"""Python's garbage collector, kept off while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused", "settle"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collections inside: graphs are one large cycle, and each collection would walk all of it to find nothing."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def settle() -> None:
    """Take all objects that there are for old ones, which are seldom looked at: what was loaded just now stays, and to
    see that takes longer than to load some of it."""
    if gc.get_freeze_count() == 0:  # else somebody froze objects, which are to stay so
        gc.freeze()
        gc.unfreeze()
