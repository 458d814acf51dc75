"""Collectives among devices of this process, as native code carries them out (``native/coroutines.ll``).

A collective in a program is a record, one for all devices, in 64-bit words::

    0 its function  1 a Python object that is called where devices have threads of their own
    2 the number of the first of its rendezvous in a run, one for each group  3 of each device: its group, and its
    place in that  4 of each group: how many members it has, how many tasks there are, and their scripts
    5 the number of the program  6 what lets the threads of the pool share tasks

The record of a number of a device has 2 a divisor of that of all devices, and 3 a modulus.

Members leave the tables of their arrays' addresses, operands first, then results.  The last one to come carries out all
tasks, which threads of the pool share where there are several.  Every task is a script of steps, `_WORDS` words each::

    0 what it does: copy, write zeros, or fold, 0 being the end  1 how often  2 bytes, or elements to be folded
    3 to a member, 4 its array, 5 bytes from its beginning, 6 and from one time to the next  7-10 from there, likewise;
    a fold takes what all members have there  11 the function that folds (`hlotool.runtime.fold`)

Reductions go from the first member of the group to the last, so that results depend neither on timing nor on who was
last.  No operand lies where a result does: no collective is offered that (`hlotool.analysis.in_place`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.evaluate.combiner import combiner_of
from hlotool.ir import Instruction, Shape, dtype_of
from hlotool.ir.devices import Topology, device_groups, device_pairs
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import coroutines, pool
from hlotool.runtime.fold import fold, folds
from hlotool.runtime.load import Library

__all__ = ["RendezvousTable"]

_TASK_BYTES = 1 << 18
"""What a task reads and writes at most, about: waking somebody for less takes longer than doing it."""

_LINE = 64
_programs = itertools.count(1)


class RendezvousTable:
    """The collectives of a program on so many devices.

    `count` is how many rendezvous they take in a run, each of `stride` bytes.
    """

    def __init__(self, topology: Topology, threads: int | None = None) -> None:
        self.topology = topology
        self.count = 0
        self.program = next(_programs)
        self.stride = -(-8 * (2 + topology.devices) // _LINE) * _LINE
        self.parallel = pool.symbols(threads)["hlo_parallel"]
        self._records: dict[int, Rendezvous] = {}

    def add(self, instruction: Instruction, callable_address: int) -> Record | None:
        """What native code is given in the place of `callable_address`; None where it does not do this instruction."""
        if instruction.opcode in _DIVISORS:
            return Record(_number(instruction, self.topology, callable_address, self.program))
        groups = _groups(instruction, self.topology)
        if groups is None:
            return None
        scripts = [_tasks(instruction, self.topology, members) for members in groups]
        if any(tasks is None for tasks in scripts):
            return None
        first, self.count = self.count, self.count + len(groups)
        record = Rendezvous(instruction, groups, [*filter(None, scripts)], self, first, callable_address)
        self._records[record.address - 1] = record
        return record

    def record_at(self, address: int) -> Rendezvous:
        """The record of a collective that lies there."""
        return self._records[address]


class Record:
    """A record; `address` is what code calls, one past it."""

    def __init__(self, words: npt.NDArray[np.uint64]) -> None:
        self._words = words

    @property
    def address(self) -> int:
        return self._words.ctypes.data + 1


class Rendezvous(Record):
    """That of a collective."""

    def __init__(
        self, instruction: Instruction, groups: Sequence[tuple[int, ...]], scripts: Sequence[Sequence[_Script]],
        rendezvous: RendezvousTable, first: int, callable_address: int,
    ) -> None:  # fmt: skip
        self.instruction = instruction
        self.groups = groups
        places = np.full((rendezvous.topology.devices, 2), -1, np.int64)
        rows = np.zeros((len(groups), 3), np.uint64)
        kept: list[Any] = [places, rows]
        for number, (members, tasks) in enumerate(zip(groups, scripts, strict=True)):
            for place, member in enumerate(members):
                places[member] = number, place
            written = [np.array([*script.words, *[0] * _WORDS], np.uint64) for script in tasks]
            addresses = np.array([words.ctypes.data for words in written], np.uint64)
            rows[number] = len(members), len(tasks), addresses.ctypes.data
            kept += [written, addresses, [script.libraries for script in tasks]]
        words = [coroutines.meet_address(), callable_address, first, places.ctypes.data, rows.ctypes.data]
        words += [rendezvous.program, rendezvous.parallel]
        super().__init__(np.array(words, np.uint64))
        self._kept = kept


def _number(instruction: Instruction, topology: Topology, callable_address: int, program: int) -> Any:
    """The record of an instruction that gives a number of its device."""
    divisor, modulus = _DIVISORS[instruction.opcode](topology)
    return np.array([coroutines.number_address(), callable_address, divisor, modulus, 0, program], np.uint64)


_DIVISORS: dict[str, Callable[[Topology], tuple[int, int]]] = {
    "replica-id": lambda topology: (topology.partitions, topology.replicas),
    "partition-id": lambda topology: (1, topology.partitions),
}
"""Opcodes that give the number of a device divided by one number, modulo another."""


# ---- scripts

_COPY, _ZERO, _FOLD = coroutines.COPY, coroutines.ZERO, coroutines.FOLD
_WORDS = coroutines.STEP_WORDS


@dataclass(frozen=True, slots=True)
class _Place:
    """Bytes of an array of a member, which has operands first, then results."""

    member: int
    array: int
    offset: int = 0
    stride: int = 0

    @property
    def words(self) -> tuple[int, ...]:
        return self.member, self.array, self.offset, self.stride


class _Script:
    """Steps that are being written."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.libraries: list[Library] = []

    def copy(self, to: _Place, source: _Place, size: int, times: int = 1) -> None:
        if size and times:
            self.words += [_COPY, times, size, *to.words, *source.words, 0]

    def zero(self, to: _Place, size: int) -> None:
        self.words += [_ZERO, 1, size, *to.words, *to.words, 0]

    def fold(self, to: _Place, source: _Place, count: int, function: tuple[int, Library], times: int = 1) -> None:
        if count and times:
            self.words += [_FOLD, times, count, *to.words, *source.words, function[0]]
            self.libraries.append(function[1])


