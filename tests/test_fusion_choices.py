"""What the fusion pass takes into a kernel, what it computes again, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable

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


SIBLINGS = """
HloModule siblings
pick {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  above = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  more = pred[] or(above, nan)
  same = pred[] compare(a, b), direction=EQ
  ahead = pred[] compare(i, j), direction=LT
  first = pred[] and(same, ahead)
  left = pred[] or(more, first)
  v = f32[] select(left, a, b)
  n = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(v, n)
}
most { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[20,30] parameter(0)
  numbers = s32[20,30] iota(), iota_dimension=%d
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  r = (f32[%d], s32[%d]) reduce(x, numbers, low, zero), dimensions={%d}, to_apply=pick
  v = f32[%d] get-tuple-element(r), index=0
  n = s32[%d] get-tuple-element(r), index=1
  m = f32[%d] reduce(x, low), dimensions={%d}, to_apply=most
  s = f32[%d] reduce(x, none), dimensions={%d}, to_apply=add
  ROOT t = (f32[%d], s32[%d], f32[%d], f32[%d]) tuple(v, n, m, s)
}
"""


@pytest.mark.parametrize(("dimension", "kept"), [(0, 30), (1, 20)])
def test_an_argmax_shares_its_pass_with_other_reductions(dimension: int, kept: int) -> None:
    places = (dimension, kept, kept, dimension, kept, kept, kept, dimension, kept, dimension, kept, kept, kept, kept)
    text = SIBLINGS % places
    assert kernels(optimise(parse(text))) == [{"iota", "reduce", "get-tuple-element"}]
    agrees(text)


GATHERED = """
HloModule gathered
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  table = f32[%d,32] parameter(0)
  i = s32[%d,4,1] parameter(1)
  rows = f32[%d,4,32] gather(table, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=2, slice_sizes={1,32}
  zero = f32[] constant(0)
  %s
}
"""


def test_rows_of_a_table_are_added_where_they_lie() -> None:
    total = "ROOT r = f32[64,32] reduce(rows, zero), dimensions={1}, to_apply=add"
    text = GATHERED % (100, 64, 64, total)
    assert kernels(optimise(parse(text))) == [{"gather", "reduce"}]
    agrees(text)


def test_large_gathers_join_what_reads_them() -> None:
    joined = "ROOT r = f32[1000,4,64] concatenate(rows, rows), dimensions={2}"
    text = GATHERED % (100, 1000, 1000, joined)
    assert kernels(optimise(parse(text))) == [{"gather", "concatenate"}]
    agrees(text)


def test_a_mask_of_places_is_made_where_it_is_read() -> None:
    text = """
HloModule mask
ENTRY e {
  x = f32[4,16,16] parameter(0)
  r = s32[16,16] iota(), iota_dimension=0
  c = s32[16,16] iota(), iota_dimension=1
  lower = pred[16,16] compare(r, c), direction=GE
  all = pred[4,16,16] broadcast(lower), dimensions={1,2}
  zero = f32[] constant(0)
  zeros = f32[4,16,16] broadcast(zero), dimensions={}
  ROOT s = f32[4,16,16] select(all, x, zeros)
}
"""
    assert kernels(optimise(parse(text))) == [{"iota", "compare", "broadcast", "select"}]
    agrees(text)


def test_a_slice_with_nothing_to_compute_is_no_fusion() -> None:
    """As a slice of its own it can be a view."""
    text = """
HloModule part
ENTRY e {
  x = f32[6,16,16] parameter(0)
  v = f32[16] parameter(1)
  i = s32[] parameter(2)
  zero = s32[] constant(0)
  one = f32[1,16,16] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,16,16}
  matrix = f32[16,16] reshape(one)
  ROOT d = f32[16] dot(v, matrix), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""
    assert kernels(optimise(parse(text))) == [{"dynamic-slice"}, {"dot"}]
    agrees(text)


