"""A line on the terminal that says what a long command is doing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hlotool.text.visible import visible

__all__ = ["progress"]

_EVERY = 0.1
"""Seconds between two changes of what is shown."""


@contextmanager
def progress(after: float = 1.0) -> Iterator[Callable[[str], None]]:
    """Gives a function to call with what is being done; on standard error, where that is a terminal, and only where it
    takes longer than `after` seconds.  The line is gone at the end."""
    start, last = time.monotonic(), 0.0
    shown = False

    def tell(words: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - start >= after and now - last >= _EVERY and sys.stderr.isatty():
            last, shown = now, True
            print(f"\r\x1b[2K{visible(words)[:79]}", end="", file=sys.stderr, flush=True)

    try:
        yield tell
    finally:
        if shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
