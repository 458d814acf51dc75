"""``hlotool check``: directives, structural ones, commands, updates, reports, and the plug-in of pytest."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import environment
from json_schemas import check_json

from hlotool.checks.directives import directives_in
from hlotool.checks.match import match_text
from hlotool.checks.patterns import MatchOptions
from hlotool.checks.shell import CommandError, commands_of

MODULE = """HloModule m

ENTRY e {
  p = f32[4]{0} parameter(0)
  a = f32[4]{0} add(p, p)
  b = f32[4]{0} add(p, p)
  ROOT r = f32[4]{0} multiply(a, b)
}
"""
OTHER = "// RUN: hlotool opt %s | hlotool check %s --check-prefix=A\n"
HEAD = "// Equal sums are one.\n// RUN: hlotool opt %s -p cse\n"


def matched(checks: str, text: str, **options) -> str:
    """What is wrong, or nothing."""
    chosen = MatchOptions(**options)
    directives, wrong = directives_in(checks, 1, chosen)
    if wrong:
        return f"{wrong[0].line}:{wrong[0].column}: {wrong[0].message}"
    problem = match_text(directives, text, chosen)
    return f"{problem.line}: {problem.message}" if problem else ""


# ---- directives: whether FileCheck's documentation lets these pass

TEXT = "first a\nsecond b\n\nthird c d\nfourth {{x}} [[y]]\n"
HOLD = [
    "CHECK: first", "CHECK: third   c", "CHECK: first\n// CHECK-NEXT: second\n// CHECK-EMPTY:\n// CHECK-NEXT: third",
    "CHECK: third\n// CHECK-SAME: d", "CHECK: {{f.*}} a", "CHECK: first [[X:.]]\n// CHECK: [[X:b]]",
    "CHECK: first\n// CHECK-NOT: third\n// CHECK: second", "CHECK-DAG: third\n// CHECK-DAG: first",
    "CHECK-LABEL: second\n// CHECK: third", "CHECK-NOT: fifth", "CHECK{LITERAL}: {{x}} [[y]]",
    "CHECK-COUNT-2: th",
    "CHECK is a word of prose", "CHECK: second\n// CHECK-NOT: first",
]  # fmt: skip
DO_NOT = [
    ("CHECK: fifth", "1: CHECK: expected this in lines 1 to 5 of the output"),
    ("CHECK: second\n// CHECK: first", "2: CHECK: expected this"),
    ("CHECK: first\n// CHECK-NEXT: third", "2: CHECK-NEXT: what matches is not on the next line, but in line 4"),
    ("CHECK: first\n// CHECK-SAME: b", "2: CHECK-SAME: what matches is not on the same line, but in line 2"),
    ("CHECK: first\n// CHECK-EMPTY:", "2: CHECK-EMPTY: line 2 of the output is not empty"),
    ("CHECK: first\n// CHECK-NOT: second\n// CHECK: third", "2: CHECK-NOT: this is in line 2"),
    ("CHECK-NOT: fourth", "1: CHECK-NOT: this is in line 5"),
    ("CHECK-DAG: first\n// CHECK-DAG: first", "2: CHECK-DAG: expected this"),
    ("CHECK-LABEL: third\n// CHECK: second", "2: CHECK: expected this in lines 4 to 5"),
    ("CHECK-COUNT-9: th", "1: CHECK-COUNT-9: found"),
    ("CHECK: first [[X:.]]\n// CHECK: second [[X]]", "2: CHECK: expected this"),
    ("CHECK: [[X]]", "1: CHECK: no [[X:...]] has matched before"),
]
SAY_NOTHING = [
    ("CHECK-NXT: a", "1:4: there is no directive CHECK-NXT; did you mean CHECK-NEXT?"),
    ("CHECK: {{a", "1:11: '{{' begins a regular expression that no '}}' ends"),
    ("CHECK: {{(}}", "this is no regular expression"), ("CHECK: [[1]]", "expected the name of a variable"),
    ("CHECK: [[#N:]]", "numeric variables"), ("CHECK:", "there is nothing to match"),
    ("CHECK-NEXT: a", "CHECK-NEXT has no directive before it"), ("CHECK-EMPTY: a", "takes no pattern"),
    ("CHECK-COUNT-0: a", "matches nothing"), ("CHECK-LABEL: [[X:a]]", "takes no variables"),
]  # fmt: skip


@pytest.mark.parametrize("checks", HOLD)
def test_directives_hold(checks: str) -> None:
    assert matched(f"// {checks}", TEXT) == ""


@pytest.mark.parametrize(("checks", "message"), DO_NOT)
def test_directives_do_not_hold(checks: str, message: str) -> None:
    assert matched(f"// {checks}", TEXT).startswith(message)


@pytest.mark.parametrize(("checks", "message"), SAY_NOTHING)
def test_directives_that_say_nothing(checks: str, message: str) -> None:
    assert message in matched(f"// {checks}", TEXT)


def test_brackets_of_shapes_stand_beside_variables() -> None:
    text = "a = f32[8,4] add(x)\nb = f32[8,4] add(y)\n"
    assert matched("// CHECK: f32[[[N:[0-9]+]],4]\n// CHECK: f32[[[N]],4]", text) == ""
    assert matched("// CHECK: f32[[[N:[0-9]+]],4]\n// CHECK: f32[4,[[N]]]", text) != ""


def test_options_of_filecheck() -> None:
    assert matched("// A: first a", TEXT, prefixes=("A",), match_full_lines=True) == ""
    assert matched("// A: first", TEXT, prefixes=("A",), match_full_lines=True) != ""
    assert matched("// CHECK: FIRST", TEXT, ignore_case=True) == ""
    assert matched("// CHECK: first  a", TEXT, strict_whitespace=True) != ""
    assert matched("// CHECK: first", TEXT, implicit_check_not=("third",)) != ""
    assert matched("// CHECK-NOT: a", "") != ""
    assert matched("// CHECK-NOT: a", "", allow_empty=True) == ""


# ---- commands

NAMES = {"%s": "a b.hlo", "%S": "/x", "%t": "a b.hlo.tmp"}


def test_run_lines_are_pipes() -> None:
    first, second = commands_of("not hlotool opt %s -p 'cse,dce' 2>&1 | FileCheck %s --check-prefix=A", NAMES)
    assert first.words == ("opt", "a b.hlo", "-p", "cse,dce")
    assert (first.negated, first.joined, second.is_match) == (True, True, True)
    (only,) = commands_of("hlotool query 'opcode == dot and bytes > 1' %t.npz %%s %tuple < %S/x > %t", NAMES)
    assert only.words[1:] == ("opcode == dot and bytes > 1", "a b.hlo.tmp.npz", "%s", "%tuple")
    assert (only.reads, only.writes) == ("/x/x", "a b.hlo.tmp")


@pytest.mark.parametrize("line", ["rm -rf x", "hlotool opt %s && rm x", "hlotool opt %s; rm x", "hlotool opt 'x", "",
                                  "hlotool check %s", "hlotool opt %s >", "hlotool opt %s | cat"])  # fmt: skip
def test_run_lines_run_nothing_else(line: str) -> None:
    with pytest.raises(CommandError):
        commands_of(line, NAMES)


# ---- the command


def test_main_use(hlotool, tmp_path: Path) -> None:
    (tmp_path / "cse.hlo").write_text(
        HEAD + "// CHECK: [[A:a.*]] = f32[4]{0} add(p, p)\n// CHECK-NEXT: multiply([[A]], [[A]])\n"
        "// CHECK-NOT: add\n// CHECK-COUNT add 1\n// CHECK-COUNT opcode == add or opcode == multiply <= 2\n"
        "// CHECK-PEAK <= 4KiB\n// CHECK-KERNEL >= 1\n// CHECK-KERNEL dot 0\n// CHECK-EQUAL evaluate\n\n" + MODULE
    )
    done = hlotool("check", "cse.hlo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 passed\n", "")


def test_failures_say_where_and_how(hlotool, tmp_path: Path) -> None:
    (tmp_path / "cse.hlo").write_text(HEAD + "// CHECK: multiply(a, c)\n// CHECK-COUNT add 2\n\n" + MODULE)
    done = hlotool("check", "cse.hlo")
    assert done.returncode == 1
    assert "cse.hlo:3:1: failed: CHECK: expected this in lines 1 to 7 of the output" in done.stdout
    assert "output:6:   ROOT r = f32[4]{0} multiply(a, a)" in done.stdout
    assert "cse.hlo:4:1: failed: CHECK-COUNT: found 1" in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed\n")


def test_wrong_values_are_found(hlotool, tmp_path: Path) -> None:
    """A pipeline that may drop roundings does not compute what the module means."""
    body = "  p = f32[64] parameter(0)\n  q = bf16[64] convert(p)\n  ROOT r = f32[64] convert(q)\n"
    head = "// RUN: hlotool opt %s -p simplify-fp-conversions\n// CHECK-EQUAL evaluate\n"
    (tmp_path / "a.hlo").write_text(f"{head}\nHloModule m\n\nENTRY e {{\n{body}}}\n")
    done = hlotool("check", "a.hlo")
    assert done.returncode == 1
    assert "CHECK-EQUAL: the code does not compute what the module means" in done.stdout
    assert "out0: MISMATCH" in done.stdout
    before = (tmp_path / "a.hlo").read_text()
    assert hlotool("check", "a.hlo", "--update").returncode == 1
    assert (tmp_path / "a.hlo").read_text() == before


INVALID = {
    "no checks": MODULE,
    "typo": HEAD + "// CHECK-NXT: a\n\n" + MODULE,
    "unused prefix": f"{OTHER}// A: add\n// CHECK: add\n\n{MODULE}",
    "no directives": f"{OTHER}\n{MODULE}",
    "another program": "// RUN: cat %s\n\n" + MODULE,
    "no opcode": HEAD + "// CHECK-COUNT addd 1\n\n" + MODULE,
    "no limit": HEAD + "// CHECK-PEAK small\n\n" + MODULE,
    "equal to what": HEAD + "// CHECK-EQUAL xla\n\n" + MODULE,
}


def test_exit_codes(hlotool, tmp_path: Path) -> None:
    for name, text in INVALID.items():
        (tmp_path / f"{name}.hlo").write_text(text)
    done = check_json(hlotool("check", *(f"{name}.hlo" for name in INVALID), "--format", "json").stdout)
    assert [one["name"] for one in done["checks"] if one["verdict"] != "invalid"] == []
    for name in INVALID:
        (tmp_path / f"{name}.hlo").unlink()
    assert hlotool("check", "absent.hlo").returncode == 3
    assert hlotool("check", ".").returncode == 3
    assert hlotool("check", "-").returncode == 2
    assert hlotool("check", ".", "--check-prefix", "a b").returncode == 2
    unknown = MODULE.replace("multiply(a, b)", 'custom-call(a), custom_call_target="x"')
    (tmp_path / "u.hlo").write_text(f"// RUN: hlotool compile %s\n\n{unknown}")
    assert hlotool("check", "u.hlo").returncode == 4
    (tmp_path / "u.hlo").write_text(f"// RUN: not hlotool compile %s\n\n{unknown}")
    assert hlotool("check", "u.hlo").returncode == 0


def test_pipes(hlotool, tmp_path: Path) -> None:
    (tmp_path / "x.hlo").write_text("// CHECK: add\n// CHECK-NEXT: multiply\n")
    assert hlotool("check", "x.hlo", "--input", "-", stdin="add\nmultiply\n").returncode == 0
    done = hlotool("check", "x.hlo", "--input", "-", stdin="add\n\nmultiply\n")
    assert done.returncode == 1
    assert "x.hlo:2:1: failed: CHECK-NEXT" in done.stdout
    assert hlotool("check", "x.hlo", "--input", "absent").returncode == 3


def test_update(hlotool, tmp_path: Path) -> None:
    file = tmp_path / "a.hlo"
    file.write_text(
        f"{HEAD}\n// The one.\n// CHECK: what was\n// CHECK-NEXT: before\n// CHECK-COUNT add 7\n// CHECK-PEAK <= 1KB\n"
        f"{MODULE}// OUTPUT:\n// old\n\n// -----\n\n// The other.\n// CHECK-COUNT multiply 1\n{MODULE}"
    )
    done = hlotool("check", "a.hlo", "--update")
    assert (done.returncode, done.stderr) == (0, "a.hlo: updated\n"), done.stdout
    text = file.read_text()
    assert "// CHECK: HloModule m\n// CHECK-EMPTY:\n// CHECK-NEXT: ENTRY e {\n" in text
    assert "// CHECK-COUNT add 1\n// CHECK-PEAK <= 1KB\n" in text
    assert "//   ROOT r = f32[4]{0} multiply(a, a)\n// }\n\n// -----\n" in text
    assert text.count(MODULE) == 2
    done = hlotool("check", "a.hlo", "--update", "-v")
    assert done.stdout == "passed: a.hlo#1-the-one\npassed: a.hlo#2-the-other\n2 passed\n"
    assert file.read_text() == text


def test_folders_processes_and_reports(hlotool, tmp_path: Path) -> None:
    for number in range(6):
        count = 2 if number == 3 else 1
        (tmp_path / f"{number}.hlo").write_text(f"{HEAD}// CHECK-COUNT add {count}\n\n{MODULE}")
    (tmp_path / "none.hlo").write_text(MODULE)
    one, two = (hlotool("check", ".", "-j", jobs, "--junit", f"{jobs}.xml") for jobs in (1, 2))
    assert one.stdout == two.stdout
    assert one.stdout.endswith("5 passed, 1 failed, 1 file without checks\n")
    for name in ("1.xml", "2.xml"):
        suite = ElementTree.parse(tmp_path / name).getroot()[0]
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "1", "0")
        assert [case.get("name") for case in suite if len(case)] == ["3.hlo"]
    github = hlotool("check", ".", "--format", "github")
    assert github.stdout.startswith("::error file=3.hlo,line=3,endLine=3,col=1,endColumn=1,title=")
    assert len(github.stdout.splitlines()) == 1


def test_snapshots(hlotool, tmp_path: Path) -> None:
    file = tmp_path / "a.hlo"
    file.write_text(MODULE)
    assert hlotool("check", "a.hlo", "--snapshot", "golden").returncode == 1
    assert hlotool("check", "a.hlo", "--snapshot", "golden", "--update").returncode == 0
    file.write_text(MODULE.replace("a =", "other =").replace("(a,", "(other,"))
    assert hlotool("check", "a.hlo", "--snapshot", "golden").returncode == 0
    file.write_text(MODULE.replace("multiply", "subtract"))
    done = hlotool("check", "a.hlo", "--snapshot", "golden")
    assert done.returncode == 1
    assert "not the snapshot golden/a.txt" in done.stdout


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(HEAD + "// CHECK: none\n\n" + MODULE)
    child = subprocess.Popen([sys.executable, "-m", "hlotool", "check", "a.hlo"], stdout=subprocess.PIPE,
                             cwd=tmp_path, env=environment())  # fmt: skip
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait() in (0, 1)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_keeps_what_was_done(tmp_path: Path, jobs: str) -> None:
    (tmp_path / "a.hlo").write_text(f"{HEAD}// CHECK-COUNT add 2\n\n{MODULE}")
    endless = (
        "HloModule m\n\nc {\n  s = s32[] parameter(0)\n  z = s32[] constant(-1)\n  ROOT r = pred[] compare(s, z), "
        "direction=GT\n}\n\nb {\n  s = s32[] parameter(0)\n  ROOT r = s32[] abs(s)\n}\n\n"
        "ENTRY e {\n  p = s32[] parameter(0)\n  ROOT w = s32[] while(p), condition=c, body=b\n}\n"
    )
    (tmp_path / "b.hlo").write_text(f"// RUN: hlotool run %s --backend evaluate\n\n{endless}")
    command = [sys.executable, "-m", "hlotool", "check", "a.hlo", "b.hlo", "-j", jobs, "--junit", "out.xml"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                             env=environment(PYTHONUNBUFFERED="1"))  # fmt: skip
    assert child.stdout is not None
    assert "a.hlo:3:1: failed" in child.stdout.readline()
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, messages = child.communicate()
    assert child.returncode == 130, messages
    assert "interrupted after: 0 passed, 1 failed" in messages
    assert ElementTree.parse(tmp_path / "out.xml").getroot()[0].get("tests") == "1"


# ---- pytest


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "hlotool.pytest_plugin", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment(), check=False)


def test_pytest_collects_checks_when_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(f"{HEAD}// CHECK-COUNT add 1\n\n{MODULE}")
    (tmp_path / "b.hlo").write_text(f"{HEAD}// CHECK-COUNT add 2\n\n{MODULE}")
    (tmp_path / "c.hlo").write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert "no tests ran" in run_pytest(tmp_path).stdout
    done = run_pytest(tmp_path, "--hlotool-check")
    assert "1 failed, 1 passed" in done.stdout
    assert "b.hlo:3:1: failed: CHECK-COUNT: found 1" in done.stdout
    (tmp_path / "pytest.ini").write_text("[pytest]\nhlotool_check = a*.hlo\n")
    assert "1 passed" in run_pytest(tmp_path).stdout
    assert "2 passed" in run_pytest(tmp_path, "--hlotool-check", "--hlotool-update").stdout
    assert "CHECK-COUNT add 1" in (tmp_path / "b.hlo").read_text()


def test_the_snapshot_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(f"TEXT = {MODULE!r}\n\ndef test_it(hlo_snapshot):\n    hlo_snapshot(TEXT)\n")
    assert run_pytest(tmp_path).returncode == 1
    assert run_pytest(tmp_path, "--hlotool-update").returncode == 0
    assert run_pytest(tmp_path).returncode == 0
    assert (tmp_path / "__snapshots__" / "test_x" / "test_it.txt").is_file()
