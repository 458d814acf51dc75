"""Backends that compile parts of modules: the package in samples/backend_plugin, and what the driver does for all."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Install, Run
from fuzz.grammar import random_module
from guide_pages import run_page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_schemas import check_json
from random_programs import Generator
from test_random_programs import inputs

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import Backend, Capabilities, CompilerWarning, backends, by_table, compile_module, executable_of
from hlotool.driver.cpu import BACKEND as CPU
from hlotool.driver.evaluator import BACKEND as EVALUATE
from hlotool.evaluate import evaluate
from hlotool.evaluate.feeds import Feeds
from hlotool.harness.inputs import random_inputs
from hlotool.inspect.render import find_dot
from hlotool.ir import ExecutionError, HloError, InputError, Instruction, Module, UnsupportedError
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse

SAMPLE = ROOT / "samples" / "backend_plugin"
Register = Callable[[Backend], None]

MODULE = """HloModule m

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] add(x, y)
  s = f32[8] sort(a), dimensions={0}, to_apply=less
  m = f32[8] multiply(s, a)
  ROOT n = f32[8] negate(m)
}
"""


def takes(*opcodes: str) -> Callable[[Instruction], str | None]:
    return lambda one: None if one.opcode in opcodes else f"no rule for {one.opcode}"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Makes backends known, which say nothing of what they leave."""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    known = dict(backends._BUILT_IN)
    yield lambda backend: backends._BUILT_IN.update({backend.name: backend})
    backends._BUILT_IN.clear()
    backends._BUILT_IN.update(known)


def mine(base: Backend = EVALUATE, **changes: Any) -> Backend:
    return replace(base, **{"name": "mine", "fallback": "cpu", "supports": takes("add", "multiply"), **changes})


def arrays(module: Module) -> list[Any]:
    return [np.asarray(array) for array in random_inputs(module, 0)]


# ---- the package


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sample is installed, from its wheel."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("sample")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=SAMPLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "packages")
    return folder / "packages"


