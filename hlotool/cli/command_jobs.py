"""A command of hlotool as a job: its words, and the files that they name, go to a worker, which may share no files with
this process; what it prints, its exit code and the files that it writes come back.

On the worker files lie below an empty folder as they do here, so that all names stay as they are, and that folder is
taken out of what the command prints.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hlotool.cli.config import find_config
from hlotool.ir import ExecutionError
from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hlotool.harness.jobs import Jobs

__all__ = [
    "CommandDone", "CommandJob", "JobFailed", "Splittable", "answer_of", "command_result", "machine_words",
    "option_words", "run_command", "sent_command", "standard_input",
]  # fmt: skip

_ROOT = "\0"
"""In words: the folder on the worker."""
_VARIABLES = (
    "HLOTOOL_THREADS", "HLOTOOL_CPU", "HLOTOOL_PORTABLE", "HLOTOOL_STRICT", "HLOTOOL_FALLBACK", "HLOTOOL_TUNE",
    "NO_COLOR", "TERM",
)  # fmt: skip
"""Variables of the environment on which results depend: on the worker they are as they are here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandJob:
    """`words` after ``hlotool``, in which a NUL stands for the folder on the worker; `here` is the working directory,
    `files` what is there, by absolute names, `writes` the files and folders of which contents are wanted."""

    words: tuple[str, ...]
    here: str
    files: Mapping[str, bytes]
    writes: tuple[str, ...]
    text: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDone:
    """How it ended: the exit code, both streams, and those of `writes` that are new or changed, by absolute names."""

    code: int
    output: str
    messages: str
    written: Mapping[str, bytes]


class JobFailed(ExecutionError):  # noqa: N818
    """The process that did a job died, or took too long."""


class Splittable(click.Command):
    """A command that can be given once more, in parts: it remembers its words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[__name__] = list(args)
        return super().parse_args(ctx, args)


def option_words(context: click.Context, without: Collection[str]) -> list[str]:
    """The options that the user gave to a Splittable command, as words, but for those whose parameters have these
    names, and without arguments."""
    given, _, order = context.command.make_parser(context).parse_args(list(context.meta[__name__]))
    turns: Counter[str] = Counter()
    words: list[str] = []
    for one in order:
        name = one.name or ""
        if name in without or not isinstance(one, click.Option):
            continue
        value = given[name]
        if isinstance(value, list):
            value = value[turns[name]]
        elif turns[name]:
            continue
        turns[name] += 1
        words += _option(one, value)
    return words


def _option(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [option.secondary_opts[0] if option.secondary_opts and not value else option.opts[0]]
    values = value if isinstance(value, tuple) else (value,)
    if option.nargs == 1 and not isinstance(value, str):  # an optional value that was left out
        return [option.opts[0]]
    if option.nargs == 1 and option.opts[0].startswith("--"):
        return [f"{option.opts[0]}={value}"]
    return [option.opts[0], *values]


def sent_command(
    jobs: Jobs, words: Sequence[str], *, files: Iterable[Path | str] = (), writes: Iterable[Path | str] = (),
    text: str = "", alone: bool = False, machine: Any = lambda found: None,
) -> Future[CommandDone]:  # fmt: skip
    """Send ``hlotool WORDS`` to be done, with `files`, and with the hlotool.toml that holds here.

    A command that is timed is `alone` on its machine, and `machine` hears which that was.
    """
    config = os.environ.get("HLOTOOL_CONFIG") or find_config(Path.cwd())
    contents = {str(path.absolute()): path.read_bytes() for path in map(Path, files) if path.is_file()}
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    if config and Path(config).is_file():
        path = Path(config).absolute()
        contents[str(path)] = path.read_bytes()
        environment["HLOTOOL_CONFIG"] = _ROOT + str(path)
    wanted = tuple(str(Path(one).absolute()) for one in writes)
    job = CommandJob(
        words=tuple(_moved(word, {*contents, *wanted}) for word in words), here=str(Path.cwd()), files=contents,
        writes=wanted, text=text, environment=environment,
    )  # fmt: skip
    return jobs.begin(run_command, job, alone=alone, machine=machine)


def _moved(word: str, names: Collection[str]) -> str:
    """A word in which the absolute name of a file is that on the worker."""
    longest = max((name for name in names if name in word), key=len, default=None)
    return word if longest is None else word.replace(longest, _ROOT + longest, 1)


def run_command(job: CommandJob) -> CommandDone:
    """Run a command on the worker."""
    from hlotool.cli.in_process import run_here

    with tempfile.TemporaryDirectory(prefix="hlotool-job-") as folder:
        root = os.path.realpath(folder)
        for name, data in job.files.items():
            path = _below(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        here = _below(root, job.here)
        here.mkdir(parents=True, exist_ok=True)
        before = dict(os.environ)
        for name in (*_VARIABLES, "HLOTOOL_CONFIG"):
            os.environ.pop(name, None)
        os.environ |= {name: value.replace(_ROOT, root) for name, value in job.environment.items()}
        try:
            done = run_here([word.replace(_ROOT, root) for word in job.words], job.text, here)
        finally:
            os.environ.clear()
            os.environ |= before
        return CommandDone(
            code=done.code, output=done.output.replace(root, ""), messages=done.messages.replace(root, ""),
            written={name: data for name, data in _written(root, job.writes) if job.files.get(name) != data},
        )  # fmt: skip


def _below(root: str, name: str) -> Path:
    return Path(root, *Path(name).parts[1:])


def _written(root: str, names: Iterable[str]) -> Iterable[tuple[str, bytes]]:
    for name in names:
        path = _below(root, name)
        found = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for one in found:
            if one.is_file():
                yield str(Path(name) / one.relative_to(path)) if path.is_dir() else name, one.read_bytes()


def command_result(future: Future[CommandDone], what: str) -> CommandDone:
    """What came of a command; JobFailed, which names `what` it was about, where it died or took too long."""
    from hlotool.harness.children import ChildDied, TimeLimit

    try:
        return future.result()
    except ChildDied as death:
        how = f"signal {death.code}" if death.code > 0 else f"exit code {-death.code}"
        said = f": {death.said}" if death.said else ""
        raise JobFailed(f"{what}: the process that did this died of {how}{said}") from None
    except TimeLimit as late:
        raise JobFailed(f"{what}: it took {late}; --job-limit gives it more time") from None


def answer_of(done: CommandDone, what: str) -> dict[str, Any]:
    """The JSON that a command printed; where it ended with an error, that is said, and this process ends so, too."""
    try:
        if done.code not in (0, 1):
            raise ValueError
        found: dict[str, Any] = json.loads(done.output)
    except ValueError:
        click.echo(done.messages or f"error: {what}: a job printed no answer", err=True, nl=False)
        raise click.exceptions.Exit(done.code or 5) from None
    return found


def machine_words(found: Mapping[str, Any]) -> str:
    """A machine that did a job, in words."""
    return f"{found['host']} ({found['cpu']}, {found['cores']} core{'' if found['cores'] == 1 else 's'})"


def standard_input(files: Sequence[str]) -> str:
    """What a job finds on standard input: what is there, where one of the files is ``-``."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if "-" in files else ""
