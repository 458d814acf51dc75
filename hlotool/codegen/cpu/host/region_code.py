"""What threads read when they run a region: constants that say what each task calls, and the function that does it.

A task runs parts one after the other.  A part is a function, the offset of its arguments in the table of the region,
and the tasks it does of its own; ``starts`` has the first part of every task.  The table begins with the addresses of
the two constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.plan.region import Region
from hlotool.ir import Instruction

__all__ = ["FIRST", "Call", "define_parts", "define_tasks"]

FIRST = 2
"""The first slot of a region's table that is free for arguments."""

_PART = "{ ptr, i64, i64, i64 }"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a step, the first slot of its arguments in the table, and the number of its tasks."""

    function: str
    first: int
    tasks: int = 1


def define_parts(unit: Unit, name: str, region: Region, calls: Mapping[Instruction, Sequence[Call]]) -> None:
    """Define the constants ``@name`` and ``@name_starts`` of a region whose steps make `calls`."""
    parts: list[str] = []
    starts = [0]
    for task in region.tasks:
        for part in task:
            for call in calls[part.instruction]:
                span = f"i64 {part.begin}, i64 {part.end or call.tasks}"
                parts.append(f"{_PART} {{ ptr @{call.function}, i64 {8 * call.first}, {span} }}")
        starts.append(len(parts))
    unit.constant(name, f"[{len(parts)} x {_PART}] [{', '.join(parts)}]")
    numbers = ", ".join(f"i64 {start}" for start in starts)
    unit.constant(f"{name}_starts", f"[{len(starts)} x i64] [{numbers}]")


def define_tasks(unit: Unit, name: str) -> None:
    """Define the function that does the tasks of any region."""
    f = Function(unit, f"internal void @{name}(ptr %args, i64 %begin, i64 %end) nounwind {PLUMBING}")
    parts = f.let("load ptr, ptr %args")
    starts = f.let(f"load ptr, ptr {f.let('getelementptr ptr, ptr %args, i64 1')}")
    first = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr {starts}, i64 %begin')}")
    last = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr {starts}, i64 %end')}")
    loop = f.begin_loop(first, last)
    part = f.let(f"getelementptr {_PART}, ptr {parts}, i64 {loop.index}")
    kinds = ("ptr", "i64", "i64", "i64")
    fields = (f.let(f"getelementptr {_PART}, ptr {part}, i32 0, i32 {number}") for number in range(4))
    function, offset, begin, end = [f.let(f"load {kind}, ptr {at}") for kind, at in zip(kinds, fields, strict=True)]
    table = f.let(f"getelementptr i8, ptr %args, i64 {offset}")
    f.do(f"call void {function}(ptr {table}, i64 {begin}, i64 {end})")
    f.end_loop(loop)
    f.finish()
