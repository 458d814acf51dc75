"""A line on the terminal that says what a long command is doing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hlotool.text.visible import visible

__all__ = ["progress"]

_AFTER, _EVERY = 1.0, 0.1
"""Seconds until something is shown, and between two changes of it."""


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Gives a function to call with what is being done; on standard error, where that is a terminal, and only where it
    takes longer than a second.  The line is gone at the end."""
    start = last = time.monotonic()
    shown = False

    def tell(words: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - start >= _AFTER and now - last >= _EVERY and sys.stderr.isatty():
            last, shown = now, True
            print(f"\r\x1b[2K{visible(words)[:79]}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
