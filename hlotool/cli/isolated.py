"""``--isolate``: the command in a process of its own, with a limit of memory, whose end, of whatever kind, is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from hlotool.cli.sizes import Size
from hlotool.ir import ExecutionError, UnsupportedError
from hlotool.system import system

__all__ = ["isolation_options", "run_isolated"]

_GRACE = 10.0
"""Seconds that an interrupted process has to end."""

_BODY = """import sys
sys.path[:] = {path!r}
from hlotool.harness.orphans import end_with_parent
end_with_parent()
{limit}
from hlotool.cli import main
sys.argv[0] = "hlotool"
try:
    main()
finally:
    open({end!r}, "x").close()
"""
_LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))"


def isolation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--isolate`` and ``--memory-limit``."""
    for option in (
        click.option(
            "--memory-limit", type=Size(), metavar="SIZE", help="With --isolate: memory that it may take, as in 4GiB."
        ),
        click.option(
            "--isolate", is_flag=True, help="Run in a process of its own: if it crashes, the exit code is 5."
        ),
    ):
        command = option(command)
    return command


def run_isolated(limit: int | None) -> int:
    """Do in another process what the command line says, apart from ``--isolate``; its exit code.

    ExecutionError tells of a crash, UnsupportedError where memory cannot be limited to `limit` bytes.
    """
    if limit is not None and system().name != "linux":
        raise UnsupportedError("memory can be limited on Linux alone")
    with tempfile.TemporaryDirectory(prefix="hlotool-") as folder:
        end = Path(folder, "end")  # says that Python came to its end: libraries may exit with any code
        body = _BODY.format(
            path=sys.path, limit="" if limit is None else _LIMIT.format(limit=limit), end=os.fspath(end)
        )
        code = _waited(subprocess.Popen([sys.executable, "-c", body, *_without_isolation(sys.argv[1:])]))
        if not end.exists() and code != 130:  # interrupts end at once
            raise ExecutionError(f"the process that ran the program was ended {_how(code)}")
    return code


def _waited(child: subprocess.Popen[bytes]) -> int:
    try:
        return child.wait()
    except KeyboardInterrupt:  # which the child gets, too
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
        raise
    finally:
        child.kill()


def _how(code: int) -> str:
    if code >= 0:
        return f"by a library, with exit code {code}: it may have run out of memory"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"by {name}" + (": it may have run out of memory" if name == "SIGKILL" else "")


def _without_isolation(words: list[str]) -> list[str]:
    found, skip = [], False
    for word in words:
        if not (skip or word == "--isolate" or word.partition("=")[0] == "--memory-limit"):
            found.append(word)
        skip = word == "--memory-limit"
    return found
