"""`hlotool run` on several devices, with queues, and with a time limit: through real processes."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from conftest import Run
from tiny_modules import ENDLESS

SUM = """HloModule sum, replica_count=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[2] parameter(0)
  y = f32[] parameter(1)
  s = f32[2] all-reduce(x), to_apply=add
  r = u32[] replica-id()
  ROOT t = (f32[2], f32[], u32[]) tuple(s, y, r)
}
"""
FEED = """HloModule feed

ENTRY main {
  t = token[] after-all()
  f = (bf16[2], token[]) infeed(t)
  a = bf16[2] get-tuple-element(f), index=0
  u = token[] get-tuple-element(f), index=1
  g = (s32[], token[]) infeed(u)
  n = s32[] get-tuple-element(g), index=0
  v = token[] get-tuple-element(g), index=1
  c = (bf16[2], s32[]) tuple(a, n)
  o = token[] outfeed(c, v), outfeed_shape=(bf16[2], s32[])
  s = (s32[], u32[], token[]) send(n, o), channel_id=7, is_host_transfer=true
  d = token[] send-done(s), channel_id=7, is_host_transfer=true
  ROOT m = s32[] negate(n)
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "sum.hlo"
    path.write_text(SUM)
    return path


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_inputs_and_outputs_of_devices(program: Path, tmp_path: Path, hlotool: Run, backend: str) -> None:
    given = tmp_path / "in.npz"
    np.savez(given, **{"arg0@0": np.float32([1, 2]), "arg0@1": np.float32([10, 20]), "arg1": np.float32(5)})
    out = tmp_path / "out.npz"
    done = hlotool("run", program, "--inputs", given, "-o", out, "--backend", backend, "--compare", "evaluate")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        f"out{n}@{d}" for d in (0, 1) for n in range(3)
    ]
    with np.load(out) as arrays:
        found = {name: arrays[name].tolist() for name in arrays.files}
    assert found == {
        "out0@0": [11, 22], "out1@0": 5, "out2@0": 0, "out0@1": [11, 22], "out1@1": 5, "out2@1": 1,
    }  # fmt: skip
    assert hlotool("run", program, "--inputs", given, "--compare", out).returncode == 0
    np.savez(out, out0=np.float32([11, 22]), out1=np.float32(5), out2=np.uint32(0))
    assert hlotool("run", program, "--inputs", given, "--compare", out).returncode == 1


def test_input_options_for_devices(program: Path, hlotool: Run) -> None:
    done = hlotool("run", program, "--input", "x@1=3", "--input", "x=1", "--input", "y=0", "--replicas", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[5. 5.]") == 3
    done = hlotool("run", program, "--input", "x=1", "--input", "y@1=0")
    assert done.returncode == 2
    assert "no value for y@0;" in done.stderr
    done = hlotool("run", program, "--input", "x@2=1", "--random", "1")
    assert done.returncode == 2
    assert "the devices are 0 to 1" in done.stderr
    done = hlotool("run", program, "--random", "1", "--format", "json", "--replicas", "1", "--partitions", "2")
    assert [row["name"] for row in json.loads(done.stdout)["outputs"]][:4] == ["out0@0", "out1@0", "out2@0", "out0@1"]


def test_what_does_not_fit_the_devices(tmp_path: Path, hlotool: Run) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(SUM.replace("all-reduce(x)", "all-reduce(x), replica_groups={{0,1,2}}"))
    done = hlotool("run", path)
    assert done.returncode == 4
    assert "s: all-reduce among several participants: the program runs on 2 replicas and 1 partition" in done.stderr
    path.write_text(SUM.replace("all-reduce(x)", "all-reduce(x), replica_groups={{0,0}}"))
    done = hlotool("run", path)
    assert done.returncode == 3
    assert "0 is in the replica groups twice" in done.stderr


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_queues(tmp_path: Path, hlotool: Run, backend: str) -> None:
    path = tmp_path / "feed.hlo"
    path.write_text(FEED)
    given, out = tmp_path / "in.npz", tmp_path / "out.npz"
    bits = np.array([1.5, -2], ml_dtypes.bfloat16).view(np.uint16)
    np.savez(given, infeed0=bits, infeed1=np.int32(7))
    done = hlotool("run", path, "--infeed", given, "--outfeed", out, "--backend", backend, "--compare", "evaluate")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("out0: s32[]\n-7\n")
    with np.load(out) as arrays:
        found = {name: arrays[name].tolist() for name in arrays.files}
    assert found == {"outfeed0": bits.tolist(), "outfeed1": 7, "channel7_0": 7}
    np.savez(given, infeed0=bits)
    done = hlotool("run", path, "--infeed", given, "--backend", backend)
    assert done.returncode == 5
    assert "g: the infeed of device 0 is empty: all of 1 array were read, s32[] is wanted next" in done.stderr
    for names, message in [
        (["infeed1"], "infeed1 follows nothing"),
        (["arg0"], "arg0 is no queue"),
        (["infeed0", "infeed0@3"], "infeed0@3 follows nothing, or is for a device that is not there"),
    ]:
        np.savez(given, **dict.fromkeys(names, bits))
        done = hlotool("run", path, "--infeed", given)
        assert done.returncode == 3
        assert message in done.stderr


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_time_limit(tmp_path: Path, hlotool: Run, backend: str, replicas: int) -> None:
    path = tmp_path / "endless.hlo"
    path.write_text(ENDLESS)
    done = hlotool("run", path, "--timeout", "0.2", "--backend", backend, "--replicas", replicas)
    assert done.returncode == 5
    assert "stopped: the time limit of 0.2 s is over" in done.stderr
    assert hlotool("run", path, "--timeout", "0").returncode == 2
    path.write_text(ENDLESS.replace("constant(true)", "constant(false)"))
    assert hlotool("run", path, "--timeout", "60", "--backend", backend).returncode == 0


def test_a_module_that_is_not_partitioned_is_told(hlotool, tmp_path) -> None:
    """Whole arrays on every device; the command that partitions it is said, and what it writes is run without a word.
    The partitioner makes another program, which run does not do on the way."""
    file = tmp_path / "m.hlo"
    file.write_text(
        "HloModule m\n\nENTRY e {\n  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
        "  ROOT y = f32[8] negate(x), sharding={devices=[2]<=[2]}\n}\n"
    )
    passes = "sharding-propagation,spmd-partitioner{partitions=2}"
    for _ in range(2):  # and no code in a cache keeps it back
        told = hlotool("run", str(file))
        assert told.returncode == 0
        assert "every device computes all of it although x is cut among devices" in told.stderr
        assert f"-p '{passes}'" in told.stderr
    assert hlotool("opt", str(file), "-p", passes, "-o", str(tmp_path / "new.hlo")).returncode == 0
    done = hlotool("run", str(tmp_path / "new.hlo"))
    assert (done.returncode, done.stderr, done.stdout.count("f32[4]")) == (0, "", 2)
    refused = hlotool("run", str(file), "-p", passes)
    assert refused.returncode == 3
    assert "takes or gives other arrays" in refused.stderr
