"""hlotool reduce: modules cut down to what a failure needs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import planted_crashes
import pytest
from conftest import Install, Run, environment
from json_schemas import check_json
from planted_rewrites import varied_module
from survey_bisect import installed

from hlotool.harness.children import Children
from hlotool.harness.failure import GOOD, Failure, Outcome, bad
from hlotool.harness.reduce import find_failure, reduce_text
from hlotool.harness.reduce.narrow import plainer_options
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

WRONG_PASS = '''
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True, slots=True)
class Wrong:
    """Takes a difference with a product for a sum."""

    name: ClassVar[str] = "wrong-difference"
    sure: bool = True

    def run(self, module, log):
        from hlotool.passes.framework.graph import made_from, replace_with
        changed = False
        for instruction in list(module.instructions()):
            if instruction.opcode == "subtract" and instruction.operands[1].opcode == "multiply":
                new = made_from(instruction, "add", instruction.shape, instruction.operands)
                instruction.parent.add(new, before=instruction)
                replace_with(instruction, new)
                changed = True
        return changed
'''
CHAIN = "\n".join(
    f"  v{n} = f32[6,10] {op}(v{n - 1}, v{max(n - 3, 0)}), metadata={{op_name=\"chain/{n}\"}}"
    for n, op in ((n, ("add", "maximum", "multiply", "minimum", "add")[n % 5]) for n in range(1, 60))
)
MODULE = f"""HloModule m, entry_computation_layout={{(f32[6,10]{{1,0}})->(f32[6,10]{{1,0}}, f32[6,10]{{1,0}})}}

