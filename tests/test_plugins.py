"""The recipes of hlotool/README.md, followed twice: by a package of its own, and in a copy of the sources."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT, Install, Run

PLUGIN = ROOT / "tests" / "plugin"

MODULE = """HloModule m

ENTRY e {
  x = s32[4] parameter(0)
  n = s32[4] negate(x)
  ROOT m = s32[4] maximum(n, x)
}
"""

COPIED = {
    "opposites.py": "passes/simplify/algebra",
    "negate_expander.py": "passes/expand",
    "optimised_evaluator.py": "driver",
    "census_command.py": "cli",
}
"""Where the files of the package lie where they are part of hlotool."""

LINES = [
    (
        "passes/simplify/algebra/__init__.py",
        '    "gathering": ("", "gather scatter"),\n',
        '    "opposites": ("signed integers", "maximum"),\n',
    ),
    (
        "passes/framework/registry.py",
        "PASSES: dict[str, str] = {\n",
        '    "negate-expander": "expand.negate_expander:NegateExpander",\n',
    ),
    (
        "driver/backends.py",
        "from hlotool.driver.backend import Backend\n",
        "from hlotool.driver.optimised_evaluator import BACKEND as OPTIMISED\n",
    ),
    ("driver/backends.py", "_BUILT_IN = {", '"evaluate-optimised": OPTIMISED, '),
    ("cli/__init__.py", "COMMANDS: dict[str, str] = {\n", '    "census": "Count the opcodes in FILE.",\n'),
]
"""File, what stands there, and what comes behind it."""

Environment = dict[str, str | None]


@pytest.fixture
def package(tmp_path: Path) -> Environment:
    """An environment in which tests/plugin is installed."""
    home = tmp_path / "packages"
    shutil.copytree(PLUGIN / "hlotool_example", home / "hlotool_example", ignore=shutil.ignore_patterns("__pycache__"))
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    information = home / f"hlotool_example-{project['version']}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    groups = project["entry-points"].items()
    text = "".join(f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in rows.items()) for group, rows in groups)
    (information / "entry_points.txt").write_text(text)
    return {"PYTHONPATH": f"{ROOT}:{home}"}


@pytest.fixture
def sources(tmp_path: Path) -> Environment:
    """An environment with a copy of hlotool that has what is in tests/plugin."""
    copy = tmp_path / "sources" / "hlotool"
    shutil.copytree(ROOT / "hlotool", copy, ignore=shutil.ignore_patterns("__pycache__"))
    recipes = (ROOT / "hlotool" / "README.md").read_text(encoding="utf-8")
    for name, folder in COPIED.items():
        assert f"`{folder}/" in recipes
        shutil.copy(PLUGIN / "hlotool_example" / name, copy / folder / name)
    for name, line, behind in LINES:
        assert f"`{name}`" in recipes
        text = (copy / name).read_text(encoding="utf-8")
        assert text.count(line) == 1, (name, line)
        (copy / name).write_text(text.replace(line, line + behind), encoding="utf-8")
    return {"PYTHONPATH": str(copy.parent)}


@pytest.mark.parametrize("added", ["package", "sources"])
def test_recipes(added: str, hlotool: Run, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    environment: Environment = request.getfixturevalue(added)
    (tmp_path / "m.hlo").write_text(MODULE)

    def run(*arguments: str) -> tuple[str, str]:
        done = hlotool(*arguments, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    # a rule: in the simplifier, or where a pipeline names it
    also = "{also=maximum-of-opposites}" if added == "package" else ""
    text, decisions = run("opt", "m.hlo", "-p", f"algebraic-simplifier{also},dce", "--decisions")
    assert "= s32[4] abs(x)" in text
    assert "algebraic-simplifier: rewrite maximum-of-opposites (HLO4001): m -> abs.1" in decisions
    told, _ = run("explain", "m", "--file", "m.hlo", "-p", f"algebraic-simplifier{also}")
    assert "HLO4001 algebraic-simplifier, maximum-of-opposites: m -> abs.1" in told

    # a pass: with its options, its help and its decisions
    text, decisions = run("opt", "m.hlo", "-p", "negate-expander,dce", "--decisions", "--check-each", "evaluate")
    assert "subtract(" in text
    assert "negate(" not in text
    assert "there is no negative without a zero" in decisions
    assert "negate(" in run("opt", "m.hlo", "-p", "negate-expander{type=s8}")[0]
    assert "negate-expander" in run("passes")[0]
    assert "Subtracts integers from 0" in run("passes", "negate-expander")[0]

    # a backend: for run and for emit
    run("run", "m.hlo", "--backend", "evaluate-optimised", "-p", "negate-expander", "--compare", "evaluate")
    assert "subtract(" in run("emit", "m.hlo", "--backend", "evaluate-optimised", "-p", "negate-expander")[0]

    # a command: beside the others, in their help as well
    assert run("census", "m.hlo")[0] == "     1 maximum\n     1 negate\n     1 parameter\n"
    assert "census" in run("--help")[0]
    assert "Count the opcodes in FILE." in run("--help")[0]


BROKEN = """
import click
from hlotool.passes.framework.rewriter import rule
from hlotool.driver import find_backend

