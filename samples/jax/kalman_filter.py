"""A Kalman filter as a scan, and the gradient of its likelihood."""

import jax
import jax.numpy as jnp

step_matrix = jnp.array([[1.0, 0.1], [0.0, 1.0]])
seen = jnp.cumsum(jax.random.normal(jax.random.key(0), (50,))) * 0.1


@jax.jit
def likelihood(log_noise):
    noise = jnp.exp(log_noise)

    def update(carry, y):
        mean, cov = carry
        mean, cov = step_matrix @ mean, step_matrix @ cov @ step_matrix.T + noise[0] * jnp.eye(2)
        gain, variance = cov[:, 0] / (cov[0, 0] + noise[1]), cov[0, 0] + noise[1]
        error = y - mean[0]
        carry = mean + gain * error, cov - jnp.outer(gain, cov[0])
        return carry, 0.5 * (error**2 / variance + jnp.log(variance))

    return jax.lax.scan(update, (jnp.zeros(2), jnp.eye(2)), seen)[1].sum()


print(*(float(v) for v in jax.tree.leaves(jax.value_and_grad(lambda v: likelihood(v))(jnp.array([-2.0, -1.0])))[:1]))
print(jax.grad(likelihood)(jnp.array([-2.0, -1.0])))
