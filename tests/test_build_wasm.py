"""Libraries for WebAssembly: their JavaScript in Node, what is in them, linkers, and pages in a browser.

That their numbers are right for models is a part of `test_build_foreign`.
"""

from __future__ import annotations

import json
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from browser import Browser, needs_chromium
from conftest import ROOT, Run
from json_schemas import check_json
from libraries import DRIVER, FOREIGN, ROUNDING, Built, build, ran, run_driver
from models import model

from hlotool.codegen.machine import named
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import compare_with_truth, verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.ir import InputError, UnsupportedError
from hlotool.runtime.aot import linker
from hlotool.runtime.aot.files import files_of
from hlotool.runtime.aot.metadata import read_metadata
from hlotool.runtime.aot.symbols import function_sizes
from hlotool.text.load import one_module, open_source
from hlotool.text.parser import parse

Array: TypeAlias = npt.NDArray[Any]
SAMPLES = ROOT / "samples"
WASM = FOREIGN["wasm32-simd128"]
MACHINE = WASM.machine
needs_linker = pytest.mark.skipif("wasm-ld" in WASM.missing, reason="no wasm-ld")
needs_node = pytest.mark.skipif(bool(WASM.missing), reason=f"no {WASM.missing}")


def script(folder: Path, text: str, code: int = 0) -> list[str]:
    """The lines that a program in JavaScript prints."""
    (folder / "program.mjs").write_text(text)
    return ran(["node", "program.mjs"], folder, code).splitlines()


# ---- arrays

TYPES = [
    "pred", "s1", "s2", "s4", "s8", "s16", "s32", "s64", "u1", "u2", "u4", "u8", "u16", "u32", "u64", "f16", "bf16",
    "f8e4m3fn", "f8e5m2", "f32", "f64", "c64", "c128",
]  # fmt: skip


@needs_node
def test_arrays_of_every_type(tmp_path: Path) -> None:
    modules = {kind: parse(f"""HloModule types
ENTRY e {{
  x = {kind}[3,5] parameter(0)
  z = {kind}[0,4] parameter(1)
  y = {kind}[5,3] transpose(x), dimensions={{1,0}}
  ROOT t = ({kind}[5,3], {kind}[0,4], {kind}[3,5]) tuple(y, z, x)
}}
""") for kind in TYPES}  # fmt: skip
    built = build(modules, tmp_path, machines=[MACHINE])
    for number, module in enumerate(modules.values()):
        arrays = random_inputs(module, 0)
        found = run_driver(built, arrays, entry=number, on=WASM)
        for one, other in zip(found, evaluate(module, arrays), strict=True):
            assert one.tobytes() == np.asarray(other).tobytes(), module.entry.parameters[0].shape


@needs_node
def test_halves_are_converted_as_numpy_does(tmp_path: Path) -> None:
    import ml_dtypes

    modules = {
        kind: parse(f"HloModule m\nENTRY e {{ x = {kind}[65536] parameter(0)\n ROOT y = {kind}[65536] copy(x) }}\n")
        for kind in ("f16", "bf16")
    }
    build(modules, tmp_path, machines=[MACHINE])
    bits = np.arange(65536, dtype=np.uint16)
    random = np.random.default_rng(1)
    numbers = np.exp2(random.uniform(-30, 20, 65536)) * random.choice([-1, 1], 65536)
    # Halfway between neighbours, a bit beside, and what becomes the greatest number, or infinite.
    numbers[:6000] = bits[:6000].view(np.float16).astype(float) + 2.0**-25
    numbers[6000:6008] = [65519.99, 65520, -65520, np.inf, np.nan, 3.4e38, 2.0**-25, 2.0**-24 * 1.5]
    numbers[7000:8000] = 1 + np.arange(1000) * 2.0**-9
    given = numbers.astype(np.float32)
    given.tofile(tmp_path / "numbers")
    script(tmp_path, """import { readFile, writeFile } from "node:fs/promises";
import { load } from "./model.mjs";
const model = await load();
const numbers = new Float32Array((await readFile("numbers")).buffer.slice(0, 4 * 65536));
for (const kind of ["f16", "bf16"]) {
  await writeFile(kind + "_from", Buffer.from(model[kind](Uint16Array.from({ length: 65536 }, (_, n) => n)).buffer));
  await writeFile(kind + "_to", Buffer.from(model[kind](numbers).buffer));
}
""".replace("(await readFile(\"numbers\")).buffer.slice(0, 4 * 65536)",
            "Uint8Array.from(await readFile(\"numbers\")).buffer"))  # fmt: skip
    with np.errstate(over="ignore"):
        for kind, dtype in (("f16", np.dtype(np.float16)), ("bf16", np.dtype(ml_dtypes.bfloat16))):
            from_bits = np.fromfile(tmp_path / f"{kind}_from", np.float32)
            np.testing.assert_array_equal(from_bits, bits.view(dtype).astype(np.float32))
            found = np.fromfile(tmp_path / f"{kind}_to", np.float32)
            np.testing.assert_array_equal(found, given.astype(dtype).astype(np.float32))


