"""The rules of derivatives: every opcode that has some, against central differences in f64."""

from __future__ import annotations

import numpy as np
import pytest
from derivatives import ADD, check, module_of, noise, run

from hlotool.ir import UnsupportedError, dtype_of
from hlotool.ir.opcodes import SPELLED, UNKNOWN
from hlotool.passes.autodiff import gradient_module, jvp_module, vjp_module
from hlotool.passes.autodiff.elementwise import BINARY, UNARY
from hlotool.passes.autodiff.table import REFUSED, REWRITTEN, RULES, ZERO

DOMAINS = {
    "log": (0.2, 3), "log-plus-one": (-0.5, 3), "sqrt": (0.2, 3), "rsqrt": (0.2, 3), "cbrt": (0.3, 3),
    "asin": (-0.8, 0.8), "acos": (-0.8, 0.8), "acosh": (1.2, 3), "atanh": (-0.8, 0.8), "tan": (-1, 1),
}  # fmt: skip
SHAPES = [(), (3,), (2, 3), (0, 4), (1, 1, 2)]


def values(shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape)


def text(shape: tuple[int, ...], element_type: str = "f64") -> str:
    return f"{element_type}[{','.join(map(str, shape))}]"


def test_every_opcode_is_accounted_for() -> None:
    """Each is differentiated, is constant, is rewritten first, or is refused with a reason."""
    for opcode in [*SPELLED, UNKNOWN]:
        rewritten = opcode in REWRITTEN
        assert rewritten == (opcode in REFUSED and opcode in REWRITTEN)
        assert (opcode in RULES) + (opcode in ZERO) + (opcode in REFUSED) == 1, opcode
    assert set(RULES) | ZERO | set(REFUSED) <= set(SPELLED) | {UNKNOWN}
    assert all(REFUSED.values())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("opcode", UNARY)
def test_unary(opcode: str, shape: tuple[int, ...]) -> None:
    t = text(shape)
    check(module_of(f"x = {t} parameter(0)\nROOT y = {t} {opcode}(x)"), [values(shape, *DOMAINS.get(opcode, (-2, 2)))])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("opcode", BINARY)
def test_binary(opcode: str, shape: tuple[int, ...]) -> None:
    t = text(shape)
    low = 0.3 if opcode in ("power", "divide") else -2.0
    module = module_of(f"x = {t} parameter(0)\ny = {t} parameter(1)\nROOT z = {t} {opcode}(x, y)")
    check(module, [values(shape, low), values(shape, 0.3, seed=1)])


COMPLEX = [
    "negate", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "sqrt", "rsqrt", "sine",
    "cosine", "tan", "sinh", "cosh", "tanh", "asin", "acos", "asinh", "acosh", "atanh",
]  # fmt: skip


@pytest.mark.parametrize("opcode", COMPLEX)
def test_unary_of_complex_numbers(opcode: str) -> None:
    z = values((3,), 0.3, 0.9) + 1j * values((3,), 0.2, 0.9, seed=1)
    check(module_of(f"x = c128[3] parameter(0)\nROOT y = c128[3] {opcode}(x)"), [z])


@pytest.mark.parametrize("opcode", ["add", "subtract", "multiply", "divide", "power"])
def test_binary_of_complex_numbers(opcode: str) -> None:
    z = values((3,), 0.3, 0.9) + 1j * values((3,), 0.2, 0.9, seed=1)
    body = f"x = c128[3] parameter(0)\ny = c128[3] parameter(1)\nROOT z = c128[3] {opcode}(x, y)"
    check(module_of(body), [z, z[::-1].copy()])


