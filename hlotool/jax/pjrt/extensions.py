"""Extensions of the table: for calls that pass data to programs, which hlotool passes itself."""

from __future__ import annotations

from functools import cache

from hlotool.jax.pjrt.client import Pinned
from hlotool.jax.pjrt.native import pointer

__all__ = ["extensions"]

_FFI = 5
_pinned = Pinned()


@cache
def extensions() -> int:
    """The address of the list of extensions."""
    nothing = pointer("Event_Error")  # a function that says that all is well
    size = 48
    return _pinned.words([size, _FFI, 0, nothing, nothing, nothing])



