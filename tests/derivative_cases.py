"""What is differentiated: bodies of entries in f64, one form of an opcode each, and the shapes of the parameters."""

from __future__ import annotations

from derivatives import ADD

__all__ = ["BASIC", "CASES", "HALVE", "REDUCERS"]

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

complex_product {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  ac = f64[] multiply(a, c)
  bd = f64[] multiply(b, d)
  ad = f64[] multiply(a, d)
  bc = f64[] multiply(b, c)
  r = f64[] subtract(ac, bd)
  i = f64[] add(ad, bc)
  ROOT t = (f64[], f64[]) tuple(r, i)
}

sums {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  e = f64[] add(a, c)
  f = f64[] add(b, d)
  ROOT t = (f64[], f64[]) tuple(e, f)
}

sum_and_and {
  a = f64[] parameter(0)
  b = s32[] parameter(1)
  c = f64[] parameter(2)
  d = s32[] parameter(3)
  e = f64[] add(a, c)
  f = s32[] and(b, d)
  ROOT t = (f64[], s32[]) tuple(e, f)
}

le {
  a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LE
}

by_key {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f64[] parameter(2)
  d = f64[] parameter(3)
  e = f64[] parameter(4)
  f = f64[] parameter(5)
  ROOT r = pred[] compare(a, b), direction=LT
}

growth {
  x = f64[] parameter(0)
  c = f64[] parameter(1)
  e = f64[] sine(c)
  s = f64[] multiply(e, x)
  ROOT r = (f64[], f64[]) tuple(c, s)
}

caller {
  x = f64[3] parameter(0)
  a = (f64[3], f64[3]) call(x), to_apply=wave
  b = f64[3] get-tuple-element(a), index=0
  c = (f64[3], f64[3]) call(b), to_apply=wave, frontend_attributes={checkpoint="true"}
  d = f64[3] get-tuple-element(c), index=0
  ROOT y = f64[3] multiply(d, x)
}

double {
  a = f64[3] parameter(0)
  b = f64[3] add(a, a)
  ROOT c = (f64[3], f64[3]) tuple(b, a)
}

above {
  s = (f64[3], s32[], (f64[4,3])) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  ROOT c = pred[] compare(i, zero), direction=GT
}

