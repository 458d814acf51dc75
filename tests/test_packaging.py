"""What is published: the metadata, and what lies in the wheel and in the source distribution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT

from hlotool import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
needs_hatchling = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed")


def _build(form: str, source: Path, target: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", form, "-d", str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_one_version() -> None:
    """It stands in hlotool/version.py alone; the change log leads up to it."""
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "hlotool/version.py"
    heading = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert heading == "Unreleased" or heading.split()[0] == __version__


@needs_hatchling
def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"hlotool-{__version__}.dist-info/METADATA").decode()
        entries = archive.read(f"hlotool-{__version__}.dist-info/entry_points.txt").decode()
    found = Parser().parsestr(text)
    assert (found["Name"], found["Version"], found["License-Expression"]) == ("hlotool", __version__, "Apache-2.0")
    assert "hlotool developers" in found["Author"]
    classifiers = found.get_all("Classifier") or []
    assert {f"Programming Language :: Python :: 3.{n}" for n in (11, 12, 13, 14)} < set(classifiers)
    assert "Typing :: Typed" in classifiers
    assert found["Keywords"]
    assert found["Description-Content-Type"] == "text/markdown"
    assert set(found.get_all("Provides-Extra") or []) == set(PROJECT["project"]["optional-dependencies"])
    assert "hlotool = hlotool.cli:main" in entries


def test_extras_are_documented() -> None:
    """Those that users want; the others are for working on hlotool."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for extra in PROJECT["project"]["optional-dependencies"]:
        assert f"| `{extra}` |" in text


@needs_hatchling
def test_the_wheel_has_what_is_needed(wheel: Path) -> None:
    names = _names(wheel)
    data = f"hlotool-{__version__}.data/data/share/man"
    pages = {f"{data}/man{page.suffix[1:]}/{page.name}" for page in (ROOT / "man").glob("*.[1-9]")}
    assert len(pages) > 20
    assert {name for name in names if "/share/man/" in name} == pages
    inside = {path.relative_to(ROOT).as_posix() for path in (ROOT / "hlotool").rglob("*") if path.is_file()}
    wanted = {name for name in inside if "__pycache__" not in name}
    assert {name for name in names if name.startswith("hlotool/")} == wanted
    kinds = ["hlotool/py.typed", "hlotool/cli/schemas/", "hlotool/inspect/assets/", "hlotool/starters/templates/"]
    assert all(any(name.startswith(kind) for name in wanted) for kind in kinds)
    others = {name.partition("/")[0] for name in names}
    assert others == {"hlotool", f"hlotool-{__version__}.dist-info", f"hlotool-{__version__}.data"}


@needs_hatchling
def test_the_sources_make_the_same_wheel(wheel: Path, sources: Path, tmp_path: Path) -> None:
    with tarfile.open(sources) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 on
        archive.extractall(tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "README.md", "hlotool", "man", "pyproject.toml",
        "samples",
    ]  # fmt: skip
    again = _build("wheel", folder, tmp_path / "again")
    assert again.name == wheel.name
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert {entry.filename: entry.CRC for entry in one.infolist()} == {
            entry.filename: entry.CRC for entry in other.infolist()
        }


@needs_hatchling
def test_the_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    """Unpacked and alone, away from the sources."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (tmp_path / "mean.hlo").write_bytes((ROOT / "samples" / "mean.hlo").read_bytes())

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "HLOTOOL_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", "import hlotool; print(hlotool.__file__)").startswith(str(tmp_path / "installed"))
    assert "out0: ok" in run("-m", "hlotool", "run", "mean.hlo", "--compare", "evaluate")
    assert "<svg" in run("-c", "import hlotool; print(hlotool.load('mean.hlo')._repr_html_())")
    run("-m", "hlotool", "schema", "compare")
