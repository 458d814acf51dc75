"""Libraries: what `hlotool build` makes, linked and run by programs in C; numbers, errors, threads, memory."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import ROOT, Run
from json_schemas import check_json
from libraries import COPIES, DRIVER, ROUNDING, Built, build, c_program, machine, needs_cc, ran, run_driver
from models import model

from hlotool.codegen.machine import Numerics, named, of_triple, runs_here
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import compare_with_truth, verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.ir import InputError, Module, UnsupportedError, dtype_of
from hlotool.runtime.aot.interface import Array
from hlotool.runtime.aot.metadata import read_metadata
from hlotool.runtime.aot.symbols import function_sizes
from hlotool.text.load import one_module, open_source
from hlotool.text.parser import parse

pytestmark = needs_cc

SAMPLES = ROOT / "samples"
PROGRAMS = DRIVER.parent
MODELS = [
    SAMPLES / "mlp_step.hlo", SAMPLES / "attention.hlo", SAMPLES / "while_loop.hlo",
    *(model(name) for name in ("mlp_bf16_fwd", "lstm_scan_fwd_50", "switch", "complex_ops", "dtype_convert", "top_k")),
]  # fmt: skip


def read(path: Path) -> Module:
    return one_module(open_source(path))


def same(found: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]]) -> None:
    """The same bits."""
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.tobytes() == np.asarray(other).tobytes(), f"result {number}"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_library_gives_what_the_module_does(path: Path, tmp_path: Path) -> None:
    module = read(path)
    arrays = random_inputs(module, 3)
    found = run_driver(build(module, tmp_path), arrays)
    same(found, compile_module(module, machine=machine())(*arrays))
    truth = bounded_results(module, arrays)
    assert verdict_of(compare_with_truth(found, truth, evaluate(module, arrays))) == "ok"


TYPES = [
    "pred", "s4", "u4", "s8", "u16", "s32", "u64", "f16", "bf16", "f8e4m3fn", "f8e5m2", "f32", "f64", "c64", "c128"
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_arrays_of_every_type(kind: str, tmp_path: Path) -> None:
    module = parse(f"""HloModule types
ENTRY e {{
  x = {kind}[3,5] parameter(0)
  z = {kind}[0,4] parameter(1)
  y = {kind}[5,3] transpose(x), dimensions={{1,0}}
  ROOT t = ({kind}[5,3], {kind}[0,4], {kind}[3,5]) tuple(y, z, x)
}}
""")
    arrays = random_inputs(module, 0)
    built = build(module, tmp_path)
    same(run_driver(built, arrays), compile_module(module, machine=machine())(*arrays))
    sizes = [array["bytes"] for array in built.library.manifest["entries"][0]["results"]]
    assert sizes == [arrays[0].nbytes, 0, arrays[0].nbytes]


SHAPES = {
    "no parameters": "ROOT c = f32[2] constant({1, 2})",
    "a parameter is the result": "ROOT x = f32[4] parameter(0)",
    "a result twice": "x = f32[4] parameter(0)\n ROOT t = (f32[4], f32[4]) tuple(x, x)",
    "no results": "x = f32[4] parameter(0)\n ROOT t = () tuple()",
    "tuples in tuples": """p = ((f32[2], s32[]), f32[2]) parameter(0)
      a = (f32[2], s32[]) get-tuple-element(p), index=0
      b = f32[2] get-tuple-element(p), index=1
      ROOT t = ((f32[2], s32[]), f32[2], (f32[2], s32[])) tuple(a, b, a)""",
    "scalars": """x = f64[] parameter(0)
      y = s32[] parameter(1)
      z = f64[] convert(y)
      ROOT s = f64[] multiply(x, z)""",
    "words of C": """int = f32[4] parameter(0)
      for = f32[4] parameter(1)
      w.1-2 = f32[4] parameter(2)
      W_1_2 = f32[4] parameter(3)
      int_size = f32[4] parameter(4)
      a = f32[4] add(int, for)
      b = f32[4] add(w.1-2, W_1_2)
      c = f32[4] multiply(a, b)
      workspace = f32[4] subtract(c, int_size)
      ROOT t = (f32[4], f32[4]) tuple(workspace, for)""",
    "layouts": "x = f32[2,3]{0,1} parameter(0)\n ROOT y = f32[3,2]{0,1} transpose(x), dimensions={1,0}",
    "bounded sizes": """x = f32[<=8] parameter(0)
      ROOT y = f32[<=8] add(x, x)""",
}


@pytest.mark.parametrize("name", SHAPES)
def test_signatures_of_every_kind(name: str, tmp_path: Path) -> None:
    module = parse(f"HloModule shapes\nENTRY e {{\n{SHAPES[name]}\n}}\n")
    built = build(module, tmp_path)
    arrays = [np.zeros(array.shape.dimensions, dtype_of(array.shape.element_type)) for array in inputs_of(built)]
    for number, array in enumerate(arrays):
        array[...] = number + 3
    found = run_driver(built, arrays)
    if name == "bounded sizes":  # the array of the bound, and how much of it counts
        assert [array.tolist() for array in found] == [[6] * 4 + found[0].tolist()[4:], 4]
    else:
        same(found, compile_module(module, machine=machine())(*arrays))
    entry = built.library.interface.entries[0]
    names = [array.identifier.upper() for array in (*entry.arguments, *entry.results)]
    assert len(set(names)) == len(names)
    c_program(built, '#include "model.h"\nint main(void) { return 0; }\n', program="empty")


def inputs_of(built: Built) -> tuple[Array, ...]:
    return built.library.interface.entries[0].arguments


def test_donated_arguments_hold_results(tmp_path: Path) -> None:
    text = """HloModule step, input_output_alias={ {0}: (0, {}, must-alias) }
