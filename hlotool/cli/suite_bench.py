"""``hlotool bench --suite``: times the cases of suites, hlotool's code and its peers taking turns."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy.typing as npt

import hlotool
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.analysis.roofline import Roof, operations
from hlotool.cli.bench_programs import BenchOptions, Program, build_of, own_entrants
from hlotool.cli.command_jobs import answer_of, command_result, machine_words, option_words, sent_command
from hlotool.cli.errors import CheckFailed
from hlotool.cli.executor_options import opened_jobs
from hlotool.cli.options import is_given
from hlotool.cli.output import write_text
from hlotool.cli.progress import progress
from hlotool.cli.suite_report import REPORTS
from hlotool.cli.tables import Table, show_tables
from hlotool.cli.words import say
from hlotool.driver import optimise
from hlotool.harness.bench import Contestant, Timing, take_turns
from hlotool.harness.facts import facts
from hlotool.harness.roof import measure_roof
from hlotool.inspect.suite_run import CaseResult, Result, SuiteRun, run_from_json
from hlotool.inspect.suite_site import add_to_site
from hlotool.ir import ExecutionError, HloError, InputError
from hlotool.lazy_dataclass import dataclass
from hlotool.suites.case import FULL, SMALL, Case
from hlotool.suites.contestants import difference, peer_of
from hlotool.suites.modules import arrays_of, module_of
from hlotool.suites.names import PEERS, SUITES
from hlotool.suites.tables import suite_cases
from hlotool.text.printer import print_module

__all__ = ["run_suites"]

_TIMEOUT = 120.0
"""Seconds that a peer may take to compile, or to run once."""
_SLOW = 2.0
"""Seconds of a call above which a peer that takes ten times as long as hlotool is timed by one call."""
_QUICK_FLOPS = 20e9
_NOT_WITH_SUITES = ("inputs", "baseline", "baseline_passes", "gate", "elided", "donate", "replicas", "partitions")


def run_suites(options: BenchOptions) -> None:
    """Time suites and report; CheckFailed where a contestant's results are not hlotool's, or hlotool fails."""
    if options.files:
        raise click.UsageError("--suite goes without FILE")
    for name in _NOT_WITH_SUITES:
        if is_given(name):
            raise click.UsageError(f"--{'fail-if' if name == 'gate' else name.replace('_', '-')} goes with FILE")
    if "list" in options.suites:
        _show_suites(options)
        return
    cases = _chosen(options)
    if not cases:
        raise InputError("no case of the suites has such a name; --suite list shows how many there are")
    if options.emit_to is not None:
        _emit(cases, options.emit_to)
        return
    os.environ["HLOTOOL_CACHE"] = "off"  # of this process: compile times are those of a first compilation
    run = _run(cases, _with_quick(options)) if options.executor is None else _run_there(cases, options)
    write_text(options.output, REPORTS[options.form](run))
    if options.site is not None:
        for problem in add_to_site(Path(options.site), run):
            say(problem, err=True)
    wrong = {"MISMATCH", "failed"}
    if any(result.status in wrong for case in run.cases for result in case.results):
        raise CheckFailed


def _chosen(options: BenchOptions) -> list[Case]:
    names = list(SUITES) if "all" in options.suites else list(dict.fromkeys(options.suites))
    cases = [case for name in names for case in suite_cases(name, SMALL if options.small else FULL)]
    if options.headlines:
        cases = [case for case in cases if case.headline]
    return [case for case in cases if options.cases is None or options.cases.search(case.full_name)]


def _show_suites(options: BenchOptions) -> None:
    rows = []
    for name, words in SUITES.items():
        cases = suite_cases(name, SMALL)
        rows.append((name, str(len(cases)), words, ", ".join(case.name for case in cases if case.headline)))
    show_tables([Table("suites", ("suite", "cases", "what", "headlines"), rows, frozenset({"cases"}))])


def _emit(cases: Sequence[Case], folder: str) -> None:
    for case in cases:
        path = Path(folder) / case.suite / f"{case.name}.hlo"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
        write_text(str(path), print_module(module_of(case)))
    say(f"{len(cases)} modules in {folder}")


def _with_quick(options: BenchOptions) -> BenchOptions:
    """The options, with less time for each where --quick asks for that and nothing else is said."""
    if not options.quick:
        return options
    less: dict[str, Any] = {"rounds": 2, "seconds": 0.1, "warmup": 0.1}
    return replace(options, **{name: value for name, value in less.items() if not is_given(name)})


def _run(cases: Sequence[Case], options: BenchOptions) -> SuiteRun:
    begun, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    load = list(os.getloadavg()) if hasattr(os, "getloadavg") else None
    roof = measure_roof(options.threads) if options.roof else None
    versions: dict[str, str] = {}
    rows = []
    with progress() as tell:
        for number, case in enumerate(cases):
            late = options.max_seconds is not None and time.monotonic() - clock > options.max_seconds
            if late:
                rows.append(CaseResult(suite=case.suite, name=case.name, left_out="the time of --max-seconds was up"))
                continue
            tell(f"{number + 1} of {len(cases)}: {case.full_name}")
            rows.append(_timed(case, options, versions))
    return _record(options, begun, load, roof, versions, rows)


def _run_there(cases: Sequence[Case], options: BenchOptions) -> SuiteRun:
    """The same on the machines of an executor: a job is this command for one case, alone on its machine.

    The run has the facts of the first machine, and roofs where there was but one."""
    assert options.executor is not None
    if options.max_seconds is not None:
        raise click.UsageError("--max-seconds goes without --executor")
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    words = option_words(click.get_current_context(), _OF_THE_WHOLE)
    machines = [""] * len(cases)

    def note(number: int, found: Mapping[str, Any]) -> None:
        machines[number] = machine_words(found)

    with opened_jobs(options.executor, "bench", options.job_limit, options.journal) as jobs:
        futures = [
            sent_command(
                jobs, ["bench", *words, "--suite", case.suite, "--cases", _exactly(case), "--format", "json"],
                alone=not options.at_once, machine=partial(note, number),
            )
            for number, case in enumerate(cases)
        ]  # fmt: skip
        named = zip([case.full_name for case in cases], futures, strict=True)
        runs = [run_from_json(answer_of(command_result(future, name), name)) for name, future in named]
    pairs = zip(runs, machines, strict=True)
    found = [replace(row, machine=machine) for run, machine in pairs for row in run.cases]
    versions = {name: text for run in reversed(runs) for name, text in run.versions.items()}
    alike = len(set(machines)) == 1
    return replace(
        runs[0], time=begun, cases=tuple(found), versions=versions, roof=runs[0].roof if alike else None,
        options={**runs[0].options, "suites": list(options.suites)},
    )


def _exactly(case: Case) -> str:
    """What --cases has, so that it is this one."""
    return f"^{re.escape(case.full_name)}$"


_OF_THE_WHOLE = (
    "suites", "cases", "headlines", "emit_to", "site", "executor", "job_limit", "journal", "at_once", "form", "output",
)  # fmt: skip
"""Parameters that are no business of a job's."""


