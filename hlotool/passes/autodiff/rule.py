"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.autodiff.writer import Path

__all__ = ["ByLeaf", "Rule"]

ByLeaf = Mapping[Path, Instruction]
"""Tangents or cotangents of a value by leaf; those that are zero are missing."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How derivatives of an opcode are written, by a walk: a `Reverse` or a `Forward`.

    `reverse` gets the cotangents of the result, at least one, and hands some on to the operands
    (`Reverse.give`).  `forward` returns the tangents of the result, at least one operand having one.
    """

    reverse: Callable[[Any, Instruction, ByLeaf], None]
    forward: Callable[[Any, Instruction], ByLeaf]
