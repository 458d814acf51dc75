"""The examples in the help of commands do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment
from test_diff import MODEL

from hlotool.cli.diff_command import command as diff_command
from hlotool.cli.specialise_command import command as specialise_command
from hlotool.cli.tree_command import command as tree_command

EXAMPLES = [
    line.strip()
    for command in (diff_command, specialise_command, tree_command)
    for line in str(command.help).splitlines()
    if line.strip().startswith("hlotool ")
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: str, tmp_path: Path) -> None:
    model = MODEL.replace("f32[4", "f32[32").replace("f32[] constant(0)", "f32[] parameter(2)").replace("zero", "rate")
    for name in ("before", "model"):
        (tmp_path / f"{name}.hlo").write_text(model)
    (tmp_path / "after.hlo").write_text(model.replace("negate(e)", "abs(e)"))
    script = f'hlotool() {{ "{sys.executable}" -m hlotool "$@"; }}\nset -o pipefail\n{example}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    differs = "hlotool diff" in example
    assert (done.returncode, done.stderr) == (int(differs), "")
    assert done.stdout or list(tmp_path.glob("difference.html")) or list(tmp_path.glob("small.hlo"))
