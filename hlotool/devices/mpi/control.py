"""What ranks tell each other beside the program: that they are alive, that they failed, where they stand still.

A thread of each rank sends and takes small messages (JSON) on a communicator of its own.  Rank 0 hears from everyone in
every beat, and everyone hears from rank 0: who is silent for `SILENCE` beats is taken for dead, and at once where its
process, on the same host, is gone.  Beats are counted, not timed, so that nobody dies of a machine that stood still.

Every rank reports how far its devices are, and while none of them goes on, what each waits for.  Rank 0 says that the
devices wait in vain when that follows from what all said, and all say so again, unchanged, after it had heard from
everyone: at the moment in between, nobody was on its way.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hlotool.devices.mpi.library import mpi
from hlotool.lazy_dataclass import dataclass
from hlotool.system import processor_numbers

__all__ = ["Control", "Failure", "Standing", "Wait", "vain_waits"]

BEAT = 0.2
"""Seconds."""
SILENCE = 30
"""Beats."""
_GRACE = 1.0
"""Seconds after a failure in which a process may end by itself: its thread may be in code that never looks up."""
_LAST_LOOKS = 100
"""At messages of a rank whose process is gone."""
_BUSY = 0.0002
"""Seconds between two looks while a collective goes on in the background: MPI works only while it is called."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended the run: of which rank, and what is said of it."""

    rank: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A device in instruction `name` waits until `devices` have been at `place` so many `times`."""

    name: str
    place: str
    times: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far the devices of a rank are: a number that grows whenever one goes on; the waits of those that wait, by
    device; who has ended; and how often each device has been where.  `idle` if all wait or have ended."""

    progress: int
    idle: bool
    waits: Mapping[int, Wait]
    ended: tuple[int, ...]
    been: Mapping[tuple[int, str], int]


def vain_waits(standings: Sequence[Standing]) -> str:
    """What is to be said if no device of any rank can go on; empty if one may."""
    if not all(standing.idle for standing in standings):
        return ""
    been = {key: times for standing in standings for key, times in standing.been.items()}
    waits = sorted(((device, wait) for one in standings for device, wait in one.waits.items()), key=lambda row: row[0])
    ranks = {device: rank for rank, standing in enumerate(standings) for device in standing.waits}
    ended = sorted(device for standing in standings for device in standing.ended)
    said = []
    for device, wait in waits:
        missing = [other for other in wait.devices if been.get((other, wait.place), 0) < wait.times]
        if not missing:
            return ""
        plural = "" if len(missing) == 1 else "s"
        at = f"device {device} (rank {ranks[device]})"
        said.append(f"{at} waits in {wait.name} for device{plural} {', '.join(map(str, missing))}")
    if not waits:
        return ""
    said += [f"device {device} has ended" for device in ended]
    return f"{waits[0][1].name}: the devices wait in vain: {', '.join(said)}"


