"""Small programs of JAX from the start of Python to their end: how long on stock, and on the plug-in?

    python tests/survey_cold_start.py [NAME...] [--times 9]

A line per program and state of the cache, filled or empty: medians of processor and elapsed time, in milliseconds, and
medians of their ratios to stock, which is what counts on a busy machine.  The three run in turns.  What is measured is
not Python's compiler: hlotool's files are compiled before, as an installation does.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = {
    "x+1": "import jax; print(jax.jit(lambda x: x + 1)(1.0))",
    "mlp": """
import jax, jax.numpy as jnp
def loss(w, x): return jnp.mean((jnp.tanh(x @ w[0]) @ w[1]) ** 2)
w = [jnp.ones((13, 64)), jnp.ones((64, 1))]
g = jax.jit(jax.grad(loss))(w, jnp.ones((32, 13)))
print(g[0][0, 0])
""",
}

Times = tuple[float, float]


def timed(program: str, environment: dict[str, str]) -> Times:
    """Seconds of the processor and elapsed ones of a fresh process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, check=True, stdout=subprocess.DEVNULL
    )
    after, elapsed = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, elapsed


def measured(program: str, times: int) -> dict[str, list[Times]]:
    """The times of a program on stock, with a filled cache and with an empty one."""
    found: dict[str, list[Times]] = {"stock": [], "filled": [], "empty": []}
    with tempfile.TemporaryDirectory() as filled:
        plug_in = {"JAX_PLATFORMS": "hlotool", "HLOTOOL_CACHE": filled}
        timed(program, {"JAX_PLATFORMS": "cpu"})
        timed(program, plug_in)
        for _ in range(times):
            found["stock"].append(timed(program, {"JAX_PLATFORMS": "cpu"}))
            found["filled"].append(timed(program, plug_in))
            with tempfile.TemporaryDirectory() as empty:
                found["empty"].append(timed(program, plug_in | {"HLOTOOL_CACHE": empty}))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"programs: {', '.join(PROGRAMS)}")
    parser.add_argument("--times", type=int, default=9, help="runs of each")
    options = parser.parse_args()
    unknown = set(options.names) - PROGRAMS.keys()
    if unknown:
        parser.error(f"no program is called {', '.join(sorted(unknown))}")
    compileall.compile_dir(Path(__file__).parents[1] / "hlotool", quiet=1)
    print(f"{'':14} {'processor':>10} {'elapsed':>10} {'ratios to stock':>16}")
    for name in options.names or PROGRAMS:
        found = measured(PROGRAMS[name], options.times)
        for what, rows in found.items():
            columns = [*zip(*rows, strict=True)]
            stock = [*zip(*found["stock"], strict=True)]
            medians = [1000 * statistics.median(column) for column in columns]
            ratios = [
                statistics.median(mine / theirs for mine, theirs in zip(*pair, strict=True))
                for pair in zip(columns, stock, strict=True)
            ]
            row = f"{medians[0]:10.0f} {medians[1]:10.0f} {ratios[0]:10.3f} {ratios[1]:5.3f}"
            print(f"{name:6} {what:7} {row}", flush=True)


if __name__ == "__main__":
    main()
