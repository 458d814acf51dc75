"""What a kernel emitter hands over: compiled-alone IR and how to run it.

Every step is an LLVM function ``void @name(ptr noalias %args, i64 %begin, i64 %end)``.  ``%args`` points to
an array of pointers: the operand leaves, then the output leaves, then (when `scratch` is not
zero) one scratch buffer.  A step works on tasks ``begin <= t < end`` of its `tasks` independent
tasks; the pool may run disjoint ranges of one step at the same time, in any order, and starts a
step only when the one before is complete.  Results must not depend on how the tasks are split.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KERNEL_SIGNATURE", "Kernel", "Step", "signature"]

KERNEL_SIGNATURE = "(ptr noalias %args, i64 %begin, i64 %end)"


def signature(name: str) -> str:
    """The definition line of step function `name`."""
    return f"void @{name}{KERNEL_SIGNATURE} nounwind"


@dataclass(frozen=True, slots=True)
class Step:
    """One function of a kernel and its number of independent tasks.

    `cost` estimates the whole step in nanoseconds on one core; the planner runs cheap steps
    serially.
    """

    function: str
    tasks: int = 1
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """IR text (declarations, then definitions), its steps in order, and scratch bytes."""

    declarations: tuple[str, ...]
    definitions: str
    steps: tuple[Step, ...]
    scratch: int = 0
