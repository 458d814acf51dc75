"""The options that choose, change and watch a pipeline; `opt` and `compile` have them all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Any

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.cli.common import read_module
from hlotool.cli.completion import passes
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import finite_loops_option, max_undecided_option, module_inputs_options, strict_option
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import DEFAULT, choosing_options, named_pipeline, pass_list
from hlotool.cli.reproducers import write_reproducer
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.driver import keep_loops, optimise
from hlotool.inspect.measures import measure
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.instruments import Statistics, StopAfter, VerifyEach
from hlotool.passes.framework.manager import Instrument, Progress, drops_roundings
from hlotool.passes.framework.pipeline import carried_pipeline
from hlotool.passes.framework.registry import loaded_pass
from hlotool.passes.framework.select import map_passes
from hlotool.passes.framework.steps import Pass, Pipeline
from hlotool.passes.fuse.fusion import Fusion
from hlotool.passes.fuse.multi_output_fusion import MultiOutputFusion
from hlotool.passes.fuse.product_fusion import ProductFusion

__all__ = ["PipelineChoice", "has_excess_precision", "pipeline_options"]


@dataclass(frozen=True, slots=True)
class PipelineChoice:
    """What the options of `pipeline_options` say."""

    passes: str | None
    level: str | None
    start_from: str | None
    stop_after: tuple[str, int] | None
    disable: frozenset[str]
    only: frozenset[str]
    rewrite_limit: int | None
    fuse_only: str
    no_fuse: str
    verify_each: bool
    check_each: str | None
    inputs: str | None
    seed: int
    max_undecided: float
    time_passes: bool
    pass_statistics: bool
    statistics_to: str | None
    finite_loops: bool

    def file(self, file: str | None) -> str:
        """FILE, or that of --start-from."""
        if (file is None) == (self.start_from is None):
            raise click.UsageError("give FILE, or --start-from DUMP")
        return file or self.start_from or ""

    def module(self, file: str | None) -> Module:
        """The module of FILE, or of --start-from."""
        return self.prepared(read_module(self.file(file)))

    def prepared(self, module: Module) -> Module:
        """The module, or a copy in which loops that may never end are marked to stay."""
        return module if self.finite_loops else keep_loops(module)

    def pipeline(self) -> Pipeline:
        """The passes to run.  With --start-from the module must have been read."""
        if sum(x is not None for x in (self.passes, self.level, self.start_from)) > 1:
            raise click.UsageError("-p, -O and --start-from each choose the passes: give one of them")
        text = self.passes or (f"O{self.level}" if self.level else DEFAULT)
        if self.start_from is not None:
            carried = carried_pipeline(current().sources.get(self.start_from, ""))
            if carried is None:
                raise click.UsageError(f"{self.start_from} carries no pipeline; a dump of --dump-to does")
            text = carried
        chosen = named_pipeline(text, self.disable, self.only)
        if self.fuse_only or self.no_fuse:
            chosen = map_passes(chosen, self._with_rules)
        if self.stop_after is not None and self.stop_after[0] not in {p.name for p in chosen.passes()}:
            raise click.UsageError(f"--stop-after: {self.stop_after[0]} is not among the passes {chosen}")
        return chosen

    def _with_rules(self, pass_: Pass) -> Pass:
        found = loaded_pass(pass_)
        if isinstance(found, Fusion | MultiOutputFusion | ProductFusion):
            return replace(found, only=self.fuse_only or found.only, never=self.no_fuse or found.never)
        return pass_

    def apply(
        self, module: Module, instruments: Sequence[Instrument], log: DecisionLog, progress: Progress
    ) -> Module:
        """A copy of the module with the passes applied, watched as the options say."""
        pipeline = self.pipeline()
        log.limit = self.rewrite_limit
        watchers: list[Instrument] = []
        statistics = None
        if self.time_passes or self.pass_statistics or self.statistics_to:
            measured = self.pass_statistics or self.statistics_to is not None
            statistics = Statistics(module, measure) if measured else Statistics(module)
            watchers.append(statistics)
        if self.verify_each:
            watchers.append(VerifyEach(check))
        watchers += instruments
        if self.check_each is not None:
            watchers.append(self._check_each(module))
        if self.stop_after is not None:
            watchers.append(StopAfter(*self.stop_after))
        try:
            result = self._optimise(module, pipeline, log, watchers, progress)
        finally:
            log.limit = None
        if statistics is not None:
            self._report(statistics)
        return result

    def _optimise(
        self,
        module: Module,
        pipeline: Pipeline,
        log: DecisionLog,
        instruments: Sequence[Instrument],
        progress: Progress,
    ) -> Module:
        from hlotool.harness.check_each import NumbersChanged, NumbersUndecided
        from hlotool.harness.reproducer import reproducer

        try:
            return optimise(module, pipeline, log, instruments, progress)
        except NumbersChanged as change:
            say(f"MISMATCH: {change}", err=True)
            text = reproducer(module, pipeline, progress.runs, change.pass_, str(change), self.rewrite_limit)
            write_reproducer(change.pass_.name, text, "evaluate", self.seed)
            raise CheckFailed from None
        except NumbersUndecided as nothing:
            say(f"UNDECIDED: {nothing}", err=True)
            raise CheckFailed from None

    def _check_each(self, module: Module) -> Instrument:
        from hlotool.harness.check_each import CheckEach, NumbersUndecided
        from hlotool.harness.input_files import module_inputs

        arrays = module_inputs(module, self.inputs, self.seed)
        try:
            return CheckEach(module, arrays, max_undecided=self.max_undecided)
        except NumbersUndecided as nothing:
            say(f"UNDECIDED: {nothing}", err=True)
            raise CheckFailed from None

    def _report(self, statistics: Statistics) -> None:
        if self.time_passes:
            say(_times(statistics), err=True)
        if self.pass_statistics:
            say(_changes(statistics), err=True)
        if self.statistics_to is not None:
            rows = [
                {
                    "pass": run.name,
                    "changed": run.changed,
                    "seconds": run.seconds,
                    "before": dict(run.before),
                    "after": dict(run.after),
                }
                for run in statistics.runs
            ]
            text = json.dumps({"schema_version": 1, "kind": "pass-statistics", "runs": rows}, indent=1)
            write_text(self.statistics_to, text + "\n")


def has_excess_precision(pipelines: Sequence[str]) -> bool:
    """Whether a pass of one of the pipelines leaves out roundings, so that results may be more exact than asked for."""
    return any(drops_roundings(pass_) for text in pipelines for pass_ in named_pipeline(text).passes())


def _times(statistics: Statistics) -> str:
    seconds: dict[str, float] = {}
    runs: dict[str, int] = {}
    changes: dict[str, int] = {}
    for run in statistics.runs:
        seconds[run.name] = seconds.get(run.name, 0.0) + run.seconds
        runs[run.name] = runs.get(run.name, 0) + 1
        changes[run.name] = changes.get(run.name, 0) + run.changed
    total = sum(seconds.values())
    lines = [f"{'pass':34}{'runs':>6}{'changed':>9}{'ms':>10}{'share':>8}"]
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        share = seconds[name] / total if total else 0.0
        lines.append(f"{name:34}{runs[name]:>6}{changes[name]:>9}{seconds[name] * 1e3:>10.2f}{share:>8.1%}")
    lines.append(f"{'all':34}{len(statistics.runs):>6}{sum(changes.values()):>9}{total * 1e3:>10.2f}{1:>8.1%}")
    return "\n".join(lines)


def _changes(statistics: Statistics) -> str:
    names = ("instructions", "flops", "bytes", "peak_bytes")
    width = 25
    lines = [f"{'pass':34}" + "".join(f"{name.replace('_', ' '):>{width}}" for name in names)]
    for run in statistics.runs:
        if run.changed:
            cells = (
                f"{run.before[name]:,} -> {run.after[name]:,}" if run.before[name] != run.after[name] else "."
                for name in names
            )
            lines.append(f"{run.name:34}" + "".join(f"{cell:>{max(width, len(cell) + 2)}}" for cell in cells))
    cells = (f"{statistics.now[name]:,}" for name in names)
    lines.append(f"{'in the end':34}" + "".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join(lines)


def _stop(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    name, colon, count = value.partition(":")
    if colon and not (count.isdecimal() and int(count) > 0):
        raise click.BadParameter(f"expected PASS or PASS:N, not {value!r}", context, parameter)
    pass_list(context, parameter, name)
    return name, int(count or "1")


def _expression(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    try:
        re.compile(value or "")
    except re.error as error:
        raise click.BadParameter(f"no regular expression: {error}", context, parameter) from None
    return value or ""


_CHOOSE, _LEAVE_OUT = choosing_options()
_OPTIONS: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
    *_CHOOSE,
    click.option(
        "--start-from",
        type=click.Path(dir_okay=False),
        metavar="DUMP",
        help="Go on from a dump, with the passes that were still to run.",
    ),
    click.option(
        "--stop-after", callback=_stop, metavar="PASS[:N]", help="End after the (N-th) run of a pass.",
        shell_complete=passes,
    ),
    *_LEAVE_OUT,
    click.option(
        "--rewrite-limit", type=click.IntRange(0), metavar="N", help="Stop rewriting after N rewrites: for bisection."
    ),
    click.option(
        "--fuse-only", callback=_expression, metavar="RE", help="Fuse only instructions whose name RE finds."
    ),
    click.option(
        "--no-fuse", callback=_expression, metavar="RE", help="Fuse no instructions whose name RE finds."
    ),
    click.option(
        "--verify-each/--no-verify-each", default=True, show_default=True, help="Verify the module after every pass."
    ),
    click.option(
        "--check-each",
        type=click.Choice(["evaluate"]),
        help="Evaluate the module after every pass; exit 1 and name the first pass that changes its numbers by more "
        "than their error bounds (see run --compare), or say that nothing is known of them.",
    ),
    module_inputs_options(", for --check-each"),
    strict_option,
    finite_loops_option,
    max_undecided_option("With --check-each: how much of an output may be undecided, as in 5% or 0.05."),
    click.option("--time-passes", is_flag=True, help="Show on standard error how long each pass took."),
    click.option(
        "--pass-statistics",
        is_flag=True,
        help="Show what each pass did to the numbers of instructions, operations, bytes moved and bytes alive.",
    ),
    click.option(
        "--statistics-to",
        type=click.Path(dir_okay=False),
        metavar="FILE.json",
        help="Write seconds and numbers of every run of a pass.",
    ),
]


def pipeline_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as one `PipelineChoice` called `choice`."""
    names = [row.name for row in fields(PipelineChoice)]

    @wraps(command)
    def gathered(**values: Any) -> Any:
        return command(choice=PipelineChoice(**{name: values.pop(name) for name in names}), **values)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
