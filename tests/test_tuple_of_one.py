"""A reduce whose computation gives a tuple of one, which gives a tuple of one too, in every pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
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