def _groups(instruction: Instruction, topology: Topology) -> tuple[tuple[int, ...], ...] | None:
    """The groups of a collective that takes and gives nothing but arrays of fixed sizes, and ends where it begins."""
    shape = instruction.shape
    results = shape.elements if shape.is_tuple else (shape,)
    arrays = [*(operand.shape for operand in instruction.operands), *results]
    if instruction.opcode not in _WRITERS or not all(one.is_array and one.is_static for one in arrays):
        return None
    groups = device_groups(instruction, topology)
    everyone = [member for members in groups for member in members]
    return groups if sorted(everyone) == [*range(topology.devices)] else None


def _tasks(instruction: Instruction, topology: Topology, members: Sequence[int]) -> list[_Script] | None:
    """What to do for a group, in parts that are independent of each other."""
    found = _WRITERS[instruction.opcode](instruction, topology, members)
    return None if found is None else [*_joined(found)]


def _joined(parts: Iterator[tuple[int, _Script]]) -> Iterator[_Script]:
    """Parts, each with about how many bytes it reads and writes, as tasks that are worth sharing."""
    whole, size = _Script(), 0
    for cost, part in parts:
        if whole.words and size + cost > _TASK_BYTES:
            yield whole
            whole, size = _Script(), 0
        whole.words += part.words
        whole.libraries += part.libraries
        size += cost
    yield whole


_Parts = Iterator[tuple[int, _Script]]


def _item(shape: Shape) -> int:
    return dtype_of(shape.element_type).itemsize


def _bytes(shape: Shape) -> int:
    return math.prod(shape.dimensions) * _item(shape)


def _function(instruction: Instruction, shape: Shape, members: int) -> tuple[int, Library] | None:
    """What folds an operand of `shape`, if it gives the bits that the evaluator does."""
    combiner = combiner_of(instruction.attributes["to_apply"])
    if combiner is None or combiner.element_type != shape.element_type:
        return None
    return fold(combiner.opcode, shape.element_type, members) if folds(combiner.opcode, shape.element_type) else None


def _functions(instruction: Instruction, members: int) -> list[tuple[int, Library]] | None:
    found = [_function(instruction, operand.shape, members) for operand in instruction.operands]
    return None if None in found else [one for one in found if one is not None]


