"""Jobs on executors: what comes back, whoever does them, and what is said where nobody does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT, Run
from executors import Told
from json_schemas import check_json

from hlotool.codegen.machine import host
from hlotool.harness.children import ChildDied, TimeLimit
from hlotool.harness.failure import Failure, Outcome, Sought
from hlotool.harness.jobs import Jobs, Pool, WorkerLost, pool_of
from hlotool.harness.jobs.codec import Contents, packed, packed_error, unpacked, unpacked_error
from hlotool.harness.jobs.executors import check_name
from hlotool.harness.jobs.worker import Worker, build
from hlotool.harness.journal import Journal
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.harness.tune.trial import Setting
from hlotool.ir import Diagnostic, ExecutionError, Location, ParseError, UnsupportedError
from hlotool.text.parser import parse

HEAD = "// CHECK-COUNT add 1\n"
MODULE = "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] add(a, a)\n}\n"
TESTS = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


# ---- values


@pytest.mark.parametrize("value", [
    None, True, -3, 0.1, float("-inf"), "x", "\udcff", "long " * 999, [1, [2]], (1, ("a",), []), {"a": (1,), 2: None},
    b"\0\xff", b"long" * 999, Path("a/b"), Failure(kind="crash", message="m"), Outcome("good"),
    Sought(PipelineTrial(seed=7), Failure(kind="signal", code=11)), Setting(host(), 2, True), parse,
])  # fmt: skip
@pytest.mark.parametrize("apart", [True, False])
def test_values_come_back(value: Any, apart: bool) -> None:
    beside: Contents = {}
    text = json.dumps(packed(value, beside if apart else None), allow_nan=False)
    assert unpacked(json.loads(text), beside) == value
    assert bool(beside) == (apart and isinstance(value, (str, bytes)) and len(value) > 1024)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_arrays_come_back(dtype: Any) -> None:
    value = np.arange(6).reshape(2, 3).T.astype(dtype)
    back = unpacked(json.loads(json.dumps(packed(value))), {})
    assert (back.dtype, back.shape, back.tolist()) == (value.dtype, (3, 2), value.tolist())
    back[0, 0] = 1


def test_what_no_job_has() -> None:
    for value in ({1, 2}, np.float32, json.dumps, lambda: 0):
        with pytest.raises(TypeError, match="a job cannot have"):
            packed(value)
    with pytest.raises(ValueError, match="no function of hlotool"):
        unpacked({"is": "function", "of": "os:getpid"}, {})


def test_errors_come_back() -> None:
    said = Diagnostic("no", Location("f", 1, 2, 3, 4), "try", "HLO0001")
    back = unpacked_error(json.loads(json.dumps(packed_error(UnsupportedError("no", [said])))))
    assert type(back) is UnsupportedError
    assert (back.message, back.diagnostics) == ("no", (said,))
    other = unpacked_error(packed_error(KeyError("k")))
    assert type(other) is ExecutionError
    assert other.message == "a job failed: KeyError: 'k'"


# ---- jobs


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A worker whose process is warm."""
    made = Worker(2)
    yield made
    made.close()


def pool(*executors: Executor) -> Pool:
    """A pool of these, one after the other."""
    left = iter(executors)
    return Pool("told", lambda: next(left), lambda made: 1)


def shell(command: str) -> CommandTrial:
    return CommandTrial(command=command)


def test_jobs_give_what_their_functions_do(worker: Worker) -> None:
    with Jobs(pool(Told(lambda number, *asked: worker.do(*asked)))) as jobs:
        future = jobs.submit(PipelineTrial(pipeline="cse", backend="evaluate"), MODULE)
        assert future.result() == Outcome("good")
        assert jobs.submit(build).result() == build()
        with pytest.raises(ParseError, match="expected") as error:
            jobs.submit(parse, "no HLO").result()
        assert error.value.diagnostics[0].location is not None
        with pytest.raises(TypeError, match="by name"):
            jobs.submit(build, name=1)  # type: ignore[call-arg]


def test_contents_are_sent_once_and_again_where_they_are_not(worker: Worker) -> None:
    long = MODULE + "// " + "x" * 5000
    sent = []

    def answer(number: int, request: str, contents: Mapping[str, bytes]) -> str:
        sent.append(sorted(map(len, contents.values())))
        if number == 3 and not contents:  # another worker, which has had nothing
            return json.dumps({"missing": json.loads(request)["contents"]})
        return worker.do(request, contents)

    with Jobs(pool(Told(answer))) as jobs:
        for seed in range(3):
            assert jobs.submit(PipelineTrial(seed=seed), long).result() == Outcome("good")
    assert sent == [[len(long)], [], [], [len(long)]]
    assert "missing" in json.loads(Worker(1).do(json.dumps({"build": build(), "contents": ["no"]}), {}))