def test_the_sample_is_small() -> None:
    files = [path for path in SAMPLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 150


def test_what_its_readme_shows_is_what_happens(package: Path, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    steps, skipped = run_page(SAMPLE / "README.md", tmp_path / "page", package)
    assert len(steps) == 4
    assert not [f"{step.command}\n{step.found}" for step in steps if not step.ok]
    assert skipped == []


@pytest.mark.parametrize("name", ["attention", "conv_net", "mlp_step", "lstm_cell", "while_loop"])
def test_the_sample_is_right(name: str, package: Path, hlotool: Run) -> None:
    environment = {"PYTHONPATH": f"{ROOT}:{package}"}
    file = ROOT / "samples" / f"{name}.hlo"
    done = hlotool("run", file, "--backend", "numpy", "--compare", "evaluate", "--format", "json", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert check_json(done.stdout)["verdict"] == "ok"


DOTS = """HloModule d
ENTRY e {
  a = f64[3,4,2,5] parameter(0)
  b = f64[5,3,6,2] parameter(1)
  ROOT d = f64[2,3,4,6] dot(a, b), lhs_batch_dims={2,0}, rhs_batch_dims={3,1}, lhs_contracting_dims={3}, \
rhs_contracting_dims={0}
}
"""
CONVOLUTIONS = """HloModule c
ENTRY e {
  x = f64[3,7,2,6] parameter(0)
  k = f64[4,3,2,5] parameter(1)
  ROOT c = f64[5,3,2,7] convolution(x, k), window={size=4x2 stride=3x1 pad=2_1x0_1}, dim_labels=f0b1_0i1o->f0b1
}
"""


@pytest.mark.parametrize("text", [DOTS, CONVOLUTIONS], ids=["dot", "convolution"])
def test_rules_of_the_sample(text: str, register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dimensions in any order; all of it in one cluster."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    from numpy_backend import BACKEND

    register(replace(BACKEND, least_work=0.0))
    if "convolution" in text:
        text = text.replace("f64[5,3,2,7]", "f64[5,3,2,6]")
    module = parse(text)
    given_ = [np.random.default_rng(0).normal(size=one.shape.dimensions) for one in module.entry.parameters]
    executable = compile_module(module, "numpy")
    assert [part.compiled for part in executable.partition.parts] == [True]  # type: ignore[union-attr]
    np.testing.assert_allclose(executable(*given_)[0], evaluate(module, given_)[0], rtol=1e-12, atol=1e-12)


# ---- any cut gives the same numbers


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 25), st.sampled_from(["evaluate", "cpu"]), st.booleans())
def test_random_cuts(choice: random.Random, length: int, fallback: str, native: bool) -> None:
    """Of random programs, by a backend that takes random instructions."""
    program = Generator(choice, length)
    module, arguments = parse(program.text), inputs(program)
    taken = {one.name for one in module.entry if choice.random() < 0.5}
    backend = mine(
        CPU if native else EVALUATE, fallback=fallback, least_work=choice.choice((0.0, 200.0)),
        supports=lambda one: None if one.name in taken else "not this one",
    )  # fmt: skip
    backends._BUILT_IN["mine"] = backend
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HLOTOOL_FALLBACK", "silent")
            executable = compile_module(module, "mine", threads=2)
            exact = fallback == "evaluate" and not native
            for _ in range(2):
                for value, want, found in zip(
                    program.results, evaluate(module, arguments), executable(*arguments), strict=True
                ):
                    assert (found.dtype, found.shape) == (want.dtype, want.shape)
                    if exact or not value.rough:
                        np.testing.assert_array_equal(found, want, err_msg=program.text)
    finally:
        del backends._BUILT_IN["mine"]


def test_random_modules_of_all_opcodes(register: Register) -> None:
    """Tuples, tokens, messages, dynamic sizes, asynchronous operations: to the bit what the evaluator gives whole."""
    tried = cut = 0
    for seed in range(250):
        rng = random.Random(seed)
        module = random_module(rng, size=rng.choice((4, 8, 14)))
        try:
            given_ = arrays(module)
            whole = compile_module(module, "evaluate")(*given_)
        except HloError:
            continue
        taken = {one.name for one in module.entry if rng.random() < 0.5}
        preparation = rng.choice((mine().preparation, ""))  # without dce there is what nobody reads
        register(
            mine(
                fallback="evaluate", preparation=preparation,
                supports=lambda one, taken=taken: None if one.name in taken else "no",
            )
        )  # fmt: skip
        executable = compile_module(module, "mine", "none")
        tried, cut = tried + 1, cut + (len(executable.parts) > 1)
        for want, found in zip(whole, executable(*given_), strict=True):
            assert (want.dtype, want.shape, want.tobytes()) == (found.dtype, found.shape, found.tobytes()), seed
    assert tried > 40
    assert cut > 15


LOOP = """HloModule l

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[4] get-tuple-element(s), index=1
  w = f32[4] tanh(v)
  ROOT t = (s32[], f32[4]) tuple(j, w)
}

condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

inner {
  p = f32[4] parameter(0)
  ROOT q = f32[4] tanh(p)
}

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] add(x, x)
  start = s32[] constant(0)
  state = (s32[], f32[4]) tuple(start, a)
  loop = (s32[], f32[4]) while(state), condition=condition, body=body
  r = f32[4] get-tuple-element(loop), index=1
  k = f32[4] call(r), to_apply=inner
  b = f32[4] add(k, a)
  pair = (f32[4], f32[4]) tuple(b, x)
  ROOT all = ((f32[4], f32[4]), s32[], f32[4]) tuple(pair, start, b)
}
"""


def test_control_flow_stays_whole_and_calls_are_inlined(register: Register) -> None:
    seen: list[list[str]] = []

    def compile_(module: Module, options: Any) -> Executable:
        seen.append([one.opcode for one in module.entry])
        return EVALUATE.compile(module, options)

    register(mine(compile=compile_, supports=takes("add", "tanh")))
    module, x = parse(LOOP), np.arange(4, dtype=np.float32)
    executable = compile_module(module, "mine")
    assert [[node.op for node in part.nodes] for part in executable.partition.parts] == [  # type: ignore[union-attr]
        ["add"], ["while"], ["tanh", "add"],
    ]  # fmt: skip
    assert [sorted(opcodes) for opcodes in seen] == [["add", "parameter"], ["add", "parameter", "parameter", "tanh"]]
    results = executable(x)
    for want, found in zip(evaluate(module, [x]), results, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)
    for number, result in enumerate(results):
        assert not any(np.may_share_memory(result, other) for other in (x, *results[:number]))
        assert result.flags.writeable


# ---- what is said, and what is refused


def test_reasons_are_decisions(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(mine())
    log = DecisionLog()
    executable = compile_module(parse(MODULE, "m.hlo"), "mine", log=log)
    report = executable.partition.report()  # type: ignore[union-attr]
    assert report.text() == (
        "2 of 4 ops in 2 clusters; 2 fall back:\n  1 x sort: no rule for sort (m.hlo:13)\n"
        "  1 x negate: no rule for negate (m.hlo:15)"
    )
    said = [d for d in log if d.pass_name == "clusters"]
    assert [(d.code, d.before) for d in said] == [
        ("HLO4210", ("a",)), ("HLO4210", ("m",)), ("HLO4211", ("s",)), ("HLO4211", ("n",)),
    ]  # fmt: skip
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("mode", ["warn", "silent", "error"])
def test_fallback_is_what_the_environment_says(
    mode: str, register: Register, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    register(mine())
    monkeypatch.setenv("HLOTOOL_FALLBACK", mode)
    told = "mine: a part of m is not compiled: 1 x sort (m.hlo:13): no rule for sort; 1 x negate (m.hlo:15)"
    if mode == "error":
        with pytest.raises(UnsupportedError) as refusal:
            compile_module(parse(MODULE, "m.hlo"), "mine")
        assert str(refusal.value).startswith(told)
        return
    compile_module(parse(MODULE, "m.hlo"), "mine")
    said = capsys.readouterr().err
    assert said == ("" if mode == "silent" else f"hlotool: {told}: no rule for negate; cpu runs it\n")


def test_little_work_is_no_refusal(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    register(mine(supports=None, least_work=1e6))
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    log = DecisionLog()
    executable = compile_module(parse(MODULE), "mine", log=log)
    assert [part.compiled for part in executable.partition.parts] == [False]  # type: ignore[union-attr]
    assert {d.code for d in log if d.pass_name == "clusters"} == {"HLO4212"}


@pytest.mark.parametrize(("least", "compiled"), [(0.0, True), (1.0, False)])
def test_clusters_have_to_save_so_much(
    least: float, compiled: bool, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds for each run: several operations save calls, but never a whole second of them."""
    register(mine(supports=None, least_gain=least))
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    executable = compile_module(parse(MODULE), "mine")
    assert [part.compiled for part in executable.partition.parts] == [compiled]  # type: ignore[union-attr]


def test_one_operation_saves_no_call(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    register(mine(supports=None, least_gain=0.0))
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    text = """HloModule o

ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4,4] parameter(1)
  ROOT d = f32[4] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""
    executable = compile_module(parse(text), "mine")
    assert [part.compiled for part in executable.partition.parts] == [False]  # type: ignore[union-attr]


def test_without_a_fallback_all_reasons_are_said(register: Register) -> None:
    register(mine(fallback=None))
    with pytest.raises(UnsupportedError, match=r"^backend mine: s: no rule for sort \(and 1 more\)$") as refusal:
        compile_module(parse(MODULE, "m.hlo"), "mine")
    assert [(d.message, d.location.line) for d in refusal.value.diagnostics if d.location] == [
        ("s: no rule for sort", 13), ("n: no rule for negate", 15),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "lack"),
    [
        ("r = f32[8] custom-call(x), custom_call_target=\"there\"", "custom calls are not supported (there)"),
        ("r = f32[8] all-reduce(x), to_apply=sum", "communication between devices is not supported"),
        ("t = token[] after-all()\n  r = token[] outfeed(x, t)", "feeds and host transfers are not supported"),
        ("r = s32[] get-dimension-size(d), dimensions={0}", "dynamic shapes are not supported"),
        ("r = f32[8] fusion(x), kind=kLoop, calls=inside", "far in inside: custom calls are not supported (there)"),
    ],
)  # fmt: skip
def test_what_a_backend_is_not_capable_of_it_never_sees(body: str, lack: str, register: Register) -> None:
    text = (
        "HloModule m\n\nsum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT s = f32[] add(p, q)\n}\n\n"
        'inside {\n  i = f32[8] parameter(0)\n  ROOT far = f32[8] custom-call(i), custom_call_target="there"\n}\n\n'
        f"ENTRY e {{\n  x = f32[8] parameter(0)\n  d = f32[<=8] parameter(1)\n  {body}\n"
        "  ROOT n = f32[8] negate(x)\n}\n"
    )
    module = parse(text)
    register(mine(supports=None, fallback=None, capabilities=Capabilities()))
    with pytest.raises(UnsupportedError) as refusal:
        compile_module(module, "mine")
    assert f"r: {lack}" in [d.message for d in refusal.value.diagnostics]


def test_a_table_of_types() -> None:
    supports = by_table({"add": ("f32", "f64")})
    module = parse(MODULE.replace("f32", "f16"))
    by_name = {one.name: one for one in module.entry}
    assert supports(by_name["a"]) == "add of f16 is not supported"
    assert supports(by_name["s"]) == "sort is not supported"
    assert supports({one.name: one for one in parse(MODULE).entry}["a"]) is None


# ---- backends that fail


def broken(error: Exception) -> Callable[..., Executable]:
    def compile_(module: Module, options: Any) -> Executable:
        if any(one.opcode == "multiply" for one in module.entry):
            raise error
        return EVALUATE.compile(module, options)

    return compile_


def run(module: Module, backend: str = "mine", **options: Any) -> Executable:
    executable = compile_module(module, backend, **options)
    given_ = arrays(module)
    for want, found in zip(evaluate(module, given_), executable(*given_), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)
    return executable


def test_a_cluster_that_is_refused_is_left_to_the_fallback(register: Register) -> None:
    register(mine(compile=broken(UnsupportedError("multiply is out of order"))))
    executable = run(parse(MODULE))
    rows = executable.partition.report().fallbacks  # type: ignore[union-attr]
    assert ("multiply", "multiply is out of order") in [(row.op, row.reason) for row in rows]
    assert len(executable.parts) == 2


@pytest.mark.parametrize("where", ["compile", "supports", "kind", "shapes", "reason"])
def test_a_backend_that_crashes_is_told_and_left_out(where: str, register: Register) -> None:
    def supports(one: Instruction) -> Any:
        if where == "supports" and one.opcode == "multiply":
            raise KeyError("planted")
        return takes("add", "multiply")(one) if where != "reason" else one.opcode in ("add", "multiply")

    other = compile_module(parse("ENTRY e {\n  ROOT x = f32[3] parameter(0)\n}"), "evaluate")
    makes: dict[str, Any] = {
        "compile": broken(KeyError("planted")), "kind": lambda module, options: "no executable",
        "shapes": lambda module, options: other,
    }  # fmt: skip
    register(mine(compile=makes.get(where, EVALUATE.compile), supports=supports))
    module = parse(MODULE)
    with pytest.warns(CompilerWarning, match="backend mine failed: ") as said:
        executable = run(module, strict=False)
    assert len(said) == (2 if where in ("kind", "shapes") else 1)
    assert any(d.code == "HLO4213" for d in executable.decisions)
    left = executable.partition.report().fallbacks  # type: ignore[union-attr]
    assert any(row.op == "multiply" and "failed: " in row.reason for row in left)
    with pytest.raises((KeyError, TypeError)):
        compile_module(module, "mine", strict=True)


def test_fallbacks_in_a_chain_and_in_a_circle(register: Register) -> None:
    register(mine(fallback="second"))
    register(mine(name="second", supports=takes("sort"), fallback="evaluate"))
    executable = run(parse(MODULE))
    assert [part.partition is not None for part in executable.parts] == [False, True, False, True]
    register(mine(name="second", fallback="mine"))
    with pytest.raises(UnsupportedError, match="backends fall back in a circle: mine -> second -> mine"):
        compile_module(parse(MODULE), "mine")
    register(mine(fallback="nowhere"))
    with pytest.raises(UnsupportedError, match="unknown backend 'nowhere'"):
        compile_module(parse(MODULE), "mine")


@pytest.mark.parametrize("wrong", ["count", "type", "shape"])
def test_results_of_functions_are_looked_at(wrong: str, register: Register) -> None:
    makes = {"count": [], "type": [np.zeros(8)], "shape": [np.zeros(9, np.float32)]}[wrong]
    register(mine(compile=lambda module, options: executable_of(module, lambda *given: makes)))
    executable = compile_module(parse(MODULE), "mine")
    with pytest.raises(ExecutionError, match="m: its backend gave "):
        executable(*arrays(executable.module))


def test_arithmetic_of_functions_raises_nothing(register: Register) -> None:
    register(mine(compile=lambda module, options: executable_of(module, lambda a, b: [a * b]), fallback=None))
    text = "ENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] parameter(1)\n  ROOT z = f32[2] multiply(x, y)\n}"
    given_ = np.array([1e38, np.inf], np.float32), np.array([1e38, 0], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = compile_module(parse(text), "mine")(*given_)
    assert str(found) == "[inf nan]"


# ---- how it runs


def test_arguments_that_do_not_fit_are_named_as_the_caller_knows_them(register: Register) -> None:
    register(mine())
    executable = compile_module(parse(MODULE), "mine")
    x = np.zeros(8, np.float32)
    with pytest.raises(InputError, match="parameter 1: expected float32"):
        executable(x, np.zeros(9, np.float32))
    with pytest.raises(InputError, match="expected 2 arguments, got 1"):
        executable(x)


def test_threads_share_a_program(register: Register) -> None:
    register(mine(CPU))
    module = parse(MODULE)
    executable = compile_module(module, "mine")
    wrong: list[int] = []

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(50):
            given_ = [rng.normal(size=8).astype(np.float32) for _ in range(2)]
            if not np.allclose(executable(*given_)[0], evaluate(module, given_)[0], rtol=1e-6):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_arrays_go_from_part_to_part_as_they_are(register: Register) -> None:
    """No part gets a copy of what another one made, and the caller gets what the last one made."""
    made: list[Any] = []
    given_: list[Any] = []

    def compile_(module: Module, options: Any) -> Executable:
        def function(*own: Any) -> Any:
            given_.extend(own)
            results = evaluate(module, own)
            made.extend(results)
            return results

        return executable_of(module, function)

    register(mine(compile=compile_, fallback="other"))
    register(mine(compile=compile_, name="other", fallback=None, supports=None))
    executable = compile_module(parse(MODULE), "mine")
    x, y = arrays(executable.module)
    (result,) = executable(x, y)
    added, sorted_, multiplied, negated = made
    wanted = [x, y, added, sorted_, added, multiplied]
    assert len(given_) == len(wanted)
    assert all(any(one is found for found in given_) for one in wanted)
    assert result is negated


def test_what_lies_between_parts_is_donated(register: Register) -> None:
    """Where both backends know what that is, nothing else reads it, and no result is in it."""
    donated: list[list[int]] = []

    def noted(base: Backend) -> Callable[..., Executable]:
        def compile_(module: Module, options: Any) -> Executable:
            donated.append(sorted(options.donation.arguments))
            return base.compile(module, options)

        return compile_

    register(mine(CPU, compile=noted(CPU), fallback="other"))
    register(replace(CPU, name="other", compile=noted(CPU)))
    run(parse(MODULE))
    assert donated == [[], [0, 1], [], [0]]  # add, multiply of sorted and sum; sort, negate
    donated.clear()
    register(mine(EVALUATE, compile=noted(EVALUATE), fallback="other"))
    run(parse(MODULE))
    assert donated == [[], [], [], []]


def test_arguments_can_be_donated_where_the_backend_knows_it(register: Register) -> None:
    register(mine(CPU))
    module = parse(MODULE)
    x, y = arrays(module)
    (want,) = evaluate(module, [x, y])
    executable = compile_module(module, "mine", donate=[0])
    (found,) = executable(x, y)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert found is x
    register(mine())
    with pytest.raises(UnsupportedError, match="overwrites no arguments"):
        compile_module(module, "mine", donate=[0])


MESSAGES = """HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  t = token[] after-all()
  in = (f32[2], token[]) infeed(t)
  v = f32[2] get-tuple-element(in), index=0
  u = token[] get-tuple-element(in), index=1
  w = f32[2] add(v, v)
  all = f32[2] all-reduce(w), to_apply=sum
  m = f32[2] multiply(all, w)
  out = token[] outfeed(m, u)
  in2 = (f32[2], token[]) infeed(out)
  v2 = f32[2] get-tuple-element(in2), index=0
  ROOT r = f32[2] multiply(v2, m)
}
"""


@pytest.mark.parametrize("fallback", ["cpu", "evaluate"])
def test_devices_and_queues_are_those_of_the_whole(fallback: str, register: Register) -> None:
    """Parts on several devices meet, and what they take from queues comes in the order of the program."""
    register(mine(fallback=fallback, capabilities=Capabilities()))
    results = []
    for backend in ("mine", "evaluate"):
        executable = compile_module(parse(MESSAGES), backend, replicas=2)
        feeds = Feeds({d: [np.array([d + number, 2], np.float32) for number in range(2)] for d in range(2)})
        results.append(executable.run_devices([[], []], feeds))
        results[-1] += [feeds.outfeed(device) for device in range(2)]
    for found, want in zip(*results, strict=True):
        np.testing.assert_array_equal(found, want)


def test_a_time_limit_is_for_all_parts_together(register: Register) -> None:
    text = LOOP.replace("constant(3)", "constant(2000000000)")
    register(mine(supports=takes("add")))
    start = time.monotonic()
    with pytest.raises(ExecutionError, match="limit"):
        compile_module(parse(text), "mine", timeout=0.3)(np.ones(4, np.float32))
    assert time.monotonic() - start < 30
    register(mine(capabilities=Capabilities()))
    with pytest.raises(UnsupportedError, match="has no time limit"):
        compile_module(parse(text), "mine", timeout=1)


def test_code_of_parts_and_memory(register: Register) -> None:
    register(mine())
    executable = compile_module(parse(MODULE), "mine")
    text = executable.text("llvm")
    assert text.count("; part ") == 2
    assert "define" in text
    assert (executable.memory.parameter_bytes, executable.memory.output_bytes) == (64, 32)
    assert executable.memory.arena_bytes >= 64  # the sum and what was sorted
    assert "4 parts" in repr(executable)
    looked_at = compile_module(parse(MODULE), "mine", to_run=False)
    with pytest.raises(UnsupportedError, match="compiled to be looked at"):
        looked_at(*arrays(looked_at.module))


def test_preparation_is_the_backends_own(register: Register) -> None:
    """What wants calls as they are gets them."""
    register(mine(preparation="", supports=lambda one: None if one.opcode == "call" else "no"))
    executable = compile_module(parse(LOOP), "mine")
    clusters = executable.partition.clusters  # type: ignore[union-attr]
    assert [[node.op for node in part.nodes] for part in clusters] == [["call"]]


# ---- names and targets


def test_targets_are_chosen_by_name(register: Register) -> None:
    register(
        mine(fallback=None, supports=None, targets=("a", "b"), at=lambda name: mine(name=f"mine:{name}", fallback=None))
    )
    assert backends.find_backend("mine").name == "mine"
    assert backends.find_backend("mine:b").name == "mine:b"
    with pytest.raises(UnsupportedError, match="backend mine knows no target 'c'; it has a, b"):
        backends.find_backend("mine:c")
    with pytest.raises(UnsupportedError, match="backend cpu knows no target 'x'; it has no targets"):
        backends.find_backend("cpu:x")


COMMANDS = """
from dataclasses import replace
from hlotool.driver.evaluator import BACKEND as EVALUATE
MINE = replace(EVALUATE, name="mine", fallback="cpu", supports=lambda one: None if one.opcode == "add" else "no rule")
"""


def test_commands(hlotool: Run, install: Install, tmp_path: Path) -> None:
    """run, compile, bench, compare, explain and graph."""
    environment = install("commands", COMMANDS, "hlotool.backends", mine="MINE", alias="MINE")
    (tmp_path / "m.hlo").write_text(MODULE)

    def said(*arguments: str, code: int = 0) -> tuple[str, str]:
        done = hlotool(*arguments, env=environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr

    out, err = said("run", "m.hlo", "--backend", "mine", "--compare", "evaluate")
    assert "out0: ok" in out
    assert err.startswith("hlotool: mine: a part of m is not compiled: 1 x sort (m.hlo:13): no rule")
    out, err = said("compile", "m.hlo", "--backend", "mine", "--decisions")
    assert "mine: 1 of 4 ops in 1 cluster; 3 fall back:" in out
    assert "clusters: refuse unsupported (HLO4211): s: left to cpu: no rule" in err
    answer = check_json(said("compile", "m.hlo", "--backend", "mine", "--format", "json")[0])
    assert (answer["backend"], answer["clusters"]["compiled"], answer["clusters"]["operations"]) == ("mine", 1, 4)
    assert "ahead of the passes" in said("compile", "m.hlo", "--backend", "mine", "--stop-after", "dce", code=2)[1]
    out, _ = said("explain", "clusters", "m.hlo", "mine")
    assert "  1 x sort: no rule (m.hlo:13)" in out
    assert "  with sort: 2 of 4 ops in 1 cluster" in out
    assert "predicted, as native code for this machine, a call each and together:" in out
    (predicted,) = check_json(said("explain", "clusters", "m.hlo", "mine", "--format", "json")[0])["predicted"]
    assert 0 < predicted["compiled_s"] <= 2 * predicted["one_by_one_s"]
    assert "takes whole modules" in said("explain", "clusters", "m.hlo", "cpu", code=2)[1]
    assert "cluster 1" in said("graph", "m.hlo", "--clusters", "mine", "--format", "dot")[0]
    assert "no other option" in said("graph", "m.hlo", "--clusters", "mine", "--heat", "flops", code=2)[1]
    if find_dot() is not None:
        assert said("graph", "m.hlo", "--clusters", "mine", "--format", "svg")[0].count("no rule") > 2
    times = ("--time", "0.01", "--warmup", "0", "--rounds", "1", "--no-roof")
    out, _ = said("bench", "m.hlo", "--backend", "cpu", "--backend", "mine", *times)
    assert "hlotool --backend mine" in out
    said("compare", "m.hlo", "--backend", "mine")
    assert "HLO4211" in said("explain", "HLO4211")[0]
    assert "installed as 'alias' calls itself 'mine'" in said("run", "m.hlo", "--backend", "alias", code=4)[1]


def test_a_crash_is_that_of_its_package(hlotool: Run, install: Install, tmp_path: Path) -> None:
    crash = "def crash(module, options):\n    raise KeyError('planted')\nMINE = replace(MINE, compile=crash)\n"
    text = COMMANDS + crash
    environment = install("crashing", text, "hlotool.backends", mine="MINE") | {"TMPDIR": str(tmp_path)}
    (tmp_path / "m.hlo").write_text(MODULE)
    done = hlotool("run", "m.hlo", "--backend", "mine", "--no-strict", "--compare", "evaluate", env=environment)
    assert done.returncode == 0, done.stderr
    assert "backend mine failed: KeyError: 'planted'" in done.stderr
    done = hlotool("run", "m.hlo", "--backend", "mine", "--strict", env=environment)
    assert (done.returncode, "this is a bug in crashing" in done.stderr) == (70, True)


def test_nothing_warns_where_nothing_is_wrong(register: Register) -> None:
    register(mine())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(parse(MODULE))
