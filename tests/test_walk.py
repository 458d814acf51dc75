"""The walk of hlotool/README.md: a dot on its way to machine code, through the files named there and in that order."""

from __future__ import annotations

import re
import sys
from types import FrameType

import pytest
from conftest import ROOT

import hlotool

DOT = """HloModule m

ENTRY e {
  a = f32[300,500] parameter(0)
  b = f32[500,700] parameter(1)
  ROOT d = f32[300,700] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_a_dot_goes_as_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_CACHE", "off")
    readme = (ROOT / "hlotool" / "README.md").read_text(encoding="utf-8")
    walk = readme.partition("## A dot on its way")[2].partition("\n## ")[0]
    named = [name for name in re.findall(r"`([\w/]+\.py)`", walk) if (ROOT / "hlotool" / name).is_file()]
    assert len(named) > 20
    package = str(ROOT / "hlotool") + "/"
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(package):
            entered.setdefault(file.removeprefix(package))

    hlotool.compile(hlotool.parse(DOT), cpu="generic")  # what is imported is entered, too
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        hlotool.compile(hlotool.parse(DOT), cpu="generic")
    finally:
        sys.setprofile(before)
    assert [name for name in entered if name in named] == named
