"""Tests in HLO: files under ``tests/hlo`` that hold commands, modules and what the commands print.

    // Why this file is there, in a sentence or two.
    // RUN: hlotool opt %s -p cse,dce

    // What this case shows.
    HloModule m
    ...
    // OUTPUT:
    // HloModule m
    // ...

    // -----

    // The next case.
    ...

The head, up to the first empty line, is for all cases; a case may have ``RUN`` lines of its own instead.  ``%s`` is a
file of the test's name with the text of the case, so that places in messages count lines from the case's first one.
What a command gives follows the module:

    // EXIT: 3            the exit code, where it is not 0
    // OUTPUT:            standard output
    // UNCHANGED          in its place, where the output is the module itself, in the normal form
    // MESSAGES:          standard error
    // NOTHING            where it says nothing at all

and with several commands these words are numbered.  ``python tests/update_hlo.py`` writes these lines anew.

They cannot say what is wrong: what ``opt`` makes of a module is also evaluated beside the module, on random numbers and
on edge values, and what whole pipelines make, or devices share, is run natively (`values_differ`).  Where that is
impossible, or of edge values means nothing, the case says why:

    // NO-RUN: reason
    // NO-EDGES: reason
"""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hlotool.cli
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import Comparison, compare_all, compare_with_truth
from hlotool.harness.inputs import inputs_of, random_inputs
from hlotool.harness.roles import NORMAL
from hlotool.ir import HloError, Module, UnsupportedError, element_type
from hlotool.passes import parse_pipeline
from hlotool.passes.framework.manager import drops_roundings
from hlotool.passes.framework.steps import Pipeline
from hlotool.text.load import SEPARATOR
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

__all__ = [
    "FOLDER",
    "Case",
    "Result",
    "cases_of",
    "difference",
    "pipeline_of",
    "run_as_process",
    "run_here",
    "values_differ",
]

FOLDER = Path(__file__).parent / "hlo"

_EXPECTED = re.compile(r"^// (?:EXIT|OUTPUT|UNCHANGED|MESSAGES|NOTHING)\b", re.MULTILINE)
_DIRECTIVE = re.compile(r"^// (RUN|NO-RUN|NO-EDGES): *(.*)$", re.MULTILINE)

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One module of a file: `text` is all of it but what is expected; `head` that of the file, with its first case."""

    path: Path
    number: int
    head: str
    text: str
    expected: str

    @property
    def title(self) -> str:
        """The first sentence of the case."""
        prose = [line[2:].strip() for line in self.text.splitlines() if line.startswith("//")]
        return next((line for line in prose if line and not _DIRECTIVE.match(f"// {line}")), "")

    @property
    def name(self) -> str:
        """For reports: ``simplify/cse-2-random-numbers-are-apart``."""
        words = re.findall(r"[a-z0-9]+", self.title.lower())
        return f"{self.path.relative_to(FOLDER).with_suffix('')}-{self.number}-{'-'.join(words)[:60].strip('-')}"

    @property
    def commands(self) -> list[list[str]]:
        """The arguments of each command, without the word hlotool."""
        lines = _directives(self.text).get("RUN") or _directives(self.head).get("RUN", [])
        return [shlex.split(line)[1:] for line in lines]

    def reason(self, directive: str) -> str | None:
        """What a directive of the case says; None where it has none."""
        return next(iter(_directives(self.text).get(directive, [])), None)

    def rendered(self, results: list[Result]) -> str:
        """What is expected, as comments, where the commands give `results`."""
        lines: list[str] = []
        for number, result in enumerate(results, 1):
            which = f" {number}" if len(results) > 1 else ""
            if result.code:
                lines.append(f"EXIT{which}: {result.code}")
            if result.output and result.output == self._as_given():
                lines.append(f"UNCHANGED{which}")
            elif result.output:
                lines += [f"OUTPUT{which}:", *result.output.splitlines()]
            if result.messages:
                lines += [f"MESSAGES{which}:", *result.messages.splitlines()]
            if result == Result(0, "", ""):
                lines.append(f"NOTHING{which}")
        return "".join(f"// {line}".rstrip() + "\n" for line in lines)

    def _as_given(self) -> str | None:
        try:
            return print_module(parse(self.text))
        except HloError:
            return None


@dataclass(frozen=True, slots=True)
class Result:
    """What a command gives."""

    code: int
    output: str
    messages: str


def _directives(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, rest in _DIRECTIVE.findall(text):
        found.setdefault(name, []).append(rest)
    return found


def cases_of(path: Path) -> list[Case]:
    """The cases of a file, in order."""
    head, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    found = []
    for number, piece in enumerate(f"\n{body}".split(f"\n{SEPARATOR}\n"), 1):
        start = _EXPECTED.search(piece)
        text, expected = (piece, "") if start is None else (piece[: start.start()], piece[start.start() :])
        found.append(Case(path, number, f"{head}\n", f"{text.strip()}\n", f"{expected.strip()}\n" if expected else ""))
    return found


def run_here(case: Case, folder: Path) -> list[Result]:
    """Run the case's commands in this process, through the entry point of the installed command."""
    return [_here(arguments, folder) for arguments in _prepared(case, folder)]