def test_a_job_that_takes_its_process_down(worker: Worker) -> None:
    told = Told(lambda number, *asked: worker.do(*asked))
    with Jobs(pool(told), again=1) as jobs, pytest.raises(ChildDied) as death:
        jobs.submit(shell("kill -9 $PPID"), MODULE).result()
    assert (death.value.code, told.count) == (9, 2)


def test_a_job_that_takes_too_long(worker: Worker) -> None:
    with Jobs(pool(Told(lambda number, *asked: worker.do(*asked))), 0.3) as jobs:
        with pytest.raises(TimeLimit, match=r"0\.3 s"):
            jobs.submit(shell("sleep 60"), MODULE).result()
        jobs.allow(60)
        assert jobs.submit(shell("true"), MODULE).result() == Outcome("good")


def _lost(number: int, *asked: Any) -> str:
    raise OSError("the worker went away")


def _broken(number: int, *asked: Any) -> str:
    raise BrokenProcessPool("a process died")


def _other(number: int, *asked: Any) -> str:
    return json.dumps({"build": "0.0.1+elsewhere", "machine": {"host": "there"}})


def _without(number: int, *asked: Any) -> str:
    raise ModuleNotFoundError("No module named 'hlotool'")


def _nonsense(number: int, *asked: Any) -> str:
    return "no JSON"


@pytest.mark.parametrize(("answer", "words"), [
    (_lost, "a job was sent 3 times, and its worker was lost each time: OSError: the worker went away"),
    (_broken, "sent 3 times.*a process died"),
    (_other, r"a worker of told on there has hlotool 0\.0\.1\+elsewhere, and this is .*: install the same"),
    (_without, "cannot load hlotool"),
])  # fmt: skip
def test_bad_workers(answer: Any, words: str) -> None:
    with Jobs(pool(*[Told(answer)] * 3)) as jobs, pytest.raises(ExecutionError, match=words):
        jobs.submit(build).result()


def test_a_worker_that_answers_nonsense() -> None:
    with Jobs(pool(Told(_nonsense))) as jobs, pytest.raises(ExecutionError, match="an answer that is none: JSONDecode"):
        jobs.submit(build).result()


def test_a_broken_executor_is_replaced(worker: Worker) -> None:
    good = Told(lambda number, *asked: worker.do(*asked))
    with Jobs(pool(Told(_broken), good)) as jobs:
        assert jobs.submit(build).result() == build()
    assert good.count == 1


