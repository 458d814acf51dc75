"""Files: several modules in one text, log prefixes, gzip, and what the commands make of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from conftest import Run

from hlotool.ir import HloError, ParseError
from hlotool.text.compare import same
from hlotool.text.load import load, load_all, parse_all
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

ONE = "HloModule one\n\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n"
TWO = ONE.replace("one", "two").replace("negate", "abs")
BAD = ONE.replace("one", "bad").replace("negate", "negat")
SPLIT = f"// about both\n{ONE}\n// -----\n\n{TWO}"


def write(folder: Path, text: str, name: str = "m.hlo") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_split_modules_are_read_apart(tmp_path: Path) -> None:
    modules = load_all(write(tmp_path, SPLIT))
    assert [m.name for m in modules] == ["one", "two"]
    assert same(modules[1], parse(TWO))


@pytest.mark.parametrize("line", ["// -----", "//-----", "  // ---------  ", "// -----\r"])
def test_separators_come_in_several_forms(line: str) -> None:
    assert len(parse_all(f"{ONE}{line}\n{TWO}")) == 2


def test_empty_parts_are_no_modules() -> None:
    assert len(parse_all(f"// RUN: nothing\n// -----\n{ONE}\n// -----\n\n// -----\n{TWO}\n// -----\n")) == 2


def test_comments_between_separators_are_kept(tmp_path: Path, hlotool: Run) -> None:
    text = f"// RUN: nothing\n\n// -----\n\n// about one\n{ONE}"
    assert hlotool("fmt", write(tmp_path, text)).stdout == text
    done = hlotool("fmt", "-i", write(tmp_path, ONE.replace("=", " =") + "// -----\n// the end\n"))
    assert done.returncode == 1
    assert "this comment would be lost" in done.stderr


def test_places_are_those_of_the_whole_file() -> None:
    with pytest.raises(ParseError) as caught:
        parse_all(f"{ONE}// -----\n{BAD}// -----\n{BAD}", "f.hlo")
    lines = [(d.location.line, d.location.column) for d in caught.value.diagnostics if d.location]
    text = f"{ONE}// -----\n{BAD}// -----\n{BAD}".split("\n")
    assert lines == [(n, line.index("negat(") + 1) for n, line in enumerate(text, 1) if "negat(" in line]
    assert len(lines) == 2


def test_instructions_have_the_lines_of_the_whole_file() -> None:
    second = parse_all(SPLIT)[1]
    assert second.entry.root.location is not None
    assert SPLIT.split("\n")[second.entry.root.location.line - 1] == "  ROOT y = f32[4] abs(x)"


def test_one_module_is_asked_of_a_split_file(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="holds 2 modules") as caught:
        load(write(tmp_path, SPLIT))
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "HLO0002"
    assert diagnostic.location is not None
    assert diagnostic.location.line == SPLIT.split("\n").index("// -----") + 2


PREFIXES = [
    "I0000 00:00:00.000000    1234 hlo_module.cc:45] ",
    "W1121 02:46:15.123456   12345 xla/service/compiler.cc:4567] ",
    "I20261121 02:46:15.123456   12345 a.cc:1] ",
    "2026-11-21 02:46:15.123456: I external/xla/xla/service/dump.cc:45] ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_log_prefixes_are_passed_over(tmp_path: Path, prefix: str) -> None:
    module = load(write(tmp_path, "".join(prefix + line for line in ONE.splitlines(True))))
    assert same(module, parse(ONE))
    module = load(write(tmp_path, prefix + ONE))  # only the first line has one
    assert same(module, parse(ONE))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_columns_behind_log_prefixes_are_true(tmp_path: Path, prefix: str) -> None:
    text = "".join(prefix + line for line in BAD.splitlines(True))
    with pytest.raises(ParseError) as caught:
        load(write(tmp_path, text))
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert text.split("\n")[place.line - 1][place.column - 1 :].startswith("negat(")


def test_gzip_files_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo.gz"
    path.write_bytes(gzip.compress(ONE.encode()))
    assert same(load(path), parse(ONE))


@pytest.mark.parametrize("cut", [2, 8, 20, -9, -1])
def test_damaged_gzip_files_are_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "m.hlo.gz"
    path.write_bytes(gzip.compress(ONE.encode())[:cut])
    with pytest.raises(HloError):
        load(path)


# ---- commands


def test_verify_checks_every_module(tmp_path: Path, hlotool: Run) -> None:
    wrong = TWO.replace("f32[4] abs", "f32[5] abs")
    done = hlotool("verify", "--format", "json", write(tmp_path, f"{BAD}// -----\n{wrong}// -----\n{ONE}"))
    assert done.returncode == 3
    errors = json.loads(done.stdout)["errors"]
    assert [e["line"] for e in errors] == [5, 12]
    assert hlotool("verify", write(tmp_path, SPLIT)).returncode == 0


def test_fmt_keeps_modules_apart_and_is_stable(tmp_path: Path, hlotool: Run) -> None:
    path = write(tmp_path, SPLIT)
    text = hlotool("fmt", path).stdout
    assert text.startswith("// about both\n")
    assert [m.name for m in parse_all(text)] == ["one", "two"]
    again = hlotool("fmt", write(tmp_path, text, "again.hlo"))
    assert again.stdout == text
    assert hlotool("fmt", "--check", tmp_path / "again.hlo").returncode == 0
    assert hlotool("fmt", "--check", write(tmp_path, SPLIT.replace("(x)", "( x )"))).returncode == 1


def test_opt_takes_every_module(tmp_path: Path, hlotool: Run) -> None:
    text = hlotool("opt", "-p", "dce", write(tmp_path, SPLIT)).stdout
    assert [m.name for m in parse_all(text)] == ["one", "two"]


def test_commands_that_need_one_module_say_so(tmp_path: Path, hlotool: Run) -> None:
    done = hlotool("run", write(tmp_path, SPLIT))
    assert done.returncode == 3
    assert "holds 2 modules" in done.stderr


def test_the_source_of_a_part_has_the_lines_of_the_file() -> None:
    second = parse_all(SPLIT)[1]
    assert second.source is not None
    assert second.source.split("\n")[-5:] == SPLIT.split("\n")[-5:]
    assert second.source.count("\n") == SPLIT.count("\n")
    assert print_module(second).startswith("HloModule two\n")
