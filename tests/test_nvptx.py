"""Kernels for graphics processors: their numbers, emulated on this processor, and their text."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import semantics.families  # noqa: F401
from conftest import ROOT, Run
from fake_cuda import Fake, on_fake
from hypothesis import given, settings
from hypothesis import strategies as st
from json_schemas import check_json
from models import model, models
from semantics.check import Setting, run_class
from semantics.sample import CLASSES
from semantics.sample import FAMILIES as OPCODES
from survey_nvptx import amd_object, assembled, ptx, same_bits, undefined

from hlotool.codegen.gpu.chip import CHIPS, EMULATED, FAMILIES, Chip, chip_named, permutation
from hlotool.codegen.gpu.grid import open_grid
from hlotool.codegen.launches import Launch, launches
from hlotool.codegen.llvm.values import Int
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import host, named
from hlotool.driver import compile_module, find_backend
from hlotool.driver.failures import CompilerWarning
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.ir import ExecutionError, Instruction, Module, UnsupportedError
from hlotool.ir.opcodes import SPELLED
from hlotool.runtime.cuda.driver import CudaDevice, Driver
from hlotool.runtime.cuda.emulator import Emulator
from hlotool.runtime.cuda.execution import executor
from hlotool.runtime.load import load
from hlotool.runtime.object_code import object_of
from hlotool.text.parser import parse

CELLS = [
    (opcode, name)
    for opcode in SPELLED
    for name, kinds in CLASSES.items()
    if any(set(family.types) & set(kinds) for family in OPCODES.get(opcode, ()))
]

_NVIDIA = importlib.util.find_spec("nvidia")
_FOLDERS = [] if _NVIDIA is None else _NVIDIA.submodule_search_locations or []
PTXAS = next((str(found) for folder in _FOLDERS for found in Path(folder).glob("*/bin/ptxas")), "")


@pytest.mark.parametrize(("opcode", "name"), CELLS)
def test_grids_and_evaluator_agree(opcode: str, name: str) -> None:
    grids = Setting(backend="nvptx:emulate")
    failure = run_class(opcode, name, seed=CELLS.index((opcode, name)), examples=20, setting=grids)
    assert failure is None, str(failure)


def agrees(module: Module, rtol: float = 1e-5) -> None:
    inputs = random_inputs(module, 1)
    results = compile_module(module, "nvptx:emulate")(*inputs)
    for got, wanted in zip(results, evaluate(module, inputs), strict=True):
        if np.issubdtype(wanted.dtype, np.inexact):
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * float(np.abs(wanted).max(initial=1)))
        else:
            np.testing.assert_array_equal(got, wanted)


SIZES = st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130])


@settings(max_examples=25, deadline=None)
@given(
    batch=st.sampled_from([1, 3]), m=SIZES, n=SIZES, k=SIZES,
    kind=st.sampled_from(["f32", "f64", "bf16", "f16", "s8", "c64"]), turned=st.tuples(st.booleans(), st.booleans()),
)  # fmt: skip
def test_products_of_any_size(batch: int, m: int, n: int, k: int, kind: str, turned: tuple[bool, bool]) -> None:
    left, right = ((k, m) if turned[0] else (m, k)), ((n, k) if turned[1] else (k, n))
    result = "s32" if kind == "s8" else kind
    agrees(parse(f"""ENTRY main {{
  x = {kind}[{batch},{left[0]},{left[1]}] parameter(0)
  y = {kind}[{batch},{right[0]},{right[1]}] parameter(1)
  z = {result}[{n}] parameter(2)
  d = {result}[{batch},{m},{n}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
    lhs_contracting_dims={{{1 if turned[0] else 2}}}, rhs_contracting_dims={{{2 if turned[1] else 1}}}
  b = {result}[{batch},{m},{n}] broadcast(z), dimensions={{2}}
  ROOT r = {result}[{batch},{m},{n}] add(d, b)
}}"""), rtol={"bf16": 2e-2, "f16": 2e-3}.get(kind, 1e-5))


WINDOWS = {  # of both spatial dimensions: size, stride, low and high padding, dilation of base and window
    "same": (3, 1, 1, 1, 1, 1),
    "strided": (3, 2, 1, 0, 1, 1),
    "transposed": (2, 1, 1, 1, 2, 1),
    "dilated": (3, 1, 2, 2, 1, 2),
    "negative": (2, 1, -1, 0, 1, 1),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "bf01_oi01->bf01"])
@pytest.mark.parametrize(("features", "groups", "out"), [(3, 1, 18), (16, 1, 8), (12, 3, 24), (1, 1, 5)])
def test_convolutions_are_products(window: str, labels: str, features: int, groups: int, out: int) -> None:
    size, stride, low, high, base, dilation = WINDOWS[window]
    sizes = 9, 7
    results = [((n - 1) * base + low + high + 1 - (size - 1) * dilation - 1) // stride + 1 for n in sizes]
    ours = features // groups
    if labels.startswith("b01f"):
        x, k = [2, *sizes, features], [size, size, ours, out]
        result = [2, *results, out]
    else:
        x, k = [2, features, *sizes], [out, ours, size, size]
        result = [2, out, *results]
    spatial = {
        "size": size, "stride": stride, "pad": f"{low}_{high}", "lhs_dilate": base, "rhs_dilate": dilation,
        "rhs_reversal": int(window == "dilated"),
    }  # fmt: skip
    written = " ".join(f"{name}={value}x{value}" for name, value in spatial.items())
    agrees(parse(f"""ENTRY main {{
  x = f32{x} parameter(0)
  k = f32{k} parameter(1)
  ROOT c = f32{result} convolution(x, k), window={{{written}}}, dim_labels={labels}, feature_group_count={groups}
}}"""))


ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"


@pytest.mark.parametrize("dimensions", ["0", "1", "2", "0,1", "0,2", "1,2", "0,1,2"])
@pytest.mark.parametrize("shape", [(3, 70, 33), (1, 5000, 2), (40, 2, 65), (300, 1, 9), (2, 3, 40_000)])
def test_reductions_of_any_form(dimensions: str, shape: tuple[int, int, int]) -> None:
    gone = [int(d) for d in dimensions.split(",")]
    kept = [n for d, n in enumerate(shape) if d not in gone]
    agrees(parse(f"""{ADD}
ENTRY main {{
  x = f32{list(shape)} parameter(0)
  z = f32[] constant(0.5)
  ROOT r = f32{kept} reduce(x, z), dimensions={{{dimensions}}}, to_apply=add
}}"""), rtol=1e-4)


@pytest.mark.parametrize("size", [1, 5, 31, 32, 33, 100, 256, 257, 1000])
def test_rows_with_what_follows_reductions(size: int) -> None:
    agrees(parse(f"""{ADD}
largest {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }}
ENTRY main {{
  x = f32[19,{size}] parameter(0)
  low = f32[] constant(-inf)
  z = f32[] constant(0)
  m = f32[19] reduce(x, low), dimensions={{1}}, to_apply=largest
  mb = f32[19,{size}] broadcast(m), dimensions={{0}}
  d = f32[19,{size}] subtract(x, mb)
  e = f32[19,{size}] exponential(d)
  s = f32[19] reduce(e, z), dimensions={{1}}, to_apply=add
  sb = f32[19,{size}] broadcast(s), dimensions={{0}}
  r = f32[19,{size}] divide(e, sb)
  ROOT t = (f32[19,{size}], f32[19]) tuple(r, s)
}}"""))


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "samples").glob("*.hlo")))
def test_samples_run(name: str) -> None:
    module = parse((ROOT / "samples" / f"{name}.hlo").read_text())
    executable = compile_module(module, "nvptx:emulate")
    inputs = random_inputs(module, 1)
    for got, wanted in zip(executable(*inputs), evaluate(module, inputs), strict=True):
        if np.issubdtype(wanted.dtype, np.inexact):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", ["nvptx:emulate", "cpu"])
def test_a_custom_call_without_a_handler_is_shown(hlotool: Run, tmp_path: Path, target: str) -> None:
    text = "ENTRY e {\n  p = f32[4] parameter(0)\n  ROOT mine = f32[4] custom-call(p), custom_call_target=\"f\"\n}\n"
    (tmp_path / "m.hlo").write_text(text)
    done = hlotool("run", "m.hlo", "--target", target)
    assert done.returncode == 4
    assert "m.hlo:3:8: error[HLO0800]: mine: custom-call target 'f' has no handler" in done.stderr


def test_a_refusal_from_inside_a_kernel_says_where_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise UnsupportedError("no transform of these")

    monkeypatch.setattr("hlotool.codegen.algorithms.fft.emit_fft", refuse)
    module = parse(TRANSFORM)
    with pytest.raises(UnsupportedError, match="s: no transform of these") as caught:
        compile_module(module, "nvptx:emulate")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location is not None
    assert diagnostic.location.line == 4


def test_a_fusion_that_has_no_kernel_becomes_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the processor: what fails is said, and the rest of the program stays as it is."""
    from hlotool.codegen.gpu import target
    from hlotool.codegen.kernel import Kernel

    emit: Callable[..., Kernel] = target.emit_fusion

    def fail(name: str, instruction: Instruction, *others: Any) -> Kernel:
        if instruction.opcode == "fusion":
            raise UnsupportedError("no kernel for that")
        return emit(name, instruction, *others)

    monkeypatch.setattr(target, "emit_fusion", fail)
    module = parse("ENTRY e { x = f32[9] parameter(0) y = f32[9] tanh(x) ROOT z = f32[9] add(y, x) }")
    inputs = random_inputs(module, 1)
    with pytest.warns(CompilerWarning, match="its parts have kernels of their own"):
        executable = compile_module(module, "nvptx:emulate", strict=False)
    np.testing.assert_allclose(executable(*inputs)[0], evaluate(module, inputs)[0], rtol=1e-6)
    assert "kernel-failed" in {decision.rule for decision in executable.decisions}
    with pytest.raises(UnsupportedError, match="no kernel for that"):
        compile_module(module, "nvptx:emulate", strict=True)


