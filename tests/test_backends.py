"""Backends: the built-in ones, and those of other packages, which get everything that the driver knows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Install, Run

import hlotool as package
from hlotool.driver import backend_names, find_backend
from hlotool.ir import UnsupportedError
from hlotool.text.parser import parse

SAMPLE = ROOT / "samples" / "attention.hlo"

ADD = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}
"""

INSTALLED = '''
import json, sys
from dataclasses import replace
from hlotool.codegen.cpu.target import CPU as USUAL
from hlotool.driver import Backend, Capabilities, find_backend, native_backend

CPU = find_backend("cpu")

def compile(module, options):
    given = {"threads": options.threads, "cpu": options.machine.cpu, "donated": sorted(options.donation.arguments),
             "timeout": options.timeout, "passes": str(options.pipeline), "instruments": len(options.instruments)}
    print(json.dumps(given), file=sys.stderr)
    return CPU.compile(module, options)

def code(module, options, stage):
    return (f"{stage} of {module.name} for {options.machine.cpu}",)

WHOLE = Backend(name="whole", compile=compile, code=code, capabilities=CPU.capabilities)
PLAIN = Backend(name="plain", compile=compile)

def emit_loop(name, instruction, machine, in_place, there):
    print("mine:", instruction.name, file=sys.stderr)
    return USUAL.emitters["fusion"](name, instruction, machine, in_place, there)

TARGET = native_backend(replace(USUAL, name="target", emitters={**USUAL.emitters, "fusion": emit_loop}))
'''


@pytest.fixture
def installed(tmp_path: Path, install: Install) -> dict[str, str | None]:
    """An environment in which a package with backends is installed, one of which is none."""
    (tmp_path / "add.hlo").write_text(ADD)
    rows = {"whole": "WHOLE", "plain": "PLAIN", "none": "compile", "target": "TARGET"}
    return install("others", INSTALLED, "hlotool.backends", **rows)


def test_installed_backends_get_all_options(hlotool: Run, installed: dict[str, str | None]) -> None:
    chosen = ("--backend", "whole", "--threads", "1", "--cpu", "x86-64-v2", "--donate", "0", "--timeout", "100")
    done = hlotool("run", "add.hlo", *chosen, "-p", "dce", env=installed)
    assert done.returncode == 0, done.stderr
    given = json.loads(done.stderr.splitlines()[0])
    wanted = {"threads": 1, "cpu": "x86-64-v2", "donated": [0], "timeout": 100.0, "passes": "dce", "instruments": 0}
    assert given == wanted


def test_what_a_backend_does_not_know_is_refused(hlotool: Run, installed: dict[str, str | None]) -> None:
    assert hlotool("run", "add.hlo", "--backend", "plain", env=installed).returncode == 0
    for option, word in (("--donate=0", "overwrites no arguments"), ("--timeout=100", "has no time limit")):
        done = hlotool("run", "add.hlo", "--backend", "plain", option, env=installed)
        assert done.returncode == 4
        assert word in done.stderr
    done = hlotool("run", "add.hlo", "--backend", "none", env=installed)
    assert done.returncode == 4
    assert "is a function, not a hlotool.driver.backend.Backend" in done.stderr


def test_code_of_backends(hlotool: Run, installed: dict[str, str | None]) -> None:
    done = hlotool("emit", "add.hlo", "--backend", "whole", "--cpu", "x86-64-v3", env=installed)
    assert done.stdout == "; unit 0\nllvm of m for x86-64-v3\n"
    for name in ("plain", "evaluate"):
        done = hlotool("emit", "add.hlo", "--backend", name, env=installed)
        assert done.returncode == 4
        assert "makes no code" in done.stderr
    for command in ("emit", "run"):
        done = hlotool(command, "add.hlo", "--backend", "missing", env=installed)
        assert done.returncode == 2
        assert "no backend 'missing'; there are cpu, evaluate," in done.stderr


def test_a_target_of_another_package(hlotool: Run, installed: dict[str, str | None]) -> None:
    done = hlotool("run", "add.hlo", "--backend", "target", "--compare", "evaluate", "--donate", "0", env=installed)
    assert (done.returncode, "mine: y" in done.stderr) == (0, True), done.stderr
    done = hlotool("emit", "add.hlo", "--backend", "target", env=installed)
    assert (done.stdout, "mine: y" in done.stderr) == (hlotool("emit", "add.hlo").stdout, True)


def test_emit_shows_what_run_executes(hlotool: Run) -> None:
    executed = package.compile(package.load(SAMPLE)).text("llvm")
    assert hlotool("emit", SAMPLE).stdout.rstrip("\n") == executed.rstrip("\n")


def test_built_in_backends() -> None:
    assert {"cpu", "evaluate"} <= set(backend_names())
    x = np.arange(4, dtype=np.float32)
    for name in ("cpu", "evaluate"):
        (result,) = package.compile(parse(ADD), name)(x)
        np.testing.assert_array_equal(result, x + x)
    with pytest.raises(UnsupportedError, match="unknown backend 'tpu'"):
        find_backend("tpu")
