"""Libraries for other processors: linked by cross compilers, run under emulators or in Node, compared with the
evaluator.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import semantics.families  # noqa: F401
from conftest import ROOT
from libraries import COPIES, FOREIGN, ROUNDING, Built, EmulatorError, Foreign, build, ran, run_driver, vectors_of
from models import model
from semantics.check import draw, groups_of, judge
from semantics.sample import CLASSES, FAMILIES

from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import bounded_results
from hlotool.harness.compare import compare_with_truth, verdict_of
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module, dtype_of
from hlotool.text.load import one_module, open_source
from hlotool.text.parser import parse

Array: TypeAlias = npt.NDArray[Any]
SAMPLES = ROOT / "samples"
MODELS = [
    *(SAMPLES / f"{name}.hlo" for name in ("mlp_step", "attention", "while_loop", "lstm_cell")),
    *(model(name) for name in (
        "mlp_bf16_fwd", "switch", "complex_ops", "dtype_convert", "int_ops", "top_k", "rng_bit_generator",
        "gather_scatter_modes", "cholesky_native", "argsort_pairs",
    )),
]  # fmt: skip


def usable(name: str) -> Foreign:
    """The processor of that name, or a test that is skipped."""
    if FOREIGN[name].missing:
        pytest.skip(f"no {FOREIGN[name].missing}")
    return FOREIGN[name]


def right(module: Module, folder: Path, foreign: Foreign, weights_above: int = 1 << 16) -> None:
    """A library of the module gives what is true there, within its bounds."""
    arrays = random_inputs(module, 3)
    built = build(module, folder, machines=[foreign.machine], weights_above=weights_above)
    assert bool(built.library.weights) == (weights_above == 0)
    holds(module, arrays, emulated(built, arrays, foreign))


def emulated(built: Built, arrays: list[Array], foreign: Foreign) -> list[Array]:
    """What a library gives there; the test is skipped where the emulator fails of itself."""
    try:
        return run_driver(built, arrays, on=foreign)
    except EmulatorError as error:
        pytest.skip(str(error))


def holds(module: Module, arrays: list[Array], found: list[Array]) -> None:
    truth = bounded_results(module, arrays)
    assert verdict_of(compare_with_truth(found, truth, evaluate(module, arrays))) == "ok"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", FOREIGN)
def test_models(name: str, path: Path, tmp_path: Path) -> None:
    foreign = usable(name)
    if path.stem == "complex_ops" and (fault := foreign.fault(tmp_path)):
        pytest.skip(fault)
    right(one_module(open_source(path)), tmp_path, foreign)


@pytest.mark.parametrize("name", FOREIGN)
def test_weights_in_a_file(name: str, tmp_path: Path) -> None:
    right(one_module(open_source(model("switch"))), tmp_path, usable(name), weights_above=0)


@pytest.mark.parametrize("name", [name for name, foreign in FOREIGN.items() if not foreign.machine.is_wasm])
def test_libraries_need_nothing_but_copies_of_memory(name: str, tmp_path: Path) -> None:
    foreign, module = usable(name), parse(ROUNDING)
    arrays = random_inputs(module, 3)
    built = build(module, tmp_path, machines=[foreign.machine], kind="object")
    asked = set(ran([f"{foreign.triple}-nm", "-u", f"{built.name}.o"], tmp_path).split()) - {"U"}
    assert asked <= COPIES | {".TOC."}  # how POWER finds its data
    holds(module, arrays, emulated(built, arrays, foreign))


@pytest.mark.parametrize("name", FOREIGN)
def test_of_zeros_the_first_is_the_least_and_the_largest(name: str, tmp_path: Path) -> None:
    """Processors differ in that; NaNs are kept, too."""
    foreign = usable(name)
    values = [(0.0, -0.0), (-0.0, 0.0), (np.nan, 1.0), (1.0, np.nan), (1.0, 2.0), (-1.0, -2.0), (0.0, np.nan)] * 9
    lines, arrays = [], []
    for kind in ("f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn"):
        for side in (0, 1):
            lines.append(f"  {kind}.{side} = {kind}[{len(values)}] parameter({len(arrays)})")
            arrays.append(np.array([pair[side] for pair in values]).astype(dtype_of(kind)))
        for word in ("minimum", "maximum"):
            lines.append(f"  {word}.{kind} = {kind}[{len(values)}] {word}({kind}.0, {kind}.1)")
    results = [line.split() for line in lines if "imum" in line]
    shapes, names = ", ".join(row[2] for row in results), ", ".join(row[0] for row in results)
    module = parse("\n".join(["HloModule zeros", "ENTRY e {", *lines, f"  ROOT all = ({shapes}) tuple({names})", "}"]))
    found = emulated(build(module, tmp_path, machines=[foreign.machine]), arrays, foreign)
    for row, own, wanted in zip(results, found, evaluate(module, arrays), strict=True):
        own, wanted = own.astype(np.float64), wanted.astype(np.float64)
        assert np.array_equal(np.isnan(own), np.isnan(wanted)), row
        there = ~np.isnan(wanted)
        assert np.array_equal(np.copysign(1, own[there]), np.copysign(1, wanted[there])), row
        assert np.array_equal(own[there], wanted[there]), row


@pytest.mark.parametrize(("name", "bits"), [("neoverse-v1", 128), ("neoverse-v1", 512), ("a64fx", 256), ("a64fx", 0)])
def test_vectors_of_another_size_are_a_code(name: str, bits: int, tmp_path: Path) -> None:
    """And so is a processor without such vectors."""
    foreign, module = usable(name), one_module(open_source(SAMPLES / "mlp_step.hlo"))
    arrays = random_inputs(module, 3)
    built = build(module, tmp_path, machines=[foreign.machine])
    other = replace(foreign, emulator_options=vectors_of(bits) if bits else ("-cpu", "cortex-a72"))
    run_driver(built, arrays, says="this processor lacks instructions that the code uses", code=1, on=other)


def test_tables_have_the_byte_order_of_the_processor(tmp_path: Path) -> None:
    text = """HloModule roots
ENTRY e {
  x = c128[60] parameter(0)
  ROOT y = c128[60] fft(x), fft_type=FFT, fft_length={60}
}
"""
    right(parse(text), tmp_path, usable("s390x"))


ORDERED = [
    "bitcast-convert", "convert", "constant", "concatenate", "reduce-precision", "rng-bit-generator", "sort", "topk",
    "scatter", "stochastic-convert",
]  # fmt: skip
"""Opcodes that look into numbers, or move their bytes."""


@pytest.mark.parametrize("opcode", ORDERED)
@pytest.mark.parametrize("name", ["s390x", "wasm32-simd128"])
def test_opcodes_where_bytes_or_addresses_differ(name: str, opcode: str, tmp_path: Path) -> None:
    """High bytes come first, or addresses have four bytes."""
    foreign, seed = usable(name), 0
    legal = [kind for kind, kinds in CLASSES.items() if any(set(f.types) & set(kinds) for f in FAMILIES[opcode])]
    groups = {f"{kind}{n}": cells for kind in legal for n, cells in enumerate(groups_of(opcode, kind))}
    samples = {entry: draw(list(enumerate(cells)), seed) for entry, cells in groups.items()}
    built = build({entry: sample.module for entry, sample in samples.items()}, tmp_path, machines=[foreign.machine])
    for number, (entry, sample) in enumerate(samples.items()):
        arguments = sample.arguments(np.random.default_rng(seed))
        results = run_driver(built, arguments, entry=number, on=foreign)
        assert judge(sample, groups[entry], arguments, results) == "", entry