down {
  s = (f64[3], s32[], (f64[4,3])) parameter(0)
  h = f64[3] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  t = (f64[4,3]) get-tuple-element(s), index=2
  o = f64[4,3] get-tuple-element(t), index=0
  two = s32[] constant(2)
  half = s32[] divide(i, two)
  four = s32[] constant(4)
  early = pred[] compare(i, four), direction=LT
  w = (f64[3], f64[3]) conditional(early, h, h), true_computation=wave, false_computation=double
  a = f64[3] get-tuple-element(w), index=0
  b = f64[3] get-tuple-element(w), index=1
  ab = f64[3] multiply(a, b)
  row = f64[1,3] reshape(ab)
  zero = s32[] constant(0)
  p = f64[4,3] dynamic-update-slice(o, row, half, zero)
  q = (f64[4,3]) tuple(p)
  n = s32[] subtract(i, two)
  ROOT r = (f64[3], s32[], (f64[4,3])) tuple(a, n, q)
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


BASIC = dict(CASES)
"""A form of each: what takes longer is tried on these alone."""

# ---- every attribute that changes what a derivative looks like


def _convolution(sizes: str, window: str, labels: str, **groups: int) -> tuple[str, list[tuple[int, ...]]]:
    """``sizes`` are those of input, kernel and result, as in ``2x7x3 3x3x4 2x5x4``."""
    shapes = [tuple(map(int, one.split("x"))) for one in sizes.split()]
    x, k, y = (f"f64[{','.join(map(str, shape))}]" for shape in shapes)
    more = "".join(f", {name}_group_count={count}" for name, count in groups.items())
    body = (
        f"x = {x} parameter(0)\nk = {k} parameter(1)\n"
        f"ROOT c = {y} convolution(x, k), window={{{window}}}, dim_labels={labels}{more}"
    )
    return body, shapes[:2]


CONVOLUTIONS = {
    "convolution of nothing but features": _convolution("3x5 5x4 3x4", "", "bf_io->bf"),
    "convolution in three dimensions": _convolution(
        "1x4x3x4x2 2x1x2x2x3 1x3x3x2x3", "size=2x1x2 stride=1x1x2", "b012f_012io->b012f"
    ),
    "convolution of turned kernels": _convolution(
        "2x6x5x2 3x2x2x3 2x4x5x3", "size=3x2 pad=0_0x1_0 rhs_reversal=1x1", "b01f_01io->b01f"
    ),
    "convolution, transposed": _convolution("2x4x3 3x3x2 2x9x2", "size=3 pad=2_2 lhs_dilate=2", "b0f_0io->b0f"),
    "convolution to the batch": _convolution("3x7x2 3x7x4 2x1x4", "size=7", "f0b_i0o->b0f"),
    "convolution, depthwise": _convolution(
        "2x7x3 3x1x6 2x4x6", "size=3 stride=2 pad=1_1", "b0f_0io->b0f", feature=3
    ),
    "convolution of groups with holes": _convolution(
        "2x6x4 2x2x4 2x5x4", "size=2 stride=2 pad=1_0 lhs_dilate=2 rhs_dilate=3 rhs_reversal=1", "b0f_0io->b0f",
        feature=2,
    ),
    "convolution of groups in two dimensions": _convolution(
        "2x4x5x6 6x2x2x3 2x6x4x2", "size=2x3 stride=1x2 pad=0_0x0_0", "bf01_oi01->bf01", feature=2
    ),
    "convolution of batches with strides": _convolution(
        "6x7x2 3x2x6 2x3x6", "size=3 stride=2", "b0f_0io->b0f", batch=3
    ),
    "convolution of batches with holes": _convolution(
        "4x4x3 2x3x4 2x7x4", "size=2 pad=1_1 lhs_dilate=2 rhs_dilate=2 rhs_reversal=1", "b0f_0io->b0f", batch=2
    ),
    "convolution of batches, features first": _convolution(
        "3x4x5 6x3x2 2x6x4", "size=2", "fb0_oi0->bf0", batch=2
    ),
}  # fmt: skip

PLACES: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    f"dynamic-slice at {i}, {j}": (
        f"x = f64[5,3] parameter(0)\ni = s32[] constant({i})\nj = s32[] constant({j})\n"
        "ROOT y = f64[2,2] dynamic-slice(x, i, j), dynamic_slice_sizes={2,2}", [(5, 3)])
    for i, j in ((-3, 0), (1, 1), (9, -1))
} | {
    f"dynamic-update-slice at {i}, {j}": (
        f"x = f64[5,3] parameter(0)\nu = f64[2,2] parameter(1)\ni = s64[] constant({i})\nj = s64[] constant({j})\n"
        "ROOT y = f64[5,3] dynamic-update-slice(x, u, i, j)", [(5, 3), (2, 2)])
    for i, j in ((-3, 0), (1, 1), (9, -1))
} | {
    f"pad {rows}": (
        f"x = f64[4,5] parameter(0)\nv = f64[] parameter(1)\nROOT y = f64[{sizes}] pad(x, v), padding={rows}",
        [(4, 5), ()])
    for rows, sizes in (("1_2x0_0", "7,5"), ("-1_-2x0_3", "1,8"), ("2_-1_2x-2_-2_1", "11,5"), ("-4_2x1_-6", "2,0"))
}  # fmt: skip

GATHERS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "gather of numbers without a vector": (
        "x = f64[7] parameter(0)\ni = s32[2,3] constant({{0,6,9},{-1,3,3}})\nROOT y = f64[2,3] gather(x, i), "
        "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}", [(7,)]),
    "gather of one row": (
        "x = f64[4,3] parameter(0)\ni = s32[] constant(2)\nROOT y = f64[3] gather(x, i), "
        "offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0, slice_sizes={1,3}",
        [(4, 3)]),
    "gather without indices": (
        "x = f64[4,3] parameter(0)\ni = s32[5,0] constant({{},{},{},{},{}})\nROOT y = f64[5,2,3] gather(x, i), "
        "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim=1, slice_sizes={2,3}",
        [(4, 3)]),
    "gather of nothing": (
        "x = f64[4,3] parameter(0)\ni = s32[0,1] constant({})\nROOT y = f64[0,3] gather(x, i), "
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
        [(4, 3)]),
    "gather, windows first, sorted": (
        "x = f64[5,4,3] parameter(0)\ni = s64[3,2] constant({{0,1},{2,0},{4,3}})\nROOT y = f64[2,3,3] gather(x, i), "
        "offset_dims={0,1}, collapsed_slice_dims={0}, start_index_map={0,1}, index_vector_dim=1, "
        "slice_sizes={1,2,3}, indices_are_sorted=true", [(5, 4, 3)]),
    "gather in batches, vector in front": (
        "x = f64[2,5,3] parameter(0)\ni = s32[1,4,2] constant({{{0,1},{4,4},{9,2},{-1,0}}})\n"
        "ROOT y = f64[4,2,3] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
        "operand_batching_dims={0}, start_indices_batching_dims={2}, index_vector_dim=0, slice_sizes={1,1,3}",
        [(2, 5, 3)]),
}  # fmt: skip

