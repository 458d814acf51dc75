"""A child process that is told what to do: a request is a line of JSON, ``{"do": ..., ...}``, and so is the answer,
what was measured or ``{"error": message}``.  It says ``{}`` once it is ready."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from typing import Any

from hlotool.ir import UnsupportedError

__all__ = ["RefusedError", "Told"]


class RefusedError(UnsupportedError):
    """The child does not take what it was given; it lives on."""


class Told:
    """The script `file` under the interpreter `python`; `name` is what messages call it, `hint` how to have it.

    A request that takes more than `timeout` seconds ends the process.  `ask` raises RefusedError with the message of
    the child, UnsupportedError where it has died or never came up.
    """

    def __init__(
        self, name: str, python: str, file: str, environment: Mapping[str, str], hint: str,
        timeout: float | None = None,
    ) -> None:
        self._name, self._hint, self._timeout = name, hint, timeout
        self.started = False
        self._folder = tempfile.TemporaryDirectory()
        self._said = self.path("said").open("w+", encoding="utf-8", errors="replace")
        try:
            self._child = subprocess.Popen(
                [python, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
                env={**os.environ, "PYTHONSAFEPATH": "1", **environment},
            )  # fmt: skip
        except OSError as error:
            self._said.close()
            self._folder.cleanup()
            raise UnsupportedError(f"cannot run {python}: {error.strerror or error}") from error

    def path(self, name: str) -> Path:
        """A file that is gone with the child."""
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

    def close(self) -> None:
        """End the child process."""
        self._child.kill()
        self._child.communicate()
        self._said.close()
        self._folder.cleanup()

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
            raise UnsupportedError(f"{self._name} does not answer: {cause}{'' if self.started else self._hint}")
        answer: dict[str, Any] = json.loads(line)
        return answer
