"""More programs of eight devices: ways to train, to move, and to solve."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from programs._filled import normal
from registry import program


def _mesh(*sizes):
    return jax.make_mesh(sizes, ("x", "y", "z")[: len(sizes)], axis_types=(AxisType.Auto,) * len(sizes))


def _put(mesh, array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def _mapped(mesh, f, given, wanted):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=given, out_specs=wanted, check_vma=False))


@program(("float32", "bfloat16"), devices=8)
def sharded_parameters_and_adam(kind):
    mesh = _mesh(8)
    p = {n: _put(mesh, normal(i, (64, 64), kind, 0.1), "x", None) for i, n in enumerate("abc")}
    x = _put(mesh, normal(9, (32, 64), kind), "x", None)
    optimiser = optax.adamw(1e-2)
    state = jax.tree.map(lambda a: _put(mesh, np.asarray(a), *(("x", None) if a.ndim == 2 else ())), optimiser.init(p))

    @jax.jit
    def step(p, state, x):
        def loss(p):
            return (jax.nn.gelu(jax.nn.gelu(x @ p["a"]) @ p["b"]) @ p["c"]).astype("float32").var()

        value, grads = jax.value_and_grad(loss)(p)
        updates, state = optimiser.update(grads, state, p)
        return value, optax.apply_updates(p, updates), state

    step(p, state, x)


@program(("float32", "bfloat16"), devices=8)
def heads_over_devices(kind):
    mesh = _mesh(2, 4)
    x = _put(mesh, normal(0, (4, 32, 64), kind), "x")
    w = [_put(mesh, normal(n, (64, 64), kind, 0.1), None, "y") for n in (1, 2, 3)]
    out = _put(mesh, normal(4, (64, 64), kind, 0.1), "y", None)

    def attend(x, q, k, v, o):
        q, k, v = ((x @ a).reshape(4, 32, 8, 8) for a in (q, k, v))
        s = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k).astype("float32")).astype(kind)
        return x + jnp.einsum("bhqk,bkhd->bqhd", s, v).reshape(4, 32, 64) @ o

    jax.jit(attend)(x, *w, out)
    jax.jit(jax.grad(lambda *a: attend(*a).astype("float32").sum(), (1, 4)))(x, *w, out)


@program(("float32",), devices=8)
def experts_over_devices(kind):
    mesh = _mesh(8)

    def local(x, gate, up, down):
        which = jnp.argmax(x @ gate, -1)
        hot = jax.nn.one_hot(which, 8, dtype="int32")
        place = (jnp.cumsum(hot, 0) * hot).sum(-1) - 1
        box = jnp.zeros((8, 6, 16)).at[which, place].set(x, mode="drop")
        got = lax.all_to_all(box, "x", 0, 0, tiled=True)
        made = jax.nn.relu(got.reshape(48, 16) @ up[0]) @ down[0]
        back = lax.all_to_all(made.reshape(8, 6, 16), "x", 0, 0, tiled=True)
        return jnp.where((place < 6)[:, None], back[which, jnp.minimum(place, 5)], 0)

    f = _mapped(mesh, local, (P("x"), P(), P("x"), P("x")), P("x"))
    a = normal(0, (128, 16)), normal(1, (16, 8)), normal(2, (8, 16, 32)), normal(3, (8, 32, 16))
    f(*a)
    jax.jit(jax.grad(lambda *a: (f(*a) ** 2).sum(), (0, 2, 3)))(*a)


@program(("float32", "float64"), devices=8)
def stencil_with_halos(kind):
    mesh = _mesh(4, 2)

    def local(u):
        def edges(u, axis, name, size):
            last, first = (lax.slice_in_dim(u, *s, axis=axis) for s in ((u.shape[axis] - 1, u.shape[axis]), (0, 1)))
            before = lax.ppermute(last, name, [(i, (i + 1) % size) for i in range(size)])
            after = lax.ppermute(first, name, [(i, (i - 1) % size) for i in range(size)])
            return jnp.concatenate([before, u, after], axis)

        def turn(_, u):
            p, q = edges(u, 0, "x", 4), edges(u, 1, "y", 2)
            return u + 0.1 * (p[2:] + p[:-2] + q[:, 2:] + q[:, :-2] - 4 * u)

        u = lax.fori_loop(0, 6, turn, u)
        return u, lax.psum((u**2).sum(), ("x", "y"))

    _mapped(mesh, local, P("x", "y"), (P("x", "y"), P()))(normal(0, (48, 40), kind))


@program(("float32",), devices=8)
def fourier_over_devices(kind):
    mesh = _mesh(8)

    def local(a):
        a = jnp.fft.fft(a, axis=1)
        a = lax.all_to_all(a, "x", 1, 0, tiled=True)
        a = jnp.fft.fft(a, axis=0)
        return lax.all_to_all(a * jnp.exp(-jnp.abs(a)), "x", 0, 1, tiled=True)

    _mapped(mesh, local, P("x"), P("x"))(normal(0, (48, 64)).astype("complex64"))


@program(("float32", "bfloat16"), devices=8)
def products_in_turns(kind):
    mesh = _mesh(8)
    ring = [(i, (i + 1) % 8) for i in range(8)]

    def gathered(x, w):
        me = lax.axis_index("x")

        def turn(n, s):
            x, out = s
            at = (me - n) % 8
            out = lax.dynamic_update_slice(out, (x @ w).astype(kind), (at * x.shape[0], 0))
            return lax.ppermute(x, "x", ring), out

        return lax.fori_loop(0, 8, turn, (x, jnp.zeros((8 * x.shape[0], w.shape[1]), kind)))[1]

    def scattered(x, w):
        me = lax.axis_index("x")

        def turn(n, total):
            at = (me + 7 - n) % 8
            part = lax.dynamic_slice(x, (at * 8, 0), (8, x.shape[1])) @ w
            return lax.ppermute(total, "x", ring) * (n > 0) + part

        return lax.fori_loop(0, 8, turn, jnp.zeros((8, w.shape[1]), kind))

    x, w = normal(0, (64, 40), kind), normal(1, (40, 48), kind)
    _mapped(mesh, gathered, (P("x"), P(None, "x")), P(None, "x"))(x, w)
    _mapped(mesh, scattered, (P(None, "x"), P("x")), P("x"))(x, w)


@program(("float32",), devices=8)
def vocabulary_over_devices(kind):
    mesh = _mesh(8)

    def local(x, table, labels):
        logits = x @ table.T
        top = lax.pmax(lax.stop_gradient(logits.max(-1)), "x")
        total = lax.psum(jnp.exp(logits - top[:, None]).sum(-1), "x")
        at = labels - lax.axis_index("x") * table.shape[0]
        mine = (at >= 0) & (at < table.shape[0])
        told = jnp.take_along_axis(logits, jnp.clip(at, 0, table.shape[0] - 1)[:, None], 1)[:, 0]
        return (jnp.log(total) + top - lax.psum(jnp.where(mine, told, 0), "x")).mean()

    f = _mapped(mesh, local, (P(), P("x"), P()), P())
    a = normal(0, (30, 24)), normal(1, (800, 24)), np.arange(30) * 26
    f(*a)
    jax.jit(jax.grad(f, (0, 1)))(*a)


@program(("float32",), devices=8)
def statistics_over_devices(kind):
    mesh = _mesh(8)
    x = _put(mesh, normal(0, (64, 12)), "x")
    jax.jit(lambda x: (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5))(x)
    jax.jit(lambda x: jnp.linalg.svd(jnp.cov(x.T))[1])(x)
    jax.jit(lambda x: jnp.median(x, 0))(x)
    jax.jit(lambda x: lax.top_k(x.T, 5))(x)
    jax.jit(lambda x: jnp.histogram(x, 12)[0])(x)

    def means(x, c):
        def turn(_, c):
            which = ((x[:, None] - c) ** 2).sum(-1).argmin(-1)
            n = lax.psum(jnp.zeros(5).at[which].add(1), "x")
            return lax.psum(jnp.zeros((5, 12)).at[which].add(x), "x") / jnp.maximum(n, 1)[:, None]

        return lax.fori_loop(0, 5, turn, c)

    _mapped(mesh, means, (P("x"), P()), P())(np.asarray(x), normal(1, (5, 12)))


@program(("float32",), devices=8)
def sorted_over_devices(kind):
    mesh = _mesh(8)

    def local(x):
        me = lax.axis_index("x")
        x = jnp.sort(x)
        for n in range(8):
            low = (me % 2) == (n % 2)
            partner = jnp.where(low, me + 1, me - 1)
            up = lax.ppermute(x, "x", [(i, i + 1) for i in range(7)])
            down = lax.ppermute(x, "x", [(i + 1, i) for i in range(7)])
            both = jnp.sort(jnp.concatenate([x, jnp.where(low, down, up)]))
            valid = (partner >= 0) & (partner < 8)
            x = jnp.where(valid, jnp.where(low, both[: x.size], both[x.size :]), x)
        return x

    _mapped(mesh, local, P("x"), P("x"))(normal(0, 160))


@program(("float32",), devices=8)
def images_over_devices(kind):
    mesh = _mesh(8)
    x = _put(mesh, normal(0, (2, 64, 48, 8)), None, "x")
    w = _put(mesh, normal(1, (3, 3, 8, 16), scale=0.1))

    def net(w, x):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        return (y - y.mean((0, 1, 2))) / jnp.sqrt(y.var((0, 1, 2)) + 1e-5)

    jax.jit(net)(w, x)
    jax.jit(jax.grad(lambda w, x: (net(w, x) ** 3).sum()))(w, x)


@program(("float32", "int8"), devices=8)
def compressed_gradients(kind):
    mesh = _mesh(8)

    def local(g):
        if kind == "int8":
            scale = lax.pmax(jnp.abs(g).max(), "x") / 127
            return lax.psum(jnp.round(g / scale).astype("int8").astype("int32"), "x") * scale / 8
        part = lax.psum_scatter(g.astype("bfloat16"), "x", tiled=True)
        return lax.all_gather(part, "x", tiled=True).astype("float32") / 8

    _mapped(mesh, local, P("x"), P())(normal(0, (8 * 64, 20)))


@program(("float32", "float64"), devices=8)
def conjugate_gradients_over_devices(kind):
    mesh = _mesh(8)

    def local(a, b):
        def turn(_, s):
            x, r, p, rr = s
            ap = a @ lax.all_gather(p, "x", tiled=True)
            step = rr / lax.psum(p @ ap, "x")
            x, r = x + step * p, r - step * ap
            new = lax.psum(r @ r, "x")
            return x, r, r + new / rr * p, new

        return lax.fori_loop(0, 8, turn, (jnp.zeros_like(b), b, b, lax.psum(b @ b, "x")))[0]

    m = normal(0, (64, 64), kind)
    _mapped(mesh, local, (P("x"), P("x")), P("x"))(m @ m.T / 64 + np.eye(64, dtype=kind), normal(1, 64, kind))
