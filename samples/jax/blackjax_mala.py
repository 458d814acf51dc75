"""The Metropolis-adjusted Langevin algorithm of blackjax, in a scan."""

import blackjax
import jax
import jax.numpy as jnp

kernel = blackjax.mala(lambda x: -jnp.sum((x - 1.0) ** 4), step_size=0.05)


@jax.jit
def chain(key):
    state = kernel.init(jnp.zeros(3))
    states = jax.lax.scan(lambda s, k: (kernel.step(k, s)[0],) * 2, state, jax.random.split(key, 20))[1]
    return states.logdensity


print(chain(jax.random.key(0))[::4])
