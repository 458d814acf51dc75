"""All errors of malformed modules: each once, at its place, with its code, and none that follows from another."""

from __future__ import annotations

import random

import malformed
import pytest

from hlotool.ir import HloError
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse

SINGLE, DOUBLE = malformed.lines(malformed.SINGLE), malformed.lines(malformed.DOUBLE)


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


@pytest.mark.parametrize("line", [*SINGLE, *DOUBLE])
def test_statements(line: str) -> None:
    check(malformed.module(line))


@pytest.mark.parametrize("header", malformed.lines(malformed.HEADERS))
def test_headers(header: str) -> None:
    check(malformed.module(header=f"{header}\n\n"))


@pytest.mark.parametrize("seed", range(60))
def test_statements_together(seed: int) -> None:
    """Two or three statements of one computation, and one of another."""
    draw = random.Random(seed)
    check(malformed.module(*draw.sample([*SINGLE, *DOUBLE], draw.choice((2, 3))), other=draw.choice(SINGLE)))
