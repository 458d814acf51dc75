"""`hlotool study`: what is trained, what is timed, what is written, and what is said of a module."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run, environment
from json_schemas import check_json

from hlotool import parse
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.gain import USUAL, cluster_gain, eager_seconds, fusion_gain, operation_gain, program_seconds
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.journal import Journal
from hlotool.harness.op_by_op import op_by_op
from hlotool.harness.study import trainers
from hlotool.harness.study.counters import CACHE_MISSES, PAGE_FAULTS, counted
from hlotool.harness.study.mlp import SAMPLES, Configuration, batch_of, data_set, initial_state, training_module
from hlotool.harness.study.point import COMPILED, EAGER, Effort, Laboratory, Point, Way, Where, point_json, read_point
from hlotool.harness.study.study import configurations, geometric_mean, measure_all, slower_points
from hlotool.harness.study.trainers import Trainer, compiled, numpy_step
from hlotool.harness.study.worth import ClusterWorth, ModuleWorth, study_module
from hlotool.ir import InputError

SMALL = ("--layers", "1", "--widths", "3,5", "--batches", "2,7", "--time", "0.004", "--rounds", "2")
QUICK = Effort(2, 0.004, 0.004, 0.004)


# ---- what is trained


@pytest.mark.parametrize(
    "configuration", [Configuration(1, 4, 3), Configuration(3, 17, 8), Configuration(2, 5, 506)], ids=str
)
def test_the_step_is_that_of_numpy_and_of_the_evaluator(configuration: Configuration) -> None:
    """Gradients by hand, by automatic differentiation, and the meaning of every opcode."""
    module = training_module(configuration)
    given = [*initial_state(configuration), *batch_of(data_set(), configuration.batch, 0)]
    expected = evaluate(module, given)
    for run in (compile_module(module).run, op_by_op(module), numpy_step(configuration)):
        for found, wanted in zip(run(*(one.copy() for one in given)), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-6)


def test_training_learns() -> None:
    configuration = Configuration(2, 16, 46)
    run, data = compiled(configuration, None)(), data_set()
    state: Sequence[Any] = initial_state(configuration)
    losses = []
    for step in range(660):  # sixty epochs
        loss, *state = run(*state, *batch_of(data, 46, step))
        losses.append(float(loss))
    assert np.mean(losses[-11:]) < 0.3 * np.mean(losses[:11])
    assert float(state[-1]) == 660


def test_the_data_set_is_the_same_each_time_and_batches_go_around() -> None:
    features, targets = data_set()
    assert (features.shape, targets.shape, features.dtype) == ((SAMPLES, 13), (SAMPLES, 1), np.float32)
    for one, other in zip(data_set(), (features, targets), strict=True):
        np.testing.assert_array_equal(one, other)
    rows, _ = batch_of((features, targets), 100, 5)  # rows 500 to 505, then 0 to 93
    np.testing.assert_array_equal(rows, np.concatenate([features[500:], features[:94]]))


def test_steps_and_parameters() -> None:
    one = Configuration(2, 10, 4)
    assert one.steps == math.ceil(20 * 506 / 4)
    assert one.parameters == 13 * 10 + 10 + 10 * 10 + 10 + 10 + 1
    assert one.parameters == sum(array.size for array in initial_state(one)[:6])
    assert configurations((2, 1), (30, 10), (1,))[0] == Configuration(1, 10, 1)


# ---- how it is timed


def test_every_sample_trains_on_the_same_steps() -> None:
    """From the last batch back to the beginning, in batches of calls of any size."""
    configuration = Configuration(1, 3, 2)
    seen: list[float] = []

    def make() -> Callable[..., Sequence[Any]]:
        def step(*arrays: Any) -> Sequence[Any]:
            *state, done, _, _ = arrays
            seen.append(float(done))
            return (np.float32(0), *state, done + np.float32(1))

        return step

    trainer = Trainer("counting", configuration, make)
    trainer.start()
    for _ in range(7):
        trainer.sample(0.0, 10)
    again = trainers._AGAIN
    assert seen[:24] == list(range(24))
    assert max(seen) < again
    assert seen[-10:] == list(range(10))  # 4 and six times 10 are 64


def test_ways_that_compute_something_else_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numpy_step

    def wrong(configuration: Configuration) -> Callable[..., Sequence[Any]]:
        step = real(configuration)

        def other(*arrays: Any) -> Sequence[Any]:
            loss, weight, *rest = step(*arrays)
            return (loss, weight * np.float32(1.01), *rest)

        return other

    monkeypatch.setattr("hlotool.harness.study.point.numpy_step", wrong)
    point = Laboratory(QUICK, None, []).measure(Configuration(1, 5, 3))
    assert point.way("numpy").step_s is None
    assert re.match(r"(losses|weights of layer 0) lie apart", point.way("numpy").difference)
    assert point.relative("numpy") is point.break_even("numpy") is None
    assert point.way(COMPILED).step_s
    assert point.way(EAGER).difference == ""


def test_what_follows_from_a_point() -> None:
    point = _point(Configuration(1, 10, 1), 2e-6)
    assert point.relative(EAGER) == pytest.approx(20)
    assert point.relative(EAGER, with_compile=True) == pytest.approx(10120 * 40e-6 / (0.1 + 10120 * 2e-6))
    assert point.break_even(EAGER) == math.ceil(0.1 / 38e-6)
    slow = _point(Configuration(1, 10, 1), 50e-6)
    assert slow.break_even(EAGER) is None
    assert slower_points([point, slow], 1.0) == [slow]
    assert read_point(json.loads(json.dumps(point_json(point)))) == point
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2)


def test_compilers_that_take_longer_are_behind_at_once() -> None:
    point = _point(Configuration(1, 10, 1), 2e-6)
    other = replace(point.way(EAGER), label="torch-compile", compile_s=3.0)
    assert replace(point, ways=(*point.ways, other)).break_even("torch-compile") == 0


def _point(configuration: Configuration, step: float) -> Point:
    """A point in numbers that are made up."""
    ways = (
        Way(label=COMPILED, compile_s=0.1, step_s=step, low_s=step, high_s=step, samples=9, steady=True),
        Way(label=EAGER, compile_s=0.0, step_s=40e-6, low_s=40e-6, high_s=40e-6, samples=9, steady=True),
        Way(label="numpy", compile_s=0.0, step_s=50e-6, low_s=50e-6, high_s=50e-6, samples=9, steady=True),
    )
    where = Where(
        call_s=1e-6, kernels_s=step, between_s=0.0, eager_calls=116, eager_call_s=2e-7, eager_kernels_s=1e-5,
        misses=None, eager_misses=None, no_misses="not here",
    )  # fmt: skip
    return Point(configuration=configuration, cached_compile_s=0.05, attempts=1, ways=ways, where=where)


def test_counters() -> None:
    """What the kernel counts itself is there, or it says why not; what the processor counts likewise."""
    with counted(PAGE_FAULTS) as faults:
        np.ones(1 << 22)
    assert (faults.count is None) == bool(faults.why_not)
    assert faults.count is None or faults.count >= 1 << 2
    with counted(CACHE_MISSES) as misses:
        np.ones(1 << 20).sum()
    assert (misses.count is None) == bool(misses.why_not)


def test_op_by_op_makes_constants_once() -> None:
    module = parse(
        "HloModule c\n\nENTRY e {\n  p = f32[3] parameter(0)\n  c = f32[3] constant({1, 2, 3})\n"
        "  a = f32[3] add(p, c)\n  ROOT t = (f32[3], f32[3]) tuple(a, c)\n}\n"
    )
    told: list[str] = []
    run = op_by_op(module, observe=lambda instruction, seconds: told.append(instruction.name))
    for _ in range(2):
        first, second = run(np.ones(3, np.float32))
        assert (first.tolist(), second.tolist()) == ([2, 3, 4], [1, 2, 3])
    assert told == ["a", "a"]


# ---- the command


def test_a_small_grid(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("study", "mlp", *SMALL, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 points" in done.stdout
    assert re.search(r"op-by-op, compile time excluded: \d of 4 points above 1", done.stdout)
    assert "cache misses are not counted" in done.stdout or "none" not in done.stdout
    rows = list(csv.DictReader((tmp_path / "out" / "mlp.csv").open(encoding="utf-8")))
    assert len(rows) == 12
    answer = check_json((tmp_path / "out" / "mlp.json").read_text("utf-8"))
    assert [p["configuration"] for p in answer["points"]] == [
        {"layers": 1, "width": width, "batch": batch} for width in (3, 5) for batch in (2, 7)
    ]
    _picture_has_the_numbers_of((tmp_path / "out" / "mlp.svg").read_text("utf-8"), rows)
    again = hlotool("study", "mlp", *SMALL, "-o", tmp_path / "out", "--format", "csv")  # nothing is measured again
    assert again.stdout == (tmp_path / "out" / "mlp.csv").read_text("utf-8")


def _picture_has_the_numbers_of(picture: str, rows: Sequence[dict[str, str]]) -> None:
    """Every ratio of the table is a point of the picture, and the other way round."""
    words = r"<title>(\d+) layers?, over ([\w-]+)(, with compiling)?, batch (\d+), (\d+): ([^<]*)<"
    drawn = set(re.findall(words, picture))
    wanted = set()
    for row in rows:
        place = (row["batch"], row["width"])
        if row["way"] == COMPILED:
            continue
        wanted.add((row["layers"], row["way"], "", *place, row["relative"]))
        if row["way"] == EAGER:
            wanted.add((row["layers"], row["way"], ", with compiling", *place, row["relative_with_compile"]))
    assert drawn == wanted


def test_the_picture_of_the_manual_is_that_of_its_table() -> None:
    guide = ROOT / "man" / "guide" / "docs"
    rows = list(csv.DictReader((guide / "study.csv").open(encoding="utf-8")))
    assert len(rows) == 3 * 75
    _picture_has_the_numbers_of((guide / "images" / "study.svg").read_text("utf-8"), rows)
    assert min(float(row["relative"]) for row in rows if row["way"] != COMPILED) > 1


def test_out_of_budget_it_goes_on_next_time(hlotool: Run, tmp_path: Path) -> None:
    for count in (1, 2, 3):
        done = hlotool("study", "mlp", *SMALL, "-o", tmp_path, "--budget", "0s")
        assert (done.returncode, f"{count} of 4 points are measured" in done.stderr) == (1, True)
        assert {path.name for path in tmp_path.iterdir()} == {"mlp.jsonl"}
    assert hlotool("study", "mlp", *SMALL, "-o", tmp_path, "--budget", "0s").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"mlp.jsonl", "mlp.svg", "mlp.csv", "mlp.json"}


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
from test_study import _point
from hlotool.harness.study import study
import hlotool.cli.study_command as command
from hlotool.cli import main

left, torn = int(sys.argv.pop(1)), sys.argv.pop(1)

def measure(self, configuration):
    global left
    if left == 0:
        if torn == "torn":
            with open(os.path.join(sys.argv[sys.argv.index("-o") + 1], "mlp.jsonl"), "a") as file:
                file.write('{"configuration": {"lay')
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return _point(configuration, configuration.width * configuration.batch * 1e-7)

command.Laboratory.measure = measure
main()
"""


