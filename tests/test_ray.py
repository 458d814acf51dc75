"""Jobs on Ray, by the executor that the manual shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import ROOT, Run

pytest.importorskip("ray")

HEAD = "// CHECK-COUNT add 1\n"
MODULE = "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] add(a, a)\n}\n"


def test_checks_are_those_of_one_process(hlotool: Run, tmp_path: Path) -> None:
    page = (ROOT / "man" / "guide" / "docs" / "executors.md").read_text(encoding="utf-8")
    text = page.partition('title="on_ray.py"\n')[2].partition("```")[0]
    (tmp_path / "on_ray.py").write_text(text.replace('address="auto"', 'num_cpus=2, log_to_driver=False'))
    (tmp_path / "a.hlo").write_text(HEAD + MODULE)
    (tmp_path / "b.hlo").write_text(HEAD.replace("1", "2") + MODULE)
    one = hlotool("check", ".", "-j", "1")
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = hlotool("check", ".", "--executor", "on_ray:workers", env=env)
    assert (done.returncode, done.stdout) == (1, one.stdout), done.stderr
