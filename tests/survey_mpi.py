"""How long all-reduce takes over MPI beside a bare loop of mpi4py.

    python tests/survey_mpi.py [--ranks 2,4] [--python PYTHON] [--seconds 0.3]

For vectors of f32 from 4 B to 64 MB: microseconds of one all-reduce in a loop of a compiled program, in the order of
the devices and in MPI's own (`fast`), those of ``comm.Allreduce`` in a loop of Python, and the quotients.  Of each the
least of five, on the slowest rank.  PYTHON is one with mpi4py, beside which an ``mpiexec`` lies (`tests/mpi.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

SIZES = [1, 1 << 8, 1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24]
REPEATS = 5
TEXT = """HloModule loop, replica_count=RANKS
add {
 a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b)
}
condition {
 s = (s32[], s32[], f32[], f32[N]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 k = s32[] get-tuple-element(s), index=1
 ROOT c = pred[] compare(n, k), direction=LT
}
body {
 s = (s32[], s32[], f32[], f32[N]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 k = s32[] get-tuple-element(s), index=1
 t = f32[] get-tuple-element(s), index=2
 v = f32[N] get-tuple-element(s), index=3
 a = f32[N] all-reduce(v), to_apply=add
 f = f32[1] slice(a), slice={[0:1]}
 e = f32[] reshape(f)
 u = f32[] add(t, e)
 one = s32[] constant(1)
 m = s32[] add(n, one)
 ROOT r = (s32[], s32[], f32[], f32[N]) tuple(m, k, u, v)
}
ENTRY e {
 k = s32[] parameter(0)
 v = f32[N] parameter(1)
 zero = s32[] constant(0)
 t = f32[] constant(0)
 s = (s32[], s32[], f32[], f32[N]) tuple(zero, k, t, v)
 w = (s32[], s32[], f32[], f32[N]) while(s), condition=condition, body=body
 ROOT r = f32[] get-tuple-element(w), index=2
}"""


def on_rank(seconds: float) -> None:
    """The times on this job, printed by rank 0 as JSON."""
    import numpy as np
    from mpi4py import MPI

    import hlotool

    comm = MPI.COMM_WORLD
    ways = {"ordered": hlotool.MpiDevices(comm), "fast": hlotool.MpiDevices(comm, fast=True)}

    def least(run: Callable[[int], object]) -> float:
        """Seconds of one all-reduce; `run` does so many of them."""
        count = 1
        while True:
            comm.Barrier()
            start = time.perf_counter()
            run(count)
            took = comm.allreduce(time.perf_counter() - start, MPI.MAX)
            if took > seconds / REPEATS / 2 or count >= 1 << 14:
                break
            count *= 4
        found = [took / count]
        for _ in range(REPEATS - 1):
            comm.Barrier()
            start = time.perf_counter()
            run(count)
            found.append(comm.allreduce(time.perf_counter() - start, MPI.MAX) / count)
        return min(found)

    for size in SIZES:
        source, target = np.zeros(size, np.float32), np.zeros(size, np.float32)

        def bare(count: int, source: object = source, target: object = target) -> None:
            for _ in range(count):
                comm.Allreduce(source, target)

        row: dict[str, float] = {"bytes": 4 * size, "bare": least(bare)}
        module = hlotool.parse(TEXT.replace("RANKS", str(comm.size)).replace("[N]", f"[{size}]"))
        for way, devices in ways.items():
            run = hlotool.compile(module, devices=devices, threads=1)
            row[way] = least(lambda count, run=run, source=source: run(np.int32(count), source))
        if comm.rank == 0:
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--inner", action="store_true")
    given = parser.parse_args()
    if given.inner:
        on_rank(given.seconds)
        return
    from mpi import job

    for ranks in map(int, given.ranks.split(",")):
        done = job(given.python, ranks, __file__, "--inner", "--seconds", given.seconds)
        print(f"{ranks} ranks\n{'bytes':>10}{'bare us':>12}{'fast us':>12}{'ordered us':>12}{'fast':>8}{'ordered':>9}")
        for line in done.stdout.splitlines():
            row = json.loads(line)
            bare, fast, ordered = (row[name] * 1e6 for name in ("bare", "fast", "ordered"))
            times = f"{row['bytes']:>10}{bare:>12.1f}{fast:>12.1f}{ordered:>12.1f}"
            print(f"{times}{fast / bare:>8.2f}{ordered / bare:>9.2f}")
        if done.returncode:
            sys.exit(done.stderr)


if __name__ == "__main__":
    main()