TRANSFORM = """HloModule transform
ENTRY e {
  x = c64[40] parameter(0)
  ROOT s = c64[40] fft(x), fft_type=FFT, fft_length={40}
}"""


def test_unknown_chips_are_refused(hlotool: Run) -> None:
    done = hlotool("emit", str(ROOT / "samples" / "mean.hlo"), "--target", "nvptx:sm_9")
    assert done.returncode == 2
    assert "sm_90" in done.stderr


def test_ptx_and_launches_come_from_the_command_line(hlotool: Run) -> None:
    sample = str(ROOT / "samples" / "attention.hlo")
    text = hlotool("compile", sample, "--target", "nvptx:sm_90", "--emit", "ptx").stdout
    assert ".target sm_90" in text
    listed = check_json(hlotool("compile", sample, "--target", "nvptx:sm_90", "--emit", "launches").stdout)
    for operation in listed["routines"][listed["entry"]]:
        assert f".entry {operation['kernel']}(" in text
    for command in (("compile", sample, "--emit", "ptx"), ("emit", sample, "--stage", "launches")):
        assert hlotool(*command).returncode == 4


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a driver")
def test_without_a_driver_a_run_says_what_is_missing(hlotool: Run) -> None:
    done = hlotool("run", str(ROOT / "samples" / "mean.hlo"), "--target", "nvptx:sm_90")
    assert done.returncode == 4
    assert "libcuda.so.1 is not here" in done.stderr


