"""change-precision: numbers near those of the program, whose types at the border stay; tests/hlo shows its rewrites."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.application.replica import error_of
from hlotool.harness.inputs import random_inputs
from hlotool.ir import HloError, Module
from hlotool.passes.expand.change_precision import ChangePrecision
from hlotool.text.load import one_module, open_source
from hlotool.text.parser import parse

SAMPLES = ["mlp_step", "attention", "conv_net", "lstm_cell", "digits"]
BOUND = {"bf16": 0.03, "f16": 0.006}
"""Some units of the narrow type (2^-8 and 2^-11), since sums and layers add errors up."""


def sample(name: str) -> Module:
    return one_module(open_source(ROOT / "samples" / f"{name}.hlo"))


def types_of(module: Module) -> list[str]:
    return [str(leaf) for p in (*module.entry.parameters, module.entry.root) for leaf in p.shape.leaves()]


@pytest.mark.parametrize("scope", ["products", "values"])
@pytest.mark.parametrize("to", ["bf16", "f16"])
@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_stay_near(name: str, to: str, scope: str) -> None:
    module = sample(name)
    arrays = random_inputs(module, 1)
    pipeline = f"change-precision{{to={to},scope={scope}}}"
    changed = optimise(module, pipeline)
    assert types_of(changed) == types_of(module)
    wanted = evaluate(module, arrays)
    assert error_of(evaluate(changed, arrays), wanted) <= BOUND[to]
    assert error_of(compile_module(module, pipeline=f"unfuse,inline,{pipeline},default")(*arrays), wanted) <= BOUND[to]


def test_a_product_is_that_of_rounded_operands_added_up_in_f32() -> None:
    module = parse("""HloModule m
ENTRY e {
  x = f32[8,300] parameter(0)
  y = f32[300,8] parameter(1)
  ROOT d = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    x, y = random_inputs(module, 0)
    (found,) = evaluate(optimise(module, "change-precision"), [x, y])
    rounded = [a.astype(ml_dtypes.bfloat16).astype(np.float64) for a in (x, y)]
    np.testing.assert_allclose(found, rounded[0] @ rounded[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pipeline", ["change-precision", "change-precision{scope=values}"])
@pytest.mark.parametrize("name", [*SAMPLES, "while_loop"])  # which decides by a small difference when to end
def test_a_second_time_changes_nothing(name: str, pipeline: str) -> None:
    once = optimise(sample(name), pipeline)
    assert str(optimise(once, pipeline)) == str(once)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"to": "s8"}, "'s8' is no floating-point type"),
        ({"to": "f64"}, "no narrower"),
        ({"scope": "everything"}, "expected products or values"),
        ({"keep": "("}, "no regular expression"),
    ],
)
def test_options_that_say_nothing(options: dict[str, str], says: str) -> None:
    with pytest.raises(HloError, match=says):
        ChangePrecision(**options)