def run_as_process(case: Case, folder: Path, environment: dict[str, str]) -> list[Result]:
    """Run the case's commands as users do."""
    found = []
    for arguments in _prepared(case, folder):
        command = [sys.executable, "-m", "hlotool", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
        found.append(Result(done.returncode, done.stdout, done.stderr))
    return found


def _prepared(case: Case, folder: Path) -> Iterator[list[str]]:
    (folder / case.path.name).write_text(case.text, encoding="utf-8")
    for arguments in case.commands:
        yield [argument.replace("%s", case.path.name) for argument in arguments]


def _here(arguments: list[str], folder: Path) -> Result:
    output, messages = (TextIOWrapper(BytesIO(), "utf-8", newline="\n") for _ in range(2))
    before = sys.argv, warnings.formatwarning
    code = 0
    try:
        sys.argv = ["hlotool", *arguments]
        with chdir(folder), redirect_stdout(output), redirect_stderr(messages):
            hlotool.cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.argv, warnings.formatwarning = before
    texts = []
    for stream in (output, messages):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Result(code, *texts)


def difference(case: Case, found: str) -> str:
    """What is expected and what was found, line by line."""
    names = ("expected", "found")
    return "\n".join(difflib.unified_diff(case.expected.splitlines(), found.splitlines(), *names, lineterm="", n=5))


# ---- values


def values_differ(case: Case, results: list[Result]) -> str:
    """How a module that ``opt`` printed computes other values than the module of the case; empty where none does."""
    if case.reason("NO-RUN") is not None:
        return ""
    for arguments, result in zip(case.commands, results, strict=True):
        if arguments[0] != "opt" or result.code or result.output == case._as_given():
            continue
        before, after = parse(case.text), parse(result.output)
        try:
            if compile_module(before, "evaluate").devices > 1:
                found = _wrong(_on_devices(before, after))
            else:
                found = _compared(before, after, pipeline_of(arguments), case.reason("NO-EDGES") is None)
        except HloError as error:
            found = str(error)
        if found:
            return f"hlotool {' '.join(arguments)}: {found}"
    return ""


def pipeline_of(arguments: list[str]) -> Pipeline:
    """The pipeline of an ``opt`` command."""
    return parse_pipeline(arguments[arguments.index("-p") + 1] if "-p" in arguments else "default")


def _compared(before: Module, after: Module, pipeline: Pipeline, edges: bool) -> str:
    arguments = random_inputs(before, 1)
    excess = any(drops_roundings(pass_) for pass_ in pipeline.passes())
    try:
        bounds = bounded_results(before, arguments, excess_precision=excess)
    except UnsupportedError:  # sizes known only at run time
        wrong = _wrong(compare_all(evaluate(after, arguments), evaluate(before, arguments)))
    else:
        wrong = _wrong(compare_with_truth(evaluate(after, arguments), bounds))
        if pipeline.name == "default" and not wrong:
            wrong = _wrong(compare_with_truth(compile_module(after)(*arguments), bounds))
    if wrong or excess or not edges:
        return wrong
    with np.errstate(all="ignore"):
        arguments = _with_edges(before, arguments)
        wrong = _wrong(compare_all(evaluate(after, arguments), evaluate(before, arguments)))
    return wrong and f"of edge values, {wrong}"


def _wrong(comparisons: list[Comparison]) -> str:
    return "; ".join(f"out{n}: {c.verdict}: {c}" for n, c in enumerate(comparisons) if not c.ok)


def _on_devices(before: Module, after: Module) -> list[Comparison]:
    reference = compile_module(before, "evaluate")
    arguments = [random_inputs(before, 1, device) for device in range(reference.devices)]
    expected = reference.run_devices(arguments)
    return [
        row
        for backend in ("evaluate", "cpu")
        for given, wanted in zip(compile_module(after, backend).run_devices(arguments), expected, strict=True)
        for row in compare_all(given, wanted)
    ]


def _with_edges(module: Module, arguments: list[Array]) -> list[Array]:
    """The arguments with zeros, ones, infinities, NaN and equals among the floats, in places of their own."""
    generator = np.random.default_rng(7)
    edges = np.array([0.0, -0.0, 1.0, 1.0, -1.0, 2.5, -np.inf, np.inf, np.nan, 1e-40])
    made = []
    for leaf, given in zip(inputs_of(module), arguments, strict=True):
        array = np.array(given)
        if element_type(leaf.shape.element_type).is_float and leaf.role == NORMAL and array.size > 1:
            places = generator.random(array.shape) < 0.3
            array[places] = generator.choice(edges, int(places.sum())).astype(array.dtype)
        made.append(array)
    return made
