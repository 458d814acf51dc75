"""Move work that every iteration repeats out of loops."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, clone_instruction
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import is_pure
from hlotool.passes.loops.while_loops import append_elements, initial_element, invariant_elements, obstacle, prepare
from hlotool.passes.simplify.dce import sweep

__all__ = ["WhileLoopInvariantCodeMotion"]

_FREE = frozenset({"constant", "iota", "broadcast", "reshape", "bitcast", "tuple", "get-tuple-element", "parameter"})
_STAYS = frozenset({"opt-barrier", "after-all", "add-dependency", "copy"})


@dataclass(frozen=True, slots=True)
class WhileLoopInvariantCodeMotion:
    """Computes once, before the loop, what does not depend on the iteration; the result becomes loop state.

    Instructions that cost nothing (broadcasts, reshapes, constants, iotas) stay in the loop.  A result larger than
    what it is computed from stays too, above `max-growth` bytes: it would only fill memory and caches.  Not so where
    each of its elements takes `min-work` operations or more: those of products, sums over windows, sorts.
    """

    name: ClassVar[str] = "while-loop-invariant-code-motion"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})
    max_growth: int = 4096
    min_work: int = 16

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        callers = module.callers()
        for loop in calls_of(module, "while"):
            changed |= self._hoist(loop, callers, log)
        return changed

    def _hoist(self, loop: Instruction, callers: dict[Computation, list[Instruction]], log: DecisionLog) -> bool:
        if not log.allow() or obstacle(loop, callers) is not None:
            return False
        body: Computation = loop.attributes["body"]
        outside = self._invariants(loop, body, log)
        chosen = [i for i in body if i in outside and _is_wanted(i, outside)]
        if not chosen:
            return False
        prepare(loop)
        values = [_copy_out(instruction, loop, outside) for instruction in chosen]
        readers = append_elements(loop, values)
        for instruction, value, reader in zip(chosen, values, readers, strict=True):
            log.rewrite("hoist", instruction, value, f"out of {loop.name}", bytes=instruction.shape.byte_size)
            instruction.replace_all_uses(reader)
        sweep(body, {}, log, record=False)
        return True

    def _invariants(
        self, loop: Instruction, body: Computation, log: DecisionLog
    ) -> dict[Instruction, Instruction | None]:
        """What does not change in the loop, with its copy outside (None: not yet made)."""
        outside: dict[Instruction, Instruction | None] = {}
        pure: dict[Computation, bool] = {}
        invariant = set(invariant_elements(loop))
        for instruction in body:
            if instruction.opcode == "get-tuple-element" and instruction.operands[0] is body.parameters[0]:
                if instruction.attributes["index"] in invariant:
                    outside[instruction] = None
            elif self._may_leave(instruction, outside, pure, log):
                outside[instruction] = None
        return outside

    def _may_leave(
        self,
        instruction: Instruction,
        outside: dict[Instruction, Instruction | None],
        pure: dict[Computation, bool],
        log: DecisionLog,
    ) -> bool:
        if instruction.opcode in ("parameter", *_STAYS) or instruction.is_root or not is_pure(instruction, pure):
            return False
        if instruction.control_predecessors or instruction.control_successors:
            return False
        if not all(operand in outside for operand in instruction.operands):
            return False
        if instruction.opcode in _FREE:
            return True
        if not instruction.shape.is_array:
            return False
        size, read = instruction.shape.byte_size, sum(map(_stored_bytes, instruction.operands))
        if size > max(read, self.max_growth) and _work(instruction) < self.min_work:
            log.refuse("larger-than-operands", instruction, "it stays in the loop", bytes=size, read=read)
            return False
        return True


def _work(instruction: Instruction) -> int:
    """About how many operations an element of the result takes; 1 for what is elementwise or only moves."""
    operands = instruction.operands
    match instruction.opcode:
        case "dot":
            return prod(operands[0].shape.dimensions[d] for d in instruction.attributes.get("lhs_contracting_dims", ()))
        case "convolution":
            kernel = operands[1].shape
            features: int = kernel.dimensions[instruction.attributes["dim_labels"].kernel_output_feature]
            return kernel.size // max(1, features)
        case "reduce-window":
            window = instruction.attributes.get("window")
            return prod(row.size for row in window.dimensions) if window else 1
        case "sort" | "topk":
            return max(operands[0].shape.dimensions, default=1).bit_length() ** 2
        case "cholesky" | "triangular-solve" | "fft":
            return max(operands[0].shape.dimensions, default=1)
        case _:
            return 1


def _stored_bytes(operand: Instruction) -> int:
    """Bytes that reading `operand` brings in: those of its source for a broadcast, none for an iota."""
    while operand.opcode in ("broadcast", "reshape"):
        operand = operand.operands[0]
    return 0 if operand.opcode == "iota" else operand.shape.byte_size


def _is_free(instruction: Instruction) -> bool:
    """Whether computing it costs nothing: also one element of what a fusion only repeats or names."""
    if instruction.opcode == "fusion" and instruction.shape.size == 1:
        return all(inner.opcode in _FREE for inner in instruction.attributes["calls"])
    return instruction.opcode in _FREE


def _is_wanted(instruction: Instruction, outside: dict[Instruction, Instruction | None]) -> bool:
    """Whether something that stays in the loop reads an invariant instruction that costs something."""
    if _is_free(instruction):
        return False
    stack = list(instruction.users)
    seen: set[Instruction] = set()
    while stack:
        user = stack.pop()
        if user in seen:
            continue
        seen.add(user)
        if user not in outside:
            return True
        if _is_free(user):
            stack.extend(user.users)
    return instruction.is_root


def _copy_out(
    instruction: Instruction, loop: Instruction, outside: dict[Instruction, Instruction | None]
) -> Instruction:
    """A copy of an invariant instruction before the loop, with whatever it reads."""
    assert loop.parent is not None
    stack = [instruction]
    while stack:
        current = stack[-1]
        if outside[current] is not None:
            stack.pop()
            continue
        if current.opcode == "get-tuple-element" and current.operands[0].opcode == "parameter":
            outside[current] = initial_element(loop, current.attributes["index"])
            continue
        missing = [o for o in current.operands if outside[o] is None]
        if missing:
            stack.extend(missing)
        else:
            operands = [o for o in map(outside.get, current.operands) if o is not None]
            outside[current] = loop.parent.add(clone_instruction(current, operands), before=loop)
            stack.pop()
    made = outside[instruction]
    assert made is not None
    return made
