"""Drawings and dumps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT, Run, environment
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.driver import optimise
from hlotool.inspect.changes import compare, snapshot
from hlotool.inspect.colours import GROUPS
from hlotool.inspect.diff import unified_diff
from hlotool.inspect.dump import Dump, Filters
from hlotool.inspect.graph import draw
from hlotool.inspect.index_page import index_page
from hlotool.inspect.labels import inline_value, label, short, title, tooltip
from hlotool.inspect.render import render_all
from hlotool.inspect.scene import build_scene
from hlotool.ir import Instruction, Module, UnsupportedError
from hlotool.ir.opcodes import OPCODES
from hlotool.text.load import load
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

SAMPLES = ROOT / "samples"
MODULES = sorted(SAMPLES.glob("*.hlo"))
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not installed")

HEAD = "HloModule m\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
FUSED = (
    HEAD
    + """body {
  p = f32[8]{0} parameter(0)
  k = f32[8]{0} parameter(1)
  m = f32[8]{0} multiply(p, k)
  zero = f32[] constant(0)
  r = f32[] reduce(m, zero), dimensions={0}, to_apply=add
  ROOT t = (f32[8]{0}, f32[]) tuple(m, r)
}

ENTRY main {
  x = f32[8]{0} parameter(0), metadata={op_name="model/input" source_file="model.py" source_line=7}
  two = f32[] constant(2)
  twos = f32[8]{0} broadcast(two), dimensions={}
  f = (f32[8]{0}, f32[]) fusion(x, twos), kind=kInput, calls=body
  first = f32[8]{0} get-tuple-element(f), index=0
  second = f32[] get-tuple-element(f), index=1
  big = f32[3,4]{1,0} constant({ {1,2,3,4}, {1,2,3,4}, {1,2,3,4} })
  ROOT out = (f32[8]{0}, f32[], f32[3,4]{1,0}) tuple(first, second, big)
}
"""
)
BRANCHES = (
    HEAD
    + """negative {
  n = f32[] parameter(0)
  ROOT nn = f32[] negate(n)
}

shared {
  q = f32[] parameter(0)
  e = f32[] exponential(q)
  ROOT l = f32[] log(e)
}

