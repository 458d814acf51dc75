"""Comparisons that read what a product reads: HLO before and after, what is left alone, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.passes.framework.select import without
from hlotool.text.parser import parse

DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
UNUSED = without(parse_pipeline("default"), frozenset(["limit-reuse"]))


def module(limited: str = "maximum", direction: str = "GT", more: str = "", result: str = "s") -> Module:
    """A layer with a ReLU whose gradient asks on which side of the limit its input was."""
    made = parse(f"""HloModule m

ENTRY main {{
  a = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  b = f32[8,16] parameter(2)
  z = f32[] constant(0)
  c = f32[8,16] broadcast(z), dimensions={{}}
  d = f32[8,16] dot(a, w), {DIMS}
  x = f32[8,16] add(d, b)
  p = pred[8,16] compare(x, c), direction={direction}
  r = f32[8,16] {limited}(x, c)
  e = f32[8,16] dot(r, w), {DIMS}
  h = f32[8,16] dot(e, w), {DIMS}
  t = f32[8,16] select(p, h, c)
  u = f32[16,16] dot(r, t), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  {more}
  ROOT y = (f32[8,16], f32[16,16], f32[8,16]) tuple(e, u, {"t" if result == "s" else result})
}}
""")
    check(made)
    return made


def reused(made: Module) -> int:
    run_pipeline(made, parse_pipeline("limit-reuse"), log := DecisionLog())
    check(made)
    return [decision.rule for decision in log].count("reuse")


@pytest.mark.parametrize(
    ("limited", "direction", "fits"),
    [
        ("maximum", "GT", True), ("maximum", "LE", True), ("minimum", "LT", True), ("minimum", "GE", True),
        ("maximum", "LT", False), ("maximum", "GE", False), ("minimum", "GT", False), ("maximum", "EQ", False),
    ],
)  # fmt: skip
def test_the_same_answers(limited: str, direction: str, fits: bool) -> None:
    made = module(limited, direction)
    rng = np.random.default_rng(0)
    shapes = [p.shape.dimensions for p in made.entry.parameters]
    arrays = [rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
    arrays[2].reshape(-1)[:12] = [np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e-45, 1, -1, np.nan, 0]
    arrays[0][:2] = 0
    before = evaluate(made, arrays)
    plain = compile_module(made, pipeline=UNUSED)(*arrays)
    found = compile_module(made)(*arrays)
    assert [np.asarray(x).tobytes() for x in found] == [np.asarray(x).tobytes() for x in plain]
    assert (reused(made) == 1) is fits
    for got, wanted in zip(evaluate(made, arrays), before, strict=True):
        np.testing.assert_array_equal(got, wanted)
    (compare,) = (i for i in made.entry if i.opcode == "compare")
    assert (compare.operands[0].opcode == limited) is fits


def test_the_kernel_of_the_product_writes_one_array() -> None:
    result = optimise(module())
    first = next(i for i in result.entry if i.opcode == "fusion")
    assert first.attributes["kind"] == "kOutput"
    assert first.shape.is_array
