"""What `hlotool memory` predicts against what a process takes, for the largest programs of the corpus.

    python tests/survey_memory.py [--count 15] [NAME...]

Prints a table, one line for each program as it is measured: one process at a time, sorted by the estimate from shapes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from hlotool.analysis.peak_memory import peak_bytes
from hlotool.ir import HloError
from hlotool.text.load import load

MODELS = Path(__file__).parents[2] / "shared" / "corpus" / "models"


def largest(count: int) -> list[Path]:
    """The programs that take the most memory, by their shapes."""
    sizes = []
    for path in sorted(MODELS.glob("*.hlo")):
        try:
            sizes.append((peak_bytes(load(path)), path))
        except HloError:
            continue
    return [path for _, path in sorted(sizes, reverse=True)[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs, in place of the largest ones")
    parser.add_argument("--count", type=int, default=15)
    given = parser.parse_args()
    paths = [MODELS / f"{name}.hlo" for name in given.names] or largest(given.count)
    print(f"{'program':32} {'predicted MiB':>14} {'measured MiB':>13} {'difference':>10}")
    worst = 0.0
    for path in paths:
        command = [sys.executable, "-m", "hlotool", "memory", str(path), "--measure", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{path.stem:32} {done.stderr.splitlines()[0] if done.stderr else done.returncode}", flush=True)
            continue
        answer = json.loads(done.stdout)
        predicted, measured = answer["process_bytes"], answer["measured"]["peak_bytes"]
        worst = max(worst, abs(measured / predicted - 1))
        print(
            f"{path.stem:32} {predicted / 2**20:14.2f} {measured / 2**20:13.2f} {measured / predicted - 1:10.1%}",
            flush=True,
        )
    print(f"at most {worst:.1%} apart")


if __name__ == "__main__":
    main()
