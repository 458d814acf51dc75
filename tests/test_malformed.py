"""All errors of malformed modules: each once, at its place, with its code, and none that follows from another."""

from __future__ import annotations

import random
import re
from pathlib import Path

import malformed
import pytest

from hlotool.ir import HloError
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse

SINGLE, DOUBLE, MORE = map(malformed.lines, (malformed.SINGLE, malformed.DOUBLE, malformed.MORE))
SAMPLE = sorted((Path(__file__).parent / "data" / "wild").glob("*.hlo"))


def errors(text: str) -> malformed.Expected:
    try:
        found = verify(parse(text, "m.hlo"))
    except HloError as error:
        found = [*error.diagnostics]
    places = [(d.location, d.code) for d in found]
    return sorted((p.line, p.column, p.end_column, code) for p, code in places if p is not None)


def check(marked: str) -> None:
    text, expected = malformed.plain(marked)
    assert errors(text) == expected


def test_the_frame_has_no_errors() -> None:
    check(malformed.module())


@pytest.mark.parametrize("line", [*SINGLE, *DOUBLE, *MORE])
def test_statements(line: str) -> None:
    check(malformed.module(line))


@pytest.mark.parametrize("header", malformed.lines(malformed.HEADERS))
def test_headers(header: str) -> None:
    check(malformed.module(header=f"{header}\n\n"))


@pytest.mark.parametrize("seed", range(60))
def test_statements_together(seed: int) -> None:
    """Two or three statements of one computation, and one of another."""
    draw = random.Random(seed)
    check(malformed.module(*draw.sample([*SINGLE, *DOUBLE, *MORE], draw.choice((2, 3))), other=draw.choice(SINGLE)))


def test_what_reads_a_wrong_shape_is_not_wrong_for_that() -> None:
    """Neither those that take the declared shape for right, nor those that take the one that it should be."""
    check(f"""HloModule m

{malformed.HELPERS}ENTRY e {{
  x = f32[4] parameter(0)
  r = «HLO0201 f32[5]» negate(x)
  s = f32[4] add(r, x)
  c = f32[4] call(r), to_apply=step
  t = (f32[4], f32[4]) tuple(r, s)
  u = f32[5] negate(r)
  w = f32[4] while(r), condition=test, body=step
  v = «HLO0201 f32[6]» negate(r)
  ROOT q = f32[4] get-tuple-element(t), index=0
}}
""")


PLANTS = [
    (r"(?<= )(?!parameter|constant)[a-z][a-z\-]+(?=\([a-zA-Z_%])", "«HLO0108 frobnicate»"),
    (r"(?<=\()(?!\d)[\w.]+(?=[,)])(?!\) ->)", "«HLO0141 nobody»"),
    (r"(?<== )(?:f32|f64|bf16|s32|u32|pred|f16)(?=\[[\d,]*\](?:\{[\d,]*\})? (?!parameter))", "«HLO0110 f23»"),
    (r"\)$", "), «HLO0136 zyzx»=1"),
    (r"\)$", "), sharding={«HLO0137 zyzx»}"),
    (r"\)$", "), metadata={«HLO0134 zyzx»=1}"),
    (r"(?<=to_apply=)[\w.]+", "«HLO0141 nobody»"),
    (r"(?<=constant\()[\d.\-]+(?=\))", "«HLO0100 zyzx»"),
    (r"(?<=direction=)[A-Z]+", "«HLO0131 ZYZX»"),
    (r"(?<= iota_dimension=)\d+", "«HLO0203 9»"),
]
"""Errors that can be planted anywhere: where, and what stands there instead."""


def planted(text: str, draw: random.Random) -> tuple[str, int]:
    """A module with errors in two to four of its lines, at most one in each, and how many there are."""
    lines, count = text.split("\n"), 0
    for number in draw.sample(range(len(lines)), len(lines)):
        pattern, mark = draw.choice(PLANTS)
        places = [] if " = " not in lines[number] else [*re.finditer(pattern, lines[number])]
        if places and count < 4:
            place = draw.choice(places)
            lines[number] = lines[number][: place.start()] + mark + lines[number][place.end() :]
            count += 1
    return "\n".join(lines), count


@pytest.mark.parametrize("seed", range(60))
def test_errors_planted_in_programs(seed: int) -> None:
    draw = random.Random(seed)
    marked, _ = planted(draw.choice(SAMPLE).read_text(), draw)
    check(marked)
