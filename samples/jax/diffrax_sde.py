"""Paths of a stochastic differential equation, all at once."""

import diffrax
import jax
import jax.numpy as jnp


@jax.jit
@jax.vmap
def path(key):
    motion = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: jnp.float32(0.4), motion)
    )
    return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.05, jnp.float32(1.0)).ys[-1]


found = path(jax.random.split(jax.random.key(0), 64))
print(float(found.mean()), float(found.std()))