def _all_reduce(instruction: Instruction, topology: Topology, members: Sequence[int]) -> _Parts | None:
    """The first member's result, piece by piece, and what it is to the others."""
    count, functions = len(members), _functions(instruction, len(members))
    if functions is None:
        return None

    def parts() -> _Parts:
        results = len(instruction.operands)
        for number, (operand, function) in enumerate(zip(instruction.operands, functions, strict=True)):
            item, elements = _item(operand.shape), math.prod(operand.shape.dimensions)
            piece = max(_LINE, _TASK_BYTES // (2 * count * item) // _LINE * _LINE)
            for begin in range(0, elements, piece):
                length, script = min(piece, elements - begin), _Script()
                own = _Place(0, results + number, begin * item)
                script.fold(own, _Place(0, number, begin * item), length, function)
                for other in range(1, count):
                    script.copy(_Place(other, results + number, begin * item), own, length * item)
                yield 2 * count * length * item, script

    return parts()


def _reduce_scatter(instruction: Instruction, topology: Topology, members: Sequence[int]) -> _Parts | None:
    """Of the reduced array every member has a part along one dimension."""
    count, functions = len(members), _functions(instruction, len(members))
    (dimension,) = instruction.attributes["dimensions"]
    if functions is None or any(o.shape.dimensions[dimension] % count for o in instruction.operands):
        return None

    def parts() -> _Parts:
        results = len(instruction.operands)
        for number, (operand, function) in enumerate(zip(instruction.operands, functions, strict=True)):
            outer, row = _rows(operand.shape, dimension)
            part = row // count
            for member in range(count):
                script = _Script()
                to = _Place(member, results + number, 0, part)
                length = part // _item(operand.shape)
                script.fold(to, _Place(0, number, member * part, row), length, function, outer)
                yield (count + 1) * outer * part, script

    return parts()


def _rows(shape: Shape, dimension: int) -> tuple[int, int]:
    """How often an array goes through a dimension, and the bytes of one time."""
    row = math.prod(shape.dimensions[dimension:]) * _item(shape)
    return math.prod(shape.dimensions[:dimension]), row


def _all_gather(instruction: Instruction, topology: Topology, members: Sequence[int]) -> _Parts | None:
    (dimension,) = instruction.attributes["dimensions"]
    count, results = len(members), len(instruction.operands)
    if not all(operand.shape.rank for operand in instruction.operands):
        return None

    def parts() -> _Parts:
        for number, operand in enumerate(instruction.operands):
            outer, row = _rows(operand.shape, dimension)
            for source in range(count):
                for target in range(count):
                    script = _Script()
                    to = _Place(target, results + number, source * row, count * row)
                    script.copy(to, _Place(source, number, 0, row), row, outer)
                    yield 2 * outer * row, script

    return parts()


def _all_to_all(instruction: Instruction, topology: Topology, members: Sequence[int]) -> _Parts | None:
    """Part N of everybody's operand goes to member N: parts are the operands themselves, or slices of the only one."""
    count, dimensions = len(members), instruction.attributes.get("dimensions")
    if not dimensions:
        return _operands_exchanged(instruction, count) if len(instruction.operands) == count else None
    shape = instruction.operands[0].shape
    if len(instruction.operands) > 1 or shape.dimensions[dimensions[0]] % count:
        return None
    return _slices_exchanged(shape, dimensions[0], count)


def _operands_exchanged(instruction: Instruction, count: int) -> _Parts:
    for source in range(count):
        for target in range(count):
            size, script = _bytes(instruction.operands[target].shape), _Script()
            script.copy(_Place(target, count + source), _Place(source, target), size)
            yield 2 * size, script


def _slices_exchanged(shape: Shape, dimension: int, count: int) -> _Parts:
    outer, row = _rows(shape, dimension)
    part = row // count
    for source in range(count):
        for target in range(count):
            script = _Script()
            to = _Place(target, 1, source * part, row)
            script.copy(to, _Place(source, 0, target * part, row), part, outer)
            yield 2 * outer * part, script


def _permute(instruction: Instruction, topology: Topology, members: Sequence[int]) -> _Parts | None:
    """Everybody gets what its source has; who has none, zeros."""
    if "slice_sizes" in instruction.attributes:
        return None
    sources = {target: source for source, target in device_pairs(instruction, topology)}
    place_of = {member: place for place, member in enumerate(members)}
    if any(sources.get(member, members[0]) not in place_of for member in members):
        return None

    def parts() -> _Parts:
        results = len(instruction.operands)
        for number, operand in enumerate(instruction.operands):
            size = _bytes(operand.shape)
            for place, member in enumerate(members):
                to, script = _Place(place, results + number), _Script()
                if member in sources:
                    script.copy(to, _Place(place_of[sources[member]], number), size)
                else:
                    script.zero(to, size)
                yield 2 * size, script

    return parts()


def _broadcast(instruction: Instruction, topology: Topology, members: Sequence[int]) -> _Parts:
    results = len(instruction.operands)
    for number, operand in enumerate(instruction.operands):
        size = _bytes(operand.shape)
        for place in range(len(members)):
            script = _Script()
            script.copy(_Place(place, results + number), _Place(0, number), size)
            yield 2 * size, script


_WRITERS: dict[str, Callable[[Instruction, Topology, Sequence[int]], _Parts | None]] = {
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "collective-permute": _permute,
    "collective-broadcast": _broadcast,
}
