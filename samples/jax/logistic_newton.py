"""Logistic regression by Newton's method: a Hessian and a linear solve a step."""

import jax
import jax.numpy as jnp

key = jax.random.key(1)
x = jax.random.normal(key, (200, 4))
y = (x @ jnp.array([2.0, -1.0, 0.0, 0.5]) + 0.5 * jax.random.normal(jax.random.key(2), (200,)) > 0).astype(jnp.float32)


def loss(w):
    z = x @ w
    return jnp.mean(jnp.logaddexp(0.0, z) - y * z) + 0.01 * w @ w


@jax.jit
def step(w):
    return w - jnp.linalg.solve(jax.hessian(loss)(w), jax.grad(loss)(w)), loss(w)


w = jnp.zeros(4)
for number in range(6):
    w, value = step(w)
    print(number, float(value))
