"""The passes between simplification and code generation: HLO before, HLO after, the same numbers."""

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
from hlotool.ir import Instruction, Module, UnsupportedError, clone_module, dtype_of, row_major
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.instruments import VerifyEach
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


def reasons(log: DecisionLog, code: str) -> list[str]:
    return [decision.reason for decision in log if decision.action == "refuse" and decision.rule == code]


# ---- fusion


def test_an_elementwise_chain_is_one_fusion() -> None:
    module, log = run(
        "fusion,dce",
        entry(
            "x = f32[64] parameter(0)\ny = f32[64] parameter(1)\na = f32[64] add(x, y)\nb = f32[64] tanh(a)\n"
            "c = f32[64] multiply(b, x)\nROOT d = f32[64] negate(c)"
        ),
    )
    assert opcodes(module) == {"fusion": 1}
    fusion = module.entry.root
    assert fusion.attributes["kind"] == "kLoop"
    assert [i.opcode for i in fusion.attributes["calls"]] == [
        "parameter", "parameter", "add", "tanh", "multiply", "negate",
    ]  # fmt: skip
    assert fusion.origins == ("a", "b", "c", "d")
    assert log.counts()["fusion", "fuse"] == 1


def test_a_reduction_takes_its_producers() -> None:
    module, _ = run(
        "fusion,dce",
        entry(
            "x = f32[16,64] parameter(0)\na = f32[16,64] multiply(x, x)\nz = f32[] constant(0)\n"
            "ROOT r = f32[16] reduce(a, z), dimensions={1}, to_apply=add"
        ),
    )
    assert opcodes(module) == {"fusion": 1}
    assert module.entry.root.attributes["kind"] == "kInput"


SOFTMAX = """x = f32[16,64] parameter(0)
low = f32[] constant(-inf)
z = f32[] constant(0)
m = f32[16] reduce(x, low), dimensions={1}, to_apply=max
mb = f32[16,64] broadcast(m), dimensions={0}
s = f32[16,64] subtract(x, mb)
e = f32[16,64] exponential(s)
t = f32[16] reduce(e, z), dimensions={1}, to_apply=add
tb = f32[16,64] broadcast(t), dimensions={0}
ROOT r = f32[16,64] divide(e, tb)"""


def test_softmax_is_one_fusion() -> None:
    module, _ = run("fusion,dce", entry(SOFTMAX))
    assert opcodes(module) == {"fusion": 1}
    inside = Counter(i.opcode for i in module.entry.root.attributes["calls"])
    assert inside["exponential"] == 1
    assert inside["reduce"] == 2


def test_rows_that_leave_the_cache_are_not_fused() -> None:
    module, log = run("fusion{max-row=128},dce", entry(SOFTMAX))
    assert opcodes(module)["fusion"] > 1
    assert any("does not stay in the cache" in reason for reason in reasons(log, "long-row"))
    module, _ = run("fusion{rows=false},dce", entry(SOFTMAX))
    assert opcodes(module)["fusion"] > 1


