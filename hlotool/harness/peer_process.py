"""A child process that compiles and runs programs under a Python of its own: told what to do line by line."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import numpy.typing as npt

from hlotool.harness import xla_child
from hlotool.ir import UnsupportedError

__all__ = ["PeerProcess", "RefusedError"]


class RefusedError(UnsupportedError):
    """The peer does not take the program, or the program fails; the process lives on."""


class PeerProcess:
    """A child process that holds one program at a time, and its arguments.

    `command` starts it; what it is called in messages is `name`, and `hint` says how to get it where it does not start.
    A request that takes more than `timeout` seconds ends the process.  Methods raise RefusedError with the peer's
    message, UnsupportedError where there is no such peer or it died.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        variables: Mapping[str, str],
        hint: str,
        timeout: float | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._timeout, self._name, self._hint = timeout, name, hint
        self.started = False
        self._said = (Path(self._folder.name) / "said").open("w+", encoding="utf-8", errors="replace")
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
                env={**os.environ, **variables},
            )  # fmt: skip
        except OSError as error:
            self._said.close()
            self._folder.cleanup()
            raise UnsupportedError(f"{name} does not answer: {error.strerror or error}{hint}") from error

    def give(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Set the arguments: one array per parameter, tuples flattened."""
        path = self.path("in")
        xla_child.save(path, arrays)
        self.ask("give", source=str(path))

    def run(self) -> tuple[list[npt.NDArray[Any]], float]:
        """The outputs, one array per result, and the seconds that it took."""
        path = self.path("out")
        seconds: float = self.ask("run", target=str(path))["seconds"]
        return xla_child.load(path), seconds

    def sample(self, seconds: float, batch: int) -> list[float]:
        """Run for so long in batches of calls; the seconds of a call, for each batch."""
        found: list[float] = self.ask("sample", seconds=seconds, batch=batch)["samples"]
        return found

    def close(self) -> None:
        """End the child process."""
        self._child.kill()
        self._child.communicate()
        self._said.close()
        self._folder.cleanup()

    def path(self, name: str) -> Path:
        """A file to send something by."""
        return Path(self._folder.name) / name

    def ask(self, task: str, **request: Any) -> dict[str, Any]:
        """The answer to a request."""
        if not self.started:
            self._answer("")
            self.started = True
        answer = self._answer(json.dumps({"do": task, **request}) + "\n")
        if "error" in answer:
            raise RefusedError(f"{self._name} refuses the module: {answer['error']}")
        return answer

    def _answer(self, request: str) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        late = False

        def end() -> None:
            nonlocal late
            late = True
            self._child.kill()

        timer = Timer(self._timeout, end) if self._timeout is not None else None
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
            cause = f"no answer in {self._timeout:g} s" if late else said[-1] if said else "the process died"
            raise UnsupportedError(f"{self._name} does not answer: {cause}{'' if self.started else self._hint}")
        answer: dict[str, Any] = json.loads(line)
        return answer