def _record(
    options: BenchOptions, begun: str, load: list[float] | None, roof: Roof | None, versions: dict[str, str],
    rows: Sequence[CaseResult],
) -> SuiteRun:  # fmt: skip
    machine = {}
    for fact in facts(()):
        if fact.group == "environment":
            break
        if fact.group in ("processor", "limits"):
            machine[fact.name] = fact.value
        elif fact.name in ("hlotool", "CPython", "LLVM", "platform", "numpy"):
            versions.setdefault(fact.name, fact.value)
    return SuiteRun(
        time=begun, tool_version=hlotool.__version__, build=build_of(), machine=machine, versions=versions, load=load,
        roof=roof, cases=tuple(rows),
        options={
            "suites": list(options.suites), "seconds": options.seconds, "rounds": options.rounds,
            "pipelines": list(options.pipelines.values()), "cpus": list(options.machines), "small": options.small,
            "quick": options.quick,
        },
    )  # fmt: skip


def _timed(case: Case, options: BenchOptions, versions: dict[str, str]) -> CaseResult:
    """A case, its contestants taking turns."""
    module = module_of(case)
    optimised = optimise(module)
    cost = ModuleCost(optimised).total
    row = CaseResult(
        suite=case.suite, name=case.name, source=case.source, flops=operations(cost), bytes=cost.bytes,
        touched=peak_bytes(optimised),
    )  # fmt: skip
    if options.quick and row.flops > _QUICK_FLOPS:
        return replace(row, left_out=f"{row.flops / 1e9:.0f} GFLOP are too many for --quick")
    arrays = arrays_of(case, options.seed)
    program = Program(case.full_name, print_module(module), module, arrays)
    ring = _Ring()
    try:
        for entrant in own_entrants(program, options):
            ring.enter(entrant.contestant.label, lambda one=entrant: one.contestant)  # type: ignore[misc]
        if ring.is_sound():
            for against in options.against:
                if against.name in PEERS:
                    peer = _peer(against.name, case, program.text, arrays, options)
                    ring.enter(against.name, peer, versions)
            ring.time(options)
    finally:
        ring.close()
    return replace(row, results=tuple(ring.results()))


