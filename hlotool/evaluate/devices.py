"""Several devices that run one program: where they meet, wait for each other, and exchange arrays.

Every device has a thread of its own (a lone one runs in the caller's), unless native code has them as coroutines
(`hlotool.runtime.coroutines`).  A collective is a rendezvous of devices of a `World`, of which there are two kinds:
all devices are threads of this process (`ThreadWorld`), or threads of several processes (`hlotool.devices.mpi`).  In a
`ThreadWorld` the devices leave their operands, the last one computes the results of all in the order of the group, so
that results depend neither on timing nor on who was last.  When every device waits and nobody can go on, all of them
fail: a run never hangs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeAlias, TypeVar

from hlotool.evaluate.feeds import Feeds
from hlotool.evaluate.values import AnyArray, Operands, Value, copied
from hlotool.ir import ExecutionError, Instruction
from hlotool.ir.devices import Topology, device_groups, device_pairs, is_started
from hlotool.lazy_dataclass import dataclass

__all__ = ["CarryOut", "Combine", "Device", "Fold", "Rendezvous", "Shortcut", "ThreadWorld", "World", "rendezvous_key"]

Result = TypeVar("Result")
Combine = Callable[[Sequence[Operands]], Sequence[Value]]
"""Operands of the members of a group, in order, to the result of each."""

Fold = Callable[[int, Sequence[AnyArray]], AnyArray]
"""(number of an operand, equal parts of it from each member, in order) to what a reduction makes of that part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """A collective that a group of devices carries out together.

    `combine` says what it means.  Who has not all operands in one place may do with less: the `fold` of a reduction.
    What meets has equal `key`.  The results of one that is `started` are not read before `World.finish`.
    """

    instruction: Instruction
    members: tuple[int, ...]
    key: Hashable
    combine: Combine
    fold: Fold | None = None
    started: bool = False

    @property
    def name(self) -> str:
        return self.instruction.name


def rendezvous_key(instruction: Instruction, members: Sequence[int]) -> Hashable:
    """Equal channels meet, and where there is none, what was one instruction in the source."""
    channel = instruction.attributes.get("channel_id")
    origin = instruction.origins[0] if instruction.origins else instruction.name
    shapes = tuple(str(operand.shape) for operand in instruction.operands)
    return (instruction.opcode, origin if channel is None else channel, shapes, tuple(members))


class Shortcut(Protocol):
    """A call of Python by native code, in the place of which the C function of a `record` may be called (0: of none),
    as `hlotool.runtime.callback` describes."""

    record: int


CarryOut: TypeAlias = "Callable[[Instruction, World, Sequence[int], Sequence[int]], None]"
"""(collective, world, members of a group, their tables of addresses): reads operands, writes results."""


def _is_plain(instruction: Instruction) -> bool:
    """Whether a collective takes and gives nothing but arrays of fixed sizes, and ends where it begins."""
    shape = instruction.shape
    results = shape.elements if shape.is_tuple else (shape,)
    arrays = [*(operand.shape for operand in instruction.operands), *results]
    return not instruction.opcode.endswith("-start") and all(one.is_array and one.is_static for one in arrays)


class _StuckError(ExecutionError):
    """Devices wait for each other; not the first thing that went wrong where another device failed."""


@dataclass(slots=True)
class _Table:
    """What devices left and took at one collective."""

    values: dict[int, Any] = field(default_factory=dict)
    complete: bool = False
    results: dict[int, Any] | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Wait:
    """Where a device stands still: until `ready`, in instruction `name`."""

    ready: Callable[[], bool]
    name: str
    why: Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Request:
    """A recv that was started: from device `source`, from the host, or from nobody (None)."""

    instruction: Instruction
    source: int | None


