"""Whether the times of steps add up to the run: the modules of a folder that run the longest, profiled.

    python tests/survey_profile.py FOLDER             finds the 15 that run longest, and profiles them
    python tests/survey_profile.py FILE...            profiles these
    python tests/survey_profile.py --longest FOLDER   prints the 15 only, longest first

A line has the module, what a run takes without probes (median), the sum of the steps relative to that, what probes
cost, and the step that takes the most.  ``--seconds`` is the time for each.  Exit code 1 where a sum is off by more
than 10 %.  Inputs are those of the corpus where it has them, else made up.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

from survey_verdicts import modules, recorded

from hlotool.driver import compile_module
from hlotool.harness.inputs import random_inputs
from hlotool.harness.profile import Measurement, Profile
from hlotool.ir import HloError, Module
from hlotool.text.parser import parse

_MOST_OFF = 0.1


def arguments(path: Path, module: Module) -> list[object]:
    """The inputs of the corpus, or made-up ones."""
    try:
        return list(recorded(path, module))
    except SystemExit:
        return list(random_inputs(module, 0))


def run_time(path: Path) -> float:
    """Seconds of the quickest of three runs; 0 for what does not run."""
    module = parse(path.read_text(encoding="utf-8"))
    try:
        executable, given = compile_module(module), arguments(path, module)
        times = []
        for _ in range(3):
            begin = perf_counter()
            executable(*given)
            times.append(perf_counter() - begin)
    except HloError:
        return 0.0
    return min(times)


def profile(path: Path, seconds: float) -> Profile:
    """The profile of a module."""
    module = parse(path.read_text(encoding="utf-8"))
    bare, probed = (compile_module(module, profiled=profiled) for profiled in (False, True))
    measurement = Measurement(bare, probed, arguments(path, module))  # type: ignore[arg-type]
    measurement.run(seconds)
    return measurement.profile()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--longest", action="store_true")
    parser.add_argument("--count", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    files = list(modules(given.paths))
    if len(files) > given.count:
        files = sorted(files, key=run_time, reverse=True)[: given.count]
    if given.longest:
        print("\n".join(map(str, files)))
        return 0
    off = 0
    print(f"{'module':32} {'a run':>10} {'sum':>8} {'probes':>8} {'runs':>5}  step that takes the most")
    for path in files:
        found = profile(path, given.seconds)
        most = max(found.steps, key=lambda step: step.seconds)
        off += abs(found.explained - 1) > _MOST_OFF
        print(
            f"{path.stem:32} {found.bare.median * 1e3:7.3f} ms {found.explained:8.1%} {found.overhead:8.1%} "
            f"{found.bare.count:5}  {most.name} {most.seconds / found.seconds:.0%}",
            flush=True,
        )
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
