"""``hlotool compare``: verdicts, numbers and places of differences, against every kind of reference."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT, Run, environment, has_worked
from hypothesis import given
from hypothesis import strategies as st
from json_schemas import check_json

from hlotool.cli.compare_command import command
from hlotool.harness.differences import differences, units
from hlotool.ir import dtype_of

Array = np.ndarray[Any, Any]

LAYER = """HloModule layer
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  d = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,4] tanh(d)
  e = f32[8,4] exponential(t)
  s = f32[8,4] add(e, d)
  ROOT r = (f32[8,4], f32[8,4]) tuple(s, t)
}
"""
WRONG = LAYER.replace("add(e, d)", "subtract(e, d)")
CLOSE = """ENTRY main { p0 = f32[3] parameter(0)
  e = f32[3] exponential(p0)
  l = f32[3] log(e)
  ROOT r = pred[3] compare(l, p0), direction=GE }"""
SPECIAL = """ENTRY main { p = f32[6] parameter(0)
  ROOT r = f32[6] log(p) }"""
ENDLESS = """body { p = (s32[], s32[1000000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = s32[1000000] get-tuple-element(p), index=1
  one = s32[] constant(1)
  b = s32[1000000] broadcast(one), dimensions={}
  w = s32[1000000] add(v, b)
  z = s32[] constant(0)
  n = s32[] subtract(i, z)
  ROOT t = (s32[], s32[1000000]) tuple(n, w) }
cond { p = (s32[], s32[1000000]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  z = s32[] constant(-1)
  ROOT c = pred[] compare(i, z), direction=GT }
ENTRY main { i = s32[] constant(5)
  v = s32[1000000] parameter(0)
  s = (s32[], s32[1000000]) tuple(i, v)
  ROOT w = (s32[], s32[1000000]) while(s), condition=cond, body=body }"""


@pytest.fixture
def layer(tmp_path: Path) -> str:
    (tmp_path / "layer.hlo").write_text(LAYER)
    (tmp_path / "wrong.hlo").write_text(WRONG)
    return "layer.hlo"


# ---- through a process


def test_a_right_module_is_ok(hlotool: Run, layer: str) -> None:
    done = hlotool("compare", layer)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: layer.hlo against truth, by error bounds\n")
    assert "out1: f32[8,4]: ok: 0 of 32 elements differ" in done.stdout
    assert "ulp" in done.stdout
    assert "█" in done.stdout


def test_standard_input_json_and_a_file_for_the_report(hlotool: Run, tmp_path: Path) -> None:
    answer = check_json(hlotool("compare", "-", "--format", "json", stdin=LAYER).stdout)
    assert (answer["verdict"], answer["judged_by"], len(answer["outputs"])) == ("ok", "bounds", 2)
    (first, second) = answer["outputs"]
    assert first["differences"]["ulp"]["largest"] >= first["differences"]["ulp"]["median"] > 0
    assert sum(second["differences"]["histogram"]) == second["count"] == 32
    done = hlotool("compare", "-", "--format", "json", "-o", "report.json", stdin=LAYER)
    assert (done.returncode, done.stdout) == (0, "")
    assert check_json((tmp_path / "report.json").read_text()) == answer


def test_another_module(hlotool: Run, layer: str) -> None:
    done = hlotool("compare", "wrong.hlo", "--with", layer)
    assert done.returncode == 1
    assert done.stdout.startswith("MISMATCH: wrong.hlo against layer.hlo, by error bounds")
    assert "first bad at [0, 0], worst at [" in done.stdout
    answer = check_json(hlotool("compare", "wrong.hlo", "--with", "-", "--format", "json", stdin=LAYER).stdout)
    assert [row["verdict"] for row in answer["outputs"]] == ["MISMATCH", "ok"]
    assert answer["outputs"][0]["first_bad"] == [0, 0]
    assert answer["outputs"][0]["reference"]["verdict"] == "ok"
    assert hlotool("compare", layer, "--with", layer).returncode == 0


def test_another_pipeline(hlotool: Run, layer: str) -> None:
    done = hlotool("compare", layer, "--with-passes", "none", "-O3")
    assert done.returncode == 0
    assert done.stdout.startswith("ok: layer.hlo against layer.hlo with -p none")


def test_saved_outputs(hlotool: Run, layer: str) -> None:
    assert hlotool("run", layer, "-o", "out.npz").returncode == 0
    done = hlotool("compare", layer, "--against", "out.npz")
    assert (done.returncode, done.stdout.count("all elements are equal")) == (0, 2)
    assert "by tolerance" in done.stdout
    done = hlotool("compare", "wrong.hlo", "--against", "out.npz")
    assert (done.returncode, "out0: f32[8,4]: MISMATCH" in done.stdout) == (1, True)
    assert hlotool("compare", "wrong.hlo", "--against", "out.npz", "--atol", "1e9").returncode == 0


def test_the_evaluator(hlotool: Run, layer: str) -> None:
    assert hlotool("compare", layer, "--against", "evaluate").stdout.startswith("ok: layer.hlo against evaluator")
    assert hlotool("compare", layer, "--against", "evaluate", "--rtol", "0").returncode == 1
    assert hlotool("compare", layer, "--backend", "evaluate").returncode == 0


def test_undecided_is_not_ok(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "close.hlo").write_text(CLOSE)
    done = hlotool("compare", "close.hlo", "--format", "json")
    answer = check_json(done.stdout)
    assert (done.returncode, answer["verdict"], answer["outputs"][0]["undecided"]) == (1, "UNDECIDED", 3)
    assert hlotool("compare", "close.hlo").stdout.startswith("UNDECIDED: close.hlo")
    assert hlotool("compare", "close.hlo", "--max-undecided", "100%").returncode == 0
    assert hlotool("compare", "close.hlo", "--with-passes", "none").returncode == 1


def test_what_is_not_finite_is_counted(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "special.hlo").write_text(SPECIAL)
    np.savez(tmp_path / "in.npz", arg0=np.array([1, 0, -1, np.inf, np.nan, 2], np.float32))
    np.savez(tmp_path / "out.npz", out0=np.array([0, np.inf, 1, 3, np.nan, np.nan], np.float32))
    done = hlotool("compare", "special.hlo", "--inputs", "in.npz", "--format", "json")
    classes = check_json(done.stdout)["outputs"][0]["differences"]["classes"]
    assert (done.returncode, classes["nan_in_both"], classes["inf_in_both"]) == (0, 2, 2)
    done = hlotool("compare", "special.hlo", "--inputs", "in.npz", "--against", "out.npz", "--format", "json")
    (row,) = check_json(done.stdout)["outputs"]
    classes = {name: count for name, count in row["differences"]["classes"].items() if count}
    assert classes == {
        "equal": 1, "nan_in_both": 1, "nan_only_here": 1, "nan_only_in_reference": 1, "inf_of_other_sign": 1,
        "inf_only_here": 1,
    }  # fmt: skip
    assert (done.returncode, row["first_bad"], row["differences"]["wrong_bits"]) == (1, [1], None)


def test_several_devices(hlotool: Run, tmp_path: Path) -> None:
    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main { p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), replica_groups={{0,1}}, to_apply=add }"""
    answer = check_json(hlotool("compare", "-", "--replicas", "2", "--format", "json", stdin=text).stdout)
    assert [row["name"] for row in answer["outputs"]] == ["out0@0", "out0@1"]
    assert (answer["verdict"], answer["judged_by"]) == ("ok", "tolerance")


@pytest.mark.skipif("HLOTOOL_XLA_PYTHON" not in os.environ, reason="HLOTOOL_XLA_PYTHON names no Python with jax")
def test_xla(hlotool: Run, layer: str) -> None:
    done = hlotool("compare", layer, "--against", "xla")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: layer.hlo against XLA, by error bounds")


def test_without_xla(hlotool: Run, layer: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no module named jax' >&2\nexit 1\n")
    python.chmod(0o755)
    done = hlotool("compare", layer, "--against", "xla", "--xla-python", python)
    assert done.returncode == 4
    assert "pip install jax" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["layer.hlo", "--against", "truth", "--with", "wrong.hlo"], 2, "give one of them"),
        (["-", "--with", "-"], 2, "both standard input"),
        (["layer.hlo", "--backend", "gpu"], 2, "no backend"),
        (["layer.hlo", "--max-undecided", "few"], 2, "no share"),
        (["layer.hlo", "--input", "y=1"], 2, "the parameters are x, w"),
        (["missing.hlo"], 3, "cannot read"),
        (["layer.hlo", "--against", "missing.npz"], 3, "cannot read missing.npz"),
        (["layer.hlo", "--with", "other.hlo"], 3, "other.hlo gives (f32[2])"),
        (["broken.hlo"], 3, "HLO0108"),
        (["elided.hlo"], 4, "--elided"),
    ],
)
def test_what_cannot_be_compared(
    hlotool: Run, layer: str, tmp_path: Path, arguments: list[str], code: int, complaint: str
) -> None:
    (tmp_path / "broken.hlo").write_text(LAYER.replace("tanh", "tannh"))
    (tmp_path / "other.hlo").write_text(
        "ENTRY e { x = f32[8,16] parameter(0)\n w = f32[16,4] parameter(1)\n ROOT r = f32[2] constant({1,2}) }"
    )
    (tmp_path / "elided.hlo").write_text("ENTRY e { ROOT c = f32[100] constant({...}) }")
    done = hlotool("compare", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_fails(hlotool: Run) -> None:
    text = 'ENTRY e { p = f32[2] parameter(0)\n ROOT r = f32[2] custom-call(p), custom_call_target="nobody.knows" }'
    done = hlotool("compare", "-", stdin=text)
    assert (done.returncode, done.stdout) == (4, "")


def test_a_closed_pipe(layer: str, tmp_path: Path) -> None:
    line = f'{shlex.quote(sys.executable)} -m hlotool compare layer.hlo | true; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processor time is read from /proc")
def test_interrupt(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(ENDLESS)
    process = subprocess.Popen(
        [sys.executable, "-m", "hlotool", "compare", tmp_path / "m.hlo"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        has_worked(process, 2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert (process.returncode, output, errors.strip()) == (130, "", "interrupted")


def test_examples_of_the_help_are_options() -> None:
    """What the help shows is parsed as it stands."""
    lines = re.findall(r"^ +hlotool compare (.*)$", command.help or "", re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        context = command.make_context("compare", shlex.split(line))
        assert context.params["file"] == "model.hlo"


def test_run_judges_as_compare_does(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "close.hlo").write_text(CLOSE)
    for extra in ([], ["--max-undecided", "1"], ["--rtol", "1e-6"]):
        codes = {hlotool("compare", "close.hlo", *extra).returncode,
                 hlotool("run", "close.hlo", "--compare", "evaluate", *extra).returncode}  # fmt: skip
        assert len(codes) == 1


# ---- numbers


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2"])
def test_the_next_number_is_one_unit_away(kind: str) -> None:
    dtype = dtype_of(kind)
    bits = np.dtype(f"u{dtype.itemsize}")
    one = np.array([0.0, 1.0, 1.5, 2.0, 0.25], dtype)
    above = (one.view(bits) + bits.type(1)).view(dtype)
    found = differences(above, one, kind)
    assert found.ulp is not None
    assert found.ulp.median == found.ulp.largest == 1
    assert found.histogram == (0, 0, 5)
    assert found.bits == 1


@given(st.floats(2.0**-100, 2.0**100, width=32), st.integers(0, 1 << 20))
def test_units_are_numbers_between(value: float, steps: int) -> None:
    start = np.float32(value)
    end = (np.array([start]).view(np.uint32) + np.uint32(steps)).view(np.float32)
    if np.frexp(end[0])[1] == np.frexp(start)[1]:
        apart = np.abs(end.astype(np.float64) - np.float64(start))
        assert units(apart, np.array([float(start)]), "f32")[0] == steps


@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_every_element_is_in_one_class_and_one_bar(values: list[float], random: Any) -> None:
    reference = np.array(values, np.float32)
    got = np.array(random.sample(values, len(values)), np.float32)
    found = differences(got, reference, "f32")
    assert sum(found.classes.values()) == found.count == len(values)
    assert sum(found.histogram) == found.classes["equal"] + found.classes["different"]


def test_integers_and_predicates_differ_by_what_they_differ() -> None:
    found = differences(np.array([2**62, 3]), np.array([2**62 + 1, 3]), "s64")
    assert found.ulp is None
    assert found.absolute is not None
    assert (found.absolute.largest, found.bits, found.histogram) == (1, 1, (1, 0, 1))
    assert differences(np.array([True, False]), np.array([True, True]), "pred").classes["different"] == 1


def test_readme_and_help_name_the_command() -> None:
    assert "hlotool compare FILE" in (ROOT / "README.md").read_text()
    assert CliRunner().invoke(command, ["--help"]).exit_code == 0
