"""A run that fails, on one rank of an MPI job:

    mpiexec -n 2 python tests/mpi_failures.py WHAT FOLDER

The run is a child process of the rank's, so that the launcher does not learn of its end, and ends nobody in its turn:
how `hlotool run` ends by itself is written to ``FOLDER/RANK.json``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

REDUCER = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
TROUBLE = f"""HloModule trouble, replica_count=2
{REDUCER}ENTRY e {{
 p = f32[4] parameter(0)
 first = f32[4] all-reduce(p), to_apply=add
 c = f32[4] custom-call(first), custom_call_target="test_trouble", custom_call_has_side_effect=true
 ROOT second = f32[4] all-reduce(c), to_apply=add
}}
"""
DISAGREE = f"""HloModule disagree, replica_count=2
{REDUCER}yes {{
 v = f32[] parameter(0)
 ROOT here = f32[] all-reduce(v), to_apply=add
}}
no {{
 v = f32[] parameter(0)
 ROOT there = f32[] ELSE
}}
ENTRY e {{
 r = u32[] replica-id()
 zero = u32[] constant(0)
 p = pred[] compare(r, zero), direction=EQ
 v = f32[] constant(1)
 ROOT w = f32[] conditional(p, v, v), true_computation=yes, false_computation=no
}}
"""
LOOP = f"""HloModule loop, replica_count=2
{REDUCER}condition {{
 p = f32[4] parameter(0)
 ROOT more = pred[] constant(true)
}}
body {{
 p = f32[4] parameter(0)
 ROOT again = f32[4] all-reduce(p), to_apply=add
}}
ENTRY e {{
 p = f32[4] parameter(0)
 c = f32[4] custom-call(p), custom_call_target="test_trouble", custom_call_has_side_effect=true
 ROOT w = f32[4] while(c), condition=condition, body=body
}}
"""
TEXTS = {
    "kill later": LOOP,
    "deadlock": DISAGREE.replace("ELSE", "negate(v)"),
    "mismatch": DISAGREE.replace("ELSE", "collective-permute(v), source_target_pairs={{0,1},{1,0}}"),
}


def trouble(what: str, rank: int) -> Any:
    def call(inputs: tuple[Any, ...], call: Any) -> tuple[Any, ...]:
        if rank == 1 and what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and what == "kill later":
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if rank == 1 and what == "raise":
            raise ValueError("not today")
        if rank == 1 and what == "timeout":
            time.sleep(1000)
        return inputs

    return call


def inner(what: str, file: str) -> int:
    from mpi4py import MPI

    import hlotool
    from hlotool.cli import run

    rank = MPI.COMM_WORLD.rank
    hlotool.register_custom_call("test_trouble", trouble(what, rank))
    if what == "module" and rank == 1:
        file = file.replace("module.hlo", "other.hlo")
    more = ["--timeout", "1"] if what == "timeout" else []
    more += ["--fast-collectives"] if what == "options" and rank == 1 else []
    sys.argv = ["hlotool", "run", file, "--devices", "mpi", *more]
    return run()


def outer(what: str, folder: Path) -> None:
    """Write the files (all ranks write the same), and how the child ended."""
    rank = next(os.environ[name] for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK") if name in os.environ)
    file = folder / rank / "module.hlo"
    file.parent.mkdir()
    file.write_text(TEXTS.get(what, TROUBLE))
    (folder / rank / "other.hlo").write_text(TROUBLE.replace("add(a, b)", "subtract(a, b)"))
    start = time.monotonic()
    command = [sys.executable, __file__, "--inner", what, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, close_fds=False, check=False)
    found = {"code": done.returncode, "out": done.stdout, "err": done.stderr, "ended": time.monotonic()}
    (folder / f"{rank}.new").write_text(json.dumps(found))
    (folder / f"{rank}.new").rename(folder / f"{rank}.json")
    while len(list(folder.glob("*.json"))) < 2 and time.monotonic() - start < 200:
        time.sleep(0.05)  # when one has ended, its launcher ends the others


if __name__ == "__main__":
    if sys.argv[1] == "--inner":
        sys.exit(inner(*sys.argv[2:]))
    outer(sys.argv[1], Path(sys.argv[2]))
