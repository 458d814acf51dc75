"""The pages, in a browser: opened, searched, expanded, flipped through, looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, needs_chromium
from conftest import ROOT, Run
from large_module import large_module
from models import model

from hlotool.driver import optimise
from hlotool.inspect.dump import Dump
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.ir import Module
from hlotool.text.load import load
from hlotool.text.parser import parse

pytestmark = needs_chromium

SAMPLES = ROOT / "samples"

CHECK = """(() => {
  const wrong = [], drawn = View.drawn, eps = 0.75;
  const inside = (a, b) => a.x >= b.x - eps && a.y >= b.y - eps
    && a.x + a.w <= b.x + b.w + eps && a.y + a.h <= b.y + b.h + eps;
  const groups = new Map();
  for (const box of drawn.boxes) {
    if (!(box.w > 0 && box.h > 0)) wrong.push(`${box.path} has no size`);
    if (!inside(box, box.parent)) wrong.push(`${box.path} leaves ${box.parent.path}`);
    if (!groups.has(box.parent)) groups.set(box.parent, []);
    groups.get(box.parent).push(box);
  }
  for (const boxes of groups.values()) {
    const sorted = boxes.slice().sort((a, b) => a.y - b.y);
    for (let i = 0; i < sorted.length; i++) {
      for (let k = i + 1; k < sorted.length && sorted[k].y < sorted[i].y + sorted[i].h - eps; k++) {
        const [a, b] = [sorted[i], sorted[k]];
        if (a.x < b.x + b.w - eps && b.x < a.x + a.w - eps) wrong.push(`${a.path} covers ${b.path}`);
      }
    }
  }
  for (const link of drawn.links) {
    const name = `${link.source.path} -> ${link.target.path}`;
    if (!link.segments.length && link.level) wrong.push(`${name} has no line`);
    const last = link.segments[link.segments.length - 1];
    if (!last || last.around) continue;
    if (last.points.some(n => !Number.isFinite(n))) { wrong.push(`${name} runs nowhere`); continue; }
    const [x, y] = last.points.slice(-2), t = link.target;
    const edge = Math.min(Math.abs(y - t.y), Math.abs(y - t.y - t.h));
    if (x < t.x - 1 || x > t.x + t.w + 1 || edge > 1) wrong.push(`${name} misses its end`);
  }
  return wrong.slice(0, 5);
})()"""
"""What is wrong with a drawing: boxes that cover each other or leave their box, lines that end nowhere."""

CORNER = "(r => [r.x, r.y])(document.getElementById('canvas').getBoundingClientRect())"
ON_SCREEN = """(box => [box.x * View.camera.scale + View.camera.x, box.y * View.camera.scale + View.camera.y,
  box.w * View.camera.scale, box.h * View.camera.scale])"""

CHANGES_IN_VIEW = """View.drawn.boxes.some(box => {
  const [x, y] = [box.x * View.camera.scale + View.camera.x, box.y * View.camera.scale + View.camera.y];
  const c = document.getElementById("canvas").getBoundingClientRect();
  return View.model.marked.has(box.path) && x > -20 && y > -20 && x < c.width && y < c.height;
})"""

COVERED = """(() => {
  const covered = [], s = View.camera.scale;
  for (const box of View.drawn.boxes) {
    const title = View.isOpen(box) && View.headingAt(box, box, s);
    if (!title) continue;
    const [right, bottom] = [title.x + title.w, title.y + title.h];
    for (const other of View.drawn.boxes) {
      if (other.parent !== box) continue;
      if (title.x < other.x + other.w && other.x < right && title.y < other.y + other.h && other.y < bottom)
        covered.push(`${other.path} covers the title of ${box.path}`);
    }
    if (title.x < box.x || right > box.x + box.w || title.y < box.y) covered.push(`${box.path}: title outside`);
  }
  return covered.slice(0, 5);
})()"""
"""Titles of open boxes that boxes in them cover, or that are larger than their box."""

COLOURS = """(() => {
  const c = document.getElementById("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
  return seen.size;
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _no_errors(browser: Browser) -> Iterator[None]:
    browser.errors.clear()
    yield
    assert browser.errors == []


def page(module: Module, path: Path) -> Path:
    scene = build_scene(module)
    add_scopes(scene)
    records = Records()
    records.add(scene, module.name)
    path.write_text(drawing_page(records, PageOptions(module.name)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = optimise(load(SAMPLES / "lstm_cell.hlo"), "simplify,fusion,multi-output-fusion")
    return page(module, tmp_path_factory.mktemp("lstm") / "lstm.html")


def test_the_command_writes_a_page_that_stands_alone(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    done = hlotool("graph", SAMPLES / "lstm_cell.hlo", "-p", "default", "-o", "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    browser.open(tmp_path / "page.html")
    browser.settle()
    assert len(browser.requests()) == 1  # itself
    assert browser.evaluate(COLOURS) > 20
    picture = browser.screenshot(tmp_path / "page.png")
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_search_finds_names_opcodes_and_shapes(browser: Browser, lstm: Path) -> None:
    browser.open(lstm)
    browser.press("/")
    assert browser.evaluate("document.activeElement.id") == "find"
    browser.type("logistic")
    assert browser.evaluate("View.found.length") == 3
    assert browser.evaluate("document.getElementById('results').children.length") == 3
    browser.press("Enter")
    assert browser.evaluate("View.word(View.selected, 'opcode')") == "logistic"
    assert "f32[8,32]" in browser.evaluate("document.getElementById('panel').textContent")
    browser.press("Escape")
    assert browser.evaluate("View.search('dot 8,128')") == 2
    assert browser.evaluate("View.search('no such thing')") == 0


def test_boxes_open_and_close(browser: Browser, lstm: Path) -> None:
    browser.open(lstm)
    shown = browser.evaluate("View.drawn.boxes.length")
    fusion = "View.box('main/add_multiply_fusion.1')"
    assert browser.evaluate(f"View.isOpen({fusion})")
    browser.evaluate(f"View.select({fusion})")
    browser.press("e")
    browser.settle()
    assert not browser.evaluate(f"View.isOpen({fusion})")
    assert browser.evaluate(CHECK) == []
    less = browser.evaluate("View.drawn.boxes.length")
    assert less == shown - browser.evaluate(f"{fusion}.children.length")
    browser.press("Enter")
    assert browser.evaluate("View.drawn.boxes.length") == shown
    browser.press("C")
    assert browser.evaluate("View.drawn.boxes.every(box => !View.isOpen(box))")
    browser.press("E")
    assert browser.evaluate("View.drawn.boxes.length") == shown
    x, y, _, _ = browser.evaluate(f"{ON_SCREEN}({fusion})")
    left, top = browser.evaluate(CORNER)
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            browser.mouse(kind, left + x + 6, top + y + 6, button="left", clickCount=count)
    assert not browser.evaluate(f"View.isOpen({fusion})")


def test_arrows_walk_along_edges(browser: Browser, lstm: Path) -> None:
    browser.open(lstm)
    browser.evaluate("View.select(View.box('main/from_x'))")
    browser.press("ArrowUp")
    assert browser.evaluate("View.selected.path") in ("main/x", "main/wx")
    browser.press("ArrowDown")
    assert browser.evaluate("View.selected.path") == "main/from_x"
    browser.press("ArrowRight")
    assert browser.evaluate("View.selected.path") == "main/from_h"
    browser.press("Escape")
    assert browser.evaluate("View.selected") is None


def test_hovering_tells_what_is_known(browser: Browser, tmp_path: Path) -> None:
    metadata = 'metadata={op_name="net/act/tanh" source_file="net.py" source_line=7}'
    body = f"x = f32[4,8]{{1,0}} parameter(0)\n ROOT y = f32[4,8]{{1,0}} tanh(x), {metadata}"
    text = f"HloModule m\nENTRY main {{\n {body}\n}}"
    browser.open(page(parse(text), tmp_path / "page.html"))
    left, top = browser.evaluate(CORNER)
    x, y, width, height = browser.evaluate(f"{ON_SCREEN}(View.drawn.boxes[1])")
    browser.mouse("mouseMoved", left + x + width / 2, top + y + height / 2)
    tip = browser.evaluate("document.getElementById('tip').textContent")
    for words in ("tanh", "f32[4,8]{1,0}", "128 B", "net/act/tanh", "net.py:7", "flops"):
        assert words in tip, (words, tip)


def test_zoom_fit_colours_and_help(browser: Browser, lstm: Path) -> None:
    browser.open(lstm)
    scale = browser.evaluate("View.camera.scale")
    browser.mouse("mouseWheel", 700, 450, deltaX=0, deltaY=-300)
    assert browser.evaluate("View.camera.scale") > scale
    browser.press("f")
    assert browser.evaluate("View.camera.scale") == pytest.approx(scale, rel=0.5)
    browser.press("?")
    assert browser.evaluate("!document.getElementById('help').hidden")
    browser.press("Escape")
    before = browser.evaluate("document.getElementById('legend').textContent")
    browser.press("c")
    assert browser.evaluate("document.getElementById('colour').value") == "bytes"
    assert browser.evaluate("document.getElementById('legend').textContent") != before


def test_colours_by_sharding(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    path = ROOT / "tests" / "data" / "sharded" / "mlp_data_parallel.hlo"
    hlotool("graph", path, "-p", "sharding-propagation", "--sharding", "-o", tmp_path / "g.html")
    browser.open(tmp_path / "g.html")
    assert browser.evaluate("document.getElementById('colour').value") == "sharding"
    assert "{devices=[8,1]<=[8]}" in browser.evaluate("document.getElementById('legend').textContent")
    browser.press("o")
    assert not browser.evaluate("document.getElementById('outline').hidden")


def test_dark_pages_are_dark(browser: Browser, lstm: Path) -> None:
    pixel = "[...document.getElementById('canvas').getContext('2d').getImageData(5, 5, 1, 1).data].slice(0, 3)"
    browser.open(lstm)
    browser.settle()
    assert min(browser.evaluate(pixel)) > 200
    browser.dark(True)
    browser.settle()
    assert max(browser.evaluate(pixel)) < 60
    browser.dark(False)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.hlo")), ids=lambda path: path.stem)
def test_drawings_are_in_order(browser: Browser, tmp_path: Path, path: Path) -> None:
    for name, module in (("plain", load(path)), ("fused", optimise(load(path), "default"))):
        browser.open(page(module, tmp_path / f"{name}.html"))
        assert browser.evaluate(CHECK) == []
        for key in ("C", "E"):
            browser.press(key)
            assert browser.evaluate(CHECK) == []


@pytest.mark.parametrize("name", ["bert_block", "random_normal", "llama_decode_scan", "switch"])
def test_drawings_of_models_are_in_order(browser: Browser, tmp_path: Path, name: str) -> None:
    browser.open(page(optimise(load(model(name)), "default"), tmp_path / "page.html"))
    for key in ("", "E"):
        if key:
            browser.press(key)
        assert browser.evaluate(CHECK) == []


@pytest.mark.parametrize("named", [True, False], ids=["scopes", "parts"])
def test_large_modules_open_at_once_and_stay_usable(browser: Browser, tmp_path: Path, named: bool) -> None:
    module = parse(large_module(20_000, named))
    path = page(module, tmp_path / "page.html")
    times = []
    for _ in range(3):
        browser.open(path)
        times.append(browser.evaluate("Number(document.body.dataset.ready)"))
        if times[-1] < 3000:
            break
    assert min(times) < 3000
    assert browser.evaluate("View.model.boxes.length") > 15_000
    assert 2 <= browser.evaluate("View.drawn.boxes.length") <= 300  # closed: what shows can be read
    assert browser.evaluate(CHECK) == []
    assert browser.evaluate("View.search('exponential')") > 500
    browser.evaluate("View.select(View.found[300])")  # opens what holds it
    browser.settle()
    assert browser.evaluate("View.drawn.boxes.includes(View.selected)")
    assert browser.evaluate(CHECK) == []
    browser.evaluate("View.toggleAll(true)")
    browser.settle()
    assert browser.evaluate("View.drawn.boxes.length") > 15_000
    assert browser.evaluate(CHECK) == []


def test_steps_are_flipped_through(browser: Browser, tmp_path: Path) -> None:
    module = load(SAMPLES / "mlp_step.hlo")
    dump = Dump(module, tmp_path)
    optimise(module, "default", instruments=[dump])
    dump.finish()
    steps = [step for step in json.loads((tmp_path / "manifest.json").read_text())["steps"] if step["files"]]
    browser.open(tmp_path / "index.html")
    assert browser.evaluate("document.querySelectorAll('#stages button').length") == len(steps)
    for step in steps[1:]:
        kept = f"View.drawn.boxes.filter(box => !box.children.length).map(box => [box.path, {ON_SCREEN}(box)[0]])"
        before = dict(browser.evaluate(kept))
        browser.press("ArrowRight")
        browser.settle()
        assert browser.evaluate("View.stage.name") == step["pass"]
        assert browser.evaluate(CHECK) == []
        after = dict(browser.evaluate(kept))
        same = [path for path in before if path in after]
        assert same
        held = any(abs(before[path] - after[path]) < 1 for path in same)  # the eye has something to hold on to
        assert held or browser.evaluate(CHANGES_IN_VIEW)
        if step["pass"] == "fusion":
            assert browser.evaluate("View.model.marked.size") > 0
    browser.press("ArrowLeft")
    assert browser.evaluate("View.stage.name") == steps[-2]["pass"]
    browser.press("d")
    text = browser.evaluate("document.getElementById('diff').textContent")
    assert text.startswith("---")
    browser.open(tmp_path / "index.html", "#stage=1")
    assert browser.evaluate("View.stage.place") == 1
    for step in steps:
        browser.open(tmp_path / next(name for name in step["files"] if name.endswith(".html")))
        assert browser.evaluate("View.drawn.boxes.length") > 0


def test_reports_can_be_read(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    done = hlotool("report", SAMPLES / "mlp_step.hlo", "-o", "out")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "out/index.html\n")
    for name in ("index", "decisions", "passes", "cost", "memory"):
        browser.open(tmp_path / "out" / f"{name}.html")
        assert len(browser.requests()) == 1
        assert browser.evaluate("document.querySelectorAll('table tbody tr').length") > 3
        links = browser.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href').split('#')[0])")
        assert all((tmp_path / "out" / link).exists() for link in links)
    browser.open(tmp_path / "out" / "memory.html")
    assert browser.evaluate("document.querySelectorAll('svg rect').length") > 3
    browser.open(tmp_path / "out" / "decisions.html")
    browser.press("/")
    browser.type("HLO4010")
    shown = browser.evaluate("[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).length")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert shown == summary["decisions"]["HLO4010"] > 0
    assert summary["after"]["bytes"] < summary["before"]["bytes"]
    link = browser.evaluate("document.querySelector('td a[href*=at]').getAttribute('href')")
    page_name, _, place = link.partition("#")
    browser.open(tmp_path / "out" / page_name, f"#{place}")
    assert browser.evaluate("View.selected.path") == place.partition("at=")[2]
    stages = browser.evaluate("document.querySelectorAll('#stages button').length")
    drawn = browser.evaluate("View.stage.place")
    names = []
    for _ in range(drawn + 1, stages):  # what code generation made
        browser.press("ArrowRight")
        names.append(browser.evaluate("View.stage.name"))
        assert browser.evaluate("!document.getElementById('listing').hidden")
        assert len(browser.evaluate("document.getElementById('listing').textContent")) > 300
    assert names == ["buffers", "llvm", "assembly"]
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.evaluate("View.stage.place") == drawn
    assert browser.evaluate("document.getElementById('listing').hidden")


# ---- parts, columns, strips, reasons, changes


def open_page(hlotool: Run, browser: Browser, tmp_path: Path, module: str, *arguments: object) -> None:
    (tmp_path / "m.hlo").write_text(module)
    done = hlotool("graph", "m.hlo", *arguments, "-o", "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    browser.open(tmp_path / "page.html")
    browser.settle()


def chain(count: int) -> str:
    lines = ["x0 = f32[8] parameter(0)", *(f"x{n} = f32[8] tanh(x{n - 1})" for n in range(1, count))]
    return "HloModule chain\nENTRY main {\n" + "\n".join(lines) + f"\nROOT y = f32[8] exponential(x{count - 1})\n}}\n"


def layers(count: int) -> str:
    """Products with weights and biases of their own, normalised, as often as there are layers."""
    weights = [f"w{n} = f32[64,64] parameter({2 * n + 1})\nb{n} = f32[64] parameter({2 * n + 2})" for n in range(count)]
    lines = ["h0 = f32[32,64] parameter(0)", *weights]
    contract = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for n in range(count):
        lines += [
            f"d{n} = f32[32,64] dot(h{n}, w{n}), {contract}", f"e{n} = f32[32,64] broadcast(b{n}), dimensions={{1}}",
            f"a{n} = f32[32,64] add(d{n}, e{n})", f"t{n} = f32[32,64] tanh(a{n})",
            f"s{n} = f32[32,64] multiply(t{n}, t{n})", f"f{n} = f32[32,64] dot(s{n}, w{n}), {contract}",
            f"g{n} = f32[32,64] exponential(f{n})", f"h{n + 1} = f32[32,64] add(g{n}, h{n})",
        ]  # fmt: skip
    return "HloModule layers\nENTRY main {\n" + "\n".join(lines) + f"\nROOT y = f32[32,64] negate(h{count})\n}}\n"


TITLES = "View.model.boxes.filter(box => View.word(box, 'kind') === 'scope').map(box => View.word(box, 'title'))"


def test_parts_are_named_after_what_is_in_them(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, layers(14))
    titles = browser.evaluate(TITLES)
    for number in range(1, 15):
        (title,) = [one for one in titles if one.endswith(f"layer {number}")]
        assert title.startswith("dot ×2 · "), title
    assert not any(title.startswith("part ") for title in titles)
    box = "View.model.boxes.find(box => View.word(box, 'title').endsWith('layer 3'))"
    assert browser.evaluate(f"View.word({box}, 'inner')") == "dot"  # what colours it
    assert browser.evaluate(f"View.word({box}, 'shape')") == "f32[32,64]"
    browser.evaluate(f"View.select({box})")
    rows = browser.evaluate("[...document.querySelectorAll('#panel .totals tr')].map(row => row.textContent)")
    assert rows[1].startswith("dot2524.3 k")  # two of 32 * 64 * 64 * 2 flops
    assert browser.evaluate(CHECK) == []


def test_tall_drawings_use_the_width(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    for module in (chain(70), layers(14)):
        open_page(hlotool, browser, tmp_path, module)
        for key in ("f", "E"):
            browser.press(key)
            browser.settle()
            wide, tall = browser.evaluate("[View.model.root.w, View.model.root.h]")
            assert 0.5 < wide / tall < 4, (wide, tall)
            assert browser.evaluate(CHECK) == []


def test_many_parameters_are_a_strip(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, layers(20))
    strips = "View.drawn.boxes.filter(box => View.word(box, 'kind') === 'strip')"
    assert browser.evaluate(f"{strips}.length") == 1
    assert browser.evaluate("View.drawn.boxes.filter(box => View.word(box, 'opcode') === 'parameter').length") == 0
    box = "View.model.boxes.find(box => View.word(box, 'title').endsWith('layer 3'))"
    assert browser.evaluate(f"View.notesOf({box})") == ["← p5 p6"]
    browser.evaluate(f"View.toggle({strips}[0], true)")
    browser.settle()
    assert browser.evaluate("View.drawn.boxes.filter(box => View.word(box, 'opcode') === 'parameter').length") == 41
    assert browser.evaluate(CHECK) == []
    open_page(hlotool, browser, tmp_path, layers(2))  # few stay among the others
    assert browser.evaluate(f"{strips}.length") == 0


def test_nodes_say_why(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, layers(3), "-p", "default")
    browser.press("C")
    notes = browser.evaluate("View.drawn.boxes.flatMap(box => View.notesOf(box))")
    assert any(note.startswith("fused: saves ") for note in notes)
    assert any("HLO4" in note for note in notes)
    box = "View.model.boxes.find(box => View.notesOf(box).some(note => note.includes('HLO4')))"
    browser.evaluate(f"View.select({box})")
    code = browser.evaluate("document.querySelector('#panel .code').textContent")
    assert browser.evaluate(f"!document.querySelector('#panel details[data-code={code}]').open")
    browser.evaluate("document.querySelector('#panel .code').click()")
    assert browser.evaluate(f"document.querySelector('#panel details[data-code={code}]').open")
    assert len(browser.evaluate(f"document.querySelector('#panel details[data-code={code}] p').textContent")) > 20


def test_titles_are_never_covered(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    for module in (layers(14), (SAMPLES / "lstm_cell.hlo").read_text()):
        open_page(hlotool, browser, tmp_path, module, "-p", "default")
        browser.press("E")
        for factor in (1, 0.6, 0.6, 0.6, 0.6, 40):
            browser.evaluate(f"View.zoom({factor}, 0, 0)")
            assert browser.evaluate(COVERED) == []


def test_only_the_result_is_outlined_as_one(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, (SAMPLES / "while_loop.hlo").read_text(), "-p", "default")
    flags = "View.model.boxes.filter(box => box.record[View.model.boxes[0].record.length - 2] & 1).map(box => box.path)"
    assert len(browser.evaluate(flags)) == 1


def test_n_goes_from_change_to_change(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(layers(14))
    done = hlotool("opt", "m.hlo", "-p", "fusion,product-fusion", "--dump-to", "steps", "-o", "out.hlo")
    assert (done.returncode, done.stderr) == (0, "")
    browser.open(tmp_path / "steps" / "index.html")
    assert browser.evaluate("View.stage.place") == 0  # nothing is changed there
    browser.press("n")
    browser.settle()
    place = browser.evaluate("View.stage.place")
    assert place > 0
    seen = []
    for _ in range(3):
        assert browser.evaluate("View.model.marked.has(View.selected.path)")
        assert browser.evaluate("View.drawn.boxes.includes(View.selected)")
        assert browser.evaluate(CHANGES_IN_VIEW)
        seen.append(browser.evaluate("View.selected.path"))
        browser.press("n")
        browser.settle()
    assert len(set(seen)) == 3
    browser.press("N")
    assert browser.evaluate("View.selected.path") == seen[-1]
    (page_of_step,) = sorted((tmp_path / "steps").glob(f"{place:04}.*.html"))
    browser.open(page_of_step)  # opens at what changed
    assert browser.evaluate(CHANGES_IN_VIEW)
    assert "n" in browser.evaluate("document.getElementById('help').textContent")


def named(title: str) -> str:
    return f"View.model.boxes.find(box => View.word(box, 'title').endsWith('{title}'))"


OUTLINE = "[...document.querySelectorAll('#outline .name')].map(row => row.textContent.trim())"


def test_the_outline_mirrors_the_drawing(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, layers(40))
    width = browser.evaluate("document.getElementById('canvas').clientWidth")
    assert browser.evaluate(OUTLINE) == []
    browser.press("o")
    assert browser.evaluate("document.getElementById('canvas').clientWidth") < width
    holders = "View.drawn.boxes.filter(box => box.children.length).map(box => View.word(box, 'title'))"
    titles = browser.evaluate(holders)
    assert len(titles) > 10
    shown = browser.evaluate(OUTLINE)
    assert len(shown) == len(titles)
    assert all(any(row.startswith(title) for row in shown) for title in titles)
    browser.evaluate("View.toggleAll(false)")
    closed = browser.evaluate(OUTLINE)
    assert 0 < len(closed) < len(shown)
    browser.evaluate("document.querySelectorAll('#outline .fold')[1].click()")
    assert len(browser.evaluate(OUTLINE)) > len(closed)  # and in the drawing
    assert browser.evaluate(f"{holders}.length") == len(browser.evaluate(OUTLINE))
    browser.evaluate("document.querySelectorAll('#outline .name')[2].click()")
    assert browser.evaluate("document.querySelectorAll('#outline .on').length") == 1
    selected = browser.evaluate("View.word(View.selected, 'title')")
    assert browser.evaluate("document.querySelector('#outline .on .name').textContent").startswith(selected)
    browser.evaluate("View.select(null), View.toggleAll(false)")
    browser.evaluate("View.search('exponential')")
    hits = browser.evaluate("[...document.querySelectorAll('#outline .hits')].map(one => +one.textContent)")
    assert sum(hits) >= 40  # in closed boxes they are counted
    bars = browser.evaluate("[...document.querySelectorAll('#outline i')].map(bar => parseFloat(bar.style.width))")
    assert max(bars) == 100
    assert min(bars) == 0  # the parameters do nothing
    browser.press("o")
    assert browser.evaluate("document.getElementById('outline').hidden")
    assert browser.evaluate(CHECK) == []


def test_boxes_built_alike_are_named_and_outlined(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    module = layers(14)
    other = module.replace("exponential(f5)", "log(f5)").replace("multiply(t9, t9)", "multiply(t9, a9)")
    assert other.count("log(") == 1
    twins = f"View.alike({named('layer 3')}).map(box => View.word(box, 'title').split(' · ').pop())"
    open_page(hlotool, browser, tmp_path, module)
    every = set(browser.evaluate(twins))
    assert {"layer 6", "layer 10", "layer 12"} <= every
    assert "layer 3" not in every
    before = browser.evaluate("View.drawn.links.length")
    browser.evaluate(f"View.select({named('layer 3')})")
    panel = browser.evaluate("document.getElementById('panel').textContent")
    assert f"built alike ({len(every)})" in panel
    assert browser.evaluate("View.drawn.links.length") == before  # nothing was opened for it
    open_page(hlotool, browser, tmp_path, other)
    assert every - set(browser.evaluate(twins)) == {"layer 6", "layer 10"}  # another opcode; another edge


def test_x_opens_everything_in_a_box(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, layers(60))
    browser.evaluate("View.toggleAll(false)")
    outer = "View.model.root.children.find(box => box.children.some(one => one.children.length && !one.isStrip))"
    held_open = "function all(box) { return !box.children.length || View.isOpen(box) && box.children.every(all); }"
    all_open = f"({held_open})({outer})"
    browser.evaluate(f"View.select({outer})")
    for opened in (True, False):
        browser.press("x")
        assert browser.evaluate(all_open) is opened
        assert browser.evaluate(CHECK) == []
    others = f"View.model.root.children.filter(box => box !== {outer} && box.children.length)"
    assert browser.evaluate(f"{others}.some(View.isOpen)") is False


def test_an_address_leads_to_the_selected_box(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    open_page(hlotool, browser, tmp_path, layers(14))
    browser.evaluate("View.select(View.model.boxes.find(box => View.word(box, 'text').startsWith('t4 ')))")
    path = browser.evaluate("View.selected.path")
    jumps = browser.evaluate("[...document.querySelectorAll('#panel .jump')].map(jump => jump.textContent)")
    assert jumps == ["add  a4  f32[32,64]", "multiply  s4  f32[32,64]"]  # what it reads, what reads it
    row = browser.evaluate("document.querySelector('#panel .where').textContent")
    assert "layer 5" in row
    browser.settle()
    fragment = browser.evaluate("location.hash")
    assert fragment.startswith("#at=")
    browser.open(tmp_path / "page.html", fragment)
    browser.settle()
    assert browser.evaluate("View.selected.path") == path
    browser.press("Escape")
    browser.settle()
    assert browser.evaluate("location.hash") == ""
    browser.evaluate("View.select(View.model.boxes.find(box => View.word(box, 'text').startsWith('t4 ')))")
    browser.evaluate("document.querySelector('#panel .where button').click()")
    assert browser.evaluate("View.word(View.selected, 'title')").endswith("layer 5")


def test_pages_fit_into_small_windows(hlotool: Run, browser: Browser, tmp_path: Path) -> None:
    """At 800 by 600 what is found stays in the window and nothing hangs over its side."""
    over = """[...document.querySelectorAll("#results button, header button, #outline, #panel, table")].filter(
      one => one.offsetWidth && (r => r.left < 0 || r.right > innerWidth + 1)(one.getBoundingClientRect())).length"""
    done = hlotool("report", SAMPLES / "mlp_step.hlo", "-o", "report")
    assert done.returncode == 0, done.stderr
    size = {"deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", width=800, height=600, **size)
    try:
        open_page(hlotool, browser, tmp_path, layers(14))
        browser.press("o")
        browser.evaluate("View.search('dot'), View.select(View.found[3])")
        browser.settle()
        assert browser.evaluate("document.querySelectorAll('#results button').length") > 10
        hidden = """View.drawn.boxes.filter(box => !box.children.length).filter(box => {
          View.select(box);
          return (box.x + box.w / 2) * View.camera.scale + View.camera.x > document.getElementById("panel").offsetLeft;
        }).length"""
        assert browser.evaluate(hidden) == 0  # what is selected does not hide behind what is said of it
        assert browser.evaluate(over) == 0
        (tmp_path / "other.hlo").write_text(layers(13))
        long = tmp_path / "a_name_of_a_module_that_is_longer_than_columns_of_numbers_are_wide.hlo"
        long.write_text(layers(14))
        assert hlotool("diff", "other.hlo", long, "-o", "difference.html").returncode == 1
        pages = [f"report/{name}" for name in ("index", "decisions", "passes", "cost", "memory")]
        for name in (*pages, "difference"):
            browser.open(tmp_path / f"{name}.html")
            assert browser.evaluate(over) == 0, name
    finally:
        browser.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, **size)
