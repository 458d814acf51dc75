"""Rosenbrock's function by optax's L-BFGS, whose line search is a loop of its own."""

import jax
import jax.numpy as jnp
import optax


def function(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


optimiser = optax.lbfgs()
value_and_slope = optax.value_and_grad_from_state(function)


@jax.jit
def step(x, state):
    value, slope = value_and_slope(x, state=state)
    updates, state = optimiser.update(slope, state, x, value=value, grad=slope, value_fn=function)
    return optax.apply_updates(x, updates), state, value


x = jnp.array([-1.0, 1.5, 0.5])
state = optimiser.init(x)
for number in range(12):
    x, state, value = step(x, state)
    if number % 3 == 0:
        print(number, float(value))
