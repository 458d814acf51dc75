"""Running the checks of a file: its commands, and whether they gave what is expected of them."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from hlotool.checks.cases import Case, Result, cases_in, difference, read_text
from hlotool.checks.directives import Directive, Problem, directives_in, without_directives
from hlotool.checks.match import match_text
from hlotool.checks.patterns import DEFAULT, MatchOptions
from hlotool.checks.shell import BUGS, Command, CommandError, commands_of, run_pipe
from hlotool.checks.structure import Made, answer
from hlotool.checks.update import Edit, edit_expected, edit_number, edit_text, edited
from hlotool.inspect.files import write_file
from hlotool.ir import HloError, Module, UnsupportedError
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.text.load import parse_all
from hlotool.text.parser import parse

__all__ = ["VERDICTS", "Options", "Verdict", "check_file", "has_checks", "match_options"]

VERDICTS = ("passed", "unsupported", "undecided", "failed", "invalid")
"""From the best to the gravest.  Invalid: the checks themselves say nothing, or the file cannot be read."""

_DEFAULT = "hlotool opt %s"

Execute = Callable[[Sequence[str], str, Path], Result]
"""Runs ``hlotool ARGUMENTS`` with a text as standard input in a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`match` is for RUN lines without a matcher of their own; `snapshots` the folder of golden texts."""

    match: MatchOptions = DEFAULT
    update: bool = False
    snapshots: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one case, called `name`, whose text begins in `line` of `file`."""

    file: str
    name: str
    line: int
    verdict: str
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class _Findings:
    """What was found about one case so far, and how its file would have to change."""

    problems: list[tuple[str, Problem]]
    edits: list[Edit]
    firm: bool = True
    """Whether what was found may become what is expected: not where values are wrong, or a command failed."""

    def add(self, verdict: str, problem: Problem) -> None:
        self.problems.append((verdict, problem))


def has_checks(text: str, match: MatchOptions = DEFAULT) -> bool:
    """Whether a file of this text checks anything: files in folders that do not are left out."""
    for case in cases_in(Path("-"), text):
        if case.expected or case.notes("RUN") or any(directives_in(case.head + case.text, 1, match)):
            return True
    return False


def check_file(path: Path, execute: Execute, options: Options) -> tuple[list[Verdict], bool]:
    """The verdicts of a file's cases, in order, and whether the file was rewritten; OSError where it cannot be.

    With `options.update` it is, where what is expected differs from what is found, whole or not at all, and the
    verdicts are those of the new file.
    """
    try:
        text = read_text(path)
    except OSError as error:
        problem = Problem(1, f"cannot read {path}: {error.strerror or error}")
        return [Verdict(file=str(path), name=str(path), line=1, verdict="invalid", problems=(problem,))], False
    cases = cases_in(path, text)
    names = [str(path) if len(cases) == 1 else f"{path}#{case.slug}" for case in cases]
    verdicts, edits = [], []
    for case, name in zip(cases, names, strict=True):
        verdict, found = _check_case(case, name, execute, options)
        verdicts.append(verdict)
        edits += found
    if not (options.update and edits):
        return verdicts, False
    after = edited(text, edits)
    if after == text:
        return verdicts, False
    if b"\r\n" in path.read_bytes():
        after = after.replace("\n", "\r\n")
    write_file(path, after.encode("utf-8", "surrogateescape"))
    return check_file(path, execute, Options(match=options.match, snapshots=options.snapshots))[0], True


