"""Short names."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.reduce.draft import Draft, Edit
from hlotool.ir import Module

__all__ = ["renamed"]


def renamed(module: Module) -> Sequence[Edit]:
    """Parameters are p0, p1...; other instructions are called by their opcodes, computations by numbers."""
    return [Edit(("names",), _rename)]


def _rename(draft: Draft) -> None:
    module = draft.module
    module.name = "reduced"
    counts: dict[str, int] = {}

    def fresh(base: str) -> str:
        number = counts[base] = counts.get(base, -1) + 1
        return f"{base}.{number}" if number else base

    computations = list(module.computations.values())
    module.computations = {}
    for computation in computations:
        computation.name = "main" if computation is module.entry else fresh("computation")
        module.computations[computation.name] = computation
        for instruction in computation:
            if instruction.opcode == "parameter":
                instruction.name = f"p{instruction.parameter_number}"
                if computation is not module.entry:
                    instruction.name = fresh(instruction.name + "." + computation.name)
            else:
                instruction.name = fresh(instruction.opcode)