@needs_node
def test_what_is_refused(tmp_path: Path) -> None:
    rows = ", ".join("{1, 2, 3}" for _ in range(2))
    module = parse(f"""HloModule errors
ENTRY e {{
  a = f32[2,3] parameter(0)
  b = s8[2] parameter(1)
  c = pred[2] parameter(2)
  d = s64[] parameter(3)
  e = c64[1] parameter(4)
  f = s4[2] parameter(5)
  g = f16[2] parameter(6)
  w = f32[2,3] constant({{ {rows} }})
  s = f32[2,3] add(a, w)
  ROOT t = (f32[2,3], s8[2], pred[2], s64[], c64[1], s4[2], f16[2]) tuple(s, b, c, d, e, f, g)
}}
""")
    (tmp_path / "model").mkdir()
    build(module, tmp_path / "model", machines=[MACHINE], weights_above=0)
    build(parse(ROUNDING), tmp_path / "other", name="other", machines=[MACHINE])
    (tmp_path / "model" / "errors.mjs").write_text((DRIVER.parent / "errors.mjs").read_text())
    lines = ran(["node", "errors.mjs"], tmp_path / "model").splitlines()
    said = (DRIVER.parent / "errors.txt").read_text().splitlines()
    for line, wanted in zip(lines, said, strict=True):
        # What engines and systems say themselves differs.
        assert re.fullmatch(re.escape(wanted).replace(r"\.\.\.", ".*"), line), (line, wanted)


@needs_node
def test_donated_arguments_and_random_numbers(tmp_path: Path) -> None:
    text = """HloModule step, input_output_alias={ {0}: (0, {}, must-alias) }
ENTRY e {
  w = f32[4] parameter(0)
  g = f32[4] parameter(1)
  s = u64[2] rng-get-and-update-state(), delta=7
  n = f32[4] subtract(w, g)
  l = f32[4] multiply(g, g)
  ROOT t = (f32[4], f32[4], u64[2]) tuple(n, l, s)
}
"""
    build(parse(text), tmp_path, machines=[MACHINE], donate="declared")
    lines = script(tmp_path, """import { load } from "./model.mjs";
const model = await load(), again = await load();
const w = Float32Array.of(1, 2, 3, 4), g = Float32Array.of(1, 1, 2, 2);
const [n, l, first] = model.run(w, g), second = model.run(w, g)[2];
console.log(n.join(), l.join(), w.join(), model.run.results[0].alias, second[0] - first[0], second[1] - first[1]);
console.log(again.run(w, g)[2].join() === first.join());
""")
    assert lines == ["0,1,1,2 1,1,4,4 1,2,3,4 0 7n 0n", "true"]


