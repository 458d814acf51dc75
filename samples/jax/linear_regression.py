"""Least squares by gradient descent, with jax alone."""

import jax
import jax.numpy as jnp

key = jax.random.key(0)
x = jax.random.normal(key, (100, 3))
y = x @ jnp.array([1.0, -2.0, 0.5]) + 0.3


@jax.jit
def step(weights):
    value, slope = jax.value_and_grad(lambda w: jnp.mean((x @ w[:3] + w[3] - y) ** 2))(weights)
    return weights - 0.1 * slope, value


weights = jnp.zeros(4)
for number in range(50):
    weights, value = step(weights)
    if number % 10 == 0:
        print(number, float(value))
print(weights)
