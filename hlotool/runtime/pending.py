"""Errors of calls from emitted code into Python, which wait in their thread until the code has returned."""

from __future__ import annotations

import threading

__all__ = ["is_pending", "keep_pending", "raise_pending"]


class _Thread(threading.local):
    error: BaseException | None = None


_thread = _Thread()


def is_pending() -> bool:
    """Whether an error waits in this thread."""
    return _thread.error is not None


def keep_pending(error: BaseException) -> None:
    """Let `error` wait."""
    _thread.error = error


def raise_pending() -> None:
    """Raise the error that waits in this thread, if any."""
    error, _thread.error = _thread.error, None
    if error is not None:
        raise error