REFUSALS = {
    "others need": (
        "x = f32[64] parameter(0)\na = f32[64] exponential(x)\nb = f32[64] negate(a)\nc = f32[32] slice(b), "
        "slice={[0:32]}\nd = f32[64] dot(a, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "ROOT r = (f32[32], f32[64]) tuple(c, d)",
        "others need its result too",
    ),
    "repeated": (
        "x = f32[64] parameter(0)\na = f32[64] exponential(x)\nb = f32[64,8] broadcast(a), dimensions={0}\n"
        "y = f32[64,8] parameter(1)\nROOT r = f32[64,8] add(b, y)",
        "",
    ),
    "repeated across rows": (
        "x = f32[8] parameter(0)\na = f32[8] exponential(x)\nb = f32[64,8] broadcast(a), dimensions={1}\n"
        "y = f32[64,8] parameter(1)\nROOT r = f32[64,8] add(b, y)",
        "each element would be computed 64 times",
    ),
    "own kernel": (
        "x = f32[8,8] parameter(0)\nd = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "ROOT r = f32[8,8] negate(d)",
        "a dot has a kernel of its own",
    ),
    "gathered": (
        "x = f32[8] parameter(0)\ni = s32[64,1] iota(), iota_dimension=0\na = f32[8] exponential(x)\n"
        "g = f32[64] gather(a, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1}\nROOT r = f32[64] negate(g)",
        "gathered places",
    ),
    "columns": (
        "x = f32[16,64] parameter(0)\ny = f32[64] parameter(1)\nz = f32[] constant(0)\n"
        "s = f32[64] reduce(x, z), dimensions={0}, to_apply=add\nROOT r = f32[64] add(s, y)",
        "it does not reduce rows",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_why(name: str) -> None:
    body, reason = REFUSALS[name]
    body = body.replace("d = f32[64] dot(a, q)", "q = f32[64,64] parameter(1)\nd = f32[64] dot(a, q)")
    _, log = run("fusion,dce", entry(body))
    found = [d.reason for d in log if d.action == "refuse" and d.pass_name == "fusion"]
    assert any(reason in one for one in found) if reason else not found


def test_control_dependencies_are_kept() -> None:
    module, log = run(
        "fusion,dce",
        entry(
            "x = f32[64] parameter(0)\na = f32[64] negate(x)\nb = f32[64] tanh(a)\n"
            "c = f32[64] multiply(b, b), control-predecessors={a}\nROOT r = f32[64] add(c, b)"
        ),
    )
    assert any("control dependencies" in reason for reason in reasons(log, "control-dependencies"))
    ordered = next(i for i in module.entry if i.opcode == "multiply")
    assert [before.opcode for before in ordered.control_predecessors] == ["negate"]


def ladder(steps: int, rung: str) -> str:
    lines = ["v0 = f32[64] parameter(0)"]
    for k in range(1, steps):
        if rung == "concatenate":
            lines += [
                f"a{k} = f32[32] slice(v{k - 1}), slice={{[0:32]}}",
                f"b{k} = f32[32] slice(v{k - 1}), slice={{[32:64]}}",
                f"v{k} = f32[64] concatenate(b{k}, a{k}), dimensions={{0}}",
            ]
        elif rung == "pad":
            lines += [
                f"z{k} = f32[] constant({k})",
                f"a{k} = f32[60] slice(v{k - 1}), slice={{[0:60]}}",
                f"p{k} = f32[64] pad(a{k}, z{k}), padding=4_0",
                f"v{k} = f32[64] add(p{k}, v{k - 1})",
            ]
        else:
            lines += [
                f"r{k} = f32[64] reverse(v{k - 1}), dimensions={{0}}",
                f"v{k} = f32[64] add(r{k}, v{k - 1})",
            ]
    return "\n".join([*lines, f"ROOT r = f32[64] negate(v{steps - 1})"])


@pytest.mark.parametrize("rung", ["concatenate", "pad", "reverse"])
def test_ladders_do_not_grow_exponentially(rung: str) -> None:
    """Each rung reads the one below at two places: computing all in one loop would take 2**n."""
    sizes = []
    for steps in (10, 20):
        module, _ = run("fusion,dce", entry(ladder(steps, rung)))
        assert sum(len(c) for c in module.computations.values()) < 20 * steps
        run_pipeline(module, parse_pipeline("lowering"))
        sizes.append(sum(map(len, build(module, default_machine()).texts)))
    assert sizes[1] < 4 * sizes[0]


def test_cheap_producers_are_copied() -> None:
    """A broadcast is computed again by each reader, and a copy is left to nobody else."""
    module, _ = run(
        "fusion,dce",
        entry(
            "x = f32[64] parameter(0)\nq = f32[64,64] parameter(1)\nb = f32[64,64] broadcast(x), dimensions={1}\n"
            "m = f32[64,64] multiply(q, b)\nd = f32[64,64] dot(m, q), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}\nROOT r = f32[64,64] add(d, b)"
        ),
    )
    assert opcodes(module) == {"fusion": 2, "dot": 1}
    assert all(
        any(i.opcode == "broadcast" for i in f.attributes["calls"]) for f in module.entry if f.opcode == "fusion"
    )


def test_fusions_are_bounded() -> None:
    lines = "\n".join(f"v{k} = f32[64] tanh(v{k - 1})" for k in range(1, 20))
    module, log = run(
        "fusion{max-ops=6},dce", entry(f"v0 = f32[64] parameter(0)\n{lines}\nROOT r = f32[64] negate(v19)")
    )
    bodies = [f.attributes["calls"] for f in module.entry if f.opcode == "fusion"]
    assert max(sum(i.opcode != "parameter" for i in body) for body in bodies) == 6
    assert any("6 instructions already" in reason for reason in reasons(log, "fusion-full"))


def test_multi_output_fusion() -> None:
    module, _ = run(
        "fusion,multi-output-fusion,dce",
        entry(
            "x = f32[64,8] parameter(0)\nq = f32[8,8] parameter(1)\na = f32[64,8] exponential(x)\n"
            "b = f32[64,8] negate(a)\nc = f32[64,8] dot(b, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "d = f32[64,8] dot(a, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            "ROOT r = (f32[64,8], f32[64,8]) tuple(c, d)"
        ),
    )
    (fusion,) = (i for i in module.entry if i.opcode == "fusion")
    assert fusion.shape.is_tuple
    assert len(fusion.shape.elements) == 2


def test_multi_output_fusion_makes_no_cycle() -> None:
    module, log = run(
        "multi-output-fusion,dce",
        entry(
            "x = f32[8,8] parameter(0)\na = f32[8,8] exponential(x)\n"
            "d = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\nROOT r = f32[8,8] add(a, d)"
        ),
    )
    assert opcodes(module) == {"exponential": 1, "dot": 1, "add": 1}
    assert any("leads outside" in reason for reason in reasons(log, "path-outside"))


# ---- layouts


def test_every_array_becomes_row_major() -> None:
    text = (
        "HloModule m, entry_computation_layout={(f32[4,6]{0,1})->f32[6,4]{0,1}}\n\nENTRY main {\n"
        "  x = f32[4,6]{0,1} parameter(0)\n  ROOT t = f32[6,4]{0,1} transpose(x), dimensions={1,0}\n}\n"
    )
    module, log = run("layout-assignment", parse(text))
    assert all(i.shape.layout == row_major(i.shape.rank) for i in module.entry)
    (parameters, result) = module.attributes["entry_computation_layout"]
    assert all(shape.layout == row_major(2) for shape in (*parameters, result))
    assert len(log) > 0
    assert not run_pipeline(module, parse_pipeline("layout-assignment"))


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


def dot(module: Module) -> Instruction:
    (found,) = (i for i in module.entry if i.opcode == "dot")
    return found


def test_dots_that_do_not_collapse_are_decomposed() -> None:
    before = entry(
        "x = f32[3,4,5,2] parameter(0)\ny = f32[5,6,3,7] parameter(1)\nROOT d = f32[4,2,6,7] dot(x, y), "
        "lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}"
    )
    assert matrix_views(before.entry.root) is None
    module, _ = run("dot-decomposer", before)
    view = matrix_views(dot(module))
    assert view is not None
    assert (view.m, view.n, view.k) == (8, 42, 15)


def test_dots_that_collapse_stay() -> None:
    before = entry(
        "x = f32[2,3,4,5] parameter(0)\ny = f32[2,5,6] parameter(1)\nROOT d = f32[2,3,4,6] dot(x, y), "
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}"
    )
    module, log = run("dot-decomposer", before)
    assert not log.counts()
    view = matrix_views(dot(module))
    assert view is not None
    assert (view.batch, view.m, view.n, view.k) == ((2,), 12, 6, 5)


FOLDS = {
    "left operand": (
        "x = f32[5,4] parameter(0)\ny = f32[5,6] parameter(1)\nt = f32[4,5] transpose(x), dimensions={1,0}\n"
        "ROOT d = f32[4,6] dot(t, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    "right operand": (
        "x = f32[4,5] parameter(0)\ny = f32[6,5] parameter(1)\nt = f32[5,6] transpose(y), dimensions={1,0}\n"
        "ROOT d = f32[4,6] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    "both operands, batched": (
        "x = f32[5,2,4] parameter(0)\ny = f32[6,2,5] parameter(1)\nt = f32[2,4,5] transpose(x), dimensions={1,2,0}\n"
        "u = f32[2,5,6] transpose(y), dimensions={1,2,0}\nROOT d = f32[2,4,6] dot(t, u), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    ),
    "result": (
        "x = f32[4,5] parameter(0)\ny = f32[5,6] parameter(1)\nd = f32[4,6] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}\nROOT t = f32[6,4] transpose(d), dimensions={1,0}"
    ),
    "result, batched": (
        "x = f32[2,4,5] parameter(0)\ny = f32[2,5,3,6] parameter(1)\nd = f32[2,4,3,6] dot(x, y), lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
        "ROOT t = f32[2,3,6,4] transpose(d), dimensions={0,2,3,1}"
    ),
    "a chain of transposes": (
        "x = f32[5,4] parameter(0)\ny = f32[5,6] parameter(1)\nt = f32[4,5] transpose(x), dimensions={1,0}\n"
        "u = f32[5,4] transpose(t), dimensions={1,0}\nv = f32[4,5] transpose(u), dimensions={1,0}\n"
        "ROOT d = f32[4,6] dot(v, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
}


@pytest.mark.parametrize("name", FOLDS)
def test_transposes_fold_into_dots(name: str) -> None:
    module, _ = run("transpose-folding", entry(FOLDS[name]))
    assert opcodes(module) == {"dot": 1}
    assert matrix_views(dot(module)) is not None
    assert set(dot(module).origins) >= {"d"}


def test_transposes_that_do_not_fold_say_why() -> None:
    _, log = run(
        "transpose-folding",
        entry(
            "x = f32[3,4,5] parameter(0)\ny = f32[5,6] parameter(1)\nt = f32[4,3,5] transpose(x), dimensions={1,0,2}\n"
            "ROOT d = f32[4,3,6] dot(t, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}"
        ),
    )
    assert any("change order" in reason for reason in reasons(log, "fold-transpose"))


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


def test_logistic() -> None:
    module, _ = run("logistic-expander", entry("x = f32[2,9] parameter(0)\nROOT r = f32[2,9] logistic(x)"))
    assert opcodes(module) == {"negate": 1, "exponential": 1, "add": 1, "divide": 1, "broadcast": 1}


@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk(largest: str) -> None:
    before = entry(f"x = f32[3,9] parameter(0)\nROOT r = (f32[3,4], s32[3,4]) topk(x), k=4, largest={largest}")
    x = np.array([[1, np.nan, -0.0, 0.0, np.inf, 2, 2, -np.inf, -np.nan]] * 3, np.float32)
    x[0, 8] = np.copysign(np.nan, -1)
    module, _ = run("topk-decomposer", before, [x])
    assert opcodes(module) == {"iota": 1, "sort": 1, "get-tuple-element": 2, "slice": 2, "tuple": 1}


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


def ragged(lhs: str, rhs: str, result: str, attributes: str, sizes: str = "3, 0, 2, 1") -> Module:
    count = sizes.count(",") + 1
    return entry(
        f"x = f32[{lhs}] parameter(0)\ny = f32[{rhs}] parameter(1)\ns = s32[{count}] constant({{{sizes}}})\n"
        f"ROOT r = f32[{result}] ragged-dot(x, y, s), {attributes}"
    )


RAGGED = {
    "rows": (
        "6,5",
        "4,5,3",
        "6,3",
        "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    "rows, groups last": (
        "6,5",
        "5,3,4",
        "6,3",
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={0}, rhs_group_dims={2}",
    ),
    "rows, batched": (
        "2,6,5",
        "2,4,5,3",
        "2,6,3",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, "
        "lhs_ragged_dims={1}, rhs_group_dims={1}",
    ),
    "contracting": ("5,6", "6,3", "4,5,3", "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"),
    "batch": (
        "6,2,5",
        "6,5,3",
        "6,2,3",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}",
    ),
}


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_dot(name: str) -> None:
    lhs, rhs, result, attributes = RAGGED[name]
    module, _ = run("ragged-dot-decomposer", ragged(lhs, rhs, result, attributes))
    assert "ragged-dot" not in opcodes(module)


def test_ragged_dot_of_too_few_rows() -> None:
    """Rows beyond the last group are zero, and infinities stay in their group."""
    lhs, rhs, result, attributes = RAGGED["rows"]
    before = ragged(lhs, rhs, result, attributes, "1, 2, 0, 1")
    x, y = inputs(before)
    y[1] = np.inf
    run("ragged-dot-decomposer", before, [x, y])


@pytest.mark.parametrize("scales", [("2,4", "2,3"), ("1,1", "8,1"), ("", "8,3"), ("2,8", "1,3")])
def test_scaled_dot(scales: tuple[str, str]) -> None:
    before = entry(
        f"x = f32[2,8] parameter(0)\ny = f32[8,3] parameter(1)\na = f32[{scales[0]}] parameter(2)\n"
        f"b = f32[{scales[1]}] parameter(3)\nROOT r = f32[2,3] scaled-dot(x, y, a, b), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}"
    )
    module, _ = run("scaled-dot-decomposer", before)
    assert "scaled-dot" not in opcodes(module)


ASYNC = [
    "copy-start",
    "all-reduce-start",
    "all-gather-start",
    "collective-permute-start",
    "async-start",
    "async-update",
]


@pytest.mark.parametrize("opcode", ASYNC)
def test_asynchronous_operations(opcode: str) -> None:
    before = parse(tiny_module(opcode))
    module, _ = run("async-to-sync,tuple-simplifier,dce", before, tiny_inputs(before))
    assert not any(i.has("async") for i in module.instructions())


def test_contexts_may_be_anything() -> None:
    text = tiny_module("async-start")
    before = parse(text.replace(", u32[])", ", (u32[2], s32[], token[]))"))
    assert before.entry.root.operands[0].shape.elements[2].is_tuple
    module, _ = run("async-to-sync,tuple-simplifier,dce", before, tiny_inputs(before))
    assert not any(i.has("async") for i in module.instructions())
    with pytest.raises(UnsupportedError, match="s: a context of opaque"):
        optimise(parse(text.replace(", u32[])", ", opaque[])")), "async-to-sync")


COLLECTIVES = [
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "partition-id",
    "ragged-all-to-all",
    "reduce-scatter", "replica-id",
]  # fmt: skip


@pytest.mark.parametrize("opcode", COLLECTIVES)
def test_collectives_of_one(opcode: str) -> None:
    before = parse(tiny_module(opcode))
    module, _ = run("trivial-collective-remover", before, tiny_inputs(before))
    assert opcode not in opcodes(module)


def test_collectives_of_several_stay() -> None:
    text = tiny_module("all-reduce").replace("{{0}}", "{{0,1}}")
    module = parse(text)
    run_pipeline(module, parse_pipeline("trivial-collective-remover"))
    assert "all-reduce" in opcodes(module)
    with pytest.raises(UnsupportedError, match="all-reduce"):
        build(optimise(parse(text), "lowering"), default_machine())


def test_a_permute_without_a_sender_gives_zeros() -> None:
    text = tiny_module("collective-permute").replace("{{0,0}}", "{{0,1}}")
    before = parse(text)
    module, _ = run("trivial-collective-remover", before, tiny_inputs(before))
    assert "collective-permute" not in opcodes(module)


@pytest.mark.parametrize("opcode", ["get-dimension-size", "set-dimension-size", "dynamic-reshape"])
def test_static_dimensions(opcode: str) -> None:
    before = parse(tiny_module(opcode))
    module, _ = run("dynamic-padder", before, tiny_inputs(before))
    assert opcode not in opcodes(module)


def tiny_inputs(module: Module) -> list[Array]:
    shapes = [p.shape for p in module.entry.parameters]
    return [(np.arange(s.size).reshape(s.dimensions) % 7).astype(dtype_of(s.element_type)) for s in shapes]


# ---- copies


def test_the_program_does_not_hand_out_its_arguments() -> None:
    module, _ = run(
        "copy-insertion",
        entry(
            "x = f32[4] parameter(0)\nc = f32[4] constant({1,2,3,4})\nn = f32[4] negate(x)\n"
            "ROOT r = (f32[4], f32[4], f32[4], f32[4]) tuple(x, c, n, n)"
        ),
    )
    assert [o.opcode for o in module.entry.root.operands] == ["copy", "copy", "negate", "copy"]
    module, _ = run("copy-insertion", entry("ROOT x = f32[4] parameter(0)"))
    assert module.entry.root.opcode == "copy"


def test_loop_state_that_moves_is_copied() -> None:
    state = "(s32[], f32[4], f32[4])"
    parts = "p = {s} parameter(0)\ni = s32[] get-tuple-element(p), index=0\n".replace("{s}", state)
    text = (
        f"HloModule m\nbody {{\n{parts}a = f32[4] get-tuple-element(p), index=1\n"
        "b = f32[4] get-tuple-element(p), index=2\none = s32[] constant(1)\nj = s32[] add(i, one)\n"
        f"ROOT r = {state} tuple(j, b, a)\n}}\n\ncondition {{\n{parts}n = s32[] constant(3)\n"
        "ROOT go = pred[] compare(i, n), direction=LT\n}\n\nENTRY main {\nx = f32[4] parameter(0)\ny = f32[4] "
        f"parameter(1)\nz = s32[] constant(0)\nt = {state} tuple(z, x, y)\nROOT w = {state} while(t), "
        "condition=condition, body=body\n}\n"
    )
    module, _ = run("copy-insertion", parse(text))
    (loop,) = (i for i in module.entry if i.opcode == "while")
    assert [o.opcode for o in loop.attributes["body"].root.operands] == ["add", "copy", "copy"]
