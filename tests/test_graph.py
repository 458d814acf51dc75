"""``hlotool graph``: what is drawn, in which form and colours."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, Run
from large_module import large_module

from hlotool.harness.times import measure_times, read_times, times_json
from hlotool.inspect.colours import distinct_colour, heat_colour
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import FIELDS, Records
from hlotool.inspect.scene import Box, build_scene
from hlotool.inspect.scopes import add_scopes, scope_of
from hlotool.inspect.select import between, find_instruction, near
from hlotool.inspect.sharding_colours import sharding_fills
from hlotool.ir import InputError
from hlotool.text.load import load
from hlotool.text.parser import parse

SAMPLES = ROOT / "samples"
ATTENTION = SAMPLES / "attention.hlo"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not installed")


def data(html: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(re.findall(r'id="data">(.*?)</script>', html, re.DOTALL)[0])
    return found


# ---- parts of modules


def test_the_surroundings_of_an_instruction() -> None:
    module = load(ATTENTION)
    found = near(find_instruction(module, "powers"), 1)
    assert found.keep is not None
    assert {i.name for i in found.keep} == {"powers", "shifted", "total", "weights"}
    assert {i.name for i in found.cut} == {"shifted", "total", "weights"}
    alone = near(find_instruction(module, "powers"), 0)
    assert alone.keep == {find_instruction(module, "powers")}
    assert {box.path for box in build_scene(module, found).root.children} == {
        "main/powers", "main/shifted", "main/total", "main/weights",
    }  # fmt: skip


def test_what_many_read_is_not_followed() -> None:
    readers = "\n".join(f"  y{n} = f32[8] add(x, x)" for n in range(30))
    names = ", ".join(f"y{n}" for n in range(30))
    shape = ", ".join(["f32[8]"] * 30)
    root = f"  ROOT t = ({shape}) tuple({names})"
    module = parse(f"HloModule m\nENTRY main {{\n  x = f32[8] parameter(0)\n{readers}\n{root}\n}}\n")
    assert len(near(find_instruction(module, "y3"), 2).keep or ()) < 10
    assert len(near(find_instruction(module, "x"), 1).keep or ()) == 31


def test_paths_between_instructions() -> None:
    module = load(ATTENTION)
    one, other = (find_instruction(module, name) for name in ("scaled", "shifted"))
    for first, second in ((one, other), (other, one)):
        assert {i.name for i in between(first, second).keep or ()} == {
            "scaled", "masked", "largest", "largest_row", "shifted",
        }  # fmt: skip
    with pytest.raises(InputError, match="no path"):
        between(find_instruction(module, "q"), find_instruction(module, "v"))


def test_names_are_suggested() -> None:
    module = load(ATTENTION)
    with pytest.raises(InputError, match="did you mean 'powers'"):
        find_instruction(module, "power")
    assert find_instruction(module, "main/powers") is find_instruction(module, "%powers")


# ---- scopes


def test_scopes_are_read_from_names() -> None:
    assert scope_of("jit(f)/jit(main)/layer/dot") == ("jit(f)", "jit(main)", "layer")
    assert scope_of("transpose(jvp(a/b))/mul") == ("transpose(jvp(a/b))",)
    assert scope_of("add") == scope_of("") == ()


def leaves(box: Box) -> list[str]:
    return sorted(one.path for one in box.walk() if one.kind not in ("scope", "strip"))


@pytest.mark.parametrize("named", [True, False])
def test_scopes_hold_what_was_there(named: bool) -> None:
    scene = build_scene(parse(large_module(3000, named)))
    before = leaves(scene.root)
    flat = len(scene.root.children)
    add_scopes(scene)
    assert leaves(scene.root) == before
    assert len(scene.root.children) < flat / 5
    for box in scene.root.walk():
        assert all(child.parent is box for child in box.children)
        assert len(box.children) <= 100 or box.kind == "strip"
    titles = {box.title for box in scene.root.walk() if box.kind == "scope"}
    assert ({"block_0", "attention", "mlp"} <= titles) is named


def test_small_modules_have_no_scopes_unless_asked() -> None:
    module = parse(large_module(40))
    scene = build_scene(module)
    add_scopes(scene)
    assert not any(box.kind == "scope" for box in scene.root.walk())
    add_scopes(scene, always=True)
    assert any(box.kind == "scope" for box in scene.root.walk())


def chain(parameters: int, boxes: int) -> str:
    """A computation of so many parameters, and so many boxes with the instructions that add them up."""
    lines = [f"p{n} = f32[4] parameter({n})" for n in range(parameters)]
    lines += [f"s{n} = f32[4] add(s{n - 1}, p{n % parameters})" for n in range(1, boxes - parameters + 1)]
    lines[-1] = f"ROOT {lines[-1]}"
    return "ENTRY e {\n" + "\n".join(lines).replace("(s0,", "(p0,") + "\n}\n"


@pytest.mark.parametrize(("boxes", "divided"), [(79, False), (80, False), (81, True), (200, True)])
def test_boxes_are_divided_when_they_are_full(boxes: int, divided: bool) -> None:
    scene = build_scene(parse(chain(2, boxes)))
    assert len(scene.root.children) == boxes
    before = leaves(scene.root)
    add_scopes(scene)
    assert any(box.kind == "scope" for box in scene.root.walk()) is divided
    assert leaves(scene.root) == before


@pytest.mark.parametrize(("parameters", "strip"), [(7, False), (8, False), (9, True), (40, True)])
def test_parameters_are_a_strip_when_they_are_many(parameters: int, strip: bool) -> None:
    scene = build_scene(parse(chain(parameters, 2 * parameters)))
    before = leaves(scene.root)
    add_scopes(scene)
    strips = [box for box in scene.root.walk() if box.kind == "strip"]
    assert [len(box.children) for box in strips] == [parameters] * strip
    assert leaves(scene.root) == before


# ---- records and pages


def test_stages_share_what_is_the_same() -> None:
    module = load(ATTENTION)
    records = Records()
    records.add(build_scene(module), "one")
    count = len(records.known)
    records.add(build_scene(load(ATTENTION)), "two")
    assert len(records.known) == count
    assert records.stages[0]["boxes"] == records.stages[1]["boxes"]


def test_records_say_what_is_known() -> None:
    root = 'ROOT y = f32[4,8] tanh(x), metadata={op_name="a/b"}'
    text = f"HloModule m\nENTRY main {{\n  x = f32[4,8] parameter(0)\n  {root}\n}}\n"
    records = Records({("main", "y"): 0.5})
    records.add(build_scene(parse(text)), "m")
    found = records.data()
    strings = found["strings"]
    rows = [dict(zip(FIELDS, row, strict=True)) for row in found["records"]]
    y = next(row for row in rows if strings[row["path"]] == "main/y")
    assert (y["bytes"], y["flops"], y["moved"], y["seconds"], y["flags"]) == (128, 32, 256, 0.5, 1)
    assert (strings[y["op_name"]], strings[y["opcode"]], strings[y["shape"]]) == ("a/b", "tanh", "f32[4,8]")
    assert strings[y["edges"][0]] == "main/x"


def test_names_cannot_break_out_of_a_page() -> None:
    module = load(ATTENTION)
    module.name = "</script><b>&amp;"
    records = Records()
    records.add(build_scene(module), module.name)
    html = drawing_page(records, PageOptions(module.name))
    assert html.count("</script>") == 3
    assert "<b>&amp;" not in html
    assert data(html)["stages"][0]["name"] == module.name  # type: ignore[index]


def test_heat() -> None:
    assert heat_colour(0) == "#ffffff"
    assert heat_colour(1) == "#e24a33"


# ---- the command


def test_pages_are_the_default(hlotool: Run) -> None:
    done = hlotool("graph", ATTENTION)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("<!DOCTYPE html>")
    assert "http" not in done.stdout
    assert hlotool("graph", ATTENTION, env={"PYTHONHASHSEED": "1"}).stdout == done.stdout


def test_the_form_follows_the_name(hlotool: Run, tmp_path: Path) -> None:
    assert hlotool("graph", ATTENTION, "-o", "x.dot").returncode == 0
    assert (tmp_path / "x.dot").read_text().startswith("digraph attention")
    assert hlotool("graph", ATTENTION, "-o", "x.txt", "--format", "dot").returncode == 0
    assert (tmp_path / "x.txt").read_text() == (tmp_path / "x.dot").read_text()


@needs_dot
def test_pictures(hlotool: Run, tmp_path: Path) -> None:
    assert hlotool("graph", ATTENTION, "-o", "x.png").returncode == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert hlotool("graph", ATTENTION, "-o", "x.PDF").returncode == 0
    assert (tmp_path / "x.PDF").read_bytes().startswith(b"%PDF")
    assert "<svg" in hlotool("graph", ATTENTION, "--format", "svg", "--heat", "flops").stdout


def test_names_of_any_form_and_of_none(hlotool: Run, tmp_path: Path) -> None:
    assert hlotool("graph", ATTENTION, "-o", "plain").returncode == 0
    assert (tmp_path / "plain").read_text().startswith("<!DOCTYPE html>")
    assert hlotool("graph", ATTENTION, "-o", "x.jpg", "--format", "dot").returncode == 0


def colours_of(lines: list[str]) -> set[str]:
    return {colour for line in lines for colour in re.findall(r'(?:fillcolor|bgcolor)="(#\w+)"', line)}


@pytest.mark.parametrize("arguments", [["-p", "default"], ["--heat", "flops"], []])
@pytest.mark.parametrize("name", ["attention", "while_loop", "lstm_cell"])
def test_dot_has_a_legend_of_its_colours(hlotool: Run, name: str, arguments: list[str]) -> None:
    done = hlotool("graph", SAMPLES / f"{name}.hlo", *arguments, "--format", "dot")
    lines = done.stdout.splitlines()
    legend = [line for line in lines if "legend of colours" in line]
    drawn = [line for line in lines if "fillcolor=" in line and line not in legend]
    assert len(legend) == 1
    assert ">result<" in legend[0]
    if "--heat" in arguments:
        assert "flops" in legend[0]
    else:
        assert colours_of(drawn) - {"white"} == colours_of(legend)


def test_options_choose_a_part(hlotool: Run) -> None:
    def nodes(*arguments: object) -> set[str]:
        done = hlotool("graph", *arguments, "--format", "dot")
        assert (done.returncode, done.stderr) == (0, "")
        return set(re.findall(r'^\t*"?([\w/.]+)"? \[', done.stdout, re.MULTILINE)) - {"graph", "node", "edge"}

    assert nodes(ATTENTION, "--around", "powers", "--radius", 0) == {"main/powers"}
    assert nodes(ATTENTION, "--paths", "shifted", "powers") == {"main/shifted", "main/powers"}
    loop = SAMPLES / "while_loop.hlo"
    assert "not_settled/state" in nodes(loop, "--computation", "not_settled")
    assert any("add_fusion" in node for node in nodes(loop, "-p", "default"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--around", "power"], 3, "did you mean 'powers'"),
        (["--computation", "mian"], 3, "did you mean 'main'"),
        (["--paths", "q", "v"], 3, "no path"),
        (["--paths", "q", "v", "--around", "q"], 2, "do not go together"),
        (["--format", "png"], 2, "-o FILE"),
        (["--format", "pdf", "-o", "-"], 2, "-o FILE"),
        (["-o", "x.jpg"], 2, "known are .dot, .html, .pdf, .png, .svg"),
        (["--times", "absent.json"], 3, "absent.json"),
    ],
)
def test_mistakes(hlotool: Run, arguments: list[str], code: int, words: str) -> None:
    done = hlotool("graph", ATTENTION, *arguments)
    assert done.returncode == code
    assert words in done.stderr


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_without_dot_the_command_says_how_to_get_it(hlotool: Run, tmp_path: Path, form: str) -> None:
    done = hlotool("graph", ATTENTION, "-o", f"x.{form}", env={"PATH": str(tmp_path)})
    assert done.returncode == 4
    assert not (tmp_path / f"x.{form}").exists()
    assert "html needs nothing" in done.stderr
    assert "apt-get install graphviz" in done.stderr


# ---- times


def test_times_are_measured_and_read_back(hlotool: Run, tmp_path: Path) -> None:
    from hlotool.harness.inputs import random_inputs

    module = load(SAMPLES / "while_loop.hlo")
    times = measure_times(module, random_inputs(module, 0))
    assert {"next", "state"} & {name for _, name in times}
    assert all(seconds >= 0 for seconds in times.values())
    (tmp_path / "times.json").write_text(json.dumps(times_json(times)))
    assert read_times(str(tmp_path / "times.json")) == times
    done = hlotool("graph", SAMPLES / "while_loop.hlo", "--times", "times.json", "--heat", "time", "--format", "dot")
    assert done.returncode == 0
    assert "#e24a33" in done.stdout  # the one that took longest
    page = hlotool("graph", SAMPLES / "while_loop.hlo", "--times", "evaluate").stdout
    assert '"times":true' in page


def test_heat_of_time_is_that_of_native_code_unless_told_otherwise(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(
        "HloModule m\nENTRY e {\n  p = f32[64] parameter(0)\n  q = f32[64] tanh(p)\n  ROOT r = f32[64] add(q, p)\n}\n"
    )
    drawn = [hlotool("graph", "m.hlo", "--heat", "time", *more, "--format", "dot") for more in ((), ("-O2",))]
    assert [done.returncode for done in drawn] == [0, 0]
    assert "#e24a33" in drawn[0].stdout  # the one that took longest
    assert "fusion" in drawn[1].stdout  # what native code computes


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"times": {"a/b": "x"}}', '{"times": 3}'])
def test_malformed_times(tmp_path: Path, text: str) -> None:
    (tmp_path / "times.json").write_text(text)
    with pytest.raises(InputError, match="expected"):
        read_times(str(tmp_path / "times.json"))


_CUT = """HloModule m, num_partitions=4

