"""Graph networks of jraph."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jraph
from jax import random
from registry import program

KEY = random.key(0)


@program(("float32", "bfloat16"))
def graphs(kind):
    senders, receivers = jnp.arange(30) % 10, (jnp.arange(30) * 7 + 1) % 10
    graph = jraph.GraphsTuple(
        random.normal(KEY, (10, 8), kind),
        random.normal(KEY, (30, 4), kind),
        receivers,
        senders,
        jnp.ones((2, 3), kind),
        jnp.array([6, 4]),
        jnp.array([18, 12]),
    )

    def update(*x):
        return jnp.tanh(sum(a.sum(-1, keepdims=True) for a in x))

    jax.jit(jraph.GraphNetwork(update, update, update))(graph)
    jax.jit(jraph.InteractionNetwork(update, update))(graph)
    jax.jit(jraph.GraphConvolution(lambda n: n * 2, symmetric_normalization=True))(graph)
    jax.jit(jraph.GAT(lambda n: n, lambda s, r, e: (s * r).sum(-1, keepdims=True)))(graph)
    for function in (
        jraph.segment_sum,
        jraph.segment_mean,
        jraph.segment_max,
        jraph.segment_softmax,
        jraph.segment_variance,
    ):
        jax.jit(lambda e, f=function: f(e, receivers, 10))(graph.edges)
        jax.jit(jax.grad(lambda e, f=function: (f(e, receivers, 10) ** 2).astype("float32").sum()))(graph.edges)
