"""What each collective is in MPI: requests to wait for, and what is computed between them.

An exchange is a generator.  It starts communication and yields the requests, goes on when they are complete, and ends
when the results of this rank's devices are where they are to be.  Arrays are sent from where they lie and received
where they are to be; where they do not lie side by side (other dimensions, several devices on a rank), data types of
MPI say where.  Where all ranks have one device each, and blocks lie side by side, it is the collective of MPI by that
name.

A reduction whose order makes a difference goes from the first member to the last, as it does among threads: what is
reduced is brought together, all of it on every rank where it is small, else to each rank the part that it reduces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hlotool.devices.mpi.groups import Group
from hlotool.devices.mpi.library import mpi
from hlotool.devices.mpi.types import Reduction, packed_type, reduction_of
from hlotool.evaluate.combiner import combiner_of
from hlotool.evaluate.devices import Rendezvous
from hlotool.evaluate.values import AnyArray, Value, leaves_of, value_from_leaves
from hlotool.ir import Instruction
from hlotool.ir.devices import Topology, device_pairs
from hlotool.lazy_dataclass import dataclass

__all__ = ["SMALL", "Job", "Steps", "exchange", "peers", "placed"]

Steps: TypeAlias = "Iterator[list[Any]]"
"""Requests of MPI to wait for, one list after the other."""

SMALL = 1 << 16
"""Bytes: operands of all members up to this go to every rank, which takes one message's time and not two, and less
than a reduction of MPI's that does not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A rendezvous as one rank sees it: the arrays of its devices, by their positions among the members.

    Reductions of MPI may be used whose order makes no difference, and if `fast` others, too; `own` makes operations
    for types that MPI does not know.
    """

    rendezvous: Rendezvous
    group: Group
    topology: Topology
    operands: Mapping[int, Sequence[AnyArray]]
    results: Mapping[int, list[AnyArray]]
    fast: bool
    own: Callable[[str, str], Any]

    @property
    def instruction(self) -> Instruction:
        return self.rendezvous.instruction

    @property
    def first(self) -> int:
        return self.group.here[0]

    def reduction(self, number: int) -> Reduction | None:
        """The operation of MPI that may reduce operand `number`."""
        found = reduction_of(self.instruction, number, self.own)
        if found is None:
            return None
        two = found.swaps and len(self.group.members) == 2
        return found if found.exact or two or self.fast else None

    def fold(self, number: int, arrays: Sequence[AnyArray]) -> AnyArray:
        assert self.rendezvous.fold is not None
        return self.rendezvous.fold(number, arrays)

    def share(self, number: int) -> None:
        """Give all devices here what the first one has as result `number`."""
        for position in self.group.here[1:]:
            self.results[position][number][...] = self.results[self.first][number]


def exchange(job: Job) -> Steps:
    """Carry out a rendezvous."""
    instruction = job.instruction
    opcode = instruction.opcode.removesuffix("-start")
    count = len(instruction.operands)
    plain = all(operand.shape.is_array and operand.shape.is_static for operand in instruction.operands)
    if not plain or "slice_sizes" in instruction.attributes:
        return _anything(job)
    match opcode:
        case "all-reduce":
            return _side_by_side([_all_reduce(job, number) for number in range(count)])
        case "reduce-scatter":
            return _side_by_side([_reduce_scatter(job, number) for number in range(count)])
        case "all-gather":
            return _side_by_side([_all_gather(job, number) for number in range(count)])
        case "collective-broadcast":
            return _side_by_side([_broadcast(job, number) for number in range(count)])
        case "all-to-all":
            return _all_to_all(job)
        case "ragged-all-to-all":
            return _ragged_all_to_all(job)
        case "collective-permute":
            return _permute(job)
    return _anything(job)


def peers(instruction: Instruction, topology: Topology, group: Group) -> tuple[int, ...]:
    """The devices that have to be at a rendezvous for this rank's to go on."""
    members = group.members
    if not instruction.opcode.startswith("collective-permute"):
        return members
    here = {members[position] for position in group.here}
    pairs = device_pairs(instruction, topology)
    return tuple(sorted(here.union(*(set(pair) for pair in pairs if here.intersection(pair)))))


