"""A convolutional network of equinox with group normalisation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

keys = jax.random.split(jax.random.key(0), 3)
model = eqx.nn.Sequential(
    [
        eqx.nn.Conv2d(1, 8, 3, padding=1, key=keys[0]),
        eqx.nn.GroupNorm(2, 8),
        eqx.nn.Lambda(jax.nn.silu),
        eqx.nn.AvgPool2d(2, 2),
        eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(8 * 16, 3, key=keys[1]),
    ]
)
x = jax.random.normal(keys[2], (12, 1, 8, 8))
labels = jnp.arange(12) % 3
optimiser = optax.adam(1e-2)
state = optimiser.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit
def step(model, state):
    def loss(model):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(x), labels).mean()

    value, slopes = eqx.filter_value_and_grad(loss)(model)
    updates, state = optimiser.update(slopes, state)
    return eqx.apply_updates(model, updates), state, value


for number in range(20):
    model, state, value = step(model, state)
    if number % 5 == 0:
        print(number, float(value))
