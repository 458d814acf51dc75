"""The walks of passes that look at instructions of some opcodes, and that of those that replace single ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import has_sizes, replace_with

__all__ = ["calls_of", "expand_each", "places"]


def calls_of(module: Module, opcode: str) -> Iterator[Instruction]:
    """The instructions of that opcode, which calls computations, those in callees first; any of them may be erased."""
    for computation in module.callees_first():
        for instruction in computation.calls:
            if instruction.opcode == opcode and instruction.parent is computation:
                yield instruction


def places(module: Module, log: DecisionLog, opcodes: Collection[str]) -> Iterator[tuple[Builder, Instruction]]:
    """The instructions with one of `opcodes` for as long as `log` allows rewrites, each with a builder just before it.

    Callees come before callers; the instruction may be erased.
    """
    for computation in module.callees_first():
        for instruction in () if computation.opcodes.isdisjoint(opcodes) else computation:
            if instruction.opcode in opcodes and log.allow():
                yield Builder(computation, instruction, like=instruction), instruction


def expand_each(
    module: Module,
    log: DecisionLog,
    opcodes: Collection[str],
    expand: Callable[[Builder, Instruction], Instruction | None],
    rule: str,
    reason: str | Callable[[Instruction], str],
    *,
    static: bool = False,
) -> bool:
    """Replace each instruction with one of `opcodes` by what `expand` builds in front of it; whether there were any.

    `expand` returns None, and has built nothing, where the instruction stays.  `rule` and `reason` (or what it says of
    the instruction) are those of the decision.  With `static`, what has dynamic dimensions is left to `dynamic-padder`.
    """
    changed = False
    for build, instruction in places(module, log, opcodes):
        result = None if static and has_sizes(instruction) else expand(build, instruction)
        if result is not None:
            log.rewrite(rule, instruction, result, reason if isinstance(reason, str) else reason(instruction))
            replace_with(instruction, result)
            changed = True
    return changed
