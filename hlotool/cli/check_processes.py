"""Files with checks, several at once: each is a job, with results in the order of the files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from hlotool.checks.directives import Problem
from hlotool.checks.run import Options, Verdict, check_file
from hlotool.cli.command_jobs import CommandDone, JobFailed, command_result, sent_command
from hlotool.cli.config import find_config
from hlotool.cli.executor_options import opened_jobs
from hlotool.cli.in_process import run_here
from hlotool.cli.output import write_bytes
from hlotool.codegen.machine import host
from hlotool.ir import ExecutionError

__all__ = ["check_here", "checked"]

_FILES_EACH = 8  # as many take about as long as a process that starts
_NAMED = re.compile(r"[^\s=\"'|]+")


def check_here(file: Path, options: Options) -> tuple[list[Verdict], bool]:
    """The checks of one file, in this process; pipelines of the ``hlotool.toml`` above the file have their names."""
    config = os.environ.get("HLOTOOL_CONFIG") or find_config(file.absolute().parent)
    before = os.environ.get("HLOTOOL_CONFIG")
    if config:
        os.environ["HLOTOOL_CONFIG"] = str(Path(config).absolute())
    try:
        return check_file(file, run_here, options)
    finally:
        if before is None:
            os.environ.pop("HLOTOOL_CONFIG", None)
        else:
            os.environ["HLOTOOL_CONFIG"] = before


def checked(
    files: Sequence[Path], options: Options, words: Sequence[str], executor: str | None, jobs: int | None,
    limit: float | None, journal: Path | None,
) -> Iterator[tuple[list[Verdict], bool]]:  # fmt: skip
    """What `check_here` gives for each file, in order, as jobs where there are many files, or an `executor` is named;
    `words` are the options of the command, which the jobs have as well."""
    if executor is None:
        count = jobs or min(host().cores, len(files) // _FILES_EACH)
        if min(count, len(files)) <= 1:
            yield from map(partial(check_here, options=options), files)
            return
        executor = f"processes:{min(count, 256)}"
    with opened_jobs(executor, "check", limit, journal) as doing:
        futures = [_sent(partial(sent_command, doing), file, options, words) for file in files]
        for file, future in zip(files, futures, strict=True):
            yield _result(file, future)


def _sent(
    send: Callable[..., Future[CommandDone]], file: Path, options: Options, words: Sequence[str]
) -> Future[CommandDone]:
    """Send the checks of a file, with the files that its comments name."""
    named, config = _named(file), find_config(file.absolute().parent)
    writes: list[Path] = [file] if options.update else []
    if options.snapshots is not None:
        named += sorted(options.snapshots.glob(f"{file.stem}*.txt"))
        writes += [options.snapshots] if options.update else []
    if config:
        named.append(Path(config))
    return send(["check", str(file), *words, "--format", "json"], files=[file, *named], writes=writes)


def _named(file: Path) -> list[Path]:
    """The files that comments of a file name, from its folder on."""
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except OSError:
        return []
    folder = file.absolute().parent
    found = []
    for line in text.splitlines():
        comment = line.partition("//")[2]
        for word in _NAMED.findall(comment.replace("%S", str(folder))):
            path = folder / word
            try:
                found += [path] if path.is_file() else []
            except (OSError, ValueError):  # no name at all
                continue
    return list(dict.fromkeys(found))


def _result(file: Path, future: Future[CommandDone]) -> tuple[list[Verdict], bool]:
    try:
        done = command_result(future, str(file))
    except JobFailed as error:
        problem = Problem(1, error.message.removeprefix(f"{file}: "))
        return [Verdict(file=str(file), name=str(file), line=1, verdict="failed", problems=(problem,))], False
    try:
        answer = json.loads(done.output)
    except ValueError:
        raise ExecutionError(f"{file}: its checks end with exit code {done.code}: {done.messages.strip()}") from None
    for path, data in done.written.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, lambda stream, data=data: stream.write(data))  # type: ignore[misc]
    return list(map(_verdict, answer["checks"])), bool(answer["updated"])


def _verdict(row: Mapping[str, Any]) -> Verdict:
    problems = tuple(
        Problem(one["line"], one["message"], tuple(one["details"]), one["column"]) for one in row["problems"]
    )
    return Verdict(
        file=row["file"], name=row["name"], line=row["line"], verdict=row["verdict"], problems=problems,
        seconds=row["seconds"],
    )  # fmt: skip
