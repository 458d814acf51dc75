"""What cannot be lowered, and why."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818 - it is no error: the operation runs eagerly instead
    """An operation is not lowered to HLO: the text is the reason, as `explain` shows it."""
