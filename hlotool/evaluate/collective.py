"""Collectives with one participant, asynchronous pairs, and copies in flight.

The evaluator is replica 0 and partition 0 of a program that has no others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hlotool.evaluate.values import AnyArray, Context, Operands, Rule, Value, value_from_leaves
from hlotool.ir import Instruction, Shape, UnsupportedError, dtype_of

__all__ = ["RULES"]


def _zeros(shape: Shape) -> Value:
    def arrays() -> Iterator[AnyArray]:
        for leaf in shape.leaves():
            if leaf.is_array:
                yield np.zeros(leaf.dimensions, dtype_of(leaf.element_type))

    return value_from_leaves(shape, arrays())


def _identifier(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    return np.array(0, np.uint32)


def _require_alone(instruction: Instruction) -> None:
    groups = instruction.attributes.get("replica_groups")
    if groups is not None and any(len(group) > 1 for group in groups.groups):
        raise UnsupportedError(f"{instruction.name}: {instruction.opcode} among several participants is not supported")


def _alone(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """What all participants hold together is what this one holds."""
    _require_alone(instruction)
    return tuple(operands) if instruction.shape.is_tuple else operands[0]


def _all_gather_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """((operands), (results)); single operands stand bare."""
    _require_alone(instruction)
    value: Value = operands[0] if len(operands) == 1 else tuple(operands)
    return value, value


def _permuted(instruction: Instruction, operands: Operands) -> Value:
    """From whoever sends to device 0; zeros when nobody does."""
    if len(operands) > 1 and instruction.attributes.get("slice_sizes") is not None:
        raise UnsupportedError(f"{instruction.name}: in-place collective-permute is not supported")
    senders = [source for source, target in instruction.attributes["source_target_pairs"] if target == 0]
    if any(senders):
        raise UnsupportedError(f"{instruction.name}: a permute from device {senders[0]} has no such device here")
    results = [operand if senders else np.zeros_like(operand) for operand in operands]
    return results[0] if len(results) == 1 else tuple(results)


def _collective_permute(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return _permuted(instruction, operands)


def _collective_permute_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """(operand, result, context...)."""
    value: Value = operands[0] if len(operands) == 1 else tuple(operands)
    return (value, _permuted(instruction, operands), *map(_zeros, instruction.shape.elements[2:]))


def _ragged_all_to_all(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Rows that this device sends itself, written into the output operand."""
    _require_alone(instruction)
    array, output, input_offsets, send_sizes, output_offsets, _ = operands
    result = np.array(output)
    if input_offsets.size != 1:
        raise UnsupportedError(f"{instruction.name}: ragged-all-to-all in several parts is not supported")
    source, size, target = (int(v.reshape(())) for v in (input_offsets, send_sizes, output_offsets))
    result[target : target + size] = array[source : source + size]
    return result


def _second_element(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0][1]
    return value


def _first_operand(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0]
    return value


def _async_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """((operands), result, context...): the work is done at once."""
    result = context.apply(instruction.attributes["calls"], operands)
    return (tuple(operands), result, *map(_zeros, instruction.shape.elements[2:]))


def _copy_start(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """(target, source, context...)."""
    return (operands[0], operands[0], *map(_zeros, instruction.shape.elements[2:]))


def _copy_done(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0][0]
    return value


RULES: dict[str, Rule] = {
    "partition-id": _identifier,
    "replica-id": _identifier,
    "all-gather": _alone,
    "all-gather-start": _all_gather_start,
    "all-gather-done": _second_element,
    "all-reduce": _alone,
    "all-reduce-start": _alone,
    "all-reduce-done": _first_operand,
    "reduce-scatter": _alone,
    "all-to-all": _alone,
    "ragged-all-to-all": _ragged_all_to_all,
    "collective-broadcast": _alone,
    "collective-permute": _collective_permute,
    "collective-permute-start": _collective_permute_start,
    "collective-permute-done": _second_element,
    "async-start": _async_start,
    "async-update": _first_operand,
    "async-done": _second_element,
    "copy-start": _copy_start,
    "copy-done": _copy_done,
}
