"""Steps that run side by side, and what each task of their parallel job does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel
from hlotool.ir import Computation, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Region", "Schedule", "TaskRange", "Tasks", "dealt", "tasks_of", "time_of"]

_TASKS: Annotated[int, Threshold("tasks")] = 15
"""Tasks of a region, about, if it has tasks of steps enough."""

_TASK: Annotated[float, Threshold("nanoseconds")] = 2_000.0
"""Nanoseconds that a range of a kernel's tasks takes at least."""


@dataclass(frozen=True, slots=True)
class TaskRange:
    """Tasks of a step's only function, or a whole step (`end` is 0)."""

    instruction: Instruction
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Steps that run side by side: what each task of the parallel job does, one range after the other."""

    steps: tuple[Instruction, ...]
    tasks: tuple[tuple[TaskRange, ...], ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What threads do: the order of computations that have regions, and the functions of kernels, by their numbers,
    whose tasks several threads share, always or while they are awake."""

    orders: Mapping[Computation, Sequence[Instruction | Region]]
    split: Set[tuple[Instruction, int]]
    split_awake: Set[tuple[Instruction, int]]


Tasks = list[tuple[float, list[TaskRange]]]
"""Nanoseconds of each task, and what it does."""


def tasks_of(times: Mapping[Instruction, float], kernels: Mapping[Instruction, Kernel]) -> Tasks:
    """The tasks of a region, longest first, and their times; from the times of its steps.

    Steps are cut, and small ranges put together, to make about as many tasks as wanted.
    """
    ranges: list[tuple[float, TaskRange]] = []
    least = max(_TASK, sum(times.values()) / _TASKS)
    for instruction, time in times.items():
        kernel = kernels.get(instruction)
        if kernel is not None and len(kernel.steps) == 1 and kernel.steps[0].tasks > 1:
            total = kernel.steps[0].tasks
            count = max(1, min(total, int(time / least)))
            edges = [total * n // count for n in range(count + 1)]
            ranges += [(time * (b - a) / total, TaskRange(instruction, a, b)) for a, b in pairwise(edges)]
        else:
            ranges.append((time, TaskRange(instruction)))
    ranges.sort(key=lambda timed: -timed[0])
    capacity = sum(times.values()) / _TASKS
    tasks: Tasks = []
    for time, own in ranges:
        for number, (filled, others) in enumerate(tasks):
            if filled + time <= capacity:
                tasks[number] = (filled + time, [*others, own])
                break
        else:
            tasks.append((time, [own]))
    return sorted(tasks, key=lambda task: -task[0])


def dealt(tasks: Tasks) -> tuple[tuple[TaskRange, ...], ...]:
    """What tasks do, in the order in which the pool deals them out: the first half is for one thread, the second for
    another one, each with the longest tasks first, which nobody else takes.  Empty tasks make halves of the same size.
    """
    halves: tuple[list[list[TaskRange]], ...] = ([], [])
    filled = [0.0, 0.0]
    for time, ranges in tasks:
        number = filled.index(min(filled))
        filled[number] += time
        halves[number].append(ranges)
    size = max(map(len, halves))
    return tuple(tuple(ranges) for half in halves for ranges in half + [[]] * (size - len(half)))


def time_of(tasks: Tasks) -> float:
    """How long two threads take that take tasks in this order, whenever they are free."""
    first = second = 0.0
    for time, _ in tasks:
        first, second = sorted((first + time, second)) if first <= second else sorted((first, second + time))
    return max(first, second)
