"""Neural and stochastic differential equations of diffrax, and networks of equinox around them."""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from programs._filled import filled, normal
from registry import program

KEY = jax.random.key(0)


def _train(make, loss, *x):
    """A step of training of what ``make(key)`` gives."""
    shapes = eqx.filter_eval_shape(make, KEY)
    arrays = filled(eqx.filter(shapes, lambda a: isinstance(a, jax.ShapeDtypeStruct)))
    static = eqx.filter(shapes, lambda a: not isinstance(a, jax.ShapeDtypeStruct))
    optimiser = optax.adabelief(1e-3)

    @jax.jit
    def step(arrays, state, *x):
        value, grads = jax.value_and_grad(lambda a: loss(eqx.combine(a, static), *x))(arrays)
        updates, state = optimiser.update(grads, state, arrays)
        return value, eqx.apply_updates(arrays, updates), state

    step(arrays, filled(jax.eval_shape(optimiser.init, arrays)), *x)


@program(("float32",))
def neural_ode(kind):
    t = np.linspace(0, 2, 12).astype(kind)

    def loss(net, x):
        def one(x):
            term = diffrax.ODETerm(lambda t, y, _: net(y))
            save = diffrax.SaveAt(ts=t)
            return diffrax.diffeqsolve(
                term,
                diffrax.Tsit5(),
                0.0,
                2.0,
                0.1,
                x[0],
                saveat=save,
                stepsize_controller=diffrax.PIDController(1e-2, 1e-3),
                max_steps=64,
            ).ys

        return ((jax.vmap(one)(x) - x) ** 2).mean()

    _train(lambda k: eqx.nn.MLP(3, 3, 32, 2, jax.nn.softplus, key=k), loss, normal(0, (6, 12, 3)))


@program(("float32",))
def neural_cde(kind):
    class Net(eqx.Module):
        start: eqx.nn.MLP
        field: eqx.nn.MLP
        end: eqx.nn.Linear

        def __init__(self, key):
            a, b, c = jax.random.split(key, 3)
            self.start, self.field = eqx.nn.MLP(3, 8, 16, 1, key=a), eqx.nn.MLP(8, 24, 16, 1, key=b)
            self.end = eqx.nn.Linear(8, 1, key=c)

    t = np.linspace(0, 1, 20).astype(kind)

    def loss(net, x):
        def one(x):
            path = diffrax.CubicInterpolation(t, diffrax.backward_hermite_coefficients(t, x))
            term = diffrax.ControlTerm(lambda t, y, _: jnp.tanh(net.field(y)).reshape(8, 3), path).to_ode()
            y = diffrax.diffeqsolve(term, diffrax.Heun(), 0.0, 1.0, 0.1, net.start(x[0])).ys[-1]
            return net.end(y)[0]

        return jax.nn.softplus(jax.vmap(one)(x)).mean()

    _train(Net, loss, normal(0, (5, 20, 3)))


@program(("float32",))
def continuous_flow(kind):
    def loss(net, x):
        def one(x):
            def field(t, s, _):
                y, _ = s
                out, pull = jax.vjp(lambda y: net(jnp.append(y, t)), y)
                return out, jnp.trace(jax.vmap(lambda e: pull(e)[0])(jnp.eye(2)))

            y, log = diffrax.diffeqsolve(diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 1.0, 0.2, (x, 0.0)).ys
            return log[-1] - 0.5 * (y[-1] ** 2).sum()

        return -jax.vmap(one)(x).mean()

    _train(lambda k: eqx.nn.MLP(3, 2, 24, 2, jnp.tanh, key=k), loss, normal(0, (12, 2)))


@program(("float32",))
def score_matching(kind):
    def loss(net, x, t, noise):
        spread = jnp.sqrt(1 - jnp.exp(-t))
        y = x * jnp.exp(-t / 2)[:, None] + spread[:, None] * noise
        score = jax.vmap(lambda y, t: net(jnp.append(y, t)))(y, t)
        return ((score * spread[:, None] + noise) ** 2).mean()

    t = np.linspace(0.01, 4, 64).astype(kind)
    _train(lambda k: eqx.nn.MLP(9, 8, 64, 3, jax.nn.silu, key=k), loss, normal(0, (64, 8)), t, normal(1, (64, 8)))

    def sample(y, keys):
        term = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, _: -0.5 * y),
            diffrax.ControlTerm(lambda t, y, _: jnp.eye(3), diffrax.VirtualBrownianTree(0.0, 1.0, 0.01, (3,), keys)),
        )
        return diffrax.diffeqsolve(term, diffrax.Euler(), 0.0, 1.0, 0.05, y).ys

    jax.jit(sample)(normal(2, 3), KEY)


@program(("float32", "float64"))
def conserved_energy(kind):
    def loss(net, q, p, dq, dp):
        def slopes(q, p):
            a, b = jax.grad(lambda q, p: net(jnp.concatenate([q, p]))[0], (0, 1))(q, p)
            return b, -a

        a, b = jax.vmap(slopes)(q, p)
        return ((a - dq) ** 2 + (b - dp) ** 2).mean()

    _train(lambda k: eqx.nn.MLP(4, 1, 48, 2, jnp.tanh, key=k), loss, *(normal(n, (50, 2)) for n in range(4)))


@program(("float32", "float64"))
def stiff_chemistry(kind):
    def field(t, y, k):
        a, b = k[0] * y[0], k[1] * y[1] * y[2]
        c = k[2] * y[1] ** 2
        return jnp.stack([-a + b, a - b - c, c])

    def solve(k):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Kvaerno5(),
            0.0,
            10.0,
            1e-3,
            jnp.asarray([1.0, 0, 0], kind),
            k,
            saveat=diffrax.SaveAt(ts=jnp.asarray([0.1, 1.0, 10.0], kind)),
            stepsize_controller=diffrax.PIDController(1e-4, 1e-6),
            max_steps=200,
            throw=False,
        ).ys

    jax.jit(solve)(np.array([0.04, 1e2, 3e3], kind))
