"""The contract of the command line, through real processes."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from conftest import ROOT, Run, environment

from hlotool.cli import COMMANDS, cli
from hlotool.cli.errors import EXIT_CODES
from hlotool.codegen.machine import named
from hlotool.driver import compile_module
from hlotool.ir import UnsupportedError
from hlotool.text.parser import parse

SAMPLES = ROOT / "samples"
MEAN = SAMPLES / "mean.hlo"
SMALL = """HloModule small

ENTRY main {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} parameter(1)
  ROOT sum = f32[4]{0} add(x, y)
}
"""
BAD_OPCODE = SMALL.replace("add(", "ad(")
BAD_SHAPE = SMALL.replace("ROOT sum = f32[4]", "ROOT sum = f32[5]")
@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.hlo"
    path.write_text(SMALL)
    return path


# ---- messages and exit codes


def test_help_lists_every_command(hlotool: Run) -> None:
    done = hlotool("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_of_every_command_has_help(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help
    silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert not silent


def test_version_names_what_matters_in_a_bug_report(hlotool: Run) -> None:
    done = hlotool("--version")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("hlotool ", "numpy ", "llvmlite ", "processor "))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["rnu"], 2, "Did you mean 'run'?"),
        (["run"], 2, "Missing argument 'FILE'"),
        (["run", "small.hlo", "--thread", "2"], 2, "--threads"),
        (["run", "small.hlo", "--backend", "gpu"], 2, "cpu, evaluate"),
        (["run", "small.hlo", "--atol", "nan"], 2, "not a number"),
        (["run", "small.hlo", "--input", "z=1"], 2, "the parameters are x, y"),
        (["run", "small.hlo", "--input", "x=1"], 2, "no value for y"),
        (["opt", "small.hlo", "-p", "simplfy"], 2, "did you mean simplify"),
        (["passes", "fuson"], 2, "Did you mean 'fusion'?"),
        (["emit", "small.hlo", "--cpu", "z80"], 2, "x86-64-v3"),
        (["compile", "small.hlo", "--emit", "object"], 2, "-o FILE"),
        (["compile", "small.hlo", "--dump-to", "d", "--dump-format", "png"], 2, "text, diff, html"),
        (["compile", "small.hlo", "--dump-to", "d", "--dump-filter", "("], 2, "--dump-filter"),
        (["run", "small.hlo", "--inputs", "absent.npz"], 3, "cannot read absent.npz"),
        (["run", "small.hlo", "--inputs", "small.hlo"], 3, "small.hlo: neither an archive"),
        (["run", "small.hlo", "--input", "x=@absent.npy", "--random", "1"], 3, "parameter 0 (x): cannot read"),
        (["run", "small.hlo", "--input", "y=1,2", "--random", "1"], 3, "parameter 1 (y): 2 numbers for the 4"),
        (["run", "small.hlo", "--input", "y=one", "--random", "1"], 3, "parameter 1 (y): 'one'"),
        (["run", "small.hlo", "-o", "no/such/folder.npz"], 5, "cannot write no/such/folder.npz"),
    ],
)
def test_mistakes(hlotool: Run, small: Path, arguments: list[str], code: int, message: str) -> None:
    done = hlotool(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["compile", "emit", "opt", "run", "verify"])
@pytest.mark.parametrize(("text", "place"), [(BAD_OPCODE, ":6:24: error"), (BAD_SHAPE, ":6:")])
def test_invalid_modules_are_shown_with_a_caret(
    hlotool: Run, tmp_path: Path, command: str, text: str, place: str
) -> None:
    (tmp_path / "bad.hlo").write_text(text)
    done = hlotool(command, "bad.hlo")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"bad.hlo{place}" in done.stderr
    lines = done.stderr.splitlines()
    assert any("ROOT sum" in line and set(below.strip()) == {"^"} for line, below in pairwise(lines))


def test_invalid_standard_input_is_shown_with_a_caret(hlotool: Run) -> None:
    done = hlotool("verify", "-", stdin=BAD_OPCODE)
    assert done.returncode == 3
    assert "<stdin>:6:24: error" in done.stderr
    assert "^^" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"), [("HLOTOOL_THREADS", "many"), ("HLOTOOL_THREADS", "0"), ("HLOTOOL_KEEP", "-1")]
)
def test_wrong_environment(hlotool: Run, small: Path, variable: str, value: str) -> None:
    done = hlotool("run", small, env={variable: value})
    assert done.returncode == 2
    assert f"{variable}={value}" in done.stderr


def test_internal_errors_leave_a_report_and_no_traceback(tmp_path: Path) -> None:
    program = (
        "import hlotool, sys\nfrom hlotool.cli.errors import run_safely\nfrom hlotool.cli.session import Session\n"
        "sys.exit(run_safely(lambda: 1 // 0, hlotool, Session()))"
    )
    env = environment(TMPDIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    reports = list(tmp_path.glob("hlotool-*.txt"))
    assert [str(r) in done.stderr for r in reports] == [True]
    assert "ZeroDivisionError" in reports[0].read_text()


def test_exit_codes_are_documented() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"{code} " in readme for code in EXIT_CODES)


# ---- run


def test_run_saves_and_compares(hlotool: Run, small: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", arg0=np.arange(4, dtype=np.float32), arg1=np.full(4, 2, np.float32))
    done = hlotool("run", small, "--inputs", "in.npz", "-o", "out.npz")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_array_equal(archive["out0"], [2, 3, 4, 5])
    first = (tmp_path / "out.npz").read_bytes()
    assert hlotool("run", small, "--inputs", "in.npz", "-o", "out.npz").returncode == 0
    assert (tmp_path / "out.npz").read_bytes() == first
    same = hlotool("run", small, "--input", "x=iota", "--input", "1=2", "--compare", "out.npz")
    assert (same.returncode, same.stdout.splitlines()[-1].startswith("out0: ok")) == (0, True)
    other = hlotool("run", small, "--input", "x=iota", "--input", "y=3", "--compare", "out.npz")
    assert other.returncode == 1
    assert "MISMATCH: 4 of 4 elements differ" in other.stderr
    near = hlotool("run", small, "--input", "x=iota", "--input", "y=3", "--compare", "out.npz", "--atol", "1")
    assert near.returncode == 0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"arg0": np.zeros(4, "f4")}, "no array arg1"),
        ({"arg0": np.zeros(4, "f4"), "arg1": np.zeros(5, "f4")}, "parameter 1 (y): expected f32[4]"),
        ({"arg0": np.zeros(4, "f8"), "arg1": np.zeros(4, "f4")}, "parameter 0 (x): expected f32[4], got float64"),
        ({f"arg{n}": np.zeros(4, "f4") for n in range(3)}, "arg2 is one too many"),
        ({"arg0": np.array(["a"] * 4), "arg1": np.zeros(4, "f4")}, "parameter 0 (x)"),
        ({"arg0": np.array([None] * 4), "arg1": np.zeros(4, "f4")}, "arg0"),
    ],
)
@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_wrong_inputs_name_the_parameter(
    hlotool: Run, small: Path, tmp_path: Path, backend: str, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    done = hlotool("run", small, "--inputs", "in.npz", "--backend", backend)
    assert done.returncode == 3
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_types_that_numpy_lacks_are_stored_as_bits(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(SMALL.replace("f32", "bf16"))
    np.savez(tmp_path / "in.npz", arg0=np.full(4, 0x3F80, "u2"), arg1=np.full(4, 0x4000, "u2"))
    assert hlotool("run", "m.hlo", "--inputs", "in.npz", "-o", "out.npz").returncode == 0
    with np.load(tmp_path / "out.npz") as archive:
        np.testing.assert_array_equal(archive["out0"], np.full(4, 0x4040, "u2"))
    assert hlotool("run", "m.hlo", "--inputs", "in.npz", "--compare", "out.npz").returncode == 0


def test_diagnostics_as_json(hlotool: Run) -> None:
    done = hlotool("verify", "-", "--format", "json", stdin=BAD_OPCODE)
    errors = json.loads(done.stdout)["errors"]
    assert (done.returncode, done.stderr) == (3, "")
    assert [(e["line"], e["column"]) for e in errors] == [(6, 24)]


# ---- opt, emit, fmt, compile, passes


def test_opt_reads_what_it_wrote(hlotool: Run) -> None:
    first = hlotool("opt", MEAN)
    second = hlotool("opt", "-", "-p", "none", stdin=first.stdout)
    assert (first.returncode, second.returncode) == (0, 0)
    assert second.stdout == first.stdout
    assert " fusion(" in first.stdout


def test_opt_decisions_go_to_standard_error(hlotool: Run) -> None:
    done = hlotool("opt", MEAN, "--decisions")
    assert done.stdout.startswith("HloModule mean")
    assert "fusion: rewrite" in done.stderr


@pytest.mark.parametrize(("stage", "word"), [("hlo", "HloModule small"), ("llvm", "define "), ("asm", ".text")])
def test_emit(hlotool: Run, small: Path, stage: str, word: str) -> None:
    done = hlotool("emit", small, "--stage", stage, "--cpu", "x86-64-v2")
    assert (done.returncode, done.stderr) == (0, "")
    assert word in done.stdout


def test_compile_writes_objects(hlotool: Run, small: Path, tmp_path: Path) -> None:
    for name in ("a.a", "b.a"):
        assert hlotool("compile", small, "--emit", "object", "-o", name).returncode == 0
    data = (tmp_path / "a.a").read_bytes()
    assert data.startswith(b"!<arch>\n")
    assert data == (tmp_path / "b.a").read_bytes()


LINKED = """HloModule linked

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[512,512]{1,0} parameter(0)
  zero = f32[] constant(0)
  sums = f32[512]{0} reduce(x, zero), dimensions={1}, to_apply=add
  weights = f32[4]{0} constant({1, 2, 3, 5})
  four = f32[4]{0} slice(sums), slice={[0:4]}
  ROOT product = f32[4]{0} multiply(four, weights)
}
"""
CALLER = r"""#include <stdio.h>
#include <stdlib.h>
extern const long run_linked_arena_bytes;
extern const char run_linked_constants[];
extern void run_linked(void **frame);
int main(void) {
  static float x[512 * 512], out[4];
  for (int n = 0; n < 512 * 512; ++n) x[n] = n / 512;
  void *arena = aligned_alloc(64, (run_linked_arena_bytes / 64 + 1) * 64);
  void *frame[6] = {x, out, arena, (void *)run_linked_constants, 0, 0};
  run_linked(frame);
  printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_objects_link_by_themselves(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "linked.hlo").write_text(LINKED)
    (tmp_path / "caller.c").write_text(CALLER)
    assert hlotool("compile", "linked.hlo", "--emit", "object", "-o", "liblinked.a").returncode == 0
    link = ["cc", "caller.c", "liblinked.a", "-lm", "-o", "caller"]
    done = subprocess.run(link, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(tmp_path / "caller")], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "0 1024 3072 7680\n")


