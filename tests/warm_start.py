"""Processes of hlotool that start warm: forked from one that has imported everything and has run nothing.

A process of Python takes a second to import what a command needs, ten times what most tests then do with it.  Such a
fork is a process of its own all the same, with its streams, environment, folder, signals and end.  Cold ones are
started where the environment changes Python itself, where there is no `fork`, and everywhere with
``HLOTOOL_TESTS_COLD=1``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Starter", "may_be_warm"]

_OWN = ("PYTHON", "OMP_", "OPENBLAS_", "LANG", "LC_", "LD_", "MALLOC_")
"""How the names of variables begin that a process reads when it starts."""


def may_be_warm(environment: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Whether a fork of a process that was started in the environment `ours` is as good as a new one."""
    changed = {name for name in {*environment, *ours} if environment.get(name) != ours.get(name)}
    cold = bool(os.environ.get("HLOTOOL_TESTS_COLD")) or not hasattr(os, "fork")
    return not cold and not any(name.startswith(_OWN) for name in changed)


class Starter:
    """The process that others are forked from."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment), text=True
        )

    def run(
        self, arguments: Sequence[str], *, text: str, folder: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with a text as standard input; TimeoutExpired where it takes longer."""
        with tempfile.TemporaryDirectory(prefix="hlotool-tests-") as name:
            streams = [str(Path(name) / stream) for stream in ("stdin", "stdout", "stderr")]
            Path(streams[0]).write_text(text, encoding="utf-8", newline="")
            request = {"arguments": list(arguments), "streams": streams, "folder": str(folder),
                       "environment": dict(environment), "timeout": int(timeout)}  # fmt: skip
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise RuntimeError("the process that starts others has ended")
            output, messages = (Path(stream).read_text(encoding="utf-8") for stream in streams[1:])
        code = json.loads(answer)
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(list(arguments), timeout, output, messages)
        return subprocess.CompletedProcess(["hlotool", *arguments], code, output, messages)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def _serve() -> None:
    """Fork a process for every request, and return in it."""
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(request)
            os.close(requests.fileno())
            os.close(answers.fileno())
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    os._exit(0)


def _become(request: dict[str, object]) -> None:
    """Take on the streams, the environment and the folder that were asked for."""
    streams, environment = request["streams"], request["environment"]
    assert isinstance(streams, list)
    assert isinstance(environment, dict)
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(request["folder"]))
    arguments = request["arguments"]
    assert isinstance(arguments, list)
    sys.argv = ["hlotool", *arguments]
    signal.alarm(int(str(request["timeout"])))


if __name__ == "__main__":
    from gc import freeze
    from importlib import import_module
    from pkgutil import walk_packages

    import hlotool
    from hlotool.cli import main

    for module in walk_packages(hlotool.__path__, "hlotool."):
        if not module.name.endswith(("__main__", "pytest_plugin", "child")):
            import_module(module.name)
    freeze()
    _serve()
    main()
