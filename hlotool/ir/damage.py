"""What of a module could not be read.

A text with errors still gives a module, so that errors further down are found too.  Its holes are noted here, and the
verifier asks nothing of them: what follows from an error is no error of its own.
"""

from __future__ import annotations

from dataclasses import field

from hlotool.ir.module import Computation, Instruction
from hlotool.ir.shape import Shape
from hlotool.lazy_dataclass import dataclass

__all__ = ["POISON", "Damage"]

POISON = Shape("opaque", elements=(Shape("opaque"),))
"""The shape of what could not be read, equal to no shape of a text."""


@dataclass(slots=True)
class Damage:
    """The holes of one module.

    `computations`: instructions are missing in these.  `attributes`: those of an instruction whose values are unknown.
    `operands`: the operands of these instructions are not all there.  `entry`: the entry computation may be missing.
    """

    computations: set[Computation] = field(default_factory=set)
    attributes: dict[Instruction, frozenset[str]] = field(default_factory=dict)
    operands: set[Instruction] = field(default_factory=set)
    entry: bool = False
