"""A Gaussian process: Cholesky factor, triangular solves, and gradients through both."""

import jax
import jax.numpy as jnp

x = jnp.linspace(-3, 3, 25)
y = jnp.sin(x) + 0.1 * jax.random.normal(jax.random.key(0), x.shape)


def loss(parameters):
    scale, length, noise = jnp.exp(parameters)
    kernel = scale * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + (noise + 1e-4) * jnp.eye(25)
    factor = jnp.linalg.cholesky(kernel)
    solved = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * solved @ solved + jnp.sum(jnp.log(jnp.diag(factor)))


@jax.jit
def step(parameters):
    value, slopes = jax.value_and_grad(loss)(parameters)
    return parameters - 0.01 * slopes, value


parameters = jnp.array([0.0, 0.0, -2.0])
for number in range(30):
    parameters, value = step(parameters)
    if number % 10 == 0:
        print(number, float(value))
