"""optimise-app: what can be chosen, the search and its journal, candidates that die or are wrong, the image.

What the image holds is unpacked and run, in a root folder of its own where this user may do so.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from conftest import ROOT, Run, environment
from json_schemas import check_json

from hlotool.codegen.configured import checked
from hlotool.driver.predict import predict
from hlotool.driver.tuned import VERSION, Entry, read_database
from hlotool.evaluate import evaluate
from hlotool.harness.application.batching import Case, case_of, own_batch, with_batch
from hlotool.harness.application.energy import Reading, joules_between, read_energy
from hlotool.harness.application.measure import Figures, Result, measure_configuration
from hlotool.harness.application.pareto import nothing_beats
from hlotool.harness.application.predict import Expectation, expect, figures_for, kernels_to_tune
from hlotool.harness.application.quantised import make_quantised
from hlotool.harness.application.replica import (
    DATABASE,
    Application,
    bound,
    error_of,
    load_application,
    machine_for,
    make_case,
)
from hlotool.harness.application.search import Entry as Measured
from hlotool.harness.application.search import Row, Settings, _next, entry_of, search
from hlotool.harness.application.space import Configuration, Knob, Space, configuration_of
from hlotool.harness.application.tuning import Tuner
from hlotool.harness.archive import to_bits
from hlotool.harness.inputs import random_inputs
from hlotool.harness.journal import Journal
from hlotool.harness.tune import kernels_in
from hlotool.harness.tune.write import text_of
from hlotool.inspect.pareto_picture import Alternative, Axis, pareto_picture
from hlotool.ir import InputError, Module, UnsupportedError
from hlotool.runtime.aot.oci import File, Image, layout
from hlotool.runtime.tuning import target_key
from hlotool.text.parser import parse

DIGITS = ROOT / "samples" / "digits.hlo"
QUICK = ("--budget", "0s", "--time", "0")

ROWS = """HloModule rows
ENTRY e {
  x = f32[4,8] parameter(0)
  w = f32[8,3] parameter(1)
  y = f32[4,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[4,3] tanh(y)
}
"""
MEAN = """HloModule mean
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
  sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  all = f32[4] broadcast(sum), dimensions={}
  ROOT y = f32[4] multiply(x, all)
}
"""
SERVED = """HloModule served
ENTRY e {
  x = f32[8,200] parameter(0)
  w1 = f32[200,200] parameter(1)
  shift = s32[] parameter(2)
  w2 = bf16[200,50] parameter(3)
  h = f32[8,200] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,200] tanh(h)
  w = f32[200,50] convert(w2)
  y = f32[8,50] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[] convert(shift)
  b = f32[8,50] broadcast(s), dimensions={}
  z = f32[8,50] add(y, b)
  n = s32[] negate(shift)
  v = bf16[8,50] convert(z)
  ROOT r = (f32[8,50], s32[], bf16[8,50]) tuple(z, n, v)
}
"""
ENDLESS = """HloModule endless
body {
  ROOT p = s32[] parameter(0)
}
condition {
  p = s32[] parameter(0)
  zero = s32[] constant(0)
  ROOT c = pred[] compare(p, zero), direction=GE
}
ENTRY e {
  x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=condition, body=body
}
"""


# ---- the space


def space(cores: int = 2, **values: tuple[str | int, ...]) -> Space:
    given: dict[str, tuple[str | int, ...]] = {
        "level": ("O2",), "precision": ("f32", "bf16"), "target": ("host",), "batch": (0,), "threads": (2, 1),
        "replicas": (1, 2), "tuning": ("off",), **values,
    }  # fmt: skip
    return Space(cores=cores, knobs=tuple(Knob(name=n, values=v, meaning="") for n, v in given.items()))


def test_configurations_share_the_cores() -> None:
    found = list(space().configurations())
    assert found[0] == space().usual == Configuration(threads=2)
    assert {(c.threads, c.replicas) for c in found} == {(2, 1), (1, 1), (1, 2)}
    assert len(found) == len(set(found)) == 6
    assert all(configuration_of(c.json()) == c for c in found)
    with pytest.raises(InputError):
        configuration_of({**found[0].json(), "threads": "2"})


def test_the_space_is_printed_and_says_what_is_not_there(hlotool: Run) -> None:
    done = hlotool("optimise-app", DIGITS, "--space")
    assert "precision int8: not available: it takes inputs to calibrate with: --calibrate FILE" in done.stdout
    found = check_json(hlotool("optimise-app", DIGITS, "--space", "--format", "json").stdout)
    assert {knob["name"] for knob in found["knobs"]} == set(Configuration().json())
    done = hlotool("optimise-app", DIGITS, "-o", "out", "--precision", "int8")
    assert (done.returncode, "--calibrate FILE" in done.stderr) == (2, True)


def test_integers_are_made_of_inputs(tmp_path: Path) -> None:
    """Products that would cost too much stay; where none is left there is a reason."""
    generator = np.random.default_rng(5)
    text = ROWS.replace("f32[4,8]", "f32[4,64]").replace("f32[8,3]", "f32[64,48]").replace("f32[4,3]", "f32[4,48]")
    weights = {"w": generator.standard_normal((64, 48)).astype(np.float32) / 8}
    application = Application(entries={"run": text}, weights={"run": weights})
    (tmp_path / "application").write_bytes(pickle.dumps(application))
    np.savez(tmp_path / "in.npz", x=generator.standard_normal((4, 64)).astype(np.float32))
    folder, files = str(tmp_path), [str(tmp_path / "in.npz")]
    make_case(folder, 0, {}, 0, by_evaluator=False)
    assert "1 of 1 products are of integers" in make_quantised(folder, files, 0.1)
    integers = load_application(folder, "int8").modules()["run"]
    (dot,) = (one for one in integers.instructions() if one.opcode == "dot")
    assert {operand.shape.element_type for operand in dot.operands} == {"s8"}
    chosen = Configuration(precision="int8")
    found = measure_configuration(folder, chosen, 0.0, 60.0, 0.1, energy=False)
    assert (found.status, found.reason) == ("measured", "")
    assert found.error is not None
    assert 0 < found.error <= 0.1
    assert expect(folder, chosen, [1]).seconds[1] > 0
    assert "no product can be of integers with an error of at most 1e-06" in make_quantised(folder, files, 1e-6)
    refused = measure_configuration(folder, chosen, 0.0, 60.0, 1e-6, energy=False)
    assert (refused.status, "no product can be of integers" in refused.reason) == ("refused", True)


def test_integers_are_chosen_where_they_are_asked_for(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.hlo").write_text(ROWS)
    np.savez(tmp_path / "in.npz", x=np.ones((4, 8), np.float32), w=np.ones((8, 3), np.float32))
    given = ("optimise-app", tmp_path / "rows.hlo", "--calibrate", tmp_path / "in.npz")
    assert "f16, int8 (" in hlotool(*given, "--space").stdout
    done = hlotool(*given, "--space", "--precision", "bf16")
    assert (done.returncode, "--calibrate is for int8" in done.stderr) == (2, True)
    done = hlotool(*given, tmp_path / "rows.hlo", "-o", tmp_path / "out")
    assert (done.returncode, "--calibrate goes with one FILE" in done.stderr) == (2, True)


def test_what_nothing_beats() -> None:
    rows = [
        Figures(latency=1.0, throughput=10.0, memory=5), Figures(latency=2.0, throughput=10.0, memory=5),
        Figures(latency=2.0, throughput=20.0, memory=5), Figures(latency=3.0, throughput=5.0),
    ]  # fmt: skip
    assert nothing_beats(rows) == [True, False, True, False]


def test_measurements_correct_the_model() -> None:
    """bf16 was predicted to be faster, and was twice as slow: f32 is next."""
    rows = {c: Row(c) for c in space(precision=("f32", "bf16"), level=("O2", "O3")).configurations() if c.threads == 2}
    for c, row in rows.items():
        row.predicted = figures_for(c, Expectation({2: 0.9 if c.precision == "bf16" else 1.0}, {}, 100))
    first = _next(list(rows.values()), "latency")
    assert first is not None
    assert first.configuration == Configuration(precision="bf16", threads=2)
    rows[space().usual].results.append(Result(status="measured", figures=Figures(latency=1.0)))
    first.results.append(Result(status="measured", figures=Figures(latency=1.8)))
    following = _next(list(rows.values()), "latency")
    assert following is not None
    assert following.configuration == Configuration(level="O3", threads=2)


# ---- batches


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_rows_of_a_batch_are_those_of_requests(size: int) -> None:
    module = parse(ROWS)
    case = case_of(module, ["x.0"], size, None, 5, lambda arrays: evaluate(module, arrays))
    assert [a.shape for a in case.arguments] == [(size, 8), (8, 3)]
    found = evaluate(with_batch(module, ["x.0"], size), case.arguments)
    assert error_of(found, case.expected) < 1e-6
    assert len({row.tobytes() for row in case.arguments[0]}) == size


def test_a_module_of_one_example_gets_a_batch() -> None:
    module = parse(ROWS)
    assert own_batch(module, ["x"]) == 1
    case = case_of(module, ["x"], 3, None, 5, lambda arrays: evaluate(module, arrays))
    assert [a.shape for a in (*case.arguments, *case.expected)] == [(3, 4, 8), (8, 3), (3, 4, 3)]
    assert error_of(evaluate(with_batch(module, ["x"], 3), case.arguments), case.expected) < 1e-6


def test_a_batch_whose_items_are_not_apart_is_found_out() -> None:
    module = parse(MEAN)
    case = case_of(module, ["x.0"], 8, None, 5, lambda arrays: evaluate(module, arrays))
    assert error_of(evaluate(with_batch(module, ["x.0"], 8), case.arguments), case.expected) > 0.1


@pytest.mark.parametrize("name", ["nothing.0", "x.7", "x.y", "e"])
def test_a_batch_over_something_else_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        own_batch(parse(ROWS), [name])


def test_parameters_become_constants() -> None:
    module = parse(ROWS)
    x, w = random_inputs(module, 0)
    changed = bound(module, {"w": w})
    assert [p.name for p in changed.entry.parameters] == ["x"]
    np.testing.assert_array_equal(evaluate(changed, [x])[0], evaluate(module, [x, w])[0])
    for name, array in (("v", w), ("w", w.T), ("w", w.astype(np.float64))):
        with pytest.raises(InputError):
            bound(module, {name: array})


# ---- numbers and energy


def test_errors_are_measured_as_tolerances_are() -> None:
    want = np.array([1.0, -1.0, 1.0, 1.0], np.float32)
    assert error_of([want], [want]) == 0
    assert error_of([want + np.float32([0, 0, 0.5, 0])], [want]) == pytest.approx(0.25)
    assert error_of([np.array([1.0, np.nan], np.float32)], [np.array([1.0, np.nan], np.float32)]) == 0
    assert error_of([np.array([1.0, np.nan], np.float32)], [np.array([1.0, 2.0], np.float32)]) == np.inf
    assert error_of([np.array([1, 2])], [np.array([1, 3])]) == np.inf
    assert error_of([np.zeros(3, np.float32)], [np.zeros(3, np.float32)]) == 0
    assert error_of([np.array([1.5], ml_dtypes.bfloat16)], [np.array([1.0], ml_dtypes.bfloat16)]) == 0.25


def test_energy_is_what_counters_say_or_nothing(tmp_path: Path, hlotool: Run) -> None:
    with pytest.raises(UnsupportedError, match="no counters"):
        read_energy(tmp_path)
    for name, count in (("intel-rapl:0", 7_000_000), ("intel-rapl:1", 90), ("intel-rapl:0:0", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text(f"{count}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("99\n" if name.endswith("1") else "99999999\n")
    reading = read_energy(tmp_path)
    assert reading == Reading((7_000_000, 90), (99999999, 99))
    assert joules_between(reading, Reading((9_000_000, 20), reading.ranges)) == pytest.approx(2.00003)
    if not list(Path("/sys/class/powercap").glob("intel-rapl:*")):
        done = hlotool("optimise-app", DIGITS, "-o", "out", "--goal", "energy")
        assert (done.returncode, "energy cannot be measured here" in done.stderr) == (4, True)


# ---- candidates that go wrong


def application(folder: Path, text: str) -> None:
    (folder / "application").write_bytes(pickle.dumps(Application(entries={"run": text}, weights={"run": {}})))


def measured(folder: Path, configuration: Configuration, limit: float = 60, accuracy: float = 1e-3) -> Result:
    return measure_configuration(str(folder), configuration, 0.0, limit, accuracy, False)


def test_a_candidate_that_hangs_failed(tmp_path: Path) -> None:
    application(tmp_path, ENDLESS)
    (tmp_path / "case0").write_bytes(pickle.dumps({}))
    found = measured(tmp_path, Configuration(replicas=2), limit=8)
    assert (found.status, found.reason) == ("failed", "KeyError: 'run'")
    (tmp_path / "case0").write_bytes(pickle.dumps({"run": Case([np.int32(1).reshape(())], [])}))
    found = measured(tmp_path, Configuration(replicas=2), limit=8)
    assert (found.status, found.reason) == ("failed", "it took longer than 8 s")


class Deadly:
    """Kills the process that reads it."""

    def __reduce__(self) -> Any:
        return os.kill, (Own(), signal.SIGSEGV)


class Own:
    """Is read as the number of the process that reads it."""

    def __reduce__(self) -> Any:
        return os.getpid, ()


def test_a_candidate_that_dies_failed(tmp_path: Path) -> None:
    (tmp_path / "application").write_bytes(pickle.dumps(Deadly()))
    found = measured(tmp_path, Configuration())
    assert (found.status, found.reason) == ("failed", "its process died: signal 11")


def test_wrong_numbers_are_no_measurement(tmp_path: Path) -> None:
    application(tmp_path, ROWS)
    make_case(str(tmp_path), 0, {}, 0, True)
    good = measured(tmp_path, Configuration())
    assert (good.status, good.figures.latency is not None, good.figures.memory is not None) == ("measured", True, True)
    bad = measured(tmp_path, Configuration(precision="bf16"), accuracy=1e-6)
    assert bad.status == "wrong"
    assert bad.reason.startswith("error ")
    assert bad.reason.endswith(" > 1e-06")
    assert bad.figures == Figures()


# ---- the journal


def test_the_journal_has_measurements() -> None:
    entry = Measured(Configuration(), Result(status="measured", error=0.0, figures=Figures(latency=1.0)), 2.5)
    assert entry_of(json.loads(json.dumps(entry.json()))) == entry
    bad: dict[str, Any]
    for bad in ({}, {"configuration": 1, "result": 2, "seconds": 3}, {**entry.json(), "seconds": "soon"}):
        with pytest.raises(InputError):
            entry_of(bad)


# ---- tuned kernels


CHOICES = {"tile_rows": 1}


def _database(module: Module, gain: float) -> str:
    """A database with one choice for each kernel of a module, as a library for this processor is compiled."""
    machine = machine_for("host", 1)
    found = predict(module, "O2", machine=machine, threads=1)
    return text_of(
        Entry(
            scope="kernel", key=kernel.key, target=target_key(machine), version=VERSION, about=kernel.about,
            choices=checked(CHOICES, ""), costs={}, gain=gain, seconds=1e-6, exact=False,
        )
        for kernel in kernels_in(found.module, found.prediction.times())
    )  # fmt: skip


def test_tuned_kernels_are_expected_to_gain_what_they_did(tmp_path: Path) -> None:
    application(tmp_path, ROWS)
    configuration = Configuration(threads=1, tuning="read")
    assert figures_for(configuration, expect(str(tmp_path), configuration, (1,))) is None
    (tmp_path / DATABASE).write_text(_database(parse(ROWS), 0.25))
    expected = expect(str(tmp_path), configuration, (1,))
    assert expected.tuned[1] == pytest.approx(0.75 * expected.seconds[1])
    figures = figures_for(configuration, expected)
    assert figures is not None
    assert figures.latency == expected.tuned[1]
    kernels = kernels_to_tune(str(tmp_path), configuration)
    assert "product" in {one.kind for one in kernels}


def test_a_database_is_read_or_the_configuration_is_refused(tmp_path: Path) -> None:
    application(tmp_path, ROWS)
    make_case(str(tmp_path), 0, {}, 0, True)
    found = measured(tmp_path, Configuration(tuning="read"))
    assert (found.status, found.reason) == ("refused", "no database has choices for its kernels")
    (tmp_path / DATABASE).write_text(_database(parse(ROWS), 0.25))
    assert measured(tmp_path, Configuration(tuning="read")).status == "measured"


def test_the_database_that_was_used_is_written(hlotool: Run, tmp_path: Path) -> None:
    """That of the user is taken over; a library of the choice is made with it."""
    (tmp_path / "rows.hlo").write_text(ROWS)
    (tmp_path / "users.jsonl").write_text(_database(parse(ROWS), 0.5))
    command = (
        "optimise-app", "rows.hlo", "-o", "out", "--no-image", "--time", "0", "--cores", "1", "--cpu", "host",
        "-O", "2", "--precision", "f32", "--goal", "memory", "--budget", "10min", "--format", "json",
    )  # fmt: skip
    env = {"HLOTOOL_TUNE_DATABASE": str(tmp_path / "users.jsonl")}
    done = hlotool(*command, env=env)
    assert done.returncode == 0, done.stderr
    found = check_json(done.stdout)
    assert {row["configuration"]["tuning"]: row["status"] for row in found["rows"]} == {
        "off": "measured", "read": "measured"
    }
    kept = read_database(tmp_path / "out" / DATABASE)
    assert kept.entries
    assert all(entry.choices.given == CHOICES for entry in kept.entries.values())
    said = (tmp_path / "out" / "hlotool.toml").read_text()
    assert ('database = "tuning.jsonl"' in said) == (found["chosen"]["tuning"] == "read")
    (tmp_path / "users.jsonl").write_text("words\n")
    done = hlotool(*command, "--restart", env=env)
    assert (done.returncode, "no tuning database" in done.stderr) == (0, True), done.stderr
    assert not (tmp_path / "out" / DATABASE).exists()


def test_kernels_of_the_best_are_tuned(tmp_path: Path) -> None:
    """Once what is untuned was measured; a search that goes on does not tune again."""
    application(tmp_path, ROWS)
    make_case(str(tmp_path), 0, {}, 0, True)
    small = space(cores=1, precision=("f32",), threads=(1,), replicas=(1,), tuning=("off", "read"))
    settings = Settings(goal="latency", budget=600.0, accuracy=1e-3, seconds=0.0)
    asked: list[tuple[Configuration, bool]] = []

    def tune(configuration: Configuration, seconds: float) -> None:
        asked.append((configuration, 5 <= seconds <= 150))
        (tmp_path / DATABASE).write_text(_database(parse(ROWS), 0.5))

    journal = Journal.open(tmp_path / "journal", {})
    rows = search(str(tmp_path), small, settings, journal, lambda words: None, tune)
    assert asked == [(Configuration(threads=1), True)]
    assert [row.word for row in rows] == ["measured", "measured"]
    tuned = rows[1].predicted
    assert tuned is not None
    assert rows[0].predicted is not None
    assert tuned.latency < rows[0].predicted.latency  # type: ignore[operator]
    again = Journal.open(tmp_path / "journal", {})
    search(str(tmp_path), small, settings, again, lambda words: None, tune)
    assert len(asked) == 1


def test_a_tuner_finds_what_can_be_taken(tmp_path: Path) -> None:
    """Whatever it finds in a second is for the kernels of the configuration; what cannot be predicted is left alone."""
    application(tmp_path, ROWS)
    kept: list[list[Entry]] = []
    tuner = Tuner(str(tmp_path), 60.0, kept.append, lambda words: None)
    tuner(Configuration(threads=1), 1.0)
    keys = {one.key for one in kernels_to_tune(str(tmp_path), Configuration(threads=1))}
    assert len(kept) == 1
    assert {entry.key for entry in kept[0]} <= keys
    (tmp_path / "application").write_bytes(pickle.dumps(Deadly()))
    tuner(Configuration(threads=1), 1.0)
    assert len(kept) == 1


# ---- the command


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_search_writes_everything_and_goes_on(hlotool: Run, tmp_path: Path) -> None:
    command = ("optimise-app", DIGITS, "-o", "out", "--no-image", "--time", "0.05", "--cores", "1", "--cpu", "host")
    done = hlotool(*command, "--budget", "0s", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = check_json(done.stdout)
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "hlotool.toml", "journal.jsonl", "library", "pareto.json", "pareto.svg"
    ]
    assert found["chosen"] == found["usual"]
    assert [row["status"] for row in found["rows"]].count("measured") == 1
    assert found["files"]["library/libdigits.a"] > 0
    assert check_json((out / "pareto.json").read_text())["rows"] == found["rows"]
    assert len(lines_of(out / "journal.jsonl")) == 2
    done = hlotool(*command, "--budget", "0s")
    assert done.returncode == 0, done.stderr
    assert len(lines_of(out / "journal.jsonl")) == 2  # nothing is measured again
    assert "not predicted" in done.stdout
    assert "chosen: O2 f32 host" in done.stdout
    run = hlotool("run", DIGITS, "-p", "digits", env={"HLOTOOL_CONFIG": str(out / "hlotool.toml")})
    assert run.returncode == 0, run.stderr
    done = hlotool(*command, "--budget", "0s", "--accuracy", "0.5")
    assert (done.returncode, "something else (asked): --restart begins anew" in done.stderr) == (3, True)
    done = hlotool(*command, "--budget", "0s", "--accuracy", "0.5", "--restart")
    assert done.returncode == 0, done.stderr


def test_more_budget_measures_more(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.hlo").write_text(ROWS)
    command = (
        "optimise-app", "rows.hlo", "-o", "out", "--no-image", "--time", "0", "--cores", "1", "--cpu", "host",
        "-O", "2", "--precision", "bf16-products", "--batch-over", "x.0", "--batch", "4,8", "--accuracy", "1e-5",
        "--no-tuning",
    )  # fmt: skip
    done = hlotool(*command, "--budget", "10min", "--goal", "throughput", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = check_json(done.stdout)
    assert {(row["configuration"]["precision"], row["status"]) for row in found["rows"]} == {
        ("f32", "measured"), ("bf16-products", "wrong")
    }
    assert max(row["runs"] for row in found["rows"]) == 3  # the best are measured again
    assert found["chosen"]["precision"] == "f32"
    front = [row for row in found["rows"] if row["front"]]
    assert front
    assert all(row["status"] == "measured" for row in front)


def test_lines_that_say_nothing(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.hlo").write_text(ROWS)
    for words, code, says in (
        (("--batch", "4"), 2, "--batch-over"),
        (("--batch-over", "y.0"), 3, "expected a dimension"),
        (("--cpu", "a64fx"), 2, "does not run"),
        (("--cpu", "nothing"), 2, "unknown cpu"),
        (("--weights", "absent.npz"), 3, "absent.npz"),
        (("--budget", "soon"), 2, "no time"),
    ):
        done = hlotool("optimise-app", "rows.hlo", "-o", "out", *words)
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        assert not (tmp_path / "out").exists()
    assert hlotool("optimise-app", "rows.hlo").returncode == 2


def test_an_image_takes_a_compiler(hlotool: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "sitecustomize.py").write_text("import sys\nsys.modules['ziglang'] = None  # it is a compiler, too\n")
    paths = f"{empty}{os.pathsep}{ROOT}"
    done = hlotool("optimise-app", DIGITS, "-o", "out", *QUICK, env={"PATH": str(empty), "PYTHONPATH": paths})
    assert done.returncode == 4
    assert "--no-image" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_picture_is_deterministic() -> None:
    axis = Axis("seconds", lambda value: f"{value:g} s")
    points = [
        Alternative(name=f"<{n}>", x=1e-3 * (n + 1), y=10.0 * (n + 1), measured=n < 3, front=n < 2, chosen=n == 1)
        for n in range(5)
    ]
    drawn = pareto_picture(points, axis, axis, "a & b")
    assert drawn == pareto_picture(points, axis, axis, "a & b")
    assert drawn.count("<circle") == 5
    assert "&lt;1&gt;" in drawn
    assert "a &amp; b" in drawn
    assert pareto_picture([], axis, axis, "none").startswith("<svg")


# ---- the image


IMAGE = Image(
    triple="x86_64-unknown-linux-gnu",
    layers=[("weights", {"app/w": File([b"ab", b"c"])}), ("program", {"app/p": File([b"#!"], program=True)})],
    entrypoint=("/app/p",), folder="/app", port=8080, tag="latest", labels={"b": "2", "a": "1"},
)  # fmt: skip


def blob(files: dict[str, Any], digest: str) -> bytes:
    data = b"".join(files[f"blobs/sha256/{digest.removeprefix('sha256:')}"])
    assert f"sha256:{sha256(data).hexdigest()}" == digest
    return data


def test_a_layout_is_what_the_specification_says() -> None:
    files = layout(IMAGE)
    assert list(files.items()) == list(layout(IMAGE).items())
    assert json.loads(b"".join(files["oci-layout"])) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(b"".join(files["index.json"]))
    assert index["manifests"][0]["annotations"] == {"org.opencontainers.image.ref.name": "latest"}
    manifest = json.loads(blob(files, index["manifests"][0]["digest"]))
    config = json.loads(blob(files, manifest["config"]["digest"]))
    assert (config["architecture"], config["os"]) == ("amd64", "linux")
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
    assert config["config"]["Entrypoint"] == ["/app/p"]
    seen = []
    for layer in manifest["layers"]:
        data = blob(files, layer["digest"])
        assert len(data) == layer["size"]
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            seen.append([(m.name, m.mode, m.uid, m.gid, m.mtime, m.uname) for m in archive])
            assert not archive.extractfile("app")
            assert archive.extractfile(archive.getnames()[1]) is not None
    assert seen == [
        [("app", 0o755, 0, 0, 0, ""), ("app/w", 0o644, 0, 0, 0, "")],
        [("app", 0o755, 0, 0, 0, ""), ("app/p", 0o755, 0, 0, 0, "")],
    ]
    with pytest.raises(UnsupportedError):
        layout(Image(triple="x86_64-apple-darwin", layers=[], entrypoint=(), folder="/", port=1, tag="t", labels={}))


def unpacked(image: Path, root: Path) -> tuple[list[str], dict[str, Any]]:
    """The layers of a layout as a tree of files; what the image runs, and its configuration."""
    index = json.loads((image / "index.json").read_text())

    def read(digest: str) -> bytes:
        return (image / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()

    manifest = json.loads(read(index["manifests"][0]["digest"]))
    config: dict[str, Any] = json.loads(read(manifest["config"]["digest"]))
    for layer in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(read(layer["digest"]))) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 on
            archive.extractall(root)
    return config["config"]["Entrypoint"], config


def inside(root: Path, entrypoint: list[str]) -> list[str]:
    """The command that an image runs; in its own root folder where this user may do that."""
    chroot = shutil.which("chroot")
    if chroot is not None and os.geteuid() == 0:
        return [chroot, str(root), *entrypoint]
    return [f"{root}{entrypoint[0]}", *entrypoint[1:]]


def npz(**arrays: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an application whose weights are a part of it, chosen twice."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("app")
    (folder / "served.hlo").write_text(SERVED)
    module = parse(SERVED)
    arrays = dict(zip([p.name for p in module.entry.parameters], map(to_bits, random_inputs(module, 7)), strict=True))
    np.savez(folder / "weights.npz", w1=arrays["w1"], w2=arrays["w2"])
    np.savez(folder / "all.npz", **arrays)
    np.savez(folder / "rest.npz", x=arrays["x"], shift=arrays["shift"])
    for name in ("app", "again"):
        done = subprocess.run(
            [
                sys.executable, "-m", "hlotool", "optimise-app", "served.hlo", "-o", name, "--name", "step",
                "--weights", "weights.npz", "--inputs", "rest.npz", *QUICK, "--cpu", "host",
            ],
            cwd=folder, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_same_choice_gives_the_same_image(built: Path) -> None:
    assert tree(built / "app" / "image") == tree(built / "again" / "image")
    assert tree(built / "app" / "library") == tree(built / "again" / "library")


def test_the_image_computes_what_run_does(built: Path, hlotool: Run, tmp_path: Path) -> None:
    entrypoint, config = unpacked(built / "app" / "image", tmp_path / "root")
    assert config["config"]["User"] == "65532:65532"
    done = hlotool("run", built / "served.hlo", "--inputs", built / "all.npz", "--cpu", "host", "-o", "wanted.npz")
    assert done.returncode == 0, done.stderr
    wanted = np.load(tmp_path / "wanted.npz")
    command = [*inside(tmp_path / "root", entrypoint), "--once", "run"]
    ran = subprocess.run(command, input=(built / "rest.npz").read_bytes(), capture_output=True, check=False, env={})
    assert ran.returncode == 0, ran.stderr
    found = np.load(io.BytesIO(ran.stdout))
    assert sorted(found.files) == sorted(wanted.files)
    for name in wanted.files:
        assert found[name].dtype == wanted[name].dtype
        assert found[name].tobytes() == wanted[name].tobytes() if name != "out0" else True
    assert error_of([found["out0"]], [wanted["out0"]]) < 1e-5
    rest = np.load(built / "rest.npz")
    raw = b"".join(rest[name].tobytes() for name in rest.files)
    ran = subprocess.run(command, input=raw, capture_output=True, check=False, env={})
    assert ran.stdout == b"".join(found[f"out{n}"].tobytes() for n in range(len(found.files)))


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="no skopeo")
def test_the_image_is_one_to_skopeo(built: Path, tmp_path: Path) -> None:
    image = f"oci:{built / 'app' / 'image'}:latest"
    said = subprocess.run(["skopeo", "inspect", image], capture_output=True, text=True, check=True)
    about = json.loads(said.stdout)
    assert (about["Architecture"], about["Os"], len(about["Layers"])) == ("amd64", "linux", 2)
    assert about["Labels"]["org.opencontainers.image.title"] == "step"
    copied = ["skopeo", "--insecure-policy", "copy", "-q", image, f"oci:{tmp_path / 'copy'}:latest"]
    subprocess.run(copied, capture_output=True, check=True)
    entrypoint, _ = unpacked(tmp_path / "copy", tmp_path / "root")
    helped = subprocess.run([*inside(tmp_path / "root", entrypoint), "--help"], capture_output=True, check=True, env={})
    assert b"Serves step" in helped.stdout


# ---- the server


@contextmanager
def serving(built: Path, root: Path, *words: str) -> Iterator[tuple[HTTPConnection, subprocess.Popen[str]]]:
    """A server of the image, and a connection to it."""
    entrypoint, _ = unpacked(built / "app" / "image", root)
    command = [*inside(root, entrypoint), "--address", "127.0.0.1", "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        connection = HTTPConnection("127.0.0.1", int(line.partition("127.0.0.1:")[2].partition(",")[0]), timeout=60)
        yield connection, process
        connection.close()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def ask(
    connection: HTTPConnection, method: str, path: str, body: bytes | None = None, kind: str = ""
) -> tuple[int, str, bytes]:
    connection.request(method, path, body, {"Content-Type": kind} if kind else {})
    reply = connection.getresponse()
    return reply.status, reply.headers["Content-Type"], reply.read()


RAW, NPZ = "application/octet-stream", "application/zip"


def test_the_server_answers(built: Path, tmp_path: Path) -> None:
    rest = np.load(built / "rest.npz")
    raw = b"".join(rest[name].tobytes() for name in rest.files)
    whole = np.load(built / "all.npz")
    arrays = [whole["x"], whole["w1"], whole["shift"], whole["w2"].view(ml_dtypes.bfloat16)]
    wanted = list(map(to_bits, map(np.asarray, evaluate(parse(SERVED), arrays))))[:2]
    with serving(built, tmp_path, "--replicas", "2") as (connection, process):
        assert ask(connection, "GET", "/health") == (200, "text/plain; charset=utf-8", b"ok\n")
        status, kind, body = ask(connection, "GET", "/")
        about = json.loads(body)
        assert (status, kind, about["name"]) == (200, "application/json", "step")
        (entry,) = about["entries"]
        assert [a["name"] for a in entry["arguments"]] == rest.files
        for _ in range(3):  # on one connection
            status, kind, body = ask(connection, "POST", "/run", raw, RAW)
            assert (status, kind, len(body)) == (200, RAW, sum(a["bytes"] for a in entry["results"]))
            status, kind, archive = ask(connection, "POST", "/run", (built / "rest.npz").read_bytes(), NPZ)
            assert (status, kind) == (200, NPZ)
            found = np.load(io.BytesIO(archive))
            assert b"".join(found[f"out{n}"].tobytes() for n in range(len(found.files))) == body
            assert error_of([found["out0"], found["out1"]], wanted) < 1e-4
        first = rest.files[0]
        numbered = npz(**{f"arg{n}": rest[name] for n, name in enumerate(rest.files)})
        assert ask(connection, "POST", "/run", numbered, NPZ)[2] == archive
        damaged = bytearray(numbered)
        damaged[200] ^= 1
        squeezed = io.BytesIO()
        np.savez_compressed(squeezed, **{name: rest[name] for name in rest.files})
        others = {name: rest[name] for name in rest.files}
        for status, says, arguments in (
            (400, b"takes", ("/run", raw[:-1], RAW)),
            (413, b"at most", ("/run", raw + b"x", RAW)),
            (413, b"at most", ("/run", bytes(20_000_000), RAW)),
            (400, b"no .npz archive", ("/run", b"PK", NPZ)),
            (400, b"is damaged", ("/run", bytes(damaged), NPZ)),
            (400, b"is compressed", ("/run", squeezed.getvalue(), NPZ)),
            (400, b"expected f32[8,200]", ("/run", npz(**{**others, first: rest[first].T}), NPZ)),
            (400, b"'descr': '<f4'", ("/run", npz(**{**others, first: rest[first].view(np.int32)}), NPZ)),
            (400, b"row by row", ("/run", npz(**{**others, first: np.asfortranarray(rest[first])}), NPZ)),
            (400, b"no array arg0", ("/run", npz(**{n: a for n, a in others.items() if n != first}), NPZ)),
            (415, b"expected application/octet-stream", ("/run", raw, "text/html")),
            (404, b"no entry", ("/nothing", raw, RAW)),
        ):
            reply = ask(connection, "POST", *arguments)
            assert (reply[0], says in reply[2]) == (status, True), reply
        assert ask(connection, "GET", "/nothing")[0] == 404
        assert ask(connection, "PUT", "/run", raw)[0] == 405
        connection.putrequest("POST", "/run")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        assert connection.getresponse().status == 411
        connection.close()
        connection.putrequest("GET", "/" + 20000 * "x")
        connection.endheaders()
        assert connection.getresponse().status == 431
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def children_of(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(number) for number in found]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked at in /proc")
def test_a_replica_that_dies_is_started_again(built: Path, tmp_path: Path) -> None:
    with serving(built, tmp_path, "--replicas", "2") as (connection, process):
        before: list[int] = []
        while len(before) < 2:  # which it starts once it listens
            assert process.poll() is None
            before = children_of(process.pid)
        for replica in before:
            os.kill(replica, signal.SIGKILL)
        assert ask(connection, "GET", "/health")[0] == 200  # waits until one is there
        after = children_of(process.pid)
        assert after
        assert not set(after) & set(before)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "ended by signal 9; it is started again" in process.stderr.read()


def test_wrong_weights_and_words_are_told(built: Path, tmp_path: Path) -> None:
    unpacked(built / "app" / "image", tmp_path)
    server = str(tmp_path / "app" / "server")
    weights = tmp_path / "app" / "step.weights"
    whole = weights.read_bytes()
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    for change, says in ((whole[:-64], "too short"), (changed, "damaged"), (None, "cannot")):
        if change is None:
            weights.unlink()
        else:
            weights.write_bytes(change)
        done = subprocess.run([server, "--once", "run"], input="", capture_output=True, text=True, check=False)
        assert (done.returncode, says in done.stderr) == (1, True), done.stderr
    for words in (["--port"], ["--port", "99999"], ["--replicas", "0"], ["--nothing", "1"]):
        assert subprocess.run([server, *words], capture_output=True, check=False).returncode == 2
