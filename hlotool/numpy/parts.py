"""Arrays that are parts of others: ``x[1:]``, ``x.T``, a reshaped array have the elements of `x`, as NumPy's views do.

Each concrete array has values of its own.  A part remembers the array that is a part of no other, its owner, and where
in the memory of that its elements would be; the owner stays while it has parts, as in NumPy, and knows them.  An
assignment to a part is one to its owner, all of whose parts then get their elements anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import numpy

__all__ = ["Step", "Ties", "is_tied", "layout_of", "owner_of", "place_in", "refresh", "seen_in", "tie"]

Array: TypeAlias = Any  # that of `array.py`, which is written with this file
Values = numpy.ndarray[Any, Any]
Step = Callable[[Values], Any]
"""From the values of an array to those of a part, in the same memory where NumPy has a view."""

_FEW = 16


class _Place(NamedTuple):
    """Where the elements of a part lie in the memory of its owner, which is row-major."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: numpy.dtype[Any]
    writeable: bool


class Ties:
    """The arrays with which one shares its elements: the owner of a part, or the parts of an owner.

    Few parts are ever assigned to, so the place of one made by basic indices is looked for only then: by its `step`
    from the place of the part `above`, or from the owner.
    """

    __slots__ = ("above", "most", "owner", "parts", "place", "step")

    def __init__(self, owner: Array | None = None, above: Ties | None = None, step: Step | None = None) -> None:
        self.owner = owner
        self.above = above
        self.step = step
        self.place: _Place | None = None
        self.parts: list[ref[Array]] = []
        self.most = _FEW  # how many parts there may be until those that are gone are left out


def tie(part: Array, whole: Array, step: Step, surely: bool = False) -> None:
    """Let `part`, which is new, share the elements of `whole` that `step` finds, if NumPy has a view there, as it
    `surely` has for basic indices; both are concrete."""
    above = whole._ties
    if above is None:
        above = whole._ties = Ties()
    owner = whole if above.owner is None else above.owner
    own = Ties(owner, above if above.owner is not None else None, step)
    if not surely and not _find(own):
        return
    part._ties = own
    known = owner._ties
    if len(known.parts) >= known.most:
        known.parts = [one for one in known.parts if one() is not None]
        known.most = 2 * len(known.parts) + _FEW
    known.parts.append(ref(part))


def _find(ties: Ties) -> bool:
    """Look for the place of a part; whether NumPy has a view there."""
    steps, place = _steps(ties)
    owner: Any = ties.owner
    memory = numpy.empty(owner.shape, owner._value.dtype)  # of which the places alone matter
    found: Any = _view(memory, place)
    for step in steps:
        found = step(found)
    if not isinstance(found, numpy.ndarray) or (found.size and not numpy.may_share_memory(found, memory)):
        return False
    offset = _address(found) - _address(memory) if found.size else 0
    ties.place = _Place(offset, found.shape, found.strides, found.dtype, found.flags.writeable)
    ties.above = ties.step = None
    return True


def _steps(ties: Ties) -> tuple[list[Step], _Place | None]:
    """The steps to a part, and from which place in the memory of its owner: from all of it where there is none."""
    steps: list[Step] = []
    at: Ties | None = ties
    while at is not None and at.step is not None:
        steps.append(at.step)
        at = at.above
    return steps[::-1], None if at is None else at.place


def _address(values: Values) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


def _view(memory: Values, place: _Place | None) -> Values:
    """What `memory`, which is row-major, has in a place; all of it if there is none."""
    if place is None:
        return memory
    found: Values = numpy.ndarray(
        place.shape, place.dtype, memory.reshape(-1).view(numpy.uint8), place.offset, place.strides
    )
    found.flags.writeable = place.writeable
    return found


def is_tied(x: Array) -> bool:
    """Whether an array is there that shares elements with `x`."""
    ties = x._ties
    return ties is not None and (ties.owner is not None or any(one() is not None for one in ties.parts))


def owner_of(x: Array) -> Array:
    """The concrete array in which an assignment to `x` takes place: `x` where that is no part."""
    owner = None if x._ties is None else x._ties.owner
    return x if owner is None or owner._trace is not None else owner


def place_in(held: Values, x: Array, owner: Array) -> Values:
    """Where the elements of `x` are in the row-major values of its owner."""
    if x is owner:
        return held
    if x._ties.step is not None:
        _find(x._ties)
    return _view(held, x._ties.place)


def layout_of(x: Array) -> Values:
    """An array without elements of its own that lies in memory as `x` does: in row-major order, or as a part."""
    owner = owner_of(x)
    return place_in(numpy.empty(owner.shape, owner.dtype), x, owner)


def seen_in(x: Array) -> Values:
    """The elements of a concrete array; of a part, in the memory of its owner, where functions of NumPy that look at
    strides expect them."""
    owner = owner_of(x)
    held: Values = x._value if owner is x else owner._value
    if owner is x or not held.flags.c_contiguous:
        own: Values = x._value.view()
        return own
    steps, place = _steps(x._ties)
    found: Any = _view(held, place)
    for step in steps:
        found = step(found)
    seen: Values = found.view()
    return seen


def refresh(owner: Array) -> None:
    """Give all parts of an array, whose values are row-major, their elements."""
    for one in owner._ties.parts if owner._ties is not None else ():
        part = one()
        if part is not None and part._trace is None:
            part._value = numpy.array(place_in(owner._value, part, owner), order="C")
            part._mutable = True
