"""Statistics of timings, taking turns, and the command that reports them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Run

from hlotool.harness.bench import Native, Started, measure
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

    def __init__(self, label: str, seconds: float, log: list[str]) -> None:
        self.label, self.seconds, self.log = label, seconds, log

    def start(self) -> Started:
        self.log.append(f"start {self.label}")
        return Started(0.0, 1.0, 2.0, ())

    def sample(self, seconds: float, batch: int) -> list[float]:
        self.log.append(self.label)
        return [self.seconds] * 4


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


def baseline(tmp_path: Path, factor: float) -> str:
    """A report whose samples are `factor` times those of another."""
    report = json.loads((tmp_path / "now.json").read_text())
    for case in report["cases"]:
        case["samples"] = [s * factor for s in case["samples"]]
    (tmp_path / "old.json").write_text(json.dumps(report))
    return "old.json"


def test_the_gate(hlotool: Run, tmp_path: Path) -> None:
    arguments = ("bench", MEAN, *QUICK)
    assert hlotool(*arguments, "--format", "json", "-o", "now.json").returncode == 0
    slower = hlotool(*arguments, "--baseline", baseline(tmp_path, 0.01), "--fail-if", ">5% @99%")
    assert slower.returncode == 1
    assert ": slower: " in slower.stdout
    faster = hlotool(*arguments, "--baseline", baseline(tmp_path, 100.0), "--fail-if", ">5%")
    assert faster.returncode == 0
    assert ": faster: " in faster.stdout
    told = hlotool(*arguments, "--baseline", baseline(tmp_path, 0.01))
    assert told.returncode == 0  # without a gate it only says so
    assert ": slower: " in told.stdout


def test_wrong_uses(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    for arguments, code, words in (
        (("--fail-if", ">5%"), 2, "needs --baseline"),
        (("--fail-if", "5", "--baseline", "bad.json"), 2, "expected something like"),
        (("--baseline", "bad.json"), 3, "is no report"),
        (("--baseline", "none.json"), 3, "cannot read"),
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
