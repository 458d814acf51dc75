"""All-reduces where every rank has one device: scripts of messages, which native code carries out again and again.

All members send what they have to each other, and every one reduces it from the first member to the last: no other way
takes fewer messages one after the other.  Small operands go as they are, all in one message.  Of large ones each
member reduces a slice, and sends that to the others; they go piece by piece, so that the memory for them is small, and
near: while the slices of one piece come together, those that were made of the piece before go round.

What messages a rank sends depends on the instruction alone, not on where its arrays lie.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlotool.devices.mpi.exchange import peers
from hlotool.devices.mpi.groups import Group
from hlotool.devices.mpi.script import Place, Running, Script
from hlotool.devices.mpi.types import Reduction, reduction_of
from hlotool.evaluate.combiner import combiner_of
from hlotool.evaluate.values import AnyArray
from hlotool.ir import Instruction, Shape, dtype_of
from hlotool.ir.devices import Topology
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.fold import fold, folds

__all__ = ["Repeated", "repeated"]

WHOLE = 1 << 18
"""Of all members together: operands up to this go as they are, which takes one message's time and not two."""

TOGETHER = 1 << 24
"""The same, of all operands that go in one message; others are large, whatever their size."""

PIECE = 1 << 20
"""Of a large operand."""

MOST = 64
"""Of a group: among more, MPI's own ways take fewer messages."""

_COUNT = 1 << 30
"""Bytes that MPI reduces at once: it counts elements in 32 bits."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Operand `number`: its shape, how many members have one, the opcode that reduces them, and whether it goes with
    others in one message; `by_mpi` where MPI reduces it."""

    number: int
    shape: Shape
    members: int
    opcode: str
    is_small: bool
    by_mpi: Reduction | None

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return dtype_of(self.shape.element_type).itemsize

    @property
    def count(self) -> int:
        return self.shape.byte_size // self.item

    def fold(self, script: Script, to: Place, places: Sequence[Place], count: int) -> None:
        script.fold(to, places, count, fold(self.opcode, self.shape.element_type, self.members))


class Repeated:
    """One all-reduce of a rank with one device.  Used by one thread.

    `stands_alone` where the native code of `running` may be called without this, wherever its arrays lie.
    """

    __slots__ = ("_large", "_parts", "name", "peers", "place", "running", "stands_alone")

    def __init__(
        self, instruction: Instruction, topology: Topology, group: Group, parts: Sequence[_Part], alarm: AnyArray,
        looks: int,
    ) -> None:  # fmt: skip
        self.name, self.place = instruction.name, group.name
        self.peers = peers(instruction, topology, group)
        self._parts = parts
        self._large = [part for part in parts if not part.is_small]
        self.stands_alone = len(self._large) < 2
        self.running = Running(_script(parts, group), group.comm, alarm, looks)

    def __call__(self, table: int) -> None:
        """Carry it out on the arrays whose addresses are in a table, operands first, then results."""
        count = len(self._parts)
        addresses = (ctypes.c_void_p * (2 * count)).from_address(table)
        sources, targets = addresses[:count], addresses[count:]
        copies = []
        for part in self._large:  # one is read when the result of another is there
            n = part.number
            if any(sources[n] == target for other, target in enumerate(targets) if other != n):
                memory: Any = (ctypes.c_char * part.shape.byte_size).from_address(sources[n] or 0)
                copies.append(np.frombuffer(memory, np.uint8).copy())
                sources[n] = copies[-1].ctypes.data
        moved = (ctypes.c_void_p * (2 * count))(*sources, *targets)
        self.running(ctypes.addressof(moved))


def repeated(
    instruction: Instruction, topology: Topology, group: Group, fast: bool, own: Callable[[str, str], Any],
    alarm: AnyArray, looks: int,
) -> Repeated | None:  # fmt: skip
    """How a rank with one device repeats `instruction`; None where that is not for this file.

    With `fast` MPI may reduce in any order; `own` is as in `reduction_of`, `alarm` and `looks` as in `Running`.
    """
    if instruction.opcode != "all-reduce" or group.comm is None or len(group.members) > MOST:
        return None
    combiner = combiner_of(instruction.attributes["to_apply"])
    parts, members, together = [], len(group.members), 0
    for number, operand in enumerate(instruction.operands):
        shape = operand.shape
        if combiner is None or not shape.is_array or not shape.is_static or combiner.element_type != shape.element_type:
            return None
        if not shape.byte_size or not folds(combiner.opcode, shape.element_type):
            return None
        whole = shape.byte_size * members
        is_small = whole <= WHOLE and together + whole <= TOGETHER
        together += whole * is_small
        by_mpi = reduction_of(instruction, number, own) if fast and not is_small and shape.byte_size < _COUNT else None
        parts.append(_Part(number, shape, members, combiner.opcode, is_small, by_mpi))
    return Repeated(instruction, topology, group, parts, alarm, looks)


