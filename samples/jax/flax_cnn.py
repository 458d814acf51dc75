"""A convolutional network of flax.linen with batch normalisation, whose statistics are a state."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for features in (8, 16):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        return nn.Dense(4)(x.reshape(x.shape[0], -1))


net, key = Net(), jax.random.key(0)
x = jax.random.normal(key, (16, 12, 12, 1))
labels = jnp.arange(16) % 4
variables = net.init(key, x, True)
params, stats = variables["params"], variables["batch_stats"]
optimiser = optax.sgd(0.05, momentum=0.9)
state = optimiser.init(params)


@jax.jit
def step(params, stats, state):
    def loss(params):
        logits, new = net.apply({"params": params, "batch_stats": stats}, x, True, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), new["batch_stats"]

    (value, stats_), slopes = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state_ = optimiser.update(slopes, state)
    return optax.apply_updates(params, updates), stats_, state_, value


for number in range(20):
    params, stats, state, value = step(params, stats, state)
    if number % 5 == 0:
        print(number, float(value))
print(float(jax.tree.leaves(stats)[0].sum()))
