"""The samples: the whole way from text to numbers, after every pass, and as a user's shell script gates them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest
from conftest import ROOT, Run, environment

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.passes.framework.instruments import ChangeLog, StopAfter
from hlotool.passes.framework.steps import Pass
from hlotool.text.load import load
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

SAMPLES = ROOT / "samples"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.hlo"))
Arrays = tuple[npt.NDArray[Any], ...]


def sample(name: str) -> tuple[Module, list[npt.NDArray[Any]], Arrays]:
    """The module, inputs, and what the evaluator says of it before any pass."""
    module = load(SAMPLES / f"{name}.hlo")
    check(module)
    inputs = random_inputs(module, 1)
    return module, inputs, evaluate(module, inputs)


def differences(got: Arrays, want: Arrays) -> list[str]:
    return [f"out{n}: {c}" for n, c in enumerate(compare_all(got, want)) if not c.ok]


@dataclass
class EvaluateEach:
    """After every pass that changed the module: it is valid, reads back from its text, and means the same."""

    inputs: list[npt.NDArray[Any]]
    want: Arrays
    passes: list[str] = field(default_factory=list)

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        if changed:
            self.passes.append(pass_.name)
            check(module)
            text = print_module(module)
            assert print_module(parse(text)) == text, pass_.name
            assert not differences(evaluate(module, self.inputs), self.want), pass_.name


def test_there_are_the_samples_that_the_readme_promises() -> None:
    assert {"attention", "conv_net", "digits", "lstm_cell", "mean", "mlp_step", "while_loop"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_header_says_what_to_look_at_and_what_to_try(name: str) -> None:
    head = (SAMPLES / f"{name}.hlo").read_text(encoding="utf-8").split("HloModule")[0]
    assert "Look at:" in head
    commands = re.findall(r"^//   (hlotool .*)$", head, re.MULTILINE)
    assert commands
    assert all(f"samples/{name}.hlo" in command for command in commands)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_evaluated_results_agree(name: str) -> None:
    module, inputs, want = sample(name)
    assert not differences(compile_module(module)(*inputs), want)
    assert not differences(compile_module(module, "evaluate")(*inputs), want)


@pytest.mark.parametrize("name", NAMES)
def test_the_meaning_stays_after_every_single_pass(name: str) -> None:
    module, inputs, want = sample(name)
    each = EvaluateEach(inputs, want)
    compile_module(module, instruments=[each])
    assert "fusion" in each.passes


@pytest.mark.parametrize("name", NAMES)
def test_every_prefix_of_the_pipeline_compiles_to_the_same_results(name: str) -> None:
    module, inputs, want = sample(name)
    changes = ChangeLog()
    optimise(module, instruments=[changes])
    ends = [number for number, (_, changed, _) in enumerate(changes.entries, 1) if changed]
    for end in ends[:-1]:  # the last is the whole pipeline
        prefix = optimise(module, instruments=[StopAfter(count=end)])
        got = compile_module(prefix, pipeline="none")(*inputs)
        assert not differences(got, want), changes.entries[end - 1]


def test_commands_of_the_headers_run(hlotool: Run) -> None:
    head = (SAMPLES / "mean.hlo").read_text(encoding="utf-8").split("HloModule")[0]
    for line in re.findall(r"^//   hlotool (.*)$", head, re.MULTILINE):
        if "svg" in line and shutil.which("dot") is None:
            continue
        done = hlotool(*(word.replace("samples/", f"{SAMPLES}/") for word in line.split()))
        assert (done.returncode, done.stderr) == (0, ""), line


# ---- the shell script

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the script needs bash")


def gate(samples: Path = SAMPLES) -> subprocess.CompletedProcess[str]:
    """Runs regression/check.sh in a directory of samples."""
    env = environment(HLOTOOL=f"{sys.executable} -m hlotool")
    command = ["bash", str(samples / "regression" / "check.sh")]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def planted(tmp_path: Path, file: str, before: str, after: str) -> list[str]:
    """What the gate finds where a file of the samples has another text."""
    samples = tmp_path / "copies of samples"
    shutil.copytree(SAMPLES, samples)
    text = (samples / file).read_text(encoding="utf-8")
    assert before in text
    (samples / file).write_text(text.replace(before, after), encoding="utf-8")
    done = gate(samples)
    assert done.returncode == 1
    return [line for line in done.stdout.splitlines() if ": failed: " in line]


@needs_bash
def test_the_gate_passes() -> None:
    done = gate()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "12 passed\n"


@needs_bash
def test_the_gate_catches_wrong_numbers(tmp_path: Path) -> None:
    (found,) = planted(tmp_path, "mean.hlo", "constant(3)", "constant(3.001)")
    assert "mean.npz" in found
    assert found.endswith("exit code 1")


@needs_bash
def test_the_gate_catches_a_pipeline_that_no_longer_fuses(tmp_path: Path) -> None:
    found = planted(tmp_path, "regression/samples.hlo", "opt %S/../mean.hlo |", "opt %S/../mean.hlo -p simplify |")
    assert found[0].endswith("CHECK-COUNT: found 0")