_SCATTERS = {
    "numbers": ("x = f64[7] parameter(0)\ni = s32[2,3] constant({{0,6,9},{-1,3,INDEX}})\nu = f64[2,3] parameter(1)\n"
                "ROOT y = f64[7] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=2", [(7,), (2, 3)]),
    "windows": ("x = f64[5,6] parameter(0)\ni = s32[2,3] constant({{1,4,INDEX},{0,2,3}})\n"
                "u = f64[2,3,3] parameter(1)\nROOT y = f64[5,6] scatter(x, i, u), update_window_dims={0,2}, "
                "inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0",
                [(5, 6), (2, 3, 3)]),
    "batches": ("x = f64[3,5] parameter(0)\ni = s32[3,2] constant({{1,2},{4,INDEX},{0,9}})\n"
                "u = f64[3,2] parameter(1)\nROOT y = f64[3,5] scatter(x, i, u), update_window_dims={}, "
                "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
                "scatter_indices_batching_dims={0}, index_vector_dim=2", [(3, 5), (3, 2)]),
    "a whole": ("x = f64[2,3] parameter(0)\ni = s32[0] constant({})\nu = f64[2,3] parameter(1)\nROOT y = f64[2,3] "
                "scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
                "scatter_dims_to_operand_dims={}, index_vector_dim=0", [(2, 3), (2, 3)]),
}  # fmt: skip
_REPEATED = {"numbers": 3, "windows": 1, "batches": 4, "a whole": 0}
SCATTERS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    f"scatter of {name} by {reducer}": (
        f"{body.replace('INDEX', str(_REPEATED[name]))}, to_apply={reducer}", shapes)
    for name, (body, shapes) in _SCATTERS.items()
    for reducer in ("add", "second", "multiply", "maximum", "minimum", "mixed")
} | {
    "scatter of several": (
        "x = f64[5] parameter(0)\nz = f64[5] parameter(1)\ni = s32[4,1] constant({{1},{7},{1},{3}})\n"
        "u = f64[4] parameter(2)\nw = f64[4] parameter(3)\ns = (f64[5], f64[5]) scatter(x, z, i, u, w), "
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=complex_product\na = f64[5] get-tuple-element(s), index=0\nb = f64[5] get-tuple-element(s), index=1\n"
        "e = f64[5] sine(a)\nROOT m = f64[5] multiply(e, b)", [(5,), (5,), (4,), (4,)]),
}  # fmt: skip

