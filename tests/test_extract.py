"""``hlotool extract``: parts of modules as modules that run, captured inputs, and unit tests of a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, environment
from json_schemas import check_json

from hlotool.evaluate import evaluate
from hlotool.harness.capture import capture
from hlotool.harness.inputs import random_inputs
from hlotool.harness.units import units
from hlotool.inspect.cones import cone, paths_between
from hlotool.ir import InputError
from hlotool.ir.cut import cut
from hlotool.ir.verifier import check
from hlotool.text.load import load
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

SAMPLES = ROOT / "samples"
MODULE = """HloModule m

body {
  s = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(n, one)
  v = f32[4] get-tuple-element(s), index=1
  w = f32[4] add(v, v)
  ROOT r = (s32[], f32[4]) tuple(next, w)
}

go_on {
  s = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(3)
  ROOT r = pred[] compare(n, limit), direction=LT
}

ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  zero = s32[] constant(0)
  a = f32[4] add(p, q), metadata={op_name="layer/add"}
  b = f32[4] exponential(a)
  t = (s32[], f32[4]) tuple(zero, b)
  loop = (s32[], f32[4]) while(t), condition=go_on, body=body
  x = f32[4] get-tuple-element(loop), index=1
  y = f32[4] add(x, q)
  ROOT z = (f32[4], f32[4]) tuple(y, a)
}
"""


def named(module, *names):
    found = {i.name: i for i in module.entry}
    return [found[name] for name in names]


@pytest.mark.parametrize("sample", ["attention", "conv_net", "lstm_cell", "mlp_step", "while_loop"])
def test_every_instruction_computes_alone_what_it_does_in_the_whole(sample: str) -> None:
    module = load(SAMPLES / f"{sample}.hlo")
    before = print_module(module)
    arguments = random_inputs(module, 1)
    wanted = [i for i in module.entry if i.opcode not in ("parameter", "constant")]
    cuts = [cut([i]) for i in wanted]
    values = capture(module, arguments, [*wanted, *(s for made in cuts for s in made.parameters)])
    for instruction, made in zip(wanted, cuts, strict=True):
        check(made.module)
        text = print_module(made.module)
        inputs = [array for source in made.parameters for array in values[source]]
        got = evaluate(parse(text), inputs)
        for left, right in zip(got, values[instruction], strict=True):
            np.testing.assert_array_equal(left, right)
    assert print_module(module) == before


def test_cones() -> None:
    module = parse(MODULE)
    (b, y, a) = named(module, "b", "y", "a")
    assert {i.name for i in cone([b], backward=1)} == {"a", "b"}
    assert {i.name for i in cone([b], backward=None)} == {"p", "q", "a", "b"}
    assert {i.name for i in cone([b], forward=2)} == {"b", "t", "loop"}
    assert {i.name for i in paths_between(y, a)} == {"a", "b", "t", "loop", "x", "y"}
    with pytest.raises(InputError, match="no path leads"):
        paths_between(*named(module, "p", "q"))


def test_results_are_what_others_read() -> None:
    made = cut(named(parse(MODULE), "a", "b", "t"))
    assert [i.name for i in made.parameters] == ["p", "q"]
    assert [i.name for i in made.results] == ["a", "t"]
    check(made.module)
    with pytest.raises(InputError, match="nothing to cut out"):
        cut(named(parse(MODULE), "p"))
    with pytest.raises(InputError, match="nothing to cut out"):
        cut([])


def test_units_are_found_once() -> None:
    found, left_out = units(parse(MODULE))
    counts = {unit.sources[0].name: len(unit.sources) for unit in found}
    assert counts == {"a": 2, "b": 1, "loop": 1, "next": 1, "w": 1, "r": 1}
    assert left_out == []


# ---- the command


def test_main_use_in_pipes(hlotool) -> None:
    done = hlotool("extract", "-", "%b", "--backward", "1", stdin=MODULE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ROOT b = f32[4] exponential(a)" in done.stdout
    assert 'op_name="layer/add"' in done.stdout
    ran = hlotool("run", "-", "--compare", "evaluate", stdin=done.stdout)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("choice", [["loop"], ["--between", "a", "y"], ["--computation", "body"], ["body/w"],
                                    ["--query", "opcode == add and computation == e", "--forward", "all"]])  # fmt: skip
def test_captured_inputs_give_the_captured_results(hlotool, tmp_path: Path, choice: list[str]) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    done = hlotool("extract", "m.hlo", *choice, "--capture", "v.npz", "-o", "c.hlo", "--format", "json")
    assert check_json(done.stdout)["modules"][0]["file"] == "c.hlo"
    ran = hlotool("run", "c.hlo", "--inputs", "v.npz", "--compare", "v.npz")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_given_inputs_are_captured(hlotool, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    p, q = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.savez(tmp_path / "in.npz", arg0=p, arg1=q)
    assert hlotool("extract", "m.hlo", "b", "--capture", "v.npz", "--inputs", "in.npz").returncode == 0
    with np.load(tmp_path / "v.npz") as values:
        np.testing.assert_array_equal(values["arg0"], p + q)


def test_split_makes_tests(hlotool, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    done = hlotool("extract", "m.hlo", "--split", "units", "--format", "json")
    answer = check_json(done.stdout)
    assert (tmp_path / "units" / "manifest.json").read_text() == done.stdout
    assert sorted(row["count"] for row in answer["modules"]) == [1, 1, 1, 1, 1, 2]
    (two,) = [row for row in answer["modules"] if row["count"] == 2]
    assert [source["instruction"] for source in two["sources"]] == ["a", "y"]
    assert hlotool("hash", f"units/{two['file']}").stdout.startswith(two["sha256"])
    checked = hlotool("check", "units", "-j", "1")
    assert checked.stdout == "6 passed\n"


def test_units_are_checked_on_what_they_read_in_the_model(hlotool, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    p, q = np.float32([1, 2, 3, 4]), np.float32([-1, 0, 1, 2])
    np.savez(tmp_path / "in.npz", arg0=p, arg1=q)
    done = hlotool("extract", "m.hlo", "--split", "units", "--inputs", "in.npz", "--format", "json")
    rows = check_json(done.stdout)["modules"]
    assert all(row["inputs"] == row["file"].replace(".hlo", ".npz") for row in rows)
    (exponential,) = [row for row in rows if row["sources"][0]["opcode"] == "exponential"]
    with np.load(tmp_path / "units" / exponential["inputs"]) as values:
        np.testing.assert_array_equal(values["arg0"], p + q)
    assert f"inputs={exponential['inputs']}" in (tmp_path / "units" / exponential["file"]).read_text()
    assert hlotool("check", "units", "-j", "1").stdout == "6 passed\n"
    (tmp_path / "units" / exponential["inputs"]).unlink()  # they are what is read
    assert "5 passed" in hlotool("check", "units", "-j", "1").stdout


def test_units_that_do_not_run_get_made_up_inputs(hlotool, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE.replace("constant(3)", "constant(0)"))
    rows = check_json(hlotool("extract", "m.hlo", "--split", "units", "--random", "1", "--format", "json").stdout)
    inputs = {row["sources"][0]["instruction"]: row["inputs"] for row in rows["modules"]}
    assert inputs["a"] is not None
    assert inputs["w"] is None
    assert hlotool("check", "units", "-j", "1").stdout == "6 passed\n"


def test_exit_codes(hlotool, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    assert hlotool("extract", "m.hlo").returncode == 2
    assert hlotool("extract", "m.hlo", "b", "--split", "d").returncode == 2
    assert hlotool("extract", "m.hlo", "b", "--backward", "far").returncode == 2
    assert hlotool("extract", "m.hlo", "--query", "opcode =").returncode == 2
    assert hlotool("extract", "absent.hlo", "b").returncode == 3
    assert hlotool("extract", "-", "b", stdin="HloModule").returncode == 3
    near = hlotool("extract", "m.hlo", "lop")
    assert (near.returncode, "did you mean 'loop'" in near.stderr) == (3, True)
    several = hlotool("extract", "m.hlo", "--query", "opcode == add")
    assert (several.returncode, "in 2 computations (body, e)" in several.stderr) == (3, True)
    never = MODULE.replace("constant(3)", "constant(0)")
    assert hlotool("extract", "-", "body/w", "--capture", "v.npz", stdin=never).returncode == 5
    assert not (tmp_path / "v.npz").exists()


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    child = subprocess.Popen([sys.executable, "-m", "hlotool", "extract", "m.hlo", "b"], stdout=subprocess.PIPE,
                             cwd=tmp_path, env=environment())  # fmt: skip
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait() == 0
