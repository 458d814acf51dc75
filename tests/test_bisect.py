"""Bisection: the search, the command through real processes, and a sample of planted miscompiles."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Install, Run, environment
from hypothesis import given
from hypothesis import strategies as st
from json_schemas import check_json
from planted_rewrites import KINDS, WRONG, varied_module

from hlotool.harness.bisection.answers import Chance, Memory
from hlotool.harness.bisection.course import Course, rewrites_at, runs_of, text_at
from hlotool.harness.bisection.search import boundary, fewest
from hlotool.harness.failure import GOOD, Failure, bad, undecided
from hlotool.text.parser import parse

TESTS = Path(__file__).parent
BAD = bad(Failure(kind="mismatch", what="wrong"))
OPEN = undecided("who knows")

SMALL = """HloModule small

ENTRY e {
  x = f32[4] parameter(0)
  y = f32[8] parameter(1)
  a = f32[4] slice(y), slice={[1:5]}
  b = f32[4] slice(y), slice={[2:6]}
  c = f32[4] slice(y), slice={[3:7]}
  p = f32[4] multiply(a, b)
  q = f32[4] multiply(p, c)
  ROOT r = f32[4] add(x, q)
}
"""
PLANTED = "dce,planted{kind=shifted-slice,at=2},fusion"


@pytest.fixture
def planted(install: Install) -> dict[str, str | None]:
    """An environment with the pass ``planted``, and others that fail."""
    found = install("planted_package", PACKAGE, "hlotool.passes", planted="Planted", crashing="Crashing",
        invalid="Invalid", silent="Silent", dying="Dying")  # fmt: skip
    return {**found, "PYTHONPATH": f"{found['PYTHONPATH']}{os.pathsep}{TESTS}"}


PACKAGE = """
import os
import signal
from dataclasses import dataclass
from typing import ClassVar
from planted_rewrites import KINDS, Planted
from hlotool.ir import clone_instruction
from hlotool.passes.framework.graph import replace_with

def copies(module, log):
    for instruction in list(module.entry):
        if instruction.opcode == "slice" and log.allow():
            copy = clone_instruction(instruction, list(instruction.operands))
            copy.attributes = dict(copy.attributes)
            module.entry.add(copy, before=instruction)
            replace_with(instruction, copy)
            yield copy, lambda old=instruction, new=copy: log.rewrite("copied", old, new)

@dataclass(frozen=True, slots=True)
class Crashing:
    "Fails at the second slice."
    name: ClassVar[str] = "crashing"
    def run(self, module, log):
        for number, (copy, record) in enumerate(copies(module, log), 1):
            if number == 2:
                raise KeyError("slice")
            record()
        return True

@dataclass(frozen=True, slots=True)
class Invalid:
    "Makes the third slice too long."
    name: ClassVar[str] = "invalid"
    def run(self, module, log):
        for number, (copy, record) in enumerate(copies(module, log), 1):
            if number == 3:
                (row,) = copy.attributes["slice"]
                copy.attributes["slice"] = (type(row)(row.start, row.limit + 1, row.stride),)
            record()
        return True

@dataclass(frozen=True, slots=True)
class Silent:
    "Is wrong, and says nothing of it."
    name: ClassVar[str] = "silent"
    def run(self, module, log):
        for instruction in module.entry:
            if instruction.opcode == "slice":
                return KINDS["shifted-slice"][1](instruction)
        return False

@dataclass(frozen=True, slots=True)
class Dying:
    "Takes the process with it."
    name: ClassVar[str] = "dying"
    def run(self, module, log):
        os.kill(os.getpid(), signal.SIGKILL)
