"""Calls, loops, branches, tuples and the ordering opcodes."""

from __future__ import annotations

import numpy as np

from hlotool.evaluate.values import Context, Operands, Rule, Value
from hlotool.ir import ExecutionError, Instruction, Literal, UnsupportedError

__all__ = ["RULES"]


def _while(instruction: Instruction, operands: Operands, context: Context) -> Value:
    condition, body = instruction.attributes["condition"], instruction.attributes["body"]
    state: Value = operands[0]
    iterations = 0
    while np.asarray(context.apply(condition, [state])).item():
        if context.loop_limit is not None and iterations >= context.loop_limit:
            raise ExecutionError(f"{instruction.name}: more than {context.loop_limit} iterations")
        state = context.apply(body, [state])
        iterations += 1
    return state


def _conditional(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """A predicate picks true or false; an index outside the branches picks the last one."""
    selector, *arguments = operands
    branches = instruction.attributes.get("branch_computations")
    if branches is None:
        branches = (instruction.attributes["true_computation"], instruction.attributes["false_computation"])
    if selector.dtype == np.bool_:
        chosen = 0 if selector.item() else 1
    else:
        index = int(selector.item())
        chosen = index if 0 <= index < len(branches) else len(branches) - 1
    return context.apply(branches[chosen], [arguments[chosen]])


def _call(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return context.apply(instruction.attributes["to_apply"], operands)


def _fusion(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return context.apply(instruction.attributes["calls"], operands)


def _tuple(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return tuple(operands)


def _get_tuple_element(instruction: Instruction, operands: Operands, context: Context) -> Value:
    element: Value = operands[0][instruction.attributes["index"]]
    return element


def _constant(instruction: Instruction, operands: Operands, context: Context) -> Value:
    def value(literal: Literal) -> Value:
        if literal.shape.is_tuple:
            return tuple(value(element) for element in literal.elements)
        if literal.elided:
            raise UnsupportedError(f"{instruction.name}: the contents of this constant were left out of the text")
        return literal.value()

    return value(instruction.literal)


def _token(instruction: Instruction, operands: Operands, context: Context) -> Value:
    return ()


def _first_operand(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0]
    return value


RULES: dict[str, Rule] = {
    "while": _while,
    "conditional": _conditional,
    "call": _call,
    "fusion": _fusion,
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "constant": _constant,
    "after-all": _token,
    "add-dependency": _first_operand,
    "opt-barrier": _first_operand,
    "domain": _first_operand,
}
