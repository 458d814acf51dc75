"""Chains whose readers read at several places: fusing all of a chain would multiply its work, and its code, by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hlotool.codegen.machine import default_machine
from hlotool.codegen.program import build
from hlotool.driver import LOWERING, compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.passes.fuse.fusion import fusible_computations
from hlotool.text.parser import parse


def kernels(module: Module) -> list[set[str]]:
    """The opcodes in each kernel that computes something."""
    free = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape"}
    found = []
    for computation in fusible_computations(module):
        for instruction in computation:
            body = instruction.attributes["calls"] if instruction.opcode == "fusion" else [instruction]
            opcodes = {i.opcode for i in body} - {"parameter", "tuple", "constant"}
            if instruction.opcode not in free:
                found.append(opcodes)
    return found


def agrees(text: str) -> None:
    module = parse(text)
    arguments = random_inputs(module, 1)
    got = compile_module(module)(*arguments)
    assert all(c.ok for c in compare_all(got, evaluate(module, arguments)))


_GATHER = "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"


def _gathers(steps: int) -> str:
    """Each step reads the one before it at gathered places and at its own, as a sorting network does."""
    lines = ["x0 = s32[64] parameter(0)", "n = s32[64] iota(), iota_dimension=0"]
    for step in range(steps):
        lines += [
            f"k{step} = s32[] constant({1 << step % 6})",
            f"b{step} = s32[64] broadcast(k{step}), dimensions={{}}",
            f"i{step} = s32[64] xor(n, b{step})",
            f"j{step} = s32[64,1] reshape(i{step})",
            f"g{step} = s32[64] gather(x{step}, j{step}), {_GATHER}",
            f"m{step} = s32[64] minimum(x{step}, g{step})",
            f"x{step + 1} = s32[64] subtract(m{step}, n)",
        ]
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\nROOT r = s32[64] negate(x{steps})\n}}\n"


def _rolls(steps: int) -> str:
    """Each step is a stencil of the one before it."""
    lines = ["x0 = f32[64] parameter(0)"]
    for step in range(steps):
        for name, first in (("l", 1), ("r", 63), ("f", 5), ("b", 59)):
            lines += [
                f"{name}a{step} = f32[{64 - first}] slice(x{step}), slice={{[{first}:64]}}",
                f"{name}b{step} = f32[{first}] slice(x{step}), slice={{[0:{first}]}}",
                f"{name}{step} = f32[64] concatenate({name}a{step}, {name}b{step}), dimensions={{0}}",
            ]
        lines += [
            f"s{step} = f32[64] add(l{step}, r{step})",
            f"t{step} = f32[64] multiply(f{step}, b{step})",
            f"u{step} = f32[64] subtract(s{step}, t{step})",
            f"x{step + 1} = f32[64] add(u{step}, x{step})",
        ]
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + f"\nROOT r = f32[64] negate(x{steps})\n}}\n"


@pytest.mark.parametrize(("chain", "opcode"), [(_gathers, "gather"), (_rolls, "concatenate")])
def test_a_chain_of_moves_is_a_chain_of_kernels(chain: Callable[[int], str], opcode: str) -> None:
    found = kernels(optimise(parse(chain(12))))
    assert sum(opcode in kernel for kernel in found) == 12
    agrees(chain(12))


def ladder(steps: int, rung: str) -> str:
    lines = ["v0 = f32[64] parameter(0)"]
    for k in range(1, steps):
        if rung == "concatenate":
            lines += [
                f"a{k} = f32[32] slice(v{k - 1}), slice={{[0:32]}}",
                f"b{k} = f32[32] slice(v{k - 1}), slice={{[32:64]}}",
                f"v{k} = f32[64] concatenate(b{k}, a{k}), dimensions={{0}}",
            ]
        elif rung == "pad":
            lines += [
                f"z{k} = f32[] constant({k})",
                f"a{k} = f32[60] slice(v{k - 1}), slice={{[0:60]}}",
                f"p{k} = f32[64] pad(a{k}, z{k}), padding=4_0",
                f"v{k} = f32[64] add(p{k}, v{k - 1})",
            ]
        else:
            lines += [
                f"r{k} = f32[64] reverse(v{k - 1}), dimensions={{0}}",
                f"v{k} = f32[64] add(r{k}, v{k - 1})",
            ]
    return "\n".join(["ENTRY e {", *lines, f"ROOT r = f32[64] negate(v{steps - 1})", "}"])


@pytest.mark.parametrize("rung", ["concatenate", "pad", "reverse"])
def test_ladders_do_not_grow_exponentially(rung: str) -> None:
    """Each rung reads the one below at two places: computing all in one loop would take 2**n."""
    sizes = []
    for steps in (10, 20):
        module = optimise(parse(ladder(steps, rung)), "fusion,dce")
        assert sum(len(c) for c in module.computations.values()) < 20 * steps
        sizes.append(sum(map(len, build(optimise(module, LOWERING), default_machine()).texts)))
    assert sizes[1] < 4 * sizes[0]
    agrees(ladder(10, rung))
