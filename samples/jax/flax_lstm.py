"""An LSTM of flax.linen that learns to add up what it reads."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Adder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.RNN(nn.LSTMCell(16))(x))[..., 0]


model, key = Adder(), jax.random.key(0)
x = jax.random.uniform(key, (8, 12, 1))
y = jnp.cumsum(x[..., 0], 1)
params = model.init(key, x)
optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(2e-2))
state = optimiser.init(params)


@jax.jit
def step(params, state):
    value, slopes = jax.value_and_grad(lambda p: jnp.mean((model.apply(p, x) - y) ** 2))(params)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(params, updates), state, value


for number in range(30):
    params, state, value = step(params, state)
    if number % 10 == 0:
        print(number, float(value))
