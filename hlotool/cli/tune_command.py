"""``hlotool tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from hlotool.cli.common import read_module
from hlotool.cli.durations import Seconds
from hlotool.cli.executor_options import EXECUTORS, executor_name, opened_jobs
from hlotool.cli.options import cpu_option, format_option, threads_option
from hlotool.cli.output import write_text
from hlotool.cli.progress import progress
from hlotool.cli.tune_report import show_database, show_result, show_space
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine, default_machine, runs_here
from hlotool.driver.cpu import BACKEND
from hlotool.driver.tuned import VERSION, key_of, read_database
from hlotool.harness.awake import Awake
from hlotool.harness.inputs import random_inputs
from hlotool.harness.profile import Measurement
from hlotool.harness.tune import (
    Budget,
    Journal,
    Local,
    Plan,
    Subject,
    add_entries,
    entry_for,
    kernels_in,
    module_subject,
    search,
    wanted_subject,
)
from hlotool.harness.tune.search import Result
from hlotool.harness.tune.trial import Setting, options_of
from hlotool.harness.tune.write import text_of
from hlotool.inspect.search_picture import search_picture
from hlotool.ir import ExecutionError, InputError, Module, UnsupportedError, clone_module
from hlotool.runtime.tuning import default_database, target_key

__all__ = ["command"]

_PROFILED = 0.3
"""Seconds for which a module is profiled."""
_MODULES = 0.2
"""Of the budget, for modules as a whole, before their kernels."""


@click.command("tune")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--database", type=click.Path(dir_okay=False, path_type=Path), metavar="DB",
              help="The database (default: HLOTOOL_TUNE_DATABASE, else tuning.jsonl in the user's data).")  # fmt: skip
@click.option("--budget", type=Seconds(), metavar="TIME", help="Search so long: 90s, 10min.  [default: 5min]")
@click.option("--trials", type=click.IntRange(1), metavar="N", help="Try so many candidates, whatever time they take.")
@click.option("--kernels", type=click.IntRange(1), default=40, show_default=True, metavar="N",
              help="Tune the N kernels that take longest, of all files.")  # fmt: skip
@click.option("--scope", type=click.Choice(["all", "kernels", "modules"]), default="all", show_default=True,
              help="Kernels, or what passes fuse and how in modules, or first these and then those.")  # fmt: skip
@click.option("--exact", is_flag=True, help="Only what leaves every bit of all results as it is.")
@click.option("--model", type=click.Choice(["linear", "trees"]), default="linear", show_default=True,
              help="What ranks candidates; trees needs scikit-learn: pip install 'hlotool[tune]'.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all that is drawn.")
@click.option("--executor", callback=executor_name, metavar=EXECUTORS,
              help="Where candidates are compiled and checked: N processes, the workers of a scheduler of Dask, the "
              "ranks of MPI, or the executor of concurrent.futures that FUNCTION gives; machines of this kind.  They "
              "are timed here, one at a time.")  # fmt: skip
@click.option("--limit", type=Seconds(), default="60s", show_default=True, metavar="TIME",
              help="End a candidate that takes longer.")  # fmt: skip
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="What was measured so far; a search that was cut off goes on.  [default: DB.journal]")  # fmt: skip
@click.option("--picture", type=click.Path(dir_okay=False), metavar="OUT.svg", help="Draw the search.")
@click.option("--space", is_flag=True, help="Print what could be chosen for the kernels of FILE, and search nothing.")
@click.option("--show", is_flag=True, help="Print what is in the database.")
@click.option("--merge", "merged", multiple=True, type=click.Path(dir_okay=False, path_type=Path), metavar="DB2",
              help="Take the entries of another database that gain more.")  # fmt: skip
@click.option("--prune", is_flag=True, help="Remove from the database what this version cannot use.")
@click.option("--export", type=click.Path(dir_okay=False), metavar="OUT", help="Write this machine's entries there.")
@cpu_option
@threads_option
@format_option
def command(
    files: tuple[str, ...], database: Path | None, budget: float | None, trials: int | None, kernels: int, scope: str,
    exact: bool, model: str, seed: int, executor: str | None, limit: float, journal: Path | None, picture: str | None,
    space: bool, show: bool, merged: tuple[Path, ...], prune: bool, export: str | None, machine: Machine | None,
    threads: int | None, form: str,
) -> None:  # fmt: skip
    """Search for what makes the kernels of FILEs quickest on this machine, and keep it in a database.

    Formulas decide how a kernel is written: its tiles, what is packed, vectors, unrolling, tasks and more.  This tries
    other choices.  A candidate is compiled and run in a child process, which it may take down; its numbers are checked,
    as by run --compare evaluate, before it is timed, in turns with the best so far.  Kernels are profiled first, and
    those have more of the search that take more of the time.  What is kept was timed once more at the end, and is
    clearly quicker than without.

    The database is lines of JSON.  An entry is for a kernel, whatever its names, a target and a version of hlotool.
    HLOTOOL_TUNE=read, or --tune read of compile, run, build and bench, has programs take them; HLOTOOL_TUNE=write has
    them note kernels without an entry, which `hlotool tune` without FILE searches then.

    A search that was cut off goes on when it is started again in the same way: it asks the same questions, and takes
    the answers that it has from its journal.

    \b
        hlotool tune model.hlo --budget 5min
        hlotool tune --show
        HLOTOOL_TUNE=read hlotool run model.hlo
        hlotool tune model.hlo --space
        hlotool tune --merge colleague.jsonl --prune
    """
    path, machine = database or default_database(), machine or default_machine()
    if not files and (show or merged or prune or export is not None):
        _keep(path, merged, prune, export, machine, show, form)
        return
    if show or merged or prune or export is not None:
        raise click.UsageError("--show, --merge, --prune and --export go without FILE")
    if not runs_here(machine):
        raise UnsupportedError(f"this processor cannot run code for {machine.cpu}: it cannot be tuned here")
    setting = Setting(machine, threads, exact)
    modules = {file: read_module(file, runs=True) for file in files}
    if space:
        book, clock = Journal.open(None, {}), Awake()
        show_space(_kernel_subjects(modules, setting, kernels, path, {}, book, clock, _silent)[0], setting, form)
        return
    plan = Plan(seed=seed, exact=exact, model="trees" if model == "trees" else "linear")
    seconds = budget if budget is not None or trials is not None else 300.0
    with ExitStack() as stack, progress(after=0) as tell, Awake() as clock:
        checkers = None  # else the child that times them
        if executor is not None:
            checkers = stack.enter_context(opened_jobs(executor, "tune", limit, again=0))
        lab = Local(setting, limit, checkers)
        stack.callback(lab.close)
        head: dict[str, Any] = {
            "kind": "tune-journal", "version": VERSION, "target": target_key(machine), "threads": threads,
            "files": list(files),
            "seed": seed, "exact": exact, "model": model, "scope": scope, "kernels": kernels,
            "budget": seconds, "trials": trials,
        }  # fmt: skip
        book = stack.enter_context(_journal(path, journal, head))
        if book.replayed:
            say(f"goes on from {book.path}: {len(book.rows)} answers", err=True)
        results: list[tuple[list[Subject], Result]] = []
        left, count = seconds, trials
        if files and scope != "kernels":
            subjects, profiled = _module_subjects(modules, setting, book, clock, tell)
            left = _less(left, profiled, seconds)
            share = 1.0 if scope == "modules" else _MODULES
            part = Budget(None if left is None else left * share, None if count is None else max(1, int(count * share)))
            result = search(subjects, lab, part, plan, book, tell, clock)
            results.append((subjects, result))
            left = None if left is None else max(0.0, left - result.seconds)
            count = None if count is None else count - len(result.tries)
        if scope != "modules" and (count is None or count > 0):
            costs = {found.subject.key: found.values for _, result in results for found in result.found}
            subjects, profiled = _kernel_subjects(modules, setting, kernels, path, costs, book, clock, tell)
            left = _less(left, profiled, seconds)
            results.append((subjects, search(subjects, lab, Budget(left, count), plan, book, tell, clock)))
        found = [one for _, result in results for one in result.found]
        entries = [entry_for(one, target_key(machine)) for one in found]
        add_entries(path, entries, lambda where, text: write_text(str(where), text))
        book.remove()
    if picture is not None:
        write_text(picture, search_picture(_steps(results), "A search: how much quicker, candidate by candidate"))
    show_result(path, results, form)


@contextmanager
def _journal(path: Path, journal: Path | None, head: dict[str, Any]) -> Iterator[Journal]:
    """The journal of a search, in a folder that is made for it and the database; nothing is left of them where the
    search ends before there is an answer."""
    there = path.parent.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
    place = journal or path.with_name(f"{path.name}.journal")
    book = Journal.open(place, head, "remove it, or name another one with --journal")
    try:
        yield book
    finally:
        if not book.rows:
            book.remove()
            if not there:
                with suppress(OSError):
                    path.parent.rmdir()


def _recorded(
    book: Journal, what: str, file: str, clock: Callable[[], float], measure: Callable[[], list[Subject]]
) -> tuple[list[Subject], float]:
    """What the search is about in a file, and the seconds that it took to say so: both were measured, so that the
    journal has them."""

    def timed() -> dict[str, Any]:
        begin = clock()
        rows = [asdict(one) for one in measure()]
        return {"rows": rows, "seconds": clock() - begin}

    answer = book.answer({"subjects": what, "of": file}, timed)
    return [Subject(**row) for row in answer["rows"]], float(answer["seconds"])


def _less(left: float | None, profiled: float, budget: float | None) -> float | None:
    """The seconds of a budget that are left after profiling, which takes no more than half of what there was."""
    return None if left is None or budget is None else max(left - profiled, left / 2)


def _profiled(
    module: Module, setting: Setting, costs: Mapping[str, Any] | None = None
) -> tuple[Module, dict[tuple[str, str], float], float]:
    """The module as code generation gets it, by `costs` if given, the seconds of its kernels, and those of a run."""
    bare, probed = (
        BACKEND.compile(module, options_of(setting, "default", costs or {}, profiled)) for profiled in (False, True)
    )
    measurement = Measurement(bare, probed, random_inputs(module, 0), setting.threads)
    measurement.run(_PROFILED)
    profile = measurement.profile()
    return profile.module, profile.times(), profile.bare.median


@contextmanager
def _named(file: str, several: bool) -> Iterator[None]:
    """Errors name the file, where there are several."""
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedError(f"{file}: {error}" if several else str(error)) from error


def _module_subjects(
    files: Mapping[str, Module], setting: Setting, book: Journal, clock: Callable[[], float],
    tell: Callable[[str], None],
) -> tuple[list[Subject], float]:  # fmt: skip
    """The modules of files, each once, with the time that a run takes; and the seconds that it took to profile them."""
    found: dict[str, Subject] = {}
    spent = 0.0
    for file, module in files.items():
        tell(f"profiles {file}")
        with _named(file, len(files) > 1):
            (subject,), seconds = _recorded(book, "module", file, clock, partial(_module, module, setting))
        found.setdefault(subject.key, subject)
        spent += seconds
    return list(found.values()), spent


def _kernel_subjects(
    files: Mapping[str, Module], setting: Setting, most: int, path: Path, costs: Mapping[str, Mapping[str, int]],
    book: Journal, clock: Callable[[], float], tell: Callable[[str], None],
) -> tuple[list[Subject], float]:  # fmt: skip
    """The kernels of files that take longest, equal ones once, without files those that programs noted; and the seconds
    that it took to profile them."""
    if not files:
        return _recorded(book, "noted", "", clock, lambda: _noted(path, setting, most))
    found: dict[str, Subject] = {}
    spent = 0.0
    for file, module in files.items():
        tell(f"profiles {file}")
        with _named(file, len(files) > 1):
            rows, seconds = _recorded(book, "kernels", file, clock, partial(_kernels, module, setting, most, costs))
        for one in rows:
            if one.key not in found or found[one.key].seconds < one.seconds:
                found[one.key] = one
        spent += seconds
    return sorted(found.values(), key=lambda one: -one.seconds)[:most], spent


def _module(module: Module, setting: Setting) -> list[Subject]:
    """A module as a whole, with the time that a run takes."""
    return [module_subject(module, _profiled(module, setting)[2])]


def _kernels(module: Module, setting: Setting, most: int, costs: Mapping[str, Mapping[str, int]]) -> list[Subject]:
    """The kernels of a module that take longest, as passes lower it by `costs`, which are by the keys of modules."""
    own = costs.get(key_of(clone_module(module))) if costs else None
    lowered, times, _ = _profiled(module, setting, own)
    return kernels_in(lowered, times)[:most]


def _noted(path: Path, setting: Setting, most: int) -> list[Subject]:
    """The kernels that programs noted in a database."""
    if not path.exists():
        raise InputError(f"{path}: there is no such database; give a FILE, or note kernels by HLOTOOL_TUNE=write")
    target = target_key(setting.machine)
    wanted = [one for one in read_database(path).wanted.values() if one.target == target]
    if not wanted:
        raise InputError(f"{path}: no kernels are noted for {target}; give a FILE, or use HLOTOOL_TUNE=write")
    return [wanted_subject(one) for one in wanted[:most]]


def _silent(words: str) -> None:
    pass


def _steps(results: Sequence[tuple[Sequence[Subject], Result]]) -> list[tuple[str, str, float]]:
    """For each candidate the kernel, what came of it, and the ratio of times."""
    return [(subjects[one.subject].about, one.word, one.ratio) for subjects, result in results for one in result.tries]


def _keep(
    path: Path, merged: Sequence[Path], prune: bool, export: str | None, machine: Machine, show: bool, form: str
) -> None:
    """Look after the database."""
    if not path.exists() and not merged:
        raise InputError(f"{path}: there is no such database; `hlotool tune FILE` makes one")
    for other in merged:
        add_entries(path, read_database(other).entries.values(), _write, better=True)
    database = read_database(path)
    if prune:
        _write(path, text_of(database.entries.values(), database.wanted.values()))
        say(f"{path}: {len(database.entries)} entries stay, {len(database.notes)} lines were removed")
    if export is not None:
        target = target_key(machine)
        write_text(export, text_of(one for one in database.entries.values() if one.target == target))
    if show:
        show_database(path, database, form)


def _write(path: Path, text: str) -> None:
    write_text(str(path), text)
