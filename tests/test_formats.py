"""What ``hlotool verify`` prints for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

from hlotool.ir import Diagnostic, Location
from hlotool.text.diagnostics import render
from hlotool.text.reports import concise, github, sarif
from hlotool.text.sources import with_source

BAD = """HloModule bad

ENTRY main {
  x = f32[4] parameter(0), metadata={op_name="in" source_file="model.py" source_line=3}
  y = f32[5] negate(x), metadata={op_name="neg" source_file="model.py" source_line=7}
  ROOT z = f32[4] negate(x, x)
}
"""
TWICE = """HloModule twice

ENTRY main {
  x = f32[4] parameter(0)
  x = f32[4] negate(x)
  ROOT y = f32[4] abs(x)
}
"""
FRAMES = """HloModule frames

FileNames
1 "layers.py"

FunctionNames
1 "forward"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}

StackFrames
1 {file_location_id=1}

ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[5] negate(x), metadata={op_name="neg" stack_frame_id=1}
}
"""


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.hlo"
    path.write_text(BAD)
    return path


def test_text_shows_source_lines_carets_hints_and_the_program(hlotool: Run, bad: Path) -> None:
    done = hlotool("verify", bad.name)
    assert done.returncode == 3
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "bad.hlo:5:7: error[HLO0201]: y: negate gives f32[4], f32[5] is declared"
    assert lines[1].strip().startswith("y = f32[5] negate(x)")
    assert lines[2] == "  " + " " * 6 + "^^^^^^"
    assert "model.py:7:1: note: this is written here, says the metadata" in lines
    assert "hint: did you mean 'f32[4]{0}'?" in lines
    assert "bad.hlo:6:29: error[HLO0205]: z: negate takes 1 operand, 2 are given" in lines
    assert lines[-1] == "2 errors; 'hlotool explain HLO0201' says more"


def test_secondary_places_are_shown(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "twice.hlo").write_text(TWICE)
    lines = hlotool("verify", "twice.hlo").stderr.splitlines()
    assert lines[0] == "twice.hlo:5:3: error[HLO0143]: instruction 'x' is defined twice"
    assert "twice.hlo:4:3: note: first defined here" in lines
    assert "    x = f32[4] parameter(0)" in lines


def test_the_program_is_found_through_stack_frames(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "frames.hlo").write_text(FRAMES)
    done = hlotool("verify", "--format", "json", "frames.hlo")
    (error,) = json.loads(done.stdout)["errors"]
    related = error["related"][-1]
    assert (related["file"], related["line"], related["column"]) == ("layers.py", 12, 4)


def test_no_colour_unless_on_a_terminal(hlotool: Run, bad: Path) -> None:
    assert "\033" not in hlotool("verify", bad.name).stderr
    assert "\033" in hlotool("--color", "always", "verify", bad.name).stderr


def test_concise_is_a_line_each(hlotool: Run, bad: Path) -> None:
    done = hlotool("verify", "--format", "concise", bad.name)
    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        "bad.hlo:5:7: HLO0201 y: negate gives f32[4], f32[5] is declared (did you mean 'f32[4]{0}'?)",
        "bad.hlo:6:29: HLO0205 z: negate takes 1 operand, 2 are given",
    ]


def test_json_keeps_its_shape(hlotool: Run, bad: Path) -> None:
    data = json.loads(hlotool("verify", "--format", "json", bad.name).stdout)
    assert (data["schema_version"], data["kind"]) == (1, "verify")
    first = data["errors"][0]
    assert set(first) == {
        "code", "severity", "file", "line", "column", "end_line", "end_column", "message", "hint", "suggestion",
        "related",
    }  # fmt: skip
    assert first["suggestion"] == "f32[4]{0}"


def test_github_commands(hlotool: Run, bad: Path) -> None:
    lines = hlotool("verify", "--format", "github", bad.name).stdout.splitlines()
    assert lines[1] == (
        "::error file=bad.hlo,line=6,endLine=6,col=29,endColumn=30,title=HLO0205"
        "::z: negate takes 1 operand, 2 are given"
    )
    assert "%0Adid you mean" in lines[0]


def test_github_escapes() -> None:
    place = Location("a,b:c%.hlo", 1, 2, 2, 3)
    assert github(Diagnostic("50% of\r\na, b: c", place, None, "HLO0100")) == (
        "::error file=a%2Cb%3Ac%25.hlo,line=1,endLine=2,title=HLO0100::50%25 of%0D%0Aa, b: c"
    )
    assert github(Diagnostic("no place", None, None, "HLO0800")) == "::error title=HLO0800::no place"


def test_sarif_has_the_structure_of_the_standard(hlotool: Run, bad: Path) -> None:
    log = json.loads(hlotool("verify", "--format", "sarif", bad.name).stdout)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "hlotool"
    assert [rule["id"] for rule in rules] == ["HLO0201", "HLO0205"]
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] <= region["endLine"]
        assert 1 <= region["startColumn"] <= region["endColumn"]
    first = run["results"][0]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad.hlo"
    (change,) = first["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"]["text"] == "f32[4]{0}"
    assert first["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "model.py"


def test_sarif_of_nothing_and_of_odd_names() -> None:
    assert sarif([], "1")["runs"][0]["results"] == []
    place = Location("a b%.hlo", 1, 1, 1, 2)
    (result,) = sarif([Diagnostic("m", place, None, "HLO0100")], "1")["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b%25.hlo"
    assert "locations" not in sarif([Diagnostic("m", None, None, "HLO0800")], "1")["runs"][0]["results"][0]


def test_max_errors(hlotool: Run, bad: Path) -> None:
    done = hlotool("verify", "--format", "concise", "--max-errors", "1", bad.name)
    assert done.returncode == 3
    assert len(done.stdout.splitlines()) == 1
    assert "1 more errors; --max-errors 0 shows all" in done.stderr
    assert len(hlotool("verify", "--format", "concise", "--max-errors", "0", bad.name).stdout.splitlines()) == 2


@pytest.mark.parametrize("form", ["text", "concise", "json", "github", "sarif"])
def test_a_good_module_gives_nothing(hlotool: Run, tmp_path: Path, form: str) -> None:
    (tmp_path / "good.hlo").write_text(TWICE.replace("  x = f32[4] negate(x)\n", ""))
    done = hlotool("verify", "--format", form, "good.hlo")
    assert done.returncode == 0
    assert done.stderr == ""
    if form == "json":
        assert json.loads(done.stdout)["errors"] == []


def test_concise_stays_on_one_line() -> None:
    assert concise(Diagnostic("a\nb", Location("f", 1, 1, 1, 1), None, "HLO0100")) == "f:1:1: HLO0100 a b"


def test_places_in_other_files_show_no_line_of_this_one() -> None:
    diagnostic = Diagnostic("m", Location("f", 1, 1, 1, 2), related=(("there", Location("g", 1, 1, 1, 2)),))
    assert render(diagnostic, "text of f").count("text of f") == 1


@pytest.mark.parametrize(
    "line", ["metadata={", "metadata={op_name=}", 'metadata={source_file="x', "metadata={stack_frame_id=9}"]
)
def test_broken_metadata_adds_no_note(line: str) -> None:
    diagnostic = Diagnostic("m", Location("f", 1, 1, 1, 2))
    assert with_source(diagnostic, line) == diagnostic
