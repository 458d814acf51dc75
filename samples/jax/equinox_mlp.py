"""A network of equinox: a module is a tree, and only its arrays are trained."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(4, "scalar", 16, 2, key=jax.random.key(0))
x = jax.random.normal(jax.random.key(1), (50, 4))
y = jnp.max(x, 1)
optimiser = optax.adam(1e-2)
state = optimiser.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit
def step(model, state):
    value, slopes = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2))(model)
    updates, state = optimiser.update(slopes, state, model)
    return eqx.apply_updates(model, updates), state, value


for number in range(40):
    model, state, value = step(model, state)
    if number % 10 == 0:
        print(number, float(value))
