"""Judge mutants of whole models: compiled code against the truth and the evaluator, and XLA's.

    python -m tests.fuzz.model_sweep FOLDER --count N [--seed S] [--log FILE] [--xla EVERY] [--forms M]

FOLDER has the models (small ``*.hlo`` of one device are taken); with ``--forms`` M odd forms of single opcodes
(`forms.py`) are mutated and spliced, too.  The log gets a line of JSON for each mutant, and is
carried on by a later run; texts of mismatches, crashes, refusals and the like go to ``FILE.found/SEED-NUMBER.hlo``.
With ``--xla`` one of so many mutants is run by XLA too (``HLOTOOL_XLA_PYTHON``), in a process that may die.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

if __package__ == "tests.fuzz":  # run as a module, not collected by pytest
    sys.path.insert(0, str(Path(__file__).parents[1]))

from wild.children import answers, requests
from wild.judge import Array, judge
from wild.sweep import table

from fuzz.forms import forms
from fuzz.models import mutant
from hlotool.analysis.cost import ModuleCost
from hlotool.harness.inputs import random_inputs
from hlotool.harness.xla import RefusedError, Xla
from hlotool.ir import HloError, UnsupportedError
from hlotool.text.parser import parse

__all__ = ["main", "models"]


_WORK = 2e7
"""Operations or bytes of a mutant that is judged."""


_ENDLESS = 40.0
"""Seconds of a mutant's loops, on a machine that may be busy."""


def models(folder: Path) -> list[str]:
    """The texts of one device that are small enough to be mutated by the thousand."""
    texts = [p.read_text() for p in sorted(folder.glob("*.hlo")) if p.stat().st_size <= 12_000]
    return [text for text in texts if "num_partitions" not in text and _is_small(text, 3e6)]


@cache
def _pool(folder: Path, more: int) -> tuple[str, ...]:
    return (*models(folder), *forms(more))


def _is_small(text: str, work: float) -> bool:
    try:
        cost = ModuleCost(parse(text)).total
    except HloError:
        return False
    return cost.flops + 8 * cost.transcendentals + cost.bytes < work


class _Oracle:
    """XLA in a child process, which is started again when a module kills it."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._xla: Xla | None = None

    def outputs(self, text: str, arrays: Sequence[Array]) -> list[Array] | None:
        if self._xla is None:
            self._xla = Xla(flags="--xla_backend_optimization_level=0", timeout=60)
        try:
            self._xla.compile(text)
            self._xla.give(arrays)
            return self._xla.run()[0]
        except RefusedError:
            return None
        except UnsupportedError:
            self._xla.close()
            self._xla = None
            return None


def _work(pool: Sequence[str], seed: int, every: int, seconds: float) -> None:
    oracle = _Oracle(every)
    for number in map(int, requests(seconds)):
        text = mutant(pool, seed, number)
        if text is None or not _is_small(text, _WORK):
            word = "invalid" if text is None else "large"
            print(json.dumps({"word": word, "detail": "", "undecided": 0.0}), flush=True)
            continue
        wanted = None
        if every and number % every == 0 and " while(" not in text:
            arrays = random_inputs(parse(text), 0)
            found = oracle.outputs(text, arrays)
            wanted = [found] if found is not None else None
        print(json.dumps(judge(text, None, wanted, timeout=_ENDLESS).record()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when no mutant is a mismatch, a crash or a timeout."""
    parser = argparse.ArgumentParser(description="Judge mutants of whole models.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor, for one mutant")
    parser.add_argument("--xla", type=int, default=0, metavar="EVERY")
    parser.add_argument("--forms", type=int, default=0, metavar="M")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        _work(_pool(options.folder, options.forms), options.seed, options.xla, options.seconds)
        return 0
    if not _pool(options.folder, options.forms):
        parser.error(f"{options.folder} has no models that are small enough")
    rows = [json.loads(line) for line in options.log.read_text().splitlines()] if options.log.exists() else []
    done = {row["number"] for row in rows if row["seed"] == options.seed}
    numbers = [str(n) for n in range(options.count) if n not in done]
    found = options.log.with_name(options.log.name + ".found")
    child = ["-m", "tests.fuzz.model_sweep", str(options.folder), "--work", "--seed", str(options.seed)]
    child += ["--xla", str(options.xla), "--seconds", str(options.seconds), "--forms", str(options.forms)]
    with options.log.open("a") as file:
        for number, said in answers(child, numbers, options.seconds):
            rows.append({"number": int(number), "seed": options.seed, **said})
            print(json.dumps(rows[-1]), file=file, flush=True)
            if said["word"] in ("mismatch", "bounds", "crash", "timeout", "refused"):
                found.mkdir(exist_ok=True)
                text = mutant(_pool(options.folder, options.forms), options.seed, int(number))
                (found / f"{options.seed}-{number}.hlo").write_text(text or "")
                print(f"{number} {said['word']}: {said['detail']}", flush=True)
    valid = [row for row in rows if row["word"] not in ("invalid", "large")]
    print(table(valid))
    print(f"{len(rows) - len(valid)} others did not verify, or were too large to be judged by the thousand")
    return int(any(row["word"] in ("mismatch", "crash", "timeout") for row in valid))


if __name__ == "__main__":
    raise SystemExit(main())
