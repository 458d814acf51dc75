"""A time line: when a device computes and when it exchanges, by the roofline and a model of the network.

All devices run the same program, so one time line stands for all of them; an exchange takes as long as its slowest
group.  A device has two streams.  Kernels run on one in program order, each as long as the roofline says
(`analysis.roofline`) and `launch` more; exchanges run on the other, one after the other.  A collective that is no
asynchronous pair holds the first stream up until it is done; of a pair only ``done`` waits, for what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.exchanges import Exchange, Exchanges, is_exchange
from hlotool.analysis.roofline import Roof, operations
from hlotool.ir import Computation, Instruction
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.opcodes import CALLING
from hlotool.lazy_dataclass import dataclass

__all__ = ["Chip", "Event", "Kernels", "Timeline", "is_start", "kernel_seconds", "order_seconds", "simulate"]

_MOST_EVENTS = 20_000
_MOST_STEPS = 50_000  # and eight times as many as the module has
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A device: operations and bytes of memory per second, bytes that its memory has, seconds to launch a kernel."""

    flops: float
    bandwidth: float
    memory: int
    launch: float = 0.0


Kernels = Mapping[Instruction, float]
"""Seconds of a run of each kernel, where more is known of a device than a roofline; other instructions take none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What runs on a stream (``compute``, ``network`` or, of the first one, ``wait``) from `start` to `end`."""

    name: str
    opcode: str
    stream: str
    start: float
    end: float


@dataclass(slots=True, kw_only=True)
class Timeline:
    """One run: `seconds` in all, those on either stream, and `exposed` ones in which the first waits for the second.

    `left_out` events are not listed, of `unknown` instructions the cost is missing, `loops` of unknown length count as
    one trip.
    """

    seconds: float = 0.0
    computing: float = 0.0
    exchanging: float = 0.0
    exposed: float = 0.0
    events: list[Event] = field(default_factory=list)
    left_out: int = 0
    unknown: int = 0
    loops: int = 0


def kernel_seconds(costs: ModuleCost, instruction: Instruction, chip: Chip | Kernels) -> float:
    """What the kernel of an instruction takes: itself, a fusion with all that it computes."""
    if not isinstance(chip, Chip):
        return chip.get(instruction, 0.0)
    cost = costs.of(instruction) if instruction.opcode == "fusion" else costs.own(instruction)
    if not operations(cost) and not cost.bytes:
        return 0.0
    return Roof(chip.flops, ((0, chip.bandwidth),)).seconds(cost, cost.bytes) + chip.launch


def is_start(instruction: Instruction) -> bool:
    """Whether it starts an exchange that another instruction waits for."""
    return is_exchange(instruction) and (instruction.opcode.endswith("-start") or instruction.opcode == "send")


def _is_end(instruction: Instruction) -> bool:
    return instruction.opcode.endswith("-done") and instruction.opcode != "copy-done"


def simulate(exchanges: Exchanges, costs: ModuleCost, chip: Chip | Kernels, *, events: bool = True) -> Timeline:
    """The time line of one run of a module on devices like `chip`, or on those that take so long for its kernels.

    UnsupportedError where exchanges are in calls nested too deeply, or the computations around them are called too
    often to be walked.
    """
    return _Device(exchanges, costs, chip, events).run()