def test_killed_it_ends_with_the_same_files_as_unbroken(tmp_path: Path) -> None:
    """With times that are made up: at several places, and in the middle of a line."""

    def run(folder: Path, left: int, torn: str) -> int:
        words = [str(ROOT / "tests"), str(left), torn, "study", "mlp", *SMALL, "-o", str(folder)]
        command = [sys.executable, "-c", KILLED, *words]
        return subprocess.run(command, env=environment(), capture_output=True, check=False).returncode

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole, -1, "") == 0
    for left, torn in ((0, "torn"), (1, ""), (1, "torn"), (0, "")):
        assert run(broken, left, torn) == -signal.SIGKILL
        assert {path.name for path in broken.iterdir()} == {"mlp.jsonl"}
    assert run(broken, -1, "") == 0
    for path in whole.iterdir():
        assert (broken / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--widths", "0"), 2, "expected numbers from 1 to 10000"),
        (("--batches", "507"), 2, "expected numbers from 1 to 506"),
        (("--layers", "1;2"), 2, "expected numbers from 1 to 16"),
        (("--peer", "jax"), 2, "is none of tensorflow, tensorflow-xla, torch, torch-compile"),
        (("--peer", "torch=/nowhere/python"), 2, "there is no program '/nowhere/python'"),
        (("--budget", "5s"), 2, "--budget goes with -o"),
        (("--restart",), 2, "--restart goes with -o"),
        (("--budget", "soon", "-o", "out"), 2, "is no time"),
        (("-o", "a_file/out"), 5, "cannot write"),
    ],
)  # fmt: skip
def test_wrong_options(
    hlotool: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Sequence[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
    done = hlotool("study", "mlp", *options)
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr


def test_a_python_without_the_framework(hlotool: Run) -> None:
    missing = next((name for name in ("tensorflow", "torch") if find_spec(name) is None), None)
    if missing is None:
        pytest.skip("this Python has both frameworks")
    done = hlotool("study", "mlp", "--quick", "--peer", missing)
    assert (done.returncode, f"No module named '{missing}'" in done.stderr) == (4, True), done.stderr


@pytest.mark.parametrize("label", ["torch", "tensorflow", "tensorflow-xla"])
def test_a_framework_trains_the_same(hlotool: Run, label: str) -> None:
    if find_spec(label.partition("-")[0]) is None:
        pytest.skip(f"this Python has no {label.partition('-')[0]}")
    done = hlotool("study", "mlp", *SMALL, "--peer", label, "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["way"] == label]
    assert len(rows) == 4
    assert all(row["difference"] == "" and float(row["relative"]) > 0 for row in rows)


def test_a_journal_is_that_of_one_study(hlotool: Run, tmp_path: Path) -> None:
    assert hlotool("study", "mlp", *SMALL, "-o", tmp_path, "--budget", "0s").returncode == 1
    other = hlotool("study", "mlp", *SMALL, "--rounds", "3", "-o", tmp_path)
    assert (other.returncode, "of something else (effort): choose" in other.stderr) == (3, True), other.stderr
    assert hlotool("study", "mlp", *SMALL, "--rounds", "3", "-o", tmp_path, "--restart").returncode == 0
    (tmp_path / "mlp.jsonl").write_text("no journal\n")
    done = hlotool("study", "mlp", *SMALL, "-o", tmp_path)
    assert (done.returncode, "mlp.jsonl:1: this is no line of a journal" in done.stderr) == (3, True), done.stderr


def test_rows_of_a_journal_that_are_no_points(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "mlp.jsonl", {"kind": "any"})
    journal.add({"configuration": 3})
    with pytest.raises(InputError, match="a row that is no point"):
        measure_all([], pytest.fail, journal)


def test_slower_than_asked_for(hlotool: Run) -> None:
    done = hlotool("study", "mlp", *SMALL, "--widths", "3", "--batches", "2", "--fail-below", "100000")
    assert (done.returncode, "times as quick as op by op, less than 100000" in done.stderr) == (1, True)


# ---- parts of a module

STEP = ROOT / "samples" / "mlp_step.hlo"


def test_the_parts_of_a_module(hlotool: Run) -> None:
    done = hlotool("study", "model", STEP, "--time", "0.005", "--fusions", "2", "--clusters", "7", "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert answer["compiled_s"] > 0
    assert len(answer["fusions"]) == 2
    assert len(answer["clusters"]) == 7
    assert {one["name"] for one in answer["instructions"]} >= {"product1", "hidden", "d_w1", "new_w2"}
    whole, *halves = answer["clusters"]
    assert whole["operations"] == sum(one["operations"] for one in halves[:2])
    for one in answer["clusters"]:
        assert one["gain_s"] == pytest.approx(one["eager_s"] - one["compiled_s"])
    for row in answer["errors"]:
        assert row["clusters"] == 7
        assert 0 <= row["compiled_in_vain"] + row["left"] <= 7
    assert answer["errors"][0]["left"] == 0  # no cluster pays in one run


def test_instructions_share_the_time_of_the_kernels_that_compute_them() -> None:
    module = parse(STEP.read_text())
    arguments = [np.ones(p.shape.dimensions, np.float32) for p in module.entry.parameters]
    found = study_module(module, arguments, fusions=0, clusters=0, seconds=0.01)
    parts = [one.compiled_s for one in found.instructions if one.compiled_s is not None]
    assert len(parts) > len(found.instructions) / 2
    assert 0 < sum(parts) < 3 * found.compiled_s + 1e-4
    assert (found.fusions, found.clusters) == ((), ())


def test_a_module_without_native_code(hlotool: Run, tmp_path: Path) -> None:
    path = tmp_path / "call.hlo"
    path.write_text(
        "HloModule c\n\nENTRY e {\n  p = f32[4] parameter(0)\n"
        '  ROOT c = f32[4] custom-call(p), custom_call_target="no"\n}\n'
    )
    done = hlotool("study", "model", path)
    assert (done.returncode, "Traceback" in done.stderr) == (4, False), done.stderr


def test_how_often_the_rule_is_wrong() -> None:
    def cluster(predicted: float, gain: float) -> ClusterWorth:
        return ClusterWorth(
            first="a", last="b", operations=2, predicted_s=predicted, predicted_compile_s=0.05, eager_s=gain + 1e-6,
            compiled_s=1e-6, compile_s=0.05,
        )  # fmt: skip

    clusters = (cluster(1e-3, 1e-3), cluster(1e-3, 1e-5), cluster(1e-5, 1e-3), cluster(-1e-6, -1e-6))
    clusters += (replace(cluster(1, 1), eager_s=None, problem="does not run"),)
    worth = ModuleWorth(
        eager_s=1, compiled_s=1, compile_s=1, figures=USUAL, instructions=(), fusions=(), clusters=clusters
    )  # fmt: skip
    errors = {one.runs: one for one in worth.errors}
    assert (errors[100].clusters, errors[100].compiled_in_vain, errors[100].left) == (4, 1, 1)
    assert (errors[1].compiled_in_vain, errors[1].left) == (0, 0)
    assert (errors[1_000_000].compiled_in_vain, errors[1_000_000].left) == (0, 0)


def test_gains_are_calls_and_what_fusions_do_not_move() -> None:
    module = parse(STEP.read_text())
    costs = ModuleCost(module)
    by_name = {one.name: one for one in module.entry}
    product, hidden = by_name["product1"], by_name["hidden"]
    assert operation_gain(product, costs, USUAL) == pytest.approx(USUAL.call - USUAL.start)
    assert operation_gain(hidden, costs, USUAL) > USUAL.call
    assert operation_gain(by_name["x"], costs, USUAL) == eager_seconds(by_name["x"], costs, USUAL) == 0
    assert cluster_gain([product], costs, USUAL) == pytest.approx(-USUAL.start)
    assert eager_seconds(hidden, costs, USUAL) > USUAL.call
    lowered = optimise(module)
    lowered_costs = ModuleCost(lowered)
    gains = [fusion_gain(one, lowered_costs, USUAL) for one in lowered.entry if one.opcode == "fusion"]
    assert max(gains) > 0
    eager = sum(eager_seconds(one, costs, USUAL) for one in module.entry)
    assert program_seconds(lowered.entry, lowered_costs, USUAL) < eager
