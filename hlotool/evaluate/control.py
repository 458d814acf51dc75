"""Calls, loops, branches, tuples and the ordering opcodes."""

from __future__ import annotations

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.values import AnyArray, Operands, Value
from hlotool.ir import Computation, ExecutionError, Instruction, Literal, UnsupportedError, dtype_of

__all__ = ["RULES", "branch_of", "first_operand"]


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


def _scan(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """The computation, called for one place after another along the dimension."""
    computation = instruction.attributes["to_apply"]
    (axis,) = instruction.attributes["dimensions"]
    count = instruction.attributes["num_carries"]
    split = len(operands) - count
    inputs, carries = [np.moveaxis(one, axis, 0) for one in operands[:split]], list(operands[split:])
    shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
    made = shapes[: len(shapes) - count]
    outputs = [np.zeros(shape.dimensions, dtype_of(shape.element_type)) for shape in made]
    stacked = [np.moveaxis(one, axis, 0) for one in outputs]
    steps = range(len(inputs[0]) if inputs else made[0].dimensions[axis])
    for place in reversed(steps) if instruction.attributes.get("is_reverse") else steps:
        found = context.apply(computation, [*(one[place] for one in inputs), *carries])
        values = list(found) if isinstance(found, tuple) else [found]
        carries = values[len(made) :]
        for output, value in zip(stacked, values, strict=False):
            output[place] = value
    results = (*outputs, *carries)
    return results if instruction.shape.is_tuple else results[0]


def branch_of(instruction: Instruction, selector: AnyArray) -> tuple[int, Computation]:
    """The branch of a conditional that a predicate (true or false) or an index picks: outside of them the last one."""
    branches = instruction.attributes.get("branch_computations")
    if branches is None:
        branches = (instruction.attributes["true_computation"], instruction.attributes["false_computation"])
    if selector.dtype == np.bool_:
        chosen = 0 if selector.item() else 1
    else:
        index = int(selector.item())
        chosen = index if 0 <= index < len(branches) else len(branches) - 1
    return chosen, branches[chosen]


def _conditional(instruction: Instruction, operands: Operands, context: Context) -> Value:
    selector, *arguments = operands
    place, branch = branch_of(instruction, np.asarray(selector))
    return context.apply(branch, [arguments[place]])


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


def first_operand(instruction: Instruction, operands: Operands, context: Context) -> Value:
    value: Value = operands[0]
    return value


RULES: dict[str, Rule] = {
    "while": _while,
    "scan": _scan,
    "conditional": _conditional,
    "call": _call,
    "fusion": _fusion,
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "constant": _constant,
    "after-all": _token,
    "add-dependency": first_operand,
    "opt-barrier": first_operand,
    "domain": first_operand,
}
