"""Cones of a computation: what instructions need, what needs them, and what lies between two."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hlotool.ir import InputError, Instruction

__all__ = ["cone", "paths_between"]


def cone(starts: Iterable[Instruction], backward: int | None = 0, forward: int | None = 0) -> set[Instruction]:
    """The instructions, with what is at most so many edges before and after them; None: all of it."""
    first = list(starts)
    return _within(first, lambda i: i.operands, backward) | _within(first, lambda i: i.users, forward)


def paths_between(first: Instruction, second: Instruction) -> set[Instruction]:
    """All instructions on paths from the one to the other, whichever comes first; InputError when there is none."""
    if first.parent is not second.parent:
        raise InputError(f"{first.name} and {second.name} are in different computations")
    for start, end in ((first, second), (second, first)):
        ahead = cone([start], forward=None)
        if end in ahead:
            return ahead & cone([end], backward=None)
    raise InputError(f"no path leads from {first.name} to {second.name}, or back")


def _within(
    starts: Iterable[Instruction], step: Callable[[Instruction], Iterable[Instruction]], distance: int | None
) -> set[Instruction]:
    found = dict.fromkeys(starts)
    layer = list(found)
    while layer and (distance is None or distance > 0):
        following = dict.fromkeys(other for one in layer for other in step(one) if other not in found)
        found |= following
        layer = list(following)
        distance = None if distance is None else distance - 1
    return set(found)
