"""Arrays that are parts of others: ``x[1:]``, ``x.T``, a reshaped array have the elements of `x`, as NumPy's views do.

Each concrete array has values of its own.  A part remembers the ways to it from the arrays that it is a part of, as
functions of NumPy, and these know their parts.  An assignment to one of them is one to the farthest array that is there
still, along the way; then all its parts get their elements anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import ref

import numpy

__all__ = ["Step", "Ties", "farthest", "is_tied", "reached", "refresh", "tie"]

Array: TypeAlias = Any  # that of `array.py`, which is written with this file
Values = numpy.ndarray[Any, Any]
Step = Callable[[Values], Any]
"""From the values of an array to those of a part, in the same memory where NumPy has a view."""

_FEW = 16


class Ties:
    """With which arrays one shares its elements; `wholes` from the nearest to the farthest."""

    __slots__ = ("most", "parts", "wholes")

    def __init__(self) -> None:
        self.wholes: tuple[tuple[ref[Array], tuple[Step, ...]], ...] = ()
        self.parts: list[tuple[ref[Array], tuple[Step, ...]]] = []
        self.most = _FEW  # how many parts there may be until those that are gone are left out


def _ties(x: Array) -> Ties:
    found: Ties = Ties() if x._ties is None else x._ties
    x._ties = found
    return found


def tie(part: Array, whole: Array, step: Step) -> None:
    """Let `part`, which is new, share the elements of `whole` that `step` finds; both are concrete."""
    wholes: list[tuple[ref[Array], tuple[Step, ...]]] = [(ref(whole), (step,))]
    if whole._ties is not None:
        wholes += [(one, (*steps, step)) for one, steps in whole._ties.wholes if one() is not None]
    _ties(part).wholes = tuple(wholes)
    mine = ref(part)
    for one, steps in wholes:
        holder = one()
        if holder is None:
            continue
        known = _ties(holder)
        if len(known.parts) >= known.most:
            known.parts = [pair for pair in known.parts if pair[0]() is not None]
            known.most = 2 * len(known.parts) + _FEW
        known.parts.append((mine, steps))


def is_tied(x: Array) -> bool:
    """Whether an array is there that shares elements with `x`."""
    ties = x._ties
    return ties is not None and any(one() is not None for one, _ in (*ties.wholes, *ties.parts))


def farthest(x: Array) -> tuple[Array, tuple[Step, ...]]:
    """Of what is there, the whole that is no part of another, and the steps from it to `x`."""
    found: tuple[Array, tuple[Step, ...]] = (x, ())
    for one, steps in x._ties.wholes if x._ties is not None else ():
        whole = one()
        if whole is not None and whole._trace is None:
            found = whole, steps
    return found


def reached(held: Values, steps: tuple[Step, ...]) -> Values | None:
    """The part of `held`, in its memory; None where NumPy has a copy there."""
    place: Any = held
    for step in steps:
        place = step(place)
    return place if place is held or getattr(place, "base", None) is held else None


def refresh(whole: Array) -> None:
    """Give all parts of `whole`, which has memory of its own, their elements."""
    for one, steps in whole._ties.parts if whole._ties is not None else ():
        part = one()
        if part is not None and part._trace is None:
            place = reached(whole._value, steps)
            if place is not None:
                part._value = numpy.array(place, order="C")
                part._mutable = True
