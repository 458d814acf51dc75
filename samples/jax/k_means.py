"""k-means until nothing moves: a while loop, argmin, and sums by segment."""

import jax
import jax.numpy as jnp

points = jax.random.normal(jax.random.key(0), (200, 2)) + jnp.repeat(
    jnp.array([[0.0, 0], [4, 4], [-4, 4], [0, -5]]), 50, 0
)


@jax.jit
def clusters(start):
    def move(carry):
        centres, _, count = carry
        nearest = jnp.argmin(jnp.sum((points[:, None] - centres) ** 2, -1), 1)
        sums = jax.ops.segment_sum(points, nearest, 4)
        sizes = jax.ops.segment_sum(jnp.ones(200), nearest, 4)
        new = sums / jnp.maximum(sizes, 1)[:, None]
        return new, jnp.abs(new - centres).max(), count + 1

    return jax.lax.while_loop(lambda c: (c[1] > 1e-4) & (c[2] < 50), move, (start, jnp.float32(1), 0))


centres, change, count = clusters(points[jnp.array([0, 60, 110, 170])])
print(int(count), float(change))
print(centres)
