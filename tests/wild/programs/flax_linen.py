"""Flax (linen and nnx) networks, trained with optax."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import random
from registry import program

FLOATS = ("float32", "bfloat16", "float64")


def _train(model, x, kind, optimiser=None, **keywords):
    variables = jax.jit(lambda k, x: model.init(k, x, **keywords))(random.key(0), x)
    optimiser = optimiser or optax.sgd(0.1)
    state = optimiser.init(variables["params"])
    rest = {k: v for k, v in variables.items() if k != "params"}

    def loss(p, x):
        out = model.apply({"params": p, **rest}, x, mutable=list(rest), **keywords)[0]
        leaf = jax.tree.leaves(out)[0]
        return (leaf.astype("float32") ** 2).mean()

    @jax.jit
    def step(p, state, x):
        value, grads = jax.value_and_grad(loss)(p, x)
        updates, state = optimiser.update(grads, state, p)
        return value, optax.apply_updates(p, updates), state

    jax.jit(lambda v, x: model.apply(v, x, mutable=list(rest), **keywords)[0])(variables, x)
    return step(variables["params"], state, x)


def _x(*shape, kind="float32"):
    return random.normal(random.key(7), shape, "float32").astype(kind)


@program(FLOATS)
def dense_norms(kind):
    for norm in (nn.LayerNorm, nn.RMSNorm, lambda **k: nn.GroupNorm(4, **k)):
        model = nn.Sequential([nn.Dense(48, dtype=kind), norm(dtype=kind), nn.gelu, nn.Dense(10, dtype=kind)])
        _train(model, _x(16, 30, kind=kind), kind)


class _Residual(nn.Module):
    kind: str

    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Conv(16, (3, 3), dtype=self.kind)(x)
        for width, stride in ((16, 1), (32, 2)):
            y = nn.BatchNorm(not train, dtype=self.kind)(nn.Conv(width, (3, 3), (stride,) * 2, dtype=self.kind)(x))
            y = nn.BatchNorm(not train, dtype=self.kind)(nn.Conv(width, (3, 3), dtype=self.kind)(nn.relu(y)))
            if x.shape != y.shape:
                x = nn.Conv(width, (1, 1), (stride,) * 2, dtype=self.kind)(x)
            x = nn.relu(x + y)
        return nn.Dense(10, dtype=self.kind)(x.mean((1, 2)))


@program(FLOATS)
def residual(kind):
    _train(_Residual(kind), _x(2, 32, 32, 3, kind=kind), kind, optax.adamw(1e-3), train=True)


@program(FLOATS)
def attention(kind):
    _train(nn.MultiHeadDotProductAttention(4, dtype=kind), _x(2, 33, 64, kind=kind), kind, optax.adam(1e-3))
    model = nn.SelfAttention(num_heads=8, qkv_features=48, dtype=kind, deterministic=True)
    _train(model, _x(3, 20, 40, kind=kind), kind)


@program(("float32", "bfloat16"))
def recurrent(kind):
    for cell in (nn.LSTMCell, nn.GRUCell, nn.SimpleCell, nn.OptimizedLSTMCell, nn.MGUCell):
        _train(nn.RNN(cell(24, dtype=kind)), _x(4, 15, 12, kind=kind), kind)
    _train(nn.Bidirectional(nn.RNN(nn.GRUCell(8)), nn.RNN(nn.GRUCell(8))), _x(4, 9, 6), kind)
    _train(nn.RNN(nn.ConvLSTMCell(4, (3, 3))), _x(2, 5, 8, 8, 3), kind)


@program(("float32", "bfloat16"))
def layers(kind):
    image, line = _x(2, 14, 14, 6, kind=kind), _x(3, 20, 6, kind=kind)
    for model in (
        nn.ConvTranspose(5, (3, 3), (2, 2), dtype=kind),
        nn.Conv(12, (5, 5), feature_group_count=3, dtype=kind),
        nn.Conv(8, (3, 3), kernel_dilation=(2, 2), dtype=kind),
        nn.Conv(8, (3, 3), padding="CIRCULAR", dtype=kind),
        nn.ConvLocal(4, (3, 3), dtype=kind),
        nn.InstanceNorm(dtype=kind),
        nn.WeightNorm(nn.Dense(7, dtype=kind)),
        nn.SpectralNorm(nn.Dense(7)),
        nn.Einsum((6, 4), "bhwc,cd->bhwd", dtype=kind),
        nn.PReLU(),
        nn.DenseGeneral((3, 4), axis=(-2, -1), dtype=kind),
    ):
        extra = {"update_stats": True} if isinstance(model, nn.SpectralNorm) else {}
        try:
            _train(model, image, kind, **extra)
        except TypeError:
            _train(nn.Sequential([model]), image, kind)
    _train(nn.Conv(9, (4,), (2,), dtype=kind), line, kind)
    for pool in (nn.max_pool, nn.avg_pool):
        _train(nn.Sequential([nn.Dense(6), lambda x, p=pool: p(x, (3, 3), (2, 2), "SAME")]), image, kind)
    tokens = jnp.arange(24).reshape(3, 8)
    jax.jit(nn.Embed(30, 16, dtype=kind).init_with_output)(random.key(0), tokens)
    jax.jit(lambda k, x: nn.Dropout(0.3, deterministic=False).apply({}, x, rngs={"dropout": k}))(random.key(1), line)


@program(("float32",))
def nnx_layers(kind):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.a, self.b = nnx.Linear(20, 32, rngs=rngs), nnx.Linear(32, 5, rngs=rngs)
            self.norm, self.drop = nnx.BatchNorm(32, rngs=rngs), nnx.Dropout(0.2, rngs=rngs)

        def __call__(self, x):
            return self.b(self.drop(nnx.relu(self.norm(self.a(x)))))

    model = Net(nnx.Rngs(0))
    optimiser = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimiser, x):
        value, grads = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
        optimiser.update(model, grads)
        return value

    step(model, optimiser, _x(16, 20))
