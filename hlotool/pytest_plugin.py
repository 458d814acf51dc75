"""A plug-in of pytest, which finds it where hlotool is installed.  It does nothing until it is asked to:

    pytest --hlotool-check            collects all *.hlo files that have checks as tests
    [pytest]                          and this in the configuration, those of these names
    hlotool_check = checks/*.hlo

The fixture ``hlo_snapshot`` holds modules against golden texts in canonical form, beside the test;
``--hlotool-update`` writes those and what checks expect anew.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hlotool.checks.run import Verdict

__all__ = ["hlo_snapshot"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hlotool")
    group.addoption("--hlotool-check", action="store_true", help="collect the checks in all *.hlo files")
    group.addoption("--hlotool-update", action="store_true", help="rewrite what checks and snapshots expect")
    parser.addini("hlotool_check", "files whose checks are collected: patterns, as checks/*.hlo", "args", [])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    config = parent.config
    patterns: list[str] = config.getini("hlotool_check")
    relative = file_path.relative_to(config.rootpath) if file_path.is_relative_to(config.rootpath) else file_path
    named = any(fnmatch.fnmatch(relative.as_posix(), pattern) for pattern in patterns)
    if not named and not (config.getoption("--hlotool-check") and file_path.suffix == ".hlo"):
        return None
    from hlotool.checks.cases import read_text
    from hlotool.checks.run import has_checks

    if not named and not has_checks(read_text(file_path)):
        return None
    found: pytest.Collector = _File.from_parent(parent, path=file_path)
    return found


class _File(pytest.File):
    """A file with checks: its cases are tests, which run together when the first one does."""

    def collect(self) -> Iterable[pytest.Item]:
        from hlotool.checks.cases import cases_in, read_text

        self.verdicts: list[Verdict] | None = None
        for case in cases_in(self.path, read_text(self.path)):
            yield _Item.from_parent(self, name=case.slug, number=case.number, line=case.line)

    def verdict(self, number: int) -> Verdict:
        """Of the case with this number."""
        if self.verdicts is None:
            from hlotool.checks.run import Options
            from hlotool.cli.check_processes import check_here

            self.verdicts, _ = check_here(self.path, Options(update=self.config.getoption("--hlotool-update")))
        return self.verdicts[number - 1]


class _Failure(Exception):  # noqa: N818  # what pytest shows is its text
    """A check that did not pass."""


class _Item(pytest.Item):
    """One case."""

    def __init__(self, *, number: int, line: int, **others: Any) -> None:
        super().__init__(**others)
        self.number = number
        self.line = line

    def runtest(self) -> None:
        assert isinstance(self.parent, _File)
        verdict = self.parent.verdict(self.number)
        if verdict.problems:
            from hlotool.checks.reports import verdict_text

            raise _Failure(verdict_text(verdict))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, _Failure) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name


@pytest.fixture
def hlo_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``hlo_snapshot(module)`` fails where the module is not the one in the snapshot of this test.

    The module may also be text.  Names and source places make no difference.  Snapshots lie in ``__snapshots__``
    beside the test, in files called as the test, with `name` where a test has several.
    """

    def hold(module: Any, name: str = "") -> None:
        from hlotool.checks.snapshots import differs_from, snapshot_text
        from hlotool.inspect.files import write_file
        from hlotool.text.parser import parse

        path = Path(str(request.node.path))
        words = re.sub(r"[^\w.-]+", "-", f"{request.node.name}{f'-{name}' if name else ''}").strip("-")
        file = path.parent / "__snapshots__" / path.stem / f"{words}.txt"
        text = snapshot_text(parse(module) if isinstance(module, str) else module)
        if request.config.getoption("--hlotool-update"):
            if differs_from(file, text) is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_file(file, text)
            return
        differs = differs_from(file, text)
        if differs is not None:
            pytest.fail("\n".join([f"{differs[0]} (in pytest: --hlotool-update)", *differs[1]]), pytrace=False)

    return hold
