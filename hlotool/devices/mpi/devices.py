"""Devices of a program that are spread over the processes of an MPI job."""

from __future__ import annotations

import atexit
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hlotool.devices.mpi.control import Control
from hlotool.devices.mpi.groups import Groups, groups_of, homes_of
from hlotool.devices.mpi.library import mpi
from hlotool.devices.mpi.repeated import Repeated
from hlotool.devices.mpi.types import operation_of
from hlotool.devices.mpi.world import MpiWorld
from hlotool.ir import ExecutionError, InputError, Instruction, Module, UnsupportedError
from hlotool.ir.given import kind_of
from hlotool.runtime.executable import Executable
from hlotool.text.fingerprint import content_hash
from hlotool.version import __version__

if TYPE_CHECKING:
    from hlotool.evaluate.feeds import Feeds

__all__ = ["MpiDevices"]

_TAKEN: list[Any] = []
"""Memory that MPI may still look at, of runs that failed and of messages that nobody took."""


class MpiDevices:
    """Devices on the ranks of an MPI communicator: ``hlotool.compile(module, devices=hlotool.MpiDevices(comm))``.

    All ranks of `comm` (default: ``COMM_WORLD``) make it, compile the same module with the same options, and call the
    executable, each in the same order.  A rank hosts a block of the devices, or those that `assignment`, the rank of
    each device, gives it; devices of one rank are threads.  An executable takes and gives the arrays of the devices of
    its rank, `here`: with one device the array, with several a leading dimension or the same array for all.

    Reductions go from the first device of a group to the last and give the same bits as devices in one process; with
    `fast` they take the order that MPI likes, which may depend on the number of ranks.

    UnsupportedError without mpi4py or threads in MPI; ExecutionError on all ranks, which names the rank and the
    instruction, when one of them fails, dies, waits in vain, or compiled something else.  After that the processes
    cannot go on together: what MPI has begun cannot be taken back.
    """

    def __init__(self, comm: Any = None, *, assignment: Sequence[int] | None = None, fast: bool = False) -> None:
        given = mpi().COMM_WORLD if comm is None else comm
        if not isinstance(given, mpi().Intracomm) or given == mpi().COMM_NULL:
            raise InputError(f"comm: expected an intra-communicator of mpi4py, not {kind_of(comm)}")
        self._comm = given.Dup()
        self._comm.Set_errhandler(mpi().ERRORS_RETURN)
        self._mail = self._comm.Dup()
        self._assignment, self._fast = assignment, fast
        self._operations: dict[tuple[str, str], Any] = {}
        self._runs = 0
        self.control = Control(self._comm)
        atexit.register(self.close)

    @property
    def rank(self) -> int:
        return self.control.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.control.size

    def attach(self, executable: Executable, module: Module, options: str) -> Executable:
        """`executable`, made of `module` with `options`, on the devices of all ranks.

        ExecutionError on all ranks where one of them has another module, other options, or made something else of it.
        """
        if executable.work is None:
            raise UnsupportedError("this backend has one device only: devices over MPI are for others, as cpu")
        topology = executable.topology
        homes = homes_of(topology, self.size, self._assignment)
        here = tuple(device for device, home in enumerate(homes) if home == self.rank)
        modules = [executable.module, *(part.module for part in executable.parts)]
        self.agree(
            {
                "the version of hlotool": __version__,
                "the module": content_hash(module),
                "the options": f"{options} {self._fast} {homes}",
                "the collectives of the compiled module": repr([_collectives(one) for one in modules]),
            },
            executable.timeout,
        )
        groups = groups_of(modules, topology, homes, self._comm)

        known: dict[Instruction, Repeated | None] = {}

        def world(feeds: Feeds | None) -> MpiWorld:
            return self._world(executable, homes, here, groups, feeds, known)

        return replace(
            executable, run=self._run(executable, world), into=None, entry=None, image=None, devices=len(here),
            here=here, new_world=world,
        )  # fmt: skip

    def agree(self, values: dict[str, str], seconds: float | None = None) -> None:
        """ExecutionError, the same on all ranks, which says which rank has another value than rank 0 for what."""
        self.alive()
        mine = b"".join(hashlib.sha256(value.encode()).digest() for value in values.values())
        size = len(mine)
        everyone = bytearray(size * self.size)
        self._finish(self._comm.Iallgather([mine, mpi().BYTE], [everyone, size, mpi().BYTE]), seconds)
        for rank in range(self.size):
            for n, name in enumerate(values):
                part = slice(32 * n, 32 * n + 32)
                if everyone[rank * size :][part] != everyone[part]:
                    text = f"rank {rank}: {name} {'are' if name.endswith('s') else 'is'} not what rank 0 has"
                    raise ExecutionError(self.control.fail(text).text)

    def gathered(self, data: bytes) -> list[bytes] | None:
        """At rank 0 what each rank gives."""
        counts = np.zeros(self.size, np.int64)
        self._finish(self._comm.Iallgather(np.array([len(data)], np.int64), counts))
        places = [0, *np.cumsum(counts)[:-1].tolist()]
        whole = bytearray(int(counts.sum()) if self.rank == 0 else 0)
        received = [whole, counts.tolist(), places, mpi().BYTE] if self.rank == 0 else None
        self._finish(self._comm.Igatherv([data, mpi().BYTE], received, 0))
        if self.rank:
            return None
        return [bytes(whole[at : at + size]) for at, size in zip(places, counts.tolist(), strict=True)]

    def told(self, number: int) -> int:
        """On all ranks the number that rank 0 gives."""
        box = np.array([number], np.int64)
        self._finish(self._comm.Ibcast(box, 0))
        return int(box[0])

    def alive(self) -> None:
        """ExecutionError if a rank failed before."""
        if self.control.failure is not None:
            raise ExecutionError(self.control.failure.text)

    def close(self) -> None:
        """Nothing more will run.  A job that failed is ended on all ranks: MPI cannot end in order any more."""
        atexit.unregister(self.close)
        failed = self.control.failure is not None
        self.control.close()
        if failed and not mpi().Is_finalized():
            self._comm.Abort(5)

    def _finish(self, request: Any, seconds: float | None = None) -> None:
        """Wait for something that all ranks do, while they live."""
        begin = time.monotonic()
        wait = 0.00005
        while not request.Test():
            self.alive()
            # Who has left with its part of this done keeps nobody waiting: what it sent may be on its way by others.
            missing = [rank for rank, agreed in self.control.left.copy().items() if agreed <= self.control.agreed]
            if missing:
                failure = self.control.fail(f"rank {min(missing)} has ended before the others")
                raise ExecutionError(failure.text)
            if seconds is not None and time.monotonic() - begin > seconds:
                text = f"rank {self.rank}: stopped: the time limit of {seconds:g} s is over; not all ranks came here"
                raise ExecutionError(self.control.fail(text).text)
            time.sleep(wait)
            wait = min(wait * 2, 0.002)
        self.control.agreed += 1

    def _world(
        self, executable: Executable, homes: tuple[int, ...], here: tuple[int, ...], groups: Groups,
        feeds: Feeds | None, known: dict[Instruction, Repeated | None],
    ) -> MpiWorld:  # fmt: skip
        self.alive()
        self._runs += 1
        world = MpiWorld(
            topology=executable.topology, here=here, homes=homes, groups=groups, mail=self._mail, control=self.control,
            own=self._operation, fast=self._fast, feeds=feeds, seconds=executable.timeout, number=self._runs,
            known=known,
        )  # fmt: skip
        _TAKEN[:] = [one for one in _TAKEN if one.untaken]
        _TAKEN.append(world)
        return world

    def _run(self, executable: Executable, world: Callable[[Feeds | None], MpiWorld]) -> Callable[..., Any]:
        """What runs on one device of this rank."""
        work = executable.work
        assert work is not None
        return lambda *arrays: world(None).run(lambda device: work(device, arrays))[0]

    def _operation(self, opcode: str, kind: str) -> Any:
        found = self._operations.get((opcode, kind))
        if found is None:
            found = self._operations[opcode, kind] = operation_of(opcode, kind)
        return found


def _collectives(module: Module) -> list[tuple[str, str, str]]:
    from hlotool.ir.devices import is_collective

    return [(one.opcode, one.name, str(one.shape)) for one in module.instructions() if is_collective(one.opcode)]
