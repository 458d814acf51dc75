"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlotool.ir import Instruction
from hlotool.passes.autodiff.writer import Path

if TYPE_CHECKING:
    from hlotool.passes.autodiff.forward import Forward
    from hlotool.passes.autodiff.reverse import Reverse

__all__ = ["ByLeaf", "Rule"]

ByLeaf = Mapping[Path, Instruction]
"""Tangents or cotangents of a value by leaf; those that are zero are missing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How derivatives of an opcode are written.

    `reverse` gets the cotangents of the result, at least one, and hands some on to the operands
    (`Reverse.give`).  `forward` returns the tangents of the result, at least one operand having one.
    """

    reverse: Callable[[Reverse, Instruction, ByLeaf], None]
    forward: Callable[[Forward, Instruction], ByLeaf]