ENTRY e {{
  v0 = f32[6,10] parameter(0)
{CHAIN}
  d = f32[6,10] subtract(v4, v52)
  l = f32[6,10] logistic(d)
  ROOT r = (f32[6,10], f32[6,10]) tuple(v59, l)
}}
"""


def instructions(text: str) -> int:
    module = parse(text)
    check(module)
    return module.instruction_count()


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, str | None]:
    return dict(planted_crashes.install(tmp_path / "packages"))


# ---- main use


def test_a_crash(hlotool: Run, tmp_path: Path, planted: dict[str, str | None]) -> None:
    (tmp_path / "m.hlo").write_text(planted_crashes.module_with("crash-assertion", 500))
    passes = "tuple-simplifier,crash-assertion,dce"
    done = hlotool("reduce", "m.hlo", "-p", passes, "-o", "small.hlo", env=planted)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "pass crash-assertion fails: AssertionError" in done.stderr
    text = (tmp_path / "small.hlo").read_text()
    assert instructions(text) <= 5
    assert "// pipeline: crash-assertion\n" in text
    assert "// to see it: hlotool repro --no-check small.hlo\n" in text
    again = hlotool("repro", "--no-check", "small.hlo", env=planted)
    assert again.returncode == 70
    assert "AssertionError" in again.stderr


def test_wrong_numbers_of_a_plugin(hlotool: Run, tmp_path: Path, install: Install) -> None:
    env = install("wrong", WRONG_PASS, "hlotool.passes", **{"wrong-difference": "Wrong"})
    (tmp_path / "m.hlo").write_text(MODULE)
    passes = "simplify,wrong-difference{sure=false},dce"
    done = hlotool("reduce", "-", "-p", passes, "--format", "json", "--backend", "evaluate", stdin=MODULE, env=env)
    assert done.returncode == 0, done.stderr
    answer = check_json(done.stdout)
    assert answer["failure"]["kind"] == "mismatch"
    assert answer["passes"] == "wrong-difference"
    assert answer["instructions"] == {"before": 63, "after": instructions(answer["module"])}
    assert answer["instructions"]["after"] <= 4
    assert "metadata" not in answer["module"]
    (tmp_path / "small.hlo").write_text(answer["module"])
    assert hlotool("repro", "small.hlo", env=env).returncode == 1


def test_a_command(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    asked = "grep -q logistic {} && { echo 'error 7: no logistic'; exit 9; } || exit 0"
    done = hlotool("reduce", "m.hlo", "--cmd", asked, "--code", "9", "--message", "error [0-9]+", "-j", "1")
    assert done.returncode == 0, done.stderr
    assert instructions(done.stdout) == 2
    assert "63 -> 2 instructions" in done.stderr
    other = hlotool("reduce", "m.hlo", "--cmd", asked, "--message", "warning")
    assert (other.returncode, other.stdout) == (1, "")
    assert "UNDECIDED" in other.stderr


def test_files_that_carry_passes(hlotool: Run, tmp_path: Path, planted: dict[str, str | None]) -> None:
    text = "// pipeline: crash-missing-key\n" + planted_crashes.module_with("crash-missing-key", 30)
    done = hlotool("reduce", "-", "-j", "1", "--executor", "inline", stdin=text, env=planted)
    assert done.returncode == 0, done.stderr
    assert instructions(done.stdout) == 3


# ---- crash reproducers


@pytest.mark.parametrize("strict", ["0", "1"])
def test_crash_reproducers_are_reduced(
    strict: str, hlotool: Run, tmp_path: Path, planted: dict[str, str | None]
) -> None:
    (tmp_path / "m.hlo").write_text(planted_crashes.module_with("crash-missing-key", 300))
    env = {**planted, "HLOTOOL_STRICT": strict, "TMPDIR": str(tmp_path), "HLOTOOL_REDUCE": "1000"}
    done = hlotool("opt", "m.hlo", "-p", "crash-missing-key,dce", env=env)
    assert done.returncode == (70 if strict == "1" else 0)
    assert "3 of its 321 instructions do" in done.stderr
    (whole,) = tmp_path.glob("hlotool-repro-*[!d].hlo")
    (reduced,) = tmp_path.glob("hlotool-repro-*-reduced.hlo")
    assert (instructions(whole.read_text()), instructions(reduced.read_text())) == (321, 3)
    assert reduced.name == f"{whole.stem}-reduced.hlo"
    assert hlotool("repro", "--no-check", reduced, env={**env, "HLOTOOL_REDUCE": "off"}).returncode == 70


def test_reproducers_need_not_be_reduced(hlotool: Run, tmp_path: Path, planted: dict[str, str | None]) -> None:
    (tmp_path / "m.hlo").write_text(planted_crashes.module_with("crash-missing-key", 30))
    done = hlotool("opt", "m.hlo", "-p", "crash-missing-key", env={**planted, "HLOTOOL_REDUCE": "off"})
    assert done.returncode == 70
    assert "instructions do" not in done.stderr
    assert not list(tmp_path.glob("*-reduced.hlo"))


def test_reproducers_of_wrong_numbers_are_reduced(hlotool: Run, tmp_path: Path, install: Install) -> None:
    env = {**install("wrong", WRONG_PASS, "hlotool.passes", **{"wrong-difference": "Wrong"}), "HLOTOOL_REDUCE": "1000"}
    (tmp_path / "m.hlo").write_text(MODULE)
    done = hlotool("opt", "m.hlo", "-p", "dce,wrong-difference", "--check-each", "evaluate", env=env)
    assert done.returncode == 1
    reduced = tmp_path / "hlotool-repro-wrong-difference-reduced.hlo"
    assert instructions(reduced.read_text()) <= 4
    assert hlotool("repro", reduced.name, env=env).returncode == 1


# ---- exit codes


def test_nothing_to_reduce(hlotool: Run) -> None:
    done = hlotool("reduce", "-", "--format", "json", stdin=MODULE)
    assert done.returncode == 1
    assert check_json(done.stdout)["verdict"] == "no failure"
    done = hlotool("reduce", "-", "--cmd", "exit 125", stdin=MODULE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "UNDECIDED" in done.stderr


def test_files_are_not_written_over(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    (tmp_path / "out.hlo").write_text("mine")
    refused = hlotool("reduce", "m.hlo", "-o", "out.hlo", "--cmd", "false")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert (tmp_path / "out.hlo").read_text() == "mine"
    assert hlotool("reduce", "m.hlo", "-o", "out.hlo", "--cmd", "false", "--force").returncode == 0
    assert instructions((tmp_path / "out.hlo").read_text()) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--code", "3"), 2),
        (("--cmd", "false", "-p", "dce"), 2),
        (("--cmd", "false", "--message", "("), 2),
        (("-p", "nothing"), 2),
        (("--backend", "nothing"), 2),
        (("--cmd", "exit 200"), 5),
        (("--cmd", "echo x >> seen; test $(wc -l < seen) -gt 1"), 5),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, hlotool: Run) -> None:
    done = hlotool("reduce", "-", "-j", "1", *arguments, stdin="HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr


def test_bad_input(hlotool: Run) -> None:
    assert hlotool("reduce", "-", stdin="HloModule m\nENTRY e {").returncode == 3
    assert hlotool("reduce", "nowhere.hlo").returncode == 3


def test_interrupt_keeps_the_best_so_far(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    slow = "echo x >> seen; test $(wc -l < seen) -gt 8 && sleep 1000; ! grep -q logistic {}"
    process = subprocess.Popen(
        [sys.executable, "-m", "hlotool", "reduce", "m.hlo", "-o", "out.hlo", "-j", "1", "--cmd", slow],
        cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = tmp_path / "seen"
    while process.poll() is None and not (seen.exists() and seen.read_text().count("x") > 8):
        pass
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert instructions((tmp_path / "out.hlo").read_text()) < 63


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m hlotool reduce m.hlo --cmd false | true"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# ---- the search


def test_the_result_is_the_same_at_any_width() -> None:
    found = None
    results = set()
    for width in (1, 3):
        with Children(width) as children:
            trial = CommandTrial(command="! (grep -q logistic {} && grep -q multiply {})")
            found = find_failure(MODULE, [trial], children)
            results.add(reduce_text(MODULE, found, children, width=width).text)
    assert len(results) == 1
    assert instructions(results.pop()) <= 4


def test_the_time_may_be_over_at_once() -> None:
    trial = CommandTrial(command="false")
    with Children(1) as children:
        found = find_failure(MODULE, [trial], children)
        reduction = reduce_text(MODULE, found, children, seconds=0.0)
    assert (reduction.stopped, reduction.text) == ("time", MODULE)


LOOP = """HloModule m

