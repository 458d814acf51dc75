"""``hlotool doctor``: facts without secrets, and a self-test that fails where something is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Install, Run, environment, has_worked
from json_schemas import check_json

from hlotool.cli.variables import VARIABLES
from hlotool.codegen.machine import host
from hlotool.codegen.target import target_of
from hlotool.driver import compile as compile_file
from hlotool.driver import compile_module
from hlotool.driver.cpu import native_backend
from hlotool.harness import self_test
from hlotool.harness.facts import shortened
from hlotool.harness.limits import cpu_limit, memory_limit
from hlotool.harness.self_test_modules import KERNELS, SHARED
from hlotool.text.parser import parse

ILL = "import os, signal, sys\nif 'hlotool.harness.self_test_child' in sys.orig_argv:\n    "
CRASH = f"{ILL}os.kill(os.getpid(), signal.SIGILL)\n"
WRONG = f"""{ILL}import hlotool.evaluate, numpy as np
    right = hlotool.evaluate.evaluate
    hlotool.evaluate.evaluate = lambda *given: [np.ones_like(array) for array in right(*given)]
"""


def planted(folder: Path, text: str) -> dict[str, str | None]:
    """An environment in which every Python runs `text` when it starts."""
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def test_the_self_test_has_a_module_for_every_kind_of_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    target, used = target_of(host()), set[str]()

    def noted(kind: str, emit: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: (used.add(kind), emit(*given))[1]

    emitters = {kind: noted(kind, emit) for kind, emit in target.emitters.items()}
    monkeypatch.setattr(compile_file, "find_backend", lambda name: native_backend(replace(target, emitters=emitters)))
    for kind, text in KERNELS.items():
        used.clear()
        compile_module(parse(text), to_run=False)
        assert kind in used or kind == "loop"
    assert set(KERNELS) == {*target.emitters, "loop"}


def test_work_of_the_self_test_is_shared() -> None:
    program = compile_module(parse(SHARED)).program
    assert program is not None
    assert any(use.parallel for use in program.kernels)


def test_this_machine_is_well(hlotool: Run) -> None:
    done = hlotool("doctor", "--test", "host", "--format", "json", env={"HLOTOOL_XLA_PYTHON": "no-such-python"})
    answer = check_json(done.stdout)
    failed = {(check["group"], check["name"]) for check in answer["checks"] if check["verdict"] == "failed"}
    assert (done.returncode, failed, done.stderr) == (1, {("xla", "compile and run")}, "")
    assert {check["name"] for check in answer["checks"] if check["group"] == "code for host"} == {*KERNELS, "threads"}


def test_code_that_the_processor_does_not_know_ends_a_child_alone(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("doctor", "--test", "host", env=planted(tmp_path, CRASH))
    assert done.returncode == 1
    assert "failed   code for host: fusion: the process was ended by SIGILL" in done.stdout
    assert "skipped  code for host: dot: the process ended with fusion" in done.stdout
    assert f"{len(KERNELS)} skipped" in done.stdout or f"{len(KERNELS) + 1} skipped" in done.stdout


def test_wrong_numbers_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = environment(**planted(tmp_path, WRONG))
    monkeypatch.setattr(self_test, "_environment", lambda **changes: {**given, **changes})
    checks = {check.name: check for check in self_test.check_processor("host")}
    assert (checks["dot"].verdict, checks["dot"].reason.startswith("1591 of 1591 elements differ")) == ("failed", True)
    assert checks["threads"].verdict == "failed"


def test_other_processors_are_skipped() -> None:
    if "x86-64-v4" not in self_test.processors() or host().vector_bits == 512:
        pytest.skip("this processor runs all code of its architecture")
    (check,) = self_test.check_processor("x86-64-v4")
    assert (check.verdict, "512-bit vectors" in check.reason) == ("skipped", True)


def test_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", str(tmp_path / "cache"))
    assert self_test.check_cache().verdict == "ok"
    assert list((tmp_path / "cache").iterdir()) == []
    (tmp_path / "cache").chmod(0o777)
    with pytest.warns(match="others may write"):
        assert self_test.check_cache().verdict == "failed"
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    assert self_test.check_cache().verdict == "skipped"


def test_plug_ins_are_loaded(hlotool: Run, install: Install, tmp_path: Path) -> None:
    text = "import click\n\n@click.command()\ndef good():\n    pass\n"
    variables = install("guests", text, "hlotool.commands", good="good", broken="absent")
    (tmp_path / "packages" / "sitecustomize.py").write_text(CRASH)
    answer = check_json(hlotool("doctor", "--test", "host", "--format", "json", env=variables).stdout)
    found = {check["name"]: check["verdict"] for check in answer["checks"] if check["group"] == "plug-ins"}
    assert found.items() >= {("command good", "ok"), ("command broken", "failed")}


def test_facts_keep_secrets(hlotool: Run, tmp_path: Path) -> None:
    home = tmp_path / "ho me+(x)"
    home.mkdir()
    variables = {"HOME": str(home), "HLOTOOL_CACHE": f"{home}/cache", "SECRET_TOKEN": "hunter2"}
    done = hlotool("doctor", "--test", "none", env=variables)
    assert done.returncode == 0
    assert "~/cache" in done.stdout
    assert str(home) not in done.stdout
    assert "hunter2" not in done.stdout
    answer = check_json(hlotool("doctor", "--test", "none", "--format", "json", env=variables).stdout)
    assert (answer["checks"], answer["complete"]) == ([], True)


@pytest.mark.parametrize(
    ("text", "short"),
    [("/home/me", "~"), ("/home/me/x:/home/me", "~/x:~"), ("/home/meg/x", "/home/meg/x"), ("(/home/me/y)", "(~/y)")],
)
def test_homes_are_shortened(monkeypatch: pytest.MonkeyPatch, text: str, short: str) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert shortened(text) == short


def test_every_variable_that_is_read_is_told() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "hlotool").rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", text)}
    assert read - {"XLA_FLAGS", "PYTHONPATH"} <= set(VARIABLES)  # those are given to children


def test_limits_of_control_groups(tmp_path: Path) -> None:
    own = tmp_path / "own"
    two = tmp_path / "two"
    (two / "a/b").mkdir(parents=True)
    own.write_text("0::/a/b\n")
    assert (cpu_limit(two, own), memory_limit(two, own)) == (None, None)
    (two / "a/b/cpu.max").write_text("max 100000\n")
    (two / "a/cpu.max").write_text("150000 100000\n")
    (two / "a/memory.max").write_text("max\n")
    (two / "a/b/memory.max").write_text("1048576\n")
    assert (cpu_limit(two, own), memory_limit(two, own)) == (1.5, 1 << 20)
    one = tmp_path / "one"
    own.write_text("4:memory:/x/y\n1:cpu,cpuacct:/\n0::/\n")
    (one / "cpu").mkdir(parents=True)
    (one / "memory").mkdir()
    (one / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (one / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert (cpu_limit(one, own), memory_limit(one, own)) == (None, None)
    (one / "cpu/cpu.cfs_quota_us").write_text("50000\n")
    (one / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (one / "memory/memory.limit_in_bytes").write_text("4096\n")
    assert (cpu_limit(one, own), memory_limit(one, own)) == (0.5, 4096)
    assert (cpu_limit(one, tmp_path / "absent"), memory_limit(one, tmp_path / "absent")) == (None, None)


def commandline(process: str) -> bytes:
    path = Path(f"/proc/{process}/cmdline")
    try:
        return path.read_bytes()
    except OSError:  # it is gone
        return b""


def test_an_interrupt_keeps_what_is_known(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hlotool", "doctor", "--format", "json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    if not children.exists():
        child.kill()
        child.communicate()
        pytest.skip("this kernel does not list the children of processes")
    has_worked(child, 0.3)
    while child.poll() is None and not any(b"self_test" in commandline(word) for word in children.read_text().split()):
        pass
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    answer = check_json(out)
    assert (child.returncode, err) == (130, "interrupted\n")
    assert (answer["complete"], answer["verdict"]) == (False, "interrupted")
    assert answer["facts"]


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    line = f"'{sys.executable}' -m hlotool doctor --test none | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--test", "some"], ["file.hlo"], ["--format", "xml"]])
def test_usage(hlotool: Run, arguments: list[str]) -> None:
    assert hlotool("doctor", *arguments).returncode == 2
