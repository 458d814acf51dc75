"""Whether a tuning database makes the slowest kernels of the corpus quicker, measured apart from the search.

    python tests/survey_tune.py --list FILE FOLDER          profiles FOLDER, writes its 30 slowest kernels to FILE
    python tests/survey_tune.py --measure FILE --database DB

Kernels are those that take longest in a run of their module, equal ones once.  Each is compiled alone, untuned and with
the choices of the database, and both take turns in random order.  Exit code 1 where the geometric mean of the times is
not less by a tenth, or a kernel loses more than 2 %.  ``--cpu`` names another processor, ``--seconds`` is for each.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from survey_profile import arguments
from survey_verdicts import modules

from hlotool.codegen.machine import default_machine, named
from hlotool.driver import compile_module
from hlotool.harness.inputs import random_inputs
from hlotool.harness.profile import Measurement
from hlotool.harness.statistics import median_interval
from hlotool.harness.tune import Subject, kernels_in
from hlotool.ir import HloError
from hlotool.text.parser import parse

_GAIN, _LOSS = 0.10, 0.02
_BATCH = 200e-6
_SETTLED = 3  # runs before those that are timed: the first ones find in the caches what the other program left there


def slowest(folder: str, cpu: str | None, count: int) -> list[Subject]:
    """The kernels of all modules that take longest."""
    found: dict[str, Subject] = {}
    for path in modules([folder]):
        module = parse(path.read_text(encoding="utf-8"))
        try:
            bare, probed = (compile_module(module, profiled=one, cpu=cpu, tune="off") for one in (False, True))
            measurement = Measurement(bare, probed, arguments(path, module))  # type: ignore[arg-type]
            measurement.run(0.2)
        except HloError as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
            continue
        profile = measurement.profile()
        for one in kernels_in(profile.module, profile.times()):
            if one.key not in found or found[one.key].seconds < one.seconds:
                found[one.key] = one
    return sorted(found.values(), key=lambda one: -one.seconds)[:count]


def ratio(subject: Subject, cpu: str | None, seconds: float) -> tuple[float, float, float, float, str]:
    """The median of tuned over untuned times, its interval, the untuned time, and the choices."""
    runs, said = [], ""
    arrays = random_inputs(parse(subject.text), 1)
    for mode in ("off", "read"):
        executable = compile_module(parse(subject.text), pipeline="none", cpu=cpu, tune=mode)
        said = next((one.reason for one in executable.decisions if one.rule == "choices"), "")
        executable(*arrays)
        runs.append(executable)
    if not said:
        return 1.0, 1.0, 1.0, subject.seconds, ""
    clock, order, logs, base = time.perf_counter, random.Random(7), [], []
    begin = clock()
    runs[0](*arrays)
    batch = max(1, math.ceil(_BATCH / max(clock() - begin, 1e-9)))
    end = clock() + seconds
    while len(logs) < 8 or clock() < end:
        taken = [0.0, 0.0]
        for turn in order.sample((0, 1), 2):
            for _ in range(_SETTLED):
                runs[turn](*arrays)
            begin = clock()
            for _ in range(batch):
                runs[turn](*arrays)
            taken[turn] = (clock() - begin) / batch
        logs.append(math.log(taken[1] / taken[0]))
        base.append(taken[0])
    low, high = median_interval(sorted(logs))
    return math.exp(float(np.median(logs))), math.exp(low), math.exp(high), float(np.median(base)), said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--list", dest="listed")
    parser.add_argument("--measure")
    parser.add_argument("--database")
    parser.add_argument("--cpu")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    if given.listed:
        found = slowest(given.folder, given.cpu, given.count)
        Path(given.listed).write_text(json.dumps([asdict(one) for one in found]))
        for one in found:
            print(f"{one.seconds * 1e3:8.3f} ms  {one.kind:8} {one.about}")
        return 0
    os.environ["HLOTOOL_TUNE_DATABASE"] = given.database
    machine = default_machine() if given.cpu is None else named(given.cpu)
    print(f"{machine.cpu}, {machine.vector_bits} bits, {machine.cores} cores")
    rows = []
    for row in json.loads(Path(given.measure).read_text()):
        subject = Subject(**row)
        found = ratio(subject, given.cpu, given.seconds)
        rows.append(found)
        middle, low, high, seconds, said = found
        times = f"{seconds * 1e3:8.3f} ms {middle:6.3f} [{low:.3f}, {high:.3f}]"
        print(f"{times}  {subject.about[:44]:44} {said}", flush=True)
    mean = math.exp(sum(math.log(row[0]) for row in rows) / len(rows))
    worst = max(row[0] for row in rows)
    print(f"{len(rows)} kernels: geometric mean {mean:.3f} of the untuned time, worst {worst:.3f}")
    return int(mean > 1 - _GAIN or worst > 1 + _LOSS)


if __name__ == "__main__":
    sys.exit(main())
