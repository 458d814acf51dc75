"""``hlotool bisect``."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy.typing as npt

from hlotool.cli.bisect_report import bisect_json, bisect_text, pages_of
from hlotool.cli.common import read_run
from hlotool.cli.errors import CheckFailed
from hlotool.cli.input_options import input_arrays
from hlotool.cli.options import (
    Share,
    backend_option,
    check_backend,
    file_argument,
    format_option,
    is_given,
    max_undecided_option,
)
from hlotool.cli.output import write_bytes
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.harness.archive import write_named
from hlotool.harness.bisection.answers import Answers, Memory
from hlotool.harness.bisection.inputs import GuiltyInputs, find_inputs
from hlotool.harness.bisection.passes import find_pass
from hlotool.harness.bisection.pipeline import find_pipeline
from hlotool.harness.bisection.question import Finding, Question
from hlotool.harness.bisection.reproducer import Reproducer, reproducer
from hlotool.harness.children import Children
from hlotool.harness.failure import Outcome
from hlotool.harness.input_files import arrays_of
from hlotool.harness.inputs import inputs_of
from hlotool.harness.trials import CommandTrial
from hlotool.inspect.files import write_file
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.pipeline import carried_pipeline
from hlotool.passes.framework.steps import pipeline_text
from hlotool.text.printer import print_module

if TYPE_CHECKING:
    from hlotool.text.load import Snapshot

__all__ = ["command"]

_WHAT = ("passes", "rewrites", "pipeline", "inputs")
_FILES = ("reproducer.hlo", "before.hlo", "after.hlo", "rewrite.diff", "rewrite.html", "good.npz", "bad.npz")


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """What the user asks for, by the names of the command line's parameters."""

    what: str
    file: str
    passes: str
    cmd: str | None
    code: int | None
    message: str | None
    backend: str
    inputs: str | None
    values: tuple[str, ...]
    seed: int | None
    seeds: int
    max_undecided: float
    timeout: float | None
    repeats: int
    confidence: float
    output: str
    restart: bool
    form: str

    def check(self) -> None:
        """UsageError for options that do not go together."""
        check_backend(self.backend)
        if self.cmd is None and (self.message is not None or self.code is not None):
            raise click.UsageError("--code and --message are about what --cmd answers")
        if self.what == "inputs" and self.repeats > 1:
            raise click.UsageError("--repeats is for passes, rewrites and pipeline")
        if self.what == "inputs" and self.cmd is not None and "{inputs}" not in self.cmd:
            raise click.UsageError("bisect inputs: --cmd has to take the inputs, {inputs}")
        if not 0 < self.confidence < 1:
            raise click.UsageError("--confidence lies between 0% and 100%, without these")
        try:
            re.compile(self.message or "")
        except re.error as error:
            raise click.BadParameter(f"no regular expression: {error}", param_hint="--message") from None

    def question(
        self, text: str, arguments: tuple[npt.NDArray[Any], ...] | None, carried: str | None = None
    ) -> Question:
        """What is asked of the module with that text, which may have come with a pipeline that it carried."""
        asked = CommandTrial(command=self.cmd or "", code=self.code, message=self.message, timeout=self.timeout)
        return Question(
            text=text,
            pipeline=pipeline_text(named_pipeline(self.passes if carried is None else carried), names=False),
            backend=self.backend,
            seed=self.seed or 0,
            arguments=arguments,
            max_undecided=self.max_undecided,
            command=None if self.cmd is None else asked,
        )

    def key(self, question: Question) -> dict[str, Any]:
        """What answers depend on; the searches for passes and for rewrites share them."""
        what = "steps" if self.what in ("passes", "rewrites") else self.what
        return {**question.key(what), "repeats": self.repeats, "timeout": self.timeout}