ENTRY e {
  w = f32[64] parameter(0)
  g = f32[64] parameter(1)
  n = f32[64] subtract(w, g)
  l = f32[64] multiply(g, g)
  ROOT t = (f32[64], f32[64]) tuple(n, l)
}
"""
    module = parse(text)
    built = build(module, tmp_path, donate="declared")
    w, g = (np.arange(64, dtype=np.float32) * k for k in (1, 3))
    same(run_driver(built, [w, g]), [w - g, g * g])
    first, second = built.library.manifest["entries"][0]["arguments"]
    assert (first["alias"], first["overwritten"], second["alias"], second["overwritten"]) == (0, True, None, False)
    program = c_program(built, PROGRAMS / "donated.c")
    assert ran([program], tmp_path) == "0 3 4 1 0 1"




def test_what_is_wrong_is_a_code(tmp_path: Path) -> None:
    module = parse("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }\n")
    built = build(module, tmp_path)
    sanitised = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    for options in ([], sanitised):
        lines = ran([c_program(built, PROGRAMS / "errors.c", options=options)], tmp_path).splitlines()
        null = "1 an argument, a result or the workspace is a null pointer"
        short = "3 the workspace is too short"
        misaligned = "2 the workspace is not aligned to 64 bytes"
        assert lines == ["0 done", *[null] * 5, misaligned, short, short, "no such code no such code"]


def test_a_processor_that_lacks_something_is_a_code(tmp_path: Path) -> None:
    lacking = "sse4a" if not machine().has("sse4a") else "tbm"  # of AMD's first and second K10, of Bulldozer alone
    if machine().has(lacking) or not machine().triple.startswith("x86_64"):
        pytest.skip("this processor has all that could be asked for")
    module = parse("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }\n")
    built = build(module, tmp_path, machines=[replace(named("x86-64"), features=f"+{lacking}")])
    x = np.ones(4, np.float32)
    says = "this processor lacks instructions that the code uses"
    run_driver(built, [x], says=says, code=1)


LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]


@pytest.mark.skipif(not machine().triple.startswith("x86_64"), reason="levels are those of x86-64")
def test_one_library_for_several_processors(tmp_path: Path) -> None:
    module = read(SAMPLES / "mlp_step.hlo")
    arrays = random_inputs(module, 1)
    levels = [named(name) for name in LEVELS]
    best = next(level for level in reversed(levels) if runs_here(level))
    built = build(module, tmp_path, machines=levels)
    assert built.library.manifest["processors"] == LEVELS
    same(run_driver(built, arrays), compile_module(module, machine=best)(*arrays))
    # What this processor lacks is left alone.
    absent = replace(named("x86-64-v4"), features="+tbm")
    built = build(module, tmp_path / "absent", machines=[named("x86-64-v2"), absent])
    same(run_driver(built, arrays), compile_module(module, machine=named("x86-64-v2"))(*arrays))


def test_processors_in_one_library_are_levels(tmp_path: Path) -> None:
    module = read(SAMPLES / "mean.hlo")
    for names in (["x86-64-v3", "x86-64-v2"], ["x86-64", "x86-64"], ["aarch64", "x86-64"]):
        with pytest.raises(InputError, match="from the lowest to the highest"):
            build(module, tmp_path, machines=[named(name) for name in names])


@pytest.mark.skipif(not machine().triple.startswith("x86_64"), reason="levels are those of x86-64")
@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
@pytest.mark.parametrize("level", LEVELS)
def test_libraries_need_nothing_but_copies_of_memory(level: str, tmp_path: Path) -> None:
    rounding = parse(ROUNDING)
    arrays = [(np.linspace(-9, 9, 40) * 1.25).astype(dtype) for dtype in (np.float32, np.float64)]
    for number, module in enumerate((rounding, read(SAMPLES / "mlp_step.hlo"), read(model("llama_decode_scan")))):
        folder = tmp_path / str(number)
        built = build(module, folder, machines=[named(level)], kind="object")
        undefined = set(ran(["nm", "-u", "model.o"], folder).split()) - {"U"}
        assert undefined <= COPIES
        changing = [line.split() for line in ran(["nm", "model.o"], folder).splitlines()]
        assert {row[-1] for row in changing if row[-2] in "bBD"} <= {"known"}  # the level, once it was found
        if number == 0 and runs_here(named(level)):
            same(run_driver(built, arrays), compile_module(module, machine=named(level))(*arrays))


def test_two_threads_at_once(tmp_path: Path) -> None:
    for path in (SAMPLES / "mlp_step.hlo", model("switch"), model("lstm_scan_fwd_50")):
        module = read(path)
        arrays = random_inputs(module, 5)
        run_driver(build(module, tmp_path / path.stem), arrays, threads=2)


PARALLEL = """HloModule parallel
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[400,1000] parameter(0)
  y = f32[300,400] parameter(1)
  t = f32[400,1000] tanh(x)
  d = f32[300,1000] dot(y, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  r = f32[300] reduce(d, z), dimensions={1}, to_apply=add
  ROOT o = (f32[300,1000], f32[300]) tuple(d, r)
}
"""


def test_threads_of_the_library(tmp_path: Path) -> None:
    built = build(parse(PARALLEL), tmp_path, machines=[replace(machine(), cores=4)])
    assert ran([c_program(built, PROGRAMS / "threads.c")], tmp_path).split() == ["1", "1", "1", "1"]
    arrays = random_inputs(parse(PARALLEL), 0)
    same(run_driver(built, arrays), compile_module(parse(PARALLEL), machine=built.machines[0])(*arrays))


@pytest.mark.parametrize("tool", ["valgrind", "address sanitizer", "thread sanitizer"])
def test_memory_is_used_as_it_should_be(tool: str, tmp_path: Path) -> None:
    if tool == "valgrind" and shutil.which(tool) is None:
        pytest.skip("no valgrind")
    for path in (SAMPLES / "mlp_step.hlo", SAMPLES / "while_loop.hlo", model("switch")):
        module = read(path)
        arrays = random_inputs(module, 2)
        # valgrind knows no AVX-512, and shadow memory wants a known level, too
        level = next(named(name) for name in ("x86-64-v3", "x86-64-v2", "aarch64") if runs_here(named(name)))
        built = build(module, tmp_path / path.stem, machines=[level])
        under = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"] if tool == "valgrind" else []
        options = {"address sanitizer": ["-fsanitize=address"], "thread sanitizer": ["-fsanitize=thread"]}.get(tool, [])
        threads = 2 if tool == "thread sanitizer" else 0
        found = run_driver(built, arrays, under=under, options=options, threads=threads)
        same(found, compile_module(module, machine=level)(*arrays))


# ---- weights

WEIGHTS = """HloModule dense
ENTRY e {
  x = f32[4,64] parameter(0)
  w = f32[64,512] constant({...})
  b = f32[512] constant({...})
  d = f32[4,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4,512] broadcast(b), dimensions={1}
  ROOT y = f32[4,512] add(d, c)
}
"""


def dense(seed: int) -> Module:
    """A layer with weights of its own."""
    return with_weights(WEIGHTS, seed)


def with_weights(text: str, seed: int) -> Module:
    draws = np.random.default_rng(seed).integers(-99, 99, (65, 512)).tolist()
    rows = ["{" + ", ".join(str(number / 8) for number in row) + "}" for row in draws]
    for content in (f"{{{', '.join(rows[:64])}}}", rows[64]):
        text = text.replace("{...}", content, 1)
    return parse(text)


def test_weights_are_a_file_and_can_be_changed(tmp_path: Path) -> None:
    one, other = build(dense(1), tmp_path / "one"), build(dense(2), tmp_path / "other")
    assert len(one.library.object) < 40_000 < len(b"".join(one.library.weights))
    arrays = random_inputs(dense(1), 0)
    same(run_driver(one, arrays), compile_module(dense(1), machine=machine())(*arrays))
    shutil.copy(other.folder / "model.weights", one.folder)
    same(run_driver(one, arrays), compile_module(dense(2), machine=machine())(*arrays))


DAMAGE = {
    "begins with something else": lambda data: b"x" + data[1:],
    "another version": lambda data: data[:8] + b"\x07" + data[9:],
    "too short": lambda data: data[:-64],
    "longer": lambda data: data + bytes(64),
    "other code": lambda data: data[:24] + bytes(16) + data[40:],
    "damaged": lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
    "another one": lambda data: data[:64] + data[64:][::-1],
    "too short,": lambda data: b"",
    "too short, or": lambda data: data[:10],
}


@pytest.mark.parametrize("words", DAMAGE)
def test_wrong_weights_are_codes(words: str, tmp_path: Path) -> None:
    built = build(dense(1), tmp_path)
    path = built.folder / "model.weights"
    path.write_bytes(DAMAGE[words](path.read_bytes()))
    (built.folder / "in").write_bytes(b"".join(a.tobytes() for a in random_inputs(dense(1), 0)))
    program = c_program(built, DRIVER, options=["-fsanitize=address"])
    assert words in ran([program, 0, "in", "out", "model.weights"], built.folder, 1)


def test_missing_weights_are_a_code(tmp_path: Path) -> None:
    built = build(dense(1), tmp_path)
    program = c_program(built, PROGRAMS / "missing.c")
    missing = "the weights are missing: the context has none"
    assert ran([program], tmp_path).splitlines() == [
        missing, missing, "these are no weights: the file begins with something else",
        "the weights are not aligned to 64 bytes", missing,
    ]  # fmt: skip


def test_constants_below_the_limit_are_in_the_library(tmp_path: Path) -> None:
    built = build(dense(1), tmp_path, weights_above=1 << 20)
    assert (built.library.weights, built.library.manifest["weights"]) == ((), None)
    arrays = random_inputs(dense(1), 0)
    same(run_driver(built, arrays), compile_module(dense(1), machine=machine())(*arrays))


# ---- several entries


def test_entries_share_weights_and_kernels(tmp_path: Path) -> None:
    small = dense(1)
    text = WEIGHTS.replace("ROOT y", "y").replace("add(d, c)\n", "add(d, c)\n  ROOT z = f32[4,512] tanh(y)\n")
    other = with_weights(text, 1)
    alone = build(small, tmp_path / "alone")
    both = build({"first": small, "second": other, "third": small}, tmp_path / "both")
    assert len(both.library.weights[1]) == len(alone.library.weights[1])
    tiles = [name for name in both.library.functions if name.startswith("tile")]
    assert tiles == [name for name in alone.library.functions if name.startswith("tile")] != []
    arrays = random_inputs(small, 0)
    for entry, module in enumerate((small, other, small)):
        same(run_driver(both, arrays, entry=entry), compile_module(module, machine=machine())(*arrays))


# ---- what the code asks of its caller


CALLS = """HloModule calls
ENTRY e {
  x = f32[4] parameter(0)
  k = token[] after-all()
  i = ((f32[4], s32[]), token[]) infeed(k)
  v = (f32[4], s32[]) get-tuple-element(i), index=0
  a = f32[4] get-tuple-element(v), index=0
  n = s32[] get-tuple-element(v), index=1
  c = (f32[4], f32[]) custom-call(x, a), custom_call_target="my.target", backend_config="{scale = 2}"
  d = f32[4] get-tuple-element(c), index=0
  m = f32[4] custom-call(d), custom_call_target="other"
  ROOT t = (f32[4], s32[]) tuple(m, n)
}
"""


def test_calls_and_feeds_are_functions_of_the_context(tmp_path: Path) -> None:
    built = build(parse(CALLS), tmp_path)
    assert built.library.manifest["context_functions"] == ["infeed", "my.target", "other"]
    assert ran([c_program(built, PROGRAMS / "calls.c")], tmp_path).splitlines() == [
        "infeed my.target other the context has no function for infeed", "done", "22 24 26 28 7 3",
        "the context has no function for my.target", "a function of the context failed",
    ]  # fmt: skip


ENDLESS = """HloModule endless
body { s = s32[] parameter(0)
 one = s32[] constant(1)
 ROOT n = s32[] add(s, one) }
