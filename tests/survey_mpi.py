"""How long all-reduce takes over MPI beside a bare loop of mpi4py, and beside gloo.

    python tests/survey_mpi.py [--ranks 2,4] [--python PYTHON] [--torch PYTHON] [--seconds 0.3]

For vectors of f32 from 4 B to 64 MB: microseconds of one all-reduce in a loop of a compiled program, in the order of
the devices and in any (`fast`: among several hosts MPI's own), those of ``comm.Allreduce`` in a loop of Python, and the
quotients.  Of each the least of five, on the slowest rank.  PYTHON is one with mpi4py, beside which an ``mpiexec`` lies
(`tests/mpi.py`); that of ``--torch`` has PyTorch, whose ``torch.distributed`` does the same in a loop over gloo.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
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


def seconds_of(
    run: Callable[[int], object], seconds: float, meet: Callable[[], object], slowest: Callable[[float], float]
) -> float:
    """Of one all-reduce; `run` does so many of them.  All ranks `meet` before that, and the `slowest` one counts."""

    def once(count: int) -> float:
        meet()
        start = time.perf_counter()
        run(count)
        return slowest(time.perf_counter() - start)

    once(1)  # what is made at first
    count = 1
    while (took := once(count)) < seconds / REPEATS / 2 and count < 1 << 14:
        count *= 4
    return min([took, *(once(count) for _ in range(REPEATS - 1))]) / count


def on_rank(seconds: float) -> None:
    """The times on this job, printed by rank 0 as JSON."""
    import numpy as np
    from mpi4py import MPI

    import hlotool

    comm = MPI.COMM_WORLD
    ways = {"ordered": hlotool.MpiDevices(comm), "fast": hlotool.MpiDevices(comm, fast=True)}

    def least(run: Callable[[int], object]) -> float:
        return seconds_of(run, seconds, comm.Barrier, lambda took: comm.allreduce(took, MPI.MAX))

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


def over_gloo(seconds: float, ranks: int, rank: int, file: str) -> None:
    """The times of one process of PyTorch's, printed by the first."""
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60)
    )

    def slowest(took: float) -> float:
        box = torch.tensor([took], dtype=torch.float64)
        dist.all_reduce(box, dist.ReduceOp.MAX)
        return float(box[0])

    for size in SIZES:
        vector = torch.zeros(size)

        def run(count: int, vector: torch.Tensor = vector) -> None:
            for _ in range(count):
                dist.all_reduce(vector)

        least = seconds_of(run, seconds, dist.barrier, slowest)
        if rank == 0:
            print(json.dumps(least), flush=True)
    dist.destroy_process_group()


def gloo(python: str, ranks: int, seconds: float) -> list[float]:
    """Seconds of an all-reduce of each size."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, __file__, "--seconds", str(seconds), "--gloo"]
        going = [
            subprocess.Popen([*command, str(ranks), str(rank), f"{folder}/meet"], stdout=subprocess.PIPE, text=True)
            for rank in range(ranks)
        ]
        out = [one.communicate()[0] for one in going]
    if any(one.returncode for one in going):
        sys.exit("gloo failed")
    return [json.loads(line) for line in out[0].splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--torch")
    parser.add_argument("--inner", action="store_true")
    parser.add_argument("--gloo", nargs=3)
    given = parser.parse_args()
    if given.inner:
        on_rank(given.seconds)
        return
    if given.gloo is not None:
        ranks, rank, file = given.gloo
        over_gloo(given.seconds, int(ranks), int(rank), file)
        return
    from mpi import job

    for ranks in map(int, given.ranks.split(",")):
        done = job(given.python, ranks, __file__, "--inner", "--seconds", given.seconds)
        if done.returncode:
            sys.exit(done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        if given.torch is not None:
            for row, took in zip(rows, gloo(given.torch, ranks, given.seconds), strict=True):
                row["gloo"] = took
        names = [name for name in ("bare", "gloo", "fast", "ordered") if name in rows[0]]
        heads = [*(f"{name} us" for name in names), "fast", "ordered"]
        print(f"{ranks} ranks\n{'bytes':>10}" + "".join(f"{head:>12}" for head in heads))
        for row in rows:
            times = [f"{row[name] * 1e6:.1f}" for name in names]
            quotients = [f"{row[name] / row['bare']:.2f}" for name in ("fast", "ordered")]
            print(f"{row['bytes']:>10}" + "".join(f"{text:>12}" for text in (*times, *quotients)))


if __name__ == "__main__":
    main()
