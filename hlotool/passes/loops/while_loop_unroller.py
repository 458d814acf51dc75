"""Unroll short loops."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import trip_count
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import calls_of
from hlotool.passes.framework.graph import drop_dead, inline_computation, is_pure

__all__ = ["WhileLoopUnroller"]


@dataclass(frozen=True, slots=True)
class WhileLoopUnroller:
    """Replaces a loop of a few iterations, whose number is known, by copies of its body.

    What follows then sees through the iterations: constants of the counter fold, and values stay in registers instead
    of in the loop's state.  Loops of more than `max-trips` iterations stay, and those whose copies would have more
    than `max-instructions` instructions: code grows, and large bodies gain nothing.  Up to `max-streamed` may they have
    where arrays of `streamed-elements` and more go through element by element (the rounds of a random number
    generator): the copies become one loop, and what is between them is not written to memory and read again.
    """

    name: ClassVar[str] = "while-loop-unroller"
    opcodes: ClassVar[frozenset[str]] = frozenset({"while"})
    max_trips: int = 8
    max_instructions: int = 256
    max_streamed: int = 640
    streamed_elements: int = 16384

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for loop in calls_of(module, "while"):
            changed |= self._unroll(loop, log)
        if changed:
            module.remove_unreachable()
        return changed

    def _unroll(self, loop: Instruction, log: DecisionLog) -> bool:
        known = trip_count(loop)
        if known is None or loop.control_predecessors or loop.control_successors or not is_pure(loop):
            return False
        body: Computation = loop.attributes["body"]
        size = known.count * _size(body)
        if known.count > self.max_trips:
            log.refuse("many-iterations", loop, "it runs too often", iterations=known.count, limit=self.max_trips)
            return False
        limit = self.max_streamed if self._is_streamed(body) else self.max_instructions
        if size > limit:
            log.refuse("large-body", loop, "its copies would be too large", instructions=size, limit=limit)
            return False
        if not log.allow():
            return False
        state = loop.operands[0]
        for _ in range(known.count):
            state = inline_computation(loop, body, [state])
        log.rewrite("unroll", loop, state, "it runs a few times", iterations=known.count, instructions=size)
        loop.replace_all_uses(state)
        drop_dead(loop)
        return True

    def _is_streamed(self, body: Computation) -> bool:
        """Whether there are large arrays in a loop, and nothing is done with them but elementwise operations."""
        large = [i for i in body if i.shape.is_array and i.shape.size >= self.streamed_elements]
        users = [u for i in large for u in i.users if u is not body.root]
        return bool(users) and all(i.has("elementwise") or i.opcode in _FREE for i in (*large, *users))


_FREE = ("get-tuple-element", "broadcast", "constant", "iota")


def _size(computation: Computation) -> int:
    """Instructions of a computation and of what it calls, functions of reductions and the like aside."""
    inner = (c for i in computation if i.opcode in ("while", "conditional", "call", "fusion") for c in i.called)
    return len(computation) + sum(map(_size, inner))
