"""Child processes that end with their parent, however that ends: killed, it tells nobody."""

from __future__ import annotations

import os
import time
from threading import Thread

__all__ = ["end_with_parent"]

_EVERY = 0.5
"""Seconds between looks at who the parent is: an orphan gets another one."""


def end_with_parent() -> None:
    """Have this process end, whatever it does then, soon after the one that started it; called once, at its start."""
    Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os._exit(1)
