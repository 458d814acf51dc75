"""Hamiltonian Monte Carlo by blackjax: the first steps of a chain."""

import blackjax
import jax
import jax.numpy as jnp


def log_density(x):
    return -0.5 * jnp.sum(x["a"] ** 2 / jnp.array([1.0, 4.0])) - 0.5 * (x["b"] - x["a"][0]) ** 2


kernel = blackjax.hmc(log_density, step_size=0.2, inverse_mass_matrix=jnp.ones(3), num_integration_steps=5)
state = kernel.init({"a": jnp.array([1.0, -1.0]), "b": jnp.float32(0.5)})
step = jax.jit(kernel.step)
for key in jax.random.split(jax.random.key(0), 6):
    state, info = step(key, state)
    print(float(state.logdensity), float(info.acceptance_rate))