ENTRY main {
  x = f32[] parameter(0)
  which = s32[] parameter(1)
  c1 = f32[] call(x), to_apply=shared
  c2 = f32[] call(c1), to_apply=shared
  ROOT c = f32[] conditional(which, c2, x), branch_computations={shared, negative}
}
"""
)


def instructions(module: Module) -> dict[str, Instruction]:
    return {i.name: i for i in module.instructions()}


def edges(dot: str) -> set[tuple[str, str]]:
    return {(a, b) for a, b in re.findall(r'"([^"]+)" -> "([^"]+)"', dot)} | set(re.findall(r"(\w+) -> (\w+) ", dot))


# ---- labels


def test_titles_say_what_matters() -> None:
    found = instructions(load(SAMPLES / "attention.hlo"))
    assert title(found["visible"]) == "compare GE"
    assert title(found["largest"]) == "reduce maximum"
    assert title(found["q"]) == "parameter 0"
    assert "contract {2} × {2} batch {0} × {0}" in label(found["scores"])
    assert "f32[4,64,64]" in label(found["scores"])


def test_small_constants_are_written_into_their_users() -> None:
    found = instructions(parse(FUSED))
    assert inline_value(found["two"]) == "2"
    assert inline_value(found["twos"]) == "2"
    assert inline_value(found["big"]) is None
    assert inline_value(found["x"]) is None
    assert "( ·, 0 )" in label(found["r"])


def test_tooltips_name_the_source() -> None:
    text = tooltip(instructions(parse(FUSED))["x"])
    assert "model/input" in text
    assert "model.py:7" in text


def test_long_texts_are_cut_in_the_middle() -> None:
    assert short("abcdefghij", 5) == "ab…ij"
    assert len(short("x" * 99, 10)) == 10
    assert short("abc", 3) == "abc"


# ---- drawings


def test_fusions_are_boxes_whose_parameters_are_edges() -> None:
    dot = draw(parse(FUSED))
    assert 'subgraph "cluster_main/f"' in dot
    found = edges(dot)
    assert ("main/x", "main/f/m") in found
    assert ("main/f/m", "main/f/r") in found
    assert ("main/f/m", "main/out") in found  # through get-tuple-element 0
    assert ("main/f/r", "main/out") in found
    assert not any("main/f/t" in pair or "main/first" in pair for pair in found)
    assert '"main/f/k" [label=2' in dot  # the constant that the fusion reads


def test_loops_show_their_computations() -> None:
    found = edges(draw(load(SAMPLES / "while_loop.hlo")))
    assert ("main/start", "main/end/body/state") in found
    assert ("main/start", "main/end/condition/state") in found
    assert ("main/end/body/next", "main/result") in found
    assert ("main/end/body/next", "main/end/body/state") in found  # the next iteration


def test_branches_and_shared_computations() -> None:
    dot = draw(parse(BRANCHES))
    found = edges(dot)
    assert ("main/x", "main/c/branch 1/n") in found
    assert ("main/which", "main/c") in found
    assert ("main/x", "main/c1/computation/q") in found
    assert dot.count("exponential") == dot.count("<b>exponential</b>") + dot.count("= f32[] exponential(")
    assert dot.count("<b>exponential</b>") == 1  # drawn where it is first called
    assert ("main/c1/computation/l", "main/c2") in found
    assert ("main/c2", "main/c") in found
    c2 = next(box for box in build_scene(parse(BRANCHES)).root.children if box.path == "main/c2")
    assert c2.shown == "main/c1"


def test_changed_instructions_are_outlined() -> None:
    module = parse(FUSED)
    plain = draw(module)
    marked = draw(module, [instructions(module)["m"], instructions(module)["f"]])
    assert "#c62828" not in plain
    assert marked.count("#c62828") == 3  # and once in the legend
    assert "new or changed" in marked


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
@pytest.mark.parametrize("pipeline", ["none", "default"])
def test_every_edge_ends_at_a_node(path: Path, pipeline: str) -> None:
    dot = draw(optimise(load(path), pipeline))
    nodes = {
        a or b for a, b in re.findall(r'^\t*(?:"([^"]+)"|([\w.]+)) \[(?:fillcolor|label|color)', dot, re.MULTILINE)
    }
    pairs = re.findall(r'^\t(?:"([^"]+)"|([\w.]+)) -> (?:"([^"]+)"|([\w.]+)) ', dot, re.MULTILINE)
    assert pairs
    assert {a or b for a, b, _, _ in pairs} | {c or d for _, _, c, d in pairs} <= nodes


@needs_dot
@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_graphviz_takes_the_drawings(path: Path) -> None:
    text = draw(optimise(load(path), "default"))
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in done.stdout


def test_names_that_graphviz_could_take_for_something_else() -> None:
    text = FUSED.replace("first", "node").replace("second", "subgraph").replace("big", "edge").replace("out", "graph")
    assert "main/edge" in draw(parse(text))


def test_every_group_of_opcodes_has_a_colour() -> None:
    assert {opcode.group for opcode in OPCODES.values()} <= set(GROUPS)


# ---- what changed


def test_marks_only_what_a_reader_should_look_at() -> None:
    module = load(SAMPLES / "mean.hlo")
    old = snapshot(module)
    assert compare(old, snapshot(module), module).marked == ()
    fused = optimise(module, "fusion")
    marked = {i.opcode for i in compare(old, snapshot(fused), fused).marked}
    assert "fusion" in marked
    assert "multiply" not in marked  # it moved as it was
    merged = optimise(load(SAMPLES / "lstm_cell.hlo"), "fusion")
    before = snapshot(merged)
    again = optimise(merged, "multi-output-fusion")
    marked = {i.opcode for i in compare(before, snapshot(again), again).marked}
    assert "fusion" in marked
    assert marked <= {"fusion", "tuple", "get-tuple-element", "parameter"}


# ---- dumps


def dump(path: Path, directory: Path, *formats: str, **filters: str) -> Dump:
    module = load(path)
    chosen = Filters(**{name: re.compile(pattern) for name, pattern in filters.items()})
    instrument = Dump(module, directory, formats or ("text", "diff", "html", "dot"), chosen)
    optimise(module, "default", instruments=[instrument])
    instrument.finish()
    return instrument


def test_dumps_are_numbered_and_read_back(tmp_path: Path) -> None:
    steps = dump(SAMPLES / "mlp_step.hlo", tmp_path).steps
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == sorted([f for s in steps for f in s.files] + ["index.html", "manifest.json"])
    assert [s.number for s in steps] == list(range(len(steps)))
    assert names[:3] == ["0000.input.dot", "0000.input.hlo", "0000.input.html"]
    assert steps[-1].files[0] == f"{len(steps) - 1:04}.{steps[-1].name}.hlo"
    for step in steps:
        text = (tmp_path / step.files[0]).read_text()
        assert print_module(parse(text)) == text
        assert parse(text).instruction_count() == step.after
    final = optimise(load(SAMPLES / "mlp_step.hlo"), "default")
    assert (tmp_path / steps[-1].files[0]).read_text() == print_module(final)


def test_dumps_list_what_happened(tmp_path: Path) -> None:
    dump(SAMPLES / "mlp_step.hlo", tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    page = (tmp_path / "index.html").read_text()
    assert (manifest["schema_version"], manifest["module"]) == (1, "mlp_step")
    assert manifest["steps"][0]["pass"] == "input"
    for before, step in zip(manifest["steps"], manifest["steps"][1:], strict=False):
        assert step["instructions_before"] == before["instructions_after"]
        assert step["instructions_after"] == step["instructions_before"] + step["added"] - step["removed"]
    assert all(f'"{name}"' in page for step in manifest["steps"] for name in step["files"])
    assert "http" not in page  # it needs no network
    dump(SAMPLES / "mlp_step.hlo", tmp_path, "text")
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    page = (tmp_path / "index.html").read_text()
    assert all(f'href="{name}"' in page for step in manifest["steps"] for name in step["files"])
    assert "http" not in page


def test_a_filter_leaves_the_numbers_as_they_are(tmp_path: Path) -> None:
    every = dump(SAMPLES / "mean.hlo", tmp_path / "a")
    some = dump(SAMPLES / "mean.hlo", tmp_path / "b", passes="fus")
    assert [s.name for s in some.steps] == [s.name for s in every.steps]
    assert [s.number for s in some.steps if s.files] == [0, *(s.number for s in every.steps if "fus" in s.name)]


def test_filters_by_what_changed(tmp_path: Path) -> None:
    every = dump(SAMPLES / "while_loop.hlo", tmp_path / "a")
    body = dump(SAMPLES / "while_loop.hlo", tmp_path / "b", computations="^multiply_and_normalise$")
    assert {s.number for s in body.steps if s.files} < {s.number for s in every.steps}
    none = dump(SAMPLES / "while_loop.hlo", tmp_path / "c", instructions="^no such name$")
    assert [s.number for s in none.steps if s.files] == [0]
    one = dump(SAMPLES / "while_loop.hlo", tmp_path / "d", instructions="^add_fusion")
    assert [s.name for s in one.steps if s.files][1:2] == ["fusion"]


def patched(old: list[str], difference: str) -> list[str]:
    """What ``patch`` makes of a text."""
    result, at = [], 0
    for line in difference.splitlines()[2:]:
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            begin = int(start) - (length != "0")
            result += old[at:begin]
            at = begin
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            result += [line[1:]] if line[0] == " " else []
            at += 1
    return result + old[at:]


def test_diffs_turn_each_text_into_the_next(tmp_path: Path) -> None:
    steps = dump(SAMPLES / "mlp_step.hlo", tmp_path, "text", "diff").steps
    now = (tmp_path / steps[0].files[0]).read_text().splitlines()
    for step in steps[1:]:
        now = patched(now, (tmp_path / step.files[1]).read_text())
        assert now == (tmp_path / step.files[0]).read_text().splitlines()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), st.lists(st.sampled_from("abcdefgh"), max_size=30))
def test_diffs_are_right(old: list[str], new: list[str]) -> None:
    text = unified_diff("\n".join(old), "\n".join(new), "old", "new", context=2)
    assert bool(text) == (old != new)
    assert patched(old, text) == new


def test_diffs_of_long_texts_are_short() -> None:
    old = [f"  x.{n} = f32[] add(x.{n - 1}, x.0)" for n in range(1, 20_001)]
    new = [line for n, line in enumerate(old) if n % 1000]
    new.insert(9000, "  y = f32[] parameter(0)")
    text = unified_diff("\n".join(old), "\n".join(new), "old", "new")
    assert sum(line[:1] == "-" for line in text.splitlines()) == 21
    assert sum(line[:1] == "+" for line in text.splitlines()) == 2


def test_a_second_dump_replaces_the_first(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    dump(SAMPLES / "while_loop.hlo", tmp_path)
    dump(SAMPLES / "mean.hlo", tmp_path)
    dump(SAMPLES / "mean.hlo", tmp_path / "fresh")
    names = {p.name for p in tmp_path.iterdir()} - {"fresh"}
    assert names == {p.name for p in (tmp_path / "fresh").iterdir()} | {"notes.txt"}


def test_a_damaged_manifest_is_no_obstacle(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"steps": [{"files": ["../x.hlo", 3, "a.txt"]}]}'):
        (tmp_path / "manifest.json").write_text(text)
        (tmp_path / "a.txt").write_text("mine")
        dump(SAMPLES / "mean.hlo", tmp_path)
        assert (tmp_path / "a.txt").exists()


def test_dumps_are_the_same_bytes_in_every_process(hlotool: Run, tmp_path: Path) -> None:
    formats = "text,diff,html,dot,buffers,llvm,asm"
    for seed in ("0", "1"):
        done = hlotool(
            "compile", SAMPLES / "while_loop.hlo", "--dump-to", seed, "--dump-format", formats,
            env={"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    first = {p.name: p.read_bytes() for p in (tmp_path / "0").iterdir()}
    assert first == {p.name: p.read_bytes() for p in (tmp_path / "1").iterdir()}
    suffixes = {name.rpartition(".")[2] for name in first}
    assert suffixes == {"hlo", "diff", "html", "dot", "txt", "ll", "s", "json"}
    steps = json.loads(first["manifest.json"])["steps"]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    assert [step["pass"] for step in steps[-3:]] == ["buffers", "llvm", "assembly"]
    assert b"arena: " in first[steps[-3]["files"][0]]
    assert b"define void" in first[steps[-2]["files"][0]]


def test_several_modules_are_dumped_side_by_side(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "two.hlo").write_text(f"{FUSED}\n// -----\n{BRANCHES.replace('HloModule m', 'HloModule other')}")
    assert hlotool("opt", "two.hlo", "--dump-to", "d").returncode == 0
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == ["0000.m", "0001.other"]
    assert hlotool("opt", "two.hlo", "--dump-to", "e", "--dump-filter-module", "oth").returncode == 0
    assert sorted(p.name for p in (tmp_path / "e").iterdir()) == ["0001.other"]


def test_without_dot_the_text_comes_and_the_command_says_how_to_get_it(hlotool: Run, tmp_path: Path) -> None:
    arguments = ("opt", SAMPLES / "mean.hlo", "-o", "out.hlo", "--dump-to", "d", "--dump-format", "svg")
    done = hlotool(*arguments, env={"PATH": str(tmp_path)})
    assert done.returncode == 4
    assert "apt-get install graphviz" in done.stderr
    assert "conda install" in done.stderr
    assert "brew install" in done.stderr
    names = {p.name for p in (tmp_path / "d").iterdir()}
    assert {"0000.input.dot", "index.html", "manifest.json"} <= names
    assert not any(name.endswith((".svg", ".tmp")) for name in names)
    assert "dot is not installed" in (tmp_path / "d" / "index.html").read_text()


def test_a_missing_dot_is_an_unsupported_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="apt-get"):
        dump(SAMPLES / "mean.hlo", tmp_path / "d", "svg")


@needs_dot
def test_pictures(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("compile", SAMPLES / "lstm_cell.hlo", "--dump-to", "d", "--dump-format", "svg")
    assert (done.returncode, done.stderr) == (0, "")
    steps = json.loads((tmp_path / "d" / "manifest.json").read_text())["steps"]
    assert all(len(step["files"]) == 2 for step in steps)
    assert all("<svg" in (tmp_path / "d" / step["files"][1]).read_text() for step in steps)
    assert 'href="0000.input.svg"' in (tmp_path / "d" / "index.html").read_text()


def test_pictures_have_a_time_limit(tmp_path: Path) -> None:
    slow = tmp_path / "dot"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    broken = tmp_path / "bad"
    broken.write_text("#!/bin/sh\nexit 3\n")
    for program in (slow, broken):
        program.chmod(0o755)
    drawing = tmp_path / "x.dot"
    drawing.write_text("digraph {}")
    assert render_all(str(slow), [drawing], 0.3) == {drawing: "no picture: dot took more than 0.3 s"}
    assert render_all(str(broken), [drawing], 10) == {drawing: "no picture: dot ended with status 3"}
    assert render_all(str(tmp_path / "absent"), [drawing], 10)[drawing].startswith("no picture: ")
    assert not (tmp_path / "x.svg").exists()


def test_dumps_stay_when_a_pass_fails(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("compile", SAMPLES / "regression" / "unknown_call.hlo", "--dump-to", "d")
    assert done.returncode == 4
    assert (tmp_path / "d" / "0000.input.hlo").exists()


def test_the_page_escapes_names() -> None:
    page = index_page("<m>", [])
    assert "&lt;m&gt;" in page
    assert "<m>" not in page


def test_drawing_does_not_load_the_compiler() -> None:
    program = "import hlotool.inspect.graph, sys; print('llvmlite' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.strip() == "False"


HOSTILE = (
    "</script><img src=x onerror=alert(1)>&amp;'`javascript:alert(1) \x1b[31m\x07\x85\u202e ]]> --> {{x}} |{<a>} "
    '\\\\N \\"q\\" data:text/html,x'
)
HOSTILE_MODULE = f"""HloModule m

