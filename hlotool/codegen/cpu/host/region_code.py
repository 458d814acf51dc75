"""What threads read when they run a region: constants that say what each task calls, and the function that does it.

A task makes calls one after the other.  A call is a function, the offset of its arguments in the table of the region,
and a range of its own tasks; ``starts`` has the first call of every task.  The table begins with the addresses of
the two constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.llvm.control import begin_loop, call
from hlotool.codegen.llvm.values import Int, Ptr
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.plan.region import Region
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["FIRST", "Call", "define_calls", "define_tasks"]

FIRST = 2
"""The first slot of a region's table that is free for arguments."""

_CALL = "{ ptr, i64, i64, i64 }"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a step, the first slot of its arguments in the table, and the number of its tasks."""

    function: str
    first: int
    tasks: int = 1


def define_calls(unit: Unit, name: str, region: Region, calls: Mapping[Instruction, Sequence[Call]]) -> None:
    """Define the constants ``@name`` and ``@name_starts`` of a region whose steps make `calls`."""
    lines: list[str] = []
    starts = [0]
    for task in region.tasks:
        for own in task:
            for step in calls[own.instruction]:
                span = f"i64 {own.begin}, i64 {own.end or step.tasks}"
                lines.append(f"{_CALL} {{ ptr @{step.function}, i64 {8 * step.first}, {span} }}")
        starts.append(len(lines))
    unit.constant(name, f"[{len(lines)} x {_CALL}] [{', '.join(lines)}]")
    numbers = ", ".join(f"i64 {start}" for start in starts)
    unit.constant(f"{name}_starts", f"[{len(starts)} x i64] [{numbers}]")


def define_tasks(unit: Unit, name: str) -> None:
    """Define the function that does the tasks of any region."""
    f = Function(unit, f"internal void @{name}(ptr %args, i64 %begin, i64 %end) nounwind {PLUMBING}")
    table = Ptr(f, "%args")
    calls = table.load_ptr()
    starts = table.slot(1).load_ptr()
    first, last = (starts.at("i64", task).load_int() for task in (Int(f, "%begin"), Int(f, "%end")))
    loop = begin_loop(f, first, last)
    own = calls.at(_CALL, loop.index)
    function = own.field(_CALL, 0).load_ptr()
    offset, begin, end = (own.field(_CALL, number).load_int() for number in (1, 2, 3))
    call(f, function.name, table + offset, begin, end)
    loop.end()
    f.finish()
