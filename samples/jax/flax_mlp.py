"""A network of flax.linen with dropout, trained with optax."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState


class Model(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.Dense(32)(x))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(3)(x)


model, key = Model(), jax.random.key(0)
x = jax.random.normal(key, (64, 8))
labels = jnp.argmax(x[:, :3], 1)
state = TrainState.create(
    apply_fn=model.apply, params=model.init(key, x, False)["params"], tx=optax.adamw(1e-2)
)


@jax.jit
def step(state, key):
    def loss(params):
        logits = state.apply_fn({"params": params}, x, True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, slopes = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=slopes), value


for number in range(40):
    state, value = step(state, jax.random.fold_in(key, number))
    if number % 10 == 0:
        print(number, float(value))
