"""``--executor``: where the jobs of a command are done, and what goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hlotool.cli.durations import Seconds

if TYPE_CHECKING:
    from hlotool.harness.jobs import Jobs

__all__ = ["EXECUTORS", "executor_name", "executor_options", "opened_jobs"]

EXECUTORS = "processes:N|dask:ADDRESS|mpi|MODULE:FUNCTION"

_LIMIT = 600.0
"""Seconds that a job may take unless --job-limit says something else."""


def executor_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The value of an option that names an executor, checked."""
    from hlotool.harness.jobs.executors import check_name

    if value is not None:
        try:
            check_name(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from None
    return value


def executor_options(jobs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--executor, --job-limit and --journal, called `executor`, `job_limit` and `journal`; `jobs` says what one is."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((
            click.option(
                "--executor", callback=executor_name, metavar=EXECUTORS,
                help=f"Where the work is done, {jobs} being a job: N processes, the workers of a scheduler of Dask, "
                "the ranks of MPI, or the executor of concurrent.futures that FUNCTION gives.",
            ),
            click.option(
                "--job-limit", type=Seconds(), default="10min", show_default=True, metavar="TIME",
                help="With --executor: end a job that takes longer.",
            ),
            click.option(
                "--journal", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                help="With --executor: the answers so far, so that a run that was cut off goes on.",
            ),
        )):  # fmt: skip
            command = option(command)
        return command

    return add


@contextmanager
def opened_jobs(
    name: str, command: str, limit: float | None = _LIMIT, journal: Path | None = None, again: int = 1
) -> Iterator[Jobs]:
    """Jobs of a command on the executor of this name, each for at most `limit` seconds, ended in any case; where all
    went well, the journal is removed."""
    from hlotool.cli.words import say
    from hlotool.harness.jobs import Jobs, pool_of
    from hlotool.harness.jobs.worker import build
    from hlotool.harness.journal import Journal

    head = {"kind": "jobs-journal", "build": build(), "command": command}
    book = Journal.open(journal, head, "remove it, or name another one with --journal")
    if book.rows:
        say(f"goes on from {journal}: {len(book.rows)} answers", err=True)
    jobs = Jobs(pool_of(name), limit, again=again, journal=book)
    try:
        yield jobs
    finally:
        jobs.shutdown()
    if not jobs.keeps_journal:
        book.remove()
