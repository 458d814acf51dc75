"""What marks the numbers at which the compiler starts to do otherwise.

Such a number stays where it is used, as ``NAME: Annotated[int, Threshold("bytes")] = 1 << 16`` with what it means below
it or behind it.  `hlotool.inspect.thresholds` lists them all, and tests draw shapes around every one of them.
"""

from __future__ import annotations

from hlotool.lazy_dataclass import dataclass

__all__ = ["Threshold"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a threshold counts: bytes, elements, rows, instructions..."""

    unit: str
