"""Native code that can be interrupted: Python sees Ctrl-C only between its own instructions."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

__all__ = ["interruptible"]

_Result = TypeVar("_Result")


def interruptible(work: Callable[[], _Result]) -> _Result:
    """The result of `work`, which runs in another thread while this one waits and can be interrupted.

    After KeyboardInterrupt the work goes on until the process ends, which it does not keep alive.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
