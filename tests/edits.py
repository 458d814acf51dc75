"""Edits of modules whose difference is known."""

from __future__ import annotations

import random

from hlotool.ir import Instruction, Module

__all__ = ["edit", "rename", "shuffle"]

_OTHER = {
    "add": "subtract", "subtract": "add", "maximum": "minimum", "minimum": "maximum", "multiply": "add",
    "negate": "abs", "abs": "negate",
}  # fmt: skip


def edit(module: Module, choice: random.Random, count: int) -> list[tuple[str, str]]:
    """Insert barriers and exchange opcodes at up to `count` places that are not next to each other: what a difference
    should say, (kind, name), sorted."""
    done: list[tuple[str, str]] = []
    touched: set[Instruction] = set()
    places = [i for c in module.callees_first() for i in c if i.shape.is_array and i.opcode != "parameter" and i.users]
    choice.shuffle(places)
    for one in places:
        near = {one, *one.users, *one.operands}
        if len(done) == count or near & touched:
            continue
        if one.opcode in _OTHER and one.shape.element_type != "pred" and choice.random() < 0.5:
            one.opcode = _OTHER[one.opcode]
            done.append(("changed", one.name))
        else:
            done.append(("added", _insert(one, f"edit{len(done)}", choice).name))
        touched |= near
    return sorted(done)


def _insert(one: Instruction, name: str, choice: random.Random) -> Instruction:
    """A barrier between an instruction and one of its users, or all."""
    barrier = Instruction("opt-barrier", one.shape, name=name)
    if choice.random() < 0.5:
        one.replace_all_uses(barrier)
    else:
        user = next(iter(one.users))
        user.replace_operand(user.operands.index(one), barrier)
    barrier.set_operands([one])
    assert one.parent is not None
    return one.parent.add_after(barrier, one)


def shuffle(module: Module, choice: random.Random) -> None:
    """Any order in which operands come first."""
    for computation in module.computations.values():
        missing = {one: len(set(one.operands)) for one in computation}
        ready = [one for one, count in missing.items() if not count]
        order = []
        while ready:
            one = ready.pop(choice.randrange(len(ready)))
            order.append(one)
            for user in one.users:
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)
        computation.reorder(order)


def rename(module: Module, choice: random.Random) -> None:
    """Other names for everything."""
    instructions = list(module.instructions())
    numbers = choice.sample(range(10 * len(instructions)), len(instructions))
    for one, number in zip(instructions, numbers, strict=True):
        one.name = f"name{number}"
    computations = list(module.computations.values())
    for number, computation in enumerate(computations):
        computation.name = f"computation{number}"
    module.computations = {computation.name: computation for computation in computations}
    module.name = "other"
