"""A reduction whose computation gives a tuple of one, which gives a tuple of one too, in every pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.ir.verifier import check
from hlotool.text.parser import parse

ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] add(a, b)\n ROOT t = (f32[]) tuple(c)\n}\n"


@pytest.mark.parametrize("pipeline", ["default", "none", "tree-reduction-rewriter", "fusion,multi-output-fusion"])
@pytest.mark.parametrize(
    ("sizes", "gone", "kept"),
    [((100_000,), "0", ""), ((64, 500), "1", "64"), ((500, 64), "0", "64"), ((1, 7), "0", "7"), ((0, 4), "0", "4")],
)
def test_reduce_gives_a_tuple_of_one(sizes: tuple[int, ...], gone: str, kept: str, pipeline: str) -> None:
    whole = f"f32[{','.join(map(str, sizes))}]"
    module = parse(
        f"{ADD}ENTRY e {{\n x = {whole} parameter(0)\n y = {whole} cosine(x)\n z = f32[] constant(0)\n"
        f" r = (f32[{kept}]) reduce(y, z), dimensions={{{gone}}}, to_apply=add\n"
        f" g = f32[{kept}] get-tuple-element(r), index=0\n ROOT n = f32[{kept}] negate(g)\n}}"
    )
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    (found,) = compile_module(module, pipeline=pipeline)(x)
    np.testing.assert_allclose(found, np.asarray(evaluate(module, [x])[0]), rtol=1e-3, atol=1e-2)


def _windowed(window: str, sizes: str, alone: bool) -> str:
    """A sum over windows, of a computation that gives its result alone or in a tuple."""
    kind = f"f32[{sizes}]"
    add, result, get = (ADD, f"({kind})", "get-tuple-element(r), index=0")
    if alone:
        add, result, get = (ADD.replace("(f32[]) tuple(c)", "f32[] copy(c)"), kind, "copy(r)")
    return (
        f"{add}ENTRY e {{\n x = f32[16,30] parameter(0)\n z = f32[] constant(0)\n"
        f" r = {result} reduce-window(x, z), window={{size={window}}}, to_apply=add\n"
        f" g = {kind} {get}\n n = {kind} negate(g)\n ROOT t = ({kind}, {result}) tuple(n, r)\n}}"
    )


@pytest.mark.parametrize("pipeline", ["default", "none", "simplify", "fusion,multi-output-fusion"])
@pytest.mark.parametrize(
    ("window", "sizes"),
    [("1x1", "16,30"), ("2x1", "15,30"), ("2x3", "15,28"), ("16x30", "1,1"), ("1x30 pad=0_0x29_0", "16,30")],
)
def test_reduce_window_gives_a_tuple_of_one(window: str, sizes: str, pipeline: str) -> None:
    module = parse(_windowed(window, sizes, alone=False))
    check(module)
    x = np.random.default_rng(0).standard_normal((16, 30)).astype(np.float32)
    found = compile_module(module, pipeline=pipeline, strict=True)(x)
    for one, other in zip(found, evaluate(parse(_windowed(window, sizes, alone=True)), [x]), strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4, atol=1e-4)
