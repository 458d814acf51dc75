"""Requests answered by a child process that may die or hang: a line goes in, a line of JSON comes out.

The child counts its own processor time (`requests`): on a busy machine little of an hour may be one's own.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from pathlib import Path
from threading import Timer
from typing import Any

__all__ = ["answers", "requests"]

_RENEWED = 2000
"""Requests after which a fresh child takes over: modules may leave memory behind."""

_PATIENCE = 30
"""Seconds that may pass for one of the processor's: a child that waits for ever uses none."""


def requests(seconds: float) -> Iterator[str]:
    """In the child: the requests, each of which may take so many seconds of the processor."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    for line in sys.stdin:
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + seconds), most))
        yield line.strip()


def answers(arguments: Sequence[str], requests: Iterable[str], seconds: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each request with its answer; ``{"word": "crash" or "timeout", "detail": ...}`` where there was none.

    `arguments` are those of a Python that runs in the folder of the tests' parent and takes its `requests` with the
    same `seconds`.
    """
    child: subprocess.Popen[str] | None = None
    asked = 0
    try:
        for request in requests:
            if child is None or asked >= _RENEWED:
                _end(child)
                root, asked = Path(__file__).parents[2], 0
                command = [sys.executable, *arguments]
                child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
            asked += 1
            late: list[bool] = []
            timer = Timer(seconds * _PATIENCE, _kill, (child, late))
            timer.start()
            line = _ask(child, request)
            timer.cancel()
            if line:
                yield request, json.loads(line)
                continue
            code = child.wait()
            child = None
            if late or code == -signal.SIGXCPU:
                yield request, {"word": "timeout", "detail": f"{seconds:g} s" + (", mostly waiting" if late else "")}
            else:
                yield request, {"word": "crash", "detail": f"the process ended with {code}"}
    finally:
        _end(child)


def _ask(child: subprocess.Popen[str], request: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        print(request, file=child.stdin, flush=True)
    except BrokenPipeError:
        return ""
    return child.stdout.readline()


def _kill(child: subprocess.Popen[str], late: list[bool]) -> None:
    late.append(True)
    child.kill()


def _end(child: subprocess.Popen[str] | None) -> None:
    if child is not None and child.stdin is not None:
        child.stdin.close()
        child.wait()