ENTRY main {
  x = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[8,8] parameter(1), sharding={devices=[2,2]0,1,2,3}
  v = f32[8,8] parameter(2), sharding={replicated}
  y = f32[8,8] add(x, w), sharding={devices=[4,1]<=[4]}
  ROOT z = (f32[8,8], f32[8,8]) tuple(y, v), sharding={{devices=[4,1]<=[4]}, {replicated}}
}
"""


def test_what_is_cut_alike_has_one_colour(hlotool: Run, tmp_path: Path) -> None:
    fills = {one.name: fill for one, fill in sharding_fills(parse(_CUT).instructions()).items()}
    assert fills["x"] == fills["w"] != fills["y"]
    assert fills["v"] == ("#ffffff", "{replicated}")
    assert fills["z"][1] == "a tuple of several"
    assert len({distinct_colour(n) for n in range(40)}) == 40
    (tmp_path / "m.hlo").write_text(_CUT)
    dot = hlotool("graph", tmp_path / "m.hlo", "--sharding", "--format", "dot").stdout
    assert dot.count(f'fillcolor="{fills["x"][0]}"') == 2
    assert "{devices=[2,2]&lt;=[4]}" in dot
    failed = hlotool("graph", tmp_path / "m.hlo", "--sharding", "--heat", "flops")
    assert failed.returncode == 2
    assert "do not go together" in failed.stderr
    page = data(hlotool("graph", tmp_path / "m.hlo", "--sharding").stdout)
    assert "{devices=[4,1]<=[4]}" in page["strings"]  # type: ignore[operator]
