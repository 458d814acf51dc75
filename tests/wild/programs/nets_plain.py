"""Networks in plain JAX: layers by hand, forward and training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax, random
from registry import program

FLOATS = ("float32", "bfloat16", "float16", "float64")


def _parameters(key, sizes, kind):
    keys = random.split(key, len(sizes))
    return [
        {"w": random.normal(k, (m, n), kind) / m**0.5, "b": jnp.zeros((n,), kind)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=False)
    ]


def _mlp(parameters, x, act):
    for layer in parameters[:-1]:
        x = act(x @ layer["w"] + layer["b"])
    return x @ parameters[-1]["w"] + parameters[-1]["b"]


@program(FLOATS)
def mlp_sgd(kind):
    parameters = _parameters(random.key(0), (784, 512, 100, 10), kind)
    x = random.normal(random.key(1), (64, 784), kind)
    y = jnp.arange(64) % 10
    for act in (jax.nn.relu, jax.nn.gelu):

        def loss(p, act=act):
            return -jnp.take_along_axis(jax.nn.log_softmax(_mlp(p, x, act)), y[:, None], 1).mean()

        @jax.jit
        def step(p, loss=loss):
            value, grads = jax.value_and_grad(loss)(p)
            return value, jax.tree.map(lambda a, g: a - jnp.asarray(0.1, kind) * g, p, grads)

        value, parameters = step(parameters)


@program(FLOATS)
def attention(kind):
    keys = random.split(random.key(0), 4)
    q, k, v = (random.normal(one, (2, 65, 4, 32), kind) for one in keys[:3])

    @jax.jit
    def forward(q, k, v):
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 32**0.5
        mask = jnp.tril(jnp.ones((65, 65), bool))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e4)), v)

    forward(q, k, v)
    jax.jit(jax.grad(lambda q, k, v: forward(q, k, v).astype("float32").sum(), (0, 1, 2)))(q, k, v)
    jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))(q, k, v)


@program(FLOATS)
def convnet(kind):
    x = random.normal(random.key(0), (4, 32, 32, 3), kind)
    w1 = random.normal(random.key(1), (3, 3, 3, 16), kind) * 0.2
    w2 = random.normal(random.key(2), (5, 5, 16, 32), kind) * 0.05

    def forward(w, x):
        numbers = ("NHWC", "HWIO", "NHWC")
        a = jax.nn.relu(lax.conv_general_dilated(x, w[0], (1, 1), "SAME", dimension_numbers=numbers))
        a = lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        a = jax.nn.relu(lax.conv_general_dilated(a, w[1], (2, 2), "VALID", dimension_numbers=numbers))
        return a.mean((1, 2))

    jax.jit(forward)((w1, w2), x)
    jax.jit(jax.grad(lambda w, x: (forward(w, x) ** 2).sum().astype("float32"), (0, 1)))((w1, w2), x)


@program(("float32", "bfloat16"))
def convolution_kinds(kind):
    x = random.normal(random.key(0), (2, 17, 19, 12), kind)
    numbers = ("NHWC", "HWIO", "NHWC")
    for groups, stride, dilation, holes, padding in (
        (1, 2, 1, 1, "SAME"),
        (12, 1, 1, 1, "SAME"),
        (3, 1, 2, 1, "VALID"),
        (1, 1, 1, 2, "SAME"),
        (4, 3, 1, 1, "VALID"),
    ):
        w = random.normal(random.key(1), (3, 3, 12 // groups, 24), kind)

        def run(x, w, groups=groups, stride=stride, dilation=dilation, holes=holes, padding=padding):
            pads = padding if holes == 1 else ((1, 2), (2, 1))
            return lax.conv_general_dilated(
                x, w, (stride,) * 2, pads, (holes,) * 2, (dilation,) * 2, numbers, feature_group_count=groups
            )

        jax.jit(run)(x, w)
        jax.jit(jax.grad(lambda x, w, run=run: run(x, w).astype("float32").sum(), (0, 1)))(x, w)
    w = random.normal(random.key(2), (4, 4, 6, 12), kind)
    jax.jit(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", transpose_kernel=True))(x, w)


@program(FLOATS)
def recurrent(kind):
    x = random.normal(random.key(0), (25, 8, 40), kind)
    w = random.normal(random.key(1), (40 + 64, 256), kind) * 0.1

    def forward(w, x):
        def cell(state, x):
            h, c = state
            i, f, g, o = jnp.split(jnp.concatenate([x, h], 1) @ w, 4, 1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((8, 64), kind)
        return lax.scan(cell, (zero, zero), x)[1]

    jax.jit(forward)(w, x)
    jax.jit(jax.grad(lambda w, x: (forward(w, x) ** 2).mean()))(w, x)
    jax.jit(jax.grad(lambda w, x: (jax.checkpoint(forward)(w, x) ** 2).mean()))(w, x)


@program(("float32", "bfloat16"))
def transformer(kind):
    d, h, n, t, vocab = 96, 6, 2, 48, 1000

    def block(p, x):
        a = _norm(x)
        q, k, v = jnp.split(a @ p["qkv"], 3, -1)
        q, k, v = (m.reshape(*m.shape[:2], h, d // h) for m in (q, k, v))
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type="float32") / (d // h) ** 0.5
        s = jnp.where(jnp.arange(t)[:, None] >= jnp.arange(t), s, -jnp.inf)
        o = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s).astype(kind), v).reshape(x.shape)
        x = x + o @ p["o"]
        return x + jax.nn.gelu(_norm(x) @ p["up"]) @ p["down"]

    def forward(p, tokens):
        x = p["embed"][tokens] + p["place"]
        x, _ = lax.scan(lambda x, b: (block(b, x), None), x, p["blocks"])
        return _norm(x) @ p["embed"].T

    def loss(p, tokens):
        logits = forward(p, tokens).astype("float32")
        return -jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], 2).mean()

    def normal(seed, *shape):
        return random.normal(random.key(seed), shape, kind) * 0.05

    p = {
        "embed": normal(0, vocab, d),
        "place": normal(1, t, d),
        "blocks": {
            "qkv": normal(2, n, d, 3 * d),
            "o": normal(3, n, d, d),
            "up": normal(4, n, d, 4 * d),
            "down": normal(5, n, 4 * d, d),
        },
    }
    tokens = random.randint(random.key(6), (3, t), 0, vocab)
    jax.jit(forward)(p, tokens)
    jax.jit(jax.value_and_grad(loss))(p, tokens)


def _norm(x):
    wide = x.astype("float32")
    return ((wide - wide.mean(-1, keepdims=True)) * lax.rsqrt(wide.var(-1, keepdims=True) + 1e-5)).astype(x.dtype)


@program(("float32", "float64"))
def second_order(kind):
    parameters = _parameters(random.key(0), (5, 16, 1), kind)
    x = random.normal(random.key(1), (30, 5), kind)

    def f(x):
        return _mlp(parameters, x[None], jnp.tanh)[0, 0]

    jax.jit(jax.vmap(jax.hessian(f)))(x)
    jax.jit(jax.vmap(jax.jacfwd(jax.grad(f))))(x)
    jax.jit(lambda x, v: jax.jvp(jax.grad(lambda x: jax.vmap(f)(x).sum()), (x,), (v,)))(x, x)
    jax.jit(jax.vmap(lambda x: jnp.trace(jax.hessian(f)(x))))(x)
    jax.jit(jax.linearize(jax.vmap(f), x)[1])(x)


@program(("float32", "bfloat16"))
def mixture_of_experts(kind):
    x = random.normal(random.key(0), (48, 32), kind)
    gate = random.normal(random.key(1), (32, 8), kind)
    up = random.normal(random.key(2), (8, 32, 64), kind) * 0.2
    down = random.normal(random.key(3), (8, 64, 32), kind) * 0.2

    @jax.jit
    def dense(x, gate, up, down):
        weights, which = lax.top_k(jax.nn.softmax(x @ gate), 2)
        onehot = jax.nn.one_hot(which, 8, dtype=kind)
        h = jax.nn.silu(jnp.einsum("tkE,td,Edf->tkf", onehot, x, up))
        return jnp.einsum("tk,tkE,tkf,Efd->td", weights, onehot, h, down)

    @jax.jit
    def ragged(x, gate, up, down):
        which = jnp.argmax(x @ gate, -1)
        order = jnp.argsort(which)
        sizes = jnp.bincount(which, length=8)
        h = jax.nn.silu(lax.ragged_dot(x[order], up, sizes))
        return jnp.zeros_like(x).at[order].set(lax.ragged_dot(h, down, sizes))

    dense(x, gate, up, down)
    ragged(x, gate, up, down)
    jax.jit(jax.grad(lambda *a: dense(*a).astype("float32").sum(), (1, 2, 3)))(x, gate, up, down)


@program(("float32", "int8"))
def quantised(kind):
    w = random.normal(random.key(0), (256, 128))
    x = random.normal(random.key(1), (32, 256))

    @jax.jit
    def run(x, w):
        scale = jnp.abs(w).max(0) / 127
        q = jnp.round(w / scale).astype(jnp.int8)
        reach = jnp.abs(x).max(1, keepdims=True) / 127
        xq = jnp.round(x / reach).astype(jnp.int8)
        total = lax.dot_general(xq, q, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        return total * scale * reach

    run(x, w)
    if kind == "int8":
        for narrow in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int4):
            jax.jit(lambda x, w, n=narrow: x.astype(n).astype("float32") @ w.astype(n).astype("float32"))(x, w)
            jax.jit(lambda w, n=narrow: w.astype(n).astype(jnp.bfloat16).sum(0))(w)
