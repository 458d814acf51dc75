"""What the loop passes do to a ``while``: which state elements it has, fewer of them, more of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Shape, tuple_shape
from hlotool.passes.framework.graph import drop_dead, made_from
from hlotool.passes.framework.rewriter import Rewriter
from hlotool.passes.simplify.dce import sweep

__all__ = [
    "append_elements", "element_readers", "initial_element", "invariant_elements", "is_read_whole", "keep_elements",
    "obstacle", "prepare", "set_config",
]  # fmt: skip


def obstacle(loop: Instruction, callers: Mapping[Computation, Sequence[Instruction]]) -> str | None:
    """Why the state of `loop` cannot be changed; None when it can."""
    body, condition = _body(loop), _condition(loop)
    if not loop.shape.is_tuple:
        return "the state is no tuple"
    if len(callers.get(body, ())) > 1 or len(callers.get(condition, ())) > 1 or body is condition:
        return "the body or the condition has other callers"
    if loop.control_predecessors or loop.control_successors:
        return "it has control dependencies"
    return "the body hands on its state as a whole" if body.root.opcode != "tuple" else None


def prepare(loop: Instruction) -> None:
    """Bring a loop without `obstacle` into the form in which its state can be changed.

    Its initial state is a ``tuple``, and state and result are read by ``get-tuple-element`` only.
    """
    for parameter in (_body(loop).parameters[0], _condition(loop).parameters[0]):
        if is_read_whole(parameter):
            _split(parameter, parameter)
    if is_read_whole(loop):
        _split(loop, loop)
    if loop.operands[0].opcode != "tuple":
        elements = [initial_element(loop, index) for index in range(len(loop.shape.elements))]
        loop.set_operands([Rewriter(loop).make("tuple", loop.shape, *elements)])


def is_read_whole(value: Instruction) -> bool:
    """Whether something else than get-tuple-element reads a tuple."""
    return value.is_root or any(user.opcode != "get-tuple-element" for user in value.users)


def initial_element(loop: Instruction, index: int) -> Instruction:
    """The initial value of element `index` of the state."""
    state = loop.operands[0]
    if state.opcode == "tuple":
        return state.operands[index]
    return Rewriter(loop).make("get-tuple-element", loop.shape.elements[index], state, index=index)


def invariant_elements(loop: Instruction) -> list[int]:
    """Indices of the state elements that the body hands on unchanged."""
    body = _body(loop)
    parameter = body.parameters[0]
    return [
        index
        for index, value in enumerate(body.root.operands)
        if value.opcode == "get-tuple-element" and value.operands[0] is parameter and value.attributes["index"] == index
    ]


def _body(loop: Instruction) -> Computation:
    body: Computation = loop.attributes["body"]
    return body


def _condition(loop: Instruction) -> Computation:
    condition: Computation = loop.attributes["condition"]
    return condition


def _split(value: Instruction, after: Instruction) -> None:
    """Let everything but get-tuple-element read `value` through a tuple of its elements."""
    computation = value.parent
    assert computation is not None
    others = [user for user in value.users if user.opcode != "get-tuple-element"]
    was_root = value.is_root
    elements: list[Instruction] = []
    for index, shape in enumerate(value.shape.elements):
        element = made_from(value, "get-tuple-element", shape, [value], index=index)
        after = computation.add_after(element, after)
        elements.append(element)
    whole = computation.add_after(made_from(value, "tuple", value.shape, elements), after)
    for user in others:
        for position, operand in enumerate(user.operands):
            if operand is value:
                user.replace_operand(position, whole)
    if was_root:
        computation.root = whole


def element_readers(value: Instruction) -> dict[int, list[Instruction]]:
    """The get-tuple-elements of `value` by index."""
    readers: dict[int, list[Instruction]] = {}
    for user in value.users:
        if user.opcode == "get-tuple-element":
            readers.setdefault(user.attributes["index"], []).append(user)
    return readers


def keep_elements(loop: Instruction, kept: Collection[int], log: DecisionLog) -> None:
    """Drop all state elements of a prepared loop but `kept`; nothing outside or in the condition reads the others."""
    order = sorted(kept)
    place = {old: new for new, old in enumerate(order)}
    shape = tuple_shape([loop.shape.elements[i] for i in order])
    body, condition = _body(loop), _condition(loop)
    old_root = body.root
    root = made_from(old_root, "tuple", shape, [old_root.operands[i] for i in order])
    body.root = body.add_after(root, old_root)
    drop_dead(old_root)
    for computation in (body, condition):
        sweep(computation, {}, log, record=False)
        _renumber(computation.parameters[0], place)
        _reshape_state(computation.parameters[0], shape)
    _renumber(loop, place)
    old_state = loop.operands[0]
    loop.set_operands([Rewriter(loop).make("tuple", shape, *(old_state.operands[i] for i in order))])
    drop_dead(old_state)
    loop.shape = shape
    _forget_induction_variable(loop)


def _reshape_state(parameter: Instruction, shape: Shape) -> None:
    parameter.shape = shape
    parameter.attributes.pop("parameter_replication", None)  # it has a value for each array of the old shape


def _renumber(value: Instruction, place: Mapping[int, int]) -> None:
    for reader in list(value.users):
        index = reader.attributes["index"]
        if index in place:
            reader.attributes["index"] = place[index]
        else:
            drop_dead(reader)


def append_elements(loop: Instruction, values: Sequence[Instruction]) -> list[Instruction]:
    """Give a prepared loop more state that never changes: `values`, which stand before it.

    Returns how the body reads each.
    """
    first = len(loop.shape.elements)
    shape = tuple_shape([*loop.shape.elements, *(v.shape for v in values)])
    body = _body(loop)
    parameter = body.parameters[0]
    for computation in (body, _condition(loop)):
        _reshape_state(computation.parameters[0], shape)
    readers: list[Instruction] = []
    place = parameter
    for offset, value in enumerate(values):
        reader = made_from(value, "get-tuple-element", value.shape, [parameter], index=first + offset)
        place = body.add_after(reader, place)
        readers.append(reader)
    old_root = body.root
    root = made_from(old_root, "tuple", shape, [*old_root.operands, *readers])
    body.root = body.add_after(root, old_root)
    drop_dead(old_root)
    old_state = loop.operands[0]
    loop.set_operands([Rewriter(loop).make("tuple", shape, *old_state.operands, *values)])
    drop_dead(old_state)
    loop.shape = shape
    return readers


def set_config(loop: Instruction, **entries: object) -> bool:
    """Set (None: remove) entries of the JSON in ``backend_config``; whether that changed it."""
    old = loop.attributes.get("backend_config", "")
    try:
        config = json.loads(old) if old else {}
    except ValueError:
        return False
    if not isinstance(config, dict):
        return False
    for key, value in entries.items():
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
    new = json.dumps(config, separators=(",", ":")) if config else ""
    if new:
        loop.attributes["backend_config"] = new
    else:
        loop.attributes.pop("backend_config", None)
    return bool(old != new)


def _forget_induction_variable(loop: Instruction) -> None:
    if "known_induction_variable" in str(loop.attributes.get("backend_config", "")):
        set_config(loop, known_induction_variable=None)