@needs_node
def test_functions_of_the_embedder(tmp_path: Path) -> None:
    module = parse("""HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  k = s64[] parameter(1)
  p = (f32[2,3], s64[2]) custom-call(x, k), custom_call_target="pair"
  y = f32[2,3] get-tuple-element(p), index=0
  z = s64[2] get-tuple-element(p), index=1
  v = f32[2,3] custom-call(y), custom_call_target="double it"
  ROOT t = (f32[2,3], s64[2]) tuple(v, z)
}
""")
    build(module, tmp_path, machines=[MACHINE])
    lines = script(tmp_path, """import { load } from "./model.mjs";
const model = await load(), x = Float32Array.of(1, 2, 3, 4, 5, 6);
const says = (action) => {
  try {
    console.log(action().map((array) => array.join()).join(" "));
  } catch (error) {
    console.log(error.code ?? "own", error.message);
  }
};
says(() => model.run(x, 7));
model.functions["pair"] = (x, k) => [x.map((one) => one + 1), [k[0], k[0] * 2n]];
model.functions["double it"] = (y) => y.map((one) => 2 * one);
says(() => model.run(x, 7));
model.functions["pair"] = (x, k) => [x];
says(() => model.run(x, 7));
model.functions["pair"] = (x, k) => [x, [1]];
says(() => model.run(x, 7));
model.functions["pair"] = () => { throw new Error("of one's own"); };
says(() => model.run(x, 7));
model.functions["pair"] = () => model.run(x, 7);
says(() => model.run(x, 7));
model.functions["pair"] = (x, k) => [x, [3, 4]];
says(() => model.run(x, 7));
""")
    assert lines == [
        '14 nothing was put into functions["pair"]',
        "4,6,8,10,12,14 7,14",
        '15 functions["pair"]: expected 2 results, got 1',
        '15 functions["pair"], p.1: s64[2]: expected 2 elements, got 1',
        "own of one's own",
        "14 the model is running: it cannot be called by its functions",
        "2,4,6,8,10,12 3,4",
    ]


@needs_node
def test_several_entries(tmp_path: Path) -> None:
    small, large = (
        parse(f"HloModule m\nENTRY e {{ x = f32[{n}] parameter(0)\n ROOT y = f32[{n}] add(x, x) }}\n")
        for n in (2, 9000)
    )
    build({"small": small, "large": large}, tmp_path, machines=[MACHINE])
    lines = script(tmp_path, """import { load } from "./model.mjs";
const model = await load();
const first = model.small([1, 2]), many = model.large(new Float32Array(9000).fill(3)), last = model.small([5, 6]);
console.log(first.join(), many.every((one) => one === 6), last.join());
""")
    assert lines == ["2,4 true 10,12"]


# ---- what is in a module


@needs_linker
@pytest.mark.parametrize("name", ["wasm32", "wasm32-simd128"])
def test_modules_import_nothing_and_know_their_sizes(name: str, tmp_path: Path) -> None:
    for number, module in enumerate((parse(ROUNDING), one_module(open_source(model("switch"))))):
        built = build(module, tmp_path / str(number), machines=[named(name)])
        data = (built.folder / "model.wasm").read_bytes()
        (about,) = read_metadata(data)
        assert about == {**built.library.manifest}
        assert about["processors"] == [name]
        sizes = function_sizes(data)
        assert {one: sizes[one] for one in about["functions"]} == about["functions"]
        assert sum(about["functions"].values()) > 1000
        # What an engine has to have is a list of names, each with its length.
        assert (b"+\x07simd128" in data) == (name == "wasm32-simd128")
        assert b"atomics" not in data
        if not WASM.missing:
            arrays = random_inputs(module, 3)
            found = run_driver(built, arrays, on=FOREIGN[name])
            truth = bounded_results(module, arrays)
            assert verdict_of(compare_with_truth(found, truth, evaluate(module, arrays))) == "ok"
            listed = ran(["node", "-e", """const { readFileSync } = require("fs");
const module = new WebAssembly.Module(readFileSync("model.wasm"));
console.log(WebAssembly.Module.imports(module).length, WebAssembly.Module.customSections(module, "hlotool").length);
"""], built.folder)  # fmt: skip
            assert listed.split() == ["0", "1"]


@needs_linker
def test_sizes(tmp_path: Path) -> None:
    """Of the sample, all but weights and JavaScript."""
    build(one_module(open_source(SAMPLES / "mlp_step.hlo")), tmp_path, machines=[MACHINE])
    assert (tmp_path / "model.wasm").stat().st_size <= 40 << 10


