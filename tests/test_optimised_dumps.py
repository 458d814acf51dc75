"""Modules as XLA prints them after optimisation run as the modules they came from.

``data/dumps`` holds programs before (``NAME.before.hlo``) and after optimisation: ``NAME.cpu.hlo`` is what XLA made of
it, ``NAME.gpu.hlo`` and ``NAME.tpu.hlo`` are written in the style of its other backends.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Run
from semantics.xla_oracle import missing

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import truth
from hlotool.harness.compare import Tolerance, compare_all, compare_with_truth
from hlotool.harness.inputs import random_inputs
from hlotool.harness.xla import Xla
from hlotool.ir import HloError, Module, UnsupportedError
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse

DUMPS = sorted(path for path in (Path(__file__).parent / "data" / "dumps").glob("*.hlo") if ".before." not in path.name)
WAYS = [("evaluate", "default"), ("cpu", "default"), ("cpu", "none")]
SAME = Tolerance(1e-5, 1e-5)


def outputs(text: str, arrays: list[Any], backend: str = "evaluate", pipeline: str = "default") -> tuple[Any, ...]:
    return compile_module(parse(text), backend, pipeline)(*arrays)


def assert_same(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    comparisons = compare_all(found, list(expected), SAME)
    assert len(found) == len(expected)
    assert all(c.ok for c in comparisons), [str(c) for c in comparisons]


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_a_dump_runs_as_its_source(dump: Path, way: tuple[str, str]) -> None:
    before = dump.with_name(dump.name.split(".")[0] + ".before.hlo").read_text()
    arrays = random_inputs(parse(before), 0)
    expected = outputs(before, arrays)
    assert all(np.isfinite(e).all() and e.any() for e in expected)
    assert_same(outputs(dump.read_text(), arrays, *way), expected)


# ---- fusions


def entry(body: str, computations: str = "") -> str:
    return f"HloModule m\n\n{computations}\n\nENTRY main {{\n{body}\n}}\n"


ADD = "add {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT r = f32[] add(a, b)\n}\n"
FUSIONS = {
    "nested": entry(
        "x = f32[3,4] parameter(0)\nROOT f = f32[4,3] fusion(x), kind=kLoop, calls=outer",
        "inner {\np = f32[3,4] parameter(0)\nROOT n = f32[3,4] negate(p)\n}\n"
        "outer {\np = f32[3,4] parameter(0)\nf = f32[3,4] fusion(p), kind=kLoop, calls=inner\n"
        "ROOT t = f32[4,3] transpose(f), dimensions={1,0}\n}",
    ),
    "a tuple in a tuple": entry(
        "x = f32[4] parameter(0)\nROOT f = (f32[4], (f32[4], f32[])) fusion(x), kind=kInput, calls=body",
        ADD + "body {\np = f32[4] parameter(0)\nn = f32[4] negate(p)\n"
        "e = f32[4] exponential(p)\nz = f32[] constant(0)\n"
        "s = f32[] reduce(e, z), dimensions={0}, to_apply=add\nt = (f32[4], f32[]) tuple(e, s)\n"
        "ROOT r = (f32[4], (f32[4], f32[])) tuple(n, t)\n}",
    ),
    "a variadic root": entry(
        "x = f32[3,4] parameter(0)\nf = (f32[3], f32[3]) fusion(x), kind=kInput, calls=body\n"
        "ROOT g = f32[3] get-tuple-element(f), index=1",
        "two {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nc = f32[] parameter(2)\nd = f32[] parameter(3)\n"
        "s = f32[] add(a, c)\nm = f32[] maximum(b, d)\nROOT t = (f32[], f32[]) tuple(s, m)\n}\n"
        "body {\np = f32[3,4] parameter(0)\nz = f32[] constant(0)\n"
        "ROOT r = (f32[3], f32[3]) reduce(p, p, z, z), dimensions={1}, to_apply=two\n}",
    ),
    "a scatter": entry(
        "x = f32[6] parameter(0)\ni = s32[2,1] constant({{1},{4}})\nu = f32[2] constant({10,20})\n"
        "ROOT f = f32[6] fusion(x, i, u), kind=kInput, calls=body",
        ADD + "body {\np = f32[6] parameter(0)\ni = s32[2,1] parameter(1)\nu = f32[2] parameter(2)\n"
        "ROOT s = f32[6] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0},"
        " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add\n}",
    ),
    "updates in place": entry(
        "x = f32[6] parameter(0)\nc = f32[6] copy(x)\nk = s32[] constant(2)\n"
        "f = (f32[6], f32[2]) fusion(c, k), kind=kLoop, calls=body, output_to_operand_aliasing={{0}: (0, {})}\n"
        "g = f32[6] get-tuple-element(f), index=0\nROOT n = f32[6] negate(g)",
        "body {\np = f32[6] parameter(0)\nk = s32[] parameter(1)\n"
        "s = f32[2] dynamic-slice(p, k), dynamic_slice_sizes={2}\n"
        "e = f32[2] exponential(s)\nd = f32[6] dynamic-update-slice(p, e, k)\nROOT t = (f32[6], f32[2]) tuple(d, s)\n}",
    ),
    "a loop inside": entry(
        "x = f32[4] parameter(0)\nROOT f = f32[4] fusion(x), kind=kCustom, calls=body",
        "condition {\ns = (s32[], f32[4]) parameter(0)\ni = s32[] get-tuple-element(s), index=0\n"
        "n = s32[] constant(3)\n"
        "ROOT l = pred[] compare(i, n), direction=LT\n}\n"
        "step {\ns = (s32[], f32[4]) parameter(0)\ni = s32[] get-tuple-element(s), index=0\n"
        "v = f32[4] get-tuple-element(s), index=1\none = s32[] constant(1)\nj = s32[] add(i, one)\n"
        "w = f32[4] add(v, v)\n"
        "ROOT t = (s32[], f32[4]) tuple(j, w)\n}\n"
        "body {\np = f32[4] parameter(0)\nz = s32[] constant(0)\nt = (s32[], f32[4]) tuple(z, p)\n"
        "w = (s32[], f32[4]) while(t), condition=condition, body=step\n"
        "ROOT g = f32[4] get-tuple-element(w), index=1\n}",
    ),
}


@pytest.mark.parametrize("name", FUSIONS)
def test_fusions_of_other_compilers(name: str) -> None:
    text = FUSIONS[name]
    arrays = random_inputs(parse(text), 0)
    expected = outputs(text, arrays)
    for _, pipeline in WAYS[1:]:
        assert_same(outputs(text, arrays, "cpu", pipeline), expected)


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_error_bounds_hold(dump: Path) -> None:
    """Library calls sum in any order, too, and annotations leave the bounds as they are."""
    module = parse(dump.read_text())
    arrays = random_inputs(module, seed=1)
    bounds = truth(module, arrays)
    for found, bound in zip(compile_module(module)(*arrays), bounds, strict=True):
        (comparison,) = compare_with_truth([found], [bound])
        assert comparison.ok, comparison
        assert comparison.undecided < max(1, found.size)


def test_layouts_count_before_fusions_are_dissolved() -> None:
    """A bitcast reads the layout of the parameter in its own computation, whatever the operand's is."""
    text = entry(
        "x = f32[2,3]{1,0} parameter(0)\nROOT f = f32[6]{0} fusion(x), kind=kLoop, calls=body",
        "body {\np = f32[2,3]{0,1} parameter(0)\nROOT b = f32[6]{0} bitcast(p)\n}",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for way in WAYS:
        np.testing.assert_array_equal(outputs(text, [x], *way)[0], x.T.reshape(-1))


def test_own_fusions_stay_as_they_are() -> None:
    """Lowering finds nothing foreign in what the default pipeline made."""
    module = optimise(parse((DUMPS[0].with_name("mlp_step.before.hlo")).read_text()))
    fusions = [i.name for i in module.instructions() if i.opcode == "fusion"]
    assert fusions
    run_pipeline(module, parse_pipeline("lowering"))
    assert [i.name for i in module.instructions() if i.opcode == "fusion"] == fusions


@pytest.mark.parametrize(
    ("passes", "body"),
    [
        ("fusion", "a = f32[64] negate(x)\nROOT r = f32[64] tanh(a)"),
        ("multi-output-fusion", "a = f32[64] tanh(x)\nb = f32[64] negate(a)\nROOT r = (f32[64], f32[64]) tuple(a, b)"),
        ("product-fusion", "m = f32[8,8] reshape(x)\nd = f32[8,8] dot(m, m), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}\nROOT r = f32[8,8] tanh(d)"),
    ],
)  # fmt: skip
def test_every_pass_marks_its_fusions_as_its_own(passes: str, body: str) -> None:
    module = parse(entry(f"x = f32[64] parameter(0)\n{body}"))
    run_pipeline(module, parse_pipeline(passes))
    made = sum(i.opcode == "fusion" for i in module.instructions())
    assert made == 1
    run_pipeline(module, parse_pipeline("call-inliner{fusions=all}"))
    assert sum(i.opcode == "fusion" for i in module.instructions()) == made


def test_which_fusions_to_inline_is_checked() -> None:
    with pytest.raises(HloError, match="none, foreign, all"):
        run_pipeline(parse(FUSIONS["nested"]), parse_pipeline("call-inliner{fusions=some}"))


# ---- library calls


def gemm(extra: str = "", epilogue: str = "DEFAULT", alpha: object = 1, beta: object = 0) -> str:
    numbers = {
        "lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"],
        "lhs_batch_dimensions": [], "rhs_batch_dimensions": [],
    }  # fmt: skip
    config = {
        "alpha_real": alpha,
        "alpha_imag": 0,
        "beta": beta,
        "dot_dimension_numbers": numbers,
        "epilogue": epilogue,
    }
    text = json.dumps({"gemm_backend_config": config})
    return entry(
        "a = f32[3,4] parameter(0)\nb = f32[4,5] parameter(1)\nc = f32[3,5] parameter(2)\nv = f32[5] parameter(3)\n"
        f'ROOT r = (f32[3,5], s8[16]) custom-call(a, b{extra}), custom_call_target="__cublas$lt$matmul",'
        f" backend_config={text}"
    )


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


