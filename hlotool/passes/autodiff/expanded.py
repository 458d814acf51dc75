"""Instructions that are differentiated as what a pass puts in their place."""

from __future__ import annotations

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, clone_computation, clone_instruction
from hlotool.ir.builder import Builder
from hlotool.passes.autodiff.writer import Writer
from hlotool.passes.framework.manager import run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline

__all__ = ["in_simpler_opcodes"]


def in_simpler_opcodes(at: Writer, instruction: Instruction, passes: str) -> Computation:
    """A computation of the operands of `instruction` that gives the same by what `passes` make of it.

    What it calls is in the module; it is not itself.
    """
    alone = Module(at.module.name)
    computation = Computation(f"{instruction.opcode}_expanded")
    build = Builder(computation, like=instruction)
    operands = [build.parameter(number, operand.shape) for number, operand in enumerate(instruction.operands)]
    computation.root = build.put(clone_instruction(instruction, operands))
    inner: dict[Computation, Computation] = {}
    for callee in instruction.called:
        _copy(callee, alone, inner)
    computation.root.replace_called(inner.__getitem__)
    alone.add(computation, entry=True)
    run_pipeline(alone, parse_pipeline(passes), DecisionLog())
    alone.remove_unreachable()
    outer: dict[Computation, Computation] = {}
    for callee in alone.entry.callees:
        _copy(callee, at.module, outer)
    return clone_computation(alone.entry, called=outer)


def _copy(computation: Computation, module: Module, known: dict[Computation, Computation]) -> None:
    """Put a copy of `computation`, and of all that it calls, into `module`."""
    if computation not in known:
        for callee in computation.callees:
            _copy(callee, module, known)
        known[computation] = module.add(clone_computation(computation, called=known))
