"""The suites of benchmarks: every case computes what the evaluator and NumPy say, peers are checked before they are
timed, and the site survives what happens to its history."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Run
from json_schemas import check_json

import hlotool
from hlotool.harness.compare import compare_all
from hlotool.harness.peer_process import PeerProcess, RefusedError
from hlotool.inspect.suite_run import (
    CaseResult,
    Result,
    SuiteRun,
    geometric_mean,
    run_from_json,
    run_to_json,
)
from hlotool.inspect.suite_site import add_to_site, read_history, write_pages
from hlotool.ir import UnsupportedError
from hlotool.ir.verifier import check
from hlotool.suites.case import FULL, SMALL, Case, Graph, Scale, from_json, headlines, to_json
from hlotool.suites.contestants import difference, peer_of
from hlotool.suites.modules import arrays_of, module_of
from hlotool.suites.names import PEERS, SUITES
from hlotool.suites.operations.hlo import HLO
from hlotool.suites.operations.numpy_only import NUMPY
from hlotool.suites.peers.programs import stepwise
from hlotool.suites.tables import suite_cases
from hlotool.text.printer import print_module

QUICK = ("--small", "--time", "0", "--warmup", "0", "--rounds", "1", "--no-roof")


def run_record(seconds: float = 0.002, peer: float | None = 0.004, name: str = "add-8") -> SuiteRun:
    """A run of one case, with a peer."""
    own = Result(name="hlotool", status="ok", median=seconds, low=seconds, high=seconds, compile=0.1, first=0.01)
    other = (
        Result(name="xla", status="not available", why="<none> here")
        if peer is None
        else Result(name="xla", status="ok", median=peer, low=peer, high=peer, compile=0.2, first=0.02)
    )
    case = CaseResult(suite="xla-small", name=name, flops=1000, bytes=4000, touched=4000, results=(own, other))
    return SuiteRun(
        time="2026-01-02T03:04:05+00:00", tool_version="0", build="b", machine={"name": "a processor"},
        versions={"xla": "XLA 1"}, load=[0.5, 0.5, 0.5], roof=None, cases=(case,),
    )  # fmt: skip


# ---- the tables


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_every_case_computes_what_the_evaluator_and_numpy_say(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    wrong = []
    for case in suite_cases(suite, SMALL):
        module, arrays = module_of(case), arrays_of(case)
        check(module)
        wanted = hlotool.compile(module, backend="evaluate")(*arrays)
        found = hlotool.compile(module)(*arrays)
        wrong += [f"{case.full_name}: {c}" for c in compare_all(found, wanted) if not c.ok]
        assert all(np.isfinite(np.asarray(one, np.float64)).all() for one in wanted), case.full_name
        if case.devices == 1 and {s.operation for s in case.steps} <= NUMPY.keys() and "bf16" not in case.name:
            why = difference(_by_numpy(case, arrays), wanted)
            wrong += [f"{case.full_name}: NumPy: {why}"] if why else []
    assert not wrong, "\n".join(wrong)


def _by_numpy(case: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
    from hlotool.suites.operations.numpy_only import TOOLS

    known = dict(zip((a.name for a in case.arguments), arrays, strict=True))
    for step in case.steps:
        found = NUMPY[step.operation](TOOLS, *(known[name] for name in step.operands), **step.attributes)
        known.update(zip(step.results, found if isinstance(found, tuple) else (found,), strict=True))
    return [np.asarray(known[name]) for name in case.results]


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_names_are_the_same_at_every_scale_and_not_twice(suite: str) -> None:
    full, small = suite_cases(suite, FULL), suite_cases(suite, SMALL)
    names = [case.name for case in full]
    assert names == [case.name for case in small]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert any(case.headline for case in full)
    assert {case.suite for case in full} == {suite}
    for one, other in zip(full, small, strict=True):
        assert {s.operation for s in one.steps} == {s.operation for s in other.steps}
        assert len(one.steps) >= len(other.steps)  # DLRM has fewer tables
        assert sum(int(np.prod(a.shape)) for a in one.arguments) >= sum(int(np.prod(a.shape)) for a in other.arguments)


def test_every_operation_has_a_case_and_a_meaning() -> None:
    used = {step.operation for suite in SUITES for case in suite_cases(suite, SMALL) for step in case.steps}
    assert used <= HLO.keys()
    assert HLO.keys() - used <= {"concatenate"}


def test_sizes_shrink_and_stay_odd_or_even() -> None:
    assert SMALL.all(2, 5, 7, 100, 1001) == (2, 5, 5, 6, 5)
    assert SMALL(224, 32) == 32
    assert SMALL(20, 32) == 20
    assert FULL(1000) == 1000
    assert Scale(9)(100) == 8


def test_cases_survive_json_and_headlines_must_exist() -> None:
    graph = Graph()
    x = graph.argument((2, 2))
    case = graph.case("s", "n", graph.add("add", x, x))
    names, steps, results = from_json(json.loads(json.dumps(to_json(case))))
    assert (names, steps, results) == (["a0"], list(case.steps), list(case.results))
    assert headlines([case], ["n"])[0].headline
    with pytest.raises(KeyError, match="no case other"):
        headlines([case], ["other"])


def test_arguments_are_the_same_for_the_same_seed() -> None:
    case = next(case for case in suite_cases("llm", SMALL) if case.name == "llama-1b-decode-int8")
    one, other, third = arrays_of(case, 1), arrays_of(case, 1), arrays_of(case, 2)
    assert all((a == b).all() for a, b in zip(one, other, strict=True))
    assert any((a != b).any() for a, b in zip(one, third, strict=True))
    assert {array.dtype.name for array in one} == {"float32", "int8"}


# ---- peers


def test_results_are_compared_by_their_largest_element() -> None:
    a = np.array([1.0, 1e-9], np.float32)
    assert difference([a], [a]) == ""
    assert difference([a + np.float32(1e-5)], [a]) == ""
    assert "more than 0.0002" in difference([a * np.float32(1.01)], [a])
    assert "float64 instead of float32" in difference([a.astype(np.float64)], [a])
    assert "shape [1]" in difference([a[:1]], [a])
    assert "2 results instead of 1" in difference([a, a], [a])
    assert "not finite" in difference([np.array([1.0, np.nan], np.float32)], [a])
    assert "differs" in difference([np.array([1, 3])], [np.array([1, 2])])


def test_a_peer_without_a_program_says_which(tmp_path: Path) -> None:
    graph = Graph()
    graph.add("all_reduce", graph.argument((2,)), devices=2)
    path = tmp_path / "program"
    path.write_text(json.dumps(to_json(graph.case("s", "n"))))
    with pytest.raises(LookupError, match="no program for all_reduce"):
        stepwise(str(path), NUMPY)


def test_numpy_is_a_peer_in_a_process_of_its_own() -> None:
    case = next(case for case in suite_cases("vision", SMALL) if case.name == "resnet50-b1")
    arrays = arrays_of(case)
    peer = peer_of("numpy", case, "", arrays, {}, 100)
    try:
        started = peer.start()
        assert "NumPy" in peer.version()
        assert peer.sample(0.0, 2)[0] > 0
    finally:
        peer.close()
    assert difference(started.outputs, hlotool.compile(module_of(case))(*arrays)) == ""


@pytest.mark.parametrize("name", sorted(PEERS.keys() - {"numpy"}))
def test_the_other_peers_compute_the_same(name: str) -> None:
    """With the Pythons that HLOTOOL_PEERS names: ``torch=PYTHON,...``; each tries a case of every kind of program."""
    pythons = dict(part.split("=", 1) for part in os.environ.get("HLOTOOL_PEERS", "").split(",") if "=" in part)
    pythons.setdefault("xla", os.environ.get("HLOTOOL_XLA_PYTHON", ""))
    if not pythons.get(name) or (name == "iree" and not pythons["xla"]):
        pytest.skip(f"HLOTOOL_PEERS names no Python with {name}")
    tried = refused = 0
    seen: set[tuple[str, ...]] = set()
    for suite in SUITES:
        for case in suite_cases(suite, SMALL):
            kind = tuple(sorted({step.operation for step in case.steps}))
            if kind in seen or case.devices > 1 or case.arguments[0].type != "f32" or "int8" in case.name:
                continue
            seen.add(kind)
            module, arrays = module_of(case), arrays_of(case)
            try:
                peer = peer_of(name, case, print_module(module), arrays, dict(pythons), 300)
                try:
                    outputs = peer.start().outputs
                finally:
                    peer.close()
            except RefusedError as error:
                # IREE cannot compile every program: transforms of length 6, convolutions of uneven batches.
                refused += name == "iree" and "refuses the module" in error.message
                if "has no program for" in error.message or (name == "iree" and "refuses the module" in error.message):
                    continue
                raise
            assert difference(outputs, hlotool.compile(module)(*arrays)) == "", case.full_name
            tried += 1
    assert tried >= max(5, 4 * refused)


def test_a_peer_that_is_not_there_says_how_to_get_it() -> None:
    case = suite_cases("xla-small", SMALL)[0]
    peer = peer_of("torch", case, "", arrays_of(case), {"torch": sys.executable}, 100)
    try:
        if __import__("importlib.util").util.find_spec("torch"):
            pytest.skip("this Python has torch")
        with pytest.raises(UnsupportedError, match=r"No module named 'torch'.*--against torch=PYTHON"):
            peer.start()
    finally:
        peer.close()
    with pytest.raises(UnsupportedError, match=r"does not answer: No such file.*pip install"):
        peer_of("torch", case, "", arrays_of(case), {"torch": "/nowhere/python"}, 100)


def test_a_peer_that_hangs_is_ended() -> None:
    code = "import sys, time\nprint('{}', flush=True)\nsys.stdin.readline()\ntime.sleep(1000)"
    process = PeerProcess("it", [sys.executable, "-c", code], {}, "", 1.0)
    with pytest.raises(UnsupportedError, match="no answer in 1 s"):
        process.ask("compile")
    process.close()


# ---- the command


def test_suites_are_listed(hlotool: Run) -> None:
    done = hlotool("bench", "--suite", "list")
    assert done.returncode == 0
    assert all(name in done.stdout for name in SUITES)


def test_a_suite_is_timed_and_reported(hlotool: Run, tmp_path: Path) -> None:
    words = ("bench", "--suite", "xla-small", "--cases", "add-8|sort-1000", *QUICK, "--against", "numpy")
    done = hlotool(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert [case["name"] for case in answer["cases"]] == ["add-8", "sort-100000", "sort-1000x100"]
    assert all(case["ratios"]["numpy"] > 0 for case in answer["cases"])
    assert answer["geometric_means"]["xla-small"]["numpy"]["cases"] == 3
    assert "NumPy" in answer["versions"]["numpy"]
    text = hlotool(*words).stdout
    assert "geometric mean" in text
    assert "of 3" in text
    markdown = hlotool(*words, "--format", "markdown").stdout
    assert markdown.startswith("| suite | case | hlotool |")
    rows = hlotool(*words, "--format", "csv").stdout.splitlines()
    assert rows[0] == "suite,case,flops,bytes,hlotool s,numpy s"


def test_several_devices_run_here_and_peers_say_why_they_do_not(hlotool: Run) -> None:
    words = ("bench", "--suite", "deepbench", "--cases", "all-reduce-100000-on-2", *QUICK, "--against", "numpy")
    done = hlotool(*words)
    assert done.returncode == 0, done.stderr
    assert "numpy: not available: numpy has no program for several devices" in done.stdout


def test_a_wrong_peer_is_told_and_its_time_does_not_count(hlotool: Run, tmp_path: Path) -> None:
    """A Python whose NumPy adds something else."""
    (tmp_path / "sitecustomize.py").write_text(
        "import numpy\nfrom hlotool.suites.operations import plain\nplain.PLAIN['add'] = lambda t, a, b: a + b + 1\n"
    )
    python = tmp_path / "python"
    paths = f"{tmp_path}{os.pathsep}{ROOT}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" PYTHONSAFEPATH= exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    words = ("bench", "--suite", "xla-small", "--cases", "/add-8", *QUICK, "--format", "json")
    done = hlotool(*words, "--against", f"numpy={python}")
    assert done.returncode == 1, done.stderr
    (case,) = check_json(done.stdout)["cases"]
    assert [r["status"] for r in case["results"]] == ["ok", "MISMATCH"]
    assert case["results"][1]["median"] is None
    assert case["ratios"] == {}


def test_modules_are_written_and_run(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("bench", "--suite", "mlp", "--small", "--cases", "infer-2x10-b16", "--emit-to", str(tmp_path))
    assert done.returncode == 0
    path = tmp_path / "mlp" / "infer-2x10-b16.hlo"
    assert "metadata" not in path.read_text()
    assert hlotool("run", str(path), "--compare", "evaluate").returncode == 0


def test_time_that_is_up_leaves_cases_out_by_name(hlotool: Run) -> None:
    done = hlotool("bench", "--suite", "xla-small", "--cases", "add-8|tanh-1000", *QUICK, "--max-seconds", "0")
    assert done.returncode == 0
    assert "xla-small/tanh-1000: left out: the time of --max-seconds was up" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--suite", "mlp", "file.hlo"], 2, "goes without FILE"),
        (["--suite", "mlp", "--inputs", "a.npz"], 2, "--inputs goes with FILE"),
        (["--suite", "mlp", "--fail-if", ">5%"], 2, "--fail-if goes with FILE"),
        (["--suite", "mlp", "--cases", "("], 2, "no regular expression"),
        (["--suite", "mlp", "--cases", "nothing"], 3, "no case of the suites"),
        (["--suite", "nothing"], 2, "nothing"),
        (["--suite", "mlp", "--against", "tvm"], 2, "'tvm' is not one of"),
        (["--suite", "mlp", "--against", "evaluate=python"], 2, "takes no Python"),
        (["file.hlo", "--quick"], 2, "--quick goes with --suite"),
        (["file.hlo", "--against", "torch"], 2, "no program for a file"),
        ([], 2, "name a FILE"),
    ],
)
def test_what_does_not_fit_is_told(hlotool: Run, words: list[str], code: int, says: str) -> None:
    done = hlotool("bench", *words)
    assert done.returncode == code
    assert says in done.stderr


# ---- the site


def test_runs_survive_json() -> None:
    run = run_record()
    assert run_from_json(json.loads(json.dumps(run_to_json(run)))) == run
    assert run.cases[0].ratio("xla") == pytest.approx(0.5)
    assert run.mean("xla") == (pytest.approx(0.5), 1)
    assert geometric_mean([]) is None
    assert geometric_mean([1, 4]) == pytest.approx(2)


def test_pages_are_a_function_of_the_history(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        for seconds in (0.002, 0.001):
            assert add_to_site(tmp_path / folder, run_record(seconds)) == []
    names = sorted(os.listdir(tmp_path / "one"))
    assert names == ["history.jsonl", "index.html", "xla-small.html"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    page = (tmp_path / "one" / "xla-small.html").read_text()
    assert "<polyline" in page  # the history
    assert not re.search(r"(src|href)=\"https?:", page)


def test_words_of_others_are_escaped(tmp_path: Path) -> None:
    add_to_site(tmp_path, run_record(peer=None))
    page = (tmp_path / "xla-small.html").read_text()
    assert "&lt;none&gt; here" in page
    assert "<none>" not in page


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"schema_version": 1, "kind": "bench', "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b'{"kind": "hash"}', "no record of bench --suite"),
        (b'{"kind": "bench-suite", "schema_version": 9}', "another version: 9"),
        (b'{"kind": "bench-suite", "schema_version": 1}', "a field is missing"),
        (b"[]", "no record"),
    ],
)
def test_damaged_lines_are_skipped_by_name(tmp_path: Path, line: bytes, says: str) -> None:
    add_to_site(tmp_path, run_record())
    with open(tmp_path / "history.jsonl", "ab") as stream:
        stream.write(line)  # and no end of line: somebody was cut off
    (problem,) = add_to_site(tmp_path, run_record(0.001))
    assert problem.startswith("history.jsonl:2: skipped: ")
    assert says in problem
    runs, problems = read_history(tmp_path / "history.jsonl")
    assert len(runs) == 2
    assert problems == [problem]
    assert "history.jsonl:2: skipped" in (tmp_path / "index.html").read_text()


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    add_to_site(tmp_path, run_record())
    before = (tmp_path / "index.html").read_bytes()
    (tmp_path / "xla-small.html").unlink()
    (tmp_path / "xla-small.html").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_pages(tmp_path, [run_record()])
    assert (tmp_path / "index.html").read_bytes() == before


def test_the_command_adds_to_a_site(hlotool: Run, tmp_path: Path) -> None:
    words = ("bench", "--suite", "xla-small", "--cases", "/add-8", *QUICK, "--site", str(tmp_path / "site"))
    assert hlotool(*words).returncode == 0
    with open(tmp_path / "site" / "history.jsonl", "ab") as stream:
        stream.write(b"half a li")
    done = hlotool(*words)
    assert done.returncode == 0
    assert "history.jsonl:2: skipped: it is no JSON" in done.stderr
    assert len(read_history(tmp_path / "site" / "history.jsonl")[0]) == 2
    for line in (tmp_path / "site" / "history.jsonl").read_text().splitlines()[::2]:
        check_json(line)


def test_a_site_that_is_a_file_is_exit_code_2(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "site").write_text("")
    done = hlotool("bench", "--suite", "xla-small", "--cases", "/add-8", *QUICK, "--site", str(tmp_path / "site"))
    assert done.returncode == 2
