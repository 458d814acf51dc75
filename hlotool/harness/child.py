"""The program of a child process that works for `hlotool.harness.children`: jobs come in, results go out, pickled.

Compiled code may overwrite its own memory, never end, or write to standard output: all of that stays in here.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import warnings
from typing import IO, Any

from hlotool.harness.limits import keep_no_core
from hlotool.harness.orphans import end_with_parent

__all__ = ["receive", "send", "serve"]

_GRACE = 600
"""Seconds after the time limit of a job, at which the parent ends the child, that it ends by itself: an orphan.  They
are many, since those count in which both were stopped."""


def send(stream: IO[bytes], value: Any) -> None:
    """Write a value, and how long it is."""
    data = pickle.dumps(value)
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """What `send` wrote; EOFError where the other side went away."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    data = stream.read(size) if len(head) == 8 else b""
    if len(head) < 8 or len(data) < size:
        raise EOFError
    return pickle.loads(data)


def serve() -> None:
    """Say that all is well so far; then do jobs, ``(function, arguments, seconds)``, and answer ``(True, result)`` or
    ``(False, exception)``, until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    end_with_parent()
    keep_no_core()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    send(answers, None)
    while True:
        try:
            function, arguments, seconds = receive(sys.stdin.buffer)
        except EOFError:
            return
        if seconds is not None:
            faulthandler.dump_traceback_later(seconds + _GRACE, exit=True)  # whatever native code does meanwhile
        try:
            answer = True, function(*arguments)
        except Exception as error:
            answer = False, error
        faulthandler.cancel_dump_traceback_later()
        try:
            send(answers, answer)
        except (pickle.PicklingError, TypeError, AttributeError):
            send(answers, (False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
