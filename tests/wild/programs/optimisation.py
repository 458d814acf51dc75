"""Solvers of jaxopt, optax and optimistix on problems as people have them, and derivatives through them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
import optax
from programs._filled import normal
from registry import program

FLOATS = ("float32", "float64")


@program(FLOATS)
def logistic_regression(kind):
    x, y = normal(0, (300, 20), kind), np.arange(300) % 4

    def loss(w, strength, x):
        return optax.softmax_cross_entropy_with_integer_labels(x @ w, y).mean() + strength * (w**2).sum()

    solver = jaxopt.LBFGS(loss, maxiter=10, linesearch="backtracking", implicit_diff=True)

    def outer(strength, x):
        w = solver.run(jnp.zeros((20, 4), kind), strength, x).params
        return loss(w, 0.0, x)

    jax.jit(jax.value_and_grad(outer))(np.asarray(0.01, kind)[()], x)


@program(FLOATS)
def support_vectors(kind):
    x, y = normal(0, (80, 10), kind), np.where(normal(1, 80) > 0, 1, -1).astype(kind)

    @jax.jit
    def fit(x, y):
        k = jnp.exp(-((x[:, None] - x) ** 2).sum(-1) / 10) * y * y[:, None]
        solver = jaxopt.ProjectedGradient(
            lambda a: 0.5 * a @ k @ a - a.sum(), jaxopt.projection.projection_box, maxiter=15, stepsize=0.05
        )
        return solver.run(jnp.zeros(80, kind), (jnp.zeros(80, kind), jnp.ones(80, kind))).params

    fit(x, y)


@program(("float32",))
def sparse_codes(kind):
    d = normal(0, (30, 60))

    @jax.jit
    def learn(d, x):
        def code(x):
            solver = jaxopt.ProximalGradient(
                lambda z: 0.5 * ((d @ z - x) ** 2).sum(), jaxopt.prox.prox_lasso, maxiter=8, stepsize=0.01
            )
            return solver.run(jnp.zeros(60), 0.1).params

        z = jax.vmap(code)(x)
        return z, jax.grad(lambda d: ((x - z @ d.T) ** 2).mean())(d)

    learn(d, normal(1, (20, 30)))


@program(("float32",))
def equilibrium_layer(kind):
    w, x = normal(0, (40, 40), scale=0.08), normal(1, (40,))

    def out(w, x):
        solver = jaxopt.FixedPointIteration(lambda z, w, x: jnp.tanh(w @ z + x), maxiter=20, implicit_diff=True)
        return (solver.run(jnp.zeros(40), w, x).params ** 2).sum()

    jax.jit(jax.value_and_grad(out))(w, x)


@program(FLOATS)
def constrained_portfolio(kind):
    r = normal(0, (50, 12), kind)

    @jax.jit
    def choose(r):
        q, c = jnp.cov(r.T), -r.mean(0)
        solver = jaxopt.OSQP(maxiter=25)
        a, g = jnp.ones((1, 12), kind), -jnp.eye(12, dtype=kind)
        return solver.run(
            params_obj=(q, c), params_eq=(a, jnp.ones(1, kind)), params_ineq=(g, jnp.zeros(12, kind))
        ).params.primal

    choose(r)


@program(("float32",))
def sharpness_aware(kind):
    x, y = normal(0, (64, 30)), np.arange(64) % 5
    p = {"a": normal(1, (30, 40), scale=0.2), "b": normal(2, (40, 5), scale=0.2)}

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(jax.nn.relu(x @ p["a"]) @ p["b"], y).mean()

    optimiser = optax.contrib.sam(
        optax.sgd(0.1), optax.chain(optax.contrib.normalize(), optax.sgd(0.05)), sync_period=2
    )
    state = optimiser.init(p)
    jax.jit(lambda p, s: optimiser.update(jax.grad(loss)(p), s, p))(p, state)

    @jax.jit
    def attacked(p, x):
        def turn(_, d):
            g = jax.grad(
                lambda d: optax.softmax_cross_entropy_with_integer_labels(
                    jax.nn.relu((x + d) @ p["a"]) @ p["b"], y
                ).mean()
            )(d)
            return jnp.clip(d + 0.02 * jnp.sign(g), -0.1, 0.1)

        return jax.lax.fori_loop(0, 5, turn, jnp.zeros_like(x))

    attacked(p, x)


@program(FLOATS)
def bundle_adjustment(kind):
    import optimistix as optx

    cameras, points = normal(0, (4, 3), kind), normal(1, (15, 3), kind) + np.array([0, 0, 8], kind)

    def residual(s, seen):
        cameras, points = s
        d = points[None] - cameras[:, None]
        return d[..., :2] / d[..., 2:] - seen

    seen = normal(2, (4, 15, 2), kind, 0.3)
    solver = optx.LevenbergMarquardt(1e-3, 1e-3)
    jax.jit(lambda s, seen: optx.least_squares(residual, solver, s, seen, max_steps=6, throw=False).value)(
        (cameras, points), seen
    )


@program(("float32",))
def least_squares_by_newton(kind):
    x, y = normal(0, (100, 8)), np.abs(normal(1, 100))

    @jax.jit
    def poisson(x, y):
        def loss(w):
            return (jnp.exp(jnp.clip(x @ w, -5, 5)) - y * (x @ w)).mean()

        def turn(w, _):
            h = jax.hessian(loss)(w) + 1e-2 * jnp.eye(8)
            return w - jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(h), jax.grad(loss)(w)), loss(w)

        return jax.lax.scan(turn, jnp.zeros(8), None, 6)

    poisson(x, y)