EPILOGUES = {
    "DEFAULT": lambda x, v: x,
    "RELU": lambda x, v: np.maximum(x, 0),
    "BIAS": lambda x, v: x + v,
    "BIAS_RELU": lambda x, v: np.maximum(x + v, 0),
    "GELU": lambda x, v: _gelu(x),
    "BIAS_GELU": lambda x, v: _gelu(x + v),
    "SILU": lambda x, v: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("beta", [0, -0.5])
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(epilogue: str, beta: float) -> None:
    extra = (", c" if beta else "") + (", v" if "BIAS" in epilogue else "")
    text = gemm(extra, epilogue, 1.5, beta)
    a, b, c, v = arrays = random_inputs(parse(text), 1)
    expected = EPILOGUES[epilogue](1.5 * (a.astype(np.float64) @ b) + beta * c, v).astype(np.float32)
    for way in WAYS:
        result, workspace = outputs(text, arrays, *way)
        assert_same((result,), (expected,))
        assert not workspace.any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (gemm(", c, v"), "4 operands, 2 have a known meaning"),
        (gemm(epilogue="SWISH"), "the activation SWISH is not known"),
        (gemm(epilogue="BIAS"), "its form is unknown"),
        (gemm().replace('"lhs_contracting_dimensions": ["1"]', '"lhs_contracting_dimensions": ["7"]'), "dimension"),
        (gemm().replace("f32[3,5], s8", "f32[5,3], s8"), r"a result is f32\[3,5\], f32\[5,3\] declared"),
        (
            entry(
                'x = f32[2,4] parameter(0)\nROOT r = f32[2,4] custom-call(x), custom_call_target="__cudnn$fmhaSoftmax"'
            ),
            "r: custom-call target .* has no handler",
        ),
        (
            entry(
                "x = f32[1,4,4,2] parameter(0)\nw = f32[1,1,2,3] parameter(1)\nb = f32[3] parameter(2)\n"
                "ROOT r = (f32[1,4,4,3], u8[0]) custom-call(x, w, b), window={size=1x1}, dim_labels=b01f_01io->b01f,"
                ' custom_call_target="__cudnn$convBiasActivationForward"'
            ),
            "does not name an activation",
        ),
    ],
)
def test_unknown_library_calls_are_refused(text: str, reason: str) -> None:
    """With the target, and by both backends."""
    arrays = random_inputs(parse(text), 0)
    for way in WAYS:
        with pytest.raises(UnsupportedError, match=reason) as caught:
            outputs(text, arrays, *way)
        assert "__cu" in str(caught.value)


