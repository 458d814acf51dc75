"""``hlotool new-pass``: what it makes can be installed, tested and used as it is."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT, Run, environment

needs_hatchling = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed")

MODULE = """HloModule m

ENTRY main {
  x = f32[4]{0} parameter(0)
  two = f32[] constant(2)
  twos = f32[4]{0} broadcast(two), dimensions={}
  ROOT y = f32[4]{0} multiply(x, twos)
}
"""

USES = {  # the words after hlotool, and what they print
    "pass": (["opt", "m.hlo", "-p", "my-own,dce"], "ROOT add.1 = f32[4]{0} add(x, x)"),
    "rule": (["opt", "m.hlo", "-p", "algebraic-simplifier{also=my-own},dce"], "ROOT add.1 = f32[4]{0} add(x, x)"),
    "command": (["my-own", "m.hlo"], "     1 multiply\n"),
    "backend": (["run", "m.hlo", "--backend", "my-own", "--compare", "evaluate"], "out0: ok"),
}


def run_python(*words: object, folder: Path, packages: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env=environment(PYTHONPATH=f"{packages}:{ROOT}", HLOTOOL_STRICT="1"),
        capture_output=True,
        text=True,
        check=False,
    )


@needs_hatchling
@pytest.mark.parametrize("kind", list(USES))
def test_the_package_works(kind: str, hlotool: Run, tmp_path: Path) -> None:
    """Made, built and installed by pip, tested by pytest, and used."""
    made = hlotool("new-pass", "my-own", "--kind", kind, "-o", "mine")
    assert made.returncode == 0, made.stderr
    folder, packages = tmp_path / "mine", tmp_path / "packages"
    assert {str(tmp_path / line) for line in made.stdout.split()} == {
        str(path) for path in folder.rglob("*") if path.is_file()
    }
    assert made.stderr == "next: pip install -e './mine[test]' && pytest ./mine\n"
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--target", packages]
    installed = run_python("-m", "pip", "install", *options, folder, folder=tmp_path, packages=packages)
    assert installed.returncode == 0, installed.stderr
    tested = run_python("-m", "pytest", "-p", "no:cacheprovider", folder=folder, packages=packages)
    assert tested.returncode == 0, tested.stdout
    assert "my-own.hlo" in run_python(
        "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", folder=folder, packages=packages
    ).stdout
    (tmp_path / "m.hlo").write_text(MODULE)
    arguments, expected = USES[kind]
    used = run_python("-m", "hlotool", *arguments, folder=tmp_path, packages=packages)
    assert used.returncode == 0, used.stderr
    assert expected in used.stdout


@pytest.mark.parametrize("kind", list(USES))
def test_the_package_is_clean(kind: str, hlotool: Run, tmp_path: Path) -> None:
    """By the rules that hlotool itself keeps; no place holder is left."""
    assert hlotool("new-pass", "my-own", "--kind", kind).returncode == 0
    folder = tmp_path / "hlotool-my-own"
    for path in folder.rglob("*"):
        assert "$" not in (path.read_text() if path.is_file() else "")
    words = ["-m", "ruff", "check", "--no-cache", "--config", ROOT / "pyproject.toml", folder]
    checked = run_python(*words, folder=tmp_path, packages=folder / "src")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Fold"], "'Fold' is no name of a pass: expected at most 60 small letters"),
        (["fold_twice"], "is no name"),
        (["../fold"], "is no name"),
        (["-", "--kind", "rule"], "is no name of a rule"),
        (["x" * 61], "is no name"),
        (["class"], "'class' is a keyword of Python"),
        (["fusion"], "there is a pass called 'fusion' already"),
        (["default"], "there is a pass called 'default' already"),
        (["run", "--kind", "command"], "there is a command called 'run' already"),
        (["cpu", "--kind", "backend"], "there is a backend called 'cpu' already"),
        (["mine", "--kind", "target"], "'target' is not one of"),
        ([], "Missing argument 'NAME'"),
    ],
)
def test_names_that_are_refused(arguments: list[str], said: str, hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("new-pass", *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "hlotool-mine").mkdir()
    (tmp_path / "hlotool-mine" / "README.md").write_text("keep this")
    done = hlotool("new-pass", "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "hlotool-mine is there already; nothing was written" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["hlotool-mine", "README.md"]
    assert (tmp_path / "hlotool-mine" / "README.md").read_text() == "keep this"


def test_where_nothing_can_be_written(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = hlotool("new-pass", "mine", "-o", "file/mine")
    assert (done.returncode, done.stdout) == (5, "")
    assert "cannot write file/mine" in done.stderr


@pytest.mark.parametrize("name", ["module", "builder", "class-var", "rule", "instruction"])
def test_names_of_what_the_sources_use(name: str, hlotool: Run, tmp_path: Path) -> None:
    """A package whose words are those of the template still loads."""
    for kind, load in (("pass", "".join(w.capitalize() for w in name.split("-"))), ("rule", name.replace("-", "_"))):
        assert hlotool("new-pass", name, "--kind", kind, "-o", kind).returncode == 0
        package = f"hlotool_{name.replace('-', '_')}.{name.replace('-', '_')}"
        words = ["-W", "error", "-c", f"from {package} import {load}; print({load}.name)"]
        done = run_python(*words, folder=tmp_path, packages=tmp_path / kind / "src")
        assert (done.stdout, done.returncode) == (f"{name}\n", 0), done.stderr
