"""Bayesian regression by stochastic variational inference in numpyro."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

x = jax.random.normal(jax.random.key(0), (60, 2))
y = x @ jnp.array([1.5, -0.7]) + 0.2


def model(x, y):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ weights + bias, noise), obs=y)


inference = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
state = inference.init(jax.random.key(1), x, y)
update = jax.jit(inference.update)
for number in range(60):
    state, value = update(state, x, y)
    if number % 15 == 0:
        print(number, float(value))
