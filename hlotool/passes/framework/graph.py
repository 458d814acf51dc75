"""What several passes do to the graph: side effects, removal of dead instructions, inlining, single callers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hlotool.ir import Computation, Instruction, Module, Shape, clone_instruction
from hlotool.ir.effects import is_pure, is_pure_computation

__all__ = [
    "can_grow",
    "custom_call_target",
    "drop_dead",
    "erase",
    "has_sizes",
    "inline_computation",
    "is_pure",
    "is_removable",
    "made_from",
    "order_effects",
    "origins_of",
    "room_to_grow",
]


def has_sizes(instruction: Instruction) -> bool:
    """Whether the instruction or an operand has a dynamic dimension: rewriting it is a matter for `dynamic-padder`."""
    return not instruction.shape.is_static or not all(operand.shape.is_static for operand in instruction.operands)


def is_removable(instruction: Instruction, known: dict[Computation, bool] | None = None) -> bool:
    """Whether the instruction may be erased: nobody reads it, it is no root, no parameter and has no effect."""
    return (
        not instruction.users
        and not instruction.is_root
        and instruction.opcode != "parameter"
        and is_pure(instruction, known)
    )


def room_to_grow(module: Module, growth: int) -> int:
    """How many instructions a pass may still add to `module` by copying computations that several others call, if it
    may double it, and any module may have `growth` more.

    Measured by what the module had before any pass ran, so that it does not matter how often a pass runs.
    """
    size = module.instruction_count()
    given = size if module.given_size is None else module.given_size
    return 2 * given + growth - size


def order_effects(computation: Computation, known: dict[Computation, bool]) -> bool:
    """Tie what has effects to its order, for a pass that may put instructions into another one; whether that was new.

    Each becomes a control predecessor of the next.  `known` is that of `is_pure`.
    """
    if is_pure_computation(computation, known):
        return False
    changed = False
    before: Instruction | None = None
    for instruction in computation:
        if not is_pure(instruction, known):
            if before is not None and before not in instruction.control_predecessors:
                instruction.add_control_predecessor(before)
                changed = True
            before = instruction
    return changed


def erase(instruction: Instruction) -> None:
    """Erase an instruction, ordering its control successors after its control predecessors instead."""
    for after in instruction.control_successors:
        for before in instruction.control_predecessors:
            after.add_control_predecessor(before)
    assert instruction.parent is not None
    instruction.parent.erase(instruction)


def custom_call_target(instruction: Instruction) -> str:
    """What a custom call calls; of any other instruction nothing."""
    return str(instruction.attributes.get("custom_call_target", ""))


def replace_with(instruction: Instruction, new: Instruction) -> None:
    """Let everyone read `new` instead of `instruction`, and erase `instruction`."""
    instruction.replace_all_uses(new)
    erase(instruction)


def drop_dead(instruction: Instruction, known: dict[Computation, bool] | None = None) -> list[Instruction]:
    """Erase `instruction` if nothing needs it, then the operands that this leaves unused.

    Returns the operands that stayed: they lost a user, so rules about single uses may now fit them.
    """
    stayed: list[Instruction] = []
    stack = [instruction]
    while stack:
        current = stack.pop()
        if current.parent is None:
            continue
        if is_removable(current, known):
            operands = list(dict.fromkeys(current.operands))
            erase(current)
            stack.extend(operands)
        elif current is not instruction:
            stayed.append(current)
    return stayed


def origins_of(instruction: Instruction) -> tuple[str, ...]:
    """The source instructions that `instruction` stands for."""
    return instruction.origins or (instruction.name,)


def made_from(
    model: Instruction, opcode: str, shape: Shape, operands: Iterable[Instruction] = (), **attributes: Any
) -> Instruction:
    """A detached instruction with the metadata, location and origins of `model`."""
    return Instruction(opcode, shape, operands, attributes, "", model.metadata, model.location, origins_of(model))


def can_grow(computation: Computation, callee: Computation) -> bool:
    """Whether a copy of `callee` in `computation` leaves others some of what the module may grow.

    Computations that call each other in a row double nothing, but each has copies of all below it.
    """
    return computation.module is None or 2 * len(callee) <= computation.module.allowance


def inline_computation(call: Instruction, callee: Computation, arguments: Sequence[Instruction]) -> Instruction:
    """Copy the instructions of `callee` to just before `call`, reading `arguments`; the copy of its root.

    `call` itself stays.  Copies are ordered after the control predecessors of `call`, and its successors after them.
    """
    caller = call.parent
    assert caller is not None
    copies: dict[Instruction, Instruction] = {}
    for instruction in callee:
        if instruction.opcode == "parameter":
            copies[instruction] = arguments[instruction.parameter_number]
            continue
        copy = clone_instruction(instruction, [copies[o] for o in instruction.operands])
        caller.add(copy, before=call)
        copies[instruction] = copy
        for before in (*call.control_predecessors, *(copies[b] for b in instruction.control_predecessors)):
            copy.add_control_predecessor(before)
        for after in call.control_successors:
            after.add_control_predecessor(copy)
    return copies[callee.root]