@pytest.mark.parametrize("name", ["gpt_decode", "resnet_bottleneck"])
def test_the_same_text_every_time(name: str) -> None:
    if not model(name).exists():
        pytest.skip("this model is not part of the clone")
    module = parse(model(name).read_text())
    assert ptx(module, "sm_80") == ptx(module, "sm_80")


@pytest.mark.skipif(not PTXAS, reason="ptxas is not installed (the package nvidia-cuda-nvcc)")
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("path", sorted((ROOT / "samples").glob("*.hlo")), ids=lambda path: path.stem)
def test_an_assembler_takes_all_kernels(path: Path, chip: str) -> None:
    for text in ptx(parse(path.read_text()), chip):
        assert assembled(PTXAS, chip, text).error == ""


def test_chips_have_names() -> None:
    assert chip_named("nvptx", "emulate") is EMULATED["emulate"]
    assert chip_named("nvptx", "sm_90") is CHIPS["sm_90"]
    for family, chip in (("nvptx", "gfx90a"), ("amdgcn", "sm_90")):
        with pytest.raises(UnsupportedError, match="knows no target"):
            find_backend(f"{family}:{chip}")


@pytest.mark.parametrize("path", models(), ids=lambda path: path.stem)
def test_llvm_makes_objects_for_amd_that_need_nothing(path: Path) -> None:
    """Every kernel of the corpus (shared with the clone, or what is in it)."""
    code = amd_object(parse(path.read_text()), "gfx90a")
    assert code.startswith(b"\x7fELF")
    assert undefined(code) == []


