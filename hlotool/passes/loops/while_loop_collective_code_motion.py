"""Move exchanges that every iteration repeats out of loops."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import known_trip_count
from hlotool.ir import Computation, Instruction, Module, clone_instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import is_pure
from hlotool.passes.loops.while_loops import append_elements, initial_element, invariant_elements, obstacle, prepare
from hlotool.passes.simplify.dce import sweep

__all__ = ["WhileLoopCollectiveCodeMotion"]

_MOVED = frozenset({"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"})


@dataclass(frozen=True, slots=True)
class WhileLoopCollectiveCodeMotion:
    """Exchanges once, before the loop, what devices exchange anew in every iteration although it does not change.

    So weights that are sharded over devices are gathered once.  The loop has to be known to run at least once: devices
    that never came to an exchange do not wait for each other.  The results, up to `max-bytes` of a loop, stay alive
    while it runs.
    """

    name: ClassVar[str] = "while-loop-collective-code-motion"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})
    max_bytes: int = 1 << 30

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers = module.callers()
        for loop in calls_of(module, "while"):
            if not _MOVED.isdisjoint(loop.attributes["body"].opcodes) and obstacle(loop, callers) is None:
                changed |= self._hoist(loop, log)
        return changed

    def _hoist(self, loop: Instruction, log: DecisionLog) -> bool:
        body: Computation = loop.attributes["body"]
        found = _invariants(loop, body)
        chosen: list[Instruction] = []
        held = 0
        for collective in (i for i in found if i.opcode in _MOVED):
            size = collective.shape.byte_size if collective.shape.is_array else None
            if size is None or not log.allow():
                continue
            if not known_trip_count(loop):
                log.refuse("may-not-run", collective, f"{loop.name} is not known to run at all")
            elif held + size > self.max_bytes:
                log.refuse("too-large", collective, "it would stay alive while the loop runs", bytes=size)
            else:
                held += size
                chosen.append(collective)
        if not chosen:
            return False
        prepare(loop)
        outside: dict[Instruction, Instruction] = {}
        values = [_copied(collective, loop, outside) for collective in chosen]
        for collective, value, reader in zip(chosen, values, append_elements(loop, values), strict=True):
            log.rewrite("hoist", collective, value, f"out of {loop.name}", bytes=collective.shape.byte_size)
            collective.replace_all_uses(reader)
            body.erase(collective)
        sweep(body, {}, log, record=False)
        return True


def _invariants(loop: Instruction, body: Computation) -> dict[Instruction, None]:
    """What is the same in every iteration: unchanged state, constants, and what is computed or exchanged of such."""
    found: dict[Instruction, None] = {}
    pure: dict[Computation, bool] = {}
    unchanged = set(invariant_elements(loop))
    for instruction in body:
        if instruction.control_predecessors or instruction.control_successors or instruction.is_root:
            continue
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] is body.parameters[0]:
            if instruction.attributes["index"] in unchanged:
                found[instruction] = None
        elif instruction.opcode == "parameter" or not all(operand in found for operand in instruction.operands):
            continue
        elif instruction.opcode in _MOVED or is_pure(instruction, pure):
            found[instruction] = None
    return found


def _copied(instruction: Instruction, loop: Instruction, outside: dict[Instruction, Instruction]) -> Instruction:
    """A copy of an invariant instruction before the loop, with whatever it reads."""
    assert loop.parent is not None
    stack = [instruction]
    while stack:
        current = stack[-1]
        missing = [operand for operand in current.operands if operand not in outside]
        if current in outside:
            stack.pop()
        elif current.opcode == "get-tuple-element" and current.operands[0].opcode == "parameter":
            outside[current] = initial_element(loop, current.attributes["index"])
        elif missing:
            stack.extend(missing)
        else:
            copy = clone_instruction(current, [outside[operand] for operand in current.operands])
            outside[current] = loop.parent.add(copy, before=loop)
    return outside[instruction]