@needs_linker
def test_commands(hlotool: Run, tmp_path: Path) -> None:
    sample = SAMPLES / "mlp_step.hlo"
    done = hlotool("build", sample, "-o", "out", "--kind", "wasm", "--format", "json")
    said = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(said["files"]) == [f"mlp_step.{end}" for end in ("d.mts", "json", "mjs", "wasm")]
    assert said["processors"] == ["wasm32-simd128"]
    manifest = check_json((tmp_path / "out" / "mlp_step.json").read_text())
    assert (manifest["library"], manifest["triple"]) == ("wasm", "wasm32-unknown-unknown")
    declared = (tmp_path / "out" / "mlp_step.d.mts").read_text()
    assert "run: Entry<(x: Float32Array | Numbers, target: Float32Array" in declared
    shown = hlotool("inspect", "out/mlp_step.wasm").stdout
    assert "mlp_step: wasm32-unknown-unknown, wasm32-simd128, little-endian" in shown
    assert re.search(r"k0_maximum_fusion_2 +[\d.]+ KiB", shown) is not None
    again = hlotool("build", sample, "-o", "again", "--triple", "wasm32-unknown-unknown", "--kind", "wasm")
    assert again.returncode == 0
    for name in said["files"]:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_commands_refuse(hlotool: Run, tmp_path: Path) -> None:
    sample = SAMPLES / "mean.hlo"
    for words, code, says in (
        ([sample, "--triple", "wasm32-unknown-unknown"], 2, "the kind of WebAssembly is wasm"),
        ([sample, "--kind", "shared", "--cpu", "wasm32"], 2, "the kind of WebAssembly is wasm"),
        ([sample, "--kind", "wasm", "--cpu", "x86-64-v3"], 2, "is none of wasm32-unknown-unknown"),
        ([sample, "--kind", "wasm", "--triple", "riscv64-linux-gnu"], 2, "not for riscv64-linux-gnu"),
        ([sample, "--kind", "wasm", "--cpu", "wasm32,wasm32-simd128"], 3, "wasm32,wasm32-simd128: several"),
        ([sample, "--triple", "riscv64-linux-gnu", "--cpu", "wasm32"], 2, "is none of riscv64-linux-gnu"),
        ([sample, "--triple", "i686-unknown-linux-gnu"], 4, "64-bit addresses, and for WebAssembly"),
        ([sample, "--demo"], 2, "--demo goes with --kind wasm"),
    ):
        done = hlotool("build", "-o", "out", *words)
        assert (done.returncode, says in done.stderr) == (code, True), (words, done.stderr)
    assert not (tmp_path / "out").exists()


def test_names_that_models_have_themselves(tmp_path: Path) -> None:
    module = one_module(open_source(SAMPLES / "mean.hlo"))
    if not WASM.missing:
        with pytest.raises(InputError, match="setWeights besides their entries"):
            build({"about": module}, tmp_path, machines=[MACHINE])
        with pytest.raises(InputError, match="setWeights besides their entries"):
            build({"functions": module}, tmp_path, machines=[MACHINE])
    with pytest.raises(UnsupportedError, match="are of the kind wasm, not object"):
        build(module, tmp_path, machines=[MACHINE], kind="object")
    with pytest.raises(UnsupportedError, match="the kind wasm is for WebAssembly"):
        build(module, tmp_path, machines=[named("x86-64")], kind="wasm")


def test_more_memory_than_addresses_have(tmp_path: Path) -> None:
    module = parse("HloModule m\nENTRY e { x = f32[600000000] parameter(0)\n ROOT y = f32[600000000] add(x, x) }\n")
    with pytest.raises(UnsupportedError, match=r"4,800,000,\d* of arrays exceed WebAssembly's 4 GiB"):
        build(module, tmp_path, machines=[MACHINE])


# ---- linkers


def test_a_missing_linker_is_said_with_ways_to_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(linker, "find_spec", lambda name: None)
    module = one_module(open_source(SAMPLES / "mean.hlo"))
    with pytest.raises(UnsupportedError, match=r"wasm-ld, in Debian's package lld.*pip install 'hlotool\[build\]'"):
        build(module, tmp_path / "out", machines=[MACHINE])


