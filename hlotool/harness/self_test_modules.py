"""Small modules to see whether a machine computes right: one for each kind of kernel that a target has an emitter for,
loops, and calls of the runtime.  All are of sizes that leave something over after whole vectors and tiles."""

from __future__ import annotations

__all__ = ["KERNELS", "SHARED"]

_REGIONS = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

more {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
"""

_LOOP = """
condition {
  s = (s32[], f32[37,29]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[37,29]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[37,29] get-tuple-element(s), index=1
  w = f32[37,29] cosine(v)
  ROOT t = (s32[], f32[37,29]) tuple(j, w)
}
"""


def _module(body: str, regions: str = _REGIONS) -> str:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return f"HloModule self_test\n{regions}\nENTRY main {{\n  x = f32[37,29] parameter(0)\n{lines}\n}}\n"


_SQUARE = """
t = f32[29,37] transpose(x), dimensions={1,0}
p = f32[29,29] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
i = s32[29,29] iota(), iota_dimension=0
j = s32[29,29] iota(), iota_dimension=1
d = pred[29,29] compare(i, j), direction=EQ
f = f32[29,29] convert(d)
k = f32[] constant(40)
ks = f32[29,29] broadcast(k), dimensions={}
e = f32[29,29] multiply(f, ks)
q = f32[29,29] add(p, e)
"""
"""A matrix with positive eigenvalues."""

_PRODUCT = "w = f32[29,43] parameter(1)\n"
_BY_ROWS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

KERNELS: dict[str, str] = {
    "fusion": _module("""
        e = f32[37,29] exponential(x)
        z = f32[] constant(0)
        r = f32[37] reduce(e, z), dimensions={1}, to_apply=add
        b = f32[37,29] broadcast(r), dimensions={0}
        ROOT y = f32[37,29] divide(e, b)"""),
    "dot": _module(f"{_PRODUCT}ROOT y = f32[37,43] dot(x, w), {_BY_ROWS}"),
    "product fusion": _module(f"""
        {_PRODUCT}d = f32[37,43] dot(x, w), {_BY_ROWS}
        b = f32[43] parameter(2)
        bs = f32[37,43] broadcast(b), dimensions={{1}}
        s = f32[37,43] add(d, bs)
        ROOT y = f32[37,43] tanh(s)"""),
    "convolution": _module("""
        i = f32[1,37,29,1] reshape(x)
        k = f32[3,3,1,5] parameter(1)
        ROOT y = f32[1,37,29,5] convolution(i, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"""),
    "concatenate": _module("c = f32[37,29] cosine(x)\nv = f32[37,5] parameter(1)\n"
        f"ROOT y = f32[37,1156] concatenate({', '.join(['c', 'v'] * 34)}), dimensions={{1}}"),
    "reduce-window": _module("""
        z = f32[] constant(0)
        ROOT y = f32[37,29] reduce-window(x, z), window={size=1x29 pad=0_0x28_0}, to_apply=add"""),
    "select-and-scatter": _module("""
        s = f32[12,9] parameter(1)
        z = f32[] constant(0)
        ROOT y = f32[37,29] select-and-scatter(x, s, z), window={size=3x3 stride=3x3}, select=more, scatter=add"""),
    "scatter": _module("""
        i = s32[13,1] parameter(1)
        u = f32[13,29] parameter(2)
        ROOT y = f32[37,29] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""),
    "sort": _module("ROOT y = f32[37,29] sort(x), dimensions={1}, to_apply=less"),
    "topk": _module("ROOT y = (f32[37,5], s32[37,5]) topk(x), k=5, largest=true"),
    "fft": _module("""
        z = f32[37,29] sine(x)
        c = c64[37,29] complex(x, z)
        ROOT y = c64[37,29] fft(c), fft_type=FFT, fft_length={29}"""),
    "cholesky": _module(_SQUARE + "ROOT y = f32[29,29] cholesky(q), lower=true"),
    "triangular-solve": _module(_SQUARE + """
        l = f32[29,29] cholesky(q), lower=true
        ROOT y = f32[29,37] triangular-solve(l, t), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"""),
    "rng-bit-generator": _module("""
        s = u64[2] constant({7, 11})
        ROOT y = (u64[2], u32[37,29]) rng-bit-generator(s), algorithm=rng_three_fry"""),
    "rng": _module("""
        a = f32[] constant(2)
        b = f32[] constant(3)
        u = f32[37,29] rng(a, b), distribution=rng_uniform
        ls = f32[37,29] broadcast(a), dimensions={}
        hs = f32[37,29] broadcast(b), dimensions={}
        m = pred[37,29] compare(u, ls), direction=GE
        n = pred[37,29] compare(u, hs), direction=LT
        ROOT y = pred[37,29] and(m, n)"""),
    "rng-get-and-update-state": _module("""
        ROOT y = u64[2] rng-get-and-update-state(), delta=7"""),
    "loop": _module("""
        z = s32[] constant(0)
        s = (s32[], f32[37,29]) tuple(z, x)
        l = (s32[], f32[37,29]) while(s), condition=condition, body=body
        ROOT y = f32[37,29] get-tuple-element(l), index=1""", _LOOP),
}  # fmt: skip
"""Kind of kernel -> module.  ``loop`` is none, but the way in which an entry runs several."""

SHARED = """HloModule self_test_threads

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[419,311] parameter(0)
  w = f32[311,503] parameter(1)
  d = f32[419,503] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[419,503] tanh(d)
  z = f32[] constant(0)
  r = f32[419] reduce(t, z), dimensions={1}, to_apply=add
  ROOT y = (f32[419,503], f32[419]) tuple(t, r)
}
"""
"""Enough work that threads share it."""
