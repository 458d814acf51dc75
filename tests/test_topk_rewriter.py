"""Sorts of which the first elements are read become top-k; the same elements and positions, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.ir import Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse

PLAIN = "ROOT c = pred[] compare(a, b), direction=@"
JAX = """zero = f32[] constant(0)
  nan = f32[] constant(nan)
  za = pred[] compare(a, zero), direction=EQ
  sa = f32[] select(za, zero, a)
  na = pred[] compare(a, a), direction=NE
  ka = f32[] select(na, nan, sa)
  zb = pred[] compare(b, zero), direction=EQ
  sb = f32[] select(zb, zero, b)
  nb = pred[] compare(b, b), direction=NE
  kb = f32[] select(nb, nan, sb)
  ROOT c = pred[] compare(ka, kb), direction=@, type=TOTALORDER"""


def module_of(kind: str, comparator: str, direction: str, body: str, pair: bool) -> Module:
    positions = "\n  pa = s32[] parameter(2)\n  pb = s32[] parameter(3)" if pair else ""
    return parse(
        f"HloModule m\nbefore {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1){positions}\n"
        f"  {comparator.replace('@', direction)}\n}}\nENTRY main {{\n  x = {kind}[3,50] parameter(0)\n"
        f"  i = s32[3,50] iota(), iota_dimension=1\n{body}\n}}\n"
    )


def pairs(kind: str, stable: str = ", is_stable=true") -> str:
    return (
        f"s = ({kind}[3,50], s32[3,50]) sort(x, i), dimensions={{1}}, to_apply=before{stable}\n"
        f"v = {kind}[3,50] get-tuple-element(s), index=0\nw = s32[3,50] get-tuple-element(s), index=1\n"
        f"f = {kind}[3,7] slice(v), slice={{[0:3], [0:7]}}\ng = s32[2,5] slice(w), slice={{[1:3], [0:5]}}\n"
        f"ROOT t = ({kind}[3,7], s32[2,5]) tuple(f, g)"
    )


def rewritten(module: Module) -> tuple[Module, DecisionLog]:
    check(module)
    after, log = clone_module(module), DecisionLog()
    run_pipeline(after, parse_pipeline("topk-rewriter"), log)
    check(after)
    return after, log


def values_of(kind: str) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(8)
    if kind in ("f32", "bf16"):
        pool = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1, -1, 2, 1e-40, 3, 5], np.float32)
        return pool[generator.integers(0, len(pool), (3, 50))].astype(dtype_of(kind))
    return generator.integers(0, 20, (3, 50)).astype(dtype_of(kind))


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize(
    ("kind", "comparator"),
    [("s32", PLAIN), ("u8", PLAIN), ("f32", f"{PLAIN}, type=TOTALORDER"), ("bf16", f"{PLAIN}, type=TOTALORDER"),
     ("f32", JAX)],
)  # fmt: skip
def test_values_and_positions(kind: str, comparator: str, direction: str) -> None:
    module = module_of(kind, comparator, direction, pairs(kind), pair=True)
    after, log = rewritten(module)
    assert [d.code for d in log] == ["HLO4126"]
    assert "sort" not in after.opcodes()
    assert not rewritten(after)[1].decisions
    values = values_of(kind)
    expected = evaluate(module, [values])
    for found in (evaluate(after, [values]), compile_module(module)(values)):
        assert [f.tobytes() for f in found] == [np.ascontiguousarray(e).tobytes() for e in expected]


def test_every_sort_is_looked_at() -> None:
    """Not the first alone, whose readers, right behind it, go with it."""
    sort = "s# = s32[3,50] sort(x), dimensions={1}, to_apply=before\nf# = s32[3,5] slice(s#), slice={[0:3], [0:5]}"
    sorts = [sort.replace("#", str(number)) for number in range(3)]
    body = "\n".join((*sorts, "ROOT t = (s32[3,5], s32[3,5], s32[3,5]) tuple(f0, f1, f2)"))
    after, log = rewritten(module_of("s32", PLAIN, "LT", body, pair=False))
    assert "sort" not in after.opcodes()
    assert len(log) == 3
