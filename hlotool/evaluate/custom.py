"""custom-call, through the registry of handlers."""

from __future__ import annotations

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.custom_call import EVALUATED
from hlotool.evaluate.custom_calls import custom_call_of, run_custom_call
from hlotool.evaluate.values import AnyArray, Operands, Value, leaves_of, value_from_leaves
from hlotool.evaluate.xla_custom_calls import library_computation
from hlotool.ir import Instruction

__all__ = ["RULES"]

def _custom_call(instruction: Instruction, operands: Operands, context: Context) -> Value:
    if instruction.attributes["custom_call_target"] == EVALUATED:
        return context.apply(instruction.called[0], operands)
    meaning = library_computation(instruction)
    if meaning is not None:
        return context.apply(meaning, operands)
    inputs = [_read_only(leaf) for operand in operands for leaf in leaves_of(operand)]
    outputs = run_custom_call(inputs, custom_call_of(instruction, context.apply))
    return value_from_leaves(instruction.shape, iter(outputs))


def _read_only(array: AnyArray) -> AnyArray:
    view = np.asarray(array, order="C").view()
    view.flags.writeable = False
    return view


RULES: dict[str, Rule] = {"custom-call": _custom_call}