go { s = s32[] parameter(0)
 most = s32[] constant(2000000000)
 ROOT l = pred[] compare(s, most), direction=LT }
ENTRY e { s = s32[] parameter(0)
 ROOT w = s32[] while(s), condition=go, body=body }
"""


def test_a_call_can_be_stopped(tmp_path: Path) -> None:
    built = build(parse(ENDLESS), tmp_path)
    program = c_program(built, PROGRAMS / "stop.c")
    assert ran([program], tmp_path) == "the call was stopped by the function poll of its context\n"


RANDOM = """HloModule draws
ENTRY e {
  a = f32[] constant(0)
  b = f32[] constant(1)
  s = u64[2] rng-get-and-update-state(), delta=7
  r = f32[300] rng(a, b), distribution=rng_uniform
  ROOT t = (u64[2], f32[300]) tuple(s, r)
}
"""


def test_the_state_of_random_numbers_is_the_callers(tmp_path: Path) -> None:
    module = parse(RANDOM)
    built = build(module, tmp_path)
    executable = compile_module(module, machine=machine())
    first, second = executable(), executable()
    same(run_driver(built, []), first)
    program = c_program(built, PROGRAMS / "random.c")
    rows = [f"0 {draw[0][0]} {draw[1][299]:.9g}" for draw in (first, second, first, first)]
    assert ran([program], tmp_path).splitlines() == rows


# ---- two libraries, names, bytes


def test_two_libraries_in_one_program(tmp_path: Path) -> None:
    module = read(SAMPLES / "mlp_step.hlo")
    for name in ("one", "other"):
        build(module, tmp_path, name=name)
    (tmp_path / "main.c").write_text(
        '#include "one.h"\n#include "other.h"\n'
        "int main(void) { return one_library()->entries[0].run == other_library()->entries[0].run; }\n"
    )
    ran(["cc", "-std=c11", "-Wall", "-Werror", "main.c", "libone.a", "libother.a", "-o", "main"], tmp_path)
    ran(["./main"], tmp_path)


@pytest.mark.parametrize("name", ["a-b", "int", "1st", "a__b", "", "ünder", "match"])
def test_names_that_are_none(name: str, tmp_path: Path) -> None:
    module = read(SAMPLES / "mean.hlo")
    with pytest.raises(InputError, match="expected letters"):
        build(module, tmp_path, name=name)
    with pytest.raises(InputError, match="expected letters"):
        build({name: module}, tmp_path)
    with pytest.raises(InputError, match="more than case"):
        build({"run": module, "Run": module}, tmp_path)


def test_the_same_bytes_every_time(hlotool: Run, tmp_path: Path) -> None:
    for folder, seed in (("one", "1"), ("other", "2")):
        done = hlotool(
            "build", SAMPLES / "mlp_step.hlo", "-o", folder, "--kind", "shared",
            env={"PYTHONHASHSEED": seed, "HLOTOOL_THREADS": seed},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["libmlp_step.so", *(f"mlp_step.{suffix}" for suffix in ("h", "hpp", "json", "py", "rs"))]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name


def test_the_same_bytes_whatever_was_built_before(tmp_path: Path) -> None:
    module = read(model("switch"))
    objects = {build(module, tmp_path, kind="object").library.object for _ in range(12)}
    assert len(objects) == 1


def test_sizes(tmp_path: Path) -> None:
    """Of the sample, all but weights."""
    built = build(read(SAMPLES / "mlp_step.hlo"), tmp_path, kind="shared")
    assert len(built.library.object) <= 40 << 10
    assert (tmp_path / "libmodel.so").stat().st_size <= 40 << 10


# ---- the command, and what it says


def test_build_says_what_it_wrote(hlotool: Run, tmp_path: Path) -> None:
    sample = SAMPLES / "mlp_step.hlo"
    done = hlotool("build", sample, "-o", "out", "--format", "json", "--cpu", "x86-64-v2,l2=512K,x86-64-v3")
    said = json.loads(done.stdout)
    assert said["processors"] == ["x86-64-v2", "x86-64-v3"]
    assert {name: (tmp_path / "out" / name).stat().st_size for name in said["files"]} == said["files"]
    manifest = check_json((tmp_path / "out" / "mlp_step.json").read_text())
    assert sorted(said["files"]) == manifest["files"]
    assert sum(manifest["functions"].values()) == said["code_bytes"] > 1000


def test_build_refuses(hlotool: Run, tmp_path: Path) -> None:
    sample = SAMPLES / "mean.hlo"
    for words, code, says in (
        ([], 2, "give a FILE"),
        ([sample, "--entry", f"a={sample}"], 2, "give a FILE"),
        (["--entry", "a"], 2, "expected NAME=FILE"),
        (["--entry", f"a={sample}", "--entry", f"a={sample}"], 2, "given twice"),
        ([sample, "--cpu", "nothing"], 2, "unknown cpu"),
        ([sample, "--cpu", "x86-64-v3", "--triple", "aarch64-linux-gnu"], 2, "none of aarch64-linux-gnu"),
        ([sample, "--triple", "nowhere-at-all"], 2, "no such target"),
        ([sample, "--name", "int"], 3, "expected letters"),
        ([sample, "--triple", "i686-unknown-linux-gnu"], 4, "64-bit addresses"),
        (["absent.hlo"], 3, "cannot read"),
    ):
        done = hlotool("build", "-o", "out", *words)
        assert (done.returncode, says in done.stderr) == (code, True), (words, done.stderr)
    assert not (tmp_path / "out").exists()


TRIPLES = {
    "aarch64-unknown-linux-gnu": b"\x7fELF", "riscv64-unknown-linux-gnu": b"\x7fELF", "s390x-linux-gnu": b"\x7fELF",
    "arm64-apple-macosx11": b"\xcf\xfa\xed\xfe", "x86_64-pc-windows-msvc": b"\x64\x86",
    "aarch64-pc-windows-msvc": b"\x64\xaa",
}  # fmt: skip


@pytest.mark.parametrize("triple", TRIPLES)
def test_objects_for_other_systems(hlotool: Run, tmp_path: Path, triple: str) -> None:
    done = hlotool("build", SAMPLES / "mean.hlo", "-o", "out", "--kind", "object", "--triple", triple)
    assert (done.returncode, done.stderr) == (0, "")
    data = (tmp_path / "out" / "mean.o").read_bytes()
    assert data.startswith(TRIPLES[triple])
    (about,) = read_metadata(data)
    assert about["byte_order"] == ("big" if triple.startswith("s390x") else "little")
    sizes = function_sizes(data)
    assert {name: sizes[name] for name in about["functions"]} == about["functions"]
    assert min(about["functions"].values()) > 0


def test_weights_for_big_endian_processors(tmp_path: Path) -> None:
    """The same numbers, each with its high bytes first, and words of the head, too."""
    machines = [of_triple("s390x-linux-gnu")]
    big = build(dense(1), tmp_path / "big", machines=machines, kind="object")
    little = build(dense(1), tmp_path / "little", machines=[of_triple("riscv64-unknown-linux-gnu")], kind="object")
    both = (big.library, ">"), (little.library, "<")
    heads = [np.frombuffer(library.weights[0], f"{order}u8").tolist() for library, order in both]
    assert [head[:3] for head in heads] == 2 * [[heads[0][0], heads[0][1], len(big.library.weights[1])]]
    first, second = (np.frombuffer(library.weights[1], f"{order}f4") for library, order in both)
    assert first.tolist() == second.tolist()


def test_flushed_denormals(tmp_path: Path) -> None:
    module = parse("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] add(x, x) }\n")
    flushing = replace(machine(), numerics=Numerics(flush_denormals=True))
    x = np.full(4, 1e-40, np.float32)
    assert run_driver(build(module, tmp_path / "usual"), [x])[0].all()
    assert not run_driver(build(module, tmp_path / "flushing", machines=[flushing]), [x])[0].any()


def test_inspect_finds_libraries_in_programs(hlotool: Run, tmp_path: Path) -> None:
    module = read(SAMPLES / "mlp_step.hlo")
    built = build(module, tmp_path, kind="shared")
    c_program(built, DRIVER, program="linked")
    said = hlotool("inspect", "libmodel.so").stdout
    assert re.search(r"k0_maximum_fusion_2 +[\d.,]+ (KiB|B)", said) is not None
    assert "f32[64,128]" in said
    build(module, tmp_path / "static", name="second")
    subprocess.run(["cat libmodel.so static/libsecond.a > both"], shell=True, cwd=tmp_path, check=True)
    both = json.loads(hlotool("inspect", "both", "--format", "json").stdout)["libraries"]
    assert [about["name"] for about in both] == ["model", "second"]
    assert both[0] == {**built.library.manifest}
    assert hlotool("inspect", SAMPLES / "mean.hlo").returncode == 3


def test_contents_that_were_left_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="left out"):
        build(parse(WEIGHTS), tmp_path)
