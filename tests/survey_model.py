"""How far off predictions are: every kernel of the models of a folder, predicted and measured.

    python tests/survey_model.py FOLDER [--cpu x86-64-v3] [--threads 1] [--seconds 0.2] [--rows 20]
    python tests/survey_model.py FOLDER --keep times.json            keeps what was measured
    python tests/survey_model.py FOLDER --times times.json           predicts what was measured before
    python tests/survey_model.py FOLDER --performance figures.json   with what hlotool doctor --calibrate --json printed
    python tests/survey_model.py FOLDER --write LEVEL                fits the figures that are built in for a level

Times are those of profiles, all runs of a kernel divided by how many there are: small kernels run thousands of times.
Figures are those of a file, else of this machine if it was calibrated (``hlotool doctor --calibrate``), else built in,
and the first line says which.  Built-in ones are fitted to the models of one half of the names in order, the first, the
third and so on; the other half is held out and reported apart.  Calibration sees none of the models.

The table has, for all kernels and for those of the half that is held out: the median and the 90th percentile of
|predicted / measured - 1|; the median over models (of five kernels or more) of Spearman's correlation of predicted and
measured, the lowest, and the share of models with at least 0.95.  Kernels in loops whose trips are not known, and in
branches, count by the runs that were seen; those whose loop was one task have no number of runs, and are counted as
left out.  Exit code 1 where a goal is missed: 20 %, 50 %, 0.95 in the median over models.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
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
from hlotool.harness.profile import Measurement
from hlotool.ir import HloError
from hlotool.runtime.performance import performance_of
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

_GOALS = (0.20, 0.50, 0.95)
_TRUST = 1.0
"""How many kernels the mean of a figure that was built in before counts like, where new ones are fitted."""


class Timed(NamedTuple):
    """A kernel: its model, instruction and opcode, its work, nanoseconds of a run as measured."""

    model: str
    name: str
    opcode: str
    amounts: dict[str, float]
    nanoseconds: float


def measured(files: Sequence[Path], machine: Machine, threads: int, seconds: float) -> list[dict[str, Any]]:
    """The profile of each model: the module as code generation got it, and its steps."""
    rows = []
    for number, path in enumerate(files, 1):
        print(f"\r{number} of {len(files)}: {path.stem:40}", end="", file=sys.stderr, flush=True)
        module = parse(path.read_text(encoding="utf-8"))
        try:
            bare, probed = (
                compile_module(module, machine=machine, threads=threads, profiled=profiled)
                for profiled in (False, True)
            )
            measurement = Measurement(bare, probed, arguments(path, module), threads)  # type: ignore[arg-type]
            measurement.run(seconds)
        except HloError as error:
            print(f"\n{path.stem}: {error}", file=sys.stderr)
            continue
        profile = measurement.profile()
        steps = [
            {"kind": s.kind, "comp": s.computation, "name": s.instruction.name, "opcode": s.instruction.opcode,
             "count": s.count, "seconds": s.seconds}
            for s in profile.steps if s.instruction is not None
        ]  # fmt: skip
        rows.append({"model": path.stem, "text": print_module(profile.module), "steps": steps})
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
            found.append(Timed(row["model"], step["name"], step["opcode"], dict(kernel.amounts), time))
    return found, left_out


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


def summary(title: str, kernels: Sequence[Timed], performance: Performance) -> tuple[float, float, float]:
    """Print a line of the table, and return the numbers that have goals."""
    times = np.array([k.nanoseconds for k in kernels])
    guesses = np.array([performance.nanoseconds(k.amounts) for k in kernels])
    errors = np.abs(guesses / times - 1)
    places: dict[str, list[int]] = defaultdict(list)
    for number, kernel in enumerate(kernels):
        places[kernel.model].append(number)
    ranks = [spearman(guesses[at], times[at]) for at in places.values() if len(at) >= 5]
    ranks = [rank for rank in ranks if not math.isnan(rank)] or [1.0]
    median, high, rank = float(np.median(errors)), float(np.percentile(errors, 90)), float(np.median(ranks))
    share = sum(r >= _GOALS[2] for r in ranks) / len(ranks)
    print(f"{title:28} {len(kernels):6} {median:8.1%} {high:8.1%} {rank:8.3f} {min(ranks):8.3f} {share:8.1%}")
    return median, high, rank


def report(kernels: Sequence[Timed], performance: Performance, rows: int) -> bool:
    """Print the table; whether all goals are met."""
    names = sorted({k.model for k in kernels})
    held_out = [k for k in kernels if k.model in set(names[1::2])]
    print(f"{'':28} {'count':>6} {'median':>8} {'90 %':>8} {'ranks':>8} {'lowest':>8} {'>= .95':>8}")
    found = [summary("all kernels", kernels, performance), summary("held-out half", held_out, performance)]
    for low, high in ((0, 1e2), (1e2, 1e3), (1e3, 1e4), (1e4, 1e5), (1e5, math.inf)):
        these = [k for k in kernels if low <= k.nanoseconds < high]
        if these:
            summary(f"  {low / 1e3:g} to {high / 1e3:g} us", these, performance)
    worst = sorted(kernels, key=lambda k: -abs(math.log(performance.nanoseconds(k.amounts) / k.nanoseconds)))
    for kernel in worst[:rows]:
        guess = performance.nanoseconds(kernel.amounts)
        terms = ", ".join(f"{name} {time:.0f}" for name, time in list(performance.parts(kernel.amounts).items())[:4])
        print(f"  {guess / kernel.nanoseconds:7.2f} x {kernel.nanoseconds:10.0f} ns  {kernel.model}: {kernel.name}"
              f" ({kernel.opcode})  {terms}")  # fmt: skip
    return all(m <= _GOALS[0] and h <= _GOALS[1] and r >= _GOALS[2] for m, h, r in found)


def write(level: str, kernels: Sequence[Timed], before: Performance) -> Performance:
    """Fit the figures of a level to the first half of the models, near the mean of those of all levels, and write them
    where they are built in."""
    names = sorted({k.model for k in kernels})
    seen = [Sample(k.amounts, k.nanoseconds) for k in kernels if k.model in set(names[::2])]
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
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--keep")
    parser.add_argument("--times")
    parser.add_argument("--performance", metavar="FILE")
    parser.add_argument("--write", metavar="LEVEL", choices=sorted(figures.BUILT_IN))
    given = parser.parse_args()
    machine = default_machine() if given.cpu is None else named(given.cpu)
    if given.times is not None:
        rows = json.loads(Path(given.times).read_text(encoding="utf-8"))
    else:
        rows = measured(list(modules(given.paths)), machine, given.threads, given.seconds)
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
    if given.write is not None:
        performance = write(given.write, kernels, performance)
    print(f"{machine.cpu}, threads: {given.threads}, figures {performance.origin} for {performance.cpu}; "
          f"{left_out} kernels without a number of runs are left out {found.note}")  # fmt: skip
    return 0 if report(kernels, performance, given.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
