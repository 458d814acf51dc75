"""Storage for longer than the order of a program asks for: steps that move are run earlier or later than they stand."""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.plan.arena import is_temporary
from hlotool.codegen.plan.buffers import occupy
from hlotool.codegen.plan.dependencies import touched
from hlotool.codegen.plan.steps import CONTROL, Steps, called
from hlotool.codegen.plan.values import Assignment
from hlotool.ir import Instruction

__all__ = ["Storage"]

_MORE_BYTES: Annotated[int, Threshold("bytes")] = 256 << 10  # that may be alive at once beyond the peak
_MORE_SHARE: Annotated[float, Threshold("share")] = 1 / 16  # of the peak, likewise
"""What may be alive at once beyond the peak: so many bytes, and this share of the peak."""


class Storage:
    """The storage of a program, of which some is taken for longer where steps move."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.alive: list[int] = []  # bytes of the arena, by position
        self.most = 0

    def reserve(self, moved: list[Instruction]) -> bool:
        """Take the storage of what moves for as long as it moves, if that is not too much."""
        if not self.alive:
            self._count()
        positions = self.steps.assignment.positions
        start = min(positions[i] for i in moved)
        end = max(_end(i, self.steps.assignment) for i in moved)
        storage = dict.fromkeys(value for i in moved for value in touched(i, self.steps).storage() if value.intervals)
        longer = [value for value in storage if value.intervals[0][0] > start or value.intervals[-1][1] < end]
        there = {value: range(value.intervals[0][0], value.intervals[-1][1] + 1) for value in longer}
        more = self.alive[start : end + 1]
        for value in longer:
            if is_temporary(value):
                for position in range(start, end + 1):
                    if position not in there[value]:
                        more[position - start] += value.size
        if max(more) > self.most * (1 + _MORE_SHARE) + _MORE_BYTES:
            return False
        self.alive[start : end + 1] = more
        for value in longer:
            occupy(value, start, end)
        return True

    def _count(self) -> None:
        """Count the bytes that are alive at each position."""
        roots = {value.find() for value in self.steps.assignment.values}
        changes = [0] * (max(value.intervals[-1][1] for value in roots if value.intervals) + 2)
        for value in roots:
            if is_temporary(value) and value.intervals:
                changes[value.intervals[0][0]] += value.size
                changes[value.intervals[-1][1] + 1] -= value.size
        self.alive = list(accumulate(changes))
        self.most = max(self.alive)


def _end(instruction: Instruction, assignment: Assignment) -> int:
    """The last position that belongs to an instruction."""
    if instruction.opcode not in CONTROL:
        return assignment.positions[instruction]
    *_, last = called(instruction)[-1]
    return _end(last, assignment) + 4