REDUCERS = ADD + "".join(
    f"\n{name} {{\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT s = f64[] {name}(a, b)\n}}\n"
    for name in ("multiply", "maximum", "minimum")
) + """
mixed {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  p = f64[] exponential(a)
  q = f64[] exponential(b)
  s = f64[] add(p, q)
  ROOT r = f64[] log(s)
}

largest {
  a = f64[] parameter(0)
  i = s32[] parameter(1)
  b = f64[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=GE
  m = f64[] select(p, a, b)
  n = s32[] select(p, i, j)
  ROOT r = (f64[], s32[]) tuple(m, n)
}

less {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

greater_pair {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}

ge {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}

second {
  a = f64[] parameter(0)
  ROOT b = f64[] parameter(1)
}

cube {
  a = f64[] parameter(0)
  b = f64[] multiply(a, a)
  ROOT c = f64[] multiply(a, b)
}

wave {
  a = f64[3] parameter(0)
  b = f64[3] sine(a)
  ROOT c = (f64[3], f64[3]) tuple(b, a)
}

line {
  a = (f64[3], f64[]) parameter(0)
  x = f64[3] get-tuple-element(a), index=0
  s = f64[] get-tuple-element(a), index=1
  m = f64[3] broadcast(s), dimensions={}
  e = f64[3] exponential(m)
  n = f64[3] multiply(x, e)
  o = f64[3] tanh(n)
  ROOT c = (f64[3], f64[3]) tuple(o, n)
}

fused {
  a = f64[3] parameter(0)
  b = f64[3] exponential(a)
  ROOT c = f64[3] multiply(a, b)
}

step {
  s = (s32[], f64[3], f64[3,3], f64[4,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f64[3] get-tuple-element(s), index=1
  w = f64[3,3] get-tuple-element(s), index=2
  x = f64[4,3] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  row = f64[1,3] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,3}
  own = f64[3] reshape(row)
  d = f64[3] dot(h, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  a = f64[3] add(d, own)
  t = f64[3] tanh(a)
  u = f64[3] multiply(t, own)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f64[3], f64[3,3], f64[4,3]) tuple(n, u, w, x)
}

before {
  s = (s32[], f64[3], f64[3,3], f64[4,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  four = s32[] constant(4)
  ROOT c = pred[] compare(i, four), direction=LT
}

outer {
  s = (s32[], f64[3], f64[3,3], f64[4,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f64[3] get-tuple-element(s), index=1
  w = f64[3,3] get-tuple-element(s), index=2
  x = f64[4,3] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  q = f64[3] sine(h)
  t = (s32[], f64[3], f64[3,3], f64[4,3]) tuple(zero, q, w, x)
  l = (s32[], f64[3], f64[3,3], f64[4,3]) while(t), condition=before, body=step
  g = f64[3] get-tuple-element(l), index=1
  two = s32[] constant(2)
  n = s32[] add(i, two)
  ROOT r = (s32[], f64[3], f64[3,3], f64[4,3]) tuple(n, g, w, x)
}

halve {
  s = (f64[], f64[]) parameter(0)
  a = f64[] get-tuple-element(s), index=0
  b = f64[] get-tuple-element(s), index=1
  c = f64[] multiply(a, b)
  ROOT r = (f64[], f64[]) tuple(c, b)
}

large {
  s = (f64[], f64[]) parameter(0)
  a = f64[] get-tuple-element(s), index=0
  one = f64[] constant(1)
  ROOT c = pred[] compare(a, one), direction=GT
}
"""  # fmt: skip

LOOP = """
h = f64[3] parameter(0)
w = f64[3,3] parameter(1)
x = f64[4,3] parameter(2)
zero = s32[] constant(0)
t = (s32[], f64[3], f64[3,3], f64[4,3]) tuple(zero, h, w, x)
l = (s32[], f64[3], f64[3,3], f64[4,3]) while(t), condition=before, body=BODY
ROOT r = f64[3] get-tuple-element(l), index=1
"""

LOOP_SHAPES = [(3,), (3, 3), (4, 3)]
HALVE = """
a = f64[] parameter(0)
b = f64[] parameter(1)
t = (f64[], f64[]) tuple(a, b)
l = (f64[], f64[]) while(t), condition=large, body=halve
ROOT r = f64[] get-tuple-element(l), index=0
"""

