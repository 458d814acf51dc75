"""How far off predictions are: every kernel of the models of a folder, predicted and measured.

    python tests/survey_model.py FOLDER [--cpu x86-64-v3] [--threads 1] [--seconds 0.2] [--rows 20]
    python tests/survey_model.py FOLDER --keep times.json            keeps what was measured
    python tests/survey_model.py FOLDER --times times.json           predicts what was measured before
    python tests/survey_model.py FOLDER --times one.json --again two.json   how far two measurements are from each other
    python tests/survey_model.py FOLDER --performance figures.json   with what hlotool doctor --calibrate --json printed
    python tests/survey_model.py --synthetic --keep own.json         measures the modules of calibration in its place
    python tests/survey_model.py FOLDER --write LEVEL --own own.json fits the figures that are built in for a level

Times are those of profiles, all runs of a kernel divided by how many there are: small kernels run thousands of times.
Figures are those of a file, else of this machine if it was calibrated (``hlotool doctor --calibrate``), else built in,
and the first line says which.  Built-in ones are fitted to the modules of calibration, and to the models of one half of
the names in order, the first, the third and so on; the other half is held out and reported apart.  Calibration sees
none of the models.

The table has, for all kernels and for those of the half that is held out: the median and the 90th percentile of
|predicted / measured - 1|; the median over models (of five kernels or more) of Spearman's correlation of predicted and
measured, the lowest, and the share of models with at least 0.95.  With ``--again`` the same is said of a second
measurement, taken for a prediction of the first: nothing can be predicted better than it can be measured.  Kernels that
take less than 50 ns, about what a look at the clock takes, count; the line without them is there to see what they do.
Kernels in loops whose trips are not known, and in
branches, count by the runs that were seen; those whose loop was one task have no number of runs, and are counted as
left out.  Exit code 1 where a goal is missed: 20 %, 50 %, 0.95 in the median over models.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from survey_profile import arguments
from survey_verdicts import modules

from hlotool.analysis import figures
from hlotool.analysis.performance import Performance, Sample, fitted
from hlotool.codegen.machine import Machine, default_machine, named
from hlotool.codegen.prediction import predicted
from hlotool.driver import compile_module
from hlotool.harness.calibration import synthetic_modules
from hlotool.harness.inputs import random_inputs
from hlotool.harness.profile import Measurement
from hlotool.ir import HloError, Module
from hlotool.runtime.performance import performance_of
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

_GOALS = (0.20, 0.50, 0.95)
_TRUST = 0.5
"""How many kernels the mean of a figure that was built in before counts like, where new ones are fitted."""


_RESOLUTION = 50.0
"""Nanoseconds, about, that a look at the clock takes, and the call that it is in."""


class Timed(NamedTuple):
    """A kernel: its model, computation, instruction and opcode, its work, nanoseconds of a run as measured."""

    model: str
    computation: str
    name: str
    opcode: str
    amounts: dict[str, float]
    nanoseconds: float


def of_files(paths: Sequence[str]) -> Iterator[tuple[str, Module, list[Any]]]:
    """The names of models, what they are, and their inputs."""
    for path in modules(paths):
        module = parse(path.read_text(encoding="utf-8"))
        yield path.stem, module, arguments(path, module)


def of_calibration() -> Iterator[tuple[str, Module, list[Any]]]:
    """The same of the modules of calibration."""
    for name, text in synthetic_modules():
        module = parse(text)
        yield name, module, random_inputs(module, 0)


def measured(
    models: Iterable[tuple[str, Module, list[Any]]], machine: Machine, threads: int, seconds: float
) -> list[dict[str, Any]]:
    """The profile of each model: the module as code generation got it, and its steps."""
    rows = []
    for number, (name, module, inputs) in enumerate(models, 1):
        print(f"\r{number}: {name:40}", end="", file=sys.stderr, flush=True)
        try:
            bare, probed = (
                compile_module(module, machine=machine, threads=threads, profiled=profiled)
                for profiled in (False, True)
            )
            measurement = Measurement(bare, probed, inputs, threads)
            measurement.run(seconds)
        except HloError as error:
            print(f"\n{name}: {error}", file=sys.stderr)
            continue
        profile = measurement.profile()
        steps = [
            {"kind": s.kind, "comp": s.computation, "name": s.instruction.name, "opcode": s.instruction.opcode,
             "count": s.count, "seconds": s.seconds}
            for s in profile.steps if s.instruction is not None
        ]  # fmt: skip
        rows.append({"model": name, "text": print_module(profile.module), "steps": steps})
    print(file=sys.stderr)
    return rows


def timed(rows: Sequence[dict[str, Any]], performance: Performance, machine: Machine) -> tuple[list[Timed], int]:
    """The kernels of all models with their work, and how many have no number of runs."""
    found, left_out = [], 0
    for row in rows:
        module = parse(row["text"])
        prediction = predicted(module, performance, machine, performance.threads)
        kernels = {(k.instruction.parent.name, k.instruction.name): k for k in prediction.kernels
                   if k.instruction.parent is not None}  # fmt: skip
        looped = _inside(prediction.unknown)
        seen = looped | _inside([i for i in module.instructions() if i.opcode == "conditional"])
        for step in row["steps"]:
            kernel = kernels.get((step["comp"], step["name"])) if step["kind"] == "kernel" else None
            if kernel is None or step["seconds"] <= 0:
                continue
            runs = step["count"] if step["comp"] in seen else kernel.runs
            if step["comp"] in looped and runs == 1:
                left_out += 1
                continue
            time = step["seconds"] / runs * 1e9
            found.append(Timed(row["model"], step["comp"], step["name"], step["opcode"], dict(kernel.amounts), time))
    return found, left_out


def _kept(file: str | None, performance: Performance, machine: Machine) -> list[Timed]:
    """The kernels of a file that was kept; none of no file."""
    if file is None:
        return []
    return timed(json.loads(Path(file).read_text(encoding="utf-8")), performance, machine)[0]


def _inside(control: Sequence[Any]) -> set[str]:
    """Computations that loops or conditionals run."""
    waiting = [called for instruction in control for called in instruction.called]
    for computation in waiting:
        waiting += [c for i in computation if i.opcode != "fusion" for c in i.called if c not in waiting]
    return {computation.name for computation in waiting}


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of ranks; equal numbers share theirs."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return ((ends - count + ends - 1) / 2)[place]


def summary(title: str, kernels: Sequence[Timed], guesses: Sequence[float]) -> tuple[float, float, float]:
    """Print a line of the table, and return the numbers that have goals."""
    times, guessed = np.array([k.nanoseconds for k in kernels]), np.array(guesses)
    errors = np.abs(guessed / times - 1)
    places: dict[str, list[int]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        places[kernel.model].append(number)
    ranks = [spearman(guessed[at], times[at]) for at in places.values() if len(at) >= 5]
    ranks = [rank for rank in ranks if not math.isnan(rank)] or [1.0]
    median, high, rank = float(np.median(errors)), float(np.percentile(errors, 90)), float(np.median(ranks))
    share = sum(r >= _GOALS[2] for r in ranks) / len(ranks)
    print(f"{title:28} {len(kernels):6} {median:8.1%} {high:8.1%} {rank:8.3f} {min(ranks):8.3f} {share:8.1%}")
    return median, high, rank


def report(kernels: Sequence[Timed], performance: Performance, rows: int, again: Sequence[Timed]) -> bool:
    """Print the table; whether all goals are met."""
    names = sorted({k.model for k in kernels})
    half = set(names[1::2])

    def predicted_line(title: str, these: Sequence[Timed]) -> tuple[float, float, float]:
        return summary(title, these, [performance.nanoseconds(k.amounts) for k in these])

    print(f"{'':28} {'count':>6} {'median':>8} {'90 %':>8} {'ranks':>8} {'lowest':>8} {'>= .95':>8}")
    found = [
        predicted_line("all kernels", kernels),
        predicted_line("held-out half", [k for k in kernels if k.model in half]),
    ]
    predicted_line("without those under 50 ns", [k for k in kernels if k.nanoseconds >= _RESOLUTION])
    for low, high in ((0, 1e2), (1e2, 1e3), (1e3, 1e4), (1e4, 1e5), (1e5, math.inf)):
        these = [k for k in kernels if low <= k.nanoseconds < high]
        if these:
            predicted_line(f"  {low / 1e3:g} to {high / 1e3:g} us", these)
    second = {k[:3]: k.nanoseconds for k in again}
    both = [k for k in kernels if k[:3] in second]
    for title, least in (("measured again", 0.0), ("  without those under 50 ns", _RESOLUTION)):
        these = [k for k in both if k.nanoseconds >= least]
        if these:
            summary(title, these, [second[k[:3]] for k in these])
    worst = sorted(kernels, key=lambda k: -abs(math.log(performance.nanoseconds(k.amounts) / k.nanoseconds)))
    for kernel in worst[:rows]:
        guess = performance.nanoseconds(kernel.amounts)
        terms = ", ".join(f"{name} {time:.0f}" for name, time in list(performance.parts(kernel.amounts).items())[:4])
        print(f"  {guess / kernel.nanoseconds:7.2f} x {kernel.nanoseconds:10.0f} ns  {kernel.model}: {kernel.name}"
              f" ({kernel.opcode})  {terms}")  # fmt: skip
    return all(m <= _GOALS[0] and h <= _GOALS[1] and r >= _GOALS[2] for m, h, r in found)


def write(level: str, kernels: Sequence[Timed], own: Sequence[Timed], before: Performance) -> Performance:
    """Fit the figures of a level to the first half of the models and calibration's `own` modules, near the mean of
    those of all levels, and write them where they are built in."""
    names = sorted({k.model for k in kernels})
    half = set(names[::2])
    seen = [Sample(k.amounts, k.nanoseconds) for k in (*(k for k in kernels if k.model in half), *own)]
    levels = figures.BUILT_IN.values()
    prior = {name: math.prod(level[name] for level in levels) ** (1 / len(levels)) for name in before.figures}
    fit = {name: float(f"{figure:.3g}") for name, figure in fitted(seen, prior, _TRUST).items()}
    built_in = {**figures.BUILT_IN, level: fit}
    path = Path(figures.__file__)
    head = path.read_text(encoding="utf-8").partition("BUILT_IN: ")[0]
    lines = ["BUILT_IN: Mapping[str, Mapping[str, float]] = {"]
    for name, values in built_in.items():
        lines.append(f'    "{name}": {{')
        line = "       "
        for figure, value in values.items():
            word = f' "{figure}": {value!r},'
            if len(line) + len(word) > 118:
                lines.append(line)
                line = "       "
            line += word
        lines += [line, "    },"]
    path.write_text(head + "\n".join([*lines, "}"]) + "\n", encoding="utf-8")
    return Performance(cpu=level, threads=before.threads, origin="built in", figures=fit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--keep")
    parser.add_argument("--times")
    parser.add_argument("--again")
    parser.add_argument("--own")
    parser.add_argument("--performance", metavar="FILE")
    parser.add_argument("--write", metavar="LEVEL", choices=sorted(figures.BUILT_IN))
    given = parser.parse_args()
    machine = default_machine() if given.cpu is None else named(given.cpu)
    if given.times is not None:
        rows = json.loads(Path(given.times).read_text(encoding="utf-8"))
    else:
        models = of_calibration() if given.synthetic else of_files(given.paths)
        rows = measured(models, machine, given.threads, given.seconds)
    if given.keep is not None:
        Path(given.keep).write_text(json.dumps(rows), encoding="utf-8")
    found = performance_of(machine, given.threads)
    performance = found.performance
    if given.performance is not None:
        content = json.loads(Path(given.performance).read_text(encoding="utf-8"))["calibration"]
        if content["threads"] != given.threads:
            parser.error(f"the figures are those of {content['threads']} threads: --threads {content['threads']}")
        performance = Performance(
            cpu=content["cpu"], threads=content["threads"], origin="of a file", figures=content["figures"]
        )
    kernels, left_out = timed(rows, performance, machine)
    own, again = (_kept(file, performance, machine) for file in (given.own, given.again))
    if given.write is not None:
        performance = write(given.write, kernels, own, performance)
    print(f"{machine.cpu}, threads: {given.threads}, figures {performance.origin} for {performance.cpu}; "
          f"{left_out} kernels without a number of runs are left out {found.note}")  # fmt: skip
    return 0 if report(kernels, performance, given.rows, again) else 1


if __name__ == "__main__":
    sys.exit(main())
