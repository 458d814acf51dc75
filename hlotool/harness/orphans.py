"""Child processes that end with their parent, however that ends: killed, it tells nobody."""

from __future__ import annotations

import os
from threading import Thread

from hlotool.system import wait_for_parent

__all__ = ["end_with_parent"]

_EVERY = 0.5
"""Seconds between looks at who the parent is."""


def end_with_parent() -> None:
    """Have this process end, whatever it does then, soon after the one that started it; called once, at its start."""
    Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    wait_for_parent(parent, _EVERY)
    os._exit(1)
