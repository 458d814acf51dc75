"""What the fusion pass takes into a kernel, what it computes again, and what it leaves alone."""

from __future__ import annotations

import pytest

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate
from hlotool.harness.compare import compare_all
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.passes.fusion import fusible_computations
from hlotool.text.parser import parse

ARGMAX = """
HloModule argmax
pick {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  left = pred[] compare(a, b), direction=GT
  v = f32[] select(left, a, b)
  n = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(v, n)
}
ENTRY e {
  x = f32[20,30] parameter(0)
  two = f32[] constant(2)
  twos = f32[20,30] broadcast(two), dimensions={}
  scaled = f32[20,30] multiply(x, twos)
  numbers = s32[20,30] iota(), iota_dimension=%d
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  r = (f32[%d], s32[%d]) reduce(scaled, numbers, low, zero), dimensions={%d}, to_apply=pick
  v = f32[%d] get-tuple-element(r), index=0
  n = s32[%d] get-tuple-element(r), index=1
  ROOT t = (s32[%d], f32[%d]) tuple(n, v)
}
"""

CENTRED = """
HloModule centred
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,32] parameter(0)
  mean = f32[32] parameter(1)
  zero = f32[] constant(0)
  means = f32[64,32] broadcast(mean), dimensions={1}
  centred = f32[64,32] %s(x, means)
  squares = f32[64,32] multiply(centred, centred)
  variance = f32[32] reduce(squares, zero), dimensions={0}, to_apply=add
  wide = f32[64,32] broadcast(variance), dimensions={1}
  result = f32[64,32] %s
  ROOT t = (f32[64,32], f32[32]) tuple(result, variance)
}
"""


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


@pytest.mark.parametrize(("dimension", "kept"), [(0, 30), (1, 20)])
def test_what_a_reduce_with_several_results_reads_joins_it(dimension: int, kept: int) -> None:
    text = ARGMAX % (dimension, kept, kept, dimension, kept, kept, kept, kept)
    assert kernels(optimise(parse(text))) == [{"broadcast", "multiply", "iota", "reduce"}]
    agrees(text)


def test_cheap_arithmetic_on_one_array_is_done_again_by_each_reader() -> None:
    text = CENTRED % ("subtract", "divide(centred, wide)")
    found = kernels(optimise(parse(text)))
    assert len(found) == 2
    assert all("subtract" in kernel for kernel in found)
    agrees(text)


@pytest.mark.parametrize(
    ("opcode", "result"),
    [
        ("power", "divide(centred, wide)"),  # costly
        ("subtract", "cholesky-like"),  # read by what cannot take it in
    ],
)
def test_other_values_are_kept(opcode: str, result: str) -> None:
    if result == "cholesky-like":
        result = "dot(centred, square), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        text = (CENTRED % (opcode, result)).replace("zero =", "square = f32[32,32] parameter(2)\n  zero =")
    else:
        text = CENTRED % (opcode, result)
    found = kernels(optimise(parse(text)))
    assert sum(opcode in kernel for kernel in found) == 1


def test_two_arrays_are_read_once() -> None:
    text = """
HloModule two
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,32] parameter(0)
  y = f32[64,32] parameter(1)
  zero = f32[] constant(0)
  both = f32[64,32] add(x, y)
  total = f32[32] reduce(both, zero), dimensions={0}, to_apply=add
  wide = f32[64,32] broadcast(total), dimensions={1}
  ROOT result = f32[64,32] divide(both, wide)
}
"""
    found = kernels(optimise(parse(text)))
    assert sum("add" in kernel for kernel in found) == 1
    agrees(text)


def test_nothing_is_left_of_a_chain_that_all_readers_repeat() -> None:
    text = """
HloModule chain
ENTRY e {
  x = f32[100] parameter(0)
  a = f32[100] negate(x)
  b = f32[100] abs(a)
  c = f32[100] reverse(b), dimensions={0}
  d = f32[100] sqrt(b)
  ROOT t = (f32[100], f32[100]) tuple(c, d)
}
"""
    found = kernels(optimise(parse(text)))
    assert all("reverse" in kernel or "sqrt" in kernel for kernel in found)
    agrees(text)