"""


# ---- the search


@given(st.integers(1, 300), st.data())
def test_a_boundary_is_a_good_place_beside_a_bad_one(count: int, data: st.DataObject) -> None:
    answers = [GOOD, *data.draw(st.lists(st.sampled_from([GOOD, BAD]), min_size=count - 1, max_size=count - 1)), BAD]
    asked: list[int] = []
    found = boundary(0, count, lambda place: (asked.append(place), answers[place])[1])
    assert found.is_exact
    assert (answers[found.good], answers[found.bad]) == (GOOD, BAD)
    assert len(asked) <= count.bit_length()


@given(st.integers(1, 60), st.data())
def test_undecided_places_are_gone_around_and_never_good(count: int, data: st.DataObject) -> None:
    kinds = st.sampled_from([GOOD, BAD, OPEN])
    answers = [GOOD, *data.draw(st.lists(kinds, min_size=count - 1, max_size=count - 1)), BAD]
    asked: list[int] = []
    found = boundary(0, count, lambda place: (asked.append(place), answers[place])[1])
    assert len(set(asked)) == len(asked)
    assert (answers[found.good].verdict, answers[found.bad].verdict) == ("good", "bad")
    between = answers[found.good + 1 : found.bad]
    assert all(one is OPEN for one in between) or sum(one is OPEN for one in between) >= 32


def test_a_long_stretch_of_undecided_places_ends_the_search() -> None:
    asked: list[int] = []
    found = boundary(0, 10_000, lambda place: (asked.append(place), OPEN)[1])
    assert (found.good, found.bad, found.is_exact) == (0, 10_000, False)
    assert len(asked) < 50


@given(st.integers(0, 25), st.data())
def test_fewest_is_minimal(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, max(0, count - 1)), max_size=5)) if count else set()
    assert fewest(range(count), lambda chosen: needed <= set(chosen)) == sorted(needed)


def test_fewest_without_any_one_no_longer_fails() -> None:
    def fails(chosen: Any) -> bool:
        return {1, 2} <= set(chosen) or {7, 9, 11} <= set(chosen)

    found = fewest(range(12), fails)
    assert fails(found)
    assert not any(fails([one for one in found if one != left]) for left in found)


@pytest.mark.parametrize(("failed", "tries"), [(1, 20), (5, 20), (19, 20), (20, 20), (1, 1)])
def test_a_chance_is_bounded_as_by_clopper_and_pearson(failed: int, tries: int) -> None:
    from scipy.stats import binom

    chance = Chance(failed, tries)
    assert binom.sf(failed - 1, tries, chance.least) == pytest.approx(0.05)
    needed = chance.tries_for(0.99)
    assert chance.confidence(needed) >= 0.99
    assert needed == 1 or chance.confidence(needed - 1) < 0.99


# ---- the course of a pipeline


def test_a_module_in_the_middle_is_what_the_pipeline_had_there() -> None:
    """One run of a pass alone, on a copy, does what it does in the pipeline."""
    text = varied_module(120)
    course = Course("default", lowered=True)
    runs = runs_of(text, course)
    changed = [run for run in runs if run.changed]
    assert len(changed) >= 5
    assert [run.number for run in runs] == list(range(1, len(runs) + 1))
    total = 0
    for run in runs:
        assert run.before == total
        total += run.rewrites
    for run in changed:
        made = rewrites_at(text, course, run.number)
        assert len(made) == run.rewrites
        assert rewrites_at(text, course, run.number, 0) == []
        if run.rewrites > 1:
            assert rewrites_at(text, course, run.number, 1) == made[:1]
    ahead, behind = changed[1], changed[2]
    assert text_at(text, course, behind.number - 1) == text_at(text, course, ahead.number)
    assert text_at(text, course, len(runs)) == text_at(text, course, changed[-1].number)
    assert text_at(text, course, 0) == text_at(text, Course(""), 0)


# ---- the command


def module(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "small.hlo"
    path.write_text(text)
    return path


def test_rewrites(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    path = module(tmp_path)
    done = hlotool("bisect", "rewrites", path, "-p", PLANTED, env=planted)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("found: rewrite 2 of 3 of pass 2 of ")
    assert "planted{kind=shifted-slice,at=2}: HLO4000 shifted-slice" in done.stdout
    assert "it fails with wrong numbers: out0: 4 of 4 elements differ" in done.stdout
    assert f": {WRONG}\n--- before.hlo\n+++ after.hlo\n" in done.stdout
    assert done.stderr == ""

    folder = tmp_path / "hlotool-bisect"
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["reproducer.hlo", "before.hlo", "after.hlo", "rewrite.diff", "rewrite.html", "bisect.json"]
    )
    answer = check_json((folder / "bisect.json").read_text())
    assert (answer["verdict"], answer["judge"], answer["pass"]["run"]) == ("found", "evaluate", 2)
    before, after = (parse((folder / name).read_text()) for name in ("before.hlo", "after.hlo"))
    assert before.instruction_count() == after.instruction_count()
    diff = (folder / "rewrite.diff").read_text().splitlines()[2:]
    assert sum(line.startswith("+") for line in diff) == sum(line.startswith("-") for line in diff) == 2

    command = done.stdout.partition("; to run it: ")[2].partition("\n")[0]
    again = hlotool(*command.split()[1:], env=planted)
    assert again.returncode == 1
    assert "MISMATCH: pass planted" in again.stderr
    carried = hlotool("bisect", "passes", folder / "reproducer.hlo", "-o", "again", env=planted)
    assert carried.stdout.startswith("found: pass 1 of "), carried.stderr
    page = (folder / "rewrite.html").read_text()
    assert "shifted-slice" in page
    assert page.count("</html>") == 1


def test_passes_from_standard_input_as_json(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    arguments = ("bisect", "passes", "-", "-p", PLANTED, "-o", "out", "--format", "json")
    done = hlotool(*arguments, stdin=SMALL, env=planted)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert answer == check_json((tmp_path / "out" / "bisect.json").read_text())
    assert answer["pass"] == {
        "run": 2, "of": answer["pass"]["of"], "name": "planted", "text": "planted{kind=shifted-slice,at=2}",
        "rewrites": 3,
    }  # fmt: skip
    assert answer["rewrite"] is None


def test_pipeline(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    planted_ = "planted{kind=shifted-slice}"
    pipeline = f"cse,fixpoint(dce,algebraic-simplifier),fixpoint(tuple-simplifier,{planted_}),fusion,dce"
    done = hlotool("bisect", "pipeline", module(tmp_path), "-p", pipeline, "--format", "json", env=planted)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert (answer["verdict"], answer["pipeline"]) == ("found", planted_)
    command = answer["reproduce"].replace("reproducer.hlo", "hlotool-bisect/reproducer.hlo")
    again = hlotool(*shlex.split(command)[1:], env=planted)
    assert (again.returncode, "MISMATCH" in again.stderr) == (1, True)


def test_inputs(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    done = hlotool("bisect", "inputs", module(tmp_path), "-p", PLANTED, "--format", "json", env=planted)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert answer["inputs"]["parameters"] == ["y"]
    folder = tmp_path / "hlotool-bisect"
    good, bad_ = (np.load(folder / name) for name in ("good.npz", "bad.npz"))
    assert (good["arg0"] == bad_["arg0"]).all()
    assert [n for n in range(8) if good["arg1"][n] != bad_["arg1"][n]] == answer["inputs"]["index"]
    for name, code in (("good.npz", 0), ("bad.npz", 1)):
        check = ("run", "small.hlo", "-p", PLANTED, "--inputs", folder / name, "--compare", "evaluate")
        assert hlotool(*check, env=planted).returncode == code


def test_inputs_that_do_not_matter(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("bisect", "inputs", module(tmp_path), "--cmd", "test -s {inputs} && exit 1; exit 125")
    others = ", ".join(f"random inputs of seed {n}" for n in range(1, 9))
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"always: it fails with zeros, ones, {others} too\n")


def test_a_command_says_what_fails(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    path = module(tmp_path)
    grep = "if grep -q 3:7.*PLACE {}; then echo oh no; exit 3; fi".replace(".*PLACE", "")
    counted = "test $(grep -c '\\[3:7\\]' {}) -lt 2 || exit 3"
    for command in (counted, counted.replace(" {}", "")):
        done = hlotool("bisect", "rewrites", path, "-p", PLANTED, "--cmd", command, "--format", "json", env=planted)
        assert done.returncode == 0, done.stdout + done.stderr
        answer = check_json(done.stdout)
        assert (answer["rewrite"]["first"], answer["failure"]["kind"], answer["judge"]) == (2, "exit", "command")
    done = hlotool("bisect", "rewrites", path, "-p", PLANTED, "--cmd", grep, env=planted)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1, "module: it fails on the module as it is, without any pass",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("true", 1, "no-failure: nothing fails"),
        ("exit 125", 1, "undecided: the command says so: exit code 125"),
        ("exit 130", 5, ""),
    ],
)
def test_when_nothing_is_found(command: str, code: int, line: str, hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("bisect", "passes", module(tmp_path), "--cmd", command)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (code, line)
    assert ("exit code 130" in done.stderr) == (code == 5)
    assert not (tmp_path / "hlotool-bisect" / "bisect.json").exists()


def test_right_modules_have_no_culprit(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("bisect", "rewrites", module(tmp_path), "--format", "json")
    assert done.returncode == 1
    assert check_json(done.stdout)["verdict"] == "no-failure"
    assert not (tmp_path / "hlotool-bisect").exists()


def test_candidates_where_the_command_cannot_tell(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    command = "grep -q ' a =' {} && exit 0; grep -q ' c =' {} && exit 125; exit 1"
    arguments = ("bisect", "rewrites", module(tmp_path), "-p", "planted{kind=shifted-slice}", "--cmd", command)
    done = hlotool(*arguments, env=planted)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("candidates: one of these 3 of planted: the modules between them are undecided\n")
    assert "\n  3: planted: rewrite shifted-slice (HLO4000): c -> " in done.stdout
    answer = check_json(hlotool(*arguments, "--format", "json", env=planted).stdout)
    assert [row.partition(":")[0] for row in answer["candidates"]] == ["1", "2", "3"]
    others = [{"rewrites": "passes", arguments[4]: f"dce,{arguments[4]}"}.get(word, word) for word in arguments]
    done = hlotool(*others, env=planted)
    assert done.stdout.startswith("found: pass 2 of 2, planted")


@pytest.mark.parametrize(("name", "number"), [("crashing", 2), ("invalid", 3)])
def test_passes_that_fail(name: str, number: int, hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    path = module(tmp_path)
    arguments = ("bisect", "rewrites", path, "-p", f"dce,{name},fusion", "--format", "json")
    done = hlotool(*arguments, env=planted)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = check_json(done.stdout)
    assert (answer["verdict"], answer["pass"]["name"], answer["judge"]) == ("found", name, "passes")
    assert answer["failure"]["kind"] == "crash"
    if name == "invalid":
        assert answer["rewrite"]["first"] == number
    again = hlotool("repro", "hlotool-bisect/reproducer.hlo", "--no-check", env=planted)
    assert again.returncode == 70


def test_a_pass_that_does_not_say_what_it_does(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    done = hlotool("bisect", "rewrites", module(tmp_path), "-p", "dce,silent", "--format", "json", env=planted)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert (answer["pass"]["name"], answer["rewrite"]) == ("silent", None)


def test_wrong_code_is_no_fault_of_a_pass(hlotool: Run, tmp_path: Path, install: Install) -> None:
    """A backend that is wrong: always, or for fusions alone."""
    text = """
