"""Jobs on a real cluster of Dask, on the loopback address: `hlotool.harness.jobs` with ``--executor dask:ADDRESS``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Run, environment

from hlotool.harness.failure import Outcome
from hlotool.harness.jobs import Jobs, executors, pool_of
from hlotool.harness.trials import CommandTrial
from hlotool.ir import ExecutionError

distributed = pytest.importorskip("distributed")

HEAD = "// CHECK-COUNT add 1\n"
MODULE = "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] add(a, a)\n}\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler, and two workers in processes of their own."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as made:
        yield made


def test_checks_are_those_of_one_process(hlotool: Run, tmp_path: Path, cluster: Any) -> None:
    for number in range(4):
        (tmp_path / f"{number}.hlo").write_text(HEAD.replace("1", str(1 + (number == 2))) + MODULE)
    one = hlotool("check", ".", "-v", "-j", "1")
    done = hlotool("check", ".", "-v", "--executor", f"dask:{cluster.scheduler_address}")
    assert (done.returncode, done.stdout, done.stderr) == (1, one.stdout, one.stderr)


def test_a_worker_that_is_killed_in_the_middle(cluster: Any, tmp_path: Path) -> None:
    """Dask starts another one, and gives the job to somebody else."""
    mark = tmp_path / "mark"
    kill = CommandTrial(command=f"mkdir {mark} 2>/dev/null || exit 0; kill -9 $(ps -o ppid= -p $PPID); sleep 60")
    with Jobs(pool_of(f"dask:{cluster.scheduler_address}")) as jobs:
        assert jobs.width == 2
        others = [jobs.submit(CommandTrial(command="cat"), f"{MODULE}// {number}") for number in range(4)]
        assert jobs.submit(kill, MODULE).result() == Outcome("good")
        assert [one.result() for one in others] == [Outcome("good")] * 4
    assert mark.is_dir()


def test_a_worker_with_another_hlotool(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "hlotool", tmp_path / "hlotool", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "hlotool" / "version.py").write_text('__version__ = "0.0.1"\n')
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=":0") as empty:
        address = empty.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
        worker = subprocess.Popen(
            command, env=environment(PYTHONPATH=str(tmp_path)), cwd=tmp_path, stderr=subprocess.DEVNULL
        )
        try:
            with (
                Jobs(pool_of(f"dask:{address}")) as jobs,
                pytest.raises(ExecutionError, match=r"has hlotool 0\.0\.1\+\w+, and this is .*: install the same"),
            ):
                jobs.submit(CommandTrial(command="true"), MODULE).result()
        finally:
            worker.kill()
            worker.wait()


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_PATIENCE", 1)
    refused = pytest.raises(ExecutionError, match="has no workers; 'dask worker' starts one")
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=":0") as empty, refused:
        pool_of(f"dask:{empty.scheduler_address}").start()


def test_nobody_is_there(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(HEAD + MODULE)
    done = hlotool("check", "a.hlo", "--executor", "dask:tcp://127.0.0.1:9")
    assert done.returncode == 5
    assert "no scheduler of Dask answers at tcp://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