@pytest.mark.parametrize("activation", ["kNone", "kRelu", "kRelu6", "kElu", "kLeakyRelu"])
def test_fused_convolutions(activation: str) -> None:
    config = {
        "activation_mode": activation, "conv_result_scale": 2, "side_input_scale": 0.5, "leakyrelu_alpha": 0.25,
    }  # fmt: skip
    text = entry(
        "x = f32[2,5,5,3] parameter(0)\nw = f32[1,1,3,4] parameter(1)\nb = f32[4] parameter(2)\n"
        "s = f32[2,4,5,5] parameter(3)\n"
        "r = (f32[2,4,5,5], u8[7]) custom-call(x, w, b, s), window={size=1x1}, dim_labels=b01f_01io->bf01,"
        f' custom_call_target="__cudnn$convBiasActivationForward",'
        f" backend_config={json.dumps({'cudnn_conv_backend_config': config})}\n"
        "ROOT g = f32[2,4,5,5] get-tuple-element(r), index=0"
    )
    x, w, b, s = arrays = random_inputs(parse(text), 2)
    y = 2 * np.einsum("nhwi,io->nohw", x, w[0, 0]) + 0.5 * s + b[:, None, None]
    with np.errstate(over="ignore"):
        expected = {
            "kNone": y,
            "kRelu": np.maximum(y, 0),
            "kRelu6": np.clip(y, 0, 6),
            "kElu": np.where(y > 0, y, np.expm1(y)),
            "kLeakyRelu": np.where(y > 0, y, 0.25 * y),
        }[activation]
    for way in WAYS:
        assert_same(outputs(text, arrays, *way), (expected.astype(np.float32),))


