"""Order the instructions so that fewer bytes are alive at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.in_place import in_place_pairs
from hlotool.analysis.peak_memory import Owners, order_peak, owned_bytes, owners
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import order_effects
from hlotool.passes.fuse.fusion import fusible_computations

__all__ = ["MemoryScheduler", "dependencies"]

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
        calls = [call for computation in module.callees_first() for call in computation.calls]
        fused = {call.attributes["calls"] for call in calls if call.opcode == "fusion"}
        fused -= {callee for call in calls if call.opcode != "fusion" for callee in call.called}
        pure: dict[Computation, bool] = {}
        peaks: dict[Computation, int] = {}
        for computation in module.callees_first():
            if computation in fused:
                continue
            entry = computation is module.entry
            before = list(computation)
            stored = owners(before, entry)
            peaks[computation] = order_peak(computation, before, stored, peaks, entry)
            if computation not in running or len(before) < 3:
                continue
            changed |= order_effects(computation, pure)
            after = _schedule(before, computation.root, stored)
            if after == before:
                continue
            peak = order_peak(computation, after, stored, peaks, entry)
            numbers = {"peak_before": peaks[computation], "peak_after": peak}
            if peak > (1 - self.at_least) * peaks[computation]:
                log.note("order-kept", computation.name, "another order would save too little memory", **numbers)
            elif log.allow():
                computation.reorder(after)
                log.rewrite("schedule", computation.name, computation.name, "fewer bytes are alive at once", **numbers)
                peaks[computation], changed = peak, True
        return changed


def _schedule(order: list[Instruction], root: Instruction, stored: Owners) -> list[Instruction]:
    """A topological order of the instructions in which memory is freed early."""
    position = {instruction: number for number, instruction in enumerate(order)}
    read = {i: dict.fromkeys([owner for operand in i.operands for owner in stored[operand]]) for i in order}
    waiting, followers = dependencies(order, stored, read)
    readers: dict[Instruction, set[Instruction]] = {}
    for instruction in order:
        for owner in read[instruction]:
            readers.setdefault(owner, set()).add(instruction)
    held = {instruction: owned_bytes(instruction) for instruction in order if instruction in stored[instruction]}
    kept = {*stored[root], *(instruction for instruction in order if instruction.opcode == "parameter")}

    def gain(instruction: Instruction) -> int:
        """Bytes that are free after the instruction, which is still to come, and were not before."""
        freed = -held.get(instruction, 0)
        for owner in read[instruction]:
            if len(readers[owner]) == 1 and owner not in kept and owner not in stored[instruction]:
                freed += held[owner]
        return freed

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
        for owner in read[instruction]:
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


def dependencies(
    order: Sequence[Instruction], stored: Owners, read: Mapping[Instruction, Mapping[Instruction, None]]
) -> tuple[dict[Instruction, int], dict[Instruction, list[Instruction]]]:
    """How many others each instruction waits for, and who waits for it."""
    waiting: dict[Instruction, int] = {}
    followers: dict[Instruction, list[Instruction]] = {}
    seen: dict[Instruction, list[Instruction]] = {}  # readers of what an owner holds, from the last one that waits on
    for instruction in order:
        sources = dict.fromkeys((*instruction.operands, *instruction.control_predecessors))
        if not seen.keys().isdisjoint(read[instruction]):  # only who has others for readers can come too early
            for owner in _taken_over(instruction, stored):
                sources.update(dict.fromkeys(seen.pop(owner, ())))
        waiting[instruction] = len(sources)
        for source in sources:
            followers.setdefault(source, []).append(instruction)
        for owner in read[instruction]:
            seen.setdefault(owner, []).append(instruction)
    return waiting, followers


def _taken_over(instruction: Instruction, stored: Owners) -> dict[Instruction, None]:
    """What holds values that the instruction may write over."""
    numbers = (
        range(len(instruction.operands))
        if instruction.opcode in _TAKES_OVER
        else [number for _, number in in_place_pairs(instruction)]
    )
    return dict.fromkeys(o for number in numbers for o in stored[instruction.operands[number]])
