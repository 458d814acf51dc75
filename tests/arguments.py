"""Calling step functions by themselves: their arguments, and ahead of them the status of an execution."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

__all__ = ["table"]


def table(pointers: Iterable[int]) -> ctypes.c_void_p:
    """What a step function takes for `pointers`; good for as long as it is referenced."""
    status = (ctypes.c_int64 * 2)()
    words = (ctypes.c_void_p * 64)(ctypes.addressof(status), *pointers)
    found = ctypes.c_void_p(ctypes.addressof(words) + 8)
    found.kept = status, words  # type: ignore[attr-defined]
    return found
