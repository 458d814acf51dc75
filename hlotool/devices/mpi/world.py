"""A run whose devices are threads of several processes."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

import numpy as np

from hlotool.devices.mpi.control import Control, Standing, Wait
from hlotool.devices.mpi.exchange import Job, Steps, exchange, peers, placed
from hlotool.devices.mpi.groups import Groups
from hlotool.devices.mpi.library import mpi
from hlotool.devices.mpi.repeated import Repeated, repeated
from hlotool.evaluate.devices import CarryOut, Device, Rendezvous, Shortcut, World, rendezvous_key
from hlotool.evaluate.feeds import Feeds
from hlotool.evaluate.values import AnyArray, Operands, Value, copied, leaves_of, value_from_leaves
from hlotool.ir import ExecutionError, Instruction, Shape, dtype_of
from hlotool.ir.devices import Topology, device_groups
from hlotool.lazy_dataclass import dataclass

__all__ = ["MpiWorld"]

Result = TypeVar("Result")

_TAGS = 64
"""Runs whose messages have tags of their own."""

_SPINS = 200
"""Looks at a request before others may have the processor, where there are enough of them for all ranks."""

_FEW_SPINS = 2
"""The same where there are not."""

_EAGER = 0.1
"""Seconds in which whoever waits sleeps only where others want the processor: MPI works only while it is called."""

_give_way: Callable[[], object] = getattr(os, "sched_yield", lambda: time.sleep(0))


@dataclass(slots=True)
class _Table:
    """A rendezvous at which devices of this rank arrive; the last of them starts it, and one of them carries it out."""

    here: tuple[int, ...]
    values: dict[int, list[AnyArray]] = field(default_factory=dict)
    results: dict[int, list[AnyArray]] = field(default_factory=dict)
    steps: Steps | None = None
    requests: list[Any] | None = None
    begun: bool = False
    over: bool = False
    error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class MpiWorld(World):
    """The devices of one run of a program, those `here` of them.

    It is the run with this `number`.  `groups` are its rendezvous, `mail` is the communicator of messages between
    devices, and `control` what ranks tell each other beside that.  With `fast` reductions may take another order than
    that of the devices.  `known` is for what it learns about instructions, and later runs want to know.
    """

    def __init__(
        self, *, topology: Topology, here: Sequence[int], homes: Sequence[int], groups: Groups, mail: Any,
        control: Control, own: Callable[[str, str], Any], fast: bool, feeds: Feeds | None, seconds: float | None,
        number: int, known: dict[Instruction, Repeated | None],
    ) -> None:  # fmt: skip
        super().__init__(topology, here, feeds, seconds)
        self._homes, self._groups, self._mail, self._control = homes, groups, mail, control
        self._own, self._fast, self._known = own, fast, known
        self._spins = _SPINS if control.has_processor else _FEW_SPINS
        self._tables: dict[Hashable, _Table] = {}
        self._counters: dict[str, AnyArray] = {}  # how often the device was where native code takes it
        self._prepared: set[Repeated] = set()
        self._shortcuts: list[Shortcut] = []
        self._started: dict[tuple[int, Instruction], deque[tuple[_Table, Wait]]] = {}
        self._waits: dict[int, Wait] = {}
        self._been: Counter[tuple[int, str]] = Counter()
        self._taken: Counter[int] = Counter()
        self._ended: set[int] = set()
        self._posted: list[tuple[Any, AnyArray]] = []
        self._progress = number << 32  # more than in any earlier run
        self._tag = number % _TAGS * max(1, len(groups.tags))  # what nobody took is not for a later run

    def run(self, work: Callable[[Device], Result], until_ended: bool = False) -> list[Result]:
        """What `work` gives on the devices that are here, once all ranks have ended; ExecutionError, which names the
        rank, where one of them failed."""
        control = self._control
        control.changed, control.standing, control.in_background = self._wake, self.standing, self._in_background
        try:
            results = super().run(work, until_ended)
            self.wait([self._mail.Ibarrier()], "the end of the run")
            control.runs += 1
        except ExecutionError as error:
            raise ExecutionError(self.failed(error)) from error
        except mpi().Exception as error:
            raise ExecutionError(self.failed(error)) from error
        except BaseException as error:
            control.fail(f"rank {control.rank}: {type(error).__name__}: {error}")
            raise
        finally:
            control.changed, control.in_background = (lambda: None), (lambda: False)
            for shortcut in self._shortcuts:
                shortcut.record = 0
            if control.failure is None:
                control.standing = lambda: None
        return results

    def failed(self, error: BaseException) -> str:
        """Tell the others that this rank failed; what is to be said, which may be of another rank that failed first."""
        return self._control.fail(_named(self._control.rank, error)).text

    @property
    def is_timed(self) -> bool:
        return True

    def check(self, name: str) -> None:
        failure = self._control.failure
        if failure is not None:
            raise ExecutionError(failure.text)
        super().check(name)

    def ended(self, device: int, error: BaseException | None) -> None:
        if error is not None:
            self.failed(error)
        with self._changed:
            self._ended.add(device)
            self._progress += 1

    # ---- rendezvous

    def meet(self, device: int, rendezvous: Rendezvous, value: Operands, into: Sequence[AnyArray] | None) -> Value:
        group = self._groups.rendezvous[rendezvous.key]  # of all collectives of the module, before it ran
        members = group.members
        here = tuple(members[position] for position in group.here)
        shape = _result_shape(rendezvous.instruction)
        started = rendezvous.started and shape.is_static
        if into is None and shape.is_static:
            into = [np.empty(leaf.dimensions, dtype_of(leaf.element_type)) for leaf in shape.leaves() if leaf.is_array]
        if started:
            value = copied(value)  # its memory may be used for other things from now on
        place = group.name
        with self._changed:
            table = self._tables.setdefault(rendezvous.key, _Table(here))
            table.values[device] = [np.asarray(leaf, order="C") for leaf in leaves_of(tuple(value))]
            table.results[device] = list(into or ())
            self._been[device, place] += 1
            self._progress += 1
            wait = Wait(
                name=rendezvous.name, place=place, times=self._times(device, place),
                devices=peers(rendezvous.instruction, self.topology, group),
            )  # fmt: skip
            last = len(table.values) == len(here)
            if last:
                del self._tables[rendezvous.key]
        if last:
            self._begin(table, rendezvous)
        if started:
            self._started.setdefault((device, rendezvous.instruction), deque()).append((table, wait))
            self._control.wake()
        else:
            self._complete(device, table, wait)
        return value_from_leaves(shape, iter(table.results[device]))

    def meet_at(
        self, device: int, instruction: Instruction, table: int, shortcut: Shortcut, carry_out: CarryOut
    ) -> bool:
        try:
            found = self._known[instruction]
        except KeyError:
            found = self._known[instruction] = self._repeated(device, instruction)
        if found is None:
            return False
        if found not in self._prepared:
            self._prepared.add(found)
            with self._changed:
                counter = self._counters.setdefault(found.place, np.zeros(1, np.int64))
            found.running.prepare(counter, lambda _: self._attend(device, found))
        if found.stands_alone:
            self._shortcuts.append(shortcut)
            shortcut.record = found.running.record
        found(table)
        return True

    def _attend(self, device: int, repeated: Repeated) -> None:
        """Native code has waited for a while, or looks whether to go on."""
        repeated.running.check()
        self.check(repeated.name)
        if repeated.running.going:
            times = self._times(device, repeated.place)
            wait = Wait(name=repeated.name, place=repeated.place, times=times, devices=repeated.peers)
            with self._waiting(device, wait):
                self._until(repeated.running.look, repeated.name, 0)  # it did that

    def _times(self, device: int, place: str) -> int:
        """How often a device has been somewhere."""
        counter = self._counters.get(place)
        return self._been[device, place] + (0 if counter is None else int(counter[0]))

    def _repeated(self, device: int, instruction: Instruction) -> Repeated | None:
        if len(self._homes) > self._control.size:  # whoever has several devices brings them together first
            return None
        members = next((group for group in device_groups(instruction, self.topology) if device in group), ())
        group = self._groups.rendezvous.get(rendezvous_key(instruction, members))
        if group is None:
            return None
        fast = self._fast and self._control.hosts > 1  # on one host MPI's own ways take longer
        return repeated(instruction, self.topology, group, fast, self._own, self._control.alarm, self._spins)

    def finish(self, device: int, start: Instruction) -> None:
        going = self._started.get((device, start))
        if going:
            self._complete(device, *going.popleft())

    def _begin(self, table: _Table, rendezvous: Rendezvous) -> None:
        """All devices of this rank are there: communication starts."""
        group = self._groups.rendezvous[rendezvous.key]
        shapes = [operand.shape for operand in rendezvous.instruction.operands]
        try:
            if group.comm is None:
                values = []
                for member in group.members:
                    leaves = iter(table.values[member])
                    values.append(tuple(value_from_leaves(shape, leaves) for shape in shapes))
                self._among_threads(table, rendezvous, values)
            else:
                job = Job(
                    rendezvous=rendezvous, group=group, topology=self.topology,
                    operands={n: table.values[group.members[n]] for n in group.here},
                    results={n: table.results[group.members[n]] for n in group.here},
                    fast=self._fast, own=self._own,
                )  # fmt: skip
                table.steps = exchange(job)
                table.requests = next(table.steps, None)
                table.over = table.requests is None
        except BaseException as error:  # all of them fail
            table.error = error
        with self._changed:
            table.begun = True
            self._changed.notify_all()

    def _among_threads(self, table: _Table, rendezvous: Rendezvous, values: Sequence[Operands]) -> None:
        """A rendezvous of devices that are all here."""
        results = rendezvous.combine(values)
        for member, result in zip(rendezvous.members, results, strict=True):
            placed(result, table.results[member])
        table.over = True

    def _complete(self, device: int, table: _Table, wait: Wait) -> None:
        """Wait until a rendezvous is over, and work on it where nobody else does."""
        with self._waiting(device, wait):
            with self._changed:
                while not table.begun:
                    self.check(wait.name)
                    self._changed.wait(self._left())
            while not table.over and table.error is None:
                if table.lock.acquire(timeout=0.05):
                    try:
                        self._carry_out(table, wait.name)
                    finally:
                        table.lock.release()
                else:
                    self.check(wait.name)
        if table.error is not None:
            raise table.error

    def _carry_out(self, table: _Table, name: str) -> None:
        try:
            while not table.over:
                assert table.steps is not None
                self.wait(table.requests or [], name)
                table.requests = next(table.steps, None)
                table.over = table.requests is None
        except BaseException as error:
            table.error = error
            raise

    # ---- messages

    def _tag_of(self, instruction: Instruction, source: int, target: int) -> int:
        return self._tag + self._groups.tags[instruction.attributes.get("channel_id", 0), source, target]

    def post(self, instruction: Instruction, source: int, target: int, value: Value) -> None:
        tag = self._tag_of(instruction, source, target)
        for leaf in leaves_of(copied(value)):
            request = self._mail.Isend([leaf.reshape(-1).view(np.uint8), mpi().BYTE], self._homes[target], tag)
            self._posted.append((request, leaf))
        with self._changed:
            self._been[source, f"message {tag}"] += 1
            self._progress += 1
            self._posted = [(request, leaf) for request, leaf in self._posted if not request.Test()]

    def collect(self, instruction: Instruction, source: int, target: int, name: str) -> Value:
        tag = self._tag_of(instruction, source, target)
        shape = instruction.shape.elements[0]
        leaves = [np.empty(leaf.dimensions, dtype_of(leaf.element_type)) for leaf in shape.leaves() if leaf.is_array]
        requests = [
            self._mail.Irecv([leaf.reshape(-1).view(np.uint8), mpi().BYTE], self._homes[source], tag) for leaf in leaves
        ]
        with self._changed:
            self._taken[tag] += 1
            wait = Wait(name=name, place=f"message {tag}", times=self._taken[tag], devices=(source,))
        with self._waiting(target, wait):
            self.wait(requests, name)
        return value_from_leaves(shape, iter(leaves))

    # ---- waiting

    def wait(self, requests: list[Any], name: str) -> None:
        """Until all `requests` are complete; ExecutionError when another rank failed or the time is over."""
        self._until(lambda: bool(mpi().Request.Testall(requests)), name, self._spins)

    def _until(self, done: Callable[[], bool], name: str, spins: int) -> None:
        looks = 0
        begin = time.monotonic()
        while not done():
            looks += 1
            if looks < spins:
                continue
            self.check(name)
            if time.monotonic() - begin < _EAGER:
                _give_way()
            else:
                time.sleep(0.001)

    @property
    def untaken(self) -> list[tuple[Any, AnyArray]]:
        """Messages that nobody took: they stay where they are for as long as MPI may look at them."""
        return self._posted

    def standing(self) -> Standing:
        """For the other ranks: how far the devices here are."""
        with self._changed:
            idle = len(self._waits) + len(self._ended) == len(self.here)
            counted = {(device, place): self._times(device, place) for device in self.here for place in self._counters}
            return Standing(
                progress=self._progress + sum(int(counter[0]) for counter in self._counters.values()),
                idle=idle,
                waits=dict(self._waits) if idle else {},
                ended=tuple(sorted(self._ended)),
                been={**self._been, **counted} if idle else {},
            )

    @contextmanager
    def _waiting(self, device: int, wait: Wait) -> Iterator[None]:
        with self._changed:
            self._waits[device] = wait
        try:
            yield
        finally:
            with self._changed:
                del self._waits[device]
                self._progress += 1

    def _in_background(self) -> bool:
        return any(self._started.values())

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())


def _result_shape(instruction: Instruction) -> Shape:
    started = instruction.opcode.endswith("-start") and instruction.opcode != "all-reduce-start"
    return instruction.shape.elements[1] if started else instruction.shape


def _named(rank: int, error: BaseException) -> str:
    text = str(error) if isinstance(error, ExecutionError) else f"{type(error).__name__}: {error}"
    return text if text.startswith("rank ") else f"rank {rank}: {text}"
