"""Random programs give the same results natively, optimised or not, as evaluated; every pass keeps them valid."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import Generator

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.ir import dtype_of
from hlotool.ir.verifier import check
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]


def inputs(program: Generator) -> list[Array]:
    """Small integers in every type."""
    generator = np.random.default_rng(0)
    arrays = []
    for value in program.parameters:
        low, high = (0, 2) if value.kind == "pred" else (0, 5) if value.kind == "u8" else (-4, 5)
        arrays.append(np.asarray(generator.integers(low, high, value.sizes)).astype(dtype_of(value.kind)))
    return arrays


def same(program: Generator, pipeline: str) -> None:
    """Compile with `pipeline`, run, compare: exactly but for rough values."""
    module = parse(program.text)
    check(module)
    arguments = inputs(program)
    expected = evaluate(module, arguments)
    executable = compile_module(module, pipeline=pipeline, threads=2, instruments=[VerifyEach(check)])
    got = executable(*arguments)
    for value, want, found in zip(program.results, expected, got, strict=True):
        assert found.dtype == want.dtype
        if not value.rough:
            np.testing.assert_array_equal(found, want, err_msg=f"{value.name} of\n{program.text}")
            continue
        tolerance = 0.1 if value.kind == "bf16" else 1e-4
        scale = max(1.0, float(np.abs(want.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(
            found.astype(np.float64),
            want.astype(np.float64),
            rtol=tolerance,
            atol=tolerance * scale,
            err_msg=f"{value.name} of\n{program.text}",
        )


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 25), st.sampled_from(["none", "default"]))
def test_random_programs(choice: random.Random, length: int, pipeline: str) -> None:
    same(Generator(choice, length), pipeline)
