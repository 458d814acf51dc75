"""Modules with unknown opcodes, attributes and values, and with errors, can be looked at; they do not run."""

from __future__ import annotations

import json

import pytest
from conftest import Run

TEXT = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,4] parameter(0), newthing={a=1, b={2,3}}
  y = f32[4,4] frobnicate(x, x), dimensions={0,1}, to_apply=add, mode=FAST, metadata={op_name="q"}
  z = f32[4,4] add(x, y), fastmath=yes, sharding={replicatd}
  v = pred[4,4] compare(z, z), direction=SOMEHOW
  k = f32[4] zork(1, 2, "three")
  ROOT u = f32[5,5] negate(z)
}
"""


def test_fmt_keeps_what_it_does_not_know(hlotool: Run) -> None:
    done = hlotool("fmt", "-", stdin=TEXT)
    assert (done.returncode, done.stdout) == (0, TEXT)


@pytest.mark.parametrize(
    "command", [["graph", "--format", "dot"], ["graph"], ["stats"], ["signature"], ["query", "opcode == frobnicate"]]
)
def test_viewing(hlotool: Run, command: list[str]) -> None:
    done = hlotool(*command, "-", stdin=TEXT)
    assert done.returncode == 0
    assert "note[HLO0108]: unknown opcode 'frobnicate'" in done.stderr.replace("<stdin>:11:16: ", "")
    assert "note[HLO0201]" in done.stderr
    assert done.stdout


def test_notes_are_in_json_and_in_drawings(hlotool: Run) -> None:
    notes = json.loads(hlotool("stats", "--format", "json", "-", stdin=TEXT).stdout)["notes"]
    assert [note["code"] for note in notes][:2] == ["HLO0136", "HLO0108"]
    assert "unknown opcode 'frobnicate'" in hlotool("graph", "--format", "dot", "-", stdin=TEXT).stdout


@pytest.mark.parametrize("command", ["verify", "compile", "run", "opt"])
def test_others_refuse(hlotool: Run, command: str) -> None:
    assert hlotool(command, "-", stdin=TEXT).returncode == 3
