"""The option that traces rewrites; `opt` and `compile` have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.cli.output import folder_of
from hlotool.ir import ExecutionError, Module

__all__ = ["trace_option", "traced"]

trace_option = click.option(
    "--trace",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write every rewrite, with what it touched before and after, into DIR: index.html and trace.json.",
)


@contextmanager
def traced(
    directory: str | None, module: Module, pipeline: str, number: int | None = None, rewrites: int = 0
) -> Iterator[DecisionLog]:
    """The log to run `pipeline` with, which goes on counting from `rewrites`; on leaving, also with an error, the trace
    is in `directory`.  None: nothing is traced.

    The `number`-th of several modules has a directory of its own.
    """
    if directory is None:
        yield DecisionLog(rewrites=rewrites)
        return
    from hlotool.inspect.trace import RewriteTrace
    from hlotool.inspect.trace_files import TraceFiles

    folder = folder_of(directory, module, number)
    files, trace = TraceFiles(folder, module.name, pipeline), RewriteTrace(rewrites)
    with _writing(folder):
        files.begin()
    try:
        yield trace
    except BaseException:
        trace.finish()
        with suppress(OSError):  # the error that is on its way matters more
            files.write(trace, complete=False)
        raise
    trace.finish()
    with _writing(folder):
        files.write(trace)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExecutionError(f"cannot write {error.filename or folder}: {error.strerror or error}") from error
