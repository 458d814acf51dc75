"""The options that choose, change and watch pipelines, as users call them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import ROOT, Install, Run

from hlotool.passes.framework.registry import PIPELINES
from hlotool.text.parser import parse

SAMPLE = ROOT / "samples" / "attention.hlo"

BROKEN_PASS = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

@dataclass(frozen=True, slots=True)
class Crash:
    """Fails where there is a dot."""
    name: ClassVar[str] = "crash"
    def run(self, module, log):
        for instruction in module.instructions():
            if instruction.opcode == "dot":
                raise IndexError("planted")
        return False

@dataclass(frozen=True, slots=True)
class Miscompile:
    """Makes maxima of all sums."""
    name: ClassVar[str] = "miscompile"
    def run(self, module, log):
        changed = False
        for instruction in list(module.instructions()):
            if instruction.opcode == "add":
                instruction.opcode, changed = "maximum", True
        return changed

@dataclass(frozen=True, slots=True)
class Invalid:
    """Leaves a wrong shape behind."""
    name: ClassVar[str] = "invalid"
    def run(self, module, log):
        from hlotool.ir import array
        module.entry.root.shape = array("f32", (3, 3))
        return True
'''


@pytest.fixture
def broken_passes(install: Install) -> dict[str, str | None]:
    """An environment in which a package with broken passes is installed."""
    names = {name: name.title() for name in ("crash", "miscompile", "invalid")}
    return install("broken", BROKEN_PASS, "hlotool.passes", **names)


@pytest.mark.parametrize("level", range(4))
def test_levels(hlotool: Run, level: int) -> None:
    result = hlotool("opt", SAMPLE, f"-O{level}")
    assert result.returncode == 0
    fusions = result.stdout.count(" fusion(")
    assert (fusions > 0) == (level > 0)
    named = hlotool("opt", SAMPLE, "-p", f"O{level}")
    assert named.stdout == result.stdout


def test_level_two_is_the_default(hlotool: Run) -> None:
    assert PIPELINES["O2"] == "default"
    assert hlotool("opt", SAMPLE).stdout == hlotool("opt", SAMPLE, "-O2").stdout


def test_only_one_choice_of_passes(hlotool: Run) -> None:
    result = hlotool("opt", SAMPLE, "-O1", "-p", "dce")
    assert result.returncode == 2
    assert "give one of them" in result.stderr


def test_going_on_from_every_dump(hlotool: Run, tmp_path: Path) -> None:
    whole = hlotool("opt", SAMPLE, "--dump-to", "steps").stdout
    dumps = sorted((tmp_path / "steps").glob("*.hlo"))[1:]
    assert len(dumps) >= 2
    for dump in dumps:
        assert dump.read_text().startswith("// pipeline:")
        assert hlotool("opt", "--start-from", dump).stdout == whole
    assert hlotool("compile", "--start-from", dumps[0]).returncode == 0
    refused = hlotool("opt", "--start-from", SAMPLE)
    assert refused.returncode == 2
    assert "carries no pipeline" in refused.stderr
    assert hlotool("opt").returncode == 2
    assert hlotool("opt", SAMPLE, "--start-from", dumps[0]).returncode == 2


def test_stopping_and_choosing(hlotool: Run) -> None:
    stopped = hlotool("opt", SAMPLE, "--stop-after", "algebraic-simplifier")
    assert stopped.returncode == 0
    assert "fusion(" not in stopped.stdout
    again = hlotool("opt", SAMPLE, "-p", "dce,cse,dce", "--stop-after", "dce:2", "--time-passes")
    assert re.search(r"^dce +2 ", again.stderr, re.MULTILINE)
    disabled = hlotool("opt", SAMPLE, "--disable", "fusion,multi-output-fusion,product-fusion")
    assert "fusion(" not in disabled.stdout
    alone = hlotool("opt", SAMPLE, "--only", "dce", "--time-passes")
    assert re.findall(r"^\S+", alone.stderr, re.MULTILINE) == ["pass", "dce", "all"]
    for arguments, words in (
        (("--disable", "fuson"), "did you mean fusion?"),
        (("--stop-after", "dce:0"), "expected PASS or PASS:N"),
        (("--stop-after", "topk-decomposer"), "is not among the passes"),
        (("--fuse-only", "("), "no regular expression"),
        (("-p", 'dce,product-fusion{never="("}'), "column 5: fusion option never='(' is no regular expression"),
        (("-p", "call-inliner{fusions=some}"), "column 1: call-inliner: fusions is none, foreign, all, not 'some'"),
        (("-p", "float-normalization{type=s32}"), "column 1: float-normalization: 's32' is no floating-point type"),
        (("-p", "float-normalization{type=f32,to=bf16}"), "column 1: float-normalization: bf16 is no wider than f32"),
    ):
        wrong = hlotool("opt", SAMPLE, *arguments)
        assert wrong.returncode == 2
        assert words in wrong.stderr


def test_rewrites_are_counted(hlotool: Run) -> None:
    for limit in range(3):
        result = hlotool("opt", SAMPLE, "--rewrite-limit", limit, "--decisions")
        assert result.stderr.count(": rewrite ") == limit
    assert hlotool("compile", SAMPLE, "--rewrite-limit", 0).returncode == 0  # lowering is not part of the count


def test_rules_for_fusion(hlotool: Run) -> None:
    def bodies(*arguments: str) -> str:
        module = parse(hlotool("opt", SAMPLE, *arguments).stdout)
        fused = [i.attributes["calls"] for i in module.instructions() if i.opcode == "fusion"]
        return " ".join(i.opcode for body in fused for i in body)

    assert "exponential" in bodies()
    assert "exponential" not in bodies("--no-fuse", "^powers$")
    assert bodies("--fuse-only", "^no such name$") == ""
    assert "exponential" in bodies("--fuse-only", "powers|shifted|total")


def test_single_instructions_are_kept_out_or_forced() -> None:
    from hlotool.driver import optimise

    text = """HloModule m
ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] exponential(x)%s
  b = f32[64] negate(a)
  big = f32[64,64] broadcast(b), dimensions={1}
  c = f32[64,64] sine(big)
  d = f32[64] abs(a)
  ROOT r = (f32[64,64], f32[64]) tuple(c, d)
}"""

    def opcodes(note: str) -> list[str]:
        module = optimise(parse(text % note), "fusion")
        fused = [i.attributes["calls"] for i in module.instructions() if i.opcode == "fusion"]
        return [i.opcode for body in fused for i in body]

    assert opcodes("").count("exponential") == 0  # two read it
    assert opcodes(', frontend_attributes={fuse="always"}').count("exponential") == 2
    assert opcodes(', frontend_attributes={fuse="never"}').count("exponential") == 0


def test_statistics(hlotool: Run, tmp_path: Path) -> None:
    result = hlotool("opt", SAMPLE, "--pass-statistics", "--statistics-to", "s.json", "-o", "out.hlo")
    lines = result.stderr.splitlines()
    assert lines[0].split() == ["pass", "instructions", "flops", "bytes", "peak", "bytes"]
    assert any(re.match(r"fusion +[\d,]+ -> [\d,]+", line) for line in lines)
    record = json.loads((tmp_path / "s.json").read_text())
    runs = record["runs"]
    assert record["kind"] == "pass-statistics"
    assert {"fusion", "dce"} <= {run["pass"] for run in runs}
    for earlier, later in pairwise(runs):
        assert earlier["after"] == later["before"]
    last = runs[-1]["after"]
    assert last["bytes"] < runs[0]["before"]["bytes"]
    assert last["peak_bytes"] < runs[0]["before"]["peak_bytes"]


def test_checking_each_pass(hlotool: Run) -> None:
    assert hlotool("opt", SAMPLE, "--check-each", "evaluate", "-o", "out.hlo").returncode == 0


def test_the_pass_that_changes_the_numbers_is_named(hlotool: Run, broken_passes: dict[str, str | None]) -> None:
    mean = ROOT / "samples" / "mean.hlo"
    result = hlotool("opt", mean, "-p", "cse,miscompile,dce", "--check-each", "evaluate", env=broken_passes)
    assert result.returncode == 1
    assert "MISMATCH: pass miscompile (run 2) changes out0" in result.stderr
    again = hlotool("repro", "hlotool-repro-miscompile.hlo", env=broken_passes)
    assert again.returncode == 1
    assert "pass miscompile" in again.stderr
    assert hlotool("repro", "hlotool-repro-miscompile.hlo", "--no-check", env=broken_passes).returncode == 0


@pytest.mark.parametrize(("name", "words"), [("crash", "IndexError: planted"), ("invalid", "after pass invalid")])
def test_a_crash_leaves_a_reproducer(
    hlotool: Run, broken_passes: dict[str, str | None], tmp_path: Path, name: str, words: str
) -> None:
    result = hlotool("opt", SAMPLE, "-p", f"cse,{name},dce", env=broken_passes)
    assert result.returncode == 70
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    text = (tmp_path / f"hlotool-repro-{name}.hlo").read_text()
    assert f"\n// pipeline: {name}\n" in text
    again = hlotool("repro", f"hlotool-repro-{name}.hlo", env=broken_passes)
    assert again.returncode == 70
    assert words in again.stderr


def test_repro_wants_a_pipeline(hlotool: Run) -> None:
    result = hlotool("repro", SAMPLE)
    assert result.returncode == 2
    assert "carries no pipeline" in result.stderr


def test_pipelines_of_a_project(hlotool: Run, tmp_path: Path) -> None:
    config = tmp_path / "hlotool.toml"
    config.write_text('[pipelines]\nmine = "simplify,light"\nlight = "fusion{max-ops=3}"\n')
    spelled = hlotool("opt", SAMPLE, "-p", "simplify,fusion{max-ops=3}").stdout
    assert hlotool("opt", SAMPLE, "-p", "mine").stdout == spelled
    for text, words in (
        ("[pipelines\n", "hlotool.toml"),
        ("[pipes]\n", "there is no table [pipes]"),
        ("[pipelines]\nmine = 3\n", "[pipelines] has lines like"),
        ('[pipelines]\ndce = "cse"\n', "choose another name"),
        ('[pipelines]\nmine = "mine"\n', "contains itself"),
    ):
        config.write_text(text)
        result = hlotool("opt", SAMPLE, "-p", "mine")
        assert result.returncode == 2
        assert words in result.stderr
    elsewhere = tmp_path / "other.toml"
    elsewhere.write_text('[pipelines]\nmine = "dce"\n')
    assert hlotool("opt", SAMPLE, "-p", "mine", env={"HLOTOOL_CONFIG": str(elsewhere)}).returncode == 0
    assert hlotool("opt", SAMPLE, env={"HLOTOOL_CONFIG": "nowhere.toml"}).returncode == 2


# ---- the same choice in other commands


CHOOSING = [
    ("run", "--random", "0"),
    ("emit", "--stage", "hlo"),
    ("graph", "--format", "dot"),
    ("bench", "--no-roof", "--time", "0", "--warmup", "0", "--rounds", "1"),
    ("explain",),
]


@pytest.mark.parametrize("command", CHOOSING, ids=[name for name, *_ in CHOOSING])
def test_every_command_chooses_passes_alike(command: tuple[str, ...], hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "hlotool.toml").write_text('[pipelines]\nmine = "simplify,dce"\n')
    (tmp_path / "m.hlo").write_text("ENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] abs(x)\n}\n")
    name, *options = command
    words = [name, "x", "--file", "m.hlo"] if name == "explain" else [name, "m.hlo", *options]
    for chosen in (["-O0"], ["-O3"], ["-p", "mine"], ["-O2", "--disable", "fusion,dce"], ["-O2", "--only", "dce"]):
        done = hlotool(*words, *chosen)
        assert done.returncode == 0, (chosen, done.stderr)
    wrong = hlotool(*words, "-O2", "--disable", "fuson")
    assert (wrong.returncode, "did you mean fusion?" in wrong.stderr) == (2, True)
    assert hlotool(*words, "-O7").returncode == 2
    if name != "bench":  # where they are two variants
        assert "give one of them" in hlotool(*words, "-O2", "-p", "dce").stderr


def test_what_the_other_commands_leave_out(hlotool: Run) -> None:
    for words in (("emit", SAMPLE, "--stage", "hlo"), ("graph", SAMPLE, "--format", "dot", "-O2")):
        fused = hlotool(*words).stdout
        assert "fusion" in fused
        without = hlotool(*words, "--disable", "fusion,multi-output-fusion,product-fusion").stdout
        assert "kind=k" in fused or "kLoop" in fused or "kInput" in fused
        assert "kind=k" not in without
        assert "kInput" not in without
    nothing = hlotool("graph", SAMPLE, "--only", "dce")
    assert (nothing.returncode, "of -p or -O" in nothing.stderr) == (2, True)


def test_levels_are_variants(hlotool: Run) -> None:
    options = ("--no-roof", "--time", "0", "--warmup", "0", "--rounds", "1", "--format", "csv")
    done = hlotool("bench", SAMPLE, "-O0", "-O2", "-p", "dce", *options)
    assert done.returncode == 0, done.stderr
    assert [f"hlotool {label}" in done.stdout for label in ("-O0", "-O2", "-p dce")] == [True] * 3