def _check_case(case: Case, name: str, execute: Execute, options: Options) -> tuple[Verdict, list[Edit]]:
    start = time.perf_counter()
    found = _Findings([], [])
    try:
        with tempfile.TemporaryDirectory(prefix="hlotool-check-") as folder:
            _run_case(case, execute, options, Path(folder), found)
    except CommandError as error:
        found.add("invalid", Problem(_run_line(case), str(error)))
    except HloError as error:
        word = "unsupported" if isinstance(error, UnsupportedError) else "failed"
        found.firm = False
        found.add(word, Problem(case.line, error.diagnostics[0].message if error.diagnostics else str(error)))
    verdict = max((word for word, _ in found.problems), key=VERDICTS.index, default="passed")
    problems = tuple(problem for _, problem in found.problems)
    seconds = time.perf_counter() - start
    made = Verdict(file=str(case.path), name=name, line=case.line, verdict=verdict, problems=problems, seconds=seconds)
    return made, found.edits if found.firm else []


def _run_line(case: Case) -> int:
    return next((line for line, _ in case.notes("RUN")), case.line)


@dataclass(frozen=True, slots=True)
class _Run:
    """One RUN line: what it does, and how its output is matched (by options of the line's own where `matches`)."""

    line: int
    commands: tuple[Command, ...]
    options: MatchOptions
    matches: bool
    file: str | None = None


def _runs(case: Case, options: Options, names: Mapping[str, str]) -> list[_Run]:
    """The RUN lines of a case, a backslash joining two; the default one where it has none."""
    lines: list[tuple[int, str]] = []
    joins = False
    for line, text in case.notes("RUN"):
        if joins:
            lines[-1] = (lines[-1][0], f"{lines[-1][1][:-1]}{text}")
        else:
            lines.append((line, text))
        joins = text.endswith("\\")
    found = []
    for line, text in lines or [(case.line, _DEFAULT)]:
        try:
            commands = commands_of(text, names)
            if not commands[-1].is_match:
                found.append(_Run(line, tuple(commands), options.match, False))
                continue
            file, match = match_options(commands[-1].words[1:], options.match)
            found.append(_Run(line, tuple(commands[:-1]), match, True, None if file == names["%s"] else file))
        except CommandError as error:
            raise CommandError(f"{error} (RUN line {line})") from None
    return found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"check: {message}")


def match_options(words: Sequence[str], default: MatchOptions) -> tuple[str, MatchOptions]:
    """The file and the options that ``hlotool check`` has at the end of a pipe; CommandError for others."""
    parser = _Parser(prog="check", add_help=False, allow_abbrev=False)
    parser.add_argument("file")
    for name in ("--check-prefix", "--check-prefixes", "--implicit-check-not", "--input", "--input-file"):
        parser.add_argument(name, action="append", default=[])
    for name in ("--match-full-lines", "--strict-whitespace", "--ignore-case", "--allow-empty"):
        parser.add_argument(name, action="store_true")
    given = parser.parse_args(list(words))
    prefixes = [one for text in given.check_prefix + given.check_prefixes for one in text.split(",")]
    return given.file, MatchOptions(
        prefixes=tuple(prefixes) or default.prefixes,
        match_full_lines=given.match_full_lines or default.match_full_lines,
        strict_whitespace=given.strict_whitespace or default.strict_whitespace,
        ignore_case=given.ignore_case or default.ignore_case,
        allow_empty=given.allow_empty or default.allow_empty,
        implicit_check_not=(*default.implicit_check_not, *given.implicit_check_not),
    )


