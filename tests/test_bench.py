"""Statistics of timings, taking turns, and the command that reports them."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Run
from json_schemas import check_json

from hlotool.harness.bench import Native, Started, measure
from hlotool.harness.gate import Gate, confirm, judge
from hlotool.harness.statistics import larger, median_interval, quantile, summarise

MEAN = ROOT / "samples" / "mean.hlo"
QUICK = ("--time", "0.02", "--warmup", "0.02", "--rounds", "2", "--no-roof")


def test_quantiles_are_numpys() -> None:
    samples = sorted(random.Random(0).random() for _ in range(17))
    for share in (0.0, 0.1, 0.5, 0.77, 1.0):
        assert quantile(samples, share) == pytest.approx(np.quantile(samples, share))


@pytest.mark.parametrize("count", [8, 25, 100, 400])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    source = random.Random(count)
    hits = 0
    for _ in range(400):
        low, high = median_interval(sorted(source.expovariate(1.0) for _ in range(count)))
        hits += low <= np.log(2) <= high
    assert hits >= 0.93 * 400


def test_few_samples_make_a_wide_interval() -> None:
    assert median_interval([1.0]) == (1.0, 1.0)
    assert median_interval([1.0, 2.0, 3.0]) == (1.0, 3.0)


def test_the_rank_test_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    source = np.random.default_rng(3)
    for shift in (-0.5, 0.0, 0.3, 1.0):
        a, b = source.integers(0, 20, 40) + shift, source.integers(0, 20, 30).astype(float)
        expected = stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic").pvalue
        assert larger(list(a), list(b)) == pytest.approx(expected, rel=1e-9)
    assert larger([], [1.0]) == 1.0
    assert larger([1.0, 1.0], [1.0]) == 1.0


def test_outliers_are_counted() -> None:
    assert summarise([1.0] * 3 + [1.1] * 6 + [100.0]).outliers == pytest.approx(0.1)
    assert summarise([1.0, 1.1, 1.2, 1.3]).outliers == 0


def test_arguments_that_are_overwritten_are_renewed_for_each_call() -> None:
    kept, given = np.arange(3.0), np.full(2, 5.0)
    seen = []

    def run(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, ...]:
        assert first is kept
        seen.append(second.copy())
        second += 1
        return (second,)

    contestant = Native("it", lambda: None, lambda module: run, [kept, given], lambda run: (1,))
    started = contestant.start()
    assert contestant.sample(0.0, 4)
    assert len(seen) == 5
    assert all((values == 5.0).all() for values in (*seen, given))
    np.testing.assert_array_equal(started.outputs[0], [6.0, 6.0])


def test_programs_are_timed_that_overwrite_their_arguments(tmp_path: Path, hlotool: Run) -> None:
    file = tmp_path / "step.hlo"
    file.write_text(
        "HloModule step\nENTRY e { w = f32[64] parameter(0)\n g = f32[64] parameter(1)\n"
        " ROOT r = f32[64] subtract(w, g) }\n"
    )
    done = hlotool("bench", file, "--donate", "0", "--against", "evaluate", "--format", "json", *QUICK)
    assert [case["variant"] for case in json.loads(done.stdout)["cases"]] == ["hlotool", "evaluate"]
    assert "no parameter 9" in hlotool("bench", file, "--donate", "9", *QUICK).stderr


class Puppet:
    """A contestant that says how long it took."""

    def __init__(self, label: str, seconds: float, log: list[str], count: int = 4) -> None:
        self.label, self.seconds, self.log, self.count = label, seconds, log, count

    def start(self) -> Started:
        self.log.append(f"start {self.label}")
        return Started(0.0, 1.0, 2.0, ())

    def sample(self, seconds: float, batch: int) -> list[float]:
        self.log.append(self.label)
        return [self.seconds] * self.count


def test_contestants_take_turns() -> None:
    log: list[str] = []
    timings = measure([Puppet("a", 1e-6, log), Puppet("b", 1.0, log)], rounds=6, seconds=0.6, warmup=0.0)
    assert log[:2] == ["start a", "start b"]
    turns = [log[n : n + 2] for n in range(len(log) - 12, len(log), 2)]
    assert all(sorted(turn) == ["a", "b"] for turn in turns)
    assert len({tuple(turn) for turn in turns}) == 2  # in random order
    assert [t.batch for t in timings] == [50, 1]
    assert [len(t.samples) for t in timings] == [24, 24]


def test_native_contestants_run() -> None:
    calls: list[Sequence[object]] = []

    def run(*arguments: object) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], ...]:
        calls.append(arguments)
        return (np.zeros(3, np.float32),)

    contestant = Native("x", lambda: "module", lambda module: run, [np.ones(2)])
    started = contestant.start()
    assert started.outputs[0].shape == (3,)
    samples = contestant.sample(0.0, 5)
    assert len(samples) == 1
    assert len(calls) == 6


def test_reports(hlotool: Run, tmp_path: Path) -> None:
    arguments = ("bench", MEAN, *QUICK, "-p", "default", "-p", "none")
    text = hlotool(*arguments)
    assert text.returncode == 0
    assert "hlotool -p none" in text.stdout
    markdown = hlotool(*arguments, "--format", "markdown").stdout.splitlines()
    assert markdown[0].startswith("| file | variant |")
    assert len(markdown) == 4
    rows = hlotool(*arguments, "--format", "csv").stdout.splitlines()
    assert len(rows) == 3
    assert rows[0].split(",")[7:9] == ["high us", "best us"]
    assert hlotool(*arguments, "--format", "json", "-o", "out.json").returncode == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert [c["variant"] for c in report["cases"]] == ["hlotool -p default", "hlotool -p none"]
    for case in report["cases"]:
        steady = case["steady"]
        assert 0 < steady["best"] <= steady["low"] <= steady["median"] <= steady["high"]
        assert case["compile_s"] > 0


def test_roofs_are_measured(hlotool: Run) -> None:
    result = hlotool("bench", MEAN, "--time", "0.02", "--warmup", "0", "--format", "json")
    report = json.loads(result.stdout)
    assert report["roof"]["flops_per_s"] > 1e8
    assert len(report["roof"]["bytes_per_s"]) == 4
    assert report["cases"][0]["of_roof"] > 0


def baseline(tmp_path: Path, factor: float, same_build: bool = False) -> str:
    """A report whose samples are `factor` times those of another, made by another hlotool or by this one."""
    report = json.loads((tmp_path / "now.json").read_text())
    for case in report["cases"]:
        case["samples"] = [s * factor for s in case["samples"]]
    if not same_build:
        report["build"] = "another"
    (tmp_path / "old.json").write_text(json.dumps(report))
    return "old.json"


def test_the_gate(hlotool: Run, tmp_path: Path) -> None:
    arguments = ("bench", MEAN, *QUICK)
    assert hlotool(*arguments, "--format", "json", "-o", "now.json").returncode == 0
    slower = hlotool(*arguments, "--baseline", baseline(tmp_path, 0.01), "--fail-if", ">5% @99%")
    assert slower.returncode == 1
    assert ": slower: " in slower.stdout
    assert "measured twice)" in slower.stdout
    faster = hlotool(*arguments, "--baseline", baseline(tmp_path, 100.0), "--fail-if", ">5%")
    assert faster.returncode == 0
    assert ": faster: " in faster.stdout
    told = hlotool(*arguments, "--baseline", baseline(tmp_path, 0.01))
    assert told.returncode == 0  # without a gate it only says so
    assert ": slower: " in told.stdout


def test_the_code_of_a_report_takes_part_where_it_can_be_made_again(hlotool: Run, tmp_path: Path) -> None:
    arguments = ("bench", MEAN, *QUICK)
    check_json(hlotool(*arguments, "--format", "json", "-o", "now.json").stdout or (tmp_path / "now.json").read_text())
    done = hlotool(
        *arguments, "--baseline", baseline(tmp_path, 0.01, same_build=True), "--fail-if", ">2000%", "--format", "json"
    )
    (verdict,) = check_json(done.stdout)["verdicts"]
    assert (done.returncode, verdict["word"] in ("faster", "same")) == (0, True), verdict  # against itself it is not
    assert (verdict["measured"], verdict["in_turns"]) == (2, True)


def test_a_module_is_a_baseline(hlotool: Run, tmp_path: Path) -> None:
    small = "HloModule m\nENTRY e { p = f32[SIZE] parameter(0) ROOT r = f32[SIZE] exponential(p) }"
    slow = "HloModule m\nENTRY e { p = f32[SIZE] parameter(0) q = f32[SIZE] sine(p) s = f32[SIZE] cosine(q) " + (
        "t = f32[SIZE] tan(s) u = f32[SIZE] erf(t) v = f32[SIZE] atan2(u, s) w = f32[SIZE] log-plus-one(v) "
        "x = f32[SIZE] power(w, q) ROOT r = f32[SIZE] exponential(p) }"
    ).replace("ROOT r = f32[SIZE] exponential(p)", "y = f32[SIZE] subtract(x, x) ROOT r = f32[SIZE] add(y, p)")
    (tmp_path / "fast.hlo").write_text(small.replace("SIZE", "4096"))
    (tmp_path / "slow.hlo").write_text(slow.replace("SIZE", "4096"))
    done = hlotool(
        "bench", "slow.hlo", *QUICK, "--baseline", "fast.hlo", "--fail-if", ">50%", "--format", "json"
    )
    answer = check_json(done.stdout)
    (verdict,) = answer["verdicts"]
    assert done.returncode == 1
    assert (verdict["label"], verdict["word"], verdict["in_turns"]) == ("hlotool", "slower", True)
    assert [case["variant"] for case in answer["cases"]] == ["hlotool", "baseline"]
    turned = hlotool("bench", "fast.hlo", *QUICK, "--baseline-passes", "none", "--fail-if", ">10000%")
    assert (turned.returncode, "fast.hlo, hlotool: " in turned.stdout) == (0, True), turned.stderr


def test_times_are_there_although_outputs_differ(hlotool: Run, tmp_path: Path) -> None:
    module = "HloModule m\nENTRY e { p = f32[64] parameter(0) ROOT r = f32[64] OPCODE(p) }"
    (tmp_path / "new.hlo").write_text(module.replace("OPCODE", "sine"))
    (tmp_path / "old.hlo").write_text(module.replace("OPCODE", "cosine"))
    arguments = ("bench", "new.hlo", *QUICK, "--baseline", "old.hlo")
    done = hlotool(*arguments)
    assert done.returncode == 1
    assert "MISMATCH: baseline and hlotool: " in done.stdout
    assert "MISMATCH: baseline and hlotool: " in done.stderr
    answer = check_json(hlotool(*arguments, "--format", "json").stdout)
    assert [case["outputs"] for case in answer["cases"]] == ["ok", "MISMATCH"]
    assert all(case["steady"]["median"] > 0 for case in answer["cases"])
    rows = list(csv.DictReader(hlotool(*arguments, "--format", "csv").stdout.splitlines()))
    assert [row["outputs"] for row in rows] == ["ok", "MISMATCH"]


GATE = Gate(0.05, 0.99)


def spread(middle: float, by: float, count: int = 50) -> list[float]:
    """Samples around a median."""
    source = random.Random(7)
    return [middle * (1 + by * source.uniform(-1, 1)) for _ in range(count)]


@pytest.mark.parametrize(
    ("new", "old", "gate", "word"),
    [
        (spread(1.2, 0.01), spread(1.0, 0.01), GATE, "slower"),
        (spread(1.05, 0.02), spread(1.0, 0.02), GATE, "inconclusive"),
        (spread(1.2, 0.5, 6), spread(1.0, 0.5, 6), GATE, "inconclusive"),
        (spread(1.0, 0.01), spread(1.0, 0.01), GATE, "same"),
        (spread(0.8, 0.01), spread(1.0, 0.01), GATE, "faster"),
        (spread(1.02, 0.001), spread(1.0, 0.001), GATE, "same"),
        (spread(1.02, 0.001), spread(1.0, 0.001), None, "slower"),
        (spread(1.0, 0.1), spread(1.0, 0.1), None, "same"),
        ([1.2] * 8, [1.0] * 8, GATE, "inconclusive"),
        ([1.2] * 9, [1.0] * 9, GATE, "slower"),
        ([0.2], [1.0], GATE, "inconclusive"),
        ([1.2], [1.0], None, "same"),
    ],
)
def test_verdicts(new: list[float], old: list[float], gate: Gate | None, word: str) -> None:
    found = judge(new, old, gate)
    assert found.word == word
    assert found.low <= found.ratio <= found.high


def test_what_takes_turns_decides() -> None:
    log: list[str] = []
    first = judge([2.0] * 20, [1.0] * 20, GATE)
    assert first.word == "slower"
    new, old = Puppet("new", 1.0, log), Puppet("old", 1.0, log)
    found, _ = confirm(first, new, old, GATE, batches=(1, 1), seconds=1.0, rounds=5)
    assert found.word == "same"
    assert sorted(log) == ["new"] * 5 + ["old"] * 5
    assert len({tuple(log[n : n + 2]) for n in range(0, 10, 2)}) == 2


def test_against_old_times_slower_is_what_is_slower_twice() -> None:
    old = [1.0] * 20
    for first, again, word in ((2.0, 2.0, "slower"), (2.0, 1.0, "inconclusive"), (2.0, 0.5, "inconclusive")):
        new = Puppet("new", again, [], count=20)
        judged = judge([first] * 20, old, GATE)
        found, _ = confirm(judged, new, old, GATE, batches=(1, 1), seconds=1.0, rounds=1)
        assert found.word == word


def test_wrong_uses(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    for arguments, code, words in (
        (("--fail-if", ">5%"), 2, "needs --baseline"),
        (("--fail-if", "5", "--baseline", "bad.json"), 2, "expected something like"),
        (("--baseline", "bad.json"), 3, "is no report"),
        (("--baseline", "none.json"), 3, "cannot read"),
        (("--baseline", "none.hlo"), 3, "cannot read"),
        (("--baseline", "bad.json", "--baseline-passes", "none"), 2, "goes with a module"),
        ((MEAN, "--baseline", MEAN), 2, "goes with one FILE"),
    ):
        result = hlotool("bench", MEAN, *QUICK, *arguments)
        assert result.returncode == code
        assert words in result.stderr


def test_without_jax_xla_is_refused(hlotool: Run, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no module named jax' >&2\nexit 1\n")
    python.chmod(0o755)
    result = hlotool("bench", MEAN, *QUICK, "--against", "xla", "--xla-python", python)
    assert result.returncode == 4
    assert "no module named jax" in result.stderr
    assert f"{python} -m pip install jax" in result.stderr
    assert "--xla-python PYTHON or HLOTOOL_XLA_PYTHON" in result.stderr
