"""Programs over MPI, with every implementation that is here (`tests/mpi.py`): what they compute, and how they fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run
from mpi import Job, job, pythons

from hlotool.devices.mpi.control import Standing, Wait, vain_waits
from hlotool.devices.mpi.groups import homes_of
from hlotool.ir import InputError
from hlotool.ir.devices import Topology

SUM = """HloModule sum, replica_count=3

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[2] parameter(0)
  ROOT s = f32[2] all-reduce(x), to_apply=add
}
"""

needs_mpi = pytest.mark.skipif(not pythons(), reason="needs mpi4py and mpiexec")


@pytest.fixture(params=pythons() or ["none"])
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def said(done: Job) -> str:
    return f"{done.stdout}\n{done.stderr}"


def check_tests(done: Job) -> None:
    """That tests ran on the ranks, and passed: how pytest says so depends on how quiet it is asked to be."""
    assert done.returncode == 0, said(done)
    assert re.search(r"100%|\d+ passed", done.stdout), said(done)


# ---- what they compute


@needs_mpi
def test_collectives_mean_what_they_mean_among_threads(python: str) -> None:
    """The tests of `test_devices`: devices on two ranks, several on one, reductions in the order of the devices."""
    done = job(python, 2, ROOT / "tests" / "mpi_cases.py")
    check_tests(done)


@needs_mpi
def test_repeated_reductions_of_three(python: str) -> None:
    """Sums whose order shows, on both sides of every size that decides how they are made."""
    if python != pythons()[0]:
        pytest.skip("one implementation with so many ranks is enough")
    cases = [ROOT / "tests" / "mpi_cases.py", ROOT / "tests" / "mpi_more.py", "-k", "again_in_sizes or lie_where"]
    done = job(python, 3, *cases)
    check_tests(done)


MODELS = ROOT / "samples" / "cluster"


@needs_mpi
@pytest.mark.parametrize(("model", "ranks"), [
    ("data_parallel_step", 2), ("data_parallel_step", 8), ("tensor_parallel_block", 2), ("tensor_parallel_block", 4),
])  # fmt: skip
def test_models_of_eight_devices(model: str, ranks: int, python: str, tmp_path: Path, hlotool: Run) -> None:
    """The bits of eight threads, on any number of ranks, and what XLA computes, within the tolerance."""
    if ranks > 2 and python != pythons()[0]:
        pytest.skip("one implementation with so many ranks is enough")
    arrays, here, there = MODELS / f"{model}.npz", tmp_path / "here.npz", tmp_path / "there.npz"
    command = ["run", MODELS / f"{model}.hlo", "--inputs", arrays, "--compare", arrays]
    alone = hlotool(*command, "-o", here)
    assert alone.returncode == 0, alone.stderr
    done = job(python, ranks, "-m", "hlotool", *command, "--devices", "mpi", "-o", there)
    assert (done.returncode, done.stdout) == (0, alone.stdout), said(done)
    with np.load(here) as first, np.load(there) as second:
        assert sorted(first.files) == sorted(second.files)
        assert [name for name in first.files if first[name].tobytes() != second[name].tobytes()] == []


LOOP = """HloModule loop, replica_count=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

most {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b)
}

