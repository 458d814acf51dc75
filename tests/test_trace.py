"""The trace of rewrites: what its edits add up to, how they are counted, the files, the command, the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, needs_chromium
from conftest import ROOT, Install, Run, environment
from json_schemas import check_json
from large_module import large_module

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import optimise
from hlotool.harness.bisection.course import Course, runs_of
from hlotool.inspect.rewrite_page import RewritePage, rewrite_page
from hlotool.inspect.trace import RewriteTrace, Step, step_between
from hlotool.inspect.trace_files import trace_lines
from hlotool.ir import Module
from hlotool.passes.framework.manager import Progress
from hlotool.passes.framework.steps import Pass
from hlotool.text.load import load
from hlotool.text.parser import parse
from hlotool.text.printer import PrintOptions, print_instruction, print_module

MODELS = ROOT / "tests" / "data" / "models"
MODULES = [
    *sorted((ROOT / "samples").glob("*.hlo")),
    *(MODELS / f"{name}.hlo" for name in (
        "argsort_pairs", "bert_block", "cholesky_native", "collatz_fori", "gather_scatter_modes", "llama_decode_scan",
        "lotka_volterra_f64", "maxpool_grad", "random_normal", "switch", "triangular_solve_native",
    )),
]  # fmt: skip
SAMPLE = ROOT / "samples" / "mlp_step.hlo"
SMALL = """HloModule small

ENTRY e {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[4] broadcast(zero), dimensions={}
  a = f32[4] add(x, zeros), metadata={op_name="jit(f)/add" source_file="model.py" source_line=7}
  b = f32[4] negate(a)
  c = f32[4] negate(b)
  ROOT r = f32[4] multiply(c, c)
}
"""
Lines = dict[tuple[str, str], str]


def lines_of(module: Module) -> Lines:
    """The lines of a module by computation and instruction, as a trace has them."""
    options = PrintOptions(metadata=False, elide_above=16, index_comments=False)
    return {
        (home.name, one.name): ("ROOT " if one.is_root else "") + print_instruction(one, options)
        for home in module.computations.values()
        for one in home
    }


def replay(lines: Lines, steps: list[Step]) -> Lines:
    """What the edits of `steps` make of `lines`; AssertionError where one does not fit."""
    lines = dict(lines)
    for step in steps:
        for edit in step.edits:
            assert lines.get(edit.place) == (None if edit.before is None else edit.before.line), (step, edit.place)
            lines.pop(edit.place, None)
        lines |= {edit.place: edit.after.line for edit in step.edits if edit.after is not None}
    return lines


def traced(module: Module, pipeline: str = "default", limit: int | None = None) -> tuple[RewriteTrace, Module]:
    trace = RewriteTrace()
    trace.limit = limit
    result = optimise(module, pipeline, log=trace)
    trace.finish()
    return trace, result


class _AfterEach:
    """Keeps the lines of the module after every pass that changed it, by the number of the run."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.found = progress, dict[int, Lines]()

    def before(self, pass_: Pass, module: Module) -> bool:
        return True

    def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
        if changed:
            self.found[self.progress.runs] = lines_of(module)


# ---- what the edits add up to


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_edits_add_up_to_what_each_pass_makes(path: Path) -> None:
    module, progress, trace, plain = load(path), Progress(), RewriteTrace(), DecisionLog()
    each = _AfterEach(progress)
    result = optimise(module, "default", trace, [each], progress)
    trace.finish()
    assert print_module(result) == print_module(optimise(module, "default", plain))
    assert list(trace) == list(plain)

    counted = [step for step in trace.steps if step.index is not None]
    assert [step.index for step in counted] == list(range(1, plain.rewrites + 1))
    assert [step.decision for step in counted] == [made for made in plain if made.action == "rewrite"]
    lines = lines_of(module)
    for run, made in each.found.items():
        lines = replay(lines, [step for step in trace.steps if step.run == run])
        assert lines == made, f"run {run}"
    assert lines == lines_of(result)
    assert {step.run for step in trace.steps} <= set(each.found)


def test_passes_of_the_modules_are_many() -> None:
    """What the test above is worth: the passes that rewrite in those modules."""
    passes = Counter(step.pass_name for path in MODULES for step in traced(load(path))[0].steps)
    assert {
        "algebraic-simplifier", "call-inliner", "constant-folding", "cse", "dce", "fusion", "layout-assignment",
        "multi-output-fusion", "product-fusion", "transpose-folding", "tuple-simplifier", "while-loop-simplifier",
    } <= set(passes)  # fmt: skip


