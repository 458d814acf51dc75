"""A network of dm-haiku, whose parameters are a dictionary."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax


def forward(x):
    return hk.Sequential([hk.Linear(20), jax.nn.elu, hk.LayerNorm(-1, True, True), hk.Linear(1)])(x)


model = hk.without_apply_rng(hk.transform(forward))
x = jax.random.normal(jax.random.key(0), (30, 5))
y = jnp.linalg.norm(x, axis=1, keepdims=True)
params = model.init(jax.random.PRNGKey(0), x)
optimiser = optax.adam(1e-2)
state = optimiser.init(params)


@jax.jit
def step(params, state):
    value, slopes = jax.value_and_grad(lambda p: jnp.mean((model.apply(p, x) - y) ** 2))(params)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(params, updates), state, value


for number in range(40):
    params, state, value = step(params, state)
    if number % 10 == 0:
        print(number, float(value))