def _peer(
    name: str, case: Case, text: str, arrays: Sequence[npt.NDArray[Any]], options: BenchOptions
) -> Callable[[], Contestant]:
    return lambda: peer_of(name, case, text, arrays, options.pythons, _TIMEOUT)


@dataclass(slots=True)
class _Entered:
    """A contestant that was asked to take part: its timing once it is started and right, else a result."""

    name: str
    contestant: Contestant | None = None
    timing: Timing | None = None
    result: Result | None = None


class _Ring:
    """The contestants on a case, the first of which says what is right."""

    def __init__(self) -> None:
        self._entered: list[_Entered] = []

    def is_sound(self) -> bool:
        """Whether the first contestant, hlotool, has results."""
        return self._entered[0].timing is not None

    def enter(
        self, name: str, make: Callable[[], Contestant], versions: dict[str, str] | None = None
    ) -> None:
        """Start a contestant, and compare."""
        one = _Entered(name)
        self._entered.append(one)
        try:
            one.contestant = make()
            started = one.contestant.start()
            if versions is not None and name not in versions:
                versions[name] = one.contestant.version()  # type: ignore[attr-defined]
        except HloError as error:
            status = "not available" if versions is not None else "failed"
            one.result = Result(name=name, status=status, why=error.message.splitlines()[0])
            return
        first = self._entered[0]
        right = first.timing.started.outputs if first.timing is not None else started.outputs
        wrong = difference(started.outputs, right)
        if wrong:
            one.result = Result(name=name, status="MISMATCH", why=wrong)
        else:
            one.timing = Timing(name, started)

    def time(self, options: BenchOptions) -> None:
        """Turns of all that are right; one that dies meanwhile is out, and the others begin anew."""
        while True:
            right = [(one, one.timing) for one in self._entered if one.timing is not None]
            pairs = [(_Watched(one), timing) for one, timing in right if not self._is_slow(timing)]
            try:
                for one, timing in right:
                    timing.samples[:] = _Watched(one).sample(0.0, 1) if self._is_slow(timing) else []
                watched, timings = zip(*pairs, strict=True)
                take_turns(watched, timings, options.rounds, options.seconds, options.warmup)
                return
            except _DiedError as death:
                death.one.timing = None
                status = "failed" if death.one is self._entered[0] else "not available"
                death.one.result = Result(name=death.one.name, status=status, why=death.why)
                if death.one is self._entered[0]:
                    return

    def _is_slow(self, timing: Timing) -> bool:
        """Whether a peer is so slow that it is called once, and not in turns: that would take minutes."""
        own = self._entered[0].timing
        return own is not None and timing.started.first > max(_SLOW, 10 * own.started.first)

    def results(self) -> Iterator[Result]:
        for one in self._entered:
            if one.timing is None or not one.timing.samples:
                yield one.result or Result(name=one.name, status="failed", why="hlotool failed while it was timed")
                continue
            steady, started = one.timing.steady, one.timing.started
            yield Result(
                name=one.name, status="ok", median=steady.median, low=steady.low, high=steady.high,
                compile=started.parse + started.compile, first=started.first, warm=one.timing.warm,
            )  # fmt: skip

    def close(self) -> None:
        for one in self._entered:
            close = getattr(one.contestant, "close", None)
            if close is not None:
                close()


class _DiedError(Exception):
    def __init__(self, one: _Entered, why: str) -> None:
        super().__init__(why)
        self.one, self.why = one, why


class _Watched:
    """A contestant whose failures say whose they are."""

    def __init__(self, one: _Entered) -> None:
        self.label, self._one = one.name, one

    def start(self) -> Any:
        raise NotImplementedError("it was started")

    def sample(self, seconds: float, batch: int) -> list[float]:
        assert self._one.contestant is not None
        try:
            return self._one.contestant.sample(seconds, batch)
        except HloError as error:
            raise _DiedError(self._one, error.message.splitlines()[0]) from error
