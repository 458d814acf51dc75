"""Modules with unknown opcodes, attributes and values, and with errors, can be looked at; they do not run."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import Run

from hlotool.cli import cli
from hlotool.ir import ParseError
from hlotool.text.parser import parse

SAMPLE = sorted((Path(__file__).parent / "data" / "wild").glob("*.hlo"))
VIEWS = [
    ["graph"], ["graph", "--format", "dot", "--heat", "bytes"], ["stats"], ["stats", "--format", "json"], ["signature"],
    ["query", "bytes >= 0 and not type == q"], ["hash"], ["fmt"], ["fmt", "--preset", "canonical"],
    ["fmt", "--preset", "fingerprint"], ["fmt", "--preset", "short"], ["fmt", "--preset", "xla"],
]  # fmt: skip

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


STRANGE = """HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }, shiny={1, 2}, entry_computation_layout={(f9[4])->f32[5]{0}}

nine {
  p = f9[4] parameter(0)
  ROOT q = f9[4] negate(p)
}

ENTRY main {
  x = f32[4,4] parameter(0)
  q = f9[4,4]{1,0} parameter(1), sharding={replicatd}
  c = f32[4,4] custom-call(x, q), custom_call_target="nobody_knows"
  w = f32[4,4]{0,1:T(8,128)Q(9)} negate(x)
  v = f32[4,4]{0,1,2} negate(x)
  z = (mystery[4], f32[-2]) negate(q)
  g = mystery[4] get-tuple-element(z), index=0
  h = f9[4] call(g), to_apply=nine
  k = f9[2] constant({1, 2})
  s = s4[2] constant({1, 200})
  n = frob(x)
  m = reshape(x)
  r = f32[4] reduce(x), dimensions={7}
  l = (mystery[4], f32[]) while(z), condition=nine, body=nine
  ROOT u = f32[5,5] negate(w)
}
"""  # noqa: E501


def test_unknown_shapes_and_literals_are_kept_as_they_are_written(hlotool: Run) -> None:
    done = hlotool("fmt", "-", stdin=STRANGE)
    assert (done.returncode, done.stdout) == (0, STRANGE)


@pytest.mark.parametrize("command", VIEWS)
def test_viewing_what_is_strange(command: list[str]) -> None:
    done = CliRunner().invoke(cli, [*command, "-"], input=STRANGE)
    assert (done.exit_code, done.exception) == (0, None)
    assert done.stdout


def test_reports_and_explanations_of_what_is_not_valid(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(STRANGE)
    done = hlotool("report", "m.hlo", "-o", "pages")
    assert (done.returncode, done.stdout.strip()) == (0, "pages/index.html")
    assert "the module is not valid" in (tmp_path / "pages" / "index.html").read_text()
    assert "f9[4,4]" in next((tmp_path / "pages" / "steps").glob("0000.*.hlo")).read_text()
    done = hlotool("explain", "w", "--file", "m.hlo")
    assert done.returncode == 0
    assert "no pass was run, as the module is not valid" in done.stdout
    done = hlotool("explain", "fusion", "m.hlo", "w", "u")
    assert (done.returncode, "the module is not valid" in done.stderr) == (3, True)


def _strange(text: str, draw: random.Random) -> str:
    """A module with something unknown, or wrong, in three places."""
    for pattern, others in draw.choices(_MUTATIONS, k=3):
        places = [*re.finditer(pattern, text)]
        if places:
            place = draw.choice(places)
            text = text[: place.start()] + draw.choice(others) + text[place.end() :]
    return text


_MUTATIONS = [
    (r"(?<=[\]})] )[a-z][a-z\-]+(?=\()", ("frobnicate", "add", "while", "reshape")),
    (r"\b(?:f32|f64|bf16|s32|u32|pred)(?=\[)", ("f9", "s32", "opaque", "c64", "token")),
    (r"(?<=\[)\d+", ("3", "-1", "<=7", "99999999999")),
    (r"(?<=\]\{)[\d,]+", ("7,8", "0", "1,0:Q(2)")),
    (r"\b\w+(?==\{)", ("whatever", "dimensions", "slice")),
    (r"(?<==\{)[^{}]*(?=\})", ("9", "", "a, b", "{1}")),
    (r"(?<=index=)\d+", ("77", "x")),
    (r"(?<=constant\()[^()]*(?=\))", ("...", "{1, 2}", "9e99", "true")),
    (r"(?<=_to_apply=)\w+|(?<=body=)\w+|(?<=condition=)\w+", ("nobody", "main")),
]


@pytest.mark.parametrize("seed", range(40))
def test_viewing_modules_with_errors(seed: int) -> None:
    """What can be read at all can be looked at, and prints to what reads back."""
    draw = random.Random(seed)
    text = _strange(draw.choice(SAMPLE[::3]).read_text(), draw)
    try:
        parse(text, notes=[])
    except ParseError:
        return
    for command in draw.sample(VIEWS, 4):
        done = CliRunner().invoke(cli, [*command, "-"], input=text)
        assert done.exception is None or (command[0] == "query" and done.exit_code == 1), done.exception
    once = CliRunner().invoke(cli, ["fmt", "-"], input=text).stdout
    assert CliRunner().invoke(cli, ["fmt", "-"], input=once).stdout == once


@pytest.mark.parametrize("command", ["verify", "compile", "run", "opt"])
def test_others_refuse(hlotool: Run, command: str) -> None:
    assert hlotool(command, "-", stdin=TEXT).returncode == 3
