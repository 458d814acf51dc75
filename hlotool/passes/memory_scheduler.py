"""Order the instructions so that fewer bytes are alive at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.in_place import in_place_pairs
from hlotool.analysis.peak_memory import order_peak, owned_bytes, owners
from hlotool.ir import Computation, Instruction, Module
from hlotool.passes.fusion import fusible_computations
from hlotool.passes.graph import order_effects

__all__ = ["MemoryScheduler"]

_TAKES_OVER = frozenset({"while", "call", "conditional"})


@dataclass(frozen=True, slots=True)
class MemoryScheduler:
    """Orders the instructions of each computation for a small peak of live memory.

    A list scheduler after Warren (Instruction scheduling for the IBM RISC System/6000, 1990), with bytes for
    registers: of what is ready, first comes what frees most and allocates least, in program order among equals.  What
    reads an array stays ahead of what updates it in place.  The order is kept where the new one does not save the
    share `at-least` of the peak, since program order is good for caches.
    """

    name: ClassVar[str] = "memory-scheduler"
    at_least: float = 0.05

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        running = set(fusible_computations(module))
        pure: dict[Computation, bool] = {}
        peaks: dict[Computation, int] = {}
        for computation in module.callees_first():
            entry = computation is module.entry
            before = list(computation)
            peaks[computation] = order_peak(computation, before, peaks, entry)
            if computation not in running or len(before) < 3:
                continue
            changed |= order_effects(computation, pure)
            after = _schedule(before, computation.root, entry)
            peak = order_peak(computation, after, peaks, entry)
            numbers = {"peak_before": peaks[computation], "peak_after": peak}
            if after == before:
                continue
            if peak > (1 - self.at_least) * peaks[computation]:
                log.note("order-kept", computation.name, "another order would save too little memory", **numbers)
            elif log.allow():
                computation.reorder(after)
                log.rewrite("schedule", computation.name, computation.name, "fewer bytes are alive at once", **numbers)
                peaks[computation], changed = peak, True
        return changed


def _schedule(order: list[Instruction], root: Instruction, entry: bool) -> list[Instruction]:
    """A topological order of the instructions in which memory is freed early."""
    stored = owners(order, entry)
    position = {instruction: number for number, instruction in enumerate(order)}
    waiting, followers = _dependencies(order, stored)
    readers: dict[Instruction, set[Instruction]] = {}
    for instruction in order:
        for owner in {o for operand in instruction.operands for o in stored[operand]}:
            readers.setdefault(owner, set()).add(instruction)
    kept = set(stored[root])

    def gain(instruction: Instruction) -> int:
        """Bytes that are free after the instruction and were not before."""
        own = owned_bytes(instruction) if instruction in stored[instruction] else 0
        return _freed(instruction, stored, readers, kept) - own

    ready = [(-gain(i), position[i]) for i in order if not waiting[i]]
    heapify(ready)
    best = {order[at]: cost for cost, at in ready}
    result: list[Instruction] = []
    while ready:
        cost, at = heappop(ready)
        instruction = order[at]
        if best.get(instruction) != cost:
            continue  # an entry that has been replaced
        del best[instruction]
        result.append(instruction)
        changed: dict[Instruction, None] = {}
        for owner in {o for operand in instruction.operands for o in stored[operand]}:
            left = readers[owner]
            left.discard(instruction)
            if len(left) == 1:  # the last reader now frees it
                changed.update(dict.fromkeys(left))
        for follower in followers.get(instruction, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                changed[follower] = None
        for other in changed:
            if not waiting[other] and other in position:
                new = -gain(other)
                if best.get(other) != new:
                    best[other] = new
                    heappush(ready, (new, position[other]))
    return result


def _freed(
    instruction: Instruction,
    stored: Mapping[Instruction, tuple[Instruction, ...]],
    readers: Mapping[Instruction, set[Instruction]],
    kept: set[Instruction],
) -> int:
    freed = 0
    for owner in {o for operand in instruction.operands for o in stored[operand]}:
        last = readers[owner] == {instruction}
        if last and owner not in kept and owner.opcode != "parameter" and owner not in stored[instruction]:
            freed += owned_bytes(owner)
    return freed


def _dependencies(
    order: list[Instruction], stored: Mapping[Instruction, tuple[Instruction, ...]]
) -> tuple[dict[Instruction, int], dict[Instruction, list[Instruction]]]:
    """How many others each instruction waits for, and who waits for it."""
    waiting: dict[Instruction, int] = {}
    followers: dict[Instruction, list[Instruction]] = {}
    seen: dict[Instruction, list[Instruction]] = {}  # readers so far of what an owner holds
    for instruction in order:
        sources = dict.fromkeys((*instruction.operands, *instruction.control_predecessors))
        for owner in _taken_over(instruction, stored):
            sources.update(dict.fromkeys(r for r in seen.get(owner, ()) if r is not instruction))
        waiting[instruction] = len(sources)
        for source in sources:
            followers.setdefault(source, []).append(instruction)
        for owner in {o for operand in instruction.operands for o in stored[operand]}:
            seen.setdefault(owner, []).append(instruction)
    return waiting, followers


def _taken_over(
    instruction: Instruction, stored: Mapping[Instruction, tuple[Instruction, ...]]
) -> dict[Instruction, None]:
    """What holds values that the instruction may write over."""
    numbers = (
        range(len(instruction.operands))
        if instruction.opcode in _TAKES_OVER
        else [number for _, number in in_place_pairs(instruction)]
    )
    return dict.fromkeys(o for number in numbers for o in stored[instruction.operands[number]])
