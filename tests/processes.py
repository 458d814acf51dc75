"""Processes of ``hlotool`` that start warm: each is forked from one that has imported everything and has run nothing.

A process of Python takes a second to import what a command needs, ten times what most tests then do with it.  Such a
fork is a process of its own all the same, with its streams, environment, folder, group, signals and end.  Cold ones are
started where the environment changes Python itself, where there is no `fork`, and everywhere with
``HLOTOOL_TESTS_COLD=1``.  This file is also the program of the process that others are forked from.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Done", "Processes", "may_be_warm"]

_OWN = ("PYTHON", "OMP_", "OPENBLAS_", "LANG", "LC_", "LD_", "MALLOC_")
"""How the names of variables begin that a process reads when it starts."""


def may_be_warm(environment: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Whether a fork of a process that was started in the environment `ours` is as good as a new one."""
    changed = {name for name in {*environment, *ours} if environment.get(name) != ours.get(name)}
    cold = bool(os.environ.get("HLOTOOL_TESTS_COLD")) or not hasattr(os, "fork")
    return not cold and not any(name.startswith(_OWN) for name in changed)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


class Processes:
    """Starts commands, one at a time, in `environment` or other ones; for a ``with`` statement."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._folder = tempfile.TemporaryDirectory(prefix="hlotool-tests-")
        self._streams = [os.path.join(self._folder.name, name) for name in ("in", "out", "err")]
        self._parent = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment
        )

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()
        self._folder.cleanup()

    def run(self, arguments: Sequence[str], folder: Path, **options: Any) -> Done:
        """Start a command, as `start` does, and wait for its end."""
        return self.end(self.start(arguments, folder, **options))

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        stdin: bytes | None = b"",
        closed: Sequence[int] = (),
        gone: int = 0,
        environment: Mapping[str, str] | None = None,
        timeout: float = 0,
    ) -> int:
        """Start a command in `folder`; its process, the head of a group of its own.

        Standard input is `stdin`, or, where that is None, one that says nothing and does not end.  The streams numbered
        `closed` are not there at all; the reader of the one numbered `gone` went away.  SIGALRM ends what takes longer
        than `timeout` seconds, unless that is 0.
        """
        if stdin is not None:
            Path(self._streams[0]).write_bytes(stdin)
        streams = [None if stdin is None else self._streams[0], *self._streams[1:]]
        values = self._environment if environment is None else dict(environment)
        return self._ask(
            arguments=list(arguments), folder=os.fspath(folder), streams=streams, closed=list(closed), gone=gone,
            environment=values, timeout=int(timeout),
        )  # fmt: skip

    def end(self, process: int) -> Done:
        """Wait for the end of a process."""
        code = self._ask(process=process)
        said = (Path(path).read_bytes().decode("utf-8", "replace") for path in self._streams[1:])
        return Done(code, *said)

    def _ask(self, **request: Any) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        line = self._parent.stdout.readline()
        if not line:
            raise RuntimeError("the process that starts others has ended")
        answer: int = json.loads(line)
        return answer


def _serve() -> None:
    """Fork a process for every request, and return in it."""
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        if "process" in request:
            _, status = os.waitpid(request["process"], 0)
            print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
            continue
        child = os.fork()
        if child == 0:
            os.setsid()
            requests.close()
            answers.close()
            _become(request)
            return
        print(child, file=answers, flush=True)
    os._exit(0)


def _become(request: dict[str, Any]) -> None:
    """Take on what a shell and a starting Python would give."""
    flags = [os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND] * 2]
    for number, (path, flag) in enumerate(zip(request["streams"], flags, strict=True)):
        found = os.open(path, flag, 0o600) if path is not None else os.pipe()[0]
        os.dup2(found, number)
        os.close(found)
    if request["gone"]:
        reader, writer = os.pipe()
        os.dup2(writer, request["gone"])
        os.close(reader)
        os.close(writer)
    for number in request["closed"]:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["hlotool", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(request["timeout"])


if __name__ == "__main__":
    from gc import freeze
    from importlib import import_module
    from pkgutil import walk_packages

    import hlotool
    from hlotool.cli import main

    # Loaded where they are there and used.
    frameworks = ("hlotool.jax.", "hlotool.onnx.", "hlotool.suites.peers.", "hlotool.tensorflow.", "hlotool.torch.")
    for module in walk_packages(hlotool.__path__, "hlotool.", onerror=lambda name: None):
        if not module.name.endswith(("__main__", "pytest_plugin", "child")) and not module.name.startswith(frameworks):
            import_module(module.name)
    freeze()
    _serve()
    main()