@click.command("bisect")
@click.argument("what", type=click.Choice(_WHAT))
@file_argument
@passes_options()
@click.option(
    "--cmd",
    metavar="COMMAND",
    help="Ask this line of shell in place of comparing: {} is a file with the module as passes left it, else it is on "
    "standard input; {inputs} is an archive of the inputs (bisect inputs). Exit codes as for git bisect run: 0 good, "
    "125 cannot tell, up to 127 bad, above that the search ends.",
)
@click.option("--code", type=click.IntRange(0, 255), metavar="N", help="With --cmd: this exit code alone is bad.")
@click.option("--message", metavar="RE", help="With --cmd: bad only where what it says has this regular expression.")
@backend_option("cpu, evaluate, or an installed one.")
@click.option(
    "--inputs", type=click.Path(dir_okay=False), metavar="FILE",
    help="Arrays by name or as arg0, arg1, ... (.npz, .safetensors), or a snapshot of XLA.",
)  # fmt: skip
@click.option(
    "--input", "values", multiple=True, metavar="NAME=SPEC", help="One parameter, as for run; the others are random."
)
@click.option("--random", "seed", type=click.IntRange(0), metavar="SEED", help="Seed of random inputs. [default: 0]")
@click.option(
    "--seeds", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="With bisect inputs: try so many seeds, in order, until one fails.",
)  # fmt: skip
@max_undecided_option("How much of an output may be undecided, as in 5% or 0.05.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="For each try.")
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="For what fails only sometimes: try the whole N times (such as 20) to see how often, and whatever seems good "
    "as often as --confidence takes.",
)
@click.option(
    "--confidence", type=Share(), default="95%", show_default=True, metavar="SHARE",
    help="With --repeats: how sure each 'good' is.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), default="hlotool-bisect", show_default=True, metavar="DIR",
    help="Write the reproducer, the page and the modules before and after here.",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Forget what an interrupted search found out.")
@format_option
def command(**given: Any) -> None:
    """Find what makes FILE fail: a pass, a rewrite in it, a few of the passes, or an input.

    \b
    passes    the first run of a pass after which it fails
    rewrites  that, and the rewrite in it
    pipeline  the passes of the pipeline that it takes, without those that it does not take
    inputs    the parameters that it takes, and the element that turns right into wrong

    To fail is to compute other numbers than the evaluator, as run --compare evaluate finds them; to crash, or to end
    with an error, in a pass, in code generation or in the code; or what --cmd says.  Tries run in a child process.

    The module is halved by what passes do to it, in the order in which they do it; both ends are tried, and what is
    found was bad with it and good without it, twice.  What cannot be decided is never good: it is gone around, and in
    the end candidates are named.  Where the modules before and after compute the same, and only the code made of the
    latter is wrong, or where it fails with no pass at all, the verdict is code-generation.

    Passes are those of -p or -O, else those that FILE carries in its header, as dumps and reproducers do.

    In DIR: reproducer.hlo, a module just ahead of the guilty rewrite that carries the pass (see repro); before.hlo,
    after.hlo, rewrite.diff, and rewrite.html, which shows both; of inputs good.npz and bad.npz; and bisect.json.  An
    interrupted search leaves state.json there, and the same command goes on from it.

    \b
    Examples:
      hlotool bisect rewrites step.hlo
      hlotool bisect passes step.hlo -O3 --cmd 'my-check {}'
      hlotool bisect pipeline step.hlo --random 7 --format json
      hlotool bisect inputs step.hlo --seeds 100

    Exits 0 when it is found, 1 when nothing fails or it cannot be told.
    """
    options = BisectOptions(**given)
    options.check()
    module, arguments = _read(options)
    source = current().sources.get("<stdin>" if options.file == "-" else options.file, "")
    carried = None if is_given("passes", "level", "disable", "only") else carried_pipeline(source)
    question = options.question(print_module(module), arguments, carried)
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    memory = Memory(options.key(question), folder / "state.json", lambda path, text: write_file(path, text))
    if not options.restart and memory.load():
        say(f"going on from {memory.path}, with {len(memory.answers)} answers (--restart forgets them)", err=True)
    started = time.perf_counter()
    with Children(1, options.timeout if options.cmd is None else None) as children:
        answers = Answers(question.text, children, memory, _progress())
        try:
            finding, guilty, repro = _search(options, answers, question)
        except KeyboardInterrupt:
            if memory.answers:
                say(f"{len(memory.answers)} answers are in {memory.path}; the same command goes on from them", err=True)
            raise
    _remove_old(folder)
    files = _write(folder, module, finding, guilty, repro)
    answer = bisect_json(options.what, module.name, finding, guilty, repro, files, answers.asked)
    if files:
        _put(folder / "bisect.json", json.dumps(answer, indent=1) + "\n")
    memory.forget()
    with suppress(OSError):
        folder.rmdir()  # where nothing is in it
    if options.form == "json":
        click.echo(json.dumps(answer))
    else:
        seconds = time.perf_counter() - started
        say(bisect_text(finding, guilty, repro, folder, files, answers.asked, seconds))
    if finding.verdict not in ("found", "code-generation"):
        raise CheckFailed


def _search(
    options: BisectOptions, answers: Answers, question: Question
) -> tuple[Finding, GuiltyInputs | None, Reproducer | None]:
    """What is found: of inputs which, of passes a reproducer."""
    if options.what == "inputs":
        return *find_inputs(answers, question, options.seeds), None
    often = options.confidence, options.repeats
    if options.what == "pipeline":
        finding = find_pipeline(answers, question, *often)
    else:
        finding = find_pass(answers, question, options.what == "rewrites", *often)
    return finding, None, reproducer(answers, question, finding)


def _read(options: BisectOptions) -> tuple[Module, tuple[npt.NDArray[Any], ...] | None]:
    """The module of the file, and the arrays that the options, or the file itself, give for it."""
    archive, values, seed = options.inputs, options.values, options.seed
    _, snapshot = read_run(options.file)
    module, recorded = snapshot.module, None if seed is not None else _recorded(snapshot)
    if archive is None and not values and recorded is None:
        return module, None
    inputs = inputs_of(module)
    shapes = [leaf.shape for leaf in inputs]
    chosen = seed if recorded is not None or archive is not None else seed or 0
    (arrays,) = input_arrays(inputs, shapes, 1, archive, values, chosen, recorded)
    return module, tuple(arrays)


def _recorded(snapshot: Snapshot) -> list[list[npt.NDArray[Any]]] | None:
    """The arrays that a snapshot of one device holds."""
    rows = [[array for literal in row for array in arrays_of(literal)] for row in snapshot.partitions]
    return rows if len(rows) == 1 and any(rows) else None


def _progress() -> Callable[[str, Outcome | None], None]:
    """Says on a terminal what is tried, and what came of it."""
    if not sys.stderr.isatty():
        return lambda what, outcome: None
    count = 0

    def tell(what: str, outcome: Outcome | None) -> None:
        nonlocal count
        if outcome is None:
            count += 1
            click.echo(f"\r\x1b[K{count:4}  {what} ...", nl=False, err=True)
        else:
            click.echo("\r\x1b[K", nl=False, err=True)
            say(f"{count:4}  {what}: {outcome}", err=True)

    return tell


def _put(path: Path, text: str) -> str:
    write_bytes(path, lambda stream: stream.write(text.encode("utf-8", "surrogateescape")))
    return path.name


def _remove_old(folder: Path) -> None:
    """Remove the files of an earlier finding, which would mix with the new ones."""
    for name in (*_FILES, "bisect.json"):
        (folder / name).unlink(missing_ok=True)


def _write(
    folder: Path, module: Module, finding: Finding, guilty: GuiltyInputs | None, repro: Reproducer | None
) -> list[str]:
    """Write what was found; the names of the files."""
    files = []
    if repro is not None:
        files.append(_put(folder / "reproducer.hlo", repro.text))
    if finding.culprit is not None:
        files += [_put(folder / name, text) for name, text in pages_of(module.name, finding).items()]
    if guilty is not None:
        for name, arrays in (("good.npz", guilty.good), ("bad.npz", guilty.bad)):
            named = [(f"arg{n}", array) for n, array in enumerate(arrays)]
            write_bytes(folder / name, lambda stream, named=named: write_named(stream, named))  # type: ignore[misc]
            files.append(name)
    return files
