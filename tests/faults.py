"""Faults on purpose: what fails where Python is reached, or where a file or LLVM is.

Each fault lets some calls of a function pass, and then one fail.  A test that injects it asks for the right result or a
clear error; never for wrong numbers, a crash or half a file.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

__all__ = ["ERRORS", "Fault", "failing"]

ERRORS: dict[str, Callable[[], BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "memory": MemoryError,
    "full disk": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "read-only": lambda: OSError(errno.EROFS, "Read-only file system"),
    "cut off": lambda: OSError(errno.EINTR, "Interrupted system call"),
    "threads": lambda: RuntimeError("can't start new thread"),
    "llvm": lambda: RuntimeError("LLVM gave up"),
}


class Fault:
    """A function that does what `function` does, but for call number `number` (from 0), which raises `error`."""

    def __init__(self, function: Callable[..., Any], error: Callable[[], BaseException], number: int) -> None:
        self.function, self.error, self.left = function, error, number
        self.fired = False

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        return self if instance is None else partial(self, instance)  # a method

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            self.fired = True
            raise self.error()
        return self.function(*arguments, **options)


@contextmanager
def failing(target: Any, name: str, error: str, number: int = 0) -> Iterator[Fault]:
    """Let call `number` of ``target.name`` raise `error`, one of `ERRORS`."""
    with pytest.MonkeyPatch.context() as patch:
        fault = Fault(getattr(target, name), ERRORS[error], number)
        patch.setattr(target, name, fault)
        yield fault
