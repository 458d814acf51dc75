"""Distributions, flows and Markov models of distrax."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp
from jax import random
from registry import program

KEY = random.key(0)


@program(("float32",))
def distributions(kind):
    z = random.normal(KEY, (20, 3))
    laws = [
        distrax.Normal(0.0, 2.0),
        distrax.MultivariateNormalDiag(jnp.zeros(3), jnp.ones(3)),
        distrax.Laplace(0.0, 1.0),
        distrax.MultivariateNormalTri(jnp.zeros(3), jnp.tril(jnp.ones((3, 3)))),
        distrax.Gumbel(0.0, 1.0),
        distrax.Logistic(0.0, 1.0),
        distrax.MixtureSameFamily(distrax.Categorical(jnp.zeros(4)), distrax.Normal(jnp.arange(4.0), jnp.ones(4))),
        distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Tanh()),
        distrax.Uniform(-5.0, 5.0),
        distrax.VonMises(0.0, 2.0),
    ]
    for law in laws:
        x = jnp.tanh(z) if isinstance(law, distrax.Transformed) else z
        jax.jit(lambda x, d=law: d.log_prob(x))(x)
        jax.jit(lambda k, d=law: d.sample(seed=k, sample_shape=(7,)))(random.PRNGKey(1))
    hmm = distrax.HMM(
        distrax.Categorical(jnp.zeros(3)),
        distrax.Categorical(jnp.ones((3, 3))),
        distrax.Normal(jnp.arange(3.0), jnp.ones(3)),
    )
    jax.jit(hmm.viterbi)(z[:, 0])
    jax.jit(hmm.forward_backward)(z[:, 0])
    mask = jnp.arange(3) % 2 == 0
    flow = distrax.MaskedCoupling(
        mask,
        conditioner=lambda x: jnp.stack([x, x * 0.1], -1),
        bijector=lambda p: distrax.ScalarAffine(p[..., 0], p[..., 1]),
    )
    jax.jit(flow.forward_and_log_det)(z)
    spline = distrax.RationalQuadraticSpline(random.normal(KEY, (20, 3, 16)), -3.0, 3.0)
    jax.jit(spline.forward_and_log_det)(z)
    jax.jit(spline.inverse_and_log_det)(z)
