"""Processes that start warm are as good as new ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Run, environment
from processes import Processes, may_be_warm


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--help"], ""),
        (["verify", "-"], "HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] multply(x, x)\n}\n"),
        (["fmt", "-"], "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }"),
        (["run", "nowhere.hlo"], ""),
        (["no-such-command"], ""),
        (["run", str(ROOT / "samples" / "mean.hlo"), "--random", "1", "--compare", "evaluate"], ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_they_do_the_same(
    arguments: list[str], text: str, hlotool: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = hlotool(*arguments, stdin=text)
    monkeypatch.setenv("HLOTOOL_TESTS_COLD", "1")
    cold = hlotool(*arguments, stdin=text)
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_which_may_be_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HLOTOOL_TESTS_COLD", raising=False)
    assert may_be_warm({"A": "1", "HLOTOOL_CACHE": "off"}, {"A": "1"})
    assert not may_be_warm({"PYTHONPATH": "elsewhere"}, {"PYTHONPATH": "here"})
    assert not may_be_warm({}, {"LC_ALL": "C"})
    monkeypatch.setenv("HLOTOOL_TESTS_COLD", "1")
    assert not may_be_warm({}, {})


def test_nothing_of_one_reaches_the_next(processes: Processes, tmp_path: Path) -> None:
    """Neither the environment nor the folder; and one that takes too long is ended."""
    (tmp_path / "in").mkdir()
    for folder, extra in ((tmp_path, "1"), (tmp_path / "in", None)):
        values = environment(HLOTOOL_STRICT=extra)
        assert processes.run(["doctor", "--help"], folder, environment=values).code == 0
    loop = "ENTRY e {\n  ROOT x = f32[] parameter(0)\n}"
    values = environment(HLOTOOL_CACHE="off")
    words = ["run", "-", "--random", "0", "-o", "out.npz"]
    assert processes.run(words, tmp_path, stdin=loop.encode(), environment=values).code == 0
    assert (tmp_path / "out.npz").exists()
    assert not (tmp_path / "in" / "out.npz").exists()


def test_one_that_takes_too_long_is_ended(hlotool: Run) -> None:
    loop = (
        "c {\n  t = (s32[]) parameter(0)\n  ROOT b = pred[] constant(true)\n}\n"
        "b {\n  ROOT t = (s32[]) parameter(0)\n}\n"
        'ENTRY e {\n  x = s32[] parameter(0)\n  t = (s32[]) tuple(x)\n'
        '  ROOT w = (s32[]) while(t), condition=c, body=b, frontend_attributes={endless="keep"}\n}'
    )
    words = ["run", "-", "--random", "0", "--backend", "evaluate"]
    with pytest.raises(subprocess.TimeoutExpired):
        hlotool(*words, stdin=loop, timeout=2)