def _side_by_side(all_steps: Sequence[Steps]) -> Steps:
    """Several exchanges at once."""
    going = list(all_steps)
    while going:
        requests: list[Any] = []
        still = []
        for steps in going:
            found = next(steps, None)
            if found is not None:
                requests += found
                still.append(steps)
        if still:
            yield requests
        going = still


# ---- reductions


def _all_reduce(job: Job, number: int) -> Steps:
    operands = [job.operands[position][number] for position in job.group.here]
    result = job.results[job.first][number]
    native = job.reduction(number)
    if native is not None and not _is_small(job, number):
        mine = operands[0] if len(operands) == 1 else np.asarray(job.fold(number, operands), order="C")
        yield [job.group.comm.Iallreduce(_typed(mine, native), _typed(result, native), native.operation)]
    elif _is_small(job, number) or combiner_of(job.instruction.attributes["to_apply"]) is None:
        requests, everyone = _from_everyone(job, [[operand] for operand in operands])
        yield requests
        result[...] = job.fold(number, [arrays[0] for arrays in everyone])
    else:
        yield from _all_reduce_in_parts(job, number, operands, result)
    job.share(number)


def _all_reduce_in_parts(job: Job, number: int, operands: Sequence[AnyArray], result: AnyArray) -> Steps:
    """Every rank reduces a part."""
    group, flat = job.group, result.reshape(-1)
    count = len(group.places)
    bounds = [flat.size * rank // count for rank in range(count + 1)]
    parts = [slice(*bounds[rank : rank + 2]) for rank in range(count)]
    mine = parts[group.own]
    received = {n: np.empty(mine.stop - mine.start, flat.dtype) for n in range(len(group.members))}
    sent = [[operand.reshape(-1)[part] for operand in operands] for part in parts]
    yield _moved(group, sent, [[received[n] for n in place] for place in group.places])
    flat[mine] = job.fold(number, [received[n] for n in range(len(group.members))])
    size = flat.dtype.itemsize
    counts = [(part.stop - part.start) * size for part in parts]
    whole = [_bytes(flat), counts, [part.start * size for part in parts], mpi().BYTE]
    yield [group.comm.Iallgatherv(mpi().IN_PLACE, whole)]


def _reduce_scatter(job: Job, number: int) -> Steps:
    group = job.group
    (dimension,) = job.instruction.attributes["dimensions"]
    members = range(len(group.members))
    native = job.reduction(number)
    if native is not None and group.is_plain and _is_outermost(job.operands[job.first][number], dimension):
        mine, result = job.operands[job.first][number], job.results[job.first][number]
        yield [group.comm.Ireduce_scatter_block(_typed(mine, native), _typed(result, native), native.operation)]
        return
    parts = {n: np.split(job.operands[n][number], len(members), axis=dimension) for n in group.here}
    shape, dtype = job.results[job.first][number].shape, job.results[job.first][number].dtype
    received = {(target, source): np.empty(shape, dtype) for target in group.here for source in members}
    sent = [[parts[source][target] for source in group.here for target in place] for place in group.places]
    yield _moved(
        group, sent, [[received[target, source] for source in place for target in group.here] for place in group.places]
    )
    for target in group.here:
        job.results[target][number][...] = job.fold(number, [received[target, source] for source in members])


# ---- movement


def _all_gather(job: Job, number: int) -> Steps:
    (dimension,) = job.instruction.attributes["dimensions"]
    group, result = job.group, job.results[job.first][number]
    mine = [job.operands[position][number] for position in group.here]
    if group.is_plain and _is_outermost(result, dimension):
        yield [group.comm.Iallgather([_bytes(mine[0]), mpi().BYTE], [_bytes(result), mine[0].nbytes, mpi().BYTE])]
        return
    parts = np.split(result, len(group.members), axis=dimension)
    yield _moved(group, [mine] * len(group.places), [[parts[n] for n in place] for place in group.places])
    job.share(number)


def _broadcast(job: Job, number: int) -> Steps:
    """What the first member has."""
    group, result = job.group, job.results[job.first][number]
    root = next(rank for rank, place in enumerate(group.places) if 0 in place)
    if root == group.own:
        result[...] = job.operands[0][number]
    yield [group.comm.Ibcast([_bytes(result), mpi().BYTE], root)]
    job.share(number)


def _all_to_all(job: Job) -> Steps:
    """Part N of everybody's operand goes to member N: parts are the operands themselves, or slices of the only one."""
    group, count = job.group, len(job.group.members)
    dimensions = job.instruction.attributes.get("dimensions")
    given: dict[int, Sequence[AnyArray]] = dict(job.operands)
    taken: dict[int, Sequence[AnyArray]] = dict(job.results)
    if dimensions:
        (dimension,) = dimensions
        mine, result = job.operands[job.first][0], job.results[job.first][0]
        if group.is_plain and _is_outermost(result, dimension):
            each = mine.nbytes // count
            sent, received = [_bytes(mine), each, mpi().BYTE], [_bytes(result), each, mpi().BYTE]
            yield [group.comm.Ialltoall(sent, received)]
            return
        given = {n: np.split(arrays[0], count, axis=dimension) for n, arrays in job.operands.items()}
        taken = {n: np.split(arrays[0], count, axis=dimension) for n, arrays in job.results.items()}
    yield _moved(
        group,
        [[given[source][target] for source in group.here for target in place] for place in group.places],
        [[taken[target][source] for source in place for target in group.here] for place in group.places],
    )


def _ragged_all_to_all(job: Job) -> Steps:
    """The numbers first, from everyone to everyone, then the rows that they speak of."""
    group, count = job.group, len(job.group.members)
    for position in group.here:
        job.results[position][0][...] = job.operands[position][1]
    requests, numbers = _from_everyone(job, [job.operands[position][2:5] for position in group.here])
    yield requests
    rows = [[array.reshape(count, -1).astype(np.int64) for array in arrays] for arrays in numbers]
    length, room = len(job.operands[job.first][0]), len(job.results[job.first][0])

    def pieces(source: int, target: int) -> Iterator[tuple[int, int, int]]:
        """(first row there, first row here, how many) of what one member sends to another: those that exist."""
        for begin, size, place in zip(*(array[target].tolist() for array in rows[source]), strict=True):
            first = max(0, -begin, -place)
            last = min(size, length - begin, room - place)
            if first < last:
                yield begin + first, place + first, last - first

    sent = [
        [job.operands[source][0][begin : begin + size]
         for source in group.here for target in place for begin, _, size in pieces(source, target)]
        for place in group.places
    ]  # fmt: skip
    received = [
        [job.results[target][0][begin : begin + size]
         for source in place for target in group.here for _, begin, size in pieces(source, target)]
        for place in group.places
    ]  # fmt: skip
    yield _moved(group, sent, received)


def _permute(job: Job) -> Steps:
    """Messages from the ranks of sources to those of targets; who has no source gets zeros."""
    group = job.group
    position = {member: n for n, member in enumerate(group.members)}
    rank_of = {n: rank for rank, place in enumerate(group.places) for n in place}
    requests, sources = [], dict[int, int]()
    for source, target in device_pairs(job.instruction, job.topology):
        if source in position and target in position:
            sources[position[target]] = position[source]
    for target, source in sorted(sources.items()):
        for number in range(len(job.instruction.operands)):
            if rank_of[target] == rank_of[source] == group.own:
                job.results[target][number][...] = job.operands[source][number]
            elif rank_of[source] == group.own:
                mine = [_bytes(job.operands[source][number]), mpi().BYTE]
                requests.append(group.comm.Isend(mine, rank_of[target], target))
            elif rank_of[target] == group.own:
                room = [_bytes(job.results[target][number]), mpi().BYTE]
                requests.append(group.comm.Irecv(room, rank_of[source], target))
    for target in set(group.here) - sources.keys():
        for result in job.results[target]:
            result[...] = np.zeros((), result.dtype)
    yield requests


def _anything(job: Job) -> Steps:
    """By the definition of the collective, with the operands of all members, whose sizes may differ."""
    rendezvous, group = job.rendezvous, job.group
    shapes = [operand.shape for operand in job.instruction.operands]
    bounds = [leaf.dimensions for shape in shapes for leaf in shape.leaves() if leaf.is_array]
    own = [job.operands[position] for position in group.here]
    sizes = [[np.array(array.shape, np.int64) for array in arrays] for arrays in own]
    whole = [[_padded(array, bound) for array, bound in zip(arrays, bounds, strict=True)] for arrays in own]
    requests, all_sizes = _from_everyone(job, sizes)
    more, everyone = _from_everyone(job, whole)
    yield requests + more
    values = []
    for arrays, lengths in zip(everyone, all_sizes, strict=True):
        leaves = iter([array[tuple(map(slice, size))] for array, size in zip(arrays, lengths, strict=True)])
        values.append(tuple(value_from_leaves(shape, leaves) for shape in shapes))
    results = rendezvous.combine(values)
    for position in group.here:
        placed(results[position], job.results[position])


def placed(value: Value, into: list[AnyArray]) -> None:
    """Copy the arrays of `value` to those of `into`, which has none where sizes were not known."""
    if not into:
        into += [np.array(leaf, order="C") for leaf in leaves_of(value)]
        return
    for target, array in zip(into, leaves_of(value), strict=True):
        target[...] = array


def _padded(array: AnyArray, bound: Sequence[int]) -> AnyArray:
    """The array at the beginning of one of the size `bound`."""
    if array.shape == tuple(bound):
        return array
    whole = np.zeros(bound, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


# ---- bytes


def _is_small(job: Job, number: int) -> bool:
    return job.operands[job.first][number].nbytes * len(job.group.members) <= SMALL


def _is_outermost(array: AnyArray, dimension: int) -> bool:
    """Whether parts along a dimension of a row-major array lie one after the other."""
    return bool(np.prod(array.shape[:dimension], dtype=np.int64) == 1)


def _bytes(array: AnyArray) -> AnyArray:
    return array.reshape(-1).view(np.uint8)


def _typed(array: AnyArray, reduction: Reduction) -> list[Any]:
    return [_bytes(array), reduction.datatype]


def _from_everyone(job: Job, arrays: Sequence[Sequence[AnyArray]]) -> tuple[list[Any], list[list[AnyArray]]]:
    """Requests that bring the `arrays` of each member here, and where they will be: those of each member, in order."""
    group = job.group
    order = [n for place in group.places for n in place]
    counts = [len(place) for place in group.places]
    requests, columns = [], []
    for number, like in enumerate(arrays[0]):
        column = np.empty((len(order), *like.shape), like.dtype)
        mine = like if len(arrays) == 1 else np.stack([own[number] for own in arrays])
        sizes = [count * like.nbytes for count in counts]
        sent, byte = [_bytes(mine), mpi().BYTE], mpi().BYTE
        if len({*sizes}) == 1:
            requests.append(group.comm.Iallgather(sent, [_bytes(column), sizes[0], byte]))
        else:
            places = [sum(sizes[:rank]) for rank in range(len(sizes))]
            requests.append(group.comm.Iallgatherv(sent, [_bytes(column), sizes, places, byte]))
        columns.append(column)
    rows = {n: [column[row, ...] for column in columns] for row, n in enumerate(order)}
    return requests, [rows[n] for n in range(len(order))]


def _moved(group: Group, sent: Sequence[Sequence[AnyArray]], received: Sequence[Sequence[AnyArray]]) -> list[Any]:
    """Requests that send to each rank its list of arrays, and receive from each rank such a list; what stays here is
    copied."""
    for target, source in zip(received[group.own], sent[group.own], strict=True):
        target[...] = source
    byte = mpi().BYTE
    types = [
        [None if rank == group.own else packed_type(row) for rank, row in enumerate(rows)] for rows in (sent, received)
    ]
    counts = [[0 if one is None else 1 for one in row] for row in types]
    plain = [[byte if one is None else one for one in row] for row in types]
    messages = [[mpi().BOTTOM, counts[n], [0] * len(counts[n]), plain[n]] for n in (0, 1)]
    request = group.comm.Ialltoallw(*messages)
    for row in types:
        for one in row:
            if one is not None:
                one.Free()
    return [request]
