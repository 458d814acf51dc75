"""A variational auto-encoder: random numbers inside of the loss."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Vae(nn.Module):
    @nn.compact
    def __call__(self, x, key):
        h = nn.relu(nn.Dense(32)(x))
        mean, log_variance = nn.Dense(4)(h), nn.Dense(4)(h)
        z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        return nn.Dense(x.shape[-1])(nn.relu(nn.Dense(32)(z))), mean, log_variance


model, key = Vae(), jax.random.key(0)
x = (jax.random.uniform(key, (32, 20)) > 0.6).astype(jnp.float32)
params = model.init(key, x, key)
optimiser = optax.adam(5e-3)
state = optimiser.init(params)


@jax.jit
def step(params, state, key):
    def loss(params):
        logits, mean, log_variance = model.apply(params, x, key)
        likelihood = optax.sigmoid_binary_cross_entropy(logits, x).sum(1)
        divergence = -0.5 * jnp.sum(1 + log_variance - mean**2 - jnp.exp(log_variance), 1)
        return jnp.mean(likelihood + divergence)

    value, slopes = jax.value_and_grad(loss)(params)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(params, updates), state, value


for number in range(40):
    params, state, value = step(params, state, jax.random.fold_in(key, number))
    if number % 10 == 0:
        print(number, float(value))
