"""The model of the machine: read from the host, and described by ``--cpu``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Run

import hlotool as library
from hlotool.codegen.instruction_sets import vector_bits_of
from hlotool.codegen.machine import default_machine, host, named, of_triple, runs_here
from hlotool.driver import LOWERING, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.harness.op_by_op import op_by_op
from hlotool.runtime.object_code import assembly, object_of
from hlotool.text.parser import parse

PORTABLE = ("generic", "generic,triple=riscv64-unknown-linux-gnu", "generic,triple=wasm32-unknown-unknown")
SAMPLES = sorted((ROOT / "samples").glob("*.hlo"))


def test_host_has_caches_that_grow() -> None:
    machine = host()
    assert 4 << 10 <= machine.l1 <= machine.l2 <= 64 << 20
    assert machine.l2 <= machine.l3 <= machine.cores * 16 << 20 or machine.cores == 1
    assert runs_here(machine)


def test_names_and_properties() -> None:
    mine = host()
    assert named("host").l2 == mine.l2
    machine = named("x86-64-v3,l1=16K,l2=3M,l3=1G,cores=7")
    assert (machine.vector_bits, machine.l1, machine.l2) == (256, 16 << 10, 3 << 20)
    assert (machine.l3, machine.cores) == (1 << 30, 7)
    assert named("aarch64").lanes(32) == 4
    assert named("x86-64-v4").registers == named("aarch64").registers == 32
    assert not runs_here(replace(mine, features=mine.features + ",+no-such-feature"))
    assert not runs_here(replace(mine, vector_bits=1024))


def test_instruction_sets() -> None:
    """Of each: bits of a vector, registers, the least lane under a mask, and whether multiply-adds round once."""
    found = {name: named(name).instructions for name in ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64", "generic")}
    rows = {name: (row.vector_bits, row.registers, row.masked_bits, row.fma) for name, row in found.items()}
    assert rows == {
        "x86-64": (128, 16, 0, False), "x86-64-v3": (256, 16, 32, True), "x86-64-v4": (512, 32, 8, True),
        "aarch64": (128, 32, 0, True), "generic": (128, 16, 0, False),
    }  # fmt: skip
    tiles = replace(named("x86-64-v4"), features="+avx512bf16,+amx-bf16,+amx-tile")
    assert (tiles.has_tiles, tiles.has_bf16_pairs) == (True, False)
    assert replace(tiles, features="+avx512bf16").has_bf16_pairs
    assert not replace(tiles, vector_bits=256).has_tiles
    assert vector_bits_of(frozenset({"avx2", "fma", "avx512f"})) == 256


@pytest.mark.parametrize("text", ["", "z80", "host,", "host,l4=1", "host,l2=0", "host,l2", "host,cores=2K"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"known|expected"):
        named(text)


def test_code_for_other_machines_is_made_and_not_run(hlotool: Run) -> None:
    program = SAMPLES[0]
    done = hlotool("emit", program, "--stage", "asm", "--cpu", "aarch64")
    assert done.returncode == 0
    assert "fmla" in done.stdout or "fadd" in done.stdout or "ret" in done.stdout
    other = "aarch64" if host().triple.startswith("x86_64") else "x86-64"
    done = hlotool("run", program, "--cpu", other)
    assert done.returncode == 4
    assert "does not run on this machine" in done.stderr
    done = hlotool("compile", program, "--cpu", "z80")
    assert done.returncode == 2
    assert "x86-64-v3" in done.stderr


@pytest.mark.parametrize(
    "name", ["aarch64", "neoverse-v1", "a64fx", "rv64gcv", "x86-64", "x86-64-v3", "x86-64-v4", *PORTABLE]
)
@pytest.mark.parametrize("program", SAMPLES, ids=lambda path: path.stem)
def test_samples_have_assembly_for_every_machine(program: Path, name: str) -> None:
    from hlotool.codegen.program import build

    machine = named(name)
    module = optimise(optimise(library.load(program)), LOWERING)
    texts = build(module, machine).texts
    assert all(assembly(text, machine) for text in texts)
    if machine.portable:
        assert not re.findall(r"@llvm\.(?:x86|aarch64|amx)\.\w*", "".join(texts))


@pytest.mark.parametrize("name", PORTABLE)
@pytest.mark.parametrize(("kind", "result"), [("f32", "f32"), ("s8", "s32"), ("bf16", "f32"), ("f16", "f32")])
def test_portable_products(name: str, kind: str, result: str) -> None:
    from hlotool.codegen.program import build

    text = (
        f"HloModule m\nENTRY e {{\n x = {kind}[64,256] parameter(0)\n y = {kind}[256,96] parameter(1)\n"
        f" z = {result}[64,96] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f" ROOT r = {result}[64,96] abs(z)\n}}\n"
    )
    module = parse(text)
    texts = build(optimise(optimise(module), LOWERING), named(name)).texts
    assert not re.findall(r"@llvm\.(?:x86|aarch64|amx)\.\w*", "".join(texts))
    assert all(map(object_of, texts, [named(name)] * len(texts)))
    if runs_here(named(name)):
        arrays = random_inputs(module, 0)
        found, wanted = library.compile(module, cpu=name)(*arrays)[0], evaluate(module, arrays)[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_triples() -> None:
    assert named("generic").triple == host().triple
    machine = named("generic,triple=riscv64-unknown-linux-gnu,l2=256K")
    assert (machine.triple, machine.l2, machine.architecture) == ("riscv64-unknown-linux-gnu", 256 << 10, "")
    with pytest.raises(ValueError, match="LLVM has no such target"):
        named("generic,triple=z80-unknown-cpm")
    with pytest.raises(ValueError, match="expected l1, l2, l3 or cores"):
        named("x86-64-v3,triple=riscv64-unknown-linux-gnu")


def test_portable_code_cannot_flush_denormals() -> None:
    with pytest.raises(library.UnsupportedError, match="portable code"):
        library.compile(library.load(SAMPLES[0]), cpu="generic", flush_denormals=True)


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "x86-64-v3", "generic"])
@pytest.mark.parametrize("program", SAMPLES, ids=lambda path: path.stem)
def test_samples_run_on_smaller_machines(hlotool: Run, program: Path, name: str) -> None:
    if not runs_here(named(name)):
        pytest.skip(f"this machine is no {name}")
    done = hlotool("run", program, "--cpu", name, "--compare", "evaluate")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_environment_names_a_processor(monkeypatch: pytest.MonkeyPatch, hlotool: Run) -> None:
    module = library.load(SAMPLES[0])
    monkeypatch.setenv("HLOTOOL_CPU", "x86-64,l2=300K")
    assert default_machine() == named("x86-64,l2=300K")
    assert library.compile(module).text("llvm") == library.compile(module, cpu="x86-64,l2=300K").text("llvm")
    monkeypatch.delenv("HLOTOOL_CPU")
    assert default_machine() == host()
    for stage in ("llvm", "asm"):
        chosen = hlotool("emit", SAMPLES[0], "--stage", stage, "--cpu", "x86-64").stdout
        assert hlotool("emit", SAMPLES[0], "--stage", stage, env={"HLOTOOL_CPU": "x86-64"}).stdout == chosen
    done = hlotool("run", SAMPLES[0], env={"HLOTOOL_CPU": "aarch64" if "x86_64" in host().triple else "x86-64"})
    assert (done.returncode, "does not run on this machine" in done.stderr) == (4, True)
    done = hlotool("stats", SAMPLES[0], env={"HLOTOOL_CPU": "z80"})
    assert (done.returncode, "HLOTOOL_CPU='z80': unknown cpu" in done.stderr) == (2, True)


def test_a_processor_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = library.load(SAMPLES[0])
    with pytest.raises(library.InputError, match="unknown cpu 'z80'; known: host"):
        library.compile(module, cpu="z80")
    with pytest.raises(library.InputError, match="machine or cpu, not both"):
        library.compile(module, machine=host(), cpu="host")
    monkeypatch.setenv("HLOTOOL_CPU", "host,l2=0")
    with pytest.raises(library.InputError, match="HLOTOOL_CPU"):
        library.compile(module)


@pytest.mark.parametrize("program", SAMPLES, ids=lambda path: path.stem)
def test_op_by_op_gives_what_the_whole_program_gives(program: Path) -> None:
    module = library.load(program)
    arrays = random_inputs(module, 1)
    found = op_by_op(module)(*arrays)
    for got, want in zip(found, library.compile(module, backend="evaluate")(*arrays), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=2e-4, atol=2e-4)


def test_bench_has_variants_of_machines_and_op_by_op(hlotool: Run) -> None:
    done = hlotool(
        "bench", SAMPLES[0], "--cpu", "host,l2=1M", "--cpu", "x86-64", "--against", "op-by-op", "--time", "0.01",
        "--warmup", "0", "--no-roof", "--rounds", "1", "--format", "csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for label in ("hlotool --cpu host,l2=1M", "hlotool --cpu x86-64", "op-by-op"):
        assert label in done.stdout


@pytest.mark.parametrize(("name", "vscale", "bits"), [("aarch64", 0, 128), ("neoverse-v1", 2, 256), ("a64fx", 4, 512)])
def test_scalable_vectors_of_one_size(name: str, vscale: int, bits: int) -> None:
    machine = named(name)
    assert (machine.vscale, machine.vector_bits, machine.instructions.vector_bits) == (vscale, bits, bits)
    assert machine.registers == 32


def test_processors_that_tell_of_scalable_vectors_do_not_say_how_wide_they_are() -> None:
    assert vector_bits_of(frozenset({"neon", "sve", "sve2"})) == 128


def test_a_name_is_for_triples_of_its_architecture() -> None:
    assert of_triple("riscv64-linux-gnu", "rv64gcv").has("v")
    for triple in ("s390x-linux-gnu", "aarch64-linux-gnu"):
        with pytest.raises(ValueError, match="rv64gcv is none of"):
            of_triple(triple, "rv64gcv")
