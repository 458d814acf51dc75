"""Loops that threads share once instead of in every trip: each task of the one kernel inside goes through all of them.

A scan of a recurrent network computes rows of its state from the same rows of the trip before, and a task of its kernel
makes some rows.  Then no task ever reads what another one writes, however far ahead that is, and threads need not wait
for each other until the end of the loop; what a task works on stays in the cache of its core.

That tasks are independent in one trip is what in-place updates rest on (`analysis.in_place`): an operand is only
written over if a task reads no element of it that another one writes, as tasks of a step run at the same time.  So it
is enough that they write and read the same elements in all trips.  Those of a kernel do, but for the part of an array
that a dynamic-update-slice writes: the part may move only along dimensions of which it is one element wide, so that one
task writes an element whatever the trip.

The scalars of a loop, such as its counter, are computed by every task for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated

from hlotool.analysis.in_place import updates_part
from hlotool.analysis.thresholds import Threshold
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.plan.steps import CONTROL, HOST, TaskLoop, inside, is_element, is_scalar_code
from hlotool.codegen.plan.values import Assignment, Value
from hlotool.ir import Instruction

__all__ = ["task_loops"]

_SLOT: Annotated[int, Threshold("bytes")] = 8
"""Most bytes of a value that every task has for itself."""


def task_loops(
    assignment: Assignment, kernels: Mapping[Instruction, Kernel], scratch: Mapping[Instruction, Value],
    small: Collection[Instruction], shares_loop: Callable[[Step, int], bool],
) -> dict[Instruction, TaskLoop]:  # fmt: skip
    """The loops, but for `small` ones, whose tasks can go through them alone, and of which that is worth it
    (`shares_loop`)."""
    found = {}
    moving = assignment.swapped(assignment.swaps)
    within = {instruction for loop in small for instruction in inside(loop)}
    for loop in assignment.loop_copies:
        if loop in small or loop in within:
            continue
        running = [i for part in ("condition", "body") for i in loop.attributes[part]]
        own = [i for i in running if i in kernels]
        if len(own) != 1 or own[0] in scratch or any(i.opcode in HOST | CONTROL for i in running):
            continue
        steps, trips = kernels[own[0]].steps, known_trip_count(loop) or 1
        if len(steps) != 1 or steps[0].tasks < 2 or not shares_loop(steps[0], trips):
            continue
        if any(value.storage() in moving for i in running for value in assignment.leaves[i]):
            continue
        plan = _task_loop(loop, own[0], running, assignment)
        if plan is not None:
            found[loop] = plan
    return found


def _task_loop(
    loop: Instruction, kernel: Instruction, running: Sequence[Instruction], assignment: Assignment
) -> TaskLoop | None:
    """How the tasks of `kernel` go through `loop` alone, in which all else that is `running` are scalars and views;
    None if they cannot."""
    leaves = assignment.leaves
    scalars = [i for i in running if is_scalar_code(i) or is_element(i)]
    views = [i for i in running if i in assignment.views and i not in scalars]
    written = {value.find() for value in leaves[kernel]}
    for number in assignment.in_place.get(kernel, ()):
        if updates_part(kernel, number) and not _stays_with_its_task(_update(kernel, number)):
            return None
    if not all(_stays_with_its_task(stacking.update) for _, stacking in assignment.targets.get(kernel, ())):
        return None
    parts = {value.storage() for value in leaves[kernel] if value.find().whole is not None}
    if any(value.find().whole is not None for scalar in scalars for value in leaves[scalar]):
        return None
    _, repeating = assignment.loop_copies[loop]
    own = dict.fromkeys(
        value.find() for value in (*(v for i in scalars for v in leaves[i]), *(copy.target for copy in repeating))
    )
    if any(value.size > _SLOT or value in written for value in own):
        return None
    if any(copy.source.find() in written or copy.source.storage() in parts for copy in repeating):
        return None
    made = {leaves[view][0].find() for view in views}
    for instruction in (kernel, *scalars, *views):
        for value in (value for operand in instruction.operands for value in leaves[operand]):
            if value.find().whole is not None and value.find() not in made:
                return None  # its address was computed ahead of the loop
            if value.storage() in parts or (instruction is not kernel and value.storage() in written):
                return None
    return TaskLoop(kernel, tuple(own))


def _update(kernel: Instruction, leaf: int) -> Instruction:
    if kernel.opcode != "fusion":
        return kernel
    root: Instruction = kernel.attributes["calls"].root
    return root.operands[leaf] if root.opcode == "tuple" else root


def _stays_with_its_task(update: Instruction) -> bool:
    """Whether an element is written by the same task wherever the part that is written begins."""
    if update.opcode != "dynamic-update-slice":
        return False
    sizes = zip(update.shape.dimensions, update.operands[1].shape.dimensions, strict=True)
    return all(part in (1, whole) for whole, part in sizes)