def _run_case(case: Case, execute: Execute, options: Options, folder: Path, found: _Findings) -> None:
    names = {"%s": case.path.name, "%S": str(case.path.absolute().parent), "%t": f"{case.path.name}.tmp"}
    runs = _runs(case, options, names)
    prefixes = list(dict.fromkeys([*options.match.prefixes, *(p for run in runs for p in run.options.prefixes)]))
    everything = MatchOptions(prefixes=tuple(prefixes))
    directives, wrong = _directives(case, everything)
    own = bool(case.notes("RUN"))
    if not (directives or wrong or own or case.expected or options.snapshots):
        found.add("invalid", Problem(case.line, "this checks nothing: there is no RUN line and no directive"))
        return
    for problem in wrong:
        found.add("invalid", problem)
    used = {prefix for run in runs for prefix in run.options.prefixes if run.file is None}
    for directive in directives:
        if directive.prefix not in used:
            message = f"no RUN line matches {directive.prefix}: this directive checks nothing"
            found.add("invalid", Problem(directive.line, message))
    if found.problems:
        return
    (folder / case.path.name).write_bytes(
        without_directives(case.text, prefixes).encode("utf-8", "surrogateescape")
    )
    results: list[Result] = []
    implicit = not any(run.matches for run in runs)
    for number, run in enumerate(runs, 1):
        result, failed = run_pipe(run.commands, lambda words, text: execute(words, text, folder), folder)
        results.append(result)
        found.firm = found.firm and result.code not in BUGS
        if failed and not case.expected:
            found.firm = False
            found.add(*_ended(run, result, failed))
            continue
        if run.matches or implicit:
            _hold(case, run, result, options.snapshots is not None, found)
        if options.snapshots is not None:
            _snapshot(case, number, len(runs), result, options, found)
    if case.expected:
        text = case.rendered(results)
        if text != case.expected:
            lines = tuple(difference(case.expected, text).splitlines())
            found.add("failed", Problem(case.expected_line, "not what is expected to the letter", lines))
            found.edits.append(edit_expected(case, text))


def _ended(run: _Run, result: Result, failed: str) -> tuple[str, Problem]:
    """A command that failed is unsupported where it says so."""
    said = tuple((result.messages or result.output).splitlines()[-20:])
    return "unsupported" if result.code == 4 else "failed", Problem(run.line, failed, said)


def _directives(case: Case, options: MatchOptions) -> tuple[list[Directive], list[Problem]]:
    head, wrong = directives_in(case.head, 1, options)
    body, more = directives_in(case.text, case.line, options)
    return head + body, wrong + more


def _hold(case: Case, run: _Run, result: Result, others: bool, found: _Findings) -> None:
    """Hold what one RUN line printed against the directives of its prefixes."""
    if run.file is None:
        directives, wrong = _directives(case, run.options)
    else:
        directives, wrong = directives_in(read_text(case.path.absolute().parent / run.file), 1, run.options)
    for one in wrong:
        found.add("invalid", one)
    textual = [one for one in directives if not one.is_structural]
    if not directives and run.matches:
        found.add("invalid", Problem(run.line, f"there are no directives {' or '.join(run.options.prefixes)}"))
    problem = match_text(textual, result.output, run.options)
    if problem is not None:
        found.add("failed", problem)
        if run.file is None:
            found.edits += edit_text(case, textual, result.output)
    structural = [one for one in directives if one.is_structural]
    if not structural:
        return
    modules = parse_all(result.output, f"<output of RUN line {run.line}>")
    if len(modules) != 1:
        found.add("invalid", Problem(run.line, f"{structural[0].name} is about one module, this prints {len(modules)}"))
        return
    check(modules[0])
    made = Made(partial(_given, case), modules[0], case.path.absolute().parent)
    for directive in structural:
        answered = answer(directive, made)
        if answered.problem is not None:
            found.add(answered.verdict, answered.problem)
            if answered.found is None:
                found.firm = False
            elif run.file is None:
                found.edits.append(edit_number(directive, answered.found))


def _given(case: Case) -> Module:
    module = parse(case.text, str(case.path), case.line)
    check(module)
    return module


def _snapshot(case: Case, number: int, count: int, result: Result, options: Options, found: _Findings) -> None:
    from hlotool.checks.snapshots import differs_from, snapshot_text

    assert options.snapshots is not None
    which = (f"-{case.number}" if case.number > 1 else "") + (f"-run{number}" if count > 1 else "")
    file = options.snapshots / f"{case.path.stem}{which}.txt"
    text = "\n".join(map(snapshot_text, parse_all(result.output)))
    differs = differs_from(file, text)
    if differs is None:
        return
    if options.update:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, text)
    else:
        found.add("failed", Problem(case.line, *differs))
