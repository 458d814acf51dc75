"""Which steps of a program run side by side: those that do not wait for each other, where that takes less time.

A step is what runs at one place of a computation's order: a kernel, or a whole loop or conditional.  A *region* is a
number of steps of which none needs what another one makes, nor writes where another one reads.  It is run as one
parallel job: kernels whose tasks are many are cut, small ones put together, loops are one task.  What stands between
its first step and its last goes before it, or after it where it needs something of it.

All storage of a region's steps, and of what has moved, is taken from the region's first place to its last, so that the
arena gives no two of them the same bytes, in whatever order they run.  The initial state of a region's loops is copied
before it begins: another loop may go on where it came from.

`plan.dependencies` knows which steps wait for each other, `step_costs` how long they take, `plan.region` how they are
dealt out to threads, `plan.arena` whether there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Annotated

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.host.step_costs import FORK, StepCosts, is_split, least_work
from hlotool.codegen.plan.arena import Reservations
from hlotool.codegen.plan.dependencies import Waits, dependencies, touched
from hlotool.codegen.plan.region import Region, Schedule, dealt, tasks_of, time_of
from hlotool.codegen.plan.steps import CONTROL, Steps, called, inside
from hlotool.ir import Computation, Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["schedule"]

_SPIN: Annotated[float, Threshold("nanoseconds")] = 30_000.0
"""Workers stay awake for 70 us; estimates may be too low by half."""

_SMALL: Annotated[float, Threshold("nanoseconds")] = 300.0
"""A kernel quicker than this is not worth a task: it runs before the region, or after it."""

_LARGE: Annotated[float, Threshold("nanoseconds")] = 60_000.0
"""A kernel that takes longer, and can be split, has nothing to gain from others beside it."""

_FEW: Annotated[int, Threshold("steps")] = 4
"""More tasks than that had better be for as many threads."""

_LEAST_SHARE: Annotated[float, Threshold("share")] = 0.1  # of the time, that a region must save
_LEAST_GAIN: Annotated[float, Threshold("nanoseconds")] = 4_000.0
"""The share of the time that a region must save, and nanoseconds outside of loops: costs are estimates."""

_MOST: Annotated[int, Threshold("steps")] = 60
"""Steps of a region."""

_AHEAD: Annotated[int, Threshold("steps")] = 16
"""Steps that a region may wait for: how far ahead of them its own may come."""


def schedule(steps: Steps, log: DecisionLog) -> Schedule:
    """Find the regions of a program and reserve their storage; `place` is still to come.

    Nothing goes past an instruction that stays where it is: those that talk to the runtime, and loops that poll.
    """
    log.pass_name = "overlap"
    scheduler = _Scheduler(steps, log)
    scheduler.computation(steps.entry, looped=False)
    return Schedule(scheduler.orders, scheduler.split, scheduler.split_awake)


@dataclass(slots=True)
class _Window:
    """The next instructions of a computation: steps that could be a region, and what goes before and after them."""

    ahead: list[Instruction]  # before the first step
    steps: list[Instruction]
    moved: list[Instruction]  # between steps, but none of them has to come first
    after: list[Instruction]


class _Scheduler:
    def __init__(self, steps: Steps, log: DecisionLog) -> None:
        self.steps = steps
        self.assignment = steps.assignment
        self.costs = StepCosts(steps)
        self.reservations = Reservations(steps)
        self.log = log
        self.orders: dict[Computation, list[Instruction | Region]] = {}
        self.split: set[tuple[Instruction, int]] = set()
        self.split_awake: set[tuple[Instruction, int]] = set()
        self.idle = float("inf")  # nanoseconds since several threads had work
        self.fixed: dict[Instruction, bool] = {}
        self.around: list[Instruction] = []  # loops and conditionals that are open
        self.refused: set[Instruction] = set()

    def computation(self, computation: Computation, looped: bool) -> None:
        """Decide about a computation, and those that its loops and branches call outside of regions."""
        items: list[Instruction | Region] = []
        regions = False
        for item in self._items(computation, looped):
            items.append(item)
            if isinstance(item, Region):
                regions = True
                self.idle = 0.0
            elif item in self.steps.kernels:
                if item in self.steps.routines and self.steps.routines[item].forks:
                    self.idle = 0.0
                steps = self.steps.kernels[item].steps
                # Workers are awake beside a long step, too; what comes ahead of that wakes them in time for it.
                awake = looped or any(is_split(step, looped) for step in steps)
                for number, step in enumerate(steps):
                    self.idle += step.cost
                    if is_split(step, awake):
                        self.split.add((item, number))
                        self.idle = 0.0
                    elif not looped and self.costs.sharing_pays(item, step):
                        self.split_awake.add((item, number))
            elif item in self.steps.task_loops:
                self.idle = 0.0
            elif item in self.steps.small_loops:
                self.idle += self.costs.serial(item)
            else:
                self.around.append(item)
                for inner in called(item):
                    self.computation(inner, looped or item.opcode == "while")
                self.around.pop()
        if regions:
            self.orders[computation] = items

    def _items(self, computation: Computation, looped: bool) -> Iterator[Instruction | Region]:
        """The instructions of a computation and its regions, in order; each is to be dealt with before the next."""
        order = [i for i in computation if self.steps.runs(i)]
        steps = {i for i in order if self._is_step(i, looped)}
        if len(steps) < 2 or sum(self.costs.serial(i) for i in steps) <= least_work(looped, awake=True):
            yield from order
            return
        waits, enters = dependencies(order, self.steps)
        pending = deque(order)
        while pending:
            window = self._window(pending, steps, waits, enters)
            yield from window.ahead
            region = self._region(window, looped) if len(window.steps) > 1 else None
            if region is not None:
                yield from window.moved
                yield region
                pending.extendleft(reversed(window.after))
            elif window.steps:  # the first goes alone
                first, *others = window.steps
                yield first
                others += window.moved + window.after
                pending.extendleft(sorted(others, key=self.assignment.positions.__getitem__, reverse=True))

    def _window(self, pending: deque[Instruction], steps: set[Instruction], waits: Waits, enters: Waits) -> _Window:
        """Take instructions off `pending`, up to the last that could be in a region with the first."""
        window = _Window([], [], [], [])
        blocked: set[Instruction] = set()
        late: set[Instruction] = set()
        taken: list[Instruction] = []
        heavy = 0
        last = 0
        while pending and heavy < _AHEAD and len(window.steps) < _MOST:
            instruction = pending[0]
            if self._is_fixed(instruction):
                break
            taken.append(pending.popleft())
            # What moves ahead comes before the region's loops have their state; its steps come after.
            unready = late if instruction in steps else blocked
            if not (waits[instruction].isdisjoint(blocked) and enters[instruction].isdisjoint(unready)):
                blocked.add(instruction)
                late.add(instruction)
                heavy += self.costs.serial(instruction) > _SMALL
            elif instruction in steps:
                blocked.add(instruction)
                window.steps.append(instruction)
                last = len(taken)
            elif window.steps:
                heavy += self.costs.serial(instruction) > _LARGE
        if not window.steps:
            window.ahead = taken or [pending.popleft()]
            return window
        pending.extendleft(reversed(taken[last:]))
        chosen = set(window.steps)
        first = self.assignment.positions[window.steps[0]]
        for instruction in taken[:last]:
            if instruction not in chosen:
                early = window.ahead if self.assignment.positions[instruction] < first else window.moved
                (window.after if instruction in late else early).append(instruction)
        return window

    def _is_step(self, instruction: Instruction, looped: bool) -> bool:
        """Whether an instruction may be in a region."""
        if self._is_fixed(instruction) or self.costs.serial(instruction) < _SMALL:
            return False
        kernel = self.steps.kernels.get(instruction)
        routine = self.steps.routines.get(instruction)
        if routine is not None and routine.forks:
            return False
        if kernel is None:
            return instruction.opcode in CONTROL and not self._stays_outside(instruction)
        if len(kernel.steps) == 1:
            return kernel.steps[0].tasks == 1 or kernel.steps[0].cost <= _LARGE
        return not any(is_split(step, looped) for step in kernel.steps)

    def _is_fixed(self, instruction: Instruction) -> bool:
        """Whether an instruction, or one that it calls, has to stay where it is."""
        found = self.fixed.get(instruction)
        if found is None:
            found = self.steps.stays(instruction) or bool(instruction.control_predecessors)
            found = found or any(self._is_fixed(i) for c in called(instruction) for i in c)
            self.fixed[instruction] = found
        return found

    def _stays_outside(self, instruction: Instruction) -> bool:
        """Whether a loop or conditional is better no task.

        Kernels inside may gain more from all threads, and another function knows neither the place of a loop's state
        that moves from trip to trip nor that of views.
        """
        inner = list(inside(instruction))
        if any(i in self.steps.task_loops for i in inner):
            return True
        steps = [step for i in inner if i in self.steps.kernels for step in self.steps.kernels[i].steps]
        if any(step.tasks > 1 and step.cost > _LARGE for step in steps):
            return True
        if instruction in self.steps.task_loops and any(step.tasks > _FEW for step in steps):
            return True
        moving = self.assignment.swapped(self.around)
        values = touched(instruction, self.steps).anything
        made = {self.assignment.leaves[i][0].find() for i in inner if i in self.assignment.views}
        made.update(value.find() for i in inner for value, _ in self.assignment.targets.get(i, ()))
        return any(v in moving or (v.whole is not None and v.start is None and v not in made) for v in values)

    def _region(self, window: _Window, looped: bool) -> Region | None:
        """The steps of a window as a region; None where that would save too little, or take too much memory."""
        steps = window.steps
        serial = sum(self.costs.serial(i) for i in steps)
        if serial <= least_work(looped, awake=self.idle < _SPIN):
            return None
        now = sum(self.costs.alone(i, looped) for i in steps)
        times = {instruction: self.costs.beside(instruction, looped) for instruction in steps}
        tasks = tasks_of(times, self.steps.kernels)
        then = time_of(tasks) + FORK
        numbers = {"tasks": len(tasks), "nanoseconds_before": round(now), "nanoseconds_after": round(then)}
        little = now - then < max(_LEAST_SHARE * now, 0.0 if looped else _LEAST_GAIN)
        if little or not self.reservations.reserve([*steps, *window.moved]):
            rule, reason = "memory", "all that they need and make would be alive at once"
            if little:
                rule, reason = "little-gain", "it takes hardly longer than side by side"
            if self.refused.isdisjoint(steps):  # the next window has most of them again
                self.log.refuse(rule, steps, reason, **numbers)
            self.refused.update(steps)
            return None
        self.log.note("side-by-side", steps, "they do not wait for each other", **numbers)
        return Region(tuple(steps), dealt(tasks))
