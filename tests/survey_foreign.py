#!/usr/bin/env python3
"""Models of the corpus on other processors: libraries of `hlotool build`, under an emulator, or as WebAssembly in Node.

    python tests/survey_foreign.py [--on aarch64,wasm32] [--sizes small,medium] [--corpus FOLDER] [--timeout SECONDS]
                                   [MODEL...]

One line a model, with a word for each processor: right or wrong by the results and tolerances that are recorded with
the corpus, slow if the emulator gave no answer in time, emulator if that fails itself, else refused or failed, with the
reasons below it.  Takes the
cross compilers and emulators that `tests/libraries.py` names, and says what the emulators themselves are known to
compute wrongly.  Exit code 1 where a model is wrong or failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from libraries import FOREIGN, EmulatorError, Foreign, build, run_driver

from hlotool.ir import HloError, Module
from hlotool.text.load import one_module, open_source


def verdict(case: Any, module: Module, arrays: list[Any], on: Foreign, timeout: float) -> tuple[str, str]:
    """A word for how a model does on a processor, and the reason if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            built = build(module, Path(folder), machines=[on.machine])
            if built.library.interface.functions:
                return "refused", "it calls functions of its host"
            results = run_driver(built, arrays, on=on, timeout=timeout)
        except HloError as error:
            return "refused", f"{type(error).__name__}: {error}"
        except subprocess.TimeoutExpired:
            return "slow", f"no answer in {timeout:.0f} s"
        except EmulatorError as error:
            return "emulator", str(error)
        except AssertionError as error:
            return "failed", str(error)
    report = case.check(results)
    if report["ok"]:
        return "right", ""
    wrong = [f"result {number}: {row}" for number, row in enumerate(report["outputs"]) if not row["ok"]]
    return "wrong", "; ".join([*filter(None, [report.get("why")]), *wrong[:3]])


def main() -> int:
    beside = Path(__file__).parents[2] / "shared" / "corpus"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default=",".join(FOREIGN))
    parser.add_argument("--sizes", default="small,medium")
    parser.add_argument("--corpus", type=Path, default=beside)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    names = options.on.split(",")
    missing = [f"{name}: no {FOREIGN[name].missing}" for name in names if FOREIGN[name].missing]
    if missing:
        parser.error("; ".join(missing))
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if fault := FOREIGN[name].fault(Path(folder)):
                print(f"{name}: {fault}")
    sys.path.insert(0, str(options.corpus))
    import corpus

    cases = [corpus.Case(path) for path in corpus.names()]
    sizes = options.sizes.split(",")
    cases = [case for case in cases if (case.name in options.models if options.models
                                        else case.meta["size_class"] in sizes)]  # fmt: skip
    counts = {name: Counter[str]() for name in names}
    print(f"{'model':32}", *(f"{name:8}" for name in names))
    for case in cases:
        module, arrays = one_module(open_source(Path(f"{case.base}.hlo"))), case.inputs()
        found = [verdict(case, module, arrays, FOREIGN[name], options.timeout) for name in names]
        print(f"{case.name:32}", *(f"{word:8}" for word, _ in found), flush=True)
        for name, (word, reason) in zip(names, found, strict=True):
            counts[name][word] += 1
            if reason:
                print(f"    {name}: {reason}", flush=True)
    for name, count in counts.items():
        others = ", ".join(f"{number} {word}" for word, number in sorted(count.items()) if word != "right")
        print(f"{name}: {count['right']} of {len(cases)} right{others and ', ' + others}")
    return int(any(count["wrong"] + count["failed"] for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