class _Device:
    """Two clocks, and what has been started and not yet waited for."""

    def __init__(self, exchanges: Exchanges, costs: ModuleCost, chip: Chip | Kernels, events: bool) -> None:
        self._exchanges, self._costs, self._chip, self._events = exchanges, costs, chip, events
        self._line = Timeline(unknown=costs.total.unknown, loops=costs.total.loops)
        self._compute = self._network = 0.0
        self._pending: dict[Instruction, float] = {}
        self._steps, self._most = 0, _MOST_STEPS + 8 * exchanges.module.instruction_count()
        self._known: dict[Instruction, Exchange] = {}
        self._plain, deepest = _plain_seconds(costs, chip)
        if deepest > _DEEPEST:
            raise UnsupportedError(f"exchanges in {deepest} calls, one in the other: more than {_DEEPEST}")

    def run(self) -> Timeline:
        line = self._line
        self._walk(self._exchanges.module.entry)
        line.seconds = max(self._compute, self._network)
        return line

    def _walk(self, computation: Computation) -> None:
        whole = self._plain.get(computation)
        if whole is not None and computation is not self._exchanges.module.entry:
            self._work(computation.name, "call", whole)
            return
        self._steps += len(computation)
        if self._steps > self._most:
            raise UnsupportedError(f"a run has more than {self._most:,} steps around its exchanges")
        for instruction in computation:
            if instruction.opcode == "async-start" and any(map(is_exchange, instruction.called[0])):
                self._pending[instruction] = self._begin(instruction, self._inside(instruction))
            elif is_exchange(instruction):
                end = self._begin(instruction, [self._of(instruction)])
                if is_start(instruction):
                    self._pending[instruction] = end
                else:
                    self._wait(instruction, end)
            elif _is_end(instruction):
                self._end(instruction)
            elif instruction.opcode == "while" and self._exchanging(instruction):
                self._loop(instruction)
            elif instruction.opcode in CALLING and instruction.opcode != "fusion" and self._costs.runs(instruction):
                self._work(instruction.name, instruction.opcode, kernel_seconds(self._costs, instruction, self._chip))
                self._call(instruction)
            else:
                self._work(instruction.name, instruction.opcode, kernel_seconds(self._costs, instruction, self._chip))

    def _exchanging(self, instruction: Instruction) -> bool:
        return any(callee not in self._plain for callee, _ in self._costs.runs(instruction))

    def _inside(self, start: Instruction) -> list[Exchange]:
        return [self._of(i) for i in start.called[0] if is_exchange(i)]

    def _of(self, instruction: Instruction) -> Exchange:
        if instruction not in self._known:
            self._known[instruction] = self._exchanges.of(instruction)
        return self._known[instruction]

    def _call(self, instruction: Instruction) -> None:
        for callee, times in self._costs.runs(instruction):
            if callee in self._plain:
                self._work(instruction.name, instruction.opcode, times * self._plain[callee])
            else:
                self._walk(callee)

    def _loop(self, loop: Instruction) -> None:
        """Two trips are walked; those that follow take as long as the second one, which has all others' beside it."""
        trips = self._costs.trips(loop)
        count = 1 if trips is None else trips
        for _ in range(min(count, 2)):
            before = (self._compute, self._network, *_sums(self._line))
            for callee in (loop.attributes["condition"], loop.attributes["body"]):
                self._walk(callee)
        more = count - 2
        if more > 0:
            compute, network, computing, exchanging, exposed = before
            step, begin = self._compute - compute, self._compute
            behind = self._network - self._compute
            self._compute += more * step
            self._network = max(network, self._compute + behind)
            line = self._line
            line.computing += more * (line.computing - computing)
            line.exchanging += more * (line.exchanging - exchanging)
            line.exposed += more * (line.exposed - exposed)
            self._pending = {start: end + more * step for start, end in self._pending.items()}
            self._note(f"{loop.name}: {more} more trips", "while", "compute", begin, self._compute)
        self._walk(loop.attributes["condition"])

    # ---- streams

    def _work(self, name: str, opcode: str, seconds: float) -> None:
        if seconds > 0:
            self._note(name, opcode, "compute", self._compute, self._compute + seconds)
            self._compute += seconds
            self._line.computing += seconds

    def _begin(self, instruction: Instruction, exchanges: Sequence[Exchange]) -> float:
        """Put exchanges on the second stream; when they are done."""
        for exchange in exchanges:
            assert exchange.predicted is not None  # there is a network
            begin = max(self._compute, self._network)
            self._network = begin + exchange.predicted.seconds
            self._line.exchanging += exchange.predicted.seconds
            self._note(instruction.name, exchange.opcode, "network", begin, self._network)
        return self._network if exchanges else self._compute

    def _end(self, instruction: Instruction) -> None:
        """Wait for what an instruction ends; where that came through a loop's state, for all that was started."""
        source = instruction.operands[0]
        while source.opcode in ("async-update", "get-tuple-element", "opt-barrier", "tuple") and source.operands:
            source = source.operands[0]
        self._wait(instruction, self._pending.pop(source, self._network if _is_receive(instruction) else 0.0))

    def _wait(self, instruction: Instruction, end: float) -> None:
        if end > self._compute:
            self._note(instruction.name, instruction.opcode, "wait", self._compute, end)
            self._line.exposed += end - self._compute
            self._compute = end

    def _note(self, name: str, opcode: str, stream: str, start: float, end: float) -> None:
        if self._events and len(self._line.events) < _MOST_EVENTS:
            self._line.events.append(Event(name=name, opcode=opcode, stream=stream, start=start, end=end))
        else:
            self._line.left_out += 1


def _sums(line: Timeline) -> tuple[float, float, float]:
    return line.computing, line.exchanging, line.exposed


def _is_receive(instruction: Instruction) -> bool:
    return instruction.opcode == "recv-done" and not instruction.attributes.get("is_host_transfer")


def _plain_seconds(costs: ModuleCost, chip: Chip | Kernels) -> tuple[dict[Computation, float], int]:
    """Seconds of each computation in which nothing is exchanged, and how deep others are called in each other."""
    plain: dict[Computation, float] = {}
    depth: dict[Computation, int] = {}
    for computation in costs.module.callees_first():
        runs = [(callee, times) for i in computation if i.opcode != "fusion" for callee, times in costs.runs(i)]
        exchanging = [depth[callee] for callee, _ in runs if callee in depth]
        if exchanging or any(map(is_exchange, computation)):
            depth[computation] = 1 + max(exchanging, default=0)
            continue
        own = sum(kernel_seconds(costs, i, chip) for i in computation)
        plain[computation] = own + sum(times * plain[callee] for callee, times in runs if callee in plain)
    return plain, max(depth.values(), default=0)


def order_seconds(
    order: Sequence[Instruction], computing: Mapping[Instruction, float], exchanging: Mapping[Instruction, float],
    is_over: Callable[[Instruction], Instruction | None],
) -> float:
    """How long instructions of one computation take in `order`, given what each takes on either stream.

    `is_over` says which start an instruction waits for.
    """
    clock = network = 0.0
    ends: dict[Instruction, float] = {}
    for instruction in order:
        start = is_over(instruction)
        if start is not None:
            clock = max(clock, ends.get(start, 0.0))
        clock += computing.get(instruction, 0.0)
        taken = exchanging.get(instruction)
        if taken is not None:
            network = max(clock, network) + taken
            ends[instruction] = network
            if not (is_start(instruction) or instruction.opcode == "async-start"):
                clock = network
    return max(clock, network)
