"""Verdicts on the modules of a folder: how much of each is decided, what is called wrong, and what deciding costs.

    python tests/survey_verdicts.py FOLDER|FILE...              with default inputs
    python tests/survey_verdicts.py --inputs recorded FOLDER    with those of NAME.npz beside NAME.hlo, or the corpus's
    python tests/survey_verdicts.py --xla FOLDER                XLA's results, too (``HLOTOOL_XLA_PYTHON``)

Native code is compared with the truth within bounds, as `hlotool run --compare evaluate` does.  A line has the verdict,
the elements of all outputs, the share of them that is undecided (and of the output with the largest share), the time
of the evaluator, and that of the bounds relative to it.  Lines come as modules are done, and the sum at the end.  With
``--xla`` what XLA gives, with its optimisations off, is held against the same bounds.  Exit code 1 where a module is
undecided or called wrong; XLA's results do not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from wild import store

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import Comparison, compare_with_truth, verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.harness.xla import Xla
from hlotool.ir import HloError, Module, UnsupportedError
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

_COLUMNS = ("model", "verdict", "elements", "undecided", "worst output", "evaluator", "bounds")
_HEADER = "{:36} {:10} {:>10} {:>10} {:>12} {:>10} {:>7}".format(*_COLUMNS)


def modules(paths: Sequence[str]) -> Iterator[Path]:
    """The files, and those of folders, in order."""
    for path in map(Path, paths):
        yield from sorted(path.glob("*.hlo")) if path.is_dir() else [path]


def recorded(path: Path, module: Module) -> list[Array]:
    """The inputs that lie beside a module, or are made by the recipes of the corpus."""
    if path.with_suffix(".npz").exists():
        rows, _ = store.arrays(path.parent, path.stem, module)
        if rows is not None and len(rows) == 1:
            return list(rows[0])
    if (path.parents[1] / "corpus.py").exists():
        sys.path.insert(0, str(path.parents[1]))
        import corpus

        return [np.asarray(array) for array in corpus.load(path.stem).inputs()]
    raise SystemExit(f"{path}: no inputs are kept for it")


def surveyed(path: Path, inputs: str, seed: int, with_xla: bool) -> tuple[str, list[Comparison]]:
    """The line of a module, and how its outputs compare."""
    module = parse(path.read_text("utf-8"))
    arrays = random_inputs(module, seed) if inputs == "default" else recorded(path, module)
    got = compile_module(module)(*arrays)
    start = perf_counter()
    evaluate(module, arrays)
    evaluated = perf_counter() - start
    start = perf_counter()
    bounds = bounded_results(module, arrays)
    bounded = perf_counter() - start
    rows = compare_with_truth(got, bounds, again=partial(bounded_results, module, arrays, None, False))
    shares = [row.undecided / row.count for row in rows if row.count]
    count, undecided = sum(row.count for row in rows), sum(row.undecided for row in rows)
    peer = f"   XLA {_by_xla(path, arrays, bounds)}" if with_xla else ""
    return (
        f"{path.stem:36} {verdict_of(rows):10} {count:10} {undecided / max(1, count):10.3%} "
        f"{max(shares, default=0.0):12.3%} {evaluated:9.2f}s {bounded / evaluated:6.1f}x{peer}"
    ), rows


def _by_xla(path: Path, arrays: Sequence[Array], bounds: Sequence[Bounded]) -> str:
    """The verdict on XLA's results, or why there are none."""
    try:
        with Xla(flags="--xla_backend_optimization_level=0") as xla:
            xla.compile(path.read_text("utf-8"))
            xla.give(arrays)
            return verdict_of(compare_with_truth(xla.run()[0], bounds))
    except UnsupportedError as error:
        return f"refused: {error.message.splitlines()[0][:80]}"


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("paths", nargs="+")
    options.add_argument("--inputs", choices=("default", "recorded"), default="default")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--xla", action="store_true")
    given = options.parse_args(arguments)
    print(_HEADER)
    words: dict[str, int] = {}
    count = undecided = 0
    for path in modules(given.paths):
        try:
            line, rows = surveyed(path, given.inputs, given.seed, given.xla)
        except HloError as error:
            line, rows, word = f"{path.stem:36} {'refused':10} {error}", [], "refused"
        else:
            word = verdict_of(rows)
        words[word] = words.get(word, 0) + 1
        print(line, flush=True)
        for number, row in enumerate(rows):
            if row.verdict != "ok":
                print(f"    out{number}: {row.verdict}: {row}", flush=True)
        count += sum(row.count for row in rows)
        undecided += sum(row.undecided for row in rows)
    print(f"{sum(words.values())} modules: " + ", ".join(f"{n} {word}" for word, n in sorted(words.items())))
    print(f"{count} elements, {undecided / max(1, count):.3%} undecided")
    return 1 if {"UNDECIDED", "MISMATCH"} & set(words) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
