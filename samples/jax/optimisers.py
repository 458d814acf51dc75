"""Many of optax's optimisers on one badly scaled function."""

import jax
import jax.numpy as jnp
import optax

OPTIMISERS = {
    "sgd": optax.sgd(1e-2, momentum=0.9),
    "nesterov": optax.sgd(1e-2, momentum=0.9, nesterov=True),
    "adagrad": optax.adagrad(0.3),
    "rmsprop": optax.rmsprop(1e-2),
    "adamw": optax.adamw(3e-2),
    "lion": optax.lion(1e-2),
    "lamb": optax.lamb(1e-2),
    "adafactor": optax.adafactor(3e-2),
    "yogi": optax.yogi(3e-2),
    "radam": optax.radam(3e-2),
}


def function(x):
    return jnp.sum(jnp.array([1.0, 10.0, 0.1]) * (x["a"] - 1) ** 2) + jnp.sum((x["b"] @ x["a"]) ** 2)


for name, optimiser in OPTIMISERS.items():

    @jax.jit
    def run(x, optimiser=optimiser):
        def step(carry, _):
            x, state = carry
            value, slopes = jax.value_and_grad(function)(x)
            updates, state = optimiser.update(slopes, state, x)
            return (optax.apply_updates(x, updates), state), value

        return jax.lax.scan(step, (x, optimiser.init(x)), None, length=60)[1]

    values = run({"a": jnp.array([3.0, -2.0, 0.5]), "b": jnp.full((2, 3), 0.2)})
    print(name, *(float(v) for v in values[::20]))