@click.command("run")
def run():
    raise AssertionError("this is not hlotool's run")

@rule("negate(negate(x))")
def named_otherwise(x):
    return x

BACKEND = find_backend("evaluate")
"""


@pytest.mark.parametrize(
    ("group", "asked"),
    [
        ("commands", ("broken", "m.hlo")),
        ("passes", ("opt", "m.hlo", "-p", "broken")),
        ("rules", ("opt", "m.hlo", "-p", "algebraic-simplifier{also=broken}")),
        ("backends", ("run", "m.hlo", "--backend", "broken")),
    ],
)
def test_what_cannot_be_loaded_is_named(
    group: str, asked: tuple[str, ...], hlotool: Run, install: Install, tmp_path: Path
) -> None:
    """And everything else works."""
    (tmp_path / "m.hlo").write_text(MODULE)
    environment = install("faulty", "raise SystemExit('out of order')", f"hlotool.{group}", broken="x", number="y")
    done = hlotool(*asked, env=environment)
    assert done.returncode == 4
    assert "'broken' of faulty:x (faulty) cannot be loaded: SystemExit: out of order" in done.stderr
    assert "Traceback" not in done.stderr
    for others in (("--help",), ("passes",), ("verify", "m.hlo")):
        assert hlotool(*others, env=environment).returncode == 0
    if group == "commands":
        assert "out of order" in hlotool("--help", env=environment).stdout
    elif group == "passes":
        assert "out of order" in hlotool("passes", env=environment).stdout
    wrong = hlotool(*(word.replace("broken", "brokn") for word in asked), env=environment)
    assert wrong.returncode in (2, 4)
    assert "broken" in wrong.stderr


def test_names_of_hlotool_are_not_taken(hlotool: Run, install: Install, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    environment = install("thief", BROKEN, "hlotool.commands", run="run")
    for arguments in (("run", "m.hlo"), ("--help",)):
        done = hlotool(*arguments, env=environment)
        assert done.returncode == 0
        assert "this is not hlotool's run" not in done.stderr
    assert "warning: command 'run' of thief:run (thief) is left out: hlotool has one of that name" in done.stderr


def test_kinds_and_names_of_rules(hlotool: Run, install: Install, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    entries = {"named": "named_otherwise", "none": "BACKEND", "double-negation": "named_otherwise"}
    environment = install("rules", BROKEN, "hlotool.rules", **entries)
    for name, code, word in (
        ("named", 4, "calls itself 'named-otherwise'"),
        ("none", 4, "is a Backend, not a hlotool.passes.framework.rewriter.Rule"),
        ("double-negation", 2, "no other package adds a rule 'double-negation'; there are named, none"),
    ):
        done = hlotool("opt", "m.hlo", "-p", f"algebraic-simplifier{{also={name}}}", env=environment)
        assert done.returncode == code
        assert word in done.stderr


PASSES = """
from dataclasses import dataclass, field

class Plain:
    name = "plain"
    def __init__(self, limit=3):
        self.limit = limit
    def run(self, module, log):
        return False

@dataclass
class Thawed(Plain):
    name = "thawed"

@dataclass(frozen=True)
class Typed:
    name = "typed"
    names: list = field(default_factory=list)
    def run(self, module, log):
        return False

@dataclass(frozen=True)
class Unknown:
    name = "unknown"
    limit: "Limit" = 3
    def run(self, module, log):
        return False

@dataclass(frozen=True)
class Needy:
    name = "needy"
    limit: int
    def run(self, module, log):
        return False

@dataclass(frozen=True)
class Crashing:
    name = "crashing"
    limit: int = 3
    def run(self, module, log):
        raise AssertionError("planted")
"""


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("plain", "passes_of.Plain is no pass: it has to be a frozen dataclass, @dataclass(frozen=True, slots=True)"),
        ("thawed", "passes_of.Thawed is no pass: it has to be a frozen dataclass"),
        ("typed", "passes_of.Typed is no pass: option names is no int, float, bool or str with a default"),
        ("unknown", "passes_of.Unknown is no pass: the types of its fields are not known: name 'Limit'"),
        ("needy", "passes_of.Needy is no pass: option limit is no int, float, bool or str with a default"),
    ],
)
def test_classes_that_are_no_passes(name: str, fault: str, hlotool: Run, install: Install, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    environment = install("passes_of", PASSES, "hlotool.passes", **{name: name.capitalize()})
    done = hlotool("opt", "m.hlo", "-p", name, env=environment)
    assert (done.returncode, done.stdout) == (4, "")
    assert fault in done.stderr
    listed = hlotool("passes", env=environment)
    assert (listed.returncode, fault in listed.stdout) == (0, True)


def test_a_bug_is_that_of_its_package(hlotool: Run, install: Install, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    environment = install("passes_of", PASSES, "hlotool.passes", crashing="Crashing")
    done = hlotool("opt", "m.hlo", "-p", "crashing", "--strict", env={**environment, "TMPDIR": str(tmp_path)})
    assert done.returncode == 70
    assert "this is a bug in passes_of; the details are in" in done.stderr