@pytest.mark.parametrize("chip", sorted(FAMILIES["amdgcn"]))
def test_all_chips_of_amd_have_code(chip: str) -> None:
    for path in sorted((ROOT / "samples").glob("*.hlo")):
        assert undefined(amd_object(parse(path.read_text()), chip)) == []


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no linker for AMD's chips (ziglang)")
def test_a_linker_makes_code_objects(tmp_path: Path) -> None:
    """Every kernel has a descriptor there, by which ROCm's runtime finds it."""
    module = parse((ROOT / "samples" / "attention.hlo").read_text())
    executable = compile_module(module, "amdgcn:gfx942", to_run=False)
    (tmp_path / "a.o").write_bytes(executable.device_object())
    linker = [sys.executable, "-m", "ziglang", "ld.lld"]
    subprocess.run([*linker, "-shared", "a.o", "-o", "a.hsaco"], cwd=tmp_path, check=True)
    code = (tmp_path / "a.hsaco").read_bytes()
    assert executable.launches is not None
    (listed,) = executable.launches.routines.values()
    names = {launch.function for launch in launches(listed)}
    assert len(names) >= 3
    assert all(f"{name}.kd\0".encode() in code for name in names)


def test_objects_show_what_they_need() -> None:
    """What says that objects for AMD need nothing does see what the processor's need."""
    assert undefined(object_of("declare void @other()\ndefine void @f() {\n  call void @other()\n  ret void\n}\n",
                               named("x86-64"))) == ["other"]  # fmt: skip


def test_code_for_amd_comes_from_the_command_line(hlotool: Run, tmp_path: Path) -> None:
    sample = str(ROOT / "samples" / "mean.hlo")
    target = ("--target", "amdgcn:gfx1100")
    assert hlotool("compile", sample, *target, "--emit", "object", "-o", "m.o").returncode == 0
    assert (tmp_path / "m.o").read_bytes().startswith(b"\x7fELF")
    text = hlotool("compile", sample, *target, "--emit", "asm").stdout
    assert "amdgcn-amd-amdhsa--gfx1100" in text
    llvm = hlotool("emit", sample, *target).stdout
    assert "amdgpu_kernel" in llvm
    check_json(hlotool("emit", sample, *target, "--stage", "launches").stdout)
    for command in (("emit", sample, "--stage", "ptx"), ("compile", sample, "--emit", "ptx"), ("run", sample)):
        assert hlotool(*command, *target).returncode == 4
    refused = hlotool("run", sample, *target).stderr
    assert "ROCm's runtime is not called" in refused
    assert "nvptx:emulate" in refused
    nvidia = hlotool("compile", sample, "--target", "nvptx:sm_90", "--emit", "object", "-o", "n.o")
    assert nvidia.returncode == 4
    assert "--emit ptx" in nvidia.stderr


@pytest.mark.parametrize("name", ["attention", "conv_net", "lstm_cell", "mlp_step"])
def test_no_thread_races_another(name: str) -> None:
    """Threads and blocks that do not wait for each other may run in any order."""
    module = parse((ROOT / "samples" / f"{name}.hlo").read_text())
    assert same_bits(module, random_inputs(module, 1))