_OTHERS = ["x86-64-v4", "aarch64", "generic,triple=riscv64-unknown-linux-gnu"]
"""Processors of which this one is two at most."""


@pytest.mark.parametrize("cpu", _OTHERS)
@pytest.mark.parametrize("stage", [None, "hlo", "llvm", "asm", "object"])
def test_compile_looks_at_code_for_any_processor(
    hlotool: Run, small: Path, tmp_path: Path, cpu: str, stage: str | None
) -> None:
    output = ["-o", "out"] if stage == "object" else []
    done = hlotool("compile", small, *(["--emit", stage] if stage else []), *output, env={"HLOTOOL_CPU": cpu})
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").is_file() == (stage == "object")


def test_report_shows_code_for_any_processor(hlotool: Run, small: Path, tmp_path: Path) -> None:
    done = hlotool("report", small, "-o", "pages", env={"HLOTOOL_CPU": "aarch64"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "fadd" in "".join(path.read_text() for path in (tmp_path / "pages").rglob("*.s"))


def test_what_is_to_be_looked_at_does_not_run() -> None:
    executable = compile_module(parse(SMALL), machine=named("aarch64"), to_run=False)
    x = np.zeros(4, np.float32)
    for call in (lambda: executable(x, x), lambda: executable.run_devices([[x, x]])):
        with pytest.raises(UnsupportedError, match="to be looked at"):
            call()
    with pytest.raises(UnsupportedError, match="does not run on this machine"):
        compile_module(parse(SMALL), machine=named("generic,triple=riscv64-unknown-linux-gnu"))


def test_fmt(hlotool: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("// Kept.\n" + SMALL.replace("add(x, y)", "add( x,y )"))
    assert hlotool("fmt", "--check", path).returncode == 1
    diff = hlotool("fmt", "--diff", path)
    assert (diff.returncode, "+  ROOT sum = f32[4]{0} add(x, y)" in diff.stdout) == (0, True)
    assert hlotool("fmt", "-i", path).returncode == 0
    assert path.read_text() == "// Kept.\n" + SMALL
    assert hlotool("fmt", "--check", path).returncode == 0
    assert hlotool("fmt", "-", stdin=path.read_text()).stdout == path.read_text()


def test_fmt_does_not_lose_comments_silently(hlotool: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    text = SMALL.replace("add(x, y)", "add(x, y) // the sum")
    path.write_text(text)
    done = hlotool("fmt", "-i", path)
    assert (done.returncode, path.read_text()) == (1, text)
    assert ":6: this comment would be lost" in done.stderr
    assert hlotool("fmt", "-i", "--strip-comments", path).returncode == 0
    assert path.read_text() == SMALL


def test_passes_explains(hlotool: Run) -> None:
    listed = hlotool("passes").stdout
    assert all(f"{name} " in listed for name in ("fusion", "cse", "dce", "default"))
    assert "max-ops=" in hlotool("passes", "fusion").stdout


# ---- files, pipes, signals, colours


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    from hlotool.inspect.files import write_file

    path = tmp_path / "out.npz"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError):
        write_file(path, lambda stream: [stream.write(b"half"), _fail()])
    assert path.read_text() == "old"
    write_file(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.npz"]


def _fail() -> None:
    raise RuntimeError


def test_output_may_be_a_device_or_a_link(hlotool: Run, small: Path, tmp_path: Path) -> None:
    (tmp_path / "link.npz").symlink_to("real.npz")
    assert hlotool("run", small, "-o", "link.npz").returncode == 0
    assert (tmp_path / "link.npz").is_symlink()
    assert (tmp_path / "real.npz").stat().st_size > 0
    assert hlotool("run", small, "-o", os.devnull).returncode == 0
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_an_error(small: Path) -> None:
    command = f'"{sys.executable}" -m hlotool opt "{small}" > /dev/full'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 5
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "large.hlo"
    numbers = ",".join(["1"] * 200_000)  # more than a pipe holds
    path.write_text(f"HloModule large\nENTRY main {{\n  ROOT c = f32[200000] constant({{{numbers}}})\n}}\n")
    command = f'"{sys.executable}" -m hlotool fmt "{path}" | head -c 9; echo " ${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment(), check=False)
    assert (done.stdout, done.stderr) == ("HloModule 0\n", "")


@pytest.mark.parametrize(
    ("command", "code", "said", "complaint"),
    [
        ("run FILE --random 0 >&-", 0, "", ""),
        ("run FILE --random 0 2>&-", 0, "out0: f32[4]", ""),
        ("verify FILE >&- 2>&-", 0, "", ""),
        ("opt FILE -o out.hlo <&- >&- 2>&-; cat out.hlo", 0, "HloModule small", ""),
        ("opt missing.hlo >&-", 3, "", "cannot read"),
        ("opt missing.hlo 2>&-", 3, "", ""),
        ("opt - <&-", 3, "", "the text is empty"),
        ("nonsense >&- 2>&-", 2, "", ""),
    ],
)
def test_standard_streams_that_are_closed(
    small: Path, tmp_path: Path, command: str, code: int, said: str, complaint: str
) -> None:
    words = command.replace("FILE", small.name).partition(";")
    line = f'"{sys.executable}" -m hlotool {words[0]}; code=$?; {words[2]}\nexit $code'
    options: dict[str, Any] = {"capture_output": True, "text": True, "cwd": tmp_path, "check": False}
    done = subprocess.run(["bash", "-c", line], env=environment(TMPDIR=str(tmp_path)), **options)
    assert (done.returncode, list(tmp_path.glob("hlotool-*.txt"))) == (code, [])
    assert said in done.stdout
    assert complaint in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize(
    ("arguments", "code"), [(["opt", "missing.hlo"], 3), (["opt", MEAN, "--decisions"], 5), (["nonsense"], 2)]
)
def test_messages_that_nobody_can_take(tmp_path: Path, arguments: list[str | Path], code: int) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "hlotool", *arguments]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=full, env=environment(), cwd=tmp_path, check=False
        )
    assert done.returncode == code


def test_colours(hlotool: Run) -> None:
    plain = hlotool("verify", "-", stdin=BAD_OPCODE).stderr
    always = hlotool("--color", "always", "verify", "-", stdin=BAD_OPCODE).stderr
    assert "\x1b" not in plain
    assert "\x1b[" in always
    assert "\x1b" not in hlotool("--color", "never", "verify", "-", stdin=BAD_OPCODE).stderr


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")
@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_on_a_terminal(tmp_path: Path, variables: dict[str, str], coloured: bool) -> None:
    (tmp_path / "bad.hlo").write_text(BAD_OPCODE)
    terminal, child = os.openpty()
    env = environment(**{"NO_COLOR": None, "TERM": "xterm", **variables})
    subprocess.run(
        [sys.executable, "-m", "hlotool", "verify", tmp_path / "bad.hlo"], stderr=child, env=env, check=False
    )
    os.close(child)
    assert ("\x1b[" in os.read(terminal, 10000).decode()) is coloured
    os.close(terminal)


@pytest.mark.parametrize("sample", ["mean", "mlp_step", "while_loop"])
def test_commands_count_alike(hlotool: Run, tmp_path: Path, sample: str) -> None:
    file = SAMPLES / f"{sample}.hlo"
    found = json.loads(hlotool("compile", file, "--format", "json").stdout)
    assert hlotool("report", file, "-o", "pages").returncode == 0
    counts = f"{found['instructions']:,} → {found['instructions_after']:,}"
    assert counts in (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    text = hlotool("compile", file).stdout
    assert f"{found['instructions']} instructions -> {found['instructions_after']}, " in text
    assert f"{found['outside_fusions']} outside of fusions" in text


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_what_needs_no_numpy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom hlotool.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sorted({'numpy', 'ml_dtypes', 'hlotool.ir'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert "hlotool" in done.stdout


# ---- manual pages


def test_manual_pages_are_up_to_date() -> None:
    pages = runpy.run_path(str(ROOT / "man" / "build.py"))["pages"]()
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "man").glob("*.[157]")}
    assert written == pages, "run man/build.py"
    others = {"hlo.5", "hlotool.1", "hlotool-accuracy.7", "hlotool-opcodes.7"}
    assert set(pages) == {*others, *(f"hlotool-{name}.1" for name in COMMANDS)}
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(f'"man/{name}"' in metadata for name in pages)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_in_the_manual(name: str) -> None:
    text = (ROOT / "man" / f"hlotool-{name}.1").read_text(encoding="utf-8").replace("\\-", "-")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = [option for p in command.params if isinstance(p, click.Option) for option in p.opts]
    assert [option for option in options if f"\\fB{option}\\fR" not in text] == []
