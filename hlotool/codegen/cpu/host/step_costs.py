"""How long steps of a program take: on one thread, with all threads for themselves, and beside other steps.

Times are nanoseconds, estimated, and those of two threads: with more, loops are still at least as quick, and splitting
alone would seldom use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from hlotool.analysis.in_place import updates_part
from hlotool.analysis.thresholds import Threshold
from hlotool.analysis.trip_count import known_trip_count
from hlotool.codegen.kernel import Step
from hlotool.codegen.plan.buffers import ALIASES, branch_computations
from hlotool.codegen.plan.steps import CONTROL, Steps, called
from hlotool.ir import Computation, Instruction

__all__ = ["ASLEEP", "FORK", "StepCosts", "is_split", "least_work", "shares_loop"]

ASLEEP: Annotated[int, Threshold("nanoseconds")] = 20_000
"""Work is given to several threads when it is estimated to take longer than this (a fork-join costs about 1 us, a
sleeping worker about 10)."""

LOOPED: Annotated[int, Threshold("nanoseconds")] = 2_500
"""The same inside of loops, where the workers are still awake from the trip before (half a microsecond)."""

_AWAKE: Annotated[int, Threshold("nanoseconds")] = 10_000
"""The same for independent steps soon after several threads had work.  What is split then has to fetch what another
thread has just made."""

FORK: Annotated[float, Threshold("nanoseconds")] = 1_000.0
"""Nanoseconds of a fork-join."""

_PER_BYTE: Annotated[float, Threshold("cost")] = 0.1
"""Nanoseconds for a byte that another core has just written.  (Half of them are where they are wanted, but the times
of what moves bytes within one core's cache are estimated at twice what they are.)"""

_PER_SHARED_BYTE: Annotated[float, Threshold("cost")] = 0.07
"""Nanoseconds for a byte that was just written or will be read next, of which half are in the cache of another core
(measured: 0.9 us for 12.8 KB)."""

_PLAIN: Annotated[float, Threshold("cost")] = 2.0
"""Nanoseconds of arithmetic on single elements, and of a step on the way of a loop."""

_TRIPS: Annotated[int, Threshold("trips")] = 10
"""What a loop is taken for when nobody knows how often it runs."""

_GAIN: Annotated[float, Threshold("share")] = 0.25
"""The share of its time that sharing a step should save at least."""

_SHARED: Annotated[float, Threshold("share")] = 0.7
"""The share of its time that a loop takes whose few tasks two threads go through: what they have in common, the weights
of a recurrent network, is read for fewer rows at a time."""


def least_work(looped: bool, awake: bool = False) -> float:
    """Work is given to several threads when it takes longer than this; `awake` says that they had some lately."""
    return LOOPED if looped else _AWAKE if awake else ASLEEP


def is_split(step: Step, looped: bool) -> bool:
    """Whether several threads share the tasks of a function."""
    return step.tasks > 1 and step.cost > least_work(looped)


def shares_loop(step: Step, trips: int) -> bool:
    """Whether threads should share a loop of so many trips around a step."""
    return step.cost > LOOPED or step.cost * trips > ASLEEP


class StepCosts:
    """The times of a program's steps; those that are asked for often are kept."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._serial: dict[Instruction, float] = {}
        self._transport: dict[Instruction, float] = {}

    def serial(self, instruction: Instruction) -> float:
        """Nanoseconds of an instruction on one thread."""
        found = self._serial.get(instruction)
        if found is None:
            kernel = self._steps.kernels.get(instruction)
            if kernel is not None:
                found = sum(step.cost for step in kernel.steps)
            elif instruction.opcode == "conditional":
                found = max(self.whole(branch) for branch in branch_computations(instruction))
            else:
                found = _PLAIN + _trips(instruction) * sum(self.whole(inner) for inner in called(instruction))
            self._serial[instruction] = found
        return found

    def trip(self, loop: Instruction) -> float:
        """Nanoseconds of one trip of a loop on one thread."""
        return _PLAIN + sum(self.whole(inner) for inner in called(loop))

    def whole(self, computation: Computation) -> float:
        """Nanoseconds of a computation on one thread."""
        return sum(self.serial(i) for i in _working(computation))

    def alone(self, instruction: Instruction, looped: bool) -> float:
        """Nanoseconds of an instruction that has all threads to itself."""
        kernel = self._steps.kernels.get(instruction)
        if kernel is not None:
            return sum(s.cost / 2 + FORK if is_split(s, looped) else s.cost for s in kernel.steps)
        if instruction.opcode not in CONTROL:
            return _PLAIN
        if instruction in self._steps.task_loops:
            return self.serial(instruction) * _SHARED + FORK
        looped = looped or instruction.opcode == "while"
        times = (sum(self.alone(i, looped) for i in _working(c)) for c in called(instruction))
        return max(times) if instruction.opcode == "conditional" else _PLAIN + _trips(instruction) * sum(times)

    def beside(self, instruction: Instruction, looped: bool) -> float:
        """Nanoseconds of an instruction on one thread, whichever that is.

        What would be split anyway has its operands anywhere.
        """
        kernel = self._steps.kernels.get(instruction)
        split = kernel is not None and any(is_split(step, looped) for step in kernel.steps)
        split = split or instruction in self._steps.task_loops
        return self.serial(instruction) + (0.0 if split else self._moved(instruction))

    def _moved(self, instruction: Instruction) -> float:
        """Nanoseconds for what goes from core to core when any thread may run an instruction: what others made, and
        what it makes for others."""
        found = self._transport.get(instruction)
        if found is None:
            leaves = self._steps.assignment.leaves
            results = leaves[instruction]
            own = {value.find() for value in results}
            read = {value.storage(): value.size for operand in instruction.operands for value in leaves[operand]}
            moved = 0
            for root, size in read.items():
                if root not in own and root.parameter is None and root.constant is None:
                    moved += size
            for number, value in enumerate(results):
                if value.find().output is None and not updates_part(instruction, number):
                    moved += value.size
            found = self._transport[instruction] = moved * _PER_BYTE
        return found

    def sharing_pays(self, instruction: Instruction, step: Step) -> bool:
        """Whether sharing a shorter step saves more than it costs while workers are awake.

        Arguments and constants are the same in every run: each core has read them before.
        """
        if step.tasks <= 1 or step.cost * _GAIN <= FORK:
            return False
        leaves = self._steps.assignment.leaves
        values = {v.find() for i in (*instruction.operands, instruction) for v in leaves[i]}
        moved = sum(value.size for value in values if value.writable and value.parameter is None)
        return step.cost * _GAIN > FORK + _PER_SHARED_BYTE * moved


def _working(computation: Computation) -> Iterator[Instruction]:
    """The instructions of a computation that take time."""
    return (i for i in computation if i.opcode not in ALIASES and i.opcode != "parameter")


def _trips(instruction: Instruction) -> int:
    if instruction.opcode != "while":
        return 1
    trips = known_trip_count(instruction)
    return _TRIPS if trips is None else trips
