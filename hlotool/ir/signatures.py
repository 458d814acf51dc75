"""Signatures of called computations: what reduce, sort, while and the others want of what they call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hlotool.ir.module import Computation, Instruction
from hlotool.ir.shape import Shape, scalar
from hlotool.ir.shape_checks import ShapeError, plain, require
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["signature_errors"]


def signature_errors(instruction: Instruction) -> list[ShapeError]:
    """What is wrong with the computations that the instruction calls."""
    found = []
    for rule in _RULES.get(instruction.opcode, ()):
        try:
            rule(instruction)
        except ShapeError as error:
            error.code = "HLO0204"
            found.append(error)
    return found


def _fits(reducer: str, data: str) -> bool:
    """A reducer may work in the type of the data or in a wider one of the same kind."""
    wide, narrow = ELEMENT_TYPES[reducer], ELEMENT_TYPES[data]
    return reducer == data or (wide.kind == narrow.kind and wide.bits >= narrow.bits)


def _takes(part: str, computation: Computation, count: int, what: str) -> list[Instruction]:
    parameters = computation.parameters
    require(
        len(parameters) == count,
        f"{what} must take {plain(count, 'parameter')}, {computation.name} takes {len(parameters)}", part,
    )  # fmt: skip
    return parameters


def _leaves(shape: Shape) -> Sequence[Shape]:
    return shape.elements if shape.is_tuple else (shape,)


def _reducer(part: str, computation: Computation, types: Sequence[str], what: str) -> None:
    """A function of two scalars per array that gives one."""
    parameters = _takes(part, computation, 2 * len(types), what)
    for number, parameter in enumerate(parameters):
        data = types[number % len(types)]
        fits = parameter.shape.is_scalar and _fits(parameter.shape.element_type, data)
        require(fits, f"{what} works on {parameter.shape}, the data is {data}", part)
    results = _leaves(computation.root.shape)
    for number, data in enumerate(types):
        fits = len(results) == len(types) and results[number].is_scalar
        fits = fits and _fits(results[number].element_type, data)
        require(fits, f"{what} gives {computation.root.shape}, the data is {', '.join(types)}", part)


def _reduce(instruction: Instruction) -> None:
    half = len(instruction.operands) // 2
    if half:
        types = [operand.shape.element_type for operand in instruction.operands[:half]]
        _reducer("attribute:to_apply", instruction.attributes["to_apply"], types, "the reducer")


def _scatter(instruction: Instruction) -> None:
    half = len(instruction.operands) // 2
    if half:
        types = [operand.shape.element_type for operand in instruction.operands[:half]]
        _reducer("attribute:to_apply", instruction.attributes["to_apply"], types, "the update function")


def _all_reduce(instruction: Instruction) -> None:
    """The reducer serves every operand."""
    for kind in dict.fromkeys(operand.shape.element_type for operand in instruction.operands):
        if ELEMENT_TYPES[kind].is_array:
            _reducer("attribute:to_apply", instruction.attributes["to_apply"], [kind], "the reducer")


def _select_and_scatter(instruction: Instruction) -> None:
    kind = instruction.operands[0].shape.element_type
    select = instruction.attributes["select"]
    for parameter in _takes("attribute:select", select, 2, "the selection"):
        same = parameter.shape.compatible(scalar(kind))
        require(same, f"the selection works on {parameter.shape}, the data is {kind}", "attribute:select")
    given = select.root.shape
    require(given.compatible(scalar("pred")), f"the selection gives {given}, must be pred[]", "attribute:select")
    _reducer("attribute:scatter", instruction.attributes["scatter"], [kind], "the scatter function")


def _sort(instruction: Instruction) -> None:
    comparator = instruction.attributes["to_apply"]
    part = "attribute:to_apply"
    parameters = _takes(part, comparator, 2 * len(instruction.operands), "the comparison")
    for number, parameter in enumerate(parameters):
        kind = instruction.operands[number // 2].shape.element_type
        same = parameter.shape.compatible(scalar(kind))
        require(same, f"parameter {number} of the comparison is {parameter.shape}, the data is {kind}", part)
    given = comparator.root.shape
    require(given.compatible(scalar("pred")), f"the comparison gives {given}, must be pred[]", part)


def _map(instruction: Instruction) -> None:
    part = "attribute:to_apply"
    parameters = _takes(part, instruction.attributes["to_apply"], len(instruction.operands), "the function")
    for parameter, operand in zip(parameters, instruction.operands, strict=True):
        same = parameter.shape.compatible(scalar(operand.shape.element_type))
        require(same, f"the function works on {parameter.shape}, the data is {operand.shape}", part)


def _while_condition(instruction: Instruction) -> None:
    given = instruction.attributes["condition"].root.shape
    fits = given.compatible(scalar("pred"))
    require(fits, f"the while condition gives {given}, must be pred[]", "attribute:condition")
    _loop_parameter(instruction, "condition")


def _while_body(instruction: Instruction) -> None:
    parameter = _loop_parameter(instruction, "body")
    given = instruction.attributes["body"].root.shape
    same = given.compatible(parameter.shape)
    require(same, f"the while body takes {parameter.shape} but gives {given}", "attribute:body")


def _loop_parameter(instruction: Instruction, name: str) -> Instruction:
    part, state = f"attribute:{name}", instruction.operands[0].shape
    (parameter,) = _takes(part, instruction.attributes[name], 1, f"the while {name}")
    same = parameter.shape.compatible(state)
    require(same, f"the while {name} takes {parameter.shape}, the state is {state}", part)
    return parameter


def _conditional(instruction: Instruction) -> None:
    attributes = instruction.attributes
    names = ("true_computation", "false_computation")
    listed = attributes.get("branch_computations")
    branches = listed or [attributes[name] for name in names]
    parts = [f"attribute:branch_computations:{n}" if listed else f"attribute:{names[n]}" for n in range(len(branches))]
    count = len(instruction.operands)
    require(count == len(branches) + 1, f"{plain(len(branches), 'branch')}es need as many operands, {count - 1} given")
    selector = instruction.operands[0].shape
    wanted = scalar("s32" if listed else "pred")
    require(
        selector.compatible(wanted) or (len(branches) == 2 and selector.compatible(scalar("pred"))),
        f"the selector must be {wanted}, not {selector}", "operand:0",
    )  # fmt: skip
    first = branches[0].root.shape
    for number, (branch, part) in enumerate(zip(branches, parts, strict=True)):
        (parameter,) = _takes(part, branch, 1, f"branch {number}")
        operand = instruction.operands[number + 1].shape
        same = parameter.shape.compatible(operand)
        require(same, f"branch {number} takes {parameter.shape}, its operand is {operand}", f"operand:{number + 1}")
        given = branch.root.shape
        require(given.compatible(first), f"branch {number} gives {given}, branch 0 gives {first}", part)


def _call(instruction: Instruction) -> None:
    _arguments(instruction, instruction.attributes["to_apply"], "to_apply", "the called computation", "parameter")


def _fusion(instruction: Instruction) -> None:
    _arguments(instruction, instruction.attributes["calls"], "calls", "the fusion", "fused parameter")


def _async(instruction: Instruction) -> None:
    _arguments(instruction, instruction.attributes["calls"], "calls", "the asynchronous computation", "parameter")


def _arguments(instruction: Instruction, called: Computation, attribute: str, what: str, noun: str) -> None:
    parameters = _takes(f"attribute:{attribute}", called, len(instruction.operands), what)
    for number, (operand, parameter) in enumerate(zip(instruction.operands, parameters, strict=True)):
        if not operand.shape.compatible(parameter.shape):
            message = f"operand {number} of {what} is {operand.shape}, the {noun} is {parameter.shape}"
            raise ShapeError(message, f"operand:{number}", related=parameter)


_RULES: dict[str, tuple[Callable[[Instruction], None], ...]] = {
    "reduce": (_reduce,),
    "reduce-window": (_reduce,),
    "scatter": (_scatter,),
    "all-reduce": (_all_reduce,),
    "all-reduce-start": (_all_reduce,),
    "reduce-scatter": (_all_reduce,),
    "select-and-scatter": (_select_and_scatter,),
    "sort": (_sort,),
    "map": (_map,),
    "while": (_while_condition, _while_body),
    "conditional": (_conditional,),
    "call": (_call,),
    "fusion": (_fusion,),
    "async-start": (_async,),
}