CASES: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "select": ("x = f64[3] parameter(0)\ny = f64[3] parameter(1)\nc = pred[3] constant({1,0,1})\n"
               "ROOT z = f64[3] select(c, x, y)", [(3,), (3,)]),
    "select by a scalar": ("x = f64[3] parameter(0)\ny = f64[3] parameter(1)\nc = pred[] constant(true)\n"
                           "ROOT z = f64[3] select(c, x, y)", [(3,), (3,)]),
    "clamp": ("l = f64[9] parameter(0)\nx = f64[9] parameter(1)\nh = f64[9] parameter(2)\n"
              "ROOT z = f64[9] clamp(l, x, h)", [(9,), (9,), (9,)]),
    "clamp to scalars": ("l = f64[] constant(-0.5)\nx = f64[9] parameter(0)\nh = f64[] parameter(1)\n"
                         "ROOT z = f64[9] clamp(l, x, h)", [(9,), ()]),
    "reduce-precision": ("x = f64[3] parameter(0)\nROOT y = f64[3] reduce-precision(x), exponent_bits=11, "
                         "mantissa_bits=52", [(3,)]),
    "complex": ("x = f64[3] parameter(0)\ny = f64[3] parameter(1)\nROOT z = c128[3] complex(x, y)", [(3,), (3,)]),
    "real and imag": ("x = f64[3] parameter(0)\ny = f64[3] parameter(1)\nz = c128[3] complex(x, y)\n"
                      "e = c128[3] exponential(z)\nr = f64[3] real(e)\ni = f64[3] imag(e)\na = f64[3] abs(e)\n"
                      "p = f64[3] multiply(r, i)\nROOT q = f64[3] multiply(p, a)", [(3,), (3,)]),
    "broadcast": ("x = f64[2] parameter(0)\nROOT y = f64[3,2,4] broadcast(x), dimensions={1}", [(2,)]),
    "broadcast in another order": ("x = f64[2,3] parameter(0)\nROOT y = f64[3,2,4] broadcast(x), dimensions={1,0}",
                                   [(2, 3)]),
    "broadcast of one element": ("x = f64[1] parameter(0)\nROOT y = f64[3,1] broadcast(x), dimensions={1}", [(1,)]),
    "broadcast to nothing": ("x = f64[2] parameter(0)\nROOT y = f64[0,2] broadcast(x), dimensions={1}", [(2,)]),
    "reshape": ("x = f64[2,3] parameter(0)\nROOT y = f64[6] reshape(x)", [(2, 3)]),
    "bitcast": ("x = f64[2,3]{1,0} parameter(0)\nROOT y = f64[6]{0} bitcast(x)", [(2, 3)]),
    "transpose": ("x = f64[2,3,4] parameter(0)\nROOT y = f64[4,2,3] transpose(x), dimensions={2,0,1}", [(2, 3, 4)]),
    "reverse": ("x = f64[2,3] parameter(0)\nROOT y = f64[2,3] reverse(x), dimensions={1}", [(2, 3)]),
    "concatenate": ("x = f64[2,3] parameter(0)\ny = f64[1,3] parameter(1)\nz = f64[0,3] parameter(2)\n"
                    "ROOT c = f64[5,3] concatenate(x, y, z, x), dimensions={0}", [(2, 3), (1, 3), (0, 3)]),
    "slice": ("x = f64[7,3] parameter(0)\nROOT y = f64[3,1] slice(x), slice={[1:6:2], [1:2]}", [(7, 3)]),
    "slice of nothing": ("x = f64[7] parameter(0)\nROOT y = f64[0] slice(x), slice={[3:3]}", [(7,)]),
    "pad": ("x = f64[4,3] parameter(0)\nv = f64[] parameter(1)\nROOT y = f64[9,2] pad(x, v), padding=-1_3_1x0_-1",
            [(4, 3), ()]),
    "pad of nothing": ("x = f64[0,3] parameter(0)\nv = f64[] parameter(1)\n"
                       "ROOT y = f64[2,3] pad(x, v), padding=1_1x0_0",
                       [(0, 3), ()]),
    "dynamic-slice": ("x = f64[5,3] parameter(0)\ni = s32[] constant(4)\nj = s32[] constant(1)\n"
                      "ROOT y = f64[2,2] dynamic-slice(x, i, j), dynamic_slice_sizes={2,2}", [(5, 3)]),
    "dynamic-update-slice": ("x = f64[5,3] parameter(0)\nu = f64[2,2] parameter(1)\ni = s32[] constant(4)\n"
                             "j = s32[] constant(1)\nROOT y = f64[5,3] dynamic-update-slice(x, u, i, j)",
                             [(5, 3), (2, 2)]),
    "copy": ("x = f64[2] parameter(0)\nROOT y = f64[2] copy(x)", [(2,)]),
    "tuples": ("x = f64[2] parameter(0)\nt = (f64[2], f64[2]) tuple(x, x)\nb = (f64[2], f64[2]) opt-barrier(t)\n"
               "y = f64[2] get-tuple-element(b), index=0\nz = f64[2] get-tuple-element(b), index=1\n"
               "ROOT p = f64[2] multiply(y, z)", [(2,)]),
    "reduce": ("x = f64[3,4,2] parameter(0)\ns = f64[] parameter(1)\n"
               "ROOT y = f64[4] reduce(x, s), dimensions={0,2}, to_apply=add", [(3, 4, 2), ()]),
    "reduce over no dimension": ("x = f64[3] parameter(0)\ns = f64[] parameter(1)\n"
                                 "ROOT y = f64[3] reduce(x, s), dimensions={}, to_apply=add", [(3,), ()]),
    "reduce of nothing": ("x = f64[0,2] parameter(0)\ns = f64[] parameter(1)\n"
                          "ROOT y = f64[2] reduce(x, s), dimensions={0}, to_apply=mixed", [(0, 2), ()]),
    "reduce by maximum": ("x = f64[3,4] parameter(0)\ns = f64[] constant(-inf)\n"
                          "ROOT y = f64[3] reduce(x, s), dimensions={1}, to_apply=maximum", [(3, 4)]),
    "reduce by minimum, and a start": ("x = f64[3,5] parameter(0)\ns = f64[] parameter(1)\n"
                                       "ROOT y = f64[3] reduce(x, s), dimensions={1}, to_apply=minimum", [(3, 5), ()]),
    "reduce by product": ("x = f64[3,7] parameter(0)\ns = f64[] parameter(1)\n"
                          "ROOT y = f64[3] reduce(x, s), dimensions={1}, to_apply=multiply", [(3, 7), ()]),
    "reduce by logarithms of sums": ("x = f64[3,5,2] parameter(0)\ns = f64[] parameter(1)\n"
                                     "ROOT y = f64[5] reduce(x, s), dimensions={0,2}, to_apply=mixed",
                                     [(3, 5, 2), ()]),
    "reduce to the place of the largest": (
        "x = f64[3,5] parameter(0)\ni = s32[3,5] iota(), iota_dimension=1\ns = f64[] constant(-inf)\n"
        "z = s32[] constant(0)\nr = (f64[3], s32[3]) reduce(x, i, s, z), dimensions={1}, to_apply=largest\n"
        "ROOT y = f64[3] get-tuple-element(r), index=0", [(3, 5)]),
    "reduce-window": ("x = f64[7,3] parameter(0)\ns = f64[] parameter(1)\nROOT y = f64[5,2] reduce-window(x, s), "
                      "window={size=3x2 stride=2x1 pad=1_2x0_1 lhs_dilate=2x1 rhs_dilate=2x2}, to_apply=add".replace(
                          "f64[5,2]", "f64[6,2]"), [(7, 3), ()]),
    "reduce-window by maximum": ("x = f64[7,4] parameter(0)\ns = f64[] constant(-inf)\nROOT y = f64[4,3] "
                                 "reduce-window(x, s), window={size=3x2 stride=2x1 pad=1_1x0_0}, to_apply=maximum",
                                 [(7, 4)]),
    "reduce-window by dilated minimum": ("x = f64[7] parameter(0)\ns = f64[] constant(inf)\nROOT y = f64[5] "
                                         "reduce-window(x, s), window={size=2 rhs_dilate=2}, to_apply=minimum", [(7,)]),
    "reduce-window by product": ("x = f64[7] parameter(0)\ns = f64[] parameter(1)\nROOT y = f64[4] "
                                 "reduce-window(x, s), window={size=3 stride=2 pad=1_1}, to_apply=multiply",
                                 [(7,), ()]),
    "select-and-scatter": ("x = f64[6,4] constant({{1,5,2,3},{4,9,8,7},{6,0,12,11},{10,14,13,15},{20,18,17,16},"
                           "{19,21,23,22}})\ng = f64[3,3] parameter(0)\ns = f64[] parameter(1)\nROOT y = f64[6,4] "
                           "select-and-scatter(x, g, s), window={size=3x2 stride=2x1 pad=0_1x0_0}, select=ge, "
                           "scatter=add", [(3, 3), ()]),
    "map": ("x = f64[3] parameter(0)\nROOT y = f64[3] map(x), dimensions={0}, to_apply=cube", [(3,)]),
    "dot": ("a = f64[3,4] parameter(0)\nb = f64[4,5] parameter(1)\n"
            "ROOT d = f64[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", [(3, 4), (4, 5)]),
    "dot of vectors": ("a = f64[4] parameter(0)\nb = f64[4] parameter(1)\n"
                       "ROOT d = f64[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", [(4,), (4,)]),
    "dot without a sum": ("a = f64[2] parameter(0)\nb = f64[3] parameter(1)\nROOT d = f64[2,3] dot(a, b)",
                          [(2,), (3,)]),
    "dot of nothing": ("a = f64[3,0] parameter(0)\nb = f64[0,5] parameter(1)\n"
                       "ROOT d = f64[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                       [(3, 0), (0, 5)]),
    "dot of everything": ("a = f64[6,2,3,4,5] parameter(0)\nb = f64[4,7,2,6,5] parameter(1)\nROOT d = f64[2,5,3,7] "
                          "dot(a, b), lhs_batch_dims={1,4}, rhs_batch_dims={2,4}, lhs_contracting_dims={0,3}, "
                          "rhs_contracting_dims={3,0}", [(6, 2, 3, 4, 5), (4, 7, 2, 6, 5)]),
    "convolution": ("x = f64[2,7,6,3] parameter(0)\nk = f64[3,2,3,4] parameter(1)\nROOT c = f64[2,4,6,4] "
                    "convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x0_1}, dim_labels=b01f_01io->b01f",
                    [(2, 7, 6, 3), (3, 2, 3, 4)]),
    "convolution with holes": ("x = f64[2,3,5] parameter(0)\nk = f64[4,3,3] parameter(1)\nROOT c = f64[2,4,4] "
                               "convolution(x, k), window={size=3 stride=2 pad=2_1 lhs_dilate=2 rhs_dilate=2 "
                               "rhs_reversal=1}, dim_labels=bf0_oi0->bf0", [(2, 3, 5), (4, 3, 3)]),
    "convolution with negative padding": ("x = f64[2,3,9] parameter(0)\nk = f64[4,3,3] parameter(1)\n"
                                          "ROOT c = f64[2,4,4] convolution(x, k), window={size=3 pad=-2_-1}, "
                                          "dim_labels=bf0_oi0->bf0", [(2, 3, 9), (4, 3, 3)]),
    "convolution of groups of features": ("x = f64[2,5,6] parameter(0)\nk = f64[3,2,9] parameter(1)\nROOT c = "
                                          "f64[2,3,9] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f, "
                                          "feature_group_count=3", [(2, 5, 6), (3, 2, 9)]),
    "convolution of groups of batches": ("x = f64[4,5,3] parameter(0)\nk = f64[3,3,6] parameter(1)\nROOT c = "
                                         "f64[2,3,6] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f, "
                                         "batch_group_count=2", [(4, 5, 3), (3, 3, 6)]),
    "gather": ("x = f64[5,3] parameter(0)\ni = s32[4,1] constant({{1},{7},{1},{-2}})\nROOT y = f64[4,3] gather(x, i), "
               "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
               [(5, 3)]),
    "gather of windows": ("x = f64[5,6] parameter(0)\ni = u8[2,3] constant({{1,4,200},{0,2,3}})\nROOT y = f64[2,3,3] "
                          "gather(x, i), offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1,0}, "
                          "index_vector_dim=0, slice_sizes={2,3}", [(5, 6)]),
    "gather in batches": ("x = f64[3,5] parameter(0)\ni = s32[3,2] constant({{1,2},{4,4},{0,9}})\nROOT y = f64[3,2] "
                          "gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
                          "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
                          "slice_sizes={1,1}", [(3, 5)]),
    **{
        f"scatter by {name}": (
            "x = f64[5,3] parameter(0)\ni = s32[4,1] constant({{1},{7},{1},{3}})\nu = f64[4,3] parameter(1)\n"
            "ROOT y = f64[5,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
            f"scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={name}", [(5, 3), (4, 3)])
        for name in ("add", "second", "maximum", "minimum")
    },
    **{
        f"scatter once by {name}": (
            "x = f64[5,3] parameter(0)\ni = s32[3,1] constant({{4},{7},{1}})\nu = f64[3,3] parameter(1)\n"
            "ROOT y = f64[5,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
            f"scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, unique_indices=true, to_apply={name}",
            [(5, 3), (3, 3)])
        for name in ("multiply", "second")
    },
    "sort": ("x = f64[3,5] parameter(0)\nROOT y = f64[3,5] sort(x), dimensions={1}, to_apply=less", [(3, 5)]),
    "sort of pairs": ("x = f64[5,2] parameter(0)\ny = f64[5,2] parameter(1)\ns = (f64[5,2], f64[5,2]) sort(x, y), "
                      "dimensions={0}, is_stable=true, to_apply=greater_pair\na = f64[5,2] get-tuple-element(s), "
                      "index=0\nb = f64[5,2] get-tuple-element(s), index=1\ne = f64[5,2] sine(a)\n"
                      "ROOT m = f64[5,2] multiply(e, b)", [(5, 2), (5, 2)]),
    "topk": ("x = f64[3,7] parameter(0)\nt = (f64[3,2], s32[3,2]) topk(x), k=2, largest=true\n"
             "ROOT v = f64[3,2] get-tuple-element(t), index=0", [(3, 7)]),
    "cholesky": ("x = f64[2,3,3] parameter(0)\nt = f64[2,3,3] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                 "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
                 "e = f64[3,3] constant({{3,0,0},{0,3,0},{0,0,3}})\nf = f64[2,3,3] broadcast(e), dimensions={1,2}\n"
                 "s = f64[2,3,3] add(t, f)\nROOT y = f64[2,3,3] cholesky(s), lower=true", [(2, 3, 3)]),
    "cholesky, upper": ("x = f64[3,3] parameter(0)\nt = f64[3,3] dot(x, x), lhs_contracting_dims={0}, "
                        "rhs_contracting_dims={0}\ne = f64[3,3] constant({{3,0,0},{0,3,0},{0,0,3}})\n"
                        "s = f64[3,3] add(t, e)\nROOT y = f64[3,3] cholesky(s), lower=false", [(3, 3)]),
    **{
        f"triangular-solve {left} {lower} {form} {unit}": (
            "a = f64[2,3,3] parameter(0)\ne = f64[3,3] constant({{4,0,0},{0,4,0},{0,0,4}})\n"
            "f = f64[2,3,3] broadcast(e), dimensions={1,2}\ns = f64[2,3,3] add(a, f)\n"
            f"b = {size} parameter(1)\nROOT y = {size} triangular-solve(s, b), left_side={left}, "
            f"lower={lower}, transpose_a={form}, unit_diagonal={unit}",
            [(2, 3, 3), (2, 3, 4) if left == "true" else (2, 4, 3)])
        for left, size in (("true", "f64[2,3,4]"), ("false", "f64[2,4,3]"))
        for lower in ("true", "false")
        for form in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
        for unit in ("true", "false")
    },
    "fft": ("x = f64[2,5] parameter(0)\ny = f64[2,5] parameter(1)\nz = c128[2,5] complex(x, y)\n"
            "f = c128[2,5] fft(z), fft_type=FFT, fft_length={5}\nROOT i = c128[2,5] fft(f), fft_type=IFFT, "
            "fft_length={2,5}", [(2, 5), (2, 5)]),
    **{
        f"rfft of {n}": (
            f"x = f64[2,4,{n}] parameter(0)\nf = c128[2,4,{n // 2 + 1}] fft(x), fft_type=RFFT, fft_length={{4,{n}}}\n"
            f"s = c128[2,4,{n // 2 + 1}] multiply(f, f)\n"
            f"ROOT y = f64[2,4,{n}] fft(s), fft_type=IRFFT, fft_length={{4,{n}}}", [(2, 4, n)])
        for n in (5, 6)
    },
    "batch-norm-training": ("x = f64[4,3] parameter(0)\ns = f64[3] parameter(1)\no = f64[3] parameter(2)\n"
                            "ROOT b = (f64[4,3], f64[3], f64[3]) batch-norm-training(x, s, o), epsilon=0.001, "
                            "feature_index=1", [(4, 3), (3,), (3,)]),
    "call": ("x = f64[3] parameter(0)\nc = (f64[3], f64[3]) call(x), to_apply=wave\na = f64[3] get-tuple-element(c), "
             "index=0\nb = f64[3] get-tuple-element(c), index=1\nROOT y = f64[3] multiply(a, b)", [(3,)]),
    "call to compute again": ("x = f64[3] parameter(0)\nc = (f64[3], f64[3]) call(x), to_apply=wave, "
                              'frontend_attributes={checkpoint="true"}\na = f64[3] get-tuple-element(c), '
                              "index=0\nb = f64[3] get-tuple-element(c), index=1\nROOT y = f64[3] multiply(a, b)",
                              [(3,)]),
    "fusion": ("x = f64[3] parameter(0)\nROOT y = f64[3] fusion(x), kind=kLoop, calls=fused", [(3,)]),
    **{
        f"conditional {branch}": (
            f"p = pred[] constant({branch})\nx = f64[3] parameter(0)\ns = f64[] parameter(1)\n"
            "t = (f64[3], f64[]) tuple(x, s)\nc = (f64[3], f64[3]) conditional(p, x, t), true_computation=wave, "
            "false_computation=line\na = f64[3] get-tuple-element(c), index=0\nb = f64[3] get-tuple-element(c), index=1"
            "\nROOT y = f64[3] multiply(a, b)", [(3,), ()])
        for branch in ("true", "false")
    },
    "while": (LOOP.replace("BODY", "step"), LOOP_SHAPES),
    "while in while": (LOOP.replace("BODY", "outer"), LOOP_SHAPES),
}  # fmt: skip