WINDOWS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    f"{'reverse ' * back}cumulative {reducer}": (
        f"x = f64[2,5] parameter(0)\ns = f64[] constant({start})\nROOT y = f64[2,5] reduce-window(x, s), "
        f"window={{size=1x5 pad=0_0x{'0_4' if back else '4_0'}}}, to_apply={reducer}", [(2, 5)])
    for reducer, start in (("add", "0"), ("multiply", "1"), ("maximum", "-inf"), ("minimum", "inf"), ("mixed", "-9"))
    for back in (False, True)
} | {
    f"reduce-window by {reducer}, with holes and a start": (
        "x = f64[6,4] parameter(0)\ns = f64[] parameter(1)\nROOT y = f64[6,2] reduce-window(x, s), "
        f"window={{size=3x2 stride=2x1 pad=2_3x0_0 lhs_dilate=2x1 rhs_dilate=2x2}}, to_apply={reducer}",
        [(6, 4), ()])
    for reducer in ("add", "multiply", "maximum", "minimum", "mixed")
} | {
    "reduce-window to the place of the largest": (
        "x = f64[7] parameter(0)\ni = s32[7] iota(), iota_dimension=0\ns = f64[] constant(-inf)\n"
        "z = s32[] constant(0)\nr = (f64[3], s32[3]) reduce-window(x, i, s, z), window={size=3 stride=2}, "
        "to_apply=largest\nROOT y = f64[3] get-tuple-element(r), index=0", [(7,)]),
    "reduce of several sums": (
        "x = f64[3,4] parameter(0)\ny = f64[3,4] parameter(1)\ns = f64[] parameter(2)\nt = f64[] parameter(3)\n"
        "r = (f64[4], f64[4]) reduce(x, y, s, t), dimensions={0}, to_apply=sums\n"
        "a = f64[4] get-tuple-element(r), index=0\nb = f64[4] get-tuple-element(r), index=1\n"
        "ROOT m = f64[4] multiply(a, b)", [(3, 4), (3, 4), (), ()]),
    "reduce by complex products": (
        "x = f64[5,2] parameter(0)\ny = f64[5,2] parameter(1)\ns = f64[] parameter(2)\nt = f64[] parameter(3)\n"
        "r = (f64[2], f64[2]) reduce(x, y, s, t), dimensions={0}, to_apply=complex_product\n"
        "a = f64[2] get-tuple-element(r), index=0\nb = f64[2] get-tuple-element(r), index=1\n"
        "ROOT m = f64[2] multiply(a, b)", [(5, 2), (5, 2), (), ()]),
} | {
    f"select-and-scatter {select} {scatter}": (
        "x = f64[5,4] parameter(0)\ng = f64[2,3] parameter(1)\ns = f64[] parameter(2)\nROOT y = f64[5,4] "
        f"select-and-scatter(x, g, s), window={{size=3x2 stride=2x1}}, select={select}, scatter={scatter}",
        [(5, 4), (2, 3), ()])
    for select in ("ge", "le") for scatter in ("add", "multiply", "maximum")
}  # fmt: skip

