"""XLA's CPU backend, in a child process under a Python that has jax: as a compiler, and as a contestant.

What to know when comparing with it: it sets denormals to zero in its threads, widens f8, f4 and 4-bit types to larger
ones and may leave out roundings in between, and takes its modules through StableHLO, which refuses some legal HLO.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import numpy.typing as npt

from hlotool.harness import xla_child
from hlotool.harness.bench import Started
from hlotool.ir import UnsupportedError

__all__ = ["RefusedError", "Xla", "XlaPeer", "xla_python"]


class RefusedError(UnsupportedError):
    """XLA does not take the module, or the program fails; the process lives on."""


def xla_python() -> str:
    """The Python named by ``HLOTOOL_XLA_PYTHON``, else the running one."""
    return os.environ.get("HLOTOOL_XLA_PYTHON") or sys.executable


class Xla:
    """A child process with XLA's CPU client, which holds one program at a time.

    `flags` are XLA's, as in the variable ``XLA_FLAGS``; a request that takes more than `timeout` seconds ends the
    process.  Methods raise RefusedError with XLA's message, UnsupportedError where there is no XLA or it died.
    """

    def __init__(self, python: str | None = None, flags: str | None = None, timeout: float | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._timeout = timeout
        self._python = python or xla_python()
        self.started = False
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONSAFEPATH": "1"}
        if flags is not None:
            environment["XLA_FLAGS"] = flags
        self._said = (Path(self._folder.name) / "said").open("w+", encoding="utf-8", errors="replace")
        self._child = subprocess.Popen(
            [self._python, xla_child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=environment,
        )

    def compile(self, text: str) -> float:
        """Make `text` the program; the seconds that XLA took."""
        path = self._path("module")
        path.write_text(text, "utf-8", "surrogateescape")
        seconds: float = self._ask("compile", source=str(path))["seconds"]
        return seconds

    def optimised(self) -> str:
        """The program as XLA's passes left it."""
        path = self._path("optimised")
        self._ask("print", target=str(path))
        return path.read_text("utf-8")

    def give(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Set the arguments: one array per parameter, tuples flattened."""
        path = self._path("in")
        xla_child.save(path, arrays)
        self._ask("give", source=str(path))

    def run(self) -> tuple[list[npt.NDArray[Any]], float]:
        """The outputs, one array per leaf of the root, and the seconds that it took."""
        path = self._path("out")
        seconds: float = self._ask("run", target=str(path))["seconds"]
        return xla_child.load(path), seconds

    def sample(self, seconds: float, batch: int) -> list[float]:
        """Run for so long in batches of calls; the seconds of a call, for each batch."""
        found: list[float] = self._ask("sample", seconds=seconds, batch=batch)["samples"]
        return found

    def close(self) -> None:
        """End the child process."""
        self._child.kill()
        self._child.communicate()
        self._said.close()
        self._folder.cleanup()

    def __enter__(self) -> Xla:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def _ask(self, task: str, **request: Any) -> dict[str, Any]:
        if not self.started:
            self._answer("")
            self.started = True
        answer = self._answer(json.dumps({"do": task, **request}) + "\n")
        if "error" in answer:
            raise RefusedError(f"XLA refuses the module: {answer['error']}")
        return answer

    def _answer(self, request: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        timer = Timer(self._timeout, self._child.kill) if self._timeout is not None else None
        if timer is not None:
            timer.start()
        try:
            self._child.stdin.write(request)
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            if timer is not None:
                timer.cancel()
        if not line:
            self._said.seek(0)
            said = [row for row in self._said.read().splitlines() if row.strip()]
            cause = said[-1] if said else "the process died"
            hint = f"; XLA comes with jax: '{self._python} -m pip install jax' installs it"
            hint += ", or name a Python that has it, by --xla-python PYTHON or HLOTOOL_XLA_PYTHON"
            raise UnsupportedError(f"XLA does not answer: {cause}{'' if self.started else hint}")
        answer: dict[str, Any] = json.loads(line)
        return answer


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
