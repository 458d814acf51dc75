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
from hlotool.harness.peer_process import PeerProcess, RefusedError

__all__ = ["RefusedError", "Xla", "XlaPeer", "xla_python"]


def xla_python() -> str:
    """The Python named by ``HLOTOOL_XLA_PYTHON``, else the running one."""
    return os.environ.get("HLOTOOL_XLA_PYTHON") or sys.executable


class Xla(PeerProcess):
    """A child process with XLA's CPU client.  `flags` are XLA's, as in the variable ``XLA_FLAGS``."""

    def __init__(self, python: str | None = None, flags: str | None = None, timeout: float | None = None) -> None:
        python = python or xla_python()
        variables = {"JAX_PLATFORMS": "cpu", "PYTHONSAFEPATH": "1"} | ({} if flags is None else {"XLA_FLAGS": flags})
        hint = f"; XLA comes with jax: '{python} -m pip install jax' installs it"
        hint += ", or name a Python that has it, by --xla-python PYTHON or HLOTOOL_XLA_PYTHON"
        super().__init__("XLA", [python, xla_child.__file__], variables, hint, timeout)

    def compile(self, text: str) -> float:
        """Make `text` the program; the seconds that XLA took."""
        seconds: float = self.ask("compile", source=self._module(text))["seconds"]
        return seconds

    def stablehlo(self, text: str) -> bytes:
        """A module as StableHLO, in MLIR's binary form."""
        path = self.path("stablehlo")
        self.ask("stablehlo", source=self._module(text), target=str(path))
        return path.read_bytes()

    def text_of(self, bytecode: bytes) -> str:
        """StableHLO in MLIR's binary form, plain or as a portable artifact, as text with its locations."""
        source, target = self.path("bytecode"), self.path("text")
        source.write_bytes(bytecode)
        self.ask("text_of", source=str(source), target=str(target))
        return target.read_text("utf-8")

    def optimised(self) -> str:
        """The program as XLA's passes left it."""
        path = self.path("optimised")
        self.ask("print", target=str(path))
        return path.read_text("utf-8")

    def version(self) -> str:
        """What XLA came with."""
        found: str = self.ask("hello")["version"]
        return found

    def __enter__(self) -> Xla:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _module(self, text: str) -> str:
        path = self.path("module")
        path.write_text(text, "utf-8", "surrogateescape")
        return str(path)


class XlaPeer:
    """XLA on one module, to be timed."""

    label = "xla"

    def __init__(
        self, text: str, arguments: Sequence[npt.NDArray[Any]], python: str | None = None, timeout: float | None = None
    ) -> None:
        self._xla = Xla(python, timeout=timeout)
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

    def version(self) -> str:
        return self._xla.version()

    def close(self) -> None:
        self._xla.close()