@pytest.mark.parametrize("waits", [True, False])
def test_a_race_shows(waits: bool) -> None:
    """Each thread leaves its number in shared memory, and takes its neighbour's: right if they wait in between."""

    def taken(chip: Chip) -> list[int]:
        unit = Unit(host())
        grid = open_grid(unit, "k", chip, 1, 32, 1)
        place = grid.shared("i64", 32)

        def put(thread: Int) -> None:
            place.at("i64", thread).store(thread)

        def take(thread: Int) -> None:
            grid.argument(0).at("i64", thread).store(place.at("i64", thread.plus(1) & 31).load_int(align=8))

        with grid.phase() as thread:
            put(thread)
            if not waits:
                take(thread)
        if waits:
            with grid.phase(last=True) as thread:
                take(thread)
        grid.finish()
        code = load([object_of(unit.text(), host())])
        found = np.zeros(32, np.int64)
        table = (ctypes.c_void_p * 2)(None, found.ctypes.data)
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.address("k"))
        kernel(ctypes.addressof(table) + 8, 0, 1)
        return [int(n) for n in found]

    results = [taken(chip) for chip in EMULATED.values()]
    right = [(n + 1) % 32 for n in range(32)]
    assert [result == right for result in results] == [waits, waits, waits] if waits else results[0] != results[1]


def test_no_phase_follows_the_last_one() -> None:
    """Nobody would wait in between."""
    grid = open_grid(Unit(host()), "k", EMULATED["emulate"], 1, 32, 1)
    with grid.phase(last=True):
        pass
    with pytest.raises(RuntimeError, match="a phase follows the last one"), grid.phase():
        pass


@pytest.mark.parametrize("count", [1, 2, 3, 32, 96, 255, 256])
@pytest.mark.parametrize("order", ["", "reversed", "shuffled"])
def test_orders_are_permutations(order: str, count: int) -> None:
    stride, first = permutation(order, count)
    numbers = [(n * stride + first) % count for n in range(count)]
    assert sorted(numbers) == list(range(count))
    assert (numbers == list(range(count))) == (order == "" or count <= 2 - (order == "reversed"))


def loop_of(trips: str) -> Module:
    """Some matrix products in a loop; `trips` is a constant or the parameter."""
    return parse(f"""c {{
  s = (s32[], f32[8,16], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=2
  k = s32[] constant(5)
  ROOT r = pred[] compare(i, {trips}), direction=LT
}}
b {{
  s = (s32[], f32[8,16], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[8,16] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[8,8] dot(v, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  t = f32[8,8] tanh(d)
  q = f32[8,16] dot(t, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  u = f32[8,16] sine(q)
  ROOT t2 = (s32[], f32[8,16], s32[]) tuple(j, u, n)
}}
ENTRY e {{
  x = f32[8,16] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[8,16], s32[]) tuple(zero, x, n)
  l = (s32[], f32[8,16], s32[]) while(s), condition=c, body=b
  ROOT y = f32[8,16] get-tuple-element(l), index=1
}}""")


def test_a_loop_with_known_trips_is_a_part_of_one_graph() -> None:
    program, fake, run, _ = on_fake(loop_of("k"))
    assert program.at_once is not None
    assert len(program.at_once) >= 10
    emulated = compile_module(loop_of("k"), "nvptx:emulate")
    for seed in (1, 2, 3):
        x, n = np.random.default_rng(seed).normal(size=(8, 16)).astype(np.float32), np.array(seed, np.int32)
        (got,), (wanted,) = run([x, n]), emulated(x, n)
        np.testing.assert_array_equal(got, wanted)
    assert fake.calls.count("cuGraphInstantiateWithFlags") == 1
    assert fake.calls.count("cuGraphLaunch") == 3
    assert fake.calls.count("cuLaunchKernel") == sum(isinstance(done, Launch) for done in program.at_once)
    assert fake.calls.count("cuMemcpyHtoDAsync_v2") == bool(program.constants.nbytes) + 2 * 3  # constants once


