"""How work is shared out: items among tasks, neighbours among lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, step_function
from hlotool.codegen.llvm.arrays import share
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, Ptr
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["TASKS", "for_each_vector", "item_kernel"]

TASKS: Annotated[int, Threshold("items")] = 16  # that are worked on at the same time

_THREADS: Annotated[int, Threshold("items")] = 1 << 12  # the same where each has a thread
_SCRATCH: Annotated[int, Threshold("bytes")] = 1 << 24
"""Bytes of scratch that all threads have together."""

Body = Callable[[list[Ptr], Ptr, Index], None]
"""Code for one item: of the arguments before the scratch buffer, the scratch of the task, the number of the item."""


def item_kernel(
    unit: Unit, name: str, body: Body, *, arguments: int, items: int, slot: int, cost: float
) -> Kernel:
    """The kernel that does `body` for each of `items`, at `cost` ns; every task has `slot` bytes of scratch."""
    tasks = min(items, _tasks(unit, slot))
    f, (*pointers, scratch) = step_function(unit, name, arguments + 1)
    task = begin_tasks(f)
    own = scratch + task.index * slot
    item = begin_loop(f, *share(task.index, items, tasks))
    body(pointers, own, item.index)
    item.end()
    task.end()
    f.finish()
    uses = f"private arrays of {tasks} tasks, {slot} bytes each"
    return finish_kernel(unit, [Step(name, tasks, items * cost)], slot * tasks, ((uses, slot * tasks),))


def _tasks(unit: Unit, slot: int) -> int:
    """How many tasks there may be, each with so many bytes of scratch."""
    if unit.machine is None or not unit.machine.is_gpu:
        return TASKS
    return max(TASKS, min(_THREADS, _SCRATCH // max(1, slot)))


def for_each_vector(f: Function, first: Index, stop: Index, lanes: int, body: Callable[[Index, int], None]) -> None:
    """Loops over [first, stop), which is not negative: `lanes` neighbours at a time, then one by one those left over.

    `body` is given the first of the neighbours and their number; a loop that is known to be empty is left out.
    Where the ends are not known, `lanes` is a power of two.
    """
    count = stop - first
    whole = first + (count // lanes * lanes if isinstance(count, int) else count & -lanes)
    for begin, end, width in ((first, whole, lanes), (whole, stop, 1)):
        if begin != end:  # numbers of the program are never the same here
            loop = begin_loop(f, begin, end, width)
            body(loop.index, width)
            loop.end()
