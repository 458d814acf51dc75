"""Sort on graphics processors: lines in a block, and lines that are merged, in every order of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.ir import Module, dtype_of
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

ORDERS = ["emulate", "emulate-reversed", "emulate-shuffled"]


def sort_of(dimensions: tuple[int, ...], along: int, kind: str, others: tuple[str, ...] = (), more: str = "") -> Module:
    """Sort by the first operand; the others go along."""
    kinds = (kind, *others)
    shapes = [f"{k}{list(dimensions)}" for k in kinds]
    result = shapes[0] if not others else f"({', '.join(shapes)})"
    parameters = "\n  ".join(
        f"{side}{n} = {k}[] parameter({2 * n + at})" for n, k in enumerate(kinds) for at, side in enumerate("ab")
    )
    arrays = "\n  ".join(f"x{n} = {shape} parameter({n})" for n, shape in enumerate(shapes))
    names = ", ".join(f"x{n}" for n in range(len(kinds)))
    return parse(f"""less {{
  {parameters}
  ROOT c = pred[] compare(a0, b0), direction=LT{more}
}}
ENTRY e {{
  {arrays}
  ROOT s = {result} sort({names}), dimensions={{{along}}}, is_stable=true, to_apply=less
}}""")


def arrays_for(module: Module, seed: int) -> list[npt.NDArray[Any]]:
    drawn = np.random.default_rng(seed)
    return [
        drawn.integers(-40, 40, p.shape.dimensions).astype(dtype_of(p.shape.element_type))
        for p in module.entry.parameters
    ]


def check(module: Module, arrays: list[npt.NDArray[Any]], words: str) -> None:
    nans = any(np.isnan(array).any() for array in arrays if array.dtype.kind == "f")
    placed = not nans or "TOTALORDER" in print_module(module)  # else the evaluator puts NaNs anywhere
    wanted = evaluate(module, arrays) if placed else compile_module(module)(*arrays)
    for name in ORDERS:
        executable = compile_module(module, f"nvptx:{name}")
        reasons = [decision.reason for decision in executable.decisions if decision.rule in ("sort", "thread-per-task")]
        assert len(reasons) == 1
        assert words in reasons[0]
        for got, right in zip(executable(*arrays), wanted, strict=True):
            assert got.tobytes() == right.tobytes()


@settings(max_examples=20, deadline=None)
@given(
    lines=st.sampled_from([1, 3, 70]), length=st.sampled_from([2, 3, 16, 100, 1000, 1024]), outer=st.booleans(),
    kind=st.sampled_from(["f32", "s32", "bf16", "u8", "f64", "s64", "pred"]),
    others=st.sampled_from([(), ("s32",), ("f64", "s8")]),
)  # fmt: skip
def test_a_block_sorts_short_lines(lines: int, length: int, outer: bool, kind: str, others: tuple[str, ...]) -> None:
    dimensions = (2, length, lines) if outer else (lines, length)
    module = sort_of(dimensions, 1, kind, others)
    check(module, arrays_for(module, 1), "in shared memory")


@settings(max_examples=10, deadline=None)
@given(
    lines=st.sampled_from([1, 3]), length=st.sampled_from([1025, 2048, 3000, 5000]), outer=st.booleans(),
    kind=st.sampled_from(["f32", "s32", "bf16", "f64"]), others=st.sampled_from([(), ("s32",), ("f64", "s8")]),
)  # fmt: skip
def test_long_lines_are_merged(lines: int, length: int, outer: bool, kind: str, others: tuple[str, ...]) -> None:
    dimensions = (2, length, lines) if outer else (lines, length)
    module = sort_of(dimensions, 1, kind, others)
    check(module, arrays_for(module, 2), "are merged")


@pytest.mark.parametrize("length", [50, 3000])
@pytest.mark.parametrize("more", ["", ", type=TOTALORDER"])
def test_floats_that_are_none_have_places(length: int, more: str) -> None:
    module = sort_of((length,), 0, "f32", ("s32",), more)
    x, index = arrays_for(module, 3)
    x[::7], x[::5], x[3::9], x[1::11] = np.nan, -np.nan, -0.0, np.inf
    check(module, [x, index], "shared memory")


def test_other_comparators_have_a_thread_for_each_line() -> None:
    module = parse("""less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  p = f32[] sine(a)
  q = f32[] sine(b)
  ROOT c = pred[] compare(p, q), direction=LT
}
ENTRY e {
  x = f32[5,60] parameter(0)
  ROOT s = f32[5,60] sort(x), dimensions={1}, is_stable=true, to_apply=less
}""")
    check(module, arrays_for(module, 4), "no form for blocks")


@pytest.mark.parametrize("length", [40, 2500])
def test_results_may_lie_where_operands_are(length: int) -> None:
    """A sort whose operands nobody else reads is done in place."""
    module = parse(f"""less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT
}}
ENTRY e {{
  x = f32[3,{length}] parameter(0)
  y = f32[3,{length}] sine(x)
  n = s32[3,{length}] iota(), iota_dimension=1
  s = (f32[3,{length}], s32[3,{length}]) sort(y, n), dimensions={{1}}, is_stable=true, to_apply=less
  v = f32[3,{length}] get-tuple-element(s), index=0
  k = s32[3,{length}] get-tuple-element(s), index=1
  w = f32[3,{length}] negate(v)
  ROOT t = (f32[3,{length}], s32[3,{length}]) tuple(w, k)
}}""")
    (x,) = arrays_for(module, 5)
    for name in ORDERS:
        values, places = compile_module(module, f"nvptx:{name}")(x)
        right = np.argsort(-np.sin(x), axis=1, kind="stable")
        np.testing.assert_array_equal(places, right)
        np.testing.assert_allclose(-values, np.take_along_axis(np.sin(x), right, 1), rtol=1e-6)


@pytest.mark.parametrize("length", [7, 100, 3000])
@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("kind", ["f32", "s32", "bf16"])
def test_topk_is_the_beginning_of_a_sort(length: int, largest: str, kind: str) -> None:
    """Equal elements in the order of their positions."""
    k = min(20, length)
    module = parse(f"""ENTRY e {{
  x = {kind}[3,{length}] parameter(0)
  ROOT t = ({kind}[3,{k}], s32[3,{k}]) topk(x), k={k}, largest={largest}
}}""")
    check(module, arrays_for(module, 6), "shared memory")
