"""How a command ends: exceptions to messages and exit codes."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import click

from hlotool.cli.session import Session

__all__ = ["EXIT_CODES", "CheckFailed", "run_safely"]

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


def run_safely(body: Callable[[], Any], package: ModuleType, session: Session) -> int:
    """Call `body`; the exit code that it ends with.  Nothing but a bug leaves a traceback, and that in a file."""
    try:
        result = body()
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        _discard_output()  # the reader went away: that is no error
        return 0
    except CheckFailed:
        return 1
    except Exception as error:
        return _report(error, package, session)


def _discard_output() -> None:
    """Keep Python from complaining at exit about output that nobody takes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception, package: ModuleType, session: Session) -> int:
    from hlotool.ir import ExecutionError, HloError, UnsupportedError
    from hlotool.passes.manager import PassCrash
    from hlotool.passes.pipeline import PipelineError

    if isinstance(error, PipelineError):
        click.echo(f"error: {error.message}", err=True)
        return 2
    if isinstance(error, HloError):
        from hlotool.cli.common import show_diagnostics

        show_diagnostics(error.diagnostics, session)
        if isinstance(error, UnsupportedError):
            return 4
        return 5 if isinstance(error, ExecutionError) else 3
    if isinstance(error, OSError):
        _discard_output()  # it may be standard output that failed
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {where}{error.strerror or error}", err=True)
        return 5
    if isinstance(error, MemoryError):
        click.echo("error: out of memory", err=True)
        return 5
    with tempfile.NamedTemporaryFile("w", prefix="hlotool-", suffix=".txt", delete=False) as file:
        file.write(f"hlotool {package.__version__}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exc(file=file)
    cause = f": {type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ is not None else ""
    click.echo(f"internal error: {type(error).__name__}: {error}{cause}", err=True)
    click.echo(f"this is a bug in hlotool; the details are in {file.name}", err=True)
    if isinstance(error, PassCrash) and error.module is not None:
        _write_reproducer(error)
    return 70


def _write_reproducer(crash: Any) -> None:
    from hlotool.cli.reproducers import write_reproducer
    from hlotool.harness.reproducer import crash_reproducer

    write_reproducer(crash.pass_.name, crash_reproducer(crash))