POOLING = """
HloModule pooling
most { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[%s] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[%s] broadcast(zero), dimensions={}
  positive = f32[%s] maximum(x, zeros)
  pooled = f32[%s] reduce-window(positive, zero), window={%s}, to_apply=%s
  quarter = f32[] constant(0.25)
  quarters = f32[%s] broadcast(quarter), dimensions={}
  ROOT r = f32[%s] multiply(pooled, quarters)
}
"""


@pytest.mark.parametrize("combiner", ["add", "most"])
@pytest.mark.parametrize(
    ("size", "result", "window", "alone"),
    [
        ("2,16,16,24", "2,8,8,24", "size=1x2x2x1 stride=1x2x2x1", False),
        ("2,5,17,17", "2,5,8,8", "size=1x1x2x2 stride=1x1x2x2", False),
        ("2,5,17,17", "2,5,5,5", "size=1x1x3x3 stride=1x1x3x3", False),
        ("3,19", "3,4", "size=1x3 stride=1x5", False),
        ("3,19", "3,3", "size=1x4 stride=1x5 pad=0_0x-3_-1", False),
        # overlapping, padded, large
        ("2,16,16,24", "2,7,7,24", "size=1x3x3x1 stride=1x2x2x1", True),
        ("2,16,16,24", "2,9,9,24", "size=1x2x2x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", True),
        ("2,100", "2,2", "size=1x50 stride=1x50", True),
    ],
)
def test_windows_that_do_not_overlap_join_what_they_read_and_what_reads_them(
    size: str, result: str, window: str, alone: bool, combiner: str
) -> None:
    text = POOLING % (size, size, size, result, window, combiner, result, result)
    found = kernels(optimise(parse(text)))
    if alone:
        assert {"reduce-window"} in found
    else:
        assert found == [{"broadcast", "maximum", "reduce-window", "multiply"}]
    agrees(text)


def test_least_values_and_their_places_are_one_epilogue_of_a_product() -> None:
    combiners = SIBLINGS[SIBLINGS.index("pick {") : SIBLINGS.index("ENTRY")]
    text = f"""
HloModule nearest
{combiners}
ENTRY e {{
  x = f32[64,8] parameter(0)
  y = f32[8,32] parameter(1)
  d = f32[64,32] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  numbers = s32[64,32] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  r = (f32[64], s32[64]) reduce(d, numbers, low, zero), dimensions={{1}}, to_apply=pick
  n = s32[64] get-tuple-element(r), index=1
  m = f32[64] reduce(d, low), dimensions={{1}}, to_apply=most
  ROOT t = (s32[64], f32[64]) tuple(n, m)
}}
"""
    assert kernels(optimise(parse(text))) == [{"dot", "iota", "reduce", "get-tuple-element"}]
    agrees(text)


def test_what_only_the_kernel_itself_reads_is_no_output() -> None:
    """Rounds of a random generator: every value has two readers, and two of all are wanted."""
    rounds = "\n".join(
        f"  a{k + 1} = u32[4096] add(a{k}, b{k})\n  b{k + 1} = u32[4096] xor(a{k + 1}, b{k})" for k in range(16)
    )
    text = f"""
HloModule rounds
ENTRY e {{
  a0 = u32[4096] parameter(0)
  b0 = u32[4096] parameter(1)
{rounds}
  ROOT t = (u32[4096], u32[4096]) tuple(a16, b16)
}}
"""
    assert kernels(optimise(parse(text))) == [{"add", "xor"}]


# ---- chains of readers that move elements: computed again at each place, their work would multiply along the chain

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


def test_readers_that_move_little_are_merged() -> None:
    """A transpose makes one other place, as cheap as what the fusion of the reader itself would allow."""
    text = (
        "HloModule m\nENTRY e {\nx = f32[32,32] parameter(0)\nz = f32[32,32] parameter(1)\n"
        "y = f32[32,32] add(x, z)\nt = f32[32,32] transpose(y), dimensions={1,0}\nw = f32[32,32] add(t, y)\n"
        "ROOT r = (f32[32,32], f32[32,32]) tuple(y, w)\n}\n"
    )
    assert len(kernels(optimise(parse(text)))) == 1
    agrees(text)
