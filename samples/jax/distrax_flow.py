"""A normalising flow of distrax, fitted by maximum likelihood."""

import distrax
import jax
import jax.numpy as jnp
import optax

data = jnp.exp(0.5 * jax.random.normal(jax.random.key(0), (200,))) + 1.0


def likelihood(parameters):
    flow = distrax.Chain(
        [distrax.ScalarAffine(parameters[0], jnp.exp(parameters[1])), distrax.Lambda(jnp.exp, jnp.log)]
    )
    return -jnp.mean(distrax.Transformed(distrax.Normal(0.0, jnp.exp(parameters[2])), flow).log_prob(data + 2.0))


optimiser = optax.adam(0.05)


@jax.jit
def step(parameters, state):
    value, slopes = jax.value_and_grad(likelihood)(parameters)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(parameters, updates), state, value


parameters = jnp.zeros(3)
state = optimiser.init(parameters)
for number in range(20):
    parameters, state, value = step(parameters, state)
    if number % 5 == 0:
        print(number, float(value))
