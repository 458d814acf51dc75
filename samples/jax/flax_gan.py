"""Two networks against each other, each with an optimiser of its own."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Net(nn.Module):
    outputs: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.outputs)(nn.leaky_relu(nn.Dense(32)(x)))


generator, critic = Net(2), Net(1)
key = jax.random.key(0)
noise = jax.random.normal(key, (64, 4))
real = jnp.stack([jnp.cos(jnp.arange(64.0)), jnp.sin(jnp.arange(64.0))], 1)
g, c = generator.init(key, noise), critic.init(key, real)
optimiser = optax.adam(1e-2, b1=0.5)
g_state, c_state = optimiser.init(g), optimiser.init(c)


@jax.jit
def step(g, c, g_state, c_state):
    def critic_loss(c):
        fake = critic.apply(c, generator.apply(g, noise))
        return jnp.mean(nn.softplus(fake)) + jnp.mean(nn.softplus(-critic.apply(c, real)))

    def generator_loss(g):
        return jnp.mean(nn.softplus(-critic.apply(c, generator.apply(g, noise))))

    c_value, slopes = jax.value_and_grad(critic_loss)(c)
    updates, c_state = optimiser.update(slopes, c_state)
    c = optax.apply_updates(c, updates)
    g_value, slopes = jax.value_and_grad(generator_loss)(g)
    updates, g_state = optimiser.update(slopes, g_state)
    return optax.apply_updates(g, updates), c, g_state, c_state, (c_value, g_value)


for number in range(30):
    g, c, g_state, c_state, values = step(g, c, g_state, c_state)
    if number % 10 == 0:
        print(number, *map(float, values))
