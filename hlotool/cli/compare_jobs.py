"""Several modules that ``hlotool compare`` compares, each as a job on an executor."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hlotool.cli.command_jobs import CommandDone, command_result, option_words, sent_command, standard_input
from hlotool.cli.errors import CheckFailed
from hlotool.cli.executor_options import opened_jobs
from hlotool.cli.output import write_bytes, write_text

__all__ = ["compare_jobs"]

_OF_THE_WHOLE = ("executor", "job_limit", "journal", "output")
"""Parameters that are no business of a job's."""

_GRAVITY = ("ok", "UNDECIDED", "MISMATCH")


def compare_jobs(
    files: Sequence[str], executor: str, limit: float, journal: Path | None, given: Mapping[str, Any]
) -> None:
    """Compare files, by the options that the command was `given`, and report in their order; CheckFailed, or the exit
    code of the first that ended with an error."""
    words = option_words(click.get_current_context(), _OF_THE_WHOLE)
    graph, text = given["graph"], standard_input([*files, given["other"] or ""])
    named = [one for one in (given["inputs"], given["against"], given["other"]) if one is not None]
    named += [re.sub(r"^.*?=?@|:[^:/]*$", "", value) for value in given["values"] if "@" in value]
    writes = [] if graph is None else [graph]
    with opened_jobs(executor, "compare", limit, journal) as jobs:
        futures = [
            sent_command(jobs, ["compare", file, *words], files=[file, *named], writes=writes, text=text)
            for file in files
        ]
        done = [command_result(future, file) for file, future in zip(files, futures, strict=True)]
    for one in done:
        click.echo(one.messages, err=True, nl=False)
        for path, data in one.written.items():
            write_bytes(path, lambda stream, data=data: stream.write(data))  # type: ignore[misc]
    write_text(given["output"], _json(files, done) if given["form"] == "json" else _text(done))
    failed = next((one.code for one in done if one.code not in (0, 1)), None)
    if failed is not None:
        raise click.exceptions.Exit(failed)
    if any(one.code for one in done):
        raise CheckFailed


def _text(done: Sequence[CommandDone]) -> str:
    return "\n".join(one.output for one in done if one.output)


def _json(files: Sequence[str], done: Sequence[CommandDone]) -> str:
    """Of one file what ``compare`` prints; of several, an object of the schema ``compare-files``."""
    if len(done) == 1:
        return done[0].output
    rows = [json.loads(one.output) for one in done if one.code in (0, 1)]
    failed = [
        {"file": file, "exit_code": one.code, "messages": one.messages}
        for file, one in zip(files, done, strict=True) if one.code not in (0, 1)
    ]  # fmt: skip
    verdict = max((row["verdict"] for row in rows), key=_GRAVITY.index, default=None)
    answer = {
        "schema_version": 1, "kind": "compare-files", "verdict": verdict, "comparisons": rows, "failed": failed,
    }  # fmt: skip
    return json.dumps(answer, indent=1) + "\n"
