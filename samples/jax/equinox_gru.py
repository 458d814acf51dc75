"""A GRU of equinox over sequences, with a scan inside of a vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Reader(eqx.Module):
    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(2, 12, key=first)
        self.last = eqx.nn.Linear(12, 1, key=second)

    def __call__(self, sequence):
        hidden, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), jnp.zeros(12), sequence)
        return self.last(hidden)[0]


model = Reader(jax.random.key(0))
x = jax.random.normal(jax.random.key(1), (24, 10, 2))
y = (x[:, 0, 0] * x[:, -1, 1] > 0).astype(jnp.float32)
optimiser = optax.adam(2e-2)
state = optimiser.init(eqx.filter(model, eqx.is_inexact_array))


@eqx.filter_jit
def step(model, state):
    def loss(model):
        return optax.sigmoid_binary_cross_entropy(jax.vmap(model)(x), y).mean()

    value, slopes = eqx.filter_value_and_grad(loss)(model)
    updates, state = optimiser.update(slopes, state)
    return eqx.apply_updates(model, updates), state, value


for number in range(30):
    model, state, value = step(model, state)
    if number % 10 == 0:
        print(number, float(value))
