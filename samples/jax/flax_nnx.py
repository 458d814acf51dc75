"""The same kind of training with flax.nnx: modules that are changed in place."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Model(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(6, 24, rngs=rngs)
        self.norm = nnx.LayerNorm(24, rngs=rngs)
        self.last = nnx.Linear(24, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.silu(self.norm(self.first(x))))


model = Model(nnx.Rngs(0))
optimiser = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(1), (40, 6))
y = jnp.prod(x[:, :2], 1, keepdims=True)


@nnx.jit
def step(model, optimiser):
    value, slopes = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimiser.update(model, slopes)
    return value


for number in range(40):
    value = step(model, optimiser)
    if number % 10 == 0:
        print(number, float(value))