class World:
    """The devices of one run, and what they share: the part that all kinds have in common.

    `here` are the numbers of the devices that are threads of this process; `feeds` are the queues of infeed, outfeed
    and host transfers; the run may take `seconds` from now on.
    """

    def __init__(self, topology: Topology, here: Sequence[int], feeds: Feeds | None, seconds: float | None) -> None:
        self.topology = topology
        self.here = tuple(here)
        self.feeds = feeds or Feeds()
        self.seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._changed = threading.Condition()
        self._at_work = 0

    def meet(self, device: int, rendezvous: Rendezvous, value: Operands, into: Sequence[AnyArray] | None) -> Value:
        """The result of `device` from a rendezvous.

        Where `into` has an array for each leaf of the result, the result may be written there, and be these very
        arrays; else nobody writes to its arrays again.  Nobody writes to those of `value` before it returns.
        """
        raise NotImplementedError

    def meet_at(
        self, device: int, instruction: Instruction, table: int, shortcut: Shortcut, carry_out: CarryOut
    ) -> bool:
        """Carry out a collective on dense arrays in memory: their addresses, first those of operands and then those of
        results, are in the table at this address.  False where this world cannot, and did nothing.  `carry_out` does it
        for devices that are all in this process.

        Where native code can do it from now on, this world makes that the `record` of the shortcut, until the run ends.
        """
        return False

    def finish(self, device: int, start: Instruction) -> None:
        """Wait for the results of a rendezvous that was started."""
        raise NotImplementedError

    def post(self, instruction: Instruction, source: int, target: int, value: Value) -> None:
        """Send `value` from one device to another."""
        raise NotImplementedError

    def collect(self, instruction: Instruction, source: int, target: int, name: str) -> Value:
        """What `source` sent to `target`, in order of sending; waits for it in instruction `name`."""
        raise NotImplementedError

    def ended(self, device: int, error: BaseException | None) -> None:
        """`device` has nothing more to do, or failed."""
        raise NotImplementedError

    def run(self, work: Callable[[Device], Result], until_ended: bool = False) -> list[Result]:
        """What `work` gives on every device that is here, each in a thread of its own.

        Where devices fail, the error is that of the lowest one which did not merely wait for others.  Ctrl-C ends the
        call, and soon the devices; it does not return before they are at an end if `until_ended`, for those whose
        arrays go away then.
        """
        devices = [Device(self, number) for number in self.here]
        if len(devices) == 1:
            return [self._alone(devices[0], work)]
        results: dict[int, Result] = {}
        errors: dict[int, BaseException] = {}

        def body(device: Device) -> None:
            with self._changed:
                if self._deadline == 0.0:  # interrupted before it began
                    return
                self._at_work += 1
            try:
                results[device.number] = work(device)
            except BaseException as error:  # it is raised again in the caller's thread
                errors[device.number] = error
            self.ended(device.number, errors.get(device.number))
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

        threads = [threading.Thread(target=body, args=(device,), daemon=True) for device in devices]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as error:  # interrupted: let the devices end at their next step
            with self._changed:
                self._deadline = 0.0
                self._changed.notify_all()
            if isinstance(error, RuntimeError):
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
                raise ExecutionError(f"the threads of {len(devices)} devices cannot be started: {error}") from error
            if until_ended:
                self._wait_for_all()
            raise
        if errors:
            raise errors[min(errors, key=lambda number: (isinstance(errors[number], _StuckError), number))]
        return [results[device.number] for device in devices]

    def _wait_for_all(self) -> None:
        """Until no device is at work, whatever comes."""
        while True:
            try:
                with self._changed:
                    self._changed.wait_for(lambda: not self._at_work)
                return
            except KeyboardInterrupt:
                continue

    def _alone(self, device: Device, work: Callable[[Device], Result]) -> Result:
        try:
            result = work(device)
        except BaseException as error:
            self.ended(device.number, error)
            raise
        self.ended(device.number, None)
        return result

    @property
    def is_timed(self) -> bool:
        """Whether steps have to `check` the time: there is a limit, or a thread that can be interrupted."""
        return self._deadline is not None or self.topology.devices > 1

    def check(self, name: str) -> None:
        """Raise ExecutionError, which names the instruction to come, when the time is over."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            why = "interrupted" if self.seconds is None else f"stopped: the time limit of {self.seconds:g} s is over"
            raise ExecutionError(f"{name}: {why}")


class ThreadWorld(World):
    """All devices are threads of this process."""

    def __init__(
        self, topology: Topology | None = None, feeds: Feeds | None = None, seconds: float | None = None
    ) -> None:
        topology = topology or Topology()
        super().__init__(topology, range(topology.devices), feeds, seconds)
        self._tables: dict[Hashable, _Table] = {}
        self._groups: dict[Instruction, tuple[tuple[int, ...], ...]] = {}
        self._mail: dict[tuple[int, int, int], deque[Value]] = {}
        self._waiting: dict[int, _Wait] = {}
        self._ended: set[int] = set()
        self._stuck = ""

    def meet(self, device: int, rendezvous: Rendezvous, value: Operands, into: Sequence[AnyArray] | None) -> Value:
        if into is not None:  # others may read them when this one has gone on and used their memory again
            value = copied(value)
        members, key, name = rendezvous.members, rendezvous.key, rendezvous.name
        found: Value = self._gathered(device, members, key, name, value, rendezvous.combine)
        return found

    def meet_at(
        self, device: int, instruction: Instruction, table: int, shortcut: Shortcut, carry_out: CarryOut
    ) -> bool:
        if instruction not in self._groups:
            plain = _is_plain(instruction)
            self._groups[instruction] = device_groups(instruction, self.topology) if plain else ()
        members = next((group for group in self._groups[instruction] if device in group), ())
        if not members or max(members) >= self.topology.devices:
            return False

        def combine(tables: Sequence[int]) -> Sequence[None]:
            carry_out(instruction, self, members, tables)
            return [None] * len(members)

        self._gathered(device, members, (instruction, members), instruction.name, table, combine)
        return True

    def _gathered(
        self, device: int, members: tuple[int, ...], key: Hashable, name: str, value: Any,
        combine: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Any:  # fmt: skip
        """What a device gets once all members have left their values: the last one combines them."""
        if len(members) == 1:
            return combine([value])[0]
        with self._changed:
            table = self._tables.setdefault(key, _Table())
            table.values[device] = value
            table.complete = complete = len(table.values) == len(members)
            if complete:
                del self._tables[key]
        if complete:
            try:
                found = combine([table.values[member] for member in members])
                table.results = dict(zip(members, found, strict=True))
            except BaseException as error:  # all of them fail
                table.error = error
            with self._changed:
                self._changed.notify_all()
        else:

            def missing() -> str:
                absent = [str(member) for member in members if member not in table.values]
                return f"for device{'' if len(absent) == 1 else 's'} {', '.join(absent)}"

            ready = lambda: table.results is not None or table.error is not None  # noqa: E731
            try:
                self._wait(device, _Wait(ready, name, missing))
            except BaseException:
                self._leave(table, device)
                raise
        if table.error is not None:
            raise table.error
        assert table.results is not None
        return table.results[device]

    def _leave(self, table: _Table, device: int) -> None:
        """Take back what a device left, whose memory goes away with it; if that is being read, wait for the end."""
        with self._changed:
            if table.complete:
                self._changed.wait_for(lambda: table.results is not None or table.error is not None)
            else:
                del table.values[device]

    def finish(self, device: int, start: Instruction) -> None:
        """Each rendezvous was over when it was started."""

    def post(self, instruction: Instruction, source: int, target: int, value: Value) -> None:
        with self._changed:
            self._mail.setdefault((_channel(instruction), source, target), deque()).append(copied(value))
            self._changed.notify_all()

    def collect(self, instruction: Instruction, source: int, target: int, name: str) -> Value:
        channel = _channel(instruction)
        with self._changed:
            box = self._mail.setdefault((channel, source, target), deque())
        self._wait(target, _Wait(lambda: bool(box), name, lambda: f"for device {source} to send on channel {channel}"))
        return box.popleft()

    def ended(self, device: int, error: BaseException | None) -> None:
        with self._changed:
            self._ended.add(device)
            self._look()

    def _wait(self, device: int, wait: _Wait) -> None:
        with self._changed:
            self._waiting[device] = wait
            try:
                while not wait.ready():
                    self._look()
                    if self._stuck:
                        raise _StuckError(self._stuck)
                    self.check(wait.name)
                    left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
                    self._changed.wait(left)
            finally:
                del self._waiting[device]

    def _look(self) -> None:
        """Whether somebody can go on; if not, everybody is told."""
        everyone = len(self._waiting) + len(self._ended) == self.topology.devices
        if self._stuck or not everyone or any(wait.ready() for wait in self._waiting.values()):
            return
        if self._waiting:
            waits = sorted(self._waiting.items())
            seen = [f"device {number} waits in {wait.name} {wait.why()}" for number, wait in waits]
            seen += [f"device {number} has ended" for number in sorted(self._ended)]
            self._stuck = f"{waits[0][1].name}: the devices wait in vain: {', '.join(seen)}"
            self._changed.notify_all()


class Device:
    """One device of a world, as its program sees it.  Used by one thread."""

    __slots__ = ("_requests", "_started", "into", "number", "world")

    def __init__(self, world: World, number: int = 0) -> None:
        self.world = world
        self.number = number
        self.into: Sequence[AnyArray] | None = None  # where the results of the collective to come may be written
        self._requests: dict[int, _Request] = {}
        self._started = 0

    @property
    def replica(self) -> int:
        return self.number // self.world.topology.partitions

    @property
    def partition(self) -> int:
        return self.number % self.world.topology.partitions

    def meet(
        self, instruction: Instruction, members: Sequence[int], value: Operands, combine: Combine, fold: Fold | None
    ) -> Value:
        """The result of this device where `members` execute a collective together."""
        rendezvous = Rendezvous(
            instruction=instruction, members=tuple(members), key=rendezvous_key(instruction, members), combine=combine,
            fold=fold, started=is_started(instruction),
        )  # fmt: skip
        return self.world.meet(self.number, rendezvous, value, self.into)

    def finish(self, done: Instruction) -> None:
        """Wait for a collective that was started, if it is still going on."""
        (start,) = done.operands
        if is_started(start):
            self.world.finish(self.number, start)

    def infeed(self, instruction: Instruction) -> Value:
        return self.world.feeds.take(instruction.name, instruction.shape.elements[0], self.number)

    def outfeed(self, value: Value) -> None:
        self.world.feeds.give(value, self.number)

    def send(self, instruction: Instruction, value: Value) -> None:
        """Start and end a send: messages wait at their receiver."""
        channel = instruction.attributes.get("channel_id", 0)
        if instruction.attributes.get("is_host_transfer"):
            self.world.feeds.give(value, self.number, channel)
            return
        for source, target in device_pairs(instruction, self.world.topology):
            if source == self.number:
                self.world.post(instruction, source, target, value)

    def start_receiving(self, instruction: Instruction) -> int:
        """A number by which `receive` knows this recv, from 1 on."""
        pairs = () if _is_host(instruction) else device_pairs(instruction, self.world.topology)
        source = next((source for source, target in pairs if target == self.number), None)
        self._started += 1
        self._requests[self._started] = _Request(instruction, source)
        return self._started

    def receive(self, name: str, number: int) -> Value | None:
        """What recv `number` was sent; None where no device sends to this one."""
        request = self._requests.pop(number, None)
        if request is None:
            raise ExecutionError(f"{name}: there is no recv to end: it was ended before, or never started")
        instruction = request.instruction
        channel = instruction.attributes.get("channel_id", 0)
        if _is_host(instruction):
            return self.world.feeds.take(name, instruction.shape.elements[0], self.number, channel)
        return None if request.source is None else self.world.collect(instruction, request.source, self.number, name)


def _is_host(instruction: Instruction) -> bool:
    return bool(instruction.attributes.get("is_host_transfer"))


def _channel(instruction: Instruction) -> int:
    channel: int = instruction.attributes.get("channel_id", 0)
    return channel