def inputs(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [values(shape, -1.0, 1.0, seed=number + 3) for number, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", CASES)
def test_opcode(name: str) -> None:
    body, shapes = CASES[name]
    check(module_of(body, REDUCERS), inputs(shapes))


SECOND = [
    name for name in CASES
    if name not in ("reduce-window by product",) and not name.startswith(("triangular-solve", "scatter by m"))
]  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_derivative_of_the_gradient(name: str) -> None:
    """The gradient modules are programs, too: what they compute is differentiated once more, in both modes."""
    body, shapes = CASES[name]
    module = module_of(body, REDUCERS)
    arrays = inputs(shapes)
    rng = np.random.default_rng(5)
    cotangents = [noise(rng, one) for one in run(module, arrays)]
    check(vjp_module(module, range(len(shapes))), [*arrays, *cotangents], range(len(shapes)), bound=1e-5)


@pytest.mark.parametrize("opcode", [*UNARY, *BINARY])
def test_second_derivative(opcode: str) -> None:
    names = ["x"] if opcode in UNARY else ["x", "y"]
    given = "\n".join(f"{name} = f64[3] parameter({number})" for number, name in enumerate(names))
    module = module_of(f"{given}\nROOT z = f64[3] {opcode}({', '.join(names)})")
    low, high = DOMAINS.get(opcode, (0.3, 2.0))
    arrays = [values((3,), max(low, 0.1), high, seed=n) for n in range(len(names))]
    wrt = range(len(names))
    check(vjp_module(module, wrt), [*arrays, values((3,), seed=9)], [*wrt, len(names)], bound=1e-5)


def test_a_loop_without_a_bound_runs_forwards_only() -> None:
    module = module_of(HALVE, REDUCERS)
    (_, slope) = run(jvp_module(module, (0, 1)), [np.array(number) for number in (8.0, 0.4, 1.0, 0.5)])
    ahead, behind = (run(module, [np.array(8.0 + h), np.array(0.4 + 0.5 * h)])[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-6)
    with pytest.raises(UnsupportedError, match=r"no derivative of while l: how often"):
        gradient_module(module, (0,))


def test_powers_of_zero() -> None:
    """x^0 is 1 everywhere, and 0^y is 0 for all positive y."""
    module = module_of("x = f64[4] parameter(0)\ny = f64[4] parameter(1)\nROOT z = f64[4] power(x, y)")
    by_x, by_y = run(vjp_module(module, (0, 1)), [np.zeros(4), np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4)])
    np.testing.assert_array_equal(by_x, [0, 1, 0, 0])
    np.testing.assert_array_equal(by_y, [0, 0, 0, 0])


@pytest.mark.parametrize("element_type", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("opcode", [*UNARY, *BINARY])
def test_narrower_types(opcode: str, element_type: str) -> None:
    """Gradients in other types are those of f64 but for rounding."""
    names = ["x"] if opcode in UNARY else ["x", "y"]
    low, high = DOMAINS.get(opcode, (0.5, 2.0))
    found = []
    for name in ("f64", element_type):
        given = "\n".join(f"{one} = {name}[8] parameter({number})" for number, one in enumerate(names))
        module = module_of(f"{given}\nROOT z = {name}[8] {opcode}({', '.join(names)})")
        dtype = dtype_of(name)
        narrow = dtype_of(element_type)
        arrays = [values((8,), max(low, 0.2), high, seed=n).astype(narrow).astype(dtype) for n in range(len(names))]
        found.append(run(vjp_module(module, range(len(names))), [*arrays, np.ones(8, dtype)]))
    bound = {"f32": 1e-5, "bf16": 0.1, "f16": 0.02}[element_type]
    for wide, narrow in zip(*found, strict=True):
        assert narrow.dtype == dtype_of(element_type)
        np.testing.assert_allclose(narrow.astype(np.float64), wide, rtol=bound, atol=bound)