from dataclasses import replace
from hlotool.driver.backends import find_backend
from hlotool.driver.backend import Backend

def compiled(module, options, which):
    made = find_backend("cpu").compile(module, options)
    if which not in {i.opcode for i in made.module.instructions()}:
        return made
    def work(device, arrays):
        return tuple(array + 1 for array in made.work(device, arrays))
    return replace(made, work=work)

ANY = Backend(name="any", compile=lambda module, options: compiled(module, options, "parameter"))
FUSED = Backend(name="fused", compile=lambda module, options: compiled(module, options, "fusion"))
"""
    env = install("wrong", text, "hlotool.backends", any="ANY", fused="FUSED")
    path = module(tmp_path)
    done = hlotool("bisect", "passes", path, "--backend", "any", env=env)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "code-generation: it fails with an empty pipeline too")
    done = hlotool("bisect", "rewrites", path, "--backend", "fused", "-p", "dce,fusion", "--format", "json", env=env)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert (answer["verdict"], answer["pass"]["name"], answer["judge"]) == ("code-generation", "fusion", "fused")
    assert answer["rewrite"]["first"] == 1


def test_what_fails_sometimes(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    """Every third time that it is asked."""
    counter = "n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n > n; "
    command = counter + "test $(grep -c '\\[3:7\\]' {}) -lt 2 || test $((n % 3)) != 0 || exit 1"
    arguments = ("bisect", "rewrites", module(tmp_path), "-p", PLANTED, "--cmd", command, "--format", "json")
    done = hlotool(*arguments, "--repeats", 12, "--confidence", "90%", env=planted)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = check_json(done.stdout)
    assert (answer["rewrite"]["first"], answer["chance"]["bad"], answer["chance"]["tries"]) == (2, 4, 12)
    assert 0.1 < answer["chance"]["least"] < 1 / 3
    assert 0.3 < answer["confidence"] < 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["passes", "none.hlo"], 3, "none.hlo"),
        (["passes", "bad.hlo"], 3, "error["),
        (["all", "small.hlo"], 2, "'all' is not one of 'passes', 'rewrites', 'pipeline', 'inputs'"),
        (["passes", "small.hlo", "--backend", "tpu"], 2, "no backend 'tpu'"),
        (["passes", "small.hlo", "-p", "nothing"], 2, "no pass or pipeline is called 'nothing'"),
        (["passes", "small.hlo", "--message", "x"], 2, "--cmd"),
        (["passes", "small.hlo", "--cmd", "true", "--message", "("], 2, "regular expression"),
        (["passes", "small.hlo", "--timeout", "0"], 2, "--timeout"),
        (["inputs", "small.hlo", "--repeats", "3"], 2, "--repeats"),
        (["inputs", "small.hlo", "--cmd", "true"], 2, "{inputs}"),
        (["passes", "small.hlo", "--repeats", "3", "--confidence", "1"], 2, "--confidence"),
        (["passes", "small.hlo", "--input", "z=1"], 2, "the parameters are x, y"),
        (["passes", "small.hlo", "-o", "small.hlo"], 2, "small.hlo"),
        (["passes", "small.hlo", "-o", "small.hlo/below"], 5, "small.hlo"),
    ],
)  # fmt: skip
def test_bad_usage(arguments: list[str], code: int, message: str, hlotool: Run, tmp_path: Path) -> None:
    module(tmp_path)
    (tmp_path / "bad.hlo").write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[4] bad()\n}\n")
    done = hlotool("bisect", *arguments)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_a_closed_pipe_is_no_error(planted: dict[str, str | None], tmp_path: Path) -> None:
    module(tmp_path)
    line = f"{sys.executable} -m hlotool bisect passes small.hlo --cmd true | true; echo ${{PIPESTATUS[0]}}"
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", line], capture_output=True, text=True, cwd=tmp_path, env=environment(**planted), check=False
    )
    assert (done.stdout, done.stderr) in (("1\n", ""), ("0\n", ""))


def test_an_interrupted_search_goes_on(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    path = module(tmp_path)
    # the command says when it is asked for the fourth time, and waits; the search is interrupted then
    command = "echo asked >> log; test $(wc -l < log) != 4 || test -e go || "
    command += "{ mkfifo ready; echo $$ > ready; sleep 600; }; "
    command += "test $(grep -c '\\[3:7\\]' {}) -lt 2 || exit 1"
    arguments = [sys.executable, "-m", "hlotool", "bisect", "rewrites", str(path), "-p", PLANTED, "--cmd", command]
    process = subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(**planted), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "ready").exists() and process.poll() is None:
        time.sleep(0.05)
    shell = int((tmp_path / "ready").read_text())
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    with pytest.raises(ProcessLookupError):  # the command ended with the search
        os.kill(shell, 0)
    assert process.returncode == 130, said
    assert "3 answers are in hlotool-bisect/state.json; the same command goes on from them" in said
    (tmp_path / "go").touch()
    (tmp_path / "log").write_text("")
    done = hlotool(*arguments[3:], env=planted)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("going on from hlotool-bisect/state.json, with 3 answers")
    assert done.stdout.startswith("found: rewrite 2 of 3")
    resumed = len((tmp_path / "log").read_text().split())
    assert not (tmp_path / "hlotool-bisect" / "state.json").exists()
    (tmp_path / "log").write_text("")
    hlotool(*arguments[3:], env=planted)
    assert len((tmp_path / "log").read_text().split()) == resumed + 3


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff", b'{"schema_version": 1, "question": {"a": 1}, "answers": {"k": 3}}', b"null"]
)
def test_a_state_that_is_none_is_left_out(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    memory = Memory({"a": 1}, path)
    assert memory.load() == 0
    assert memory.answers == {}


def test_a_state_of_another_question_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first = Memory({"a": 1}, path, lambda path, text: path.write_text(text) and None)
    for key, outcome in (("g", GOOD), ("b", BAD), ("u", OPEN)):
        first.put(key, outcome, 1, outcome.verdict == "bad")
    again = Memory({"a": 1}, path)
    assert again.load() == 3
    assert again.answers == first.answers
    assert Memory({"a": 2}, path).load() == 0


def test_a_terminal_sees_what_is_tried(planted: dict[str, str | None], tmp_path: Path) -> None:
    module(tmp_path)
    host, guest = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "hlotool", "bisect", "passes", "small.hlo", "-p", PLANTED], cwd=tmp_path,
        env=environment(**planted, TERM="xterm"), stdout=subprocess.PIPE, stderr=guest, text=True, check=False,
    )  # fmt: skip
    os.close(guest)
    said = b""
    while chunk := _chunk(host):
        said += chunk
    os.close(host)
    assert done.returncode == 0
    assert re.search(rb"1  the whole pipeline: bad: wrong numbers", said)
    assert re.search(rb"after pass 2 of \d+, planted \(evaluate\): bad", said)


def _chunk(host: int) -> bytes:
    try:
        return os.read(host, 1 << 16)
    except OSError:  # nobody writes any longer
        return b""


def test_a_pass_that_takes_the_process_with_it(hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    arguments = ("bisect", "rewrites", module(tmp_path), "-p", "dce,cse,dying,dce", "--format", "json")
    done = hlotool(*arguments, env=planted)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert (answer["failure"]["kind"], answer["pass"]["name"], answer["pass"]["run"]) == ("signal", "dying", 3)
    assert answer["reproduce"] == "hlotool repro reproducer.hlo --no-check"


# ---- planted miscompiles: tests/survey_bisect.py has all of them, in larger modules


@pytest.mark.parametrize("kind", ["swapped-select", "shifted-pad"])
def test_planted(kind: str, hlotool: Run, planted: dict[str, str | None], tmp_path: Path) -> None:
    assert kind in KINDS
    path = module(tmp_path, varied_module(250))
    pipeline = f"unfuse,expand,inline,planted{{kind={kind},at=6}},default"
    done = hlotool("bisect", "rewrites", path, "-p", pipeline, "--format", "json", env=planted)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    (decision,) = answer["rewrite"]["decisions"]
    assert (answer["pass"]["name"], answer["rewrite"]["first"], decision["reason"]) == ("planted", 6, WRONG)


def test_the_examples_of_the_help_run(hlotool: Run, tmp_path: Path) -> None:
    from hlotool.cli.bisect_command import command

    examples = [line.split() for line in (command.help or "").splitlines() if line.strip().startswith("hlotool bisect")]
    assert len(examples) >= 4
    (tmp_path / "step.hlo").write_text(SMALL)
    check = tmp_path / "my-check"
    check.write_text("#!/bin/sh\nexit 0\n")
    check.chmod(0o755)
    for words in examples:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        done = hlotool(*shlex.split(" ".join(words))[1:], env={"PATH": path})
        assert done.returncode == 1, done.stderr
        assert "no-failure" in done.stdout


