"""What compiling operations together saves each time they run, against one call for each: the rule of clustering.

Two things are saved.  A cluster is one call where there was one for every operation; and what a fusion can compute is
neither written nor read again.  Both are sums over operations, so that `hlotool.analysis.clusters` can add them up; a
cluster pays where that is more than its own call, and over so many runs more than compiling it took.

What an operation takes is what its bytes and its arithmetic take at the roof of the machine; the figures are measured
by ``hlotool study model``, or those of `USUAL`.
"""

from __future__ import annotations

from collections.abc import Iterable

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.fusibility import is_fusible
from hlotool.analysis.roofline import Roof, operations
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["USUAL", "Figures", "cluster_gain", "eager_seconds", "fusion_gain", "operation_gain", "program_seconds"]

_NO_WORK = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a machine: `call` seconds from Python into native code and back, with memory for the results; `start`
    seconds of a kernel in a program; its roof; and what compiling takes, a cluster's own part and that of each of its
    operations."""

    call: float
    start: float
    roof: Roof
    compile: float
    compile_operation: float

    def compile_seconds(self, count: int) -> float:
        """The time to compile a cluster of so many operations."""
        return self.compile + count * self.compile_operation


USUAL = Figures(
    call=3e-7, start=2e-8, roof=Roof(1e11, ((1 << 15, 1e11), (1 << 20, 5e10), (1 << 26, 1e10))),
    compile=0.02, compile_operation=5e-4,
)  # fmt: skip
"""Those of a core of a server of 2021, in whole numbers."""


def eager_seconds(instruction: Instruction, costs: ModuleCost, figures: Figures) -> float:
    """What an operation takes in a call of its own."""
    if instruction.opcode in _NO_WORK:
        return 0.0
    return figures.call + _kernel(instruction, costs, figures)


def operation_gain(instruction: Instruction, costs: ModuleCost, figures: Figures) -> float:
    """What an operation takes less in a cluster than in a call of its own."""
    if instruction.opcode in _NO_WORK:
        return 0.0
    if not is_fusible(instruction):
        return figures.call - figures.start
    return figures.call + _kernel(instruction, costs, figures) - operations(costs.of(instruction)) / figures.roof.flops


def cluster_gain(instructions: Iterable[Instruction], costs: ModuleCost, figures: Figures) -> float:
    """What a cluster saves each time it runs: its operations' gains, less its own call."""
    return sum(operation_gain(one, costs, figures) for one in instructions) - figures.call


def fusion_gain(fusion: Instruction, costs: ModuleCost, figures: Figures) -> float:
    """What making a fusion saves each time it runs, against a kernel for every operation of it."""
    apart = (_apart(one, costs, figures) for one in fusion.attributes["calls"] if one.opcode not in _NO_WORK)
    return sum(apart) - figures.start - _kernel(fusion, costs, figures)


def program_seconds(instructions: Iterable[Instruction], costs: ModuleCost, figures: Figures) -> float:
    """What a program of these kernels takes, called once."""
    kernels = (_apart(one, costs, figures) for one in instructions if one.opcode not in _NO_WORK)
    return figures.call + sum(kernels)


def _apart(instruction: Instruction, costs: ModuleCost, figures: Figures) -> float:
    return figures.start + _kernel(instruction, costs, figures)


def _kernel(instruction: Instruction, costs: ModuleCost, figures: Figures) -> float:
    """The least time for the work of an operation, with all that it calls."""
    cost = costs.of(instruction)
    return figures.roof.seconds(cost, cost.bytes)
