"""The tests of collectives, over MPI:

    mpiexec -n 2 python tests/mpi_cases.py [--fast] [OPTIONS OF PYTEST]

Every rank runs the same tests of `test_devices` and `mpi_more`, in which programs of as many devices as they like are
spread over the ranks that there are; what all devices give is brought together on all ranks, so that the tests see what
they see elsewhere.  Rank 0 says how it went.  Tests of what fails are left out: processes do not go on together after
that; so are those of devices in one process, which take turns, and of its threads.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import hlotool
from hlotool.driver import compile_module
from hlotool.ir.devices import topology_of
from hlotool.text.parser import parse

FAILURES = ("error", "deadlock", "nobody_sends", "stopped", "refused", "need_another_end", "does_not", "can_be_given",
            "late_run", "threads_end", "turns_give", "shared_by_threads", "several_threads", "no_threads", "a_child_of",
            "for_all_and_for_each", "queues_of_its_own", "infeed", "transfers_with_the_host")  # fmt: skip


class Spread:
    """An executable whose devices are spread over the ranks, and which is called as if they were here."""

    def __init__(self, text: str, backend: str = "cpu", **options: Any) -> None:
        module = parse(text)
        topology = topology_of(module)
        count = min(MPI.COMM_WORLD.size, topology.devices)
        self.count, self.devices = topology.devices, _devices(count)
        self.executable = None
        if self.devices is not None:
            self.executable = compile_module(module, backend, threads=1, devices=self.devices, **options)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        mine: list[tuple[int, tuple[Any, ...]]] = []
        if self.executable is not None:
            shapes = self.executable.parameters
            each = [np.ndim(a) == len(s.dimensions) + 1 for a, s in zip(arrays, shapes, strict=True)]
            rows = [
                [np.asarray(a)[d] if own else a for a, own in zip(arrays, each, strict=True)]
                for d in self.executable.here or ()
            ]
            mine = list(zip(self.executable.here or (), self.executable.run_devices(rows), strict=True))
        everyone = dict(row for part in MPI.COMM_WORLD.allgather(mine) for row in part)
        results = [everyone[device] for device in range(self.count)]
        return results[0] if self.count == 1 else tuple(np.stack(leaf) for leaf in zip(*results, strict=True))


_made: dict[int, Any] = {}
fast = "--fast" in sys.argv


def _devices(count: int) -> Any:
    """Devices on the first ranks; None on the others."""
    if count not in _made:
        color = 0 if MPI.COMM_WORLD.rank < count else MPI.UNDEFINED
        comm = MPI.COMM_WORLD.Split(color)
        _made[count] = None if comm == MPI.COMM_NULL else hlotool.MpiDevices(comm, fast=fast)
    return _made[count]


class Plugin:
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(word in item.name for word in FAILURES)]
        for item in items:
            vars(item.module)["build"] = Spread  # type: ignore[attr-defined]  # of test_devices


def main(arguments: Sequence[str]) -> int:
    here = Path(__file__).parent
    chosen = [argument for argument in arguments if argument != "--fast"]
    named = any(argument.endswith(".py") for argument in chosen)
    files = [] if named else [str(here / "test_devices.py"), str(here / "mpi_more.py")]
    quiet = contextlib.nullcontext() if MPI.COMM_WORLD.rank == 0 else contextlib.redirect_stdout(io.StringIO())
    with quiet:
        code = pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "-x", *files, *chosen], plugins=[Plugin()])
    sys.stdout.flush()
    if code:
        os._exit(int(code))
    return int(code)


if __name__ == "__main__":
    sys.modules["mpi_cases"] = sys.modules[__name__]  # for mpi_more
    sys.exit(main(sys.argv[1:]))
