"""Runs examples of every opcode on every type, many more than the test suite: ``python -m semantics --examples 20000``.

    cd tests && python -m semantics [--examples N] [--opcode RE] [--type RE] [--seed N] [--jobs N] [--json FILE]
                                    [--cpu CPU] [--flush-denormals] [--layouts]

Each opcode gets N examples on each class of its types; code is for CPU and flushes denormals where that is asked for,
and with ``--layouts`` parameters and results lie in memory in any order of dimensions.  A failure is shown with its
module and arguments and the command that makes it again.  The JSON result has the number of examples, and of failures,
by opcode and type.  Exit status 1 when something failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from semantics.batches import ROUNDS, batches


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m semantics", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--examples", type=int, default=20000, help="of each opcode and class of types")
    parser.add_argument("--opcode", default=".*", metavar="RE")
    parser.add_argument("--type", default=".*", metavar="RE")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--cpu", default="")
    parser.add_argument("--flush-denormals", action="store_true")
    parser.add_argument("--layouts", action="store_true")
    options = parser.parse_args()
    setting = options.cpu, options.flush_denormals, options.layouts
    work = list(batches(options.examples, options.opcode, options.type, options.seed, setting))
    tried: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    start = time.monotonic()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(batch.run): batch for batch in work}
        for done, future in enumerate(as_completed(running), 1):
            batch = running[future]
            why = future.result()
            kinds = [(batch.opcode, kind) for _, kind in batch.cells]
            tried.update({kind: count * ROUNDS for kind, count in Counter(kinds).items()})
            if why:
                failed.update(set(kinds))
                print(f"\n{batch.opcode} on {batch.name}: {why}\nagain: {batch.again()}", flush=True)
            if sys.stderr.isatty() or done % 100 == 0 or done == len(work):
                end = "\r" if sys.stderr.isatty() and done < len(work) else "\n"
                shown = f"{done} of {len(work)} modules, {sum(tried.values()):,} examples, {len(failed)} cells failed"
                print(f"{shown}, {time.monotonic() - start:.0f} s", end=end, file=sys.stderr, flush=True)
    if options.json:
        found: dict[str, dict[str, dict[str, int]]] = {}
        for opcode, kind in sorted(tried):
            row = {"examples": tried[opcode, kind], "failures": failed[opcode, kind]}
            found.setdefault(opcode, {})[kind] = row
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump({"schema_version": 1, "seed": options.seed, "cells": found}, stream, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
