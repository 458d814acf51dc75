"""Many short processes of ``hlotool``: each is forked from one that has imported the commands already, which is most of
what they take.

A process has the streams, the directory, the group and the end that it would have in a shell.  This file is also the
program of the process that they are forked from.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from hlotool.cli import COMMANDS, main

__all__ = ["Done", "Processes"]


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


class Processes:
    """Starts commands, one at a time; for a ``with`` statement."""

    def __init__(self, env: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._paths = [os.path.join(self._folder.name, name) for name in ("in", "out", "err")]
        self._parent = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
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

    def run(self, arguments: list[str], folder: Path, **options: Any) -> Done:
        """Start a command, as `start` does, and wait for its end."""
        return self.end(self.start(arguments, folder, **options))

    def start(
        self, arguments: list[str], folder: Path, *, stdin: bytes | None = b"", closed: tuple[int, ...] = (),
        gone: int = 0, env: dict[str, str] | None = None,
    ) -> int:  # fmt: skip
        """Start a command in `folder`; its process, the head of a group of its own.

        Standard input is `stdin`, or, where that is None, one that says nothing and does not end.  The streams numbered
        `closed` are not there at all; the reader of the one numbered `gone` went away.
        """
        if stdin is not None:
            Path(self._paths[0]).write_bytes(stdin)
        return self._ask(
            arguments=arguments, folder=os.fspath(folder), paths=[None if stdin is None else self._paths[0],
            *self._paths[1:]], closed=closed, gone=gone, env=env or {},
        )  # fmt: skip

    def end(self, process: int) -> Done:
        """Wait for the end of a process."""
        code = self._ask(process=process)
        return Done(code, *(Path(path).read_text(encoding="utf-8", errors="replace") for path in self._paths[1:]))

    def _ask(self, **request: Any) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        answer: int = json.loads(self._parent.stdout.readline())
        return answer


def _serve() -> None:
    for name in COMMANDS:
        import_module(f"hlotool.cli.{name}_command")
    for line in sys.stdin:
        request = json.loads(line)
        if "process" in request:
            _, status = os.waitpid(request["process"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        child = os.fork()
        if child == 0:
            os.setsid()
            _become(request)
        print(child, flush=True)


def _become(request: dict[str, Any]) -> None:
    """What a shell and a starting Python do; then the command."""
    os.chdir(request["folder"])
    os.environ.update(request["env"])
    flags = [os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_TRUNC] * 2]
    for number, (path, flag) in enumerate(zip(request["paths"], flags, strict=True)):
        found = os.open(path, flag) if path is not None else os.pipe()[0]
        os.dup2(found, number)
        os.close(found)
    if request["gone"]:
        reader, writer = os.pipe()
        os.dup2(writer, request["gone"])
        os.close(reader)
        os.close(writer)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number in request["closed"]:
            os.close(number)
            setattr(sys, name, None)
        else:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["hlotool", *request["arguments"]]
    code: Any = 1
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
