"""Partitioned modules: whether they give what the modules give, and what their collectives move beside XLA's.

    python tests/survey_partition.py --xla                          the programs of tests/data/sharded, beside XLA
    python tests/survey_partition.py [--only PATTERN] [--seeds N]   every corpus model of sizes small and medium

The first prints, per program, the bytes that a device sends, and those of XLA's partitioner (of its GSPMD modules;
see ``survey_sharding.py``), with the geometric mean of the ratios.  The second gives the parameters of every model
random shardings over 2, 4 and 8 devices, has them propagated, partitions, and runs the result on in-process devices;
it has to give what the model gives, within the bounds that follow from the program.  Exit code 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from partitioning import annotate, differences, outputs_of, partitioned
from survey_sharding import collectives_of

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import optimise
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.inputs import random_inputs
from hlotool.ir import HloError, Module, UnsupportedError
from hlotool.passes import parse_pipeline
from hlotool.text.parser import parse

_DATA = Path(__file__).parent / "data" / "sharded"
_CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "models"


def propagated(module: Module) -> Module:
    """A copy in which all values have shardings."""
    return optimise(module, parse_pipeline("sharding-propagation"), DecisionLog())


def beside_xla(only: str, check: bool = True) -> Iterator[tuple[str, int, int, str]]:
    """Name, bytes that a device sends, those of XLA's, and what is wrong with the results ("-": not looked at)."""
    for path in sorted(_DATA.glob("*.json")):
        if not re.search(only, path.stem):
            continue
        source = _DATA / f"{path.stem}.gspmd.hlo"
        module = parse((source if source.exists() else path.with_suffix(".hlo")).read_text())
        module = propagated(module)
        devices = module.attributes["num_partitions"]
        new = partitioned(module, devices)
        wrong = "-"
        if check:
            arrays = random_inputs(module, 0)
            try:
                got = outputs_of(module, new, arrays, devices)
                wrong = differences(module, got, arrays, bounded_results(module, arrays))
            except UnsupportedError as error:
                wrong = f"not run: {error}"
        sent = sum(row["bytes"] for row in collectives_of(new))
        yield path.stem, sent, json.loads(path.read_text())["gspmd"]["bytes"], wrong


def table(only: str, check: bool) -> bool:
    ratios = []
    fine = True
    print(f"{'program':<24}{'bytes':>12}{'XLA':>12}{'ratio':>8}")
    for name, mine, theirs, wrong in beside_xla(only, check):
        ratio = (mine + 1) / (theirs + 1)
        ratios.append(ratio)
        fine &= wrong in ("", "-")
        print(f"{name:<24}{mine:>12,}{theirs:>12,}{ratio:>8.3f}  {wrong}", flush=True)
    print(f"geometric mean of {len(ratios)}: {exp(sum(map(log, ratios)) / len(ratios)):.3f}")
    return fine


# ---- the corpus


class _LateError(Exception):
    pass


def _late(*_: Any) -> None:
    raise _LateError


def tried(path: Path, devices: int, seed: int, seconds: int) -> tuple[str, Counter[str]]:
    """What is wrong with a model whose parameters have random shardings, and its fallbacks by opcode."""
    rng = Random(f"{path.stem} {devices} {seed}")
    module = parse(path.read_text("utf-8"))
    for parameter in module.entry.parameters:
        annotate(rng, parameter, devices)
    module.attributes.pop("entry_computation_layout", None)
    module.attributes["num_partitions"] = devices
    decisions = DecisionLog()
    fallbacks: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(seconds)
    try:
        whole = propagated(module)
        new = partitioned(whole, devices, decisions)
        opcodes = {i.name: i.opcode for i in whole.instructions()}
        fallbacks.update(opcodes.get(d.before[0], "?") for d in decisions if d.rule == "fallback")
        arrays = random_inputs(module, seed)
        got = outputs_of(whole, new, arrays, devices)
        why = differences(module, got, arrays, None)
        if why == "other bytes":
            why = differences(module, got, arrays, bounded_results(module, arrays))
    except _LateError:
        return "late", fallbacks
    except HloError as error:
        return f"{type(error).__name__}: {error}", fallbacks
    except Exception:
        return f"crash: {traceback.format_exc(limit=-4)}", fallbacks
    finally:
        signal.alarm(0)
    return why, fallbacks


def sweep(paths: Sequence[Path], seeds: int, seconds: int) -> bool:
    counts: Counter[str] = Counter()
    fallbacks: Counter[str] = Counter()
    for path in paths:
        for devices in (2, 4, 8):
            for seed in range(seeds):
                start = perf_counter()
                why, found = tried(path, devices, seed, seconds)
                fallbacks += found
                counts[why if why in ("", "late") else "wrong"] += 1
                print(f"{path.stem:<40}{devices:>2} {perf_counter() - start:6.1f}s  {why or 'ok'}", flush=True)
    print(f"{counts['']} ok, {counts['wrong']} wrong, {counts['late']} late")
    print(f"fallbacks: {dict(fallbacks.most_common())}")
    return not counts["wrong"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--xla", action="store_true")
    parser.add_argument("--no-check", action="store_true", help="only the bytes")
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", default="small,medium")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="for one model")
    options = parser.parse_args()
    if options.xla:
        raise SystemExit(0 if table(options.only, not options.no_check) else 1)
    paths = [
        path for path in sorted(_CORPUS.glob("*.hlo"))
        if re.search(options.only, path.stem)
        and json.loads(path.with_suffix(".json").read_text())["size_class"] in options.sizes.split(",")
    ]
    raise SystemExit(0 if sweep(paths, options.seeds, options.seconds) else 1)


if __name__ == "__main__":
    main()