@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed")
def test_zig_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = parse(ROUNDING)
    arrays = random_inputs(module, 3)
    with monkeypatch.context() as changed:
        changed.setenv("PATH", str(tmp_path))
        built = build(module, tmp_path / "out", machines=[MACHINE])
    if not WASM.missing:
        found = run_driver(built, arrays, on=WASM)
        assert verdict_of(compare_with_truth(found, bounded_results(module, arrays), evaluate(module, arrays))) == "ok"


# ---- pages


def page(built: Built, name: str = "model") -> Path:
    files = files_of(built.library, "wasm", demo=True)
    path = built.folder / f"{name}.html"
    path.write_bytes(b"".join(files[f"{name}.html"]))
    return path


def opened(browser: Browser, path: Path) -> None:
    """Open a page and wait until its model is there."""
    browser.open(path)
    ready = """new Promise((done) => {
      const look = () => document.body.dataset.ready === undefined && !document.getElementById("error").textContent
        ? setTimeout(look, 10) : done(document.getElementById("error").textContent);
      look();
    })"""
    assert browser.evaluate(ready) == ""
    assert all(address.startswith(("file:", "about:")) for address in browser.requests())


STROKES = {
    0: [[(50, 10), (25, 30), (20, 60), (35, 90), (60, 92), (80, 65), (75, 30), (50, 10)]],
    1: [[(52, 8), (50, 95)]],
    2: [[(25, 30), (40, 10), (65, 12), (72, 35), (50, 62), (22, 92), (80, 92)]],
    3: [[(25, 15), (55, 8), (72, 25), (50, 47), (75, 65), (62, 92), (25, 88)]],
    4: [[(55, 8), (20, 62), (82, 62)], [(62, 40), (62, 95)]],
    7: [[(20, 12), (78, 12), (42, 94)]],
}
"""Of digits: lines in percent of a square."""


@needs_chromium
@needs_linker
def test_digits_are_drawn_and_told(tmp_path: Path) -> None:
    module = one_module(open_source(SAMPLES / "digits.hlo"))
    path = page(build(module, tmp_path, machines=[MACHINE]))
    browser = Browser()
    try:
        opened(browser, path)
        left, top, side = browser.evaluate(
            "(() => { const box = document.getElementById('drawing').getBoundingClientRect();"
            "return [box.left, box.top, box.width]; })()"
        )
        for size, offset in ((1.0, 0.0), (0.6, 0.3)):  # all over the square, or smaller in a corner
            for digit, lines in STROKES.items():
                for line in lines:
                    points = [
                        (left + side * (offset + size * x / 100), top + side * (offset + size * y / 100))
                        for x, y in line
                    ]
                    held: dict[str, Any] = {"button": "left", "buttons": 1}
                    browser.mouse("mousePressed", *points[0], clickCount=1, **held)
                    for x, y in points[1:]:
                        browser.mouse("mouseMoved", x, y, **held)
                    browser.mouse("mouseReleased", *points[-1], button="left", clickCount=1)
                assert browser.evaluate("document.getElementById('said').value") == str(digit)
                likely = browser.evaluate("document.querySelector('.best td').textContent")
                assert float(likely) > 0.5
                assert browser.evaluate("document.querySelectorAll('#classes tr').length") == 10
                browser.evaluate("document.getElementById('clear').click()")
                assert browser.evaluate("document.getElementById('said').value") == ""
        assert browser.errors == []
    finally:
        browser.close()