class Control:
    """The messages of one rank, from now on until `close`.  All ranks of `comm` make one at the same time."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self.rank: int = comm.rank
        self.size: int = comm.size
        own = socket.gethostname(), os.getpid(), processor_numbers()
        self._hosts: list[tuple[str, int, frozenset[int]]] = self._comm.allgather(own)
        self.failure: Failure | None = None
        self.alarm = np.zeros(1, np.int64)  # 1 after a failure, for native code
        self.runs = 0  # that ended here
        self.agreed = 0  # how many things that all ranks do beside their runs ended here
        self.left: dict[int, int] = {}  # the ranks that said that they end, and `agreed` of each
        self.changed: Callable[[], None] = lambda: None  # is called when there is a failure
        self.last_resort: Callable[[], None] | None = None  # ends a process that does not end by itself after a failure
        self.standing: Callable[[], Standing | None] = lambda: None  # None while nothing runs
        self.in_background: Callable[[], bool] = lambda: False
        self._lock = threading.Lock()
        self._beat, self._heard = 0, dict.fromkeys(range(self.size), 0)
        self._round, self._echo = 0, 0
        self._reports: dict[int, tuple[int, Standing | None]] = {}  # of rank: (round that it knew of, what it said)
        self._suspects: tuple[int, str, tuple[int, ...]] | None = None  # (round, what to say, progress of all)
        self._sent: list[tuple[Any, bytes]] = []
        self._gone: set[int] = set()
        self._said = threading.Event()
        self._closing = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    # ---- what others call

    @property
    def hosts(self) -> int:
        """How many hosts the ranks are on."""
        return len({host for host, _, _ in self._hosts})

    @property
    def has_processor(self) -> bool:
        """Whether the ranks of this host have one each."""
        host = self._hosts[self.rank][0]
        here = [processors for name, _, processors in self._hosts if name == host]
        return len(here) <= len(frozenset().union(*here))

    def fail(self, text: str) -> Failure:
        """This rank failed: everyone is told, unless there was a failure before, which is given then."""
        return self._failed(Failure(self.rank, text), tell=True)

    def wake(self) -> None:
        """Something goes on in the background from now on."""
        self._woken.set()

    @property
    def speaker(self) -> int:
        """The rank that says what happened: the lowest one that lives."""
        return min(set(range(self.size)) - self._gone)

    def said(self) -> None:
        """What happened was said: the others may end."""
        for rank in range(self.size):
            if rank != self.rank:
                self._send(rank, {"said": True})
        self._closing.wait(0.1)

    def wait_until_said(self, seconds: float) -> bool:
        """Whether it was said by then: the one that should say it may have ended with all its work done."""
        return self._said.wait(seconds)

    def close(self) -> None:
        """Tell the others that nothing will come any more, and end the thread."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._woken.set()
        self._thread.join(5)
        for rank in range(self.size):
            if rank != self.rank and rank not in self._gone:
                self._send(rank, {"left": [self.runs, self.agreed]})

    # ---- the thread

    def _work(self) -> None:
        due, failed = 0.0, 0.0
        while not self._closing.is_set():
            busy = self.in_background() and self.failure is None
            step = _BUSY if busy else BEAT
            if self._woken.wait(step):
                self._woken.clear()
            due += step
            failed += step if self.failure is not None else 0.0
            if failed > _GRACE and self.last_resort is not None:
                self.last_resort()
            try:
                self._take()
                if due >= BEAT:
                    due = 0.0
                    self._beats()
            except mpi().Exception as error:
                if self._closing.is_set():
                    return
                self._failed(Failure(self.rank, f"rank {self.rank}: MPI failed: {error}"), tell=False)
                return

    def _take(self) -> None:
        status = mpi().Status()
        while True:
            message = self._comm.Improbe(status=status)
            if message is None:
                return
            data, source = bytearray(status.Get_count(mpi().BYTE)), status.Get_source()
            message.Recv([data, mpi().BYTE])
            self._heard[source] = self._beat
            self._understand(source, json.loads(data))

    def _understand(self, source: int, message: dict[str, Any]) -> None:
        if "failed" in message:
            rank, text = message["failed"]
            self._gone |= set(message["gone"])
            self._failed(Failure(rank, text), tell=False)
        if "said" in message:
            self._said.set()
        if "left" in message:
            runs, self.left[source] = message["left"]
            self._gone.add(source)
            if self.standing() is not None and runs <= self.runs:
                self.fail(f"rank {source} has ended although the program still runs")
        if "round" in message:
            self._echo = message["round"]
        if "echo" in message:
            self._reports[source] = message["echo"], _read(message["standing"])

    def _beats(self) -> None:
        self._beat += 1
        self._sent = [(request, data) for request, data in self._sent if not request.Test()]
        found = self.standing()
        if self.rank == 0:
            self._reports[0] = self._round, found
            self._judge()
            for rank in range(1, self.size):
                self._send(rank, {"round": self._round})
        else:
            self._send(0, {"echo": self._echo, "standing": _written(found)})
        self.look()

    def look(self) -> None:
        """See who has died; after a failure ranks end, which says nothing."""
        for rank, (host, process, _) in enumerate(self._hosts):
            if rank == self.rank or rank in self._gone or self.failure is not None:
                continue
            heard = rank == 0 or self.rank == 0
            if host == self._hosts[self.rank][0] and not _is_alive(process):
                self._lost(rank, f"its process {process} on {host} is gone")
            elif heard and host != self._hosts[self.rank][0] and self._beat - self._heard[rank] > SILENCE:
                self._lost(rank, f"nothing was heard from it for {SILENCE * BEAT:g} s")

    def _lost(self, rank: int, why: str) -> None:
        for _ in range(_LAST_LOOKS):  # it may have said why before it ended, and MPI hands that over bit by bit
            self._take()
            if rank in self._gone or self.failure is not None:
                return
            time.sleep(_BUSY)
        self._gone.add(rank)
        standing = self.standing()
        for _ in range(_LAST_LOOKS):  # native code does not say at once where it waits
            if standing is None or standing.idle:
                break
            time.sleep(_GRACE / _LAST_LOOKS)
            standing = self.standing()
        if standing is not None:
            waits = sorted((standing.waits if standing else {}).items())
            where = f"; rank {self.rank} waits in {waits[0][1].name}" if waits else ""
            self.fail(f"rank {rank} has died: {why}{where}")

    def _judge(self) -> None:
        """At rank 0: whether anybody can go on."""
        found = [self._reports.get(rank, (0, None)) for rank in range(self.size)]
        standings = [standing for _, standing in found if standing is not None]
        if len(standings) < self.size or self.failure is not None:
            self._suspects = None
            return
        text = vain_waits(standings)
        progress = tuple(standing.progress for standing in standings)
        if not text:
            self._suspects = None
        elif self._suspects is None or self._suspects[1:] != (text, progress):
            self._round += 1
            self._suspects = self._round, text, progress
        elif all(known >= self._suspects[0] for known, _ in found):
            self.fail(text)

    def _failed(self, failure: Failure, tell: bool) -> Failure:
        with self._lock:
            if self.failure is not None:
                return self.failure
            self.failure = failure
            self.alarm[0] = 1
        if tell:
            for rank in range(self.size):
                if rank != self.rank and rank not in self._gone:
                    self._send(rank, {"failed": [failure.rank, failure.text], "gone": sorted(self._gone)})
        self.changed()
        return failure

    def _send(self, rank: int, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        self._sent.append((self._comm.Isend([data, mpi().BYTE], rank), data))


def _is_alive(process: int) -> bool:
    """Whether a process of this host still runs; one that has ended and that nobody has asked about does not."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return not os.path.exists("/proc/self/stat")  # without such files only its silence tells
    except OSError:
        return True


def _written(standing: Standing | None) -> Any:
    if standing is None:
        return None
    waits = {
        str(device): [wait.name, wait.place, wait.times, list(wait.devices)] for device, wait in standing.waits.items()
    }
    been = [[device, place, times] for (device, place), times in standing.been.items()]
    return [standing.progress, standing.idle, waits, list(standing.ended), been]


def _read(found: Any) -> Standing | None:
    if found is None:
        return None
    progress, idle, waits, ended, been = found
    return Standing(
        progress=progress,
        idle=idle,
        waits={
            int(device): Wait(name=name, place=place, times=times, devices=tuple(devices))
            for device, (name, place, times, devices) in waits.items()
        },
        ended=tuple(ended),
        been={(device, place): times for device, place, times in been},
    )