def test_threads_have_recordings_of_their_own() -> None:
    """Two executions at once never share memory, and what is idle is used again."""
    _, fake, run, _ = on_fake(parse("ENTRY e { x = f32[100] parameter(0) ROOT y = f32[100] tanh(x) }"))
    replay = fake.does["cuGraphLaunch"]
    inside: list[Any] = []

    def nested(graph: Any, stream: object) -> None:
        if not inside:
            inside.append(None)
            inside[0] = run([np.full(100, 2, np.float32)])
        replay(graph, stream)

    fake.does["cuGraphLaunch"] = nested
    (outer,) = run([np.full(100, 1, np.float32)])
    np.testing.assert_allclose(outer, np.tanh(1), rtol=1e-6)
    np.testing.assert_allclose(inside[0][0], np.tanh(2), rtol=1e-6)
    run([np.full(100, 3, np.float32)])
    assert fake.calls.count("cuGraphInstantiateWithFlags") == 2


def test_what_is_recorded_goes_with_the_program() -> None:
    _, fake, run, _ = on_fake(parse("ENTRY e { x = f32[100] parameter(0) ROOT y = f32[100] tanh(x) }"))
    run([np.ones(100, np.float32)])
    assert fake.memory
    assert fake.graphs
    del run
    gc.collect()
    assert not fake.memory
    assert not fake.graphs


FAILING = ["cuLaunchKernel", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"]


@pytest.mark.parametrize("failing", [*FAILING, "cuGraphLaunch"])
def test_a_graph_that_fails_gives_everything_back(failing: str) -> None:
    _, fake, run, _ = on_fake(parse("ENTRY e { x = f32[100] parameter(0) ROOT y = f32[100] tanh(x) }"))
    fake.failing = failing
    with pytest.raises(ExecutionError, match=failing):
        run([np.ones(100, np.float32)])
    gc.collect()
    assert not fake.memory


def test_a_program_goes_through_the_driver() -> None:
    """The order, the sizes and the arguments of all calls, with a library that does what CUDA's does: the number of
    trips is known to nobody ahead of the run."""
    module = loop_of("n")
    program = compile_module(module, "nvptx:emulate", to_run=False).launches
    assert program is not None
    assert program.at_once is None
    fake = Fake(Emulator(program, host()))
    driver = Driver(fake)
    assert driver.architecture == 90
    run = executor(program, CudaDevice(program, "", driver))
    inputs = [random_inputs(module, 1)[0], np.array(3, np.int32)]
    for got, wanted in zip(run(inputs), compile_module(module, "nvptx:emulate")(*inputs), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert not fake.memory
    assert set(fake.names) == {launch.function for listed in program.routines.values() for launch in launches(listed)}
    fake.failing = "cuLaunchKernel"
    with pytest.raises(ExecutionError, match=r"cuLaunchKernel: an illegal memory access \(700\)"):
        run(inputs)
    assert not fake.memory


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "pred", "s8", "c64"])
@pytest.mark.parametrize("order", ["0,2,1", "2,1,0", "1,2,0", "1,0,2"])
def test_transposes_through_shared_memory(kind: str, order: str) -> None:
    sizes = 3, 65, 40
    turned = ",".join(str(sizes[int(d)]) for d in order.split(","))
    agrees(parse(f"""ENTRY main {{
  x = {kind}[3,65,40] parameter(0)
  y = {kind}[{turned}] parameter(1)
  t = {kind}[{turned}] transpose(x), dimensions={{{order}}}
  ROOT r = {kind}[{turned}] {"xor" if kind == "pred" else "add"}(t, y)
}}"""))


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_padding_stands_for_no_term(kind: str) -> None:
    """An infinite weight beyond the border of the input adds nothing."""
    module = parse(f"""ENTRY main {{
  x = {kind}[1,12,8] parameter(0)
  k = {kind}[3,8,16] parameter(1)
  ROOT c = {kind}[1,12,16] convolution(x, k), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f
}}""")
    x, k = (array.copy() for array in random_inputs(module, 1))
    k[0, :, 3] = np.inf
    (got,), (wanted,) = compile_module(module, "nvptx:emulate")(x, k), evaluate(module, [x, k])
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
    assert np.isfinite(wanted[0, 0]).all()
