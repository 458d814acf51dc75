"""The programs of samples/jax on stock CPU and on hlotool's plug-in: do they print the same numbers?

    python tests/survey_jax_samples.py [NAME...]     a line per program: agreement, the largest difference, seconds

Numbers are the same where they agree within 2e-3 of each other: training carries the last bits along.  Exit code 1
where a program fails or says something else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "samples" / "jax"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)")
_BOUND = 2e-3


def run(path: Path, platform: str) -> tuple[str, float, str]:
    """What a program prints, how many seconds it takes, and the end of its errors where it failed."""
    environment = {**os.environ, "JAX_PLATFORMS": platform}
    environment.setdefault("HLOTOOL_FALLBACK", "warn")
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return done.stdout, seconds, f"exit {done.returncode}: {last}" if done.returncode else ""


def difference(one: str, other: str) -> float:
    """The largest relative difference of the numbers of two texts; infinite where their words are others."""
    if _NUMBER.sub("", one).split() != _NUMBER.sub("", other).split():
        return float("inf")
    pairs = [(float(a), float(b)) for a, b in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)]
    return max((0.0 if a == b else abs(a - b) / max(1e-2, abs(a), abs(b)) for a, b in pairs), default=0.0)


def main() -> int:
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "xla_pass")
    wrong = 0
    for name in names:
        stock, stock_seconds, failed = run(FOLDER / f"{name}.py", "cpu")
        if failed:
            print(f"{name:20} fails on stock: {failed}")
            wrong += 1
            continue
        found, seconds, failed = run(FOLDER / f"{name}.py", "hlotool")
        apart = float("inf") if failed else difference(stock, found)
        wrong += not apart <= _BOUND
        word = failed or ("same" if apart <= _BOUND else "DIFFERENT")
        print(f"{name:20} {word:10} {apart:8.1e}  {stock_seconds:6.1f} s stock  {seconds:6.1f} s hlotool", flush=True)
    print(f"{len(names) - wrong} of {len(names)} programs print the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
