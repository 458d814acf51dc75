"""XLA's CPU backend, in a child process under a Python that has jax: as a compiler, and as a contestant.

What to know when comparing with it: it sets denormals to zero in its threads, widens f8, f4 and 4-bit types to larger
ones and may leave out roundings in between, and takes its modules through StableHLO, which refuses some legal HLO.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from hlotool.harness import xla_child
from hlotool.harness.bench import Started
from hlotool.harness.told import RefusedError, Told

__all__ = ["RefusedError", "Xla", "XlaPeer", "xla_python"]


def xla_python() -> str:
    """The Python named by ``HLOTOOL_XLA_PYTHON``, else the running one."""
    return os.environ.get("HLOTOOL_XLA_PYTHON") or sys.executable


class Xla:
    """A child process with XLA's CPU client, which holds one program at a time.

    `flags` are XLA's, as in the variable ``XLA_FLAGS``; a request that takes more than `timeout` seconds ends the
    process.  Methods raise RefusedError with XLA's message, UnsupportedError where there is no XLA or it died.
    """

    def __init__(self, python: str | None = None, flags: str | None = None, timeout: float | None = None) -> None:
        environment = {"JAX_PLATFORMS": "cpu", **({} if flags is None else {"XLA_FLAGS": flags})}
        chosen = python or xla_python()
        hint = f"; XLA comes with jax: '{chosen} -m pip install jax' installs it"
        hint += ", or name a Python that has it, by --xla-python PYTHON or HLOTOOL_XLA_PYTHON"
        self._told = Told("XLA", chosen, xla_child.__file__, environment, hint, timeout)

    @property
    def started(self) -> bool:
        """Whether the child has been ready."""
        return self._told.started

    def compile(self, text: str) -> float:
        """Make `text` the program; the seconds that XLA took."""
        path = self._told.path("module")
        path.write_text(text, "utf-8", "surrogateescape")
        seconds: float = self._told.ask("compile", source=str(path))["seconds"]
        return seconds

    def optimised(self) -> str:
        """The program as XLA's passes left it."""
        path = self._told.path("optimised")
        self._told.ask("print", target=str(path))
        return path.read_text("utf-8")

    def give(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Set the arguments: one array per parameter, tuples flattened."""
        path = self._told.path("in")
        xla_child.save(path, arrays)
        self._told.ask("give", source=str(path))

    def run(self) -> tuple[list[npt.NDArray[Any]], float]:
        """The outputs, one array per leaf of the root, and the seconds that it took."""
        path = self._told.path("out")
        seconds: float = self._told.ask("run", target=str(path))["seconds"]
        return xla_child.load(path), seconds

    def sample(self, seconds: float, batch: int) -> list[float]:
        """Run for so long in batches of calls; the seconds of a call, for each batch."""
        found: list[float] = self._told.ask("sample", seconds=seconds, batch=batch)["samples"]
        return found

    def close(self) -> None:
        """End the child process."""
        self._told.close()

    def __enter__(self) -> Xla:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class XlaPeer:
    """XLA on one module, to be timed."""

    label = "xla"

    def __init__(self, text: str, arguments: Sequence[npt.NDArray[Any]], python: str | None = None) -> None:
        self._xla = Xla(python)
        self._text, self._arguments = text, arguments

    def start(self) -> Started:
        # What LLVM and XLA set up once per process is nobody's compile time.
        self._xla.compile("HloModule warm\nENTRY e { p = f32[8]{0} parameter(0)\n ROOT r = f32[8]{0} add(p, p) }")
        self._xla.give(self._arguments)
        seconds = self._xla.compile(self._text)
        outputs, first = self._xla.run()
        return Started(0.0, seconds, first, tuple(outputs))

    def sample(self, seconds: float, batch: int) -> list[float]:
        return self._xla.sample(seconds, batch)

    def close(self) -> None:
        self._xla.close()
