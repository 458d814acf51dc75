"""Haiku networks, forward and backward."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
from jax import random
from registry import program

KEY = random.key(0)


def _both(function, *x):
    pure = hk.transform_with_state(function)
    p, state = jax.jit(pure.init)(KEY, *x)
    jax.jit(lambda p, s, *x: pure.apply(p, s, KEY, *x))(p, state, *x)
    jax.jit(
        jax.grad(lambda p, s, *x: (jax.tree.leaves(pure.apply(p, s, KEY, *x)[0])[0] ** 2).astype("float32").mean())
    )(p, state, *x)


@program(("float32", "bfloat16"))
def networks(kind):
    flat, image = random.normal(KEY, (6, 20), kind), random.normal(KEY, (2, 16, 16, 3), kind)
    line = random.normal(KEY, (12, 4, 10), kind)
    _both(lambda x: hk.nets.MLP([32, 16, 4], activation=jnp.tanh)(x), flat)
    _both(
        lambda x: hk.Sequential(
            [hk.Conv2D(8, 3, 2), jax.nn.relu, hk.MaxPool((2, 2, 1), (2, 2, 1), "SAME"), hk.Flatten(), hk.Linear(5)]
        )(x),
        image,
    )
    _both(lambda x: hk.BatchNorm(True, True, 0.9)(x, True), image)
    _both(
        lambda x: hk.dynamic_unroll(hk.LSTM(14), x, hk.LSTM(14).initial_state(4))[0].astype(kind),
        line.astype("float32"),
    )
    _both(lambda x: hk.dynamic_unroll(hk.GRU(14), x, hk.GRU(14).initial_state(4))[0], line.astype("float32"))
    _both(lambda x: hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling())(x, x, x), line)
    _both(lambda x: hk.Conv2DTranspose(4, 3, 2)(x), image)
    _both(lambda x: hk.SeparableDepthwiseConv2D(2, 3)(x), image)
    _both(lambda x: hk.DepthwiseConv2D(2, 3)(x), image)
    _both(lambda x: hk.InstanceNorm(True, True)(x), image)
    _both(lambda x: hk.nets.VectorQuantizer(10, 9, 0.25)(x, True)["quantize"], random.normal(KEY, (5, 10)))


@program(("float32",))
def small_resnet(kind):
    image = random.normal(KEY, (1, 48, 48, 3))
    config = {
        "blocks_per_group": (1, 1, 1, 1),
        "channels_per_group": (8, 16, 24, 32),
        "bottleneck": False,
        "use_projection": (True,) * 4,
    }
    _both(lambda x: hk.nets.ResNet(num_classes=7, **config)(x, True), image)
    _both(lambda x: hk.nets.MobileNetV1(num_classes=5)(x, True), image)
