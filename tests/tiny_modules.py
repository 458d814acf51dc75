"""A tiny module for every opcode: the entry computation's lines, after parameters that all of them have."""

from __future__ import annotations

__all__ = ["ENDLESS", "OUTSIDE_WORLD", "TINY", "tiny_module"]

ENDLESS = """HloModule endless

yes {
  a = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}

more {
  a = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT b = s32[] add(a, one)
}

ENTRY main {
  x = s32[] parameter(0)
  ROOT end = s32[] while(x), condition=yes, body=more
}
"""
"""A loop that goes on for ever."""

_COMPUTATIONS = """HloModule tiny

add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ge_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}

lt_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

twice {
  a = f32[4,6]{1,0} parameter(0)
  ROOT b = f32[4,6]{1,0} add(a, a)
}

same {
  ROOT a = f32[4,6]{1,0} parameter(0)
}

body {
  s = (s32[], f32[4,6]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[4,6]{1,0} get-tuple-element(s), index=1
  w = f32[4,6]{1,0} add(v, v)
  ROOT r = (s32[], f32[4,6]{1,0}) tuple(j, w)
}

condition {
  s = (s32[], f32[4,6]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}

running {
  a = f32[6]{0} parameter(0)
  b = f32[6]{0} parameter(1)
  c = f32[6]{0} add(a, b)
  ROOT r = (f32[6]{0}, f32[6]{0}) tuple(c, c)
}

ENTRY main {
  x = f32[4,6]{1,0} parameter(0)
  y = f32[4,6]{1,0} parameter(1)
  i = s32[4,6]{1,0} parameter(2)
  n = s32[] parameter(3)
  p = pred[4,6]{1,0} parameter(4)
  c = c64[4,6]{1,0} parameter(5)
  q = f32[4,4]{1,0} parameter(6)
  v = f32[6]{0} parameter(7)
  g = s32[3,1]{1,0} parameter(8)
  k = u64[2]{0} parameter(9)
  u = u32[4,6]{1,0} parameter(10)
  zero = f32[] constant(0)
  one = f32[] constant(1)
"""

_X = "f32[4,6]{1,0}"
_GROUPS = "replica_groups={{0}}"

_UNARY = (
    "abs", "negate", "sign", "ceil", "floor", "round-nearest-afz", "round-nearest-even",
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "sqrt", "rsqrt",
    "cbrt", "sine", "cosine", "tan", "sinh", "cosh", "tanh", "asin", "acos", "asinh", "acosh",
    "atanh", "erf", "copy",
)  # fmt: skip

