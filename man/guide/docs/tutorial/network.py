"""Write a JAX function as HLO text: network.hlo, and what XLA makes of it."""

import jax
import jax.numpy as jnp


def network(x, w1, gain, w2):
    h = jax.nn.relu((x @ w1) * 0.125)
    h = h - h.mean(axis=-1, keepdims=True)
    h = h * jax.lax.rsqrt((h * h).mean(axis=-1, keepdims=True) + 1e-5)
    h = jax.nn.relu(h * gain)
    return jax.nn.softmax(h @ w2)


shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in [(32, 256), (256, 512), (512,), (512, 10)]]
lowered = jax.jit(network).lower(*shapes)
with open("network.hlo", "w") as file:
    file.write(lowered.as_text(dialect="hlo"))
with open("network_optimised_by_xla.hlo", "w") as file:
    file.write(lowered.compile().as_text())