# ---- snapshots

VECTOR = "shape { element_type: F32 dimensions: 2 layout { minor_to_major: 0 } is_dynamic_dimension: false }"
SNAPSHOT = """# proto-message: HloSnapshot
hlo { hlo_module { name: "m" entry_computation_name: "main" entry_computation_id: 1 id: 1
  computations { name: "main" id: 1 root_id: 2
    instructions { name: "x" opcode: "parameter" id: 1 VECTOR }
    instructions { name: "n" opcode: "negate" id: 2 operand_ids: 1 VECTOR } } } }
arguments { VECTOR f32s: 1 f32s: 2 }
result { VECTOR f32s: -1 f32s: -2 }
"""


@pytest.mark.parametrize(
    ("change", "options", "code", "message"),
    [
        (("", ""), (), 0, "out0: ok"),
        (("f32s: -2", "f32s: -3"), (), 1, "MISMATCH: 1 of 2"),
        (("f32s: -2", "f32s: -3"), ("--atol", "1"), 0, "out0: ok"),
        (("f32s: -2", "f32s: -3"), ("--random", "1"), 0, ""),
        (("f32s: -2", "f32s: -3"), ("--input", "x=5"), 0, "[-5. -5.]"),
        (("f32s: -2", "f32s: -3"), ("--compare", "evaluate"), 0, "out0: ok"),
        (("result { VECTOR f32s: -1 f32s: -2 }", ""), (), 0, "[-1. -2.]"),
        (("arguments { VECTOR", "arguments { VECTOR f32s: 1 f32s: 2 }\narguments { VECTOR"), (), 3, "holds 2 arrays"),
    ],
)
def test_snapshots_run_on_what_they_hold(
    hlotool: Run, tmp_path: Path, change: tuple[str, str], options: tuple[str, ...], code: int, message: str
) -> None:
    text = SNAPSHOT.replace(*change).replace("VECTOR", VECTOR)
    (tmp_path / "s.pbtxt").write_text(text, encoding="utf-8")
    done = hlotool("run", "s.pbtxt", *options)
    assert done.returncode == code, done.stderr
    assert message in done.stdout + done.stderr


# ---- the corpus through XLA

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "corpus.py"

def _cases() -> list[Any]:
    if not CORPUS.exists():
        return []
    spec = importlib.util.spec_from_file_location("corpus", CORPUS)
    assert spec is not None
    assert spec.loader is not None
    corpus = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(corpus)
    cases = [corpus.Case(path) for path in corpus.names()]
    return [case for case in cases if case.meta["size_class"] == "small"]


CASES = _cases()


@pytest.fixture(scope="module")
def xla() -> Iterator[Xla]:
    with Xla() as peer:
        yield peer


@pytest.mark.skipif(not CASES, reason="the corpus of programs is not here")
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_xla_made_of_the_corpus(case: Any, xla: Xla) -> None:
    if any(target.startswith("lapack_") for target in case.meta["custom_calls"]):
        pytest.importorskip("scipy", reason="LAPACK custom calls need SciPy")
    xla.compile(case.hlo)
    module: Module = parse(xla.optimised())
    check(module)
    arrays = case.inputs()
    for backend in ("cpu", "evaluate"):
        found = evaluate(module, arrays) if backend == "evaluate" else compile_module(module, backend)(*arrays)
        report = case.check(list(found))
        assert report["ok"], (backend, report)
