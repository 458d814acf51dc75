"""The parameters of an oscillator from its path: gradients through diffrax's solver."""

import diffrax
import jax
import jax.numpy as jnp
import optax

times = jnp.linspace(0.0, 4.0, 20)


def path(parameters):
    term = diffrax.ODETerm(lambda t, y, p: jnp.array([y[1], -p[0] * y[0] - p[1] * y[1]]))
    solution = diffrax.diffeqsolve(
        term, diffrax.Heun(), 0.0, 4.0, 0.05, jnp.array([1.0, 0.0]), args=parameters,
        saveat=diffrax.SaveAt(ts=times),
    )  # fmt: skip
    return solution.ys[:, 0]


wanted = path(jnp.array([4.0, 0.3]))
optimiser = optax.adam(0.1)


@jax.jit
def step(parameters, state):
    value, slopes = jax.value_and_grad(lambda p: jnp.mean((path(p) - wanted) ** 2))(parameters)
    updates, state = optimiser.update(slopes, state)
    return optax.apply_updates(parameters, updates), state, value


parameters = jnp.array([3.0, 0.1])
state = optimiser.init(parameters)
for number in range(20):
    parameters, state, value = step(parameters, state)
    if number % 5 == 0:
        print(number, float(value))
