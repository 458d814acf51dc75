"""What a process makes once, when it is first asked for: native code above all, which must stay as long as it may run.

`functools.cache` makes it once for each of several threads that come first, and keeps one: the others' code would be
unloaded while they are in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Once", "once"]

_T = TypeVar("_T")
_making = threading.RLock()  # one for all: what is made may ask for other things, in any order
if hasattr(os, "register_at_fork"):  # a child has no thread that would release it
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


class Once(Generic[_T]):
    """A function without arguments that always gives what `make` gave the first time."""

    __slots__ = ("__wrapped__", "_made")

    def __init__(self, make: Callable[[], _T]) -> None:
        self.__wrapped__ = make
        self._made: list[_T] = []

    def __call__(self) -> _T:
        if not self._made:
            with _making:
                if not self._made:
                    self._made.append(self.__wrapped__())
        return self._made[0]

    @property
    def is_made(self) -> bool:
        """Whether anybody has asked."""
        return bool(self._made)


def once(make: Callable[[], _T]) -> Once[_T]:
    """Have a function without arguments run once, and everybody wait for that; where it raises, the next one tries."""
    return Once(make)
