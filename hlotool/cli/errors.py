"""How a command ends: exceptions to messages and exit codes."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import click

from hlotool.cli.session import Session
from hlotool.cli.words import say

__all__ = ["EXIT_CODES", "CheckFailed", "open_streams", "run_safely"]

EXIT_CODES = {
    0: "success; equal; within tolerance",
    1: "the check answered no: mismatch, undecided, difference, not formatted",
    2: "usage error",
    3: "input cannot be read, parsed or verified",
    4: "valid but unsupported",
    5: "execution failed",
    70: "internal error",
    130: "interrupted",
}


class CheckFailed(Exception):  # noqa: N818
    """The check that a command makes answered no (exit code 1); what to say was said."""


def open_streams() -> None:
    """Give a process that was started without one of the standard streams an empty one, so that its number is not that
    of the next file which is opened, and writing there is as writing to a reader who went away."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            found = os.open(os.devnull, os.O_RDWR)
            if found != number:
                os.dup2(found, number)
                os.close(found)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115  # for as long as the process lives


def run_safely(body: Callable[[], Any], package: ModuleType, session: Session) -> int:
    """Call `body`; the exit code that it ends with.  Nothing but a bug leaves a traceback, and that in a file."""
    code = _ended(body, package, session)
    for path in session.reproducers:
        from hlotool.cli.reproducers import reduce_beside

        reduce_beside(Path(path))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _discard(stream)  # Python would complain about it, and change the exit code
    return code


def _ended(body: Callable[[], Any], package: ModuleType, session: Session) -> int:
    """The exit code that `body` ends with; what is to be said is said."""
    try:
        result = body()
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _tell("interrupted")
        return 130
    except BrokenPipeError:
        _discard(sys.stdout)  # the reader went away: that is no error
        return 0
    except CheckFailed:
        return 1
    except Exception as error:
        with suppress(OSError):  # of standard error
            return _report(error, package, session)
        return _code(error)


def _tell(text: str) -> None:
    """Say something on standard error, if there is somebody who listens."""
    with suppress(OSError):
        say(text, err=True)


def _discard(stream: TextIO) -> None:
    """Drop what nobody takes."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _code(error: Exception) -> int:
    """The exit code for an error."""
    from hlotool.ir import ExecutionError, HloError, UnsupportedError
    from hlotool.passes.framework.pipeline import PipelineError

    if isinstance(error, PipelineError):
        return 2
    if isinstance(error, HloError):
        return 4 if isinstance(error, UnsupportedError) else 5 if isinstance(error, ExecutionError) else 3
    return 5 if isinstance(error, (OSError, MemoryError)) else 70


def _report(error: Exception, package: ModuleType, session: Session) -> int:
    from hlotool.ir import HloError
    from hlotool.passes.framework.manager import PassCrash
    from hlotool.passes.framework.pipeline import PipelineError
    from hlotool.plugins import author_of

    code = _code(error)
    if isinstance(error, PipelineError):
        say(f"error: {error.message}", err=True)
    elif isinstance(error, HloError):
        from hlotool.cli.common import show_diagnostics

        show_diagnostics(error.diagnostics, session)
    elif isinstance(error, OSError):
        _discard(sys.stdout)  # it may be what failed
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}", err=True)
    elif isinstance(error, MemoryError):
        say("error: out of memory", err=True)
    if code != 70:
        return code
    with tempfile.NamedTemporaryFile("w", prefix="hlotool-", suffix=".txt", delete=False) as file:
        file.write(f"hlotool {package.__version__}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exc(file=file)
    cause = f": {type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ is not None else ""
    say(f"internal error: {type(error).__name__}: {error}{cause}", err=True)
    say(f"this is a bug in {author_of(error)}; the details are in {file.name}", err=True)
    if isinstance(error, PassCrash) and error.module is not None:
        _write_reproducer(error)
    return 70


def _write_reproducer(crash: Any) -> None:
    from hlotool.cli.reproducers import write_reproducer
    from hlotool.harness.reproducer import crash_reproducer

    write_reproducer(crash.pass_.name, crash_reproducer(crash))