ENTRY e {{
  x = f32[4] parameter(0), metadata={{op_name="{HOSTILE}" source_file="javascript:alert(1)//{HOSTILE}" source_line=3}}
  c = f32[4] custom-call(x), custom_call_target="{HOSTILE}", backend_config="{HOSTILE}", metadata={{op_name="{HOSTILE}/b"}}
  ROOT n = f32[4] negate(c), metadata={{op_name="{HOSTILE}/a"}}, frontend_attributes={{k="{HOSTILE}"}}
}}
"""  # noqa: E501


class _Tags(HTMLParser):
    """The elements of a page, and addresses that are no relative ones."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.wrong: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src") and re.match(r"\s*[\w+.-]+:", value or "")):
                self.wrong.append((tag, name, value))


def test_strings_of_a_module_are_text_in_pages(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(HOSTILE_MODULE)
    assert hlotool("report", "m.hlo", "-o", "pages").returncode == 0
    assert hlotool("graph", "m.hlo", "--scopes", "-o", "pages/graph.html").returncode == 0
    pages = [*(tmp_path / "pages").rglob("*.html")]
    assert len(pages) > 6
    for page in pages:
        text = page.read_text()
        tags = _Tags()
        tags.feed(text)
        assert "img" not in tags.found, page
        assert not tags.wrong, page
        assert not re.search("[\x00-\x08\x0b-\x1f]", text), page


def test_strings_of_a_module_are_text_in_drawings(hlotool: Run) -> None:
    dot = hlotool("graph", "-", "--format", "dot", "--scopes", stdin=HOSTILE_MODULE).stdout
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", dot)
    if shutil.which("dot"):
        drawn = hlotool("graph", "-", "--format", "svg", "--scopes", stdin=HOSTILE_MODULE)
        assert drawn.returncode == 0
        tree = ElementTree.fromstring(drawn.stdout)  # well-formed
        assert not {"script", "img", "image"} & {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert not any(re.match(r"\s*(javascript|data):", value) for e in tree.iter() for value in e.attrib.values())
