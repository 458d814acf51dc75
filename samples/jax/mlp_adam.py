"""A small network trained with optax's Adam."""

import jax
import jax.numpy as jnp
import optax

keys = jax.random.split(jax.random.key(0), 4)
sizes = [(13, 64), (64, 64), (64, 1)]
weights = [
    {"w": jax.random.normal(k, s) / jnp.sqrt(s[0]), "b": jnp.zeros(s[1])} for k, s in zip(keys, sizes, strict=False)
]
x = jax.random.normal(keys[3], (32, 13))
y = jnp.sin(x.sum(1, keepdims=True))
optimiser = optax.adam(1e-2)


def loss(weights):
    h = x
    for layer in weights[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return jnp.mean((h @ weights[-1]["w"] + weights[-1]["b"] - y) ** 2)


@jax.jit
def step(weights, state):
    value, slopes = jax.value_and_grad(loss)(weights)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(weights, updates), state, value


state = optimiser.init(weights)
for number in range(100):
    weights, state, value = step(weights, state)
    if number % 20 == 0:
        print(number, float(value))
