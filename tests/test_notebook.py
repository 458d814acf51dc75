"""What values show of themselves in a notebook or at a prompt: bounded, right, and never an exception."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import malformed
import numpy as np
import pytest
from browser import Browser, needs_chromium
from conftest import ROOT, environment
from large_module import large_module

import hlotool
from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module, optimise
from hlotool.harness.all_values import ValuesComparison
from hlotool.harness.compare import compare
from hlotool.harness.inputs import random_inputs
from hlotool.harness.profile import Measurement
from hlotool.inspect.cost_table import cost_rows
from hlotool.inspect.memory import buffer_plan
from hlotool.inspect.sketch import sketch
from hlotool.inspect.stats import stats
from hlotool.ir import InputError, Module, ParseError, VerificationError
from hlotool.text.load import Source, load, read_modules
from hlotool.text.parser import parse

SAMPLES = ROOT / "samples"
TOUR = SAMPLES / "tour.ipynb"
MODELS = sorted((ROOT / "tests" / "data" / "models").glob("*.hlo"))
_LONGEST_REPR, _LONGEST_HTML = 1200, 2 << 20


@pytest.fixture(scope="module")
def mean() -> Module:
    return load(SAMPLES / "mean.hlo")


def test_reprs(mean: Module) -> None:
    found = {one.name: repr(one) for one in mean.instructions()}
    assert repr(mean) == "Module('mean', 14 instructions, entry f32[] main(x: f32[65536], y: f32[65536]))"
    assert repr(mean.entry) == "Computation(f32[] main(x: f32[65536], y: f32[65536]), 11 instructions)"
    assert found["scaled"] == "Instruction(scaled = f32[65536] multiply(square, threes))"
    assert found["three"] == "Instruction(three = f32[] constant(3.0))"
    assert found["y"] == "Instruction(y = f32[65536] parameter(1))"
    assert repr(mean.entry.root.shape) == "Shape('f32[]')"
    assert repr(Module("empty")) == "Module('empty', 0 instructions, no entry)"
    tuple_of_many = f"({', '.join(['s32[2]'] * 100)})"
    wide = parse(f"ENTRY e {{\n  ROOT p = {tuple_of_many} parameter(0)\n}}")
    assert repr(wide.entry.root.shape) == "Shape('(s32[2], s32[2], s32[2], s32[2], ... 96 more)')"
    constant = parse("ENTRY e {\n  ROOT c = s32[2,3] constant({{1,2,3},{4,5,6}})\n}").entry.root
    assert repr(constant.literal) == "Literal(s32[2,3], {1, 2, 3, 4, ... 2 more})"


def test_results(mean: Module, tmp_path: Path) -> None:
    """What functions of the library give says what it is in one line, and as a table."""
    arrays = random_inputs(mean, 0)
    log = DecisionLog()
    executable = compile_module(mean, log=log)
    bare, probed = (compile_module(mean, profiled=profiled) for profiled in (False, True))
    measurement = Measurement(bare, probed, arrays)
    measurement.run(0.05)
    values = ValuesComparison(original=mean, made=optimise(mean), arrays=arrays)
    assert executable.program is not None
    plan = buffer_plan(executable.program.assignment, executable.module)
    shown: list[tuple[Any, str]] = [
        (executable, r"Executable\(f32\[\] main\(x.*\), 1 kernels, 524,\d+ bytes at peak\)"),
        (compile_module(mean, backend="evaluate"), r"Executable\(f32\[\] main\(.*\), interpreted, .*\)"),
        (log, r"DecisionLog\(\d+ decisions, \d+ rewrites\)"),
        (measurement.profile(), r"Profile\('mean', \d+ steps, \S+ s a run, \d+ threads\)"),
        (values, r"ValuesComparison\(\d+ values of Module\('mean', .*\)\)"),
        (plan, r"BufferPlan\(\d+ buffers, \d+ steps, \d+ bytes in the arena\)"),
        (hlotool.diff(mean, optimise(mean)), r"ModuleDiff\('mean', 'mean', .* added, .*\)"),
        (compare(np.float32([1, 2]), np.float32([1, 3])), r"Comparison\(MISMATCH: 1 of 2 elements differ, .*\)"),
    ]
    for value, expected in shown:
        assert re.fullmatch(expected, repr(value)), repr(value)
        html = value._repr_html_()
        assert "<table>" in html or "<pre>" in html
        assert len(html) < 20_000
    assert executable.compile_seconds is not None
    assert executable.compile_seconds > 0
    assert "compiled in" in executable._repr_html_()
    assert re.fullmatch(r"Decision\(\S+: \w+ .*\)", repr(log.decisions[0]))
    assert re.fullmatch(r"CostRow\('\S+', 1 runs, .* bytes\)", repr(cost_rows(mean)[0]))
    assert repr(stats(mean)).startswith("Stats('mean', 14 instructions, ")


def _look_at(module: Module) -> None:
    """Everything in a module shows itself in one line, and in HTML that escapes what is in it."""
    inside = [*module.computations.values(), *module.instructions()]
    for one in (module, *inside, *(i.shape for i in module.instructions())):
        text = repr(one)
        assert len(text) < _LONGEST_REPR
        assert text.isprintable()
    root = [module.entry.root] if module.entry.name in module.computations else []
    for part in (module, module.entry, *root):
        assert len(part._repr_html_()) < _LONGEST_HTML


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_programs(path: Path) -> None:
    _look_at(load(path))


def test_passes_leave_what_can_be_shown() -> None:
    for name in ("mlp_step", "conv_net", "while_loop"):
        _look_at(optimise(load(SAMPLES / f"{name}.hlo")))


def test_wrong_modules() -> None:
    """A module that no command would run is shown with what is wrong in it, as far as it can be read at all."""
    seen = 0  # others have a damage that reading mends
    for statement in malformed.lines(malformed.SINGLE):
        text, _ = malformed.plain(malformed.module(statement))
        try:
            found = read_modules(Source("m.hlo", "hlo", text=text), [])
        except ParseError:
            continue
        for module in found:
            _look_at(module)
            seen += "not valid: " in module._repr_html_()
    assert seen > 50


def test_wrong_shapes_are_said() -> None:
    module = parse("ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[5] negate(x)\n}")
    assert "not valid: " in module._repr_html_()
    assert "<svg" not in module._repr_html_()
    with pytest.raises(VerificationError):
        module.graph()


def test_names_do_not_become_markup() -> None:
    name = '<script>alert("&")</script>\x1b[31m'
    module = parse("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}")
    module.name = module.entry.root.name = name
    for part in (module, module.entry, module.entry.root, module.graph()):
        html = re.sub(r'srcdoc="[^"]*"', "", part._repr_html_())
        assert "<script" not in html
        assert "\x1b" not in html
    assert "\x1b" not in repr(module) + repr(module.entry.root)


def test_large_modules_are_not_drawn_unasked() -> None:
    module = parse(large_module(6_000))
    assert module.instruction_count() > 5_000
    assert len(module._repr_html_()) < 10_000
    shown = module.graph()._repr_html_()
    assert "too many" in shown
    assert len(module.graph(around="s.7")._repr_html_()) < _LONGEST_HTML
    assert len(repr(module)) < 200


@pytest.mark.parametrize(
    ("count", "sketch", "page"),
    [(40, True, False), (41, False, True), (1_000, False, True), (1_001, False, False)],
)
def test_what_is_shown_follows_the_size(count: int, sketch: bool, page: bool) -> None:
    lines = ["x0 = f32[4] parameter(0)", *(f"x{n} = f32[4] negate(x{n - 1})" for n in range(1, count))]
    lines[-1] = f"ROOT {lines[-1]}"
    text = parse("ENTRY e {\n" + "\n".join(lines) + "\n}\n")._repr_html_()
    assert ("<svg" in text, "<iframe" in text) == (sketch, page)
    assert (".graph()</code>" in text) is not (sketch or page)


# ---- drawings


def test_graphs_are_saved(tmp_path: Path, mean: Module) -> None:
    graph = mean.graph(heat="bytes")
    assert repr(graph) == f"Drawing({mean!r})"
    for suffix, start in ((".html", "<!DOCTYPE html>"), (".svg", "<svg "), (".dot", "digraph")):
        path = tmp_path / f"m{suffix}"
        graph.save(path)
        assert path.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(InputError, match=r"saved as \.html, \.svg or \.dot, not as \.pdf"):
        graph.save(tmp_path / "m.pdf")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".dot", ".html", ".svg"]


def test_parts_of_graphs(mean: Module) -> None:
    def titles(svg: str) -> set[str]:
        return set(re.findall("<title>(.*?)</title>", svg))

    assert titles(mean.graph().svg) == {"x", "y", "square", "scaled", "values", "total", "mean"}
    assert titles(mean.graph(computation="add").svg) == {"a", "b", "sum"}
    assert titles(mean.graph(around="values", radius=1).svg) == {"scaled", "y", "values", "total"}
    assert titles(mean.graph(paths=("square", "total")).svg) == {"square", "scaled", "values", "total"}
    with pytest.raises(InputError, match="do not go together"):
        mean.graph(computation="add", around="values")
    with pytest.raises(InputError, match="heat: expected bytes or flops"):
        mean.graph(heat="time")
    with pytest.raises(InputError, match="did you mean 'values'"):
        mean.graph(around="value")


@pytest.mark.parametrize("path", [*sorted(SAMPLES.glob("*.hlo")), *MODELS[::3]], ids=lambda path: path.stem)
def test_sketches(path: Path) -> None:
    """Boxes of a row stand beside each other, inside the picture; what is read stands above what reads it."""
    from hlotool.inspect.scene import build_scene

    module = load(path)
    scene = build_scene(module)
    svg = sketch(scene)
    assert svg == sketch(build_scene(load(path)))
    wide = float(re.findall(r'viewBox="0 0 (\d+)', svg)[0])
    found = re.findall(r'x="([\d.-]+)" y="(\d+)" rx="6" width="([\d.]+)"', svg)
    boxes = [(float(y), float(x), float(w)) for x, y, w in found]
    assert len(boxes) == len(scene.root.children)
    for (y, x, w), (below, right, _) in pairwise(sorted(boxes)):
        assert y < below or x + w < right
    assert all(x >= 0 and x + w <= wide for _, x, w in boxes)
    starts = [tuple(map(float, ends)) for ends in re.findall(r'd="M[\d.]+ ([\d.]+)[^"]*? ([\d.]+)"', svg)]
    assert all(start < end for start, end in starts)


# ---- a notebook


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The outputs of the cells of samples/tour.ipynb, from a real kernel."""
    for package in ("nbclient", "ipykernel"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("tour")
    for path in SAMPLES.glob("*.hlo"):
        shutil.copy(path, folder)
    notebook = nbformat.read(TOUR, as_version=4)  # type: ignore[no-untyped-call]
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    client = NotebookClient(notebook, km=manager, timeout=None, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment(IPYTHONDIR=str(folder / "ipython")))
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _shown(cell: dict[str, Any], kind: str) -> str:
    return "".join("".join(output.get("data", {}).get(kind, "")) for output in cell["outputs"])


def test_the_tour_runs(executed: list[dict[str, Any]]) -> None:
    module, instruction, optimised, executable, drawing, difference, text = executed
    assert _shown(module, "text/plain").startswith("Module('mlp_step', ")
    for cell in (module, instruction, optimised):
        assert "<svg" in _shown(cell, "text/html")
    assert "compiled in" in _shown(executable, "text/html")
    assert "<iframe" in _shown(drawing, "text/html")
    assert "matched" in _shown(difference, "text/html")
    assert text["outputs"][0]["text"].startswith("Module('mlp_step', ")
    assert _shown(text, "text/plain").startswith("Decision(")


@needs_chromium
@pytest.mark.parametrize("width", [1400, 800])
def test_the_tour_in_a_browser(executed: list[dict[str, Any]], tmp_path: Path, width: int) -> None:
    """What the cells show is drawn without network or errors, and stays inside of the page."""
    page = tmp_path / "tour.html"
    shown = "\n".join(_shown(cell, "text/html") for cell in executed)
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{shown}', encoding="utf-8")
    browser = Browser(width)
    try:
        browser.open(page)
        assert browser.evaluate("document.querySelectorAll('svg.hlo-sketch rect').length") > 20
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("document.querySelectorAll('iframe').length") == 1
        assert browser.errors == []
        assert [address for address in browser.requests() if not address.startswith(("file:", "about:"))] == []
    finally:
        browser.close()


def test_importing_hlotool_loads_no_notebook() -> None:
    """The functions that draw are only imported when something is shown."""
    program = "import hlotool, sys; hlotool.Module('m').__repr__(); print('hlotool.notebook' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout == "False\n"
