"""``hlotool compare``: verdicts, numbers and places of differences, against every kind of reference."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT, Install, Run, environment, has_worked
from hypothesis import given
from hypothesis import strategies as st
from json_schemas import check_json
from planted_passes import edited, matters

from hlotool.cli import cli
from hlotool.cli.compare_command import command
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.harness.all_values import Divergence, ValuesComparison
from hlotool.harness.differences import differences, units
from hlotool.harness.inputs import random_inputs
from hlotool.harness.native_values import native_values
from hlotool.ir import Module, clone_module, dtype_of
from hlotool.text.parser import parse

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
    parent = click.Context(cli, **cli.context_settings)  # a command keeps the first option of help that it is given
    for line in lines:
        context = command.make_context("compare", shlex.split(line), parent)
        assert context.params["files"][0] in ("model.hlo", "a.hlo")


def test_run_judges_as_compare_does(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "close.hlo").write_text(CLOSE)
    for extra in ([], ["--max-undecided", "1"], ["--rtol", "1e-6"]):
        codes = {hlotool("compare", "close.hlo", *extra).returncode,
                 hlotool("run", "close.hlo", "--compare", "evaluate", *extra).returncode}  # fmt: skip
        assert len(codes) == 1


# ---- every value

PLANTED = """
from dataclasses import dataclass
from hlotool.passes.framework.graph import made_from, replace_with

@dataclass(frozen=True)
class Wrong:
    name = "wrong"
    opcode: str = "add"
    new: str = "subtract"
    number: int = 0

    def run(self, module, log):
        found = [one for c in module.computations.values() for one in c if one.opcode == self.opcode]
        one = found[self.number]
        new = one.parent.add(made_from(one, self.new, one.shape, one.operands), before=one)
        replace_with(one, new)
        return True
