"""Batching of elementwise opcodes, of map, and of what draws random numbers."""

from __future__ import annotations

from hlotool.ir import Instruction, array
from hlotool.ir.builder import Builder
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.passes.batching.batcher import Batcher, Rule, refusal
from hlotool.passes.batching.values import Leaf, Value, inserted, is_batched

__all__ = ["RULES"]


def _elementwise(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """The batch stays where the first operand of full size has it.

    The predicate of select and the bounds of clamp may be scalars, which belong to all elements of an example.
    """
    rank = i.shape.rank
    whole = [v for v, o in zip(values, i.operands, strict=True) if o.shape.rank == rank]
    _, axis = b.joined([v for v in whole if is_batched(v)])
    sizes = inserted(i.shape.dimensions, axis, b.size)
    operands = []
    for value, operand in zip(values, i.operands, strict=True):
        if operand.shape.rank == rank:
            operands.append(b.at(value, axis))
        elif is_batched(value):
            operands.append(b.spread(b.front(value), axis, sizes))
        else:
            operands.append(b.packed(value))
    return b.result(i, operands, axis)


def _bitcast_convert(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """It may change sizes, in row-major order: the batch has to be in front."""
    return b.result(i, [b.front(values[0])], 0)


def _map(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    operands, axis = b.joined(values)
    return b.result(i, operands, axis, dimensions=tuple(range(i.shape.rank + 1)))


def _rng(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Every example has numbers of its own; they are drawn at once where the distribution is the same for all."""
    if any(map(is_batched, values)):
        return b.by_turns(i, values, "every example draws from a distribution of its own")
    return b.result(i, [b.packed(value) for value in values], 0)


def _rng_state(b: Batcher, i: Instruction, values: list[Value]) -> Value:
    """Example n has the state after n steps; the state advances by as many steps as there are examples.

    It is 128 bits wide, the low word first.
    """
    build, step = b.build, i.attributes["delta"]
    if step * b.size >= 1 << 63:
        raise refusal(i, f"{b.size} steps of {step} do not fit into 63 bits")
    first = b.emit(i, i.shape, (), delta=step * b.size)
    words = array("u64", (b.size,))
    low, high = (build.broadcast(_word(build, first, n), (), words) for n in range(2))
    moved = build.binary("add", low, build.binary("multiply", build.iota(words), build.splat(step, words)))
    carry = build.convert(build.compare(moved, low, "LT"), "u64")
    columns = [build.reshape(one, (b.size, 1)) for one in (moved, build.binary("add", high, carry))]
    return Leaf(build.concatenate(columns, 1), 0)


def _word(build: Builder, words: Instruction, number: int) -> Instruction:
    return build.reshape(build.slice(words, [number], [number + 1]), ())


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE_OPCODES, _elementwise),
    "bitcast-convert": _bitcast_convert,
    "copy": _elementwise,
    "map": _map,
    "rng": _rng,
    "rng-get-and-update-state": _rng_state,
}
