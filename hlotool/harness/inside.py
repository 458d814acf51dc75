"""Where the time of a fused kernel goes, inside: its time divided by what its instructions cost (operations, and bytes
read and written), which is an estimate."""

from __future__ import annotations

from dataclasses import dataclass

from hlotool.analysis.cost import ModuleCost
from hlotool.ir import Computation, Instruction

__all__ = ["Part", "estimated"]

_TRANSCENDENTAL = 12.0
_BYTE = 0.5
"""Operations that a transcendental function, and a byte read or written, is taken for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the kernel of a fusion: `instruction` of its computation, or None for the rest; parameters stand for
    their reading.  `share` is of the kernel's time; `is_measured` says how it is known."""

    instruction: Instruction | None
    share: float
    is_measured: bool


def estimated(fusion: Instruction, costs: ModuleCost) -> tuple[Part, ...]:
    """The parts of a fusion, those that cost nothing left out; shares add up to 1."""
    body: Computation = fusion.attributes["calls"]
    weights: list[tuple[Instruction, float]] = []
    for instruction in body:
        if instruction.opcode == "parameter":
            weight = _BYTE * (instruction.shape.byte_size if instruction.shape.is_array else 0)
        else:
            cost = costs.own(instruction)
            weight = cost.flops + _TRANSCENDENTAL * cost.transcendentals
            if instruction is body.root:
                weight += _BYTE * sum(leaf.byte_size for leaf in instruction.shape.leaves() if leaf.is_array)
        if weight:
            weights.append((instruction, float(weight)))
    total = sum(weight for _, weight in weights)
    return tuple(Part(instruction, weight / total, False) for instruction, weight in weights)
