"""A neural differential equation: equinox's network as the field, diffrax's solver, optax's optimiser."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

times = jnp.linspace(0.0, 1.0, 8)
starts = jax.random.normal(jax.random.key(1), (6, 2))
turns = jnp.stack([jnp.cos(2 * times), jnp.sin(2 * times)])
wanted = jnp.stack(
    [starts[:, :1] * turns[0] - starts[:, 1:] * turns[1], starts[:, :1] * turns[1] + starts[:, 1:] * turns[0]], -1
)
model = eqx.nn.MLP(2, 2, 16, 1, activation=jnp.tanh, key=jax.random.key(0))


def path(model, start):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: model(y)), diffrax.Tsit5(), 0.0, 1.0, 0.1, start,
        saveat=diffrax.SaveAt(ts=times),
    )  # fmt: skip
    return solution.ys


optimiser = optax.adam(2e-2)
state = optimiser.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit
def step(model, state):
    def loss(model):
        return jnp.mean((jax.vmap(lambda s: path(model, s))(starts) - wanted) ** 2)

    value, slopes = eqx.filter_value_and_grad(loss)(model)
    updates, state = optimiser.update(slopes, state)
    return eqx.apply_updates(model, updates), state, value


for number in range(20):
    model, state, value = step(model, state)
    if number % 5 == 0:
        print(number, float(value))