def _script(parts: Sequence[_Part], group: Group) -> Script:
    script, first_result = Script(), len(parts)
    small = [part for part in parts if part.is_small]
    for part in parts:
        if part.by_mpi is not None:
            datatype, operation = part.by_mpi.datatype, part.by_mpi.operation
            result, count = Place(first_result + part.number), part.shape.byte_size // datatype.size
            script.reduce(result, Place(part.number), count, datatype, operation)
    blocks = _bring_together(script, small, group)
    script.wait()
    for part in parts:
        if not part.is_small and part.by_mpi is None:
            _in_slices(script, part, Place(first_result + part.number), group)
    for part, places in zip(small, blocks, strict=True):  # last: their results may lie where other operands did
        part.fold(script, Place(first_result + part.number), places, part.count)
    return script


def _bring_together(script: Script, parts: Sequence[_Part], group: Group) -> list[list[Place]]:
    """Send operands to all members, and take those of all; where each part will be of each member."""
    if not parts:
        return []
    offsets = [0]
    for part in parts:
        offsets.append(-(-(offsets[-1] + part.shape.byte_size) // 64) * 64)
    size = offsets[-2] + parts[-1].shape.byte_size
    mine = Place(parts[0].number) if len(parts) == 1 else script.room(size)
    blocks = {group.own: mine}
    for rank in _others(group):
        blocks[rank] = script.room(size)
        script.receive(blocks[rank], size, rank)
    if len(parts) > 1:
        for part, offset in zip(parts, offsets, strict=False):
            script.copy(Place(mine.array, mine.offset + offset), Place(part.number), part.shape.byte_size)
    for rank in _others(group):
        script.send(mine, size, rank)
    order = _ranks_in_order(group)
    return [[_from(blocks[rank], offset) for rank in order] for offset in offsets[:-1]]


def _in_slices(script: Script, part: _Part, result: Place, group: Group) -> None:
    """Piece by piece every member reduces a slice, and sends it to the others while the next piece comes together."""
    operand, item, members = Place(part.number), part.item, part.members
    pieces = -(-part.shape.byte_size // PIECE)
    bounds = [part.count * piece // pieces for piece in range(pieces + 1)]

    def slice_of(piece: int, rank: int) -> tuple[int, int]:
        """Where the slice of a rank begins, and its size, in bytes."""
        begin, length = bounds[piece], bounds[piece + 1] - bounds[piece]
        first, after = (begin + length * n // members for n in (rank, rank + 1))
        return first * item, (after - first) * item

    most = max(slice_of(piece, group.own)[1] for piece in range(pieces))
    blocks = {rank: script.room(most) for rank in _others(group)}
    for piece in range(pieces + 1):
        if piece < pieces:
            first, size = slice_of(piece, group.own)
            for rank in _others(group):
                script.receive(blocks[rank], size, rank)
            for rank in _others(group):
                theirs, length = slice_of(piece, rank)
                script.send(_from(operand, theirs), length, rank)
        if piece:
            done, made = slice_of(piece - 1, group.own)
            for rank in _others(group):
                theirs, length = slice_of(piece - 1, rank)
                script.receive(_from(result, theirs), length, rank)
            for rank in _others(group):
                script.send(_from(result, done), made, rank)
        script.wait()
        if piece < pieces and size:
            places = [blocks.get(rank, _from(operand, first)) for rank in _ranks_in_order(group)]
            part.fold(script, _from(result, first), places, size // item)


def _others(group: Group) -> list[int]:
    """The other ranks, beginning after this one: not all send to the same at once."""
    count = len(group.places)
    return [(group.own + n) % count for n in range(1, count)]


def _ranks_in_order(group: Group) -> list[int]:
    """The rank of each member."""
    rank_of = {place: rank for rank, (place,) in enumerate(group.places)}
    return [rank_of[place] for place in range(len(group.members))]


def _from(place: Place, offset: int) -> Place:
    return Place(place.array, place.offset + offset)