def test_large_modules_are_not_printed_for_each_rewrite() -> None:
    """The edits follow what is rewritten: twice the module has about twice as many."""
    small, large = (traced(parse(large_module(size)))[0] for size in (1000, 2000))
    edits = [sum(len(step.edits) for step in trace.steps) for trace in (small, large)]
    assert small.rewrites > 50
    assert edits[1] < 2.5 * edits[0]
    median = sorted(len(step.edits) for step in large.steps)[len(large.steps) // 2]
    assert median < 40


# ---- how rewrites are counted


@pytest.mark.parametrize("name", ["lotka_volterra_f64", "llama_decode_scan", "switch"])
def test_a_limit_ends_where_the_trace_says(name: str) -> None:
    module = load(MODELS / f"{name}.hlo")
    whole = [step for step in traced(module)[0].steps if step.index is not None]
    total = len(whole)
    for limit in sorted({0, 1, total // 3, total // 2, total - 1, total}):
        trace, result = traced(module, limit=limit)
        made = [step for step in trace.steps if step.index is not None]
        last = next((step.index or 0 for step in whole[max(0, limit - 1) :] if not step.with_next), 0) if limit else 0
        assert len(made) == last
        same = [*trace_lines("m", "p", whole[:last], True)][1:-1]
        assert [*trace_lines("m", "p", made, True)][1:-1] == same
        assert replay(lines_of(module), trace.steps) == lines_of(result)


def test_after_rewrite_n_the_module_is_that_of_the_limit(hlotool: Run) -> None:
    """To the line, where the pass tidies nothing up: through the command, from the one trace of all rewrites."""
    module = load(SAMPLE)
    trace, _ = traced(module, "algebraic-simplifier")
    assert trace.rewrites == len(trace.steps) == 4
    for limit in range(5):
        done = hlotool("opt", SAMPLE, "-p", "algebraic-simplifier", "--rewrite-limit", limit)
        assert lines_of(parse(done.stdout)) == replay(lines_of(module), trace.steps[:limit])


def test_runs_and_numbers_are_those_of_bisect() -> None:
    text = (MODELS / "switch.hlo").read_text()
    trace, _ = traced(parse(text))
    runs = {run.number: run for run in runs_of(text, Course("default"))}
    found = Counter(step.run for step in trace.steps if step.index is not None)
    assert found == {number: run.rewrites for number, run in runs.items() if run.rewrites}
    for step in trace.steps:
        assert step.pass_name == runs[step.run].name
        if step.index is not None:
            assert step.index == runs[step.run].before + (step.number or 0)


# ---- what a step says


def test_steps_of_a_small_module() -> None:
    trace, _ = traced(parse(SMALL), "algebraic-simplifier")
    first = trace.steps[0]
    assert (first.index, first.number, first.run, first.pass_name) == (1, 1, 1, "algebraic-simplifier")
    assert first.decision is not None
    assert first.decision.before == ("a",)
    assert (first.source, first.op_name) == ("model.py:7", "jit(f)/add")
    gone = {edit.place[1] for edit in first.edits if edit.after is None}
    assert gone == {"a", "zeros", "zero"}
    (changed,) = [edit for edit in first.edits if None not in edit]
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before.line, changed.after.line) == ("b = f32[4] negate(a)", "b = f32[4] negate(x)")
    assert [state.name for state in first.around][:1] == ["x"]


def test_what_fusions_leave_behind_is_named_where_it_is_left() -> None:
    trace, _ = traced(load(SAMPLE))
    fused = [step for step in trace.steps if step.pass_name == "fusion" and step.index is not None]
    assert len(fused) > 3
    for step in fused[:-1]:
        assert step.decision is not None
        root = step.decision.before[0]
        gone = {edit.place[1] for edit in step.edits if edit.after is None}
        assert root in {state.name for state in step.unread} | gone
    (tidied,) = [step for step in trace.steps if step.pass_name == "fusion" and step.index is None]
    assert {edit.place[1] for edit in tidied.edits} <= {state.name for step in fused for state in step.unread}


def test_a_step_between_two_texts() -> None:
    before, after = parse(SMALL), parse(SMALL.replace("negate(b)", "abs(b)"))
    step = step_between(before, after, "some-pass", ())
    (edit,) = step.edits
    assert edit.place == ("e", "c")
    assert {state.name for state in step.around} == {"b"}
    page = rewrite_page(before, after, RewritePage("small", "what was found"), "some-pass")
    assert "what was found" in page
    assert page.count("</html>") == 1


# ---- the command


def read(folder: Path) -> dict[str, Any]:
    return check_json((folder / "trace.json").read_text(encoding="utf-8"))


def test_opt_writes_the_trace_and_the_same_module(hlotool: Run, tmp_path: Path) -> None:
    plain = hlotool("opt", SAMPLE)
    done = hlotool("opt", SAMPLE, "--trace", "made/trace")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    folder = tmp_path / "made" / "trace"
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "trace.json"]
    answer = read(folder)
    assert (answer["module"], answer["pipeline"], answer["complete"]) == ("mlp_step", "default", True)
    assert answer["rewrites"] == sum(step["index"] is not None for step in answer["steps"]) == 26
    text = (folder / "trace.json").read_text()
    (row,) = [line for line in text.splitlines() if '"index": 3,' in line]  # a line is a step
    step = json.loads(row.removesuffix(","))
    assert (step["pass"], step["rule"], step["code"]) == ("algebraic-simplifier", "constant-right", "HLO4001")
    assert step["meaning"]
    assert step["edits"][0]["before"] == "step_w2 = f32[128,10]{1,0} multiply(rate_w2, d_w2)"
    page = (folder / "index.html").read_text()
    assert page.count("</html>") == 1
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_compile_traces_the_passes_that_were_chosen(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("compile", SAMPLE, "--trace", "c", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert hlotool("opt", SAMPLE, "--trace", "o", "-o", os.devnull).returncode == 0
    for name in ("trace.json", "index.html"):
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "o" / name).read_bytes()


def test_from_standard_input_and_again_into_the_same_folder(hlotool: Run, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "mine.txt").write_text("stays")
    for pipeline, rewrites in (("dce", 0), ("algebraic-simplifier", 2)):
        done = hlotool("opt", "-", "-p", pipeline, "--trace", "t", stdin=SMALL)
        assert done.returncode == 0, done.stderr
        answer = read(folder)
        assert (answer["pipeline"], answer["rewrites"]) == (pipeline, rewrites)
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "mine.txt", "trace.json"]


def test_several_modules_have_folders_and_one_count(hlotool: Run, tmp_path: Path) -> None:
    text = f"{SMALL}\n// -----\n\n{SMALL.replace('HloModule small', 'HloModule other')}"
    done = hlotool("opt", "-", "-p", "algebraic-simplifier", "--trace", "t", "--decisions", stdin=text)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["0000.small", "0001.other"]
    indices = [[step["index"] for step in read(folder)["steps"]] for folder in sorted((tmp_path / "t").iterdir())]
    assert indices == [[1, 2], [3, 4]]
    limited = hlotool("opt", "-", "-p", "algebraic-simplifier", "--trace", "u", "--rewrite-limit", "3", stdin=text)
    assert limited.returncode == 0
    assert [read(folder)["rewrites"] for folder in sorted((tmp_path / "u").iterdir())] == [2, 1]
    assert done.stderr.count("HLO4001") == 4


def test_places_that_cannot_be_written(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = hlotool("opt", SAMPLE, "--trace", "file")
    assert done.returncode == 2
    assert "'--trace'" in done.stderr
    assert "is a file" in done.stderr
    done = hlotool("opt", SAMPLE, "--trace", "file/below")
    assert (done.returncode, done.stdout) == (5, "")
    assert "cannot write file/below: Not a directory" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_what_cannot_be_read_leaves_no_trace(hlotool: Run, tmp_path: Path) -> None:
    done = hlotool("opt", "-", "--trace", "t", stdin="HloModule m\n\nENTRY e { x = }")
    assert done.returncode == 3
    assert not (tmp_path / "t").exists()


def test_the_bytes_depend_on_no_hash(hlotool: Run, tmp_path: Path) -> None:
    path = MODELS / "bert_block.hlo"
    for seed in ("1", "2"):
        assert hlotool("opt", path, "--trace", seed, env={"PYTHONHASHSEED": seed}).returncode == 0
    for name in ("trace.json", "index.html"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m hlotool opt "{SAMPLE}" --trace t | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert read(tmp_path / "t")["complete"] is True


PACKAGE = """
import os
import signal
import time
from dataclasses import dataclass
from typing import ClassVar

def rewrites(module, log):
    for instruction in list(module.entry):
        if instruction.opcode == "negate" and log.allow():
            copy = module.entry.add(type(instruction)("abs", instruction.shape, instruction.operands), instruction)
            instruction.replace_all_uses(copy)
            log.rewrite("copied", instruction, copy)
            module.entry.erase(instruction)
            yield instruction

@dataclass(frozen=True, slots=True)
class Crashing:
    "Fails behind its second rewrite."
    name: ClassVar[str] = "crashing"
    def run(self, module, log):
        for number, _ in enumerate(rewrites(module, log), 1):
            if number == 2:
                raise KeyError("negate")
        return True

@dataclass(frozen=True, slots=True)
class Interrupted:
    "Is interrupted behind its second rewrite."
    name: ClassVar[str] = "interrupted"
    def run(self, module, log):
        for number, _ in enumerate(rewrites(module, log), 1):
            if number == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
        return True

@dataclass(frozen=True, slots=True)
class Greedy:
    "Makes all rewrites that it finds once it may make one, and sets attributes without a word."
    name: ClassVar[str] = "greedy"
    def run(self, module, log):
        if not log.allow():
            return False
        for number, instruction in enumerate(list(module.entry)):
            if instruction.opcode == "negate":
                copy = module.entry.add(type(instruction)("abs", instruction.shape, instruction.operands), instruction)
                instruction.replace_all_uses(copy)
                log.rewrite("copied", instruction, copy)
                module.entry.erase(instruction)
            if instruction.opcode == "multiply":
                instruction.attributes["frontend_attributes"] = {"seen": "yes"}
        return True
"""


@pytest.fixture
def package(install: Install) -> dict[str, str | None]:
    return install("traced_package", PACKAGE, "hlotool.passes", crashing="Crashing", interrupted="Interrupted",
        greedy="Greedy")  # fmt: skip


def test_an_interrupt_keeps_what_was_traced(hlotool: Run, package: dict[str, str | None], tmp_path: Path) -> None:
    done = hlotool("opt", "-", "-p", "algebraic-simplifier{only=add-zero},interrupted", "--trace", "t", stdin=SMALL,
        env=package)  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    answer = read(tmp_path / "t")
    assert (answer["complete"], answer["rewrites"]) == (False, 3)
    assert "cut short" in (tmp_path / "t" / "index.html").read_text()


def test_a_pass_that_fails(hlotool: Run, package: dict[str, str | None], tmp_path: Path) -> None:
    """Left out, it leaves no trace; with HLOTOOL_STRICT the trace ends with what it did."""
    arguments = ("opt", "-", "-p", "crashing,algebraic-simplifier{only=add-zero}", "--trace", "t")
    done = hlotool(*arguments, stdin=SMALL, env=package | {"HLOTOOL_STRICT": None})
    assert done.returncode == 0, done.stderr
    answer = read(tmp_path / "t")
    assert answer["complete"]
    assert [(step["index"], step["pass"]) for step in answer["steps"]] == [(1, "algebraic-simplifier")]
    module = parse(SMALL)
    lines = lines_of(module)
    for edit in answer["steps"][0]["edits"]:
        place = edit["computation"], edit["instruction"]
        assert lines.pop(place, None) == edit["before"]
        lines |= {place: edit["after"]} if edit["after"] else {}
    assert lines == lines_of(parse(done.stdout))

    done = hlotool(*arguments, stdin=SMALL, env=package | {"HLOTOOL_STRICT": "1"})
    assert done.returncode != 0
    answer = read(tmp_path / "t")
    assert (answer["complete"], answer["rewrites"]) == (False, 2)


def test_rewrites_made_together_say_so(hlotool: Run, package: dict[str, str | None], tmp_path: Path) -> None:
    done = hlotool("opt", "-", "-p", "greedy", "--trace", "t", stdin=SMALL, env=package)
    assert done.returncode == 0, done.stderr
    answer = read(tmp_path / "t")
    assert [(step["index"], step["with_next"]) for step in answer["steps"]] == [(1, True), (2, False), (None, False)]
    (silent,) = [edit for edit in answer["steps"][2]["edits"] if edit["instruction"] == "r"]
    assert 'frontend_attributes={seen="yes"}' in silent["after"]
    limited = hlotool("opt", "-", "-p", "greedy", "--rewrite-limit", 1, stdin=SMALL, env=package)
    assert limited.stdout == done.stdout


# ---- the page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    command = [sys.executable, "-m", "hlotool", "opt", str(SAMPLE), "--trace", str(folder), "-o", os.devnull]
    subprocess.run(command, env=environment(), check=True)
    return folder / "index.html"


def index(browser: Browser) -> int:
    return int(browser.evaluate("Rewrites.here.index"))


@needs_chromium
def test_the_page_is_stepped_through(browser: Browser, page: Path) -> None:
    browser.open(page, "#rewrite-3")
    assert browser.errors == []
    assert len(browser.requests()) == 1
    assert index(browser) == 3
    assert "constant-right" in browser.evaluate("document.getElementById('head').textContent")
    browser.press("j")
    browser.press("ArrowRight")
    assert index(browser) == 5
    assert browser.evaluate("location.hash") == "#rewrite-5"
    browser.press("ArrowLeft")
    browser.press("k")
    assert index(browser) == 3
    browser.press("J", modifiers=8)
    assert (index(browser), browser.evaluate("Rewrites.here.pass")) == (5, "transpose-folding")
    browser.press("ArrowUp", modifiers=8)
    assert index(browser) == 1
    browser.press("End")
    assert browser.evaluate("Rewrites.here === Rewrites.steps[Rewrites.steps.length - 1]")
    browser.press("Home")
    assert browser.evaluate("Rewrites.here.place") == 0
    assert browser.errors == []


@needs_chromium
def test_the_page_is_filtered(browser: Browser, page: Path) -> None:
    browser.open(page, "#rewrite-2")
    browser.press("/")
    browser.type("fusion subtract_fusion.4")
    passes = browser.evaluate("Rewrites.shown.map(step => step.pass)")
    assert 0 < len(passes) < 20
    assert all("fusion" in name for name in passes)
    browser.press("Enter")
    assert browser.evaluate("Rewrites.shown.includes(Rewrites.here)")
    browser.press("Escape")
    assert browser.evaluate("Rewrites.shown.length === Rewrites.steps.length")
    browser.press("/")
    browser.type("no such thing")
    assert browser.evaluate("document.querySelector('#list p').textContent") == "no rewrite fits the filter"
    browser.press("Escape")
    browser.press("Escape")
    browser.press("j")
    assert browser.errors == []


DRAWN = """[...document.querySelectorAll("#ID g")].map(g => [g.getAttribute("class"),
  [...g.querySelector("text").childNodes].map(one => one.textContent).join(" ")])"""


@needs_chromium
def test_drawings_and_lines_of_a_rewrite(browser: Browser, page: Path) -> None:
    browser.open(page, "#rewrite-3")
    before, after = (dict(map(reversed, browser.evaluate(DRAWN.replace("ID", side)))) for side in ("before", "after"))
    assert before["multiply step_w2"] == "removed"
    assert after["multiply multiply.3"] == "added"
    assert before["subtract new_w2"] == after["subtract new_w2"] == "changed"
    assert before["dot d_w2"] == "around"
    text = browser.evaluate("[...document.querySelectorAll('#lines div')].map(one => one.textContent)")
    assert "- step_w2 = f32[128,10]{1,0} multiply(rate_w2, d_w2)" in text
    assert "+ new_w2 = f32[128,10]{1,0} subtract(w2, multiply.3)" in text
    assert browser.evaluate("[...document.querySelectorAll('#lines mark')].map(m => m.textContent)") == [
        "step_w2", "multiply.3",
    ]  # fmt: skip
    for _ in range(40):  # every rewrite of the module can be drawn
        browser.press("j")
        assert browser.evaluate("document.querySelectorAll('#head h2').length") == 1
    assert browser.errors == []


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_colours_follow_the_scheme(browser: Browser, page: Path, dark: bool) -> None:
    browser.dark(dark)
    browser.open(page, "#rewrite-1")
    browser.settle()
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")
    fill = browser.evaluate("document.querySelector('#before g.around rect').getAttribute('fill')")
    browser.dark(not dark)
    browser.settle()
    assert browser.evaluate("document.querySelector('#before g.around rect').getAttribute('fill')") != fill
    browser.dark(False)


@needs_chromium
def test_a_long_list_is_in_the_document_in_part(browser: Browser, tmp_path: Path) -> None:
    source = tmp_path / "large.hlo"
    source.write_text(large_module(6000))
    command = [sys.executable, "-m", "hlotool", "opt", str(source), "--trace", str(tmp_path), "-o", os.devnull]
    subprocess.run(command, env=environment(), check=True)
    browser.open(tmp_path / "index.html")
    steps = browser.evaluate("Rewrites.steps.length")
    assert steps > 500
    assert browser.evaluate("document.querySelectorAll('#rows > div').length") < 60
    browser.press("End")
    assert browser.evaluate("Rewrites.here.place") == steps - 1
    assert browser.evaluate("document.querySelector('#rows .on') !== null")
    assert browser.errors == []
