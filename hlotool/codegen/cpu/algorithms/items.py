"""Kernels of one step whose tasks share out items, each task with scratch of its own."""

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
from hlotool.codegen.llvm.writer import Unit

__all__ = ["TASKS", "item_kernel"]

TASKS: Annotated[int, Threshold("items")] = 16  # that are worked on at the same time

Body = Callable[[list[Ptr], Ptr, Index], None]
"""Code for one item: of the arguments before the scratch buffer, the scratch of the task, the number of the item."""


def item_kernel(
    unit: Unit, name: str, body: Body, *, arguments: int, items: int, slot: int, cost: float
) -> Kernel:
    """The kernel that does `body` for each of `items`, at `cost` ns; every task has `slot` bytes of scratch."""
    tasks = min(items, TASKS)
    f, (*pointers, scratch) = step_function(unit, name, arguments + 1)
    task = begin_tasks(f)
    own = scratch + task.index * slot
    item = begin_loop(f, *share(task.index, items, tasks))
    body(pointers, own, item.index)
    item.end()
    task.end()
    f.finish()
    return finish_kernel(unit, [Step(name, tasks, items * cost)], slot * tasks)
