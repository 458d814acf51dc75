"""What a terminal shows while a module is compiled."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Install, environment

PASS = """import time
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Slow:
    name: ClassVar[str] = "slow"

    def run(self, module, log):
        time.sleep(2)
        return False
"""


@pytest.fixture
def slow(install: Install) -> dict[str, str]:
    """An environment with a pass that takes two seconds."""
    return environment(**install("slow_pass", PASS, "hlotool.passes", slow="Slow"), HLOTOOL_CACHE="off")


@pytest.mark.parametrize("command", ["compile", "run"])
def test_a_terminal_is_told_what_takes_long(slow: dict[str, str], tmp_path: Path, command: str) -> None:
    """Which pass, in a line that is gone at the end."""
    words = [command, str(ROOT / "samples" / "mean.hlo"), "-p", "slow,default"]
    terminal, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hlotool", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=other,
        cwd=tmp_path, env=slow,
    )  # fmt: skip
    os.close(other)
    said = b""
    try:
        while chunk := os.read(terminal, 4096):
            said += chunk
    except OSError:  # Linux: the other end is closed
        pass
    os.close(terminal)
    assert process.wait() == 0, said
    assert b"mean.hlo: pass slow, " in said
    assert said.endswith(b"\r\x1b[2K")


def test_others_are_told_nothing(slow: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hlotool", "compile", str(ROOT / "samples" / "mean.hlo"), "-p", "slow,default"]
    done = subprocess.run(words, cwd=tmp_path, env=slow, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
