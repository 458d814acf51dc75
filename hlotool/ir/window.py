"""The window of an instruction."""

from __future__ import annotations

from hlotool.ir import Instruction, Window, WindowDimension

__all__ = ["window_of"]


def window_of(instruction: Instruction, rank: int) -> Window:
    """The window over `rank` dimensions; written nowhere, it is one element."""
    window: Window | None = instruction.attributes.get("window")
    return window if window and window.dimensions else Window((WindowDimension(1),) * rank)
