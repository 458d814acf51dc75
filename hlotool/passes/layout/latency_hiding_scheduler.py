"""Order the instructions so that devices compute while they exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import ClassVar

from hlotool.analysis.collective_formulas import Link
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.exchanges import Exchanges, is_exchange
from hlotool.analysis.network import parse_topology
from hlotool.analysis.peak_memory import Owners, order_peak, owners
from hlotool.analysis.timeline import Chip, is_start, kernel_seconds, order_seconds
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.devices import topology_of
from hlotool.ir.opcodes import CALLING
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.graph import is_pure
from hlotool.passes.layout.memory_scheduler import dependencies

__all__ = ["LatencyHidingScheduler"]

_NUMBERS = frozenset({"partition-id", "replica-id"})


@dataclass(frozen=True, slots=True)
class LatencyHidingScheduler:
    """Starts exchanges as early, and waits for them as late, as the model of the machine finds useful.

    A list scheduler: of what is ready, starts come first, then what the next exchange needs, then what none needs; a
    wait comes once its exchange is over, or nothing else is left to do.  The order is kept where the model does not
    find the new one quicker, or where it takes more than `memory-growth` of the peak of memory more, however few
    exchanges are under way at once.  The model: `flops` operations and `memory-bandwidth` bytes per second in each
    device, which reach each other alike, after `latency` seconds, by `bandwidth` bytes per second.
    """

    name: ClassVar[str] = "latency-hiding-scheduler"
    flops: float = 1e12
    memory_bandwidth: float = 1e11
    latency: float = 2e-6
    bandwidth: float = 25e9
    memory_growth: float = 0.1

    def run(self, module: Module, log: DecisionLog) -> bool:
        if not any(is_start(i) or i.opcode == "async-start" for i in module.instructions()):
            return False
        chip = Chip(flops=self.flops, bandwidth=self.memory_bandwidth, memory=0)
        devices = topology_of(module).devices
        exchanges = Exchanges(module, parse_topology("switch", devices, Link(self.latency, self.bandwidth)))
        costs = ModuleCost(module)
        peaks: dict[Computation, int] = {}
        changed = False
        for computation in module.callees_first():
            entry = computation is module.entry
            before = list(computation)
            stored = owners(before, entry)
            peaks[computation] = order_peak(computation, before, stored, peaks, entry)
            if any(i.opcode == "async-start" or is_start(i) for i in before):
                changed |= self._schedule(computation, exchanges, costs, chip, stored, peaks, log)
        return changed

    def _schedule(
        self, computation: Computation, exchanges: Exchanges, costs: ModuleCost, chip: Chip, stored: Owners,
        peaks: dict[Computation, int], log: DecisionLog,
    ) -> bool:  # fmt: skip
        before = list(computation)
        computing = {i: _seconds(costs, i, chip) for i in before}
        exchanging = _exchanging(before, exchanges)
        plan = _Plan(before, computing, exchanging, stored)
        seconds = order_seconds(before, computing, exchanging, _started_by)
        entry = computation is exchanges.module.entry
        most = (1 + self.memory_growth) * peaks[computation]
        under_way = len(exchanging)
        while under_way:
            after = plan.order(under_way)
            peak = order_peak(computation, after, stored, peaks, entry)
            if peak <= most:
                break
            under_way //= 2
        numbers = {"us_before": round(seconds * 1e6, 3)}
        if not under_way:
            log.note("order-kept", computation.name, "other orders would take too much memory", **numbers)
            return False
        quicker = order_seconds(after, computing, exchanging, _started_by)
        numbers |= {"us_after": round(quicker * 1e6, 3), "peak_before": peaks[computation], "peak_after": peak}
        if quicker >= seconds * (1 - 1e-9):
            log.note("order-kept", computation.name, "no quicker order was found", **numbers)
            return False
        if not log.allow():
            return False
        computation.reorder(after)
        peaks[computation] = peak
        log.rewrite("schedule", computation.name, computation.name, "devices compute while they exchange", **numbers)
        return True


def _seconds(costs: ModuleCost, instruction: Instruction, chip: Chip) -> float:
    """What an instruction takes with all that it runs; exchanges in loops and calls are not counted."""
    if is_exchange(instruction) or instruction.opcode == "async-start" or instruction.opcode.endswith("-done"):
        return 0.0
    own = kernel_seconds(costs, instruction, chip)
    if instruction.opcode == "fusion" or instruction.opcode not in CALLING:
        return own
    total = costs.of(instruction)
    return max((total.flops + total.transcendentals) / chip.flops, total.bytes / chip.bandwidth)


def _exchanging(order: Sequence[Instruction], exchanges: Exchanges) -> dict[Instruction, float]:
    """Seconds on the network of what exchanges; of an async-start, those of what it wraps."""
    found = {}
    for instruction in order:
        inner = [instruction] if is_exchange(instruction) else []
        if instruction.opcode == "async-start":
            inner = [i for i in instruction.called[0] if is_exchange(i)]
        if inner:
            predicted = [exchanges.of(i).predicted for i in inner]
            found[instruction] = sum(one.seconds for one in predicted if one is not None)
    return found


def _started_by(instruction: Instruction) -> Instruction | None:
    """What an instruction waits for."""
    if not instruction.opcode.endswith("-done") or instruction.opcode == "copy-done":
        return None
    source = instruction.operands[0]
    while source.opcode in ("async-update", "get-tuple-element", "opt-barrier") and source.operands:
        source = source.operands[0]
    return source


class _Plan:
    """The dependencies of a computation, and orders that keep them."""

    def __init__(
        self, order: Sequence[Instruction], computing: Mapping[Instruction, float],
        exchanging: Mapping[Instruction, float], stored: Owners,
    ) -> None:  # fmt: skip
        self._given, self._computing, self._exchanging = order, computing, exchanging
        self._position = {instruction: number for number, instruction in enumerate(order)}
        self._waiting, self._followers = _dependencies(order, stored)
        self._aim: dict[Instruction, int] = {}  # where the first exchange stands that needs an instruction
        for instruction in reversed(order):
            aims = (
                self._position[f] if f in exchanging else self._aim[f] for f in self._followers.get(instruction, ())
            )
            self._aim[instruction] = min(aims, default=len(order))

    def order(self, under_way: int) -> list[Instruction]:
        """An order in which as many exchanges are under way as that at most."""
        waiting = dict(self._waiting)
        starts: list[int] = []
        others: list[tuple[int, int]] = []
        ends: list[tuple[float, int]] = []
        clock = network = 0.0
        over: dict[Instruction, float] = {}
        open_ = 0
        result: list[Instruction] = []

        def add(instruction: Instruction) -> None:
            at = self._position[instruction]
            start = _started_by(instruction)
            if start is not None and start in self._exchanging:
                heappush(ends, (over[start], at))
            elif instruction in self._exchanging:
                heappush(starts, at)
            else:
                heappush(others, (self._aim[instruction], at))

        for instruction in self._given:
            if not waiting[instruction]:
                add(instruction)
        while starts or others or ends:
            if starts and (open_ < under_way or not (others or ends)):
                at = heappop(starts)
            elif ends and (ends[0][0] <= clock or not others):
                _, at = heappop(ends)
            else:
                _, at = heappop(others)
            instruction = self._given[at]
            start = _started_by(instruction)
            if start is not None and start in self._exchanging:
                clock, open_ = max(clock, over[start]), open_ - 1
            clock += self._computing.get(instruction, 0.0)
            if instruction in self._exchanging:
                network = max(clock, network) + self._exchanging[instruction]
                over[instruction] = network
                if is_start(instruction) or instruction.opcode == "async-start":
                    open_ += 1
                else:
                    clock = network
            result.append(instruction)
            for follower in self._followers.get(instruction, ()):
                waiting[follower] -= 1
                if not waiting[follower]:
                    add(follower)
        return result


def _dependencies(
    order: Sequence[Instruction], stored: Owners
) -> tuple[dict[Instruction, int], dict[Instruction, list[Instruction]]]:
    """How many others each instruction waits for, and who waits for it.

    Exchanges keep their order among each other, so that devices meet in one order; what has other effects keeps it
    among all of them.
    """
    read = {i: dict.fromkeys([owner for operand in i.operands for owner in stored[operand]]) for i in order}
    waiting, followers = dependencies(order, stored, read)
    pure: dict[Computation, bool] = {}
    exchange: Instruction | None = None
    effect: Instruction | None = None
    for instruction in order:
        ahead: list[Instruction | None] = []
        if is_exchange(instruction) or instruction.opcode == "async-start":
            ahead, exchange = [exchange], instruction
        elif _started_by(instruction) is None and instruction.opcode not in _NUMBERS and not is_pure(instruction, pure):
            ahead, effect, exchange = [exchange, effect], instruction, instruction
        for before in dict.fromkeys(ahead):
            if before is not None and instruction not in followers.get(before, ()):
                followers.setdefault(before, []).append(instruction)
                waiting[instruction] += 1
    return waiting, followers
