"""Signatures of called computations: what reduce, sort, while and the others want of what they call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hlotool.ir.module import Computation, Instruction
from hlotool.ir.shape import Shape, array, scalar
from hlotool.ir.shape_checks import ShapeError, plain
from hlotool.ir.types import ELEMENT_TYPES

__all__ = ["signature_errors"]

Errors = Iterator[ShapeError]


def signature_errors(instruction: Instruction) -> list[ShapeError]:
    """All that is wrong with the computations that the instruction calls."""
    rule = _RULES.get(instruction.opcode)
    return [] if rule is None else [*rule(instruction)]


def _wrong(message: str, part: str, related: Instruction | None = None) -> ShapeError:
    return ShapeError(message, part, related=related, code="HLO0204")


def _fits(reducer: str, data: str) -> bool:
    """A reducer may work in the type of the data or in a wider one of the same kind."""
    wide, narrow = ELEMENT_TYPES[reducer], ELEMENT_TYPES[data]
    return reducer == data or (wide.kind == narrow.kind and wide.bits >= narrow.bits)


def _counted(part: str, computation: Computation, count: int, what: str) -> Errors:
    found = len(computation.parameters)
    if found != count:
        yield _wrong(f"{what} must take {plain(count, 'parameter')}, {computation.name} takes {found}", part)


def _leaves(shape: Shape) -> Sequence[Shape]:
    return shape.elements if shape.is_tuple else (shape,)


def _reducer(part: str, computation: Computation, types: Sequence[str], what: str) -> Errors:
    """A function of two scalars per array that gives one."""
    parameters = computation.parameters
    if len(parameters) != 2 * len(types):
        yield from _counted(part, computation, 2 * len(types), what)
        return
    for number, parameter in enumerate(parameters):
        data = types[number % len(types)]
        if not (parameter.shape.is_scalar and _fits(parameter.shape.element_type, data)):
            yield _wrong(f"{what} works on {parameter.shape}, the data is {data}", part)
            return  # what it gives follows from what it takes
    results = _leaves(computation.root.shape)
    for number, data in enumerate(types):
        fits = len(results) == len(types) and results[number].is_scalar
        if not (fits and _fits(results[number].element_type, data)):
            yield _wrong(f"{what} gives {computation.root.shape}, the data is {', '.join(types)}", part)
            return


def _reduce(instruction: Instruction) -> Errors:
    half = len(instruction.operands) // 2
    if half:
        types = [operand.shape.element_type for operand in instruction.operands[:half]]
        yield from _reducer("attribute:to_apply", instruction.attributes["to_apply"], types, "the reducer")


def _scatter(instruction: Instruction) -> Errors:
    half = len(instruction.operands) // 2
    if half:
        types = [operand.shape.element_type for operand in instruction.operands[:half]]
        yield from _reducer("attribute:to_apply", instruction.attributes["to_apply"], types, "the update function")


def _all_reduce(instruction: Instruction) -> Errors:
    """The reducer serves every operand."""
    for kind in dict.fromkeys(operand.shape.element_type for operand in instruction.operands):
        if ELEMENT_TYPES[kind].is_array:
            yield from _reducer("attribute:to_apply", instruction.attributes["to_apply"], [kind], "the reducer")


def _select_and_scatter(instruction: Instruction) -> Errors:
    kind = instruction.operands[0].shape.element_type
    select, part = instruction.attributes["select"], "attribute:select"
    yield from _counted(part, select, 2, "the selection")
    for parameter in select.parameters[:2]:
        if not parameter.shape.compatible(scalar(kind)):
            yield _wrong(f"the selection works on {parameter.shape}, the data is {kind}", part)
            break
    given = select.root.shape
    if not given.compatible(scalar("pred")):
        yield _wrong(f"the selection gives {given}, must be pred[]", part)
    yield from _reducer("attribute:scatter", instruction.attributes["scatter"], [kind], "the scatter function")


def _sort(instruction: Instruction) -> Errors:
    comparator, part = instruction.attributes["to_apply"], "attribute:to_apply"
    yield from _counted(part, comparator, 2 * len(instruction.operands), "the comparison")
    for number, parameter in enumerate(comparator.parameters[: 2 * len(instruction.operands)]):
        kind = instruction.operands[number // 2].shape.element_type
        if not parameter.shape.compatible(scalar(kind)):
            yield _wrong(f"parameter {number} of the comparison is {parameter.shape}, the data is {kind}", part)
            break
    given = comparator.root.shape
    if not given.compatible(scalar("pred")):
        yield _wrong(f"the comparison gives {given}, must be pred[]", part)


def _map(instruction: Instruction) -> Errors:
    function, part = instruction.attributes["to_apply"], "attribute:to_apply"
    yield from _counted(part, function, len(instruction.operands), "the function")
    for parameter, operand in zip(function.parameters, instruction.operands, strict=False):
        if not parameter.shape.compatible(scalar(operand.shape.element_type)):
            yield _wrong(f"the function works on {parameter.shape}, the data is {operand.shape}", part)
            return


def _scan(instruction: Instruction) -> Errors:
    """A slice of every input, then the carries; it gives elements of the outputs, then the carries again."""
    part, function, operands = "attribute:to_apply", instruction.attributes["to_apply"], instruction.operands
    yield from _counted(part, function, len(operands), "the function")
    carries, dimensions = instruction.attributes.get("num_carries"), instruction.attributes.get("dimensions")
    if carries is None or dimensions is None:
        return  # not given, or not readable
    split = len(operands) - carries
    if not 0 <= split <= len(operands) or len(dimensions) != 1:
        return  # as shape inference says
    (axis,) = dimensions
    if any(not 0 <= axis < operand.shape.rank for operand in operands[:split]):
        return
    for number, (parameter, operand) in enumerate(zip(function.parameters, operands, strict=False)):
        sizes = operand.shape.dimensions
        if number < split:
            sizes = (*sizes[:axis], *sizes[axis + 1 :])
        wanted = array(operand.shape.element_type, sizes)
        if not parameter.shape.compatible(wanted):
            yield _wrong(f"parameter {number} of the function is {parameter.shape}, scan gives it {wanted}", part)
            return
    made = _leaves(function.root.shape)[-carries:] if carries else ()
    for given, operand in zip(made, operands[split:], strict=False):
        if not given.compatible(operand.shape):
            yield _wrong(f"the function makes {given} of the carry {operand.shape}", part)
            return


def _while(instruction: Instruction) -> Errors:
    state = instruction.operands[0].shape if instruction.operands else None
    for name in ("condition", "body"):
        part, called = f"attribute:{name}", instruction.attributes[name]
        parameters, given = called.parameters, called.root.shape
        yield from _counted(part, called, 1, f"the while {name}")
        if name == "condition" and not given.compatible(scalar("pred")):
            yield _wrong(f"the while condition gives {given}, must be pred[]", part)
        if len(parameters) != 1 or state is None:
            continue
        taken = parameters[0].shape
        if not taken.compatible(state):
            yield _wrong(f"the while {name} takes {taken}, the state is {state}", part)
        if name == "body" and not given.compatible(taken) and not given.compatible(state):
            yield _wrong(f"the while body takes {taken} but gives {given}", part)


def _conditional(instruction: Instruction) -> Errors:
    attributes = instruction.attributes
    names = ("true_computation", "false_computation")
    listed = attributes.get("branch_computations")
    branches = listed or [attributes[name] for name in names]
    parts = [f"attribute:branch_computations:{n}" if listed else f"attribute:{names[n]}" for n in range(len(branches))]
    count = len(instruction.operands)
    if count != len(branches) + 1:
        many = f"{len(branches)} branch{'' if len(branches) == 1 else 'es'}"
        yield _wrong(f"{many} need as many operands, {count - 1} given", "opcode")
    if count:
        selector, wanted = instruction.operands[0].shape, scalar("s32" if listed else "pred")
        if not (selector.compatible(wanted) or (len(branches) == 2 and selector.compatible(scalar("pred")))):
            yield _wrong(f"the selector must be {wanted}, not {selector}", "operand:0")
    roots = [branch.root.shape for branch in branches]
    model = next((n for n, root in enumerate(roots) if root.compatible(instruction.shape)), 0)
    for number, (branch, part) in enumerate(zip(branches, parts, strict=True)):
        parameters = branch.parameters
        yield from _counted(part, branch, 1, f"branch {number}")
        if len(parameters) == 1 and number + 1 < count:
            taken, operand = parameters[0].shape, instruction.operands[number + 1].shape
            if not taken.compatible(operand):
                yield _wrong(f"branch {number} takes {taken}, its operand is {operand}", f"operand:{number + 1}")
        given = branch.root.shape
        if not given.compatible(roots[model]):
            yield _wrong(f"branch {number} gives {given}, branch {model} gives {roots[model]}", part)


def _call(instruction: Instruction) -> Errors:
    return _arguments(instruction, "to_apply", "the called computation", "parameter")


def _fusion(instruction: Instruction) -> Errors:
    return _arguments(instruction, "calls", "the fusion", "fused parameter")


def _async(instruction: Instruction) -> Errors:
    return _arguments(instruction, "calls", "the asynchronous computation", "parameter")


def _arguments(instruction: Instruction, attribute: str, what: str, noun: str) -> Errors:
    called: Computation = instruction.attributes[attribute]
    parameters, operands = called.parameters, instruction.operands
    yield from _counted(f"attribute:{attribute}", called, len(operands), what)
    for number, (operand, parameter) in enumerate(zip(operands, parameters, strict=False)):
        if not operand.shape.compatible(parameter.shape) and len(operands) == len(parameters):
            message = f"operand {number} of {what} is {operand.shape}, the {noun} is {parameter.shape}"
            yield _wrong(message, f"operand:{number}", parameter)


_RULES: dict[str, Callable[[Instruction], Errors]] = {
    "reduce": _reduce,
    "reduce-window": _reduce,
    "scatter": _scatter,
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "reduce-scatter": _all_reduce,
    "select-and-scatter": _select_and_scatter,
    "scan": _scan,
    "sort": _sort,
    "map": _map,
    "while": _while,
    "conditional": _conditional,
    "call": _call,
    "fusion": _fusion,
    "async-start": _async,
}