TINY: dict[str, str] = {
    **{name: f"ROOT r = {_X} {name}(x)" for name in _UNARY},
    **{name: f"ROOT r = s32[4,6]{{1,0}} {name}(i)" for name in ("not", "popcnt", "count-leading-zeros")},
    "is-finite": "ROOT r = pred[4,6]{1,0} is-finite(x)",
    "real": f"ROOT r = {_X} real(c)",
    "imag": f"ROOT r = {_X} imag(c)",
    "convert": "ROOT r = f64[4,6]{1,0} convert(x)",
    "bitcast-convert": "ROOT r = s32[4,6]{1,0} bitcast-convert(x)",
    "reduce-precision": f"ROOT r = {_X} reduce-precision(x), exponent_bits=5, mantissa_bits=10",
    "stochastic-convert": "ROOT r = bf16[4,6]{1,0} stochastic-convert(x, u)",
    **{
        name: f"ROOT r = {_X} {name}(x, y)"
        for name in ["subtract", "divide", "remainder", "power", "atan2", "add", "multiply", "maximum", "minimum"]
    },
    **{
        name: f"ROOT r = s32[4,6]{{1,0}} {name}(i, i)"
        for name in ["shift-left", "shift-right-arithmetic", "shift-right-logical", "and", "or", "xor", "mulhi"]
    },
    "compare": "ROOT r = pred[4,6]{1,0} compare(x, y), direction=LT, type=TOTALORDER",
    "complex": "ROOT r = c64[4,6]{1,0} complex(x, y)",
    "select": f"ROOT r = {_X} select(p, x, y)",
    "clamp": f"ROOT r = {_X} clamp(zero, x, one)",
    "constant": "ROOT r = f32[3]{0} constant({1, 2, 3})",
    "parameter": f"ROOT r = {_X} copy(x)",
    "iota": f"ROOT r = {_X} iota(), iota_dimension=1",
    "partition-id": "ROOT r = u32[] partition-id()",
    "replica-id": "ROOT r = u32[] replica-id()",
    "broadcast": "ROOT r = f32[4,6,2]{2,1,0} broadcast(x), dimensions={0,1}",
    "reshape": "ROOT r = f32[24]{0} reshape(x)",
    "bitcast": "ROOT r = f32[6,4]{0,1} bitcast(x)",
    "transpose": "ROOT r = f32[6,4]{1,0} transpose(x), dimensions={1,0}",
    "reverse": f"ROOT r = {_X} reverse(x), dimensions={{1}}",
    "concatenate": "ROOT r = f32[8,6]{1,0} concatenate(x, y), dimensions={0}",
    "pad": "ROOT r = f32[7,8]{1,0} pad(x, one), padding=1_2x1_1",
    "slice": "ROOT r = f32[2,3]{1,0} slice(x), slice={[1:3], [0:6:2]}",
    "dynamic-slice": "ROOT r = f32[2,3]{1,0} dynamic-slice(x, n, n), dynamic_slice_sizes={2,3}",
    "dynamic-update-slice": f"ROOT r = {_X} dynamic-update-slice(x, part, n, n)",
    "copy-start": f"s = ({_X}, {_X}, u32[]) copy-start(x)\n  ROOT r = {_X} copy-done(s)",
    "copy-done": f"a = {_X} negate(x)\n  s = ({_X}, {_X}, u32[]) copy-start(a)\n  ROOT r = {_X} copy-done(s)",
    "tuple": f"ROOT r = ({_X}, f32[]) tuple(x, one)",
    "get-tuple-element": f"t = ({_X}, {_X}) tuple(x, y)\n  ROOT r = {_X} get-tuple-element(t), index=1",
    "reduce": "ROOT r = f32[4]{0} reduce(x, zero), dimensions={1}, to_apply=add_f32",
    "reduce-window": "ROOT r = f32[2,3]{1,0} reduce-window(x, zero), window={size=2x2 stride=2x2}, to_apply=add_f32",
    "select-and-scatter": (
        f"a = f32[2,3]{{1,0}} constant({{{{1,2,3}},{{4,5,6}}}})\n  ROOT r = {_X} select-and-scatter(x, a, zero), "
        "window={size=2x2 stride=2x2}, select=ge_f32, scatter=add_f32"
    ),
    "map": f"ROOT r = {_X} map(x, y), dimensions={{0,1}}, to_apply=add_f32",
    "dot": "ROOT r = f32[4,4]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "ragged-dot": (
        "sizes = s64[2]{0} constant({3, 1})\n  w = f32[2,6,3]{2,1,0} broadcast(v), dimensions={1}\n"
        "  ROOT r = f32[4,3]{1,0} ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}"
    ),
    "scaled-dot": (
        "a = f8e4m3fn[4,32]{1,0} broadcast(e), dimensions={}\n  b = f8e4m3fn[32,3]{1,0} broadcast(e), dimensions={}\n"
        "  sa = f8e8m0fnu[4,1]{1,0} broadcast(e8), dimensions={}\n  sb = f8e8m0fnu[1,3]{1,0} broadcast(e8), "
        "dimensions={}\n  ROOT r = f32[4,3]{1,0} scaled-dot(a, b, sa, sb), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}"
    ),
    "convolution": (
        "a = f32[1,1,4,6]{3,2,1,0} reshape(x)\n  w = f32[1,1,4,4]{3,2,1,0} reshape(q)\n"
        "  ROOT r = f32[1,1,1,3]{3,2,1,0} convolution(a, w), window={size=4x4}, dim_labels=bf01_io01->bf01"
    ),
    "sort": f"ROOT r = {_X} sort(x), dimensions={{1}}, to_apply=lt_f32",
    "topk": "ROOT r = (f32[4,3]{1,0}, s32[4,3]{1,0}) topk(x), k=3, largest=true",
    "gather": (
        "ROOT r = f32[3,6]{1,0} gather(x, g), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,6}"
    ),
    "scatter": (
        "a = f32[3,6]{1,0} slice(y), slice={[0:3], [0:6]}\n"
        f"  ROOT r = {_X} scatter(x, g, a), update_window_dims={{1}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32"
    ),
    "while": f"t = (s32[], {_X}) tuple(n, x)\n  ROOT r = (s32[], {_X}) while(t), condition=condition, body=body",
    "scan": (
        f"a = f32[6]{{0}} broadcast(zero), dimensions={{}}\n  ROOT r = ({_X}, f32[6]{{0}}) scan(x, a), "
        "dimensions={0}, num_carries=1, is_reverse=true, to_apply=running"
    ),
    "conditional": f"ROOT r = {_X} conditional(n, x, y), branch_computations={{twice, same}}",
    "call": f"ROOT r = {_X} call(x), to_apply=twice",
    "fusion": f"ROOT r = {_X} fusion(x), kind=kLoop, calls=twice",
    "after-all": f"t = token[] after-all()\n  ROOT r = {_X} add-dependency(x, t)",
    "add-dependency": f"a = {_X} negate(x)\n  t = token[] after-all()\n  ROOT r = {_X} add-dependency(a, t)",
    "opt-barrier": f"t = ({_X}, {_X}) tuple(x, y)\n  ROOT r = ({_X}, {_X}) opt-barrier(t)",
    "domain": f'ROOT r = {_X} domain(x), domain={{kind="sharding", entry={{replicated}}, exit={{replicated}}}}',
    "rng": f"ROOT r = {_X} rng(zero, one), distribution=rng_uniform",
    "rng-bit-generator": "ROOT r = (u64[2]{0}, u32[5]{0}) rng-bit-generator(k), algorithm=rng_three_fry",
    "rng-get-and-update-state": "ROOT r = u64[2]{0} rng-get-and-update-state(), delta=3",
    "cholesky": (
        "t = f32[4,4]{1,0} dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
        "  m = s32[4,4]{1,0} iota(), iota_dimension=0\n  o = s32[4,4]{1,0} iota(), iota_dimension=1\n"
        "  d = pred[4,4]{1,0} compare(m, o), direction=EQ\n  e5 = f32[4,4]{1,0} convert(d)\n"
        "  s = f32[4,4]{1,0} add(t, e5)\n  f = f32[4,4]{1,0} cholesky(s), lower=true\n"
        "  low = pred[4,4]{1,0} compare(m, o), direction=GE\n  z = f32[4,4]{1,0} broadcast(zero), dimensions={}\n"
        "  ROOT r = f32[4,4]{1,0} select(low, f, z)"
    ),
    "triangular-solve": (
        "ROOT r = f32[4,6]{1,0} triangular-solve(q, x), left_side=true, lower=true, unit_diagonal=true, "
        "transpose_a=NO_TRANSPOSE"
    ),
    "fft": "ROOT r = c64[4,6]{1,0} fft(c), fft_type=FFT, fft_length={6}",
    "batch-norm-training": (
        f"ROOT r = ({_X}, f32[6]{{0}}, f32[6]{{0}}) batch-norm-training(x, v, v), epsilon=0.001, feature_index=1"
    ),
    "batch-norm-inference": (
        f"w = f32[6]{{0}} abs(v)\n  ROOT r = {_X} batch-norm-inference(x, v, v, v, w), epsilon=0.001, feature_index=1"
    ),
    "batch-norm-grad": (
        f"w = f32[6]{{0}} abs(v)\n  ROOT r = ({_X}, f32[6]{{0}}, f32[6]{{0}}) batch-norm-grad(x, v, v, w, y), "
        "epsilon=0.001, feature_index=1"
    ),
    "all-gather": f"ROOT r = {_X} all-gather(x), {_GROUPS}, dimensions={{0}}",
    "all-gather-start": (
        f"s = ({_X}, {_X}) all-gather-start(x), {_GROUPS}, dimensions={{0}}\n  ROOT r = {_X} all-gather-done(s)"
    ),
    "all-gather-done": (
        f"a = {_X} negate(x)\n  s = ({_X}, {_X}) all-gather-start(a), {_GROUPS}, dimensions={{0}}\n"
        f"  ROOT r = {_X} all-gather-done(s)"
    ),
    "all-reduce": f"ROOT r = ({_X}, {_X}) all-reduce(x, y), {_GROUPS}, to_apply=add_f32",
    "all-reduce-start": (
        f"s = {_X} all-reduce-start(x), {_GROUPS}, to_apply=add_f32\n  ROOT r = {_X} all-reduce-done(s)"
    ),
    "all-reduce-done": (
        f"a = {_X} negate(x)\n  s = {_X} all-reduce-start(a), {_GROUPS}, to_apply=add_f32\n"
        f"  ROOT r = {_X} all-reduce-done(s)"
    ),
    "reduce-scatter": f"ROOT r = {_X} reduce-scatter(x), {_GROUPS}, dimensions={{0}}, to_apply=add_f32",
    "all-to-all": f"ROOT r = {_X} all-to-all(x), {_GROUPS}, dimensions={{0}}",
    "ragged-all-to-all": (
        "o = s64[1]{0} constant({1})\n  m = s64[1]{0} constant({2})\n"
        f"  ROOT r = {_X} ragged-all-to-all(x, y, o, m, o, m), {_GROUPS}"
    ),
    "collective-broadcast": f"ROOT r = {_X} collective-broadcast(x), {_GROUPS}",
    "collective-permute": f"ROOT r = {_X} collective-permute(x), source_target_pairs={{{{0,0}}}}",
    "collective-permute-start": (
        f"s = ({_X}, {_X}, u32[], u32[]) collective-permute-start(x), source_target_pairs={{{{0,0}}}}\n"
        f"  ROOT r = {_X} collective-permute-done(s)"
    ),
    "collective-permute-done": (
        f"s = ({_X}, {_X}) collective-permute-start(x), source_target_pairs={{}}\n"
        f"  ROOT r = {_X} collective-permute-done(s)"
    ),
    "async-start": (
        f"s = (({_X}), {_X}, u32[]) async-start(x), calls=twice\n  ROOT r = {_X} async-done(s), calls=twice"
    ),
    "async-update": (
        f"s = (({_X}), {_X}, u32[]) async-start(x), calls=twice\n  w = (({_X}), {_X}, u32[]) async-update(s), "
        f"calls=twice\n  ROOT r = {_X} async-done(w), calls=twice"
    ),
    "async-done": (
        f"a = {_X} negate(x)\n  s = (({_X}), {_X}, u32[]) async-start(a), calls=twice\n"
        f"  ROOT r = {_X} async-done(s), calls=twice"
    ),
    "infeed": f"t = token[] after-all()\n  ROOT r = ({_X}, token[]) infeed(t)",
    "outfeed": f"t = token[] after-all()\n  ROOT r = token[] outfeed(x, t), outfeed_shape={_X}",
    "send": (
        f"t = token[] after-all()\n  s = ({_X}, u32[], token[]) send(x, t), channel_id=1\n"
        f"  ROOT r = (({_X}, u32[], token[])) tuple(s)"
    ),
    "send-done": (
        f"t = token[] after-all()\n  s = ({_X}, u32[], token[]) send(x, t), channel_id=1\n"
        "  ROOT r = token[] send-done(s), channel_id=1"
    ),
    "recv": (
        f"t = token[] after-all()\n  s = ({_X}, u32[], token[]) recv(t), channel_id=1\n"
        f"  ROOT r = (({_X}, u32[], token[])) tuple(s)"
    ),
    "recv-done": (
        f"t = token[] after-all()\n  s = ({_X}, u32[], token[]) recv(t), channel_id=1\n"
        f"  ROOT r = ({_X}, token[]) recv-done(s), channel_id=1"
    ),
    "dynamic-reshape": (
        "a = s32[] constant(6)\n  b = s32[] constant(4)\n  ROOT r = f32[6,4]{1,0} dynamic-reshape(x, a, b)"
    ),
    "get-dimension-size": "ROOT r = s32[] get-dimension-size(x), dimensions={1}",
    "set-dimension-size": f"a = s32[] constant(6)\n  ROOT r = {_X} set-dimension-size(x, a), dimensions={{1}}",
    "custom-call": 'ROOT r = f32[4,6]{1,0} custom-call(x), custom_call_target="nobody has this"',
}
"""Opcode -> lines that end in the root."""

OUTSIDE_WORLD = frozenset({"infeed", "send", "send-done", "recv", "recv-done"})
"""Opcodes whose tiny module needs somebody at the other end, or a queue that holds something."""

_EXTRAS = {
    "dynamic-update-slice": "  part = f32[2,3]{1,0} slice(y), slice={[0:2], [0:3]}\n",
    "scaled-dot": "  e = f8e4m3fn[] constant(1.5)\n  e8 = f8e8m0fnu[] constant(2)\n",
}


def tiny_module(opcode: str) -> str:
    """The text of a module that uses `opcode`."""
    return f"{_COMPUTATIONS}{_EXTRAS.get(opcode, '')}  {TINY[opcode]}\n}}\n"
