"""Whole networks of haiku, forward and a step of training."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from programs._filled import filled, normal
from registry import program


def _train(function, loss, *x, optimiser=None):
    pure, optimiser = hk.transform_with_state(function), optimiser or optax.adam(1e-3)
    p, rest = filled(jax.eval_shape(pure.init, jax.random.key(0), *x))
    state = filled(jax.eval_shape(optimiser.init, p))

    @jax.jit
    def step(p, rest, state, seed, *x):
        def measured(p):
            out, changed = pure.apply(p, rest, jax.random.key(seed), *x)
            return loss(out).astype("float32"), changed

        (value, changed), grads = jax.value_and_grad(measured, has_aux=True)(p)
        updates, state = optimiser.update(grads, state, p)
        return value, optax.apply_updates(p, updates), changed, state

    jax.jit(lambda p, s, *x: pure.apply(p, s, jax.random.key(1), *x)[0])(p, rest, *x)
    step(p, rest, state, np.uint32(3), *x)


def _square(out):
    return (out.astype("float32") ** 2).mean()


@program(("float32",))
def residual_network(kind):
    def net(x):
        return hk.nets.ResNet(
            (1, 1, 1, 1),
            num_classes=20,
            resnet_v2=True,
            bottleneck=True,
            channels_per_group=(32, 64, 64, 128),
            use_projection=(True, True, True, True),
        )(x, True)

    _train(net, _square, normal(0, (2, 64, 64, 3)), optimiser=optax.sgd(0.1, 0.9))


@program(("float32", "bfloat16"))
def encoder_of_text(kind):
    def net(tokens):
        x = hk.Embed(500, 64)(tokens).astype(kind)
        for _ in range(2):
            y = hk.LayerNorm(-1, True, True)(x)
            mask = jnp.tril(jnp.ones((1, 1, 40, 40)))
            x = x + hk.MultiHeadAttention(4, 16, w_init=hk.initializers.VarianceScaling())(y, y, y, mask)
            y = hk.LayerNorm(-1, True, True)(x)
            y = hk.Linear(64)(jax.nn.gelu(hk.Linear(256)(y)))
            x = x + hk.dropout(hk.next_rng_key(), 0.1, y)
        return hk.Linear(500)(x)

    tokens = np.random.default_rng(0).integers(0, 500, (4, 40)).astype("int32")
    _train(
        net, lambda out: optax.softmax_cross_entropy_with_integer_labels(out.astype("float32"), tokens).mean(), tokens
    )


@program(("float32",))
def recurrent_core(kind):
    def net(x):
        core = hk.DeepRNN([hk.Linear(32), jax.nn.relu, hk.LSTM(32), hk.GRU(24)])
        out, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return hk.BatchApply(hk.Linear(5))(out)

    _train(net, _square, normal(0, (30, 6, 20)), optimiser=optax.rmsprop(1e-3))


@program(("float32",))
def scene_of_slots(kind):
    def net(x):
        x = hk.Conv2D(32, 5, 2)(x).reshape(x.shape[0], -1, 32)
        x = hk.LayerNorm(-1, True, True)(x)
        slots = jnp.broadcast_to(hk.get_parameter("slots", (5, 32), init=jnp.ones), (x.shape[0], 5, 32))
        k, v, q, cell = hk.Linear(32, False), hk.Linear(32, False), hk.Linear(32, False), hk.GRU(32)
        k, v = k(x), v(x)
        for _ in range(3):
            a = jax.nn.softmax(jnp.einsum("bsd,bnd->bns", q(slots), k) / 32**0.5)
            a = a / (a.sum(1, keepdims=True) + 1e-8)
            new = jnp.einsum("bns,bnd->bsd", a, v)
            slots = cell(new.reshape(-1, 32), slots.reshape(-1, 32))[0].reshape(slots.shape)
        y = jnp.broadcast_to(slots[:, :, None, None], (*slots.shape[:2], 4, 4, 32)).reshape(-1, 4, 4, 32)
        y = hk.Conv2DTranspose(4, 5, 4)(jax.nn.relu(hk.Conv2DTranspose(16, 5, 2)(y)))
        y = y.reshape(x.shape[0], 5, 32, 32, 4)
        return (jax.nn.softmax(y[..., 3:], 1) * y[..., :3]).sum(1)

    x = normal(0, (2, 32, 32, 3))
    _train(net, lambda out: ((out - x) ** 2).mean(), x)


@program(("float32",))
def quantised_autoencoder(kind):
    def net(x):
        z = hk.Conv2D(16, 4, 4)(x)
        found = hk.nets.VectorQuantizerEMA(16, 32, 0.25, 0.99)(z, True)
        return hk.Conv2DTranspose(3, 4, 4)(found["quantize"]), found["loss"]

    x = normal(0, (3, 24, 24, 3))
    _train(net, lambda out: ((out[0] - x) ** 2).mean() + out[1], x)


@program(("float32",))
def spectral_norms(kind):
    def net(x):
        for width in (16, 32):
            x = jax.nn.leaky_relu(hk.Conv2D(width, 4, 2)(hk.BatchNorm(True, True, 0.9)(x, True)))
        x = x.reshape(x.shape[0], -1)
        return x @ hk.SpectralNorm()(hk.get_parameter("w", (x.shape[1], 8), init=hk.initializers.RandomNormal()))

    _train(net, _square, normal(0, (4, 24, 24, 3)))
