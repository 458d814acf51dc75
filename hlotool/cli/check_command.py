"""``hlotool check``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from hlotool.checks.cases import read_text
from hlotool.checks.directives import Problem, directives_in
from hlotool.checks.match import match_text
from hlotool.checks.patterns import MatchOptions, PatternError, pattern_of
from hlotool.checks.reports import as_json, github_lines, junit, summary, verdict_text
from hlotool.checks.run import VERDICTS, Options, Verdict, has_checks
from hlotool.cli.check_processes import checked
from hlotool.cli.command_jobs import Splittable, option_words
from hlotool.cli.executor_options import executor_options
from hlotool.cli.options import form_option
from hlotool.cli.output import write_bytes
from hlotool.cli.words import say
from hlotool.lazy_dataclass import dataclass

__all__ = ["command"]

_SUFFIX = ".hlo"
_EXITS = {"passed": 0, "unsupported": 4, "undecided": 1, "failed": 1, "invalid": 3}
_INTERRUPTED = 130
_MATCH_OPTIONS = (
    click.option("--check-prefix", "--check-prefixes", "prefixes", multiple=True, metavar="A,B", help="Not CHECK."),
    click.option("--match-full-lines", is_flag=True, help="Patterns match whole lines."),
    click.option("--strict-whitespace", is_flag=True, help="Runs of spaces and tabs match only themselves."),
    click.option("--ignore-case", is_flag=True, help="Case does not matter."),
    click.option("--allow-empty", is_flag=True, help="The output may be empty."),
    click.option("--implicit-check-not", "nots", multiple=True, metavar="PATTERN", help="What must be nowhere."),
)


def _match_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """FileCheck's options, as one value `match`."""

    @wraps(function)
    def command(
        prefixes: tuple[str, ...],
        match_full_lines: bool,
        strict_whitespace: bool,
        ignore_case: bool,
        allow_empty: bool,
        nots: tuple[str, ...],
        **others: Any,
    ) -> Any:
        match = MatchOptions(
            prefixes=tuple(one for text in prefixes for one in text.split(",")) or ("CHECK",),
            match_full_lines=match_full_lines,
            strict_whitespace=strict_whitespace,
            ignore_case=ignore_case,
            allow_empty=allow_empty,
            implicit_check_not=nots,
        )
        _refuse(match)
        return function(match=match, **others)

    for option in reversed(_MATCH_OPTIONS):
        command = option(command)
    return command


@click.command("check", cls=Splittable)
@click.argument("paths", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--update", is_flag=True, help="Rewrite the files, so that they expect what is found.")
@click.option("-j", "--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes; else as many as pay off.")
@executor_options("a file")
@click.option("-v", "--verbose", is_flag=True, help="Also list what passed.")
@form_option("text", "json", "github", words="For people; JSON; commands for GitHub Actions.")
@click.option("--junit", "xml", type=click.Path(dir_okay=False), metavar="FILE", help="Also write JUnit's XML.")
@click.option(
    "--snapshot",
    "snapshots",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Hold what files print (by default 'hlotool opt') against the canonical texts in DIR; --update writes them.",
)
@click.option(
    "--input",
    "--input-file",
    "given",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Run nothing: match this text (- is standard input) with the directives of the one file.",
)
@_match_options
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    update: bool,
    jobs: int | None,
    executor: str | None,
    job_limit: float | None,
    journal: Path | None,
    verbose: bool,
    form: str,
    xml: str | None,
    snapshots: str | None,
    given: str | None,
    match: MatchOptions,
) -> None:
    """Run the checks in PATHS: files of HLO whose comments say what commands must print; of folders, all *.hlo files.

    \b
        // RUN: hlotool opt %s -p cse,dce
        // CHECK: [[SUM:.*]] = f32[8] add(
        // CHECK-NEXT: multiply([[SUM]], [[SUM]])
        // CHECK-NOT: subtract
        // CHECK-COUNT fusion 2
        // CHECK-PEAK <= 4MiB
        // CHECK-KERNEL dot 0
        // CHECK-EQUAL evaluate

    RUN lines are pipes of hlotool commands ('not' in front wants a failure; < > >> 2> 2>&1 work).  They run no other
    programs.  %s is the module in a file of its own, %S the folder of the checks, %t a file to write.  Without one it
    is 'hlotool opt %s'.  What a command prints is matched with CHECK lines, or with those of another prefix where it
    ends with '| hlotool check %s --check-prefix=OTHER'.

    Those with a colon are FileCheck's: CHECK, -NEXT, -SAME, -NOT, -DAG, -LABEL, -EMPTY, -COUNT-3, with {{regular
    expressions}} and variables, [[NAME:expression]] and later [[NAME]]; CHECK{LITERAL}: takes text as it is.  The
    others are about the module that is printed: CHECK-COUNT takes an opcode or a query (hlotool query), CHECK-KERNEL a
    number of kernels, CHECK-PEAK the bytes that its code takes, and CHECK-EQUAL evaluate [seed=N] [inputs=ARGS.npz]
    compares its code with what the module means.  Lines // OUTPUT:, // MESSAGES: and // EXIT: N after a module expect
    all that its command prints, to the letter.  Lines // ----- separate several cases in a file.

    \b
        hlotool check tests/ -j 4 --junit report.xml
        hlotool check tests/ --executor dask:tcp://10.0.0.1:8786
        hlotool opt model.hlo | hlotool check expected.hlo --input -

    Exits 0 when all passed, 1 when one failed or is undecided, 3 when a file cannot be read or its checks say nothing,
    4 when the only ones that did not pass are unsupported.
    """
    if given is not None:
        if update or snapshots or xml or len(paths) != 1:
            raise click.UsageError("--input takes one file, and neither --update, --snapshot nor --junit")
        done = _Done([_matched(paths[0], given, match)])
        _show(done.verdicts[0], form, verbose)
    else:
        if executor is not None and jobs is not None:
            raise click.UsageError("--jobs 4 is --executor processes:4: give one of them")
        if "-" in paths:
            raise click.UsageError("checks are in files; --input - matches standard input with those of a file")
        options = Options(match=match, update=update, snapshots=Path(snapshots) if snapshots else None)
        words = option_words(ctx, {"jobs", "executor", "job_limit", "journal", "verbose", "form", "xml"})
        run = partial(
            checked, options=options, words=words, executor=executor, jobs=jobs, limit=job_limit, journal=journal
        )
        done = _run(paths, options, run, lambda verdict: _show(verdict, form, verbose))
        if xml is not None:
            write_bytes(xml, lambda stream: stream.write(junit(done.verdicts)))
    said = summary(done.verdicts, done.without)
    if form == "json":
        click.echo(json.dumps(as_json(done.verdicts, done.without, done.updated), indent=1))
    elif given is None:
        say(f"interrupted after: {said}" if done.interrupted else said, err=form == "github" or done.interrupted)
    ctx.exit(_exit_code(done))