@needs_chromium
@needs_linker
def test_pages_of_other_modules_have_fields(tmp_path: Path) -> None:
    rows = ", ".join("{1, 2, 3}" for _ in range(3))
    module = parse(f"""HloModule fields<b>
ENTRY e {{
  x = f32[2,3] parameter(0)
  k = s64[] parameter(1)
  w = f32[3,3] constant({{ {rows} }})
  d = f32[2,3] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[40,40] broadcast(k2), dimensions={{}}
  ROOT t = (f32[2,3], s64[], f32[40,40]) tuple(d, k, b)
}}
""".replace("  b = f32", "  k2 = f32[] convert(k)\n  b = f32").replace("fields<b>", "fields"))
    twice = parse("HloModule twice\nENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }\n")
    built = build({"fields": module, "twice": twice}, tmp_path, machines=[MACHINE], weights_above=0)
    assert built.library.weights
    browser = Browser()
    try:
        opened(browser, page(built))

        def run(*fields: str) -> str:
            for number, text in enumerate(fields):
                browser.evaluate(f"document.getElementById('argument{number}').value = {json.dumps(text)}")
            found: str = browser.evaluate("""(() => {
              document.getElementById("run").click();
              const shown = [...document.querySelectorAll(".result")].map((figure) => figure.innerText);
              return shown.join(" ") + document.getElementById("error").textContent;
            })()""")
            return " ".join(found.split())

        assert run("[[1, 0, 0], [0, 2, 2]]", "9007199254740991") == (
            "d: f32[2,3] 1 2 3 4 8 12 k: s64[] 9007199254740991 b: f32[40,40] "
            "least 9007199254740992, mean 9007199254740992, greatest 9007199254740992"
        )
        assert run("iota", "1").startswith("d: f32[2,3] 3 6 9 12 24 36 k: s64[] 1")
        assert run("-1..1.5", "1").startswith("d: f32[2,3] -1.500 -3 -4.500 3 6 9 k: s64[] 1")
        assert "k: s64[] 2" in run("random", "2")
        browser.errors.clear()
        assert run("nonsense", "1").startswith("argument 0, x: f32[2,3]: expected a number, A..B, iota, random")
        assert run("[1, 2]", "1") == "argument 0, x: f32[2,3]: expected 6 elements, got 2"
        browser.evaluate("""(() => {
          const entry = document.getElementById("entry");
          entry.value = "twice";
          entry.dispatchEvent(new Event("change"));
        })()""")
        assert run("3") == "y: f32[4] 6 6 6 6"
    finally:
        browser.close()


@needs_chromium
@needs_linker
def test_pages_of_a_server_load_models(tmp_path: Path) -> None:
    rows = ", ".join("{1, 2, 3}" for _ in range(3))
    module = parse(f"""HloModule served
ENTRY e {{
  x = f32[2,3] parameter(0)
  w = f32[3,3] constant({{ {rows} }})
  ROOT d = f32[2,3] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
""")
    built = build(module, tmp_path, machines=[MACHINE], weights_above=0)
    (tmp_path / "page.html").write_text("<!doctype html><title>models</title>")
    (tmp_path / "worker.mjs").write_text("""import { load } from "./model.mjs";
load("model.wasm").then((model) => postMessage(Array.from(model.run([1, 0, 0, 0, 1, 1]))));
""")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser()
    try:
        browser.call("Page.navigate", url=f"http://127.0.0.1:{server.server_port}/page.html")
        while not any(event.get("method") == "Page.loadEventFired" for event in browser.events):
            browser.hear()
        assert browser.evaluate("""import("./model.mjs").then(async ({ load, LibraryError }) => {
  const said = [];
  for (const source of [undefined, "model.wasm", new URL("model.wasm", location)])
    said.push(Array.from((await load(source)).run([1, 0, 0, 0, 1, 1])).join());
  await load("absent.wasm").catch((error) => said.push(error instanceof LibraryError, error.message.split(": ")[1]));
  const worker = new Worker("worker.mjs", { type: "module" });
  said.push((await new Promise((done) => worker.addEventListener("message", done))).data.join());
  return said.join(" ");
})""") == "1,2,3,2,4,6 1,2,3,2,4,6 1,2,3,2,4,6 true 404 File not found 1,2,3,2,4,6"
        assert built.library.weights
    finally:
        browser.close()
        server.shutdown()
        server.server_close()


def test_pages_escape_what_they_show(tmp_path: Path) -> None:
    if "wasm-ld" in WASM.missing:
        pytest.skip("no wasm-ld")
    module = parse("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }\n")
    object.__setattr__(module, "name", "</title><script>alert(1)</script>")
    text = page(build(module, tmp_path, machines=[MACHINE])).read_text()
    assert "alert(1)</script>" not in text
    assert "&lt;script&gt;" in text
