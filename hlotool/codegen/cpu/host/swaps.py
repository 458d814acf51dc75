"""Loops that exchange two storages in every trip, instead of copying the new state to where the old one was.

Where the state of such a loop is, and where its next value comes, stands in two spots of the function's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from hlotool.codegen.cpu.host.body import Body
from hlotool.codegen.llvm.control import when
from hlotool.codegen.llvm.values import Ptr
from hlotool.codegen.plan.values import Copy
from hlotool.ir import Instruction

__all__ = ["begin_swaps", "end_swaps", "swap"]


def begin_swaps(body: Body, loop: Instruction) -> dict[Copy, Ptr]:
    """Put down where the two storages of every swap are; the addresses of those that are the state's own."""
    homes = {}
    for copy in body.assignment.swaps.get(loop, ()):
        values = (copy.target, copy.source)
        addresses = [body.address(value) for value in values]
        for value, address, spot in zip(values, addresses, body.spots[copy], strict=True):
            spot.store(address)
            body.places[value.find()] = spot
        homes[copy] = addresses[0]
    return homes


def swap(body: Body, copies: Iterable[Copy]) -> None:
    """Let the values of this trip be the state of the next."""
    for copy in copies:
        addresses = [body.address(copy.source), body.address(copy.target)]
        for address, spot in zip(addresses, body.spots[copy], strict=True):
            spot.store(address)


def end_swaps(body: Body, homes: Mapping[Copy, Ptr]) -> None:
    """Behind a loop, copy state that is not in its own storage there."""
    for copy, home in homes.items():
        address = body.address(copy.target)
        del body.places[copy.target.find()], body.places[copy.source.find()]
        when(address.ne(home), partial(home.copy_from, address, copy.source.size))
