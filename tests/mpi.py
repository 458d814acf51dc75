"""MPI jobs in tests: which implementations are here, and how they are started.

``HLOTOOL_MPI`` lists Pythons that have mpi4py, with commas, beside which an ``mpiexec`` lies (default: this Python).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conftest import environment

__all__ = ["Job", "job", "pythons"]

_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
         "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """How an MPI job ended."""

    returncode: int
    stdout: str
    stderr: str


@cache
def pythons() -> tuple[str, ...]:
    """Pythons with an MPI that works."""
    given = os.environ.get("HLOTOOL_MPI", "")
    return tuple(one for one in (given.split(",") if given else [sys.executable]) if _works(one))


def _works(python: str) -> bool:
    return launcher(python) is not None and not subprocess.run(
        [python, "-c", "from mpi4py import MPI"], capture_output=True, check=False
    ).returncode


def launcher(python: str) -> str | None:
    beside = Path(python).parent / "mpiexec"  # that of pip's packages
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@cache
def is_open_mpi(python: str) -> bool:
    code = "from mpi4py import MPI; print(MPI.Get_library_version())"
    return "Open MPI" in subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout


def job(python: str, ranks: int, *command: object, options: tuple[str, ...] = (), seconds: float = 300) -> Job:
    """Run Python with `command` as its arguments on so many ranks."""
    start = launcher(python)
    assert start is not None
    more = ("--oversubscribe",) if is_open_mpi(python) else ()
    done = subprocess.run(
        [start, *more, *options, "-n", str(ranks), python, *map(str, command)],
        capture_output=True, text=True, timeout=seconds, check=False, env={**environment(), **_ROOT},
    )  # fmt: skip
    return Job(done.returncode, done.stdout, done.stderr)