@dataclass(slots=True)
class _Done:
    """What came of all files so far."""

    verdicts: list[Verdict] = field(default_factory=list)
    without: int = 0
    updated: list[str] = field(default_factory=list)
    interrupted: bool = False


def _run(
    paths: Sequence[str], options: Options, checked: Callable[[Sequence[Path]], Iterator[tuple[list[Verdict], bool]]],
    show: Callable[[Verdict], None],
) -> _Done:  # fmt: skip
    """Run the checks; Ctrl-C leaves what was done by then."""
    files, without = _files(paths, options.match, options.snapshots is not None)
    done = _Done(without=without)
    try:
        for file, (found, rewritten) in zip(files, checked(files), strict=True):
            if rewritten:
                done.updated.append(str(file))
                say(f"{file}: updated", err=True)
            for verdict in found:
                done.verdicts.append(verdict)
                show(verdict)
            if sys.stderr.isatty():
                click.echo(f"\r{len(done.verdicts)} checks\r", err=True, nl=False)
    except KeyboardInterrupt:
        done.interrupted = True
    return done


def _exit_code(done: _Done) -> int:
    if done.interrupted:
        return _INTERRUPTED
    if not done.verdicts:
        say("error: there are no checks", err=True)
        return _EXITS["invalid"]
    return _EXITS[max((one.verdict for one in done.verdicts), key=VERDICTS.index)]


def _refuse(match: MatchOptions) -> None:
    for prefix in match.prefixes:
        if not prefix or not prefix.replace("-", "").replace("_", "").isalnum():
            raise click.UsageError(f"--check-prefix {prefix!r}: expected letters, digits, - and _")
    for text in match.implicit_check_not:
        try:
            pattern_of(text, match)
        except PatternError as error:
            raise click.UsageError(f"--implicit-check-not {text!r}: {error.message}") from None


def _files(paths: Sequence[str], match: MatchOptions, all_of_them: bool) -> tuple[list[Path], int]:
    """The files to check, and how many files in folders have no checks."""
    found: list[Path] = []
    without = 0
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)  # it is said where it cannot be read
            continue
        for file in sorted(path.rglob(f"*{_SUFFIX}")):
            if all_of_them or has_checks(read_text(file), match):
                found.append(file)
            else:
                without += 1
    return list(dict.fromkeys(found)), without


def _matched(file: str, given: str, match: MatchOptions) -> Verdict:
    """A text held against the directives of a file."""
    try:
        text = read_text(Path(file))
        said = (
            sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if given == "-" else read_text(Path(given))
        )
    except OSError as error:
        unread = Problem(1, f"cannot read {error.filename}: {error.strerror or error}")
        return Verdict(file=file, name=file, line=1, verdict="invalid", problems=(unread,))
    directives, wrong = directives_in(text, 1, match)
    textual = [one for one in directives if not one.is_structural]
    if not wrong and len(textual) < len(directives):
        other = next(one for one in directives if one.is_structural)
        wrong = [Problem(other.line, f"{other.name} is about modules that commands print; --input is matched as text")]
    if not wrong and not directives:
        wrong = [Problem(1, f"there are no directives {' or '.join(match.prefixes)}")]
    if wrong:
        return Verdict(file=file, name=file, line=1, verdict="invalid", problems=tuple(wrong))
    problem = match_text(textual, said, match)
    if problem is None:
        return Verdict(file=file, name=file, line=1, verdict="passed")
    return Verdict(file=file, name=file, line=1, verdict="failed", problems=(problem,))


def _show(verdict: Verdict, form: str, verbose: bool) -> None:
    if form == "github":
        for line in github_lines(verdict):
            say(line)
    elif form == "text" and (verbose or verdict.problems):
        say(verdict_text(verdict))
