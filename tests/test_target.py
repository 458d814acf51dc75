"""Targets: what they cost decides what passes do, and their emitters make the kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hlotool.codegen.cpu.target import CPU, GENERIC
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine, default_machine, named
from hlotool.codegen.target import Target, target_of
from hlotool.driver import CompileOptions, native_backend
from hlotool.evaluate import evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Instruction, Module, UnsupportedError
from hlotool.passes import parse_pipeline
from hlotool.text.parser import parse

DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
STREAMS = f"""HloModule streams

ENTRY e {{
  a = f32[300,200] parameter(0)
  b = f32[200,256] parameter(1)
  p = f32[300,256] parameter(2)
  q = f32[300,256] parameter(3)
  d = f32[300,256] dot(a, b), {DIMS}
  s = f32[300,256] multiply(d, p)
  ROOT r = f32[300,256] add(s, q)
}}
"""
WEIGHTS = f"""HloModule weights

ENTRY e {{
  a = f32[140,70] parameter(0)
  w = f32[70,256] constant({{...}})
  ROOT d = f32[140,256] dot(a, w), {DIMS}
}}
"""
PLACES = """HloModule places

ENTRY e {
  x = f32[64] parameter(0)
  t = f32[64] sine(x)
  a = f32[63] slice(t), slice={[0:63]}
  b = f32[63] slice(t), slice={[1:64]}
  ROOT s = f32[63] subtract(a, b)
}
"""


def options(machine: Machine | None = None) -> CompileOptions:
    return CompileOptions(pipeline=parse_pipeline("default"), machine=machine or default_machine())


def lowered(module: Module, target: Target) -> str:
    code = native_backend(target).code
    assert code is not None
    return code(module, options(), "hlo")[0]


def filled(text: str) -> Module:
    rows = ", ".join("{" + ", ".join(str((7 * i + j) % 5) for j in range(256)) + "}" for i in range(70))
    return parse(text.replace("{...}", f"{{{rows}}}"))


@pytest.mark.parametrize(("text", "changes", "word"), [
    (STREAMS, {"streams": 2, "streamed_bytes": 1 << 10}, "kind=kOutput"),
    (WEIGHTS, {"rows_in_place": 140}, "f32[140,16,16]"),
    (PLACES, {"costly_places": 1}, "fusion(x)"),
])  # fmt: skip
def test_passes_go_by_the_costs_of_the_target(text: str, changes: dict[str, int], word: str) -> None:
    module = filled(text)
    other = replace(CPU, costs=replace(CPU.costs, **changes))
    usual, changed = lowered(module, CPU), lowered(module, other)
    assert (word in usual, word in changed) == (True, False)
    arrays = random_inputs(module, 1)
    wanted = evaluate(module, arrays)[0]
    for target in (CPU, other):
        found = native_backend(target).compile(module, options())(*arrays)[0]
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4 * float(np.abs(wanted).max()))


def test_kernels_are_those_of_the_targets_emitters() -> None:
    seen = []

    def emit(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        seen.append(instruction.opcode)
        return CPU.emitters["dot"](name, instruction, machine, in_place, there)

    def refuse(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        raise UnsupportedError(f"{instruction.name}: not here")

    module = filled(WEIGHTS)
    target = replace(CPU, name="other", emitters={**CPU.emitters, "dot": emit})
    (array,) = random_inputs(module, 0)
    found = native_backend(target).compile(module, options())(array)[0]
    np.testing.assert_array_equal(found, native_backend(CPU).compile(module, options())(array)[0])
    assert seen == ["dot"]
    with pytest.raises(UnsupportedError, match="not here"):
        native_backend(replace(target, emitters={**CPU.emitters, "dot": refuse})).compile(module, options())


def test_every_machine_has_a_target() -> None:
    for name in ("x86-64", "x86-64-v4", "aarch64", "host"):
        assert target_of(named(name)) is CPU
    for name in ("generic", "generic,triple=riscv64-unknown-linux-gnu", "generic,triple=wasm32-unknown-unknown"):
        assert target_of(named(name)) is GENERIC
    assert target_of(replace(named("aarch64"), triple="riscv64-unknown-linux-gnu")) is GENERIC
