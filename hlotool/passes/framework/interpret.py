"""Go through a computation by rules that write it once more: batched, or for one of many devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder

__all__ = ["interpret"]

Value = TypeVar("Value")


def interpret(
    computation: Computation,
    build: Builder,
    arguments: Sequence[Value],
    rewritten: Callable[[Instruction, list[Value]], Value],
) -> Value:
    """The value of the root, where parameters are `arguments` and `rewritten` writes all else with `build`.

    What is written last for an instruction keeps its control dependencies.
    """
    values: dict[Instruction, Value] = {}
    last: dict[Instruction, Instruction] = {}
    before = build.like
    for i in computation:
        build.like = i
        if i.opcode == "parameter":
            values[i] = arguments[i.parameter_number]
        else:
            values[i] = rewritten(i, [values[o] for o in i.operands])
        if i.control_successors or i.control_predecessors:
            written = next(reversed(build.computation))
            for one in i.control_predecessors:
                if last[one] is not written:
                    written.add_control_predecessor(last[one])
            last[i] = written
    build.like = before
    return values[computation.root]
