"""All-reduces that are done again and again: what each needs is made once, and found by the addresses of its arrays.

Where every rank has one device, nothing has to be brought together on a rank first, and a repeated all-reduce is one
call of MPI for each operand on buffers that are known.  Small operands go to every rank, which reduces them in order.
Operations of MPI reduce others where they give the bits of the order of the devices: whose order makes no difference,
and sums and products of two.  What is neither is left to `hlotool.devices.mpi.exchange`.

That does the same in MPI, call by call, because some ranks of a group may take this way and others that one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlotool.devices.mpi.exchange import SMALL, peers
from hlotool.devices.mpi.groups import Group
from hlotool.devices.mpi.library import mpi
from hlotool.devices.mpi.types import Reduction, reduction_of
from hlotool.evaluate.combiner import combiner_of
from hlotool.evaluate.values import AnyArray
from hlotool.ir import Instruction, Shape, dtype_of
from hlotool.ir.devices import Topology
from hlotool.lazy_dataclass import dataclass

__all__ = ["Repeated", "repeated"]

_PLACES = 16
"""Sets of addresses that are remembered of one instruction: loops move their values between a few."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One operand: its shape, how MPI reduces it, and room for those of all members where they are added up here."""

    shape: Shape
    reduction: Reduction
    ufunc: Any
    gathered: AnyArray | None


@dataclass(frozen=True, slots=True)
class _Bound:
    """A part on arrays that lie somewhere: what begins its communication, and where its result is to be."""

    begin: Callable[[], Any]
    result: AnyArray


class Repeated:
    """One all-reduce of a rank with one device.  Used by one thread."""

    __slots__ = ("_bound", "_group", "_parts", "_pointers", "name", "peers", "place")

    def __init__(self, instruction: Instruction, topology: Topology, group: Group, parts: Sequence[_Part]) -> None:
        self.name, self.place = instruction.name, group.name
        self.peers = peers(instruction, topology, group)
        self._group, self._parts = group, tuple(parts)
        self._pointers = ctypes.c_void_p * (2 * len(parts))
        self._bound: dict[tuple[int, ...], tuple[_Bound, ...] | None] = {}

    def arrays(self, table: int) -> tuple[_Bound, ...] | None:
        """The arrays at the addresses in a table, operands first, then results; None where the memory of an operand is
        that of another operand's result."""
        addresses = tuple(self._pointers.from_address(table))
        found = self._bound.get(addresses, ())
        if found == ():
            if len(self._bound) == _PLACES:
                self._bound.clear()
            found = self._bound[addresses] = self._bind(addresses)
        return found

    def begin(self, arrays: Sequence[_Bound]) -> list[Any]:
        """Requests to wait for."""
        return [one.begin() for one in arrays]

    def end(self, arrays: Sequence[_Bound]) -> None:
        """All requests are complete: what is left to be computed."""
        for part, one in zip(self._parts, arrays, strict=True):
            if part.gathered is None:
                continue
            with np.errstate(all="ignore"):
                total = part.gathered[0]
                for other in part.gathered[1:]:
                    total = part.ufunc(total, other, out=one.result)

    def _bind(self, addresses: Sequence[int]) -> tuple[_Bound, ...] | None:
        count = len(self._parts)
        sources, targets = addresses[:count], addresses[count:]
        if any(source in targets and source != target for source, target in zip(sources, targets, strict=True)):
            return None
        return tuple(map(self._bind_one, self._parts, sources, targets))

    def _bind_one(self, part: _Part, source: int, target: int) -> _Bound:
        comm, datatype = self._group.comm, part.reduction.datatype
        operand, result = (_at(address, part.shape) for address in (source, target))
        if part.gathered is not None:
            mine = [operand.view(np.uint8), mpi().BYTE]
            all_of_them = [part.gathered.reshape(-1).view(np.uint8), operand.nbytes, mpi().BYTE]
            return _Bound(lambda: comm.Iallgather(mine, all_of_them), result)
        sent = mpi().IN_PLACE if source == target else [operand.view(np.uint8), datatype]
        received = [result.view(np.uint8), datatype]
        return _Bound(lambda: comm.Iallreduce(sent, received, part.reduction.operation), result)


def repeated(
    instruction: Instruction, topology: Topology, group: Group, fast: bool, own: Callable[[str, str], Any]
) -> Repeated | None:
    """How a rank with one device repeats `instruction`; None where that is not for this file.

    With `fast` MPI may reduce in any order; `own` is as in `reduction_of`.
    """
    if instruction.opcode != "all-reduce" or group.comm is None or any(len(place) != 1 for place in group.places):
        return None
    parts = [_part(instruction, number, group, fast, own) for number in range(len(instruction.operands))]
    known = [part for part in parts if part is not None]
    return Repeated(instruction, topology, group, known) if len(known) == len(parts) else None


def _part(
    instruction: Instruction, number: int, group: Group, fast: bool, own: Callable[[str, str], Any]
) -> _Part | None:
    shape, count = instruction.operands[number].shape, len(group.members)
    if not shape.is_array or not shape.is_static or not shape.byte_size:
        return None
    reduction = reduction_of(instruction, number, own)
    combiner = combiner_of(instruction.attributes["to_apply"])
    if reduction is None or combiner is None:
        return None
    if shape.byte_size * count > SMALL:
        by_mpi = fast or reduction.exact or (reduction.swaps and count == 2)
        return _Part(shape, reduction, combiner.ufunc, None) if by_mpi else None
    if not group.is_plain or not reduction.swaps:
        return None
    dtype = dtype_of(shape.element_type)
    return _Part(shape, reduction, combiner.ufunc, np.empty((count, shape.byte_size // dtype.itemsize), dtype))


def _at(address: int, shape: Shape) -> AnyArray:
    """The elements that lie there, in one dimension."""
    memory: Any = (ctypes.c_char * shape.byte_size).from_address(address)
    return np.frombuffer(memory, dtype_of(shape.element_type))
