"""Collectives, asynchronous pairs, copies in flight, and what goes to and comes from the host.

A collective is a function from the operands of all devices of a group to the result of each; the devices meet for it.
Reductions go from the first device of the group to the last.  Sizes of dynamic dimensions may differ between devices:
`hlotool.ir.dynamic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.control import first_operand
from hlotool.evaluate.rounding import convert
from hlotool.evaluate.values import AnyArray, Operands, Value, value_from_leaves
from hlotool.ir import Instruction, Shape, UnsupportedError, dtype_of
from hlotool.ir.devices import Groups, device_groups, device_pairs
from hlotool.ir.shape_checks import flags_of
from hlotool.ir.shape_collectives import slice_sizes

__all__ = ["RULES", "zeros_of"]

Members = Sequence[int]
Combine = Callable[[Instruction, Members, Sequence[Operands], Context], Sequence[Value]]
"""(instruction, devices of the group, operands of each, context) to the result of each."""


def zeros_of(shape: Shape) -> Value:
    def arrays() -> Iterator[AnyArray]:
        for leaf in shape.leaves():
            if leaf.is_array:
                yield np.zeros(leaf.dimensions, dtype_of(leaf.element_type))

    return value_from_leaves(shape, arrays())


def _one_or_all(values: Sequence[Value]) -> Value:
    return values[0] if len(values) == 1 else tuple(values)


# ---- rendezvous


def _grouped(combine: Combine) -> Rule:
    """The rule of a collective with replica groups; who is in none of them gets zeros."""

    def rule(instruction: Instruction, operands: Operands, context: Context) -> Value:
        members = _group_of(instruction, context, device_groups(instruction, context.device.world.topology))
        if not members:
            return _one_or_all(_nothing(instruction, operands))
        return _together(combine, instruction, members, operands, context)

    return rule


def _together(
    combine: Combine, instruction: Instruction, members: Members, operands: Operands, context: Context
) -> Value:
    def all_at_once(values: Sequence[Operands]) -> list[Value]:
        return list(combine(instruction, members, values, context))

    def fold(number: int, arrays: Sequence[AnyArray]) -> AnyArray:
        return _folded(instruction, number, arrays, context)

    folds = fold if "to_apply" in instruction.attributes else None
    return context.device.meet(instruction, members, tuple(operands), all_at_once, folds)


def _group_of(instruction: Instruction, context: Context, groups: Groups) -> Members:
    device, topology = context.device.number, context.device.world.topology
    found: Members = next((group for group in groups if device in group), ())
    unknown = [member for member in found if member >= topology.devices]
    if unknown or not (found or instruction.opcode == "collective-broadcast"):
        raise UnsupportedError(
            f"{instruction.name}: {instruction.opcode} among several participants: the program runs on {topology}"
        )
    return found


def _nothing(instruction: Instruction, operands: Operands) -> list[AnyArray]:
    """What a device gets to which nothing is sent: zeros; none where the size is dynamic."""
    shapes = [(given.shape.dimensions, flags_of(given.shape)) for given in instruction.operands]
    sizes = [[0 if flag else n for n, flag in zip(*shape, strict=True)] for shape in shapes]
    return [np.zeros(own, operand.dtype) for operand, own in zip(operands, sizes, strict=True)]


def _started(rule: Rule) -> Rule:
    """(operands, results, context...), single ones bare: the work is done at once.  The in-place form gives its input
    alone, without the operands that say what goes where."""

    def start(instruction: Instruction, operands: Operands, context: Context) -> Value:
        result = rule(instruction, operands, context)
        kept = operands[:1] if "slice_sizes" in instruction.attributes else operands
        return (_one_or_all(kept), result, *map(zeros_of, instruction.shape.elements[2:]))

    return start


# ---- what is computed


def _reduced(instruction: Instruction, operands: Sequence[Operands], context: Context) -> list[AnyArray]:
    """Each operand from the first device to the last."""
    return [_folded(instruction, n, arrays, context) for n, arrays in enumerate(_columns(operands))]


def _folded(instruction: Instruction, number: int, arrays: Sequence[AnyArray], context: Context) -> AnyArray:
    """One operand from the first device to the last, in the type of the reducer: that of the data, or a wider one."""
    computation = instruction.attributes["to_apply"]
    wide = computation.parameters[0].shape.element_type
    kind = instruction.operands[number].shape.element_type
    total, *others = arrays if kind == wide else (convert(array, wide) for array in arrays)
    for other in others:
        (total,) = context.map(computation, [total, other])
    return total if kind == wide else convert(total, kind)


def _columns(operands: Sequence[Operands], joined: int | None = None) -> Iterator[Sequence[AnyArray]]:
    """For each operand its values on all devices, cut to the sizes that all have but along dimension `joined`."""
    for arrays in zip(*operands, strict=True):
        shapes = zip(*(array.shape for array in arrays), strict=True)
        least = [None if d == joined else min(sizes) for d, sizes in enumerate(shapes)]
        yield [np.asarray(array[tuple(map(slice, least))]) for array in arrays]


def _split(array: AnyArray, dimension: int, bound: int, count: int) -> list[AnyArray]:
    """The parts in which a dimension of the size `bound` is cut, with the elements that there are."""
    return np.split(array, [bound // count * n for n in range(1, count)], axis=dimension)


def _all_reduce(
    instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
) -> Sequence[Value]:
    return [_one_or_all(_reduced(instruction, operands, context))] * len(members)


def _all_gather(
    instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
) -> Sequence[Value]:
    (dimension,) = instruction.attributes["dimensions"]
    joined = [
        np.concatenate(arrays, axis=dimension) if arrays[0].ndim else None for arrays in _columns(operands, dimension)
    ]
    return [
        _one_or_all([mine if whole is None else whole for whole, mine in zip(joined, own, strict=True)])
        for own in operands
    ]


def _reduce_scatter(
    instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
) -> Sequence[Value]:
    (dimension,) = instruction.attributes["dimensions"]
    totals = zip(_reduced(instruction, operands, context), instruction.operands, strict=True)
    parts = [_split(total, dimension, given.shape.dimensions[dimension], len(members)) for total, given in totals]
    return [_one_or_all(mine) for mine in zip(*parts, strict=True)]


def _all_to_all(
    instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
) -> Sequence[Value]:
    """Part N of everybody's operand goes to member N: parts are the operands themselves, or slices of the only one."""
    dimensions = instruction.attributes.get("dimensions")
    if not dimensions:
        return [tuple(parts) for parts in zip(*operands, strict=True)]
    (dimension,) = dimensions
    bound = instruction.operands[0].shape.dimensions[dimension]
    (arrays,) = _columns(operands, dimension)
    cut = [_split(array, dimension, bound, len(members)) for array in arrays]
    return [np.concatenate(parts, axis=dimension) for parts in zip(*cut, strict=True)]


