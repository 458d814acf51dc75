"""Programs of eight devices: shardings that XLA partitions, and maps that say what each device does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from registry import program

KEY = random.key(0)


def _mesh(*sizes):
    names = ("x", "y", "z")[: len(sizes)]
    return jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def _put(mesh, array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


@program(("float32", "bfloat16"), devices=8)
def data_parallel(kind):
    mesh = _mesh(8)
    x = _put(mesh, random.normal(KEY, (64, 40), kind), "x")
    w1, w2 = (_put(mesh, random.normal(KEY, s, kind)) for s in ((40, 32), (32, 10)))

    def loss(w, x):
        return (jnp.tanh(x @ w[0]) @ w[1]).astype("float32").std()

    jax.jit(jax.value_and_grad(loss))((w1, w2), x)


@program(("float32", "bfloat16"), devices=8)
def tensor_parallel(kind):
    mesh = _mesh(2, 4)
    x = _put(mesh, random.normal(KEY, (16, 24, 32), kind), "x")
    up = _put(mesh, random.normal(KEY, (32, 64), kind), None, "y")
    down = _put(mesh, random.normal(KEY, (64, 32), kind), "y")

    @jax.jit
    def block(x, up, down):
        y = jax.nn.gelu(x @ up) @ down
        return y / jnp.sqrt((y.astype("float32") ** 2).mean(-1, keepdims=True)).astype(kind)

    block(x, up, down)
    jax.jit(jax.grad(lambda *a: block(*a).astype("float32").sum(), (0, 1, 2)))(x, up, down)
    rows = _put(mesh, random.normal(KEY, (64, 64), kind), "x", "y")
    for f in (
        lambda a: a @ a,
        lambda a: a.T,
        lambda a: jnp.sort(a, 0),
        lambda a: a.reshape(32, 128),
        lambda a: jnp.cumsum(a, 1),
        lambda a: a[5:20, ::2],
        lambda a: jnp.roll(a, 3, 0),
        lambda a: jax.nn.softmax(a),
        lambda a: jnp.concatenate([a, a[:8]]),
        lambda a: a.at[jnp.arange(5)].add(1),
        lambda a: a[jnp.array([1, 60, 7])],
        lambda a: jnp.pad(a, 3),
        lambda a: jnp.argmax(a, 1),
        lambda a: a.max(),
        lambda a: jnp.fft.fft(a.astype("float32")).real,
    ):
        jax.jit(f)(rows)
    image = _put(mesh, random.normal(KEY, (4, 16, 16, 8), kind), "x", "y")
    kernel = random.normal(KEY, (3, 3, 8, 8), kind)
    jax.jit(lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))(
        image, kernel
    )


@program(("float32", "int32"), devices=8)
def collectives(kind):
    mesh = _mesh(4, 2)
    x = jnp.arange(16 * 8).reshape(16, 8).astype(kind)
    ring = [(i, (i + 1) % 4) for i in range(4)]
    for f, spec in (
        (lambda a: lax.psum(a, "x"), P(None, "y")),
        (lambda a: lax.pmax(a, ("x", "y")), P()),
        (lambda a: lax.pmean(a.astype("float32"), "y"), P("x")),
        (lambda a: lax.all_gather(a, "x", tiled=True), P(None, "y")),
        (lambda a: lax.psum_scatter(a, "x", tiled=True), P("x", "y")),
        (lambda a: lax.ppermute(a, "x", ring), P("x", "y")),
        (lambda a: lax.all_to_all(a, "x", 0, 1, tiled=True), P("x", "y")),
        (lambda a: a * lax.axis_index("x") + lax.axis_index("y"), P("x", "y")),
        (lambda a: lax.all_gather(a, "y", axis=1), P("x", "y")),
        (lambda a: lax.fori_loop(0, 3, lambda i, b: lax.ppermute(b, "x", ring) + b, a), P("x", "y")),
        (lambda a: lax.pmin(a.sum(0), "y"), P("x")),
    ):
        jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x", "y"), out_specs=spec, check_vma=False))(x)


@program(("float32", "bfloat16"), devices=8)
def ring_attention(kind):
    mesh = _mesh(8)
    q = random.normal(KEY, (2, 64, 4, 8), kind)
    ring = [(i, (i + 1) % 8) for i in range(8)]

    def local(q, k, v):
        def turn(i, s):
            k, v, top, total, out = s
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype("float32")
            new = jnp.maximum(top, scores.max(-1))
            e, scale = jnp.exp(scores - new[..., None]), jnp.exp(top - new)
            total = total * scale + e.sum(-1)
            out = out * scale[..., None] + jnp.einsum("bhqk,bkhd->bhqd", e, v.astype("float32"))
            return lax.ppermute(k, "x", ring), lax.ppermute(v, "x", ring), new, total, out

        zero = jnp.zeros((2, 4, 8), "float32")
        k, v, top, total, out = lax.fori_loop(0, 8, turn, (k, v, zero - 1e30, zero, jnp.zeros((2, 4, 8, 8), "float32")))
        return (out / total[..., None]).transpose(0, 2, 1, 3).astype(kind)

    jax.jit(jax.shard_map(local, mesh=mesh, in_specs=P(None, "x"), out_specs=P(None, "x"), check_vma=False))(q, q, q)


@program(("float32",), devices=8)
def pipeline(kind):
    mesh = _mesh(8)
    w, x = random.normal(KEY, (8, 16, 16)) * 0.3, random.normal(KEY, (12, 4, 16))

    def local(w, x):
        def turn(c, i):
            here, out = c
            here = jnp.where(lax.axis_index("x") == 0, x[jnp.minimum(i, 11)], here)
            made = jnp.tanh(here @ w[0])
            out = lax.dynamic_update_index_in_dim(out, made, jnp.clip(i - 7, 0, 11), 0)
            return (lax.ppermute(made, "x", [(i, (i + 1) % 8) for i in range(8)]), out), None

        return lax.scan(turn, (jnp.zeros((4, 16)), jnp.zeros((12, 4, 16))), jnp.arange(19))[0][1][None]

    jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False))(w, x)