limit {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[4], f32[4]) parameter(0)
  j = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  k = s32[] add(j, one)
  x = f32[4] get-tuple-element(t), index=1
  y = f32[4] get-tuple-element(t), index=2
  z = f32[4] sine(x)
  w = f32[4] cosine(y)
  v = f32[4] add(z, w)
  ROOT u = (s32[], f32[4], f32[4]) tuple(k, v, w)
}

ENTRY e {
  p = f32[4] parameter(0)
  zero = s32[] constant(0)
  st = (s32[], f32[4], f32[4]) tuple(zero, p, p)
  loop = (s32[], f32[4], f32[4]) while(st), condition=limit, body=body
  a = f32[4] get-tuple-element(loop), index=1
  ROOT b = f32[4] negate(a)
}
"""


@pytest.mark.parametrize(
    ("needed", "most"),
    [
        (("sine(",), 2),  # the body is a module of its own
        (("while(", "sine("), 13),  # in the loop only
        (("while(", "constant(1)"), 13),
        (("compare(",), 3),
    ],
)
def test_loops(needed: tuple[str, ...], most: int) -> None:
    trial = CommandTrial(command="! (" + " && ".join(f"grep -qF '{word}' {{}}" for word in needed) + ")")
    with Children(1) as children:
        reduction = reduce_text(LOOP, find_failure(LOOP, [trial], children), children)
    assert all(word in reduction.text for word in needed)
    assert instructions(reduction.text) <= most, reduction.text


def test_sizes_and_types_become_plain() -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  a = f64[512,384] parameter(0)\n  b = f64[384,96] parameter(1)\n"
        "  c = f64[512,96] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  r = f64[49152] reshape(c)\n  s = f64[100] slice(r), slice={[7:107]}\n"
        "  ROOT t = f64[200] concatenate(s, s), dimensions={0}\n}\n"
    )
    for word, shape in (("dot", "f32[1,1]"), ("concatenate", "f32[2]")):
        trial = CommandTrial(command=f"! grep -q {word} {{}}")
        with Children(1) as children:
            reduction = reduce_text(text, find_failure(text, [trial], children), children)
        assert f"{shape} {word}(" in reduction.text.replace("{0}", "").replace("{1,0}", ""), reduction.text


def test_options_are_left_out_one_by_one() -> None:
    def attempt(trial: Any, text: str) -> Outcome:
        assert text == MODULE
        kept = "max-work=9" in trial.pipeline and "dce" in trial.pipeline
        return bad(Failure(kind="mismatch")) if kept else GOOD

    whole = PipelineTrial(pipeline="constant-folding{max-elements=8,max-work=9},dce")
    plain = plainer_options(whole, MODULE, attempt)
    assert plain.pipeline == "constant-folding{max-work=9},dce"
    assert plainer_options(plain, MODULE, attempt) is plain


def test_a_pass_that_counts_need_not_count_to_the_same(hlotool: Run, tmp_path: Path) -> None:
    """The sixth pad is wrong: of the module in which the first may be as well, one is left."""
    (tmp_path / "m.hlo").write_text(varied_module(175))
    passes = ("-p", "dce,planted{kind=shifted-pad,at=6},dce")
    env = installed(tmp_path / "packages")
    done = hlotool("reduce", "m.hlo", *passes, "-o", "small.hlo", "--format", "json", env=env)
    answer = check_json(done.stdout)
    assert answer["passes"].startswith("planted")
    assert "at=" not in answer["passes"]
    assert answer["instructions"]["after"] <= 5