"""
"""A pass that is wrong in one place."""

STACK = """HloModule stack
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,16] tanh(d)
  m = f32[8,16] multiply(t, t), metadata={op_name="model/square" source_file="model.py" source_line=12}
  n = f32[8,16] negate(m)
  e = f32[8,16] exponential(n)
  zero = f32[] constant(0)
  r = f32[8] reduce(e, zero), dimensions={1}, to_apply=sum
  b = f32[8,16] broadcast(r), dimensions={0}
  q = f32[8,16] divide(e, b)
  tr = f32[16,8] transpose(q), dimensions={1,0}
  ROOT o = f32[16,8] abs(tr)
}
"""

LOOP = """HloModule loop
body { p = (s32[], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[32] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  half = f32[] constant(0.5)
  halves = f32[32] broadcast(half), dimensions={}
  scaled = f32[32] multiply(v, halves)
  moved = f32[32] sine(scaled)
  ROOT t = (s32[], f32[32]) tuple(next, moved) }
cond { p = (s32[], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(TRIPS)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY main { v = f32[32] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[32]) tuple(zero, v)
  w = (s32[], f32[32]) while(s), condition=cond, body=body
  ROOT r = f32[32] get-tuple-element(w), index=1 }
"""


@pytest.fixture
def wrong(install: Install) -> dict[str, str | None]:
    return install("planted", PLANTED, "hlotool.passes", wrong="Wrong")


def values_of(text: str, made: Module, arrays: Sequence[Array], **options: Any) -> ValuesComparison:
    comparison = ValuesComparison(original=parse(text), made=made, arrays=arrays, **options)
    comparison.run()
    assert comparison.complete
    return comparison


def first_of(comparison: ValuesComparison) -> Divergence:
    found = comparison.first_divergence()
    assert found is not None
    return found


def test_all_values_of_a_right_module_are_ok(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "stack.hlo").write_text(STACK)
    done = hlotool("compare", "stack.hlo", "--all-values")
    assert (done.returncode, done.stderr) == (0, "")
    assert "first divergence: none" in done.stdout
    answer = check_json(hlotool("compare", "stack.hlo", "--all-values", "--format", "json").stdout)
    rows = answer["values"]["rows"]
    assert {row["verdict"] for row in rows} <= {"ok", "not compared"}
    assert any(row["value"] == "native" and row["kernel"]["ok"] for row in rows)
    assert {row["counterpart"] for row in rows} >= {"main/d", "main/t", "main/m", "main/e", "main/r", "main/o"}
    assert (answer["values"]["complete"], answer["values"]["moved"]) == (True, False)


def test_a_wrong_pass_is_named_with_its_source(hlotool: Run, wrong: dict[str, str | None], tmp_path: Path) -> None:
    (tmp_path / "stack.hlo").write_text(STACK)
    passes = ("-p", "wrong{opcode=multiply,new=add},default")
    done = hlotool("compare", "stack.hlo", *passes, "--all-values", "--format", "json", env=wrong)
    assert done.stderr == ""
    answer = check_json(done.stdout)
    first = answer["values"]["first_divergence"]
    assert (done.returncode, answer["verdict"]) == (1, "MISMATCH")
    assert (first["counterpart"], first["cause"]) == ("main/m", "passes")
    assert first["source"] == "model.py:12 model/square"
    assert first["confirmation"]["verdict"] == "confirmed"
    assert all(verdict == "ok" for verdict in _verdicts(answer, first["reads"]))
    done = hlotool("compare", "stack.hlo", *passes, "--graph", "errors.svg", env=wrong)
    assert done.returncode == 1
    assert "a pass changed it" in done.stdout
    assert "blame confirmed: 1 of 1 results is wrong, and none with the right value in its place" in done.stdout
    assert "model.py:12 model/square" in done.stdout


def _verdicts(answer: dict[str, Any], paths: Sequence[str]) -> list[str]:
    return [row["verdict"] for row in answer["values"]["rows"] if row["instruction"] in paths]


@pytest.mark.parametrize("kind", ["lost-negate", "lost-function", "swapped-divide", "multiply-add", "reduce-init"])
@pytest.mark.parametrize("pipeline", ["default", "O1", "none"])
def test_planted_errors_are_named(kind: str, pipeline: str) -> None:
    """Whatever the passes after the wrong one do: what was edited is named, or known to have gone."""
    module = parse(STACK)
    arrays = random_inputs(module, 0)
    places = list(edited(module, kind))
    before = evaluate(module, arrays)
    places = [(place, changed) for place, changed in places if matters(before, evaluate(changed, arrays))]
    assert places
    for place, changed in places:
        made = compile_module(changed, pipeline=pipeline, threads=1)
        comparison = values_of(STACK, made.module, arrays, decisions=made.decisions)
        first = first_of(comparison)
        match = first.row.counterpart
        assert match is not None
        assert place in {match.instruction.name, *(one.name for one in first.gone)}
        assert first.cause == "passes"
        assert comparison.confirm(first).verdict == "confirmed"


def test_blame_is_not_confirmed_where_something_else_is_wrong_too() -> None:
    module = parse(STACK)
    arrays = random_inputs(module, 0)
    twice = parse(STACK.replace("tanh(", "cosine(").replace("divide(e, b)", "divide(b, e)"))
    comparison = values_of(STACK, twice, arrays)
    found = comparison.confirm(first_of(comparison))
    assert (found.verdict, "out0 still" in found.why) == ("not confirmed", True)


def test_blame_is_undecided_where_the_results_do_not_show_it() -> None:
    text = """ENTRY e { x = f32[8] parameter(0)
      wrong = f32[8] exponential(x)
      zero = f32[] constant(0)
      zeros = f32[8] broadcast(zero), dimensions={}
      gone = f32[8] multiply(wrong, zeros)
      ROOT r = f32[8] add(x, gone) }"""
    module = parse(text)
    comparison = values_of(text, module, random_inputs(module, 0), compile_=without_exponential)
    first = first_of(comparison)
    found = comparison.confirm(first)
    assert (first.cause, found.verdict, found.why) == ("kernel", "undecided", "no result is wrong because of it")


def without_exponential(variant: Module) -> Any:
    """Native code that takes a sine for an exponential."""
    variant = clone_module(variant)
    for one in variant.entry:
        if one.opcode == "exponential":
            one.opcode = "sine"
    return compile_module(variant, pipeline="none", threads=1).run


@pytest.mark.parametrize("trips", [1, 3, 40])
def test_loops_are_compared_in_their_first_trip(trips: int) -> None:
    """Rolled, unrolled and gone: nothing right is called wrong, and a wrong body is found."""
    text = LOOP.replace("TRIPS", str(trips))
    module = parse(text)
    arrays = random_inputs(module, 0)
    right = compile_module(module, threads=1)
    assert values_of(text, right.module, arrays, decisions=right.decisions).first_divergence() is None
    broken = compile_module(parse(text.replace("sine(", "cosine(")), threads=1)
    comparison = values_of(text, broken.module, arrays, decisions=broken.decisions)
    first = first_of(comparison)
    match = first.row.counterpart
    assert match is not None
    assert match.instruction.name in ("moved", "w")
    # Of what runs often, the right value of the first trip is all that is known.
    loops = any(one.opcode == "while" for one in broken.module.instructions())
    found = comparison.confirm(first)
    assert found.verdict == ("undecided" if loops else "confirmed" if trips == 1 else found.verdict), found
    assert "runs" in found.why or not loops


def test_a_wrong_kernel_is_told_from_a_wrong_pass() -> None:
    module = parse(STACK)
    arrays = random_inputs(module, 0)
    right = compile_module(module, pipeline="none", threads=1)

    comparison = values_of(STACK, right.module, arrays, compile_=without_exponential)
    first = first_of(comparison)
    assert comparison.confirm(first).verdict == "confirmed"
    assert (first.cause, first.row.instruction.opcode) == ("kernel", "exponential")
    assert [row.verdict for row in first.reads] == ["ok"]
    assert first.row.passes is not None
    assert first.row.passes.comparison.ok


def test_native_values_are_those_of_the_program() -> None:
    """In as many programs as it takes."""
    module = parse(STACK)
    arrays = random_inputs(module, 0)
    made = compile_module(module, threads=1)
    found = list(native_values(made.module, arrays, lambda variant: compile_module(variant, pipeline="none").run))
    assert found
    for results, values in found:
        np.testing.assert_array_equal(results[0], made(*arrays)[0])
        assert all(array.shape == one.shape.dimensions for one, (array,) in values.items() if one.shape.is_array)


def test_another_module_is_compared_value_by_value(hlotool: Run, layer: str) -> None:
    done = hlotool("compare", "wrong.hlo", "--with", layer, "--all-values", "--format", "json")
    first = check_json(done.stdout)["values"]["first_divergence"]
    assert (done.returncode, first["counterpart"], first["cause"]) == (1, "main/s", "passes")


@pytest.mark.parametrize("form", ["html", "dot", "svg"])
def test_the_graph_shows_errors(hlotool: Run, layer: str, tmp_path: Path, form: str) -> None:
    if form == "svg" and shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    done = hlotool("compare", "wrong.hlo", "--with", layer, "--graph", f"errors.{form}")
    assert (done.returncode, done.stderr) == (1, "")
    text = (tmp_path / f"errors.{form}").read_text()
    assert {"html": "MISMATCH: evaluated with main/s", "dot": "digraph", "svg": "</svg>"}[form] in text
    if form != "html":
        assert "#c62828" in text  # the outline of what is wrong


def test_pictures_of_no_kind_are_refused(hlotool: Run, layer: str) -> None:
    done = hlotool("compare", layer, "--graph", "errors.jpg")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ends in .html" in done.stderr


def test_all_values_says_what_it_cannot(hlotool: Run, layer: str) -> None:
    assert hlotool("compare", layer, "--all-values", "--replicas", "2").returncode == 2
    dynamic = "ENTRY e { p = f32[<=4] parameter(0)\n ROOT r = f32[<=4] negate(p) }"
    done = hlotool("compare", "-", "--all-values", stdin=dynamic)
    assert done.returncode == 4
    assert "sizes of run time" in done.stderr


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processor time is read from /proc")
def test_interrupted_values_are_reported(hlotool: Run, tmp_path: Path) -> None:
    """Native code is quick, the evaluator is not: the outputs are compared already."""
    (tmp_path / "long.hlo").write_text(LOOP.replace("TRIPS", "2000000"))
    assert hlotool("run", "long.hlo", "-o", "out.npz").returncode == 0
    options = ["--against", "out.npz", "--all-values", "--format", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hlotool", "compare", "long.hlo", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path,
    )  # fmt: skip
    try:
        has_worked(process, 6)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert (process.returncode, errors.strip()) == (130, "interrupted")
    answer = check_json(output)
    assert (answer["outputs"][0]["verdict"], answer["values"]["complete"]) == ("ok", False)


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


def test_manual_and_help_name_the_command() -> None:
    assert "hlotool compare FILE" in (ROOT / "man" / "guide" / "docs" / "commands.md").read_text()
    assert CliRunner().invoke(command, ["--help"]).exit_code == 0
