"""REINFORCE on a walk along a line: sampled actions, a scan over time, gradients of the policy."""

import jax
import jax.numpy as jnp
import optax


def episode(weights, key):
    def move(position, key):
        logits = jnp.array([position, 1.0]) @ weights
        action = jax.random.categorical(key, logits)
        new = jnp.clip(position + jnp.where(action == 1, 0.1, -0.1), -1, 1)
        return new, (jax.nn.log_softmax(logits)[action], -jnp.abs(new - 0.5))

    _, (logs, rewards) = jax.lax.scan(move, jnp.float32(-0.5), jax.random.split(key, 20))
    returns = jnp.cumsum(rewards[::-1])[::-1]
    return -jnp.sum(logs * jax.lax.stop_gradient(returns + 10.0)), rewards.sum()


@jax.jit
def step(weights, state, key):
    def loss(weights):
        losses, rewards = jax.vmap(lambda k: episode(weights, k))(jax.random.split(key, 32))
        return losses.mean(), rewards.mean()

    (_, reward), slopes = jax.value_and_grad(loss, has_aux=True)(weights)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(weights, updates), state, reward


optimiser = optax.adam(0.05)
weights = jnp.zeros((2, 2))
state = optimiser.init(weights)
for number in range(20):
    weights, state, reward = step(weights, state, jax.random.key(number))
    if number % 5 == 0:
        print(number, float(reward))