def _ragged_all_to_all(
    instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
) -> Sequence[Value]:
    """Rows of the first operand go into the second one of their receiver.

    With m numbers per member, those of member N are numbers ``N * m`` and following: where its rows begin here, how
    many they are, and where they go there.  Rows that do not exist, here or there, are left out.
    """
    results = [np.array(output) for _, output, *_ in operands]
    for source, _, *numbers in operands:
        begins, counts, places = (v.reshape(len(members), -1).astype(np.int64) for v in numbers[:3])
        for result, *parts in zip(results, begins, counts, places, strict=True):
            for begin, count, place in zip(*parts, strict=True):
                first = max(0, -int(begin), -int(place))
                last = min(int(count), len(source) - int(begin), len(result) - int(place))
                if first < last:
                    result[place + first : place + last] = source[begin + first : begin + last]
    return results


def _broadcast(
    instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
) -> Sequence[Value]:
    """What the first member has."""
    return [_one_or_all(operands[0])] * len(members)


# ---- permutes


def _collective_permute(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """Everybody gets what its source has; who has none, zeros, or in the in-place form the output as it was."""
    topology = context.device.world.topology
    pairs = device_pairs(instruction, topology)
    sources = {target: source for source, target in pairs}
    source = sources.get(context.device.number, 0)
    if source >= topology.devices:
        raise UnsupportedError(f"{instruction.name}: a permute from device {source}: the program runs on {topology}")
    members = _group_of(instruction, context, device_groups(instruction, topology))
    return _together(_permute(sources), instruction, members, operands, context)


def _permute(sources: dict[int, int]) -> Combine:
    def combine(
        instruction: Instruction, members: Members, operands: Sequence[Operands], context: Context
    ) -> Sequence[Value]:
        of = dict(zip(members, operands, strict=True))
        sent = [of[sources[member]] if member in sources else None for member in members]
        if "slice_sizes" in instruction.attributes:
            sizes = slice_sizes(instruction.attributes)
            return [_updated(mine, theirs, sizes) for mine, theirs in zip(operands, sent, strict=True)]
        return [
            _one_or_all(_nothing(instruction, mine) if theirs is None else theirs)
            for mine, theirs in zip(operands, sent, strict=True)
        ]

    return combine


def _updated(mine: Operands, sent: Operands | None, sizes: Sequence[tuple[int, ...]]) -> Value:
    """The output operand with slices of the sender's input, at the places that the sender names.

    Operands are (input, output, where slices are in the input, where they go in the output); with several inputs each
    is a tuple.  An array has one slice, whose place is a tuple of scalars, or a tuple of such.  Places are clamped.
    """
    several = isinstance(mine[1], tuple)
    results = [np.array(output) for output in (mine[1] if several else (mine[1],))]
    if sent is not None:
        remaining = iter(sizes)
        source, _, begins, places = sent
        rows = zip(source, begins, places, strict=True) if several else [(source, begins, places)]
        for result, (source, begins, places) in zip(results, rows, strict=True):
            for begin, place in zip(_places(begins), _places(places), strict=True):
                size = next(remaining)
                result[_window(result.shape, place, size)] = source[_window(source.shape, begin, size)]
    return tuple(results) if several else results[0]


def _places(value: Any) -> Sequence[Any]:
    return value if value and isinstance(value[0], tuple) else [value]


def _window(dimensions: Sequence[int], place: Sequence[AnyArray], sizes: Sequence[int]) -> tuple[slice, ...]:
    starts = [min(max(0, int(at)), length - size) for at, length, size in zip(place, dimensions, sizes, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))


# ---- numbers, halves of asynchronous operations


def _replica(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.array(context.device.replica, np.uint32)


def _partition(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.array(context.device.partition, np.uint32)


def _done(rule: Rule) -> Rule:
    """The second half of a collective."""

    def done(instruction: Instruction, operands: Operands, context: Context) -> Value:
        context.device.finish(instruction)
        return rule(instruction, operands, context)

    return done


def _second_element(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0][1]
    return value


def _async_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """((operands), result, context...): the work is done at once."""
    result = context.apply(instruction.attributes["calls"], operands)
    return (tuple(operands), result, *map(zeros_of, instruction.shape.elements[2:]))


def _copy_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """(target, source, context...)."""
    return (operands[0], operands[0], *map(zeros_of, instruction.shape.elements[2:]))


def _copy_done(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0][0]
    return value


# ---- queues


def _infeed(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return context.device.infeed(instruction), ()


def _outfeed(instruction: Instruction, operands: Operands, context: Context) -> Value:
    context.device.outfeed(operands[0])
    return ()


def _send(instruction: Instruction, operands: Operands, context: Context) -> Value:
    context.device.send(instruction, operands[0])
    return operands[0], np.array(0, np.uint32), ()


def _send_done(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return ()


def _recv(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """The data comes with recv-done, which finds this one by its number."""
    number = context.device.start_receiving(instruction)
    return zeros_of(instruction.shape.elements[0]), np.array(number, np.uint32), ()


def _recv_done(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """What was sent; zeros where nobody sends to this device."""
    data, number, _ = operands[0]
    received = context.device.receive(instruction.name, int(number))
    return data if received is None else received, ()


_ALL_GATHER, _ALL_REDUCE = _grouped(_all_gather), _grouped(_all_reduce)

RULES: dict[str, Rule] = {
    "partition-id": _partition,
    "replica-id": _replica,
    "all-gather": _ALL_GATHER,
    "all-gather-start": _started(_ALL_GATHER),
    "all-gather-done": _done(_second_element),
    "all-reduce": _ALL_REDUCE,
    "all-reduce-start": _ALL_REDUCE,
    "all-reduce-done": _done(first_operand),
    "reduce-scatter": _grouped(_reduce_scatter),
    "all-to-all": _grouped(_all_to_all),
    "ragged-all-to-all": _grouped(_ragged_all_to_all),
    "collective-broadcast": _grouped(_broadcast),
    "collective-permute": _collective_permute,
    "collective-permute-start": _started(_collective_permute),
    "collective-permute-done": _done(_second_element),
    "async-start": _async_start,
    "async-update": first_operand,
    "async-done": _second_element,
    "copy-start": _copy_start,
    "copy-done": _copy_done,
    "infeed": _infeed,
    "outfeed": _outfeed,
    "send": _send,
    "send-done": _send_done,
    "recv": _recv,
    "recv-done": _recv_done,
}
