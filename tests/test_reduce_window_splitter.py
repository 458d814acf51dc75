"""Windows in steps: the same numbers for all windows, and few elements at a time."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.truth import truth
from hlotool.harness.compare import compare_with_truth
from hlotool.ir import Module, clone_module, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse

IDENTITIES = {
    ("add", "f32"): "0", ("add", "bf16"): "0", ("add", "s8"): "0", ("multiply", "f32"): "1", ("maximum", "f32"): "-inf",
    ("maximum", "s32"): "-2147483648", ("minimum", "u8"): "255", ("and", "pred"): "true", ("or", "s32"): "0",
    ("xor", "s32"): "0",
}  # fmt: skip


def module_of(opcode: str, kind: str, sizes: list[int], window: str, initial: str = "") -> Module:
    value = initial or IDENTITIES[opcode, kind]
    dimensions = ",".join(map(str, sizes))
    text = (
        f"HloModule m\nf {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n"
        f"  ROOT c = {kind}[] {opcode}(a, b)\n}}\nENTRY main {{\n"
        f"  x = {kind}[{dimensions}] parameter(0)\n  i = {kind}[] constant({value})\n"
        f"  ROOT y = {kind}[@] reduce-window(x, i), window={{{window}}}, to_apply=f\n}}\n"
    )
    sides: list[list[str]] = [field.partition("=")[2].split("x") for field in window.split()]
    names = [field.partition("=")[0] for field in window.split()]
    given = dict(zip(names, sides, strict=True))
    out = []
    for d, size in enumerate(sizes):
        low, high = map(int, given["pad"][d].split("_")) if "pad" in given else (0, 0)
        dilation = int(given["rhs_dilate"][d]) if "rhs_dilate" in given else 1
        stride = int(given["stride"][d]) if "stride" in given else 1
        out.append((size + low + high - (int(given["size"][d]) - 1) * dilation - 1) // stride + 1)
    module = parse(text.replace("@", ",".join(map(str, out))))
    check(module)
    return module


def split(module: Module) -> tuple[Module, DecisionLog]:
    after, log = clone_module(module), DecisionLog()
    run_pipeline(after, parse_pipeline("reduce-window-splitter"), log)
    check(after)
    return after, log


def windows(module: Module) -> list[int]:
    """Elements of each window."""
    rows = (i.attributes["window"].dimensions for i in module.entry if i.opcode == "reduce-window")
    return [prod(d.size for d in dimensions) for dimensions in rows]


def random_values(kind: str, sizes: list[int], seed: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    if kind in ("f32", "bf16"):
        values = generator.standard_normal(sizes).astype(dtype_of(kind))
        if values.size:
            values.reshape(-1)[generator.integers(0, values.size, 2)] = generator.choice([np.nan, np.inf, -0.0, 1e-40])
        return values
    return generator.integers(0, 100, sizes).astype(dtype_of(kind))


@pytest.mark.parametrize("size", [16, 27, 31, 37, 64, 101, 256, 500])
@pytest.mark.parametrize(("opcode", "kind"), sorted(IDENTITIES))
def test_long_windows(opcode: str, kind: str, size: int) -> None:
    module = module_of(opcode, kind, [2, 700], f"size=1x{size}")
    after, log = split(module)
    assert len(windows(after)) > 1
    assert sum(windows(after)) < 6 + 3 * size**0.5
    assert not split(after)[1].decisions
    assert [d.code for d in log] == ["HLO4125"]
    values = random_values(kind, [2, 700], size)
    with np.errstate(all="ignore"):
        (expected,), (found,) = evaluate(module, [values]), evaluate(after, [values])
        if opcode in ("add", "multiply") and kind in ("f32", "bf16"):
            (row,) = compare_with_truth([found], list(truth(module, [values])), max_undecided=1.0)
            assert row.ok, str(row)
        else:
            np.testing.assert_array_equal(found, expected)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_window(data: st.DataObject) -> None:
    """Strides, padding on either side (negative, too), dilation, several dimensions."""
    opcode, kind = data.draw(st.sampled_from([("add", "s8"), ("maximum", "s32"), ("minimum", "u8"), ("xor", "s32")]))
    fields: dict[str, list[str]] = {"size": [], "stride": [], "pad": [], "rhs_dilate": []}
    sizes = []
    for _ in range(data.draw(st.integers(1, 3))):
        size, dilation = data.draw(st.integers(1, 24)), data.draw(st.sampled_from([1, 1, 2, 3]))
        low, high = data.draw(st.integers(-3, 26)), data.draw(st.integers(-3, 26))
        reach = (size - 1) * dilation + 1
        sizes.append(max(1, reach + data.draw(st.integers(0, 12)) - low - high, 3 - low, 3 - high))
        for key, value in (("size", size), ("stride", data.draw(st.integers(1, 3))), ("pad", f"{low}_{high}"),
                           ("rhs_dilate", dilation)):  # fmt: skip
            fields[key].append(str(value))
    module = module_of(opcode, kind, sizes, " ".join(f"{k}={'x'.join(v)}" for k, v in fields.items()))
    after, _ = split(module)
    values = random_values(kind, sizes, data.draw(st.integers(0, 99)))
    np.testing.assert_array_equal(evaluate(after, [values])[0], evaluate(module, [values])[0])


def test_pooling_natively() -> None:
    module = module_of("maximum", "f32", [2, 30, 30, 8], "size=1x7x7x1 stride=1x2x2x1 pad=0_0x3_3x3_3x0_0")
    assert windows(split(module)[0]) == [7, 7]
    values = random_values("f32", [2, 30, 30, 8], 1)
    np.testing.assert_array_equal(compile_module(module)(values)[0], evaluate(module, [values])[0])
