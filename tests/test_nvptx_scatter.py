"""Scatter on graphics processors: every way of it, in every order of blocks and threads, bit for bit as in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.ir import Module, dtype_of
from hlotool.text.parser import parse

ORDERS = ["emulate", "emulate-reversed", "emulate-shuffled"]

COMBINERS = {
    "add": "c = {0}[] add(a, b)", "assign": "c = {0}[] copy(b)", "minimum": "c = {0}[] minimum(a, b)",
    "mean": "h = {0}[] add(a, b) n = {0}[] constant(2) c = {0}[] divide(h, n)",
}  # fmt: skip


def scattered(
    kind: str, combiner: str, rows: int, width: int, vectors: int, window: str = "rows", more: str = ""
) -> Module:
    """Rows of `width` elements, or windows of three rows and two columns less, at indices that repeat and leave it."""
    inner = COMBINERS[combiner].format(kind)
    updates, attributes = {
        "rows": (f"[{vectors},{width}]", "update_window_dims={1}, inserted_window_dims={0}"),
        "pieces": (f"[{vectors},3,{width}]", "update_window_dims={1,2}, inserted_window_dims={}"),
    }[window]
    return parse(f"""combine {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  {inner}
  ROOT r = {kind}[] copy(c)
}}
ENTRY e {{
  x = {kind}[{rows},{width}] parameter(0)
  i = s32[{vectors},1] parameter(1)
  u = {kind}{updates} parameter(2)
  ROOT s = {kind}[{rows},{width}] scatter(x, i, u), {attributes}, scatter_dims_to_operand_dims={{0}},
    index_vector_dim=1, to_apply=combine{more}
}}""")


def arrays_for(module: Module, seed: int) -> list[np.ndarray]:
    drawn = np.random.default_rng(seed)
    shapes = [(p.shape.dimensions, dtype_of(p.shape.element_type)) for p in module.entry.parameters]
    (x, kind), (i, _), (u, _) = shapes
    values = [drawn.integers(-50, 50, dimensions).astype(kind) / kind.type(7) for dimensions in (x, u)]
    return [values[0].astype(kind), drawn.integers(-2, x[0] + 2, i).astype(np.int32), values[1].astype(kind)]


def check(module: Module, seed: int, words: str) -> None:
    arrays = arrays_for(module, seed)
    (wanted,) = evaluate(module, arrays)
    for name in ORDERS:
        executable = compile_module(module, f"nvptx:{name}")
        (reason,) = [decision.reason for decision in executable.decisions if decision.rule == "scatter"]
        assert words in reason
        np.testing.assert_array_equal(executable(*arrays)[0], wanted)


@settings(max_examples=12, deadline=None)
@given(
    rows=st.sampled_from([1, 5, 300]), width=st.sampled_from([1, 3, 8, 300]), vectors=st.sampled_from([2, 40, 700]),
    combiner=st.sampled_from(sorted(COMBINERS)), kind=st.sampled_from(["f32", "f64", "bf16", "s8"]),
)  # fmt: skip
def test_elements_have_owners(rows: int, width: int, vectors: int, combiner: str, kind: str) -> None:
    check(scattered(kind, combiner, rows, width, vectors), 1, "combines its updates in order")


@pytest.mark.parametrize("combiner", ["add", "minimum"])
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("window", ["rows", "pieces"])
def test_integers_are_combined_in_any_order(combiner: str, kind: str, window: str) -> None:
    check(scattered(kind, combiner, 20, 9, 300, window), 2, "in any order")


@pytest.mark.parametrize("combiner", ["add", "assign"])
def test_windows_that_overlap_are_combined_in_turn(combiner: str) -> None:
    check(scattered("f32", combiner, 12, 40, 30, "pieces"), 3, "may overlap")


def test_a_single_window_has_a_thread_for_each_element() -> None:
    check(scattered("f32", "add", 12, 40, 1, "pieces"), 4, "no two updates meet")


def test_unique_indices_are_taken_at_their_word() -> None:
    module = scattered("f32", "add", 400, 7, 100, more=", unique_indices=true")
    x, _, u = arrays_for(module, 5)
    i = np.random.default_rng(6).permutation(400)[:100, None].astype(np.int32)
    (wanted,) = evaluate(module, [x, i, u])
    executable = compile_module(module, "nvptx:emulate-shuffled")
    assert "no two updates meet" in next(d.reason for d in executable.decisions if d.rule == "scatter")
    np.testing.assert_array_equal(executable(x, i, u)[0], wanted)
