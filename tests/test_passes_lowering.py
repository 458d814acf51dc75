"""The passes between simplification and code generation: sweeps over types, layouts and sizes, by numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from reducers import REDUCERS
from tiny_modules import tiny_module

from hlotool.analysis.contraction import matrix_views
from hlotool.analysis.decisions import DecisionLog
from hlotool.codegen.machine import default_machine
from hlotool.codegen.program import build
from hlotool.driver import optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.ir import Module, UnsupportedError, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

def entry(body: str) -> Module:
    return parse(f"{REDUCERS}ENTRY main {{\n{body}\n}}\n")


def inputs(module: Module) -> list[Array]:
    generator = np.random.default_rng(1)
    arrays = []
    for parameter in module.entry.parameters:
        kind = dtype_of(parameter.shape.element_type)
        values = generator.standard_normal(parameter.shape.dimensions)
        arrays.append(np.asarray(values * (1 if kind.kind == "f" else 3)).astype(kind))
    return arrays


def run(pipeline: str, before: Module, arguments: list[Array] | None = None) -> tuple[Module, DecisionLog]:
    """Apply a pipeline to a copy; the result is valid and computes the same."""
    check(before)
    module = clone_module(before)
    log = DecisionLog()
    run_pipeline(module, parse_pipeline(pipeline), log, [VerifyEach(check)])
    check(module)
    arguments = inputs(before) if arguments is None else arguments
    rows = compare_all(evaluate(module, arguments), evaluate(before, arguments))
    assert all(row.ok for row in rows), [str(row) for row in rows]
    return module, log


def opcodes(module: Module) -> Counter[str]:
    """Of the entry, leaving out parameters and constants."""
    return Counter(i.opcode for i in module.entry if i.opcode not in ("parameter", "constant"))


# ---- layouts


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32[4,6]{1,0}", "f32[6,4]{0,1}"),
        ("f32[4,6]{0,1}", "f32[24]{0}"),
        ("f32[2,3,4]{0,2,1}", "f32[3,4,2]{2,1,0}"),
        ("f32[2,3,4]{1,0,2}", "f32[6,4]{0,1}"),
        ("f32[24]{0}", "f32[4,3,2]{1,2,0}"),
    ],
)
def test_bitcasts_with_layouts(source: str, target: str) -> None:
    """The elements of a bitcast lie in one order in memory, under either layout."""
    text = f"HloModule m\nENTRY main {{\n  x = {source} parameter(0)\n  ROOT b = {target} bitcast(x)\n}}\n"
    before = parse(text)
    module = clone_module(before)
    run_pipeline(module, parse_pipeline("layout-assignment"))
    check(module)
    assert "bitcast" not in opcodes(module)
    given, wanted = before.entry.parameters[0].shape, before.entry.root.shape
    assert given.layout is not None
    assert wanted.layout is not None
    x = np.arange(24, dtype=np.float32).reshape(given.dimensions)
    memory = x.transpose(given.layout.minor_to_major[::-1]).reshape(-1)
    order = wanted.layout.minor_to_major[::-1]
    expected = memory.reshape([wanted.dimensions[d] for d in order]).transpose(np.argsort(order))
    np.testing.assert_array_equal(evaluate(module, [x])[0], expected)


@pytest.mark.parametrize("result", ["s32[4]", "u8[2,8]{0,1}", "u64[2]", "pred[16]"])
def test_bitcasts_may_change_elements(result: str) -> None:
    before = parse(f"HloModule m\nENTRY main {{\n  x = f32[4] parameter(0)\n  ROOT b = {result} bitcast(x)\n}}\n")
    module, _ = run("layout-assignment", before)
    assert "bitcast" not in opcodes(module)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32[4,6]{0,1}", "u16[6,4,2]{2,0,1}"),
        ("u8[4,6]{0,1}", "f32[6]{0}"),
        ("pred[4]{0}", "u8[4]{0}"),
        ("u8[2,3]{0,1}", "pred[6]{0}"),
        ("f32[16,256]{1,0:T(8,128)}", "f32[4096]{0:T(1024)}"),
        ("bf16[16,128]{1,0:T(8,128)(2,1)}", "f32[8,128]{1,0:T(8,128)}"),
        ("f32[10,130]{1,0:T(8,128)}", "f32[2,2,8,128]{3,2,1,0}"),
        ("f32[3,10]{0,1:T(2,4)S(1)}", "f32[10,3]{1,0:T(2,4)}"),
        ("f32[0,3]{0,1}", "s32[3,0]{1,0}"),
    ],
)
def test_bitcasts_of_types_and_tiles(source: str, target: str) -> None:
    """The pass and the evaluator agree on what a bitcast does."""
    before = parse(f"HloModule m\nENTRY main {{\n  x = {source} parameter(0)\n  ROOT b = {target} bitcast(x)\n}}\n")
    check(before)
    module, _ = run("layout-assignment", before)
    assert "bitcast" not in opcodes(module)
    given = before.entry.parameters[0].shape
    bits = np.random.default_rng(0).integers(1, 100, given.dimensions)
    x = bits.astype(dtype_of(given.element_type))
    np.testing.assert_array_equal(evaluate(module, [x])[0], evaluate(before, [x])[0])


def test_tiles_lie_one_after_the_other() -> None:
    text = "ENTRY main {\n  x = f32[4,6]{1,0:T(2,3)} parameter(0)\n  ROOT b = f32[24]{0} bitcast(x)\n}\n"
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    blocks = [x[i : i + 2, j : j + 3].reshape(-1) for i in (0, 2) for j in (0, 3)]
    np.testing.assert_array_equal(evaluate(parse(text), [x])[0], np.concatenate(blocks))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("f32[8,128]{1,0:T(8,*)}", "tiles that combine"),
        ("f32[8,128]{1,0:T(2,8,128)}", "a tile of 3 dimensions"),
        ("f32[7,128]{1,0:T(2,128)}", ""),
        ("f32[5,128]{1,0:T(2,128)}", "different space"),
    ],
)
def test_bitcasts_of_unknown_meaning_are_refused(source: str, reason: str) -> None:
    text = f"ENTRY main {{\n  x = {source} parameter(0)\n  ROOT b = s32[1024]{{0}} bitcast(x)\n}}\n"
    module = parse(text)
    x = np.zeros(module.entry.parameters[0].shape.dimensions, np.float32)
    if not reason:  # the padding makes up for what is missing
        run_pipeline(clone_module(module), parse_pipeline("layout-assignment"))
        assert evaluate(module, [x])[0].shape == (1024,)
        return
    with pytest.raises(UnsupportedError, match=reason):
        run_pipeline(clone_module(module), parse_pipeline("layout-assignment"))
    with pytest.raises(UnsupportedError, match=reason):
        evaluate(module, [x])


# ---- products


@pytest.mark.parametrize(
    ("dot", "sizes"),
    [
        (
            "x = f32[2,3,4,5] parameter(0)\ny = f32[2,5,6] parameter(1)\nROOT d = f32[2,3,4,6] dot(x, y), "
            "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}",
            ((2,), 12, 6, 5),
        ),
        (
            "x = f32[3,4,5,2] parameter(0)\ny = f32[5,6,3,7] parameter(1)\nROOT d = f32[4,2,6,7] dot(x, y), "
            "lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}",
            None,
        ),
    ],
)
def test_dots_whose_dimensions_collapse_are_matrices(dot: str, sizes: tuple[Any, ...] | None) -> None:
    """Those that do not are the business of dot-decomposer (tests/hlo/expand)."""
    view = matrix_views(entry(dot).entry.root)
    assert (None if view is None else (view.batch, view.m, view.n, view.k)) == sizes


# ---- expanders


@pytest.mark.parametrize("kind", ["training", "inference", "grad"])
@pytest.mark.parametrize(("sizes", "feature"), [("4,6", 1), ("6,4", 0), ("2,3,6,5", 2)])
def test_batch_norm(kind: str, sizes: str, feature: int) -> None:
    whole = f"f32[{sizes}]"
    operands = {"training": "x, s, o", "inference": "x, s, o, m, w", "grad": "x, s, m, w, y"}[kind]
    result = whole if kind == "inference" else f"({whole}, f32[6], f32[6])"
    before = entry(
        f"x = {whole} parameter(0)\ny = {whole} parameter(1)\ns = f32[6] parameter(2)\no = f32[6] parameter(3)\n"
        f"m = f32[6] parameter(4)\nv = f32[6] parameter(5)\nw = f32[6] abs(v)\n"
        f"ROOT r = {result} batch-norm-{kind}({operands}), epsilon=0.01, feature_index={feature}"
    )
    module, _ = run("batch-norm-expander", before)
    assert not any(i.opcode.startswith("batch-norm") for i in module.entry)


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "f8e5m2", "f8e4m3fn"])
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_total_order(kind: str, direction: str) -> None:
    before = entry(
        f"x = {kind}[9,9] parameter(0)\ny = {kind}[9,9] parameter(1)\n"
        f"ROOT r = pred[9,9] compare(x, y), direction={direction}, type=TOTALORDER"
    )
    row = np.array([1, np.nan, -0.0, 0.0, 448, 2, -2, -448, np.copysign(np.nan, -1)]).astype(dtype_of(kind))
    x, y = np.broadcast_arrays(row[:, None], row[None, :])
    module, _ = run("comparison-expander", before, [x.copy(), y.copy()])
    assert opcodes(module)["bitcast-convert"] == 2
    assert module.entry.root.attributes["type"] == "SIGNED"


def test_ragged_dot_of_too_few_rows() -> None:
    """Rows beyond the last group are zero, and infinities stay in their group."""
    before = entry(
        "x = f32[6,5] parameter(0)\ny = f32[4,5,3] parameter(1)\ns = s32[4] constant({1, 2, 0, 1})\n"
        "ROOT r = f32[6,3] ragged-dot(x, y, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}"
    )
    x, y = inputs(before)
    y[1] = np.inf
    run("ragged-dot-decomposer", before, [x, y])


def test_collectives_of_several_are_not_compiled_for_one() -> None:
    text = tiny_module("all-reduce").replace("{{0}}", "{{0,1}}")
    with pytest.raises(UnsupportedError, match="all-reduce"):
        build(optimise(parse(text), "lowering"), default_machine())


def test_a_permute_without_a_sender_gives_zeros() -> None:
    text = tiny_module("collective-permute").replace("{{0,0}}", "{{0,1}}")
    before = parse(text)
    module, _ = run("trivial-collective-remover", before, tiny_inputs(before))
    assert "collective-permute" not in opcodes(module)


def tiny_inputs(module: Module) -> list[Array]:
    shapes = [p.shape for p in module.entry.parameters]
    return [(np.arange(s.size).reshape(s.dimensions) % 7).astype(dtype_of(s.element_type)) for s in shapes]