condition {
  s = (s32[], f32[5], f32[3], s32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  k = s32[] constant(7)
  ROOT c = pred[] compare(n, k), direction=LT
}

body {
  s = (s32[], f32[5], f32[3], s32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[5] get-tuple-element(s), index=1
  w = f32[3] get-tuple-element(s), index=2
  x = s32[4] get-tuple-element(s), index=3
  r = u32[] replica-id()
  i = s32[] convert(r)
  f = f32[] convert(r)
  third = f32[] constant(0.3337)
  g = f32[] add(f, third)
  gs = f32[5] broadcast(g), dimensions={}
  vs = f32[5] multiply(v, gs)
  sums = (f32[5], f32[3]) all-reduce(vs, w), to_apply=add
  sum = f32[5] get-tuple-element(sums), index=0
  other = f32[3] get-tuple-element(sums), index=1
  quarter = f32[] constant(0.24)
  quarters = f32[3] broadcast(quarter), dimensions={}
  less = f32[3] multiply(other, quarters)
  pair = f32[5] all-reduce(sum), replica_groups={{0,2},{1,3}}, to_apply=add
  is = s32[4] broadcast(i), dimensions={}
  y = s32[4] add(x, is)
  top = s32[4] all-reduce(y), to_apply=most
  one = s32[] constant(1)
  m = s32[] add(n, one)
  ROOT t = (s32[], f32[5], f32[3], s32[4]) tuple(m, pair, less, top)
}

ENTRY main {
  v = f32[5] parameter(0)
  w = f32[3] parameter(1)
  x = s32[4] parameter(2)
  zero = s32[] constant(0)
  s = (s32[], f32[5], f32[3], s32[4]) tuple(zero, v, w, x)
  ROOT r = (s32[], f32[5], f32[3], s32[4]) while(s), condition=condition, body=body
}
"""


@needs_mpi
@pytest.mark.parametrize("homes", ["0,1,2,3", "0,0,1,2"])
def test_repeated_reductions(homes: str, python: str, tmp_path: Path, hlotool: Run) -> None:
    """The bits of threads: sums of four and of two, several at once, and others; also where a rank has two devices."""
    path, here, there = tmp_path / "loop.hlo", tmp_path / "here.npz", tmp_path / "there.npz"
    path.write_text(LOOP)
    rng = np.random.default_rng(3)
    v, w = (rng.standard_normal(size).astype(np.float32) for size in (5, 3))
    np.savez(tmp_path / "in.npz", v=v, w=w, x=np.arange(4, dtype=np.int32))
    command = ["run", path, "--inputs", tmp_path / "in.npz"]
    alone = hlotool(*command, "-o", here)
    assert alone.returncode == 0, alone.stderr
    ranks = len(set(homes.split(",")))
    done = job(python, ranks, "-m", "hlotool", *command, "--devices", "mpi", "--assignment", homes, "-o", there)
    assert done.returncode == 0, said(done)
    with np.load(here) as first, np.load(there) as second:
        assert sorted(first.files) == sorted(second.files)
        assert [name for name in first.files if first[name].tobytes() != second[name].tobytes()] == []


@needs_mpi
def test_ranks_write_files_of_their_own(python: str, tmp_path: Path) -> None:
    path = tmp_path / "sum.hlo"
    path.write_text(SUM)
    options = ["--devices", "mpi", "--input", "x=1,2", "--fast-collectives", "--assignment", "1,0,1", "--log-ranks"]
    done = job(python, 2, "-m", "hlotool", "run", path, *options, "-o", tmp_path / "part-{rank}.npz")
    assert done.returncode == 0, said(done)
    for rank, names in enumerate([["out0@1"], ["out0@0", "out0@2"]]):
        with np.load(tmp_path / f"part-{rank}.npz") as part:
            assert {name: part[name].tolist() for name in part.files} == {name: [3, 6] for name in names}


# ---- how they fail

CAUSES = {
    "raise": r"error: rank 1: c: custom call 'test_trouble' failed: ValueError: not today",
    "kill": r"error: rank 1 has died: its process \d+ on \S+ is gone; rank 0 waits in second",
    "kill later": r"error: rank 1 has died: its process \d+ on \S+ is gone; rank 0 waits in again",
    "timeout": r"error: rank [01]: \w+: stopped: the time limit of 1 s is over",  # of a run that may have got anywhere
    "deadlock": r"error: here: the devices wait in vain: device 0 \(rank 0\) waits in here for device 1, "
    r"device 1 has ended",
    "mismatch": r"error: here: the devices wait in vain: device 0 \(rank 0\) waits in here for device 1, "
    r"device 1 \(rank 1\) waits in there for device 0",
    "module": r"error: rank 1: the module is not what rank 0 has",
    "options": r"error: rank 1: the options are not what rank 0 has",
}  # fmt: skip


@needs_mpi
@pytest.mark.parametrize("what", CAUSES)
def test_a_failure_ends_all_ranks(what: str, python: str, tmp_path: Path) -> None:
    """With exit code 5, and one message, which the lowest rank that lives prints."""
    done = job(python, 2, ROOT / "tests" / "mpi_failures.py", what, tmp_path)
    found: list[dict[str, Any]] = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    first, second = found
    assert first["code"] == 5, said(done)
    assert re.fullmatch(f"{CAUSES[what]}\n", first["err"]), first["err"]
    assert (second["code"], second["err"]) == ((-9 if what.startswith("kill") else 5), "")
    if what.startswith("kill"):  # both times are of one clock
        assert first["ended"] - second["ended"] < 10
    assert first["out"] == second["out"] == ""


@needs_mpi
@pytest.mark.parametrize("slow", range(4))
@pytest.mark.parametrize("what", ["told", "gathered", "agree"])
def test_who_has_done_its_part_may_end(what: str, slow: int, python: str) -> None:
    """What all ranks do goes from some to others: the first have left when the last hear of it."""
    done = job(python, 4, ROOT / "tests" / "mpi_endings.py", what, slow)
    assert done.returncode == 0, said(done)


# ---- without MPI


def test_devices_are_spread_in_blocks() -> None:
    assert homes_of(Topology(2, 4), 2, None) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert homes_of(Topology(5), 3, None) == (0, 0, 1, 1, 2)
    assert homes_of(Topology(4), 2, (0, 1, 0, 1)) == (0, 1, 0, 1)
    with pytest.raises(InputError, match="3 ranks for 2 replicas and 1 partition: there are no more than 2 devices"):
        homes_of(Topology(2), 3, None)
    for wrong in ((0, 1, 2, 3), (0, 0, 0, 0), (0, 1, 0)):
        with pytest.raises(InputError, match="has to name one of the ranks 0 to 1 for each of 4 devices"):
            homes_of(Topology(4), 2, wrong)


def standing(device: int, wait: Wait | None, been: dict[str, int], idle: bool = True) -> Standing:
    return Standing(
        progress=7, idle=idle, waits={} if wait is None else {device: wait}, ended=() if wait else (device,),
        been={(device, place): times for place, times in been.items()},
    )  # fmt: skip


def wait(name: str, place: str, times: int, *devices: int) -> Wait:
    return Wait(name=name, place=place, times=times, devices=devices)


def test_when_devices_wait_in_vain() -> None:
    """Only where somebody is missing everywhere: who has all others there, goes on soon."""
    at_a, at_b = wait("a", "A", 2, 0, 1), wait("b", "B", 1, 0, 1)
    both = [standing(0, at_a, {"A": 2}), standing(1, at_b, {"A": 1, "B": 1})]
    assert vain_waits(both) == (
        "a: the devices wait in vain: device 0 (rank 0) waits in a for device 1, "
        "device 1 (rank 1) waits in b for device 0"
    )
    assert vain_waits([both[0], standing(1, at_a, {"A": 2})]) == ""
    assert vain_waits([both[0], standing(1, at_b, {"A": 1, "B": 1}, idle=False)]) == ""
    assert "device 1 has ended" in vain_waits([both[0], standing(1, None, {"A": 1})])
    assert vain_waits([standing(0, None, {}), standing(1, None, {})]) == ""