class _Silent(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        from concurrent.futures import Future

        return Future()


def test_workers_that_say_nothing() -> None:
    silent = pytest.raises(WorkerLost, match=r"no worker said anything for 0\.4 s")
    with Jobs(pool(_Silent()), 0.2, grace=0.2) as jobs, silent:
        jobs.submit(build).result()


def test_what_was_answered_is_not_asked_again(worker: Worker, tmp_path: Path) -> None:
    about = {"kind": "jobs-journal"}
    told = Told(lambda number, *asked: worker.do(*asked) if number < 3 else _lost(number))
    trials = [PipelineTrial(seed=seed) for seed in range(3)]
    with Jobs(pool(told), journal=Journal.open(tmp_path / "j", about)) as jobs:
        found = [jobs.submit(trial, MODULE) for trial in trials]
        assert [one.exception() is None for one in found] == [True, True, False]
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"job": "half a l')  # it was killed
    again = Told(lambda number, *asked: worker.do(*asked))
    with Jobs(pool(again), journal=Journal.open(tmp_path / "j", about)) as jobs:
        assert [jobs.submit(trial, MODULE).result() for trial in reversed(trials)] == [Outcome("good")] * 3
    assert again.count == 1


def test_timed_jobs_run_one_at_a_time(tmp_path: Path) -> None:
    mark = tmp_path / "busy"
    alone = shell(f"mkdir {mark} && sleep 0.2 && rmdir {mark}")
    with Jobs(pool_of("processes:2")) as jobs:
        machines: list[Mapping[str, Any]] = []
        turns = [jobs.begin(alone, MODULE, alone=True, machine=machines.append) for _ in range(4)]
        assert [one.result() for one in turns] == [Outcome("good")] * 4
        assert {one["cores"] for one in machines} == {host().cores}
        meet = "touch {0}/{1}; until [ -e {0}/{2} ]; do sleep 0.02; done"
        both = [jobs.submit(shell(meet.format(tmp_path, *pair)), MODULE) for pair in ("ab", "ba")]
        assert [one.result() for one in both] == [Outcome("good")] * 2


@pytest.mark.parametrize("name", [
    "processes:0", "processes:", "processes:257", "dask:localhost", "dask:", "mpi:3", "nowhere", "a:b:c", "a-b:c", "",
])  # fmt: skip
def test_no_names_of_executors(name: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        check_name(name)


# ---- commands


def _files(folder: Path) -> None:
    (folder / "sub").mkdir()
    for number in range(4):
        (folder / f"{number}.hlo").write_text(HEAD.replace("1", str(1 + (number == 2))) + MODULE)
    (folder / "sub" / "hlotool.toml").write_text('[pipelines]\nmine = "dce"\n')
    (folder / "sub" / "c.hlo").write_text(f"// RUN: hlotool opt %S/other.hlo -p mine\n{HEAD}{MODULE}")
    (folder / "sub" / "other.hlo").write_text(MODULE)


def test_checks_are_the_same_everywhere(hlotool: Run, tmp_path: Path) -> None:
    _files(tmp_path)
    one = hlotool("check", ".", "-v", "-j", "1")
    assert one.returncode == 1
    assert one.stdout.endswith("4 passed, 1 failed, 1 file without checks\n"), one.stdout
    for name in ("processes:2", "executors:pool"):
        done = hlotool("check", ".", "-v", "--executor", name, env=TESTS)
        assert (done.returncode, done.stdout, done.stderr) == (1, one.stdout, one.stderr)
    done = hlotool("check", tmp_path, "--update", "--snapshot", "golden", "--executor", "processes:2")
    assert "updated" in done.stderr
    assert (tmp_path / "2.hlo").read_text().startswith(HEAD)
    assert sorted(path.name for path in (tmp_path / "golden").iterdir())[:2] == ["0.txt", "1.txt"]


def test_a_worker_that_is_killed_is_replaced(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(HEAD + MODULE)
    env = TESTS | {"HLOTOOL_TEST_MARK": str(tmp_path / "mark")}
    done = hlotool("check", "a.hlo", "--executor", "executors:killed_once", env=env)
    assert (done.returncode, done.stdout) == (0, "1 passed\n"), done.stderr
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize(("name", "code", "words"), [
    ("executors:killed", 5, "its worker was lost each time: BrokenProcessPool"),
    ("executors:other", 5, "has hlotool 0.0.1+elsewhere, and this is"),
    ("executors:no_executor", 3, "gives int, no executor"),
    ("executors:nothing", 3, "has no attribute 'nothing'"),
    ("nowhere:make", 3, "No module named 'nowhere'"),
    ("elsewhere", 2, "no executor: expected processes:N"),
])  # fmt: skip
def test_errors_are_said(hlotool: Run, tmp_path: Path, name: str, code: int, words: str) -> None:
    (tmp_path / "a.hlo").write_text(HEAD + MODULE)
    done = hlotool("check", "a.hlo", "--executor", name, env=TESTS)
    assert done.returncode == code, done
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_several_comparisons(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(MODULE)
    (tmp_path / "bad.hlo").write_text("no HLO")
    np.savez(tmp_path / "in.npz", arg0=np.ones(4, np.float32))
    words = ("--inputs", tmp_path / "in.npz", "--backend", "evaluate")
    alone = hlotool("compare", "a.hlo", *words)
    assert hlotool("compare", "a.hlo", *words, "--executor", "processes:1").stdout == alone.stdout
    done = hlotool("compare", "a.hlo", tmp_path / "a.hlo", "bad.hlo", *words, "--format", "json")
    assert done.returncode == 3
    assert "bad.hlo:1:4: error" in done.stderr
    answer = check_json(done.stdout)
    assert [row["file"] for row in answer["comparisons"]] == ["a.hlo", str(tmp_path / "a.hlo")]
    assert [row["file"] for row in answer["failed"]] == ["bad.hlo"]


def test_bench_says_where(hlotool: Run, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.hlo").write_text(MODULE)
    quick = ("--time", "0.01", "--warmup", "0", "--rounds", "1", "--no-roof", "--executor", "processes:2")
    done = hlotool("bench", "a.hlo", "b.hlo", *quick, "-p", "cse", "-p", "dce", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = check_json(done.stdout)["cases"]
    assert [(row["file"], row["variant"]) for row in rows] == [
        (name, f"hlotool -p {passes}") for name in ("a.hlo", "b.hlo") for passes in ("cse", "dce")
    ]
    assert all(f"{host().cores} core" in row["machine"] for row in rows)
    suite = ("--suite", "mlp", "--small", "--headlines", "--quick")
    done = hlotool("bench", *suite, *quick[4:], "--rounds", "1", "--time", "0.01", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert all(row["machine"] and row["results"][0]["status"] == "ok" for row in check_json(done.stdout)["cases"])


def test_reductions_go_on(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE.replace("ROOT r =", "b = f32[4] abs(a)\n  ROOT r =").replace("a, a", "a, b"))
    words = ("reduce", "m.hlo", "--cmd", "grep -q add {} && exit 1 || exit 0")
    one = hlotool(*words, "--executor", "inline")
    assert one.returncode == 0, one.stderr
    jobs = ("--executor", "processes:2", "--journal", "j")
    cut = hlotool(*words, *jobs, "--max-time", "0.001")
    assert "the time was over" in cut.stderr
    two = hlotool(*words, *jobs)
    assert "goes on from j: " in two.stderr
    assert two.stdout == one.stdout
    assert not (tmp_path / "j").exists()
    assert hlotool(*words, "--journal", "j").returncode == 2