FFTS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    f"{kind} of {'x'.join(map(str, sizes))}": (
        f"x = {given} parameter(0)\nROOT y = {made} fft(x), fft_type={kind}, "
        f"fft_length={{{','.join(map(str, sizes))}}}", [shape])
    for sizes in ((4,), (5,), (3, 4), (2, 3, 5))
    for half in [(*sizes[:-1], sizes[-1] // 2 + 1)]
    for kind, given, made, shape in (
        ("FFT", f"c128[2,{','.join(map(str, sizes))}]", f"c128[2,{','.join(map(str, sizes))}]", (2, *sizes)),
        ("IFFT", f"c128[2,{','.join(map(str, sizes))}]", f"c128[2,{','.join(map(str, sizes))}]", (2, *sizes)),
        ("RFFT", f"f64[2,{','.join(map(str, sizes))}]", f"c128[2,{','.join(map(str, half))}]", (2, *sizes)),
        ("IRFFT", f"c128[2,{','.join(map(str, half))}]", f"f64[2,{','.join(map(str, sizes))}]", (2, *half)),
    )
}  # fmt: skip

OTHERS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "sort of three": (
        "k = s32[5] constant({3,1,3,0,1})\nx = f64[5] parameter(0)\ny = f64[5] parameter(1)\n"
        "s = (s32[5], f64[5], f64[5]) sort(k, x, y), dimensions={0}, is_stable=true, to_apply=by_key\n"
        "a = f64[5] get-tuple-element(s), index=1\nb = f64[5] get-tuple-element(s), index=2\n"
        "c = f64[5] sine(a)\nROOT m = f64[5] multiply(c, b)", [(5,), (5,)]),
    "while down by two, with a branch": (
        "h = f64[3] parameter(0)\nn = s32[] constant(7)\no = f64[4,3] parameter(1)\nd = (f64[4,3]) tuple(o)\n"
        "t = (f64[3], s32[], (f64[4,3])) tuple(h, n, d)\n"
        "l = (f64[3], s32[], (f64[4,3])) while(t), condition=above, body=down\n"
        "e = (f64[4,3]) get-tuple-element(l), index=2\nROOT r = f64[4,3] get-tuple-element(e), index=0",
        [(3,), (4, 3)]),
    "while that never runs": (
        "h = f64[3] parameter(0)\nn = s32[] constant(0)\no = f64[4,3] parameter(1)\nd = (f64[4,3]) tuple(o)\n"
        "t = (f64[3], s32[], (f64[4,3])) tuple(h, n, d)\n"
        "l = (f64[3], s32[], (f64[4,3])) while(t), condition=above, body=down\n"
        "ROOT r = f64[3] get-tuple-element(l), index=0", [(3,), (4, 3)]),
    **{
        f"conditional by number {index}": (
            f"p = s32[] constant({index})\nx = f64[3] parameter(0)\ns = f64[] parameter(1)\n"
            "t = (f64[3], f64[]) tuple(x, s)\nc = (f64[3], f64[3]) conditional(p, x, t, x), "
            "branch_computations={wave, line, wave}\na = f64[3] get-tuple-element(c), index=0\n"
            "b = f64[3] get-tuple-element(c), index=1\nROOT y = f64[3] multiply(a, b)", [(3,), ()])
        for index in (0, 1, 2, 7, -1)
    },
    "calls in calls": ("x = f64[3] parameter(0)\nROOT y = f64[3] call(x), to_apply=caller", [(3,)]),
    "calls to compute again in calls": (
        'x = f64[3] parameter(0)\nROOT y = f64[3] call(x), to_apply=caller, frontend_attributes={checkpoint="true"}',
        [(3,)]),
    **{
        f"fusion {kind}": (f"x = f64[3] parameter(0)\nROOT y = f64[3] fusion(x), kind={kind}, calls=fused", [(3,)])
        for kind in ("kInput", "kOutput")
    },
    "types": (
        "x = f64[3] parameter(0)\nz = c128[3] convert(x)\ne = c128[3] exponential(z)\nr = f64[3] convert(e)\n"
        "ROOT y = f64[3] multiply(r, x)", [(3,)]),
    "steps": (
        "x = f64[5] parameter(0)\na = f64[5] ceil(x)\nb = f64[5] floor(x)\nc = f64[5] round-nearest-afz(x)\n"
        "d = f64[5] round-nearest-even(x)\ne = f64[5] sign(x)\nab = f64[5] add(a, b)\ncd = f64[5] add(c, d)\n"
        "abcd = f64[5] multiply(ab, cd)\ni = s32[5] convert(x)\nj = f64[5] convert(i)\ng = f64[5] add(abcd, j)\n"
        "h = f64[5] add(e, g)\nROOT y = f64[5] multiply(h, x)", [(5,)]),
    "an extreme of integers beside": (
        "x = f64[4] parameter(0)\nk = s32[4] constant({3,1,2,1})\ni = s32[] constant(0)\ns = f64[] parameter(1)\n"
        "r = (f64[], s32[]) reduce(x, k, s, i), dimensions={0}, to_apply=sum_and_and\n"
        "ROOT y = f64[] get-tuple-element(r), index=0", [(4,), ()]),
    "scan": (
        "x = f64[5] parameter(0)\na = f64[] parameter(1)\nr = (f64[5], f64[]) scan(x, a), dimensions={0}, "
        "num_carries=1, to_apply=growth\nROOT y = f64[5] get-tuple-element(r), index=0", [(5,), ()]),
    "ragged-dot": (
        "x = f64[6,5] parameter(0)\ny = f64[4,5,3] parameter(1)\ns = s32[4] constant({3, 0, 2, 1})\n"
        "ROOT r = f64[6,3] ragged-dot(x, y, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}", [(6, 5), (4, 5, 3)]),
    "batch-norm-inference": (
        "x = f64[4,3] parameter(0)\ns = f64[3] parameter(1)\no = f64[3] parameter(2)\nm = f64[3] parameter(3)\n"
        "w = f64[3] parameter(4)\ne = f64[3] exponential(w)\nROOT b = f64[4,3] batch-norm-inference(x, s, o, m, e), "
        "epsilon=0.001, feature_index=1", [(4, 3), (3,), (3,), (3,), (3,)]),
    "batch-norm-grad": (
        "x = f64[4,3] parameter(0)\ns = f64[3] parameter(1)\nm = f64[3] parameter(2)\nw = f64[3] parameter(3)\n"
        "e = f64[3] exponential(w)\ng = f64[4,3] parameter(4)\nROOT b = (f64[4,3], f64[3], f64[3]) "
        "batch-norm-grad(x, s, m, e, g), epsilon=0.001, feature_index=1", [(4, 3), (3,), (3,), (3,), (4, 3)]),
}  # fmt: skip

CASES |= CONVOLUTIONS | PLACES | GATHERS | SCATTERS | WINDOWS | FFTS | OTHERS
