"""Simplify loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import trip_count
from hlotool.ir import Computation, Instruction, Module, clone_instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import can_grow, drop_dead, inline_computation, is_pure
from hlotool.passes.loops.while_loops import (
    element_readers,
    initial_element,
    invariant_elements,
    is_read_whole,
    keep_elements,
    obstacle,
    prepare,
)

__all__ = ["WhileLoopSimplifier"]


@dataclass(frozen=True, slots=True)
class WhileLoopSimplifier:
    """Removes loops that run never or once, and loop state that is constant, repeated or unused.

    A loop with trip count 0 becomes its initial state; with trip count 1, its body.  A state element that the body
    hands on unchanged is read from the initial state outside; scalar constants, broadcast ones and iotas move into
    the loop; two such elements with one initial value become one.  Elements on which no result depends go.
    """

    name: ClassVar[str] = "while-loop-simplifier"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers = module.callers()
        for loop in calls_of(module, "while"):
            changed |= _simplify(loop, callers, log)
        if changed:
            module.remove_unreachable()
        return changed


def _simplify(loop: Instruction, callers: dict[Computation, list[Instruction]], log: DecisionLog) -> bool:
    if _unroll(loop, log):
        return True
    reason = obstacle(loop, callers)
    if reason is not None:
        log.refuse("form", loop, reason)
        return False
    changed = _read_invariants_outside(loop, log)
    if loop.parent is None:  # only invariants were read, so that it was dead
        return True
    changed |= _share_invariants(loop, log)
    changed |= _sink_constants(loop, log)
    return _drop_unused(loop, log) or changed


def _unroll(loop: Instruction, log: DecisionLog) -> bool:
    """Replace a loop of trip count 0 or 1."""
    if loop.control_predecessors or loop.control_successors or not is_pure(loop):
        return False
    known = trip_count(loop)
    condition: Computation = loop.attributes["condition"]
    never = (
        condition.root.opcode == "constant"
        and not condition.root.literal.elided
        and not bool(condition.root.literal.value())
    )
    count = 0 if never else None if known is None else known.count
    if count not in (0, 1) or not log.allow():
        return False
    result = loop.operands[0]
    if count == 1:
        if loop.parent is not None and not can_grow(loop.parent, loop.attributes["body"]):
            log.refuse("form", loop, "its body, where loops inside of it were replaced, has grown too large")
            return False
        result = inline_computation(loop, loop.attributes["body"], loop.operands)
    log.rewrite("trip-count", loop, result, "it runs once" if count else "it never runs", count=count)
    loop.replace_all_uses(result)
    drop_dead(loop)
    return True


def _read_invariants_outside(loop: Instruction, log: DecisionLog) -> bool:
    changed = False
    readers = element_readers(loop)
    for index in invariant_elements(loop):
        for reader in readers.get(index, ()):
            if log.allow() and (reader.users or reader.is_root):
                initial = initial_element(loop, index)
                log.rewrite("invariant-result", reader, initial)
                reader.replace_all_uses(initial)
                changed = True
    for index in sorted(readers):
        for reader in readers[index]:
            drop_dead(reader)
    return changed


def _share_invariants(loop: Instruction, log: DecisionLog) -> bool:
    changed = False
    if loop.operands[0].opcode != "tuple":
        return False
    first: dict[Instruction, int] = {}
    for index in invariant_elements(loop):
        kept = first.setdefault(initial_element(loop, index), index)
        if kept != index:
            changed |= _redirect(loop, index, log, partial(_read, index=kept))
    return changed


def _read(reader: Instruction, index: int) -> Instruction:
    parameter = reader.operands[0]
    assert reader.parent is not None
    copy = clone_instruction(reader, [parameter])
    copy.attributes["index"] = index
    return reader.parent.add(copy, before=reader)


def _sink_constants(loop: Instruction, log: DecisionLog) -> bool:
    changed = False
    if loop.operands[0].opcode != "tuple":
        return False
    for index in invariant_elements(loop):
        value = initial_element(loop, index)
        if _is_symbolic(value):
            changed |= _redirect(loop, index, log, partial(_copy_into, value=value))
    return changed


def _is_symbolic(value: Instruction) -> bool:
    """A scalar constant, a broadcast one, or an iota: smaller as an instruction than as state."""
    if value.opcode == "broadcast":
        value = value.operands[0]
    return value.opcode == "iota" or (value.opcode == "constant" and value.shape.is_scalar)


def _copy_into(reader: Instruction, value: Instruction) -> Instruction:
    assert reader.parent is not None
    operands = [_copy_into(reader, operand) for operand in value.operands]
    return reader.parent.add(clone_instruction(value, operands), before=reader)


def _redirect(loop: Instruction, index: int, log: DecisionLog, make: Callable[[Instruction], Instruction]) -> bool:
    """Let body and condition read something else than state element `index`, which stays only to be handed on."""
    changed = False
    body: Computation = loop.attributes["body"]
    condition: Computation = loop.attributes["condition"]
    for computation in (body, condition):
        for reader in element_readers(computation.parameters[0]).get(index, ()):
            places = [
                (user, position)
                for user in reader.users
                for position, operand in enumerate(user.operands)
                if operand is reader and not (user is body.root and position == index)
            ]
            if not (places or reader.is_root) or not log.allow():
                continue
            new = make(reader)
            log.rewrite("invariant-element", reader, new, f"element {index} of {loop.name} never changes")
            if reader.is_root:
                computation.root = new
            for user, position in places:
                user.replace_operand(position, new)
            changed = True
    return changed


def _drop_unused(loop: Instruction, log: DecisionLog) -> bool:
    live = _live_elements(loop)
    total = len(loop.shape.elements)
    if len(live) == total or not log.allow():
        return False
    log.rewrite("unused-elements", loop, loop, "no result depends on them", elements=total, kept=len(live))
    prepare(loop)
    keep_elements(loop, live, log)
    return True


def _live_elements(loop: Instruction) -> set[int]:
    """State elements on which the result, the condition or an effect depends."""
    body: Computation = loop.attributes["body"]
    condition: Computation = loop.attributes["condition"]
    parameter, root = body.parameters[0], body.root
    live: set[int] = set()
    if any(is_read_whole(value) for value in (loop, condition.parameters[0], parameter)):
        return set(range(len(loop.shape.elements)))
    for value in (loop, condition.parameters[0]):
        live.update(index for index, readers in element_readers(value).items() if any(_is_used(r) for r in readers))
    pure: dict[Computation, bool] = {}
    stack = [instruction for instruction in body if not is_pure(instruction, pure)]
    stack.extend(root.operands[index] for index in sorted(live))
    seen: set[Instruction] = set()
    while stack:
        instruction = stack.pop()
        if instruction in seen:
            continue
        seen.add(instruction)
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] is parameter:
            index = instruction.attributes["index"]
            if index not in live:
                live.add(index)
                stack.append(root.operands[index])
        else:
            stack.extend(instruction.operands)
    return live


def _is_used(reader: Instruction) -> bool:
    return bool(reader.users) or reader.is_root
