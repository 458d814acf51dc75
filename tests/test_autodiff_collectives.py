"""Derivatives of collectives: the program on all devices, whose result is the sum of what each returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivatives import ADD, noise

import hlotool
from hlotool.ir import Module, UnsupportedError
from hlotool.passes.autodiff import gradient_module, jvp_module, vjp_module

DEVICES = 4
LARGEST = "largest {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT s = f64[] maximum(a, b)\n}\n"
PRODUCT = "product {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT s = f64[] multiply(a, b)\n}\n"
TWO = "replica_groups={{0,2},{3,1}}"
ALL = "replica_groups={{0,1,2,3}}"
CASES = {
    "all-reduce": f"x = f64[4,3] parameter(0)\nROOT y = f64[4,3] all-reduce(x), {TWO}, to_apply=add",
    "all-reduce of everybody": "x = f64[4,3] parameter(0)\nROOT y = f64[4,3] all-reduce(x), replica_groups={}, "
                               "to_apply=add",
    "all-reduce by maximum": f"x = f64[4,3] parameter(0)\nROOT y = f64[4,3] all-reduce(x), {ALL}, to_apply=largest",
    "all-reduce of two": f"x = f64[4,3] parameter(0)\nz = f64[4,3] sine(x)\nr = (f64[4,3], f64[4,3]) all-reduce(x, z), "
                         f"{TWO}, to_apply=add\na = f64[4,3] get-tuple-element(r), index=0\n"
                         "b = f64[4,3] get-tuple-element(r), index=1\nROOT y = f64[4,3] multiply(a, b)",
    "reduce-scatter": f"x = f64[4,3] parameter(0)\nROOT y = f64[2,3] reduce-scatter(x), {TWO}, dimensions={{0}}, "
                      "to_apply=add",
    "all-gather": f"x = f64[4,3] parameter(0)\nROOT y = f64[4,6] all-gather(x), {TWO}, dimensions={{1}}",
    "all-to-all": f"x = f64[4,3] parameter(0)\nROOT y = f64[4,3] all-to-all(x), {ALL}, dimensions={{0}}",
    "all-to-all of parts": f"x = f64[4,3] parameter(0)\nz = f64[4,3] sine(x)\nr = (f64[4,3], f64[4,3]) "
                           f"all-to-all(x, z), {TWO}\nROOT y = f64[4,3] get-tuple-element(r), index=1",
    "collective-permute": "x = f64[4,3] parameter(0)\nROOT y = f64[4,3] collective-permute(x), "
                          "source_target_pairs={{0,1},{1,3},{2,0}}",
    "collective-broadcast": f"x = f64[4,3] parameter(0)\nROOT y = f64[4,3] collective-broadcast(x), {TWO}",
}  # fmt: skip


def module_of(body: str) -> Module:
    text = f"HloModule m, replica_count={DEVICES}\n{ADD}\n{LARGEST}\n{PRODUCT}\nENTRY main {{\n{body}\n}}\n"
    return hlotool.parse(text)


def on_all(module: Module, rows: list[list[Any]]) -> list[list[Any]]:
    hlotool.verify(module)
    return hlotool.compile(module, backend="evaluate").run_devices(rows)


@pytest.mark.parametrize("name", CASES)
def test_both_modes(name: str) -> None:
    """Forward mode against differences in a direction of its own on each device; reverse mode against forward mode."""
    module = module_of(CASES[name])
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((4, 3)) for _ in range(DEVICES)]
    moved = [noise(rng, one) for one in given]
    ahead, behind = (
        [row[0] for row in on_all(module, [[x + h * t] for x, t in zip(given, moved, strict=True)])]
        for h in (1e-6, -1e-6)
    )
    slopes = [row[1] for row in on_all(jvp_module(module), [[x, t] for x, t in zip(given, moved, strict=True)])]
    for slope, one, other in zip(slopes, ahead, behind, strict=True):
        np.testing.assert_allclose(slope, (one - other) / 2e-6, rtol=1e-6, atol=1e-6)
    cotangents = [noise(rng, slope) for slope in slopes]
    back = on_all(vjp_module(module), [[x, c] for x, c in zip(given, cotangents, strict=True)])
    left = sum(np.sum(c * s) for c, s in zip(cotangents, slopes, strict=True))
    right = sum(np.sum(row[0] * t) for row, t in zip(back, moved, strict=True))
    assert left == pytest.approx(right, rel=1e-9)


def test_what_is_refused() -> None:
    module = module_of(
        f"x = f64[] parameter(0)\nROOT y = f64[] all-reduce(x), {ALL}, to_apply=product"
    )
    with pytest.raises(UnsupportedError, match="no sum and no extreme"):
        gradient_module(module)
