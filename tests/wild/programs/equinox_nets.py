"""Equinox networks; diffrax, optimistix and lineax, which are made of it."""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optax
import optimistix as optx
from jax import random
from registry import program

KEY = random.key(0)


@program(("float32", "bfloat16", "float64"))
def networks(kind):
    x = random.normal(KEY, (8, 12), kind)
    models = [
        eqx.nn.MLP(12, 5, 32, 3, key=KEY, dtype=kind),
        eqx.nn.Sequential([eqx.nn.Linear(12, 8, key=KEY, dtype=kind), eqx.nn.LayerNorm(8, dtype=kind)]),
        eqx.nn.MLP(12, 3, 20, 2, activation=jax.nn.swish, key=KEY, dtype=kind),
    ]
    optimiser = optax.adamw(1e-3)
    for model in models:
        arrays, static = eqx.partition(model, eqx.is_inexact_array)

        @jax.jit
        def step(arrays, state, x, static=static):
            def loss(arrays):
                return (jax.vmap(eqx.combine(arrays, static))(x).astype("float32") ** 2).mean()

            value, grads = jax.value_and_grad(loss)(arrays)
            updates, state = optimiser.update(grads, state, arrays)
            return value, eqx.apply_updates(arrays, updates), state

        step(arrays, optimiser.init(arrays), x)


@program(("float32", "bfloat16"))
def layers(kind):
    image, line = random.normal(KEY, (3, 16, 18), kind), random.normal(KEY, (10, 24), kind)
    for layer, x in (
        (eqx.nn.Conv2d(3, 8, 3, 2, 1, key=KEY, dtype=kind), image),
        (eqx.nn.ConvTranspose2d(3, 4, 4, 2, 1, key=KEY, dtype=kind), image),
        (eqx.nn.AvgPool2d(3, 2), image),
        (eqx.nn.MaxPool2d(2, 2, 1), image),
        (eqx.nn.AdaptiveAvgPool2d((5, 4)), image),
        (eqx.nn.GroupNorm(3, 3, dtype=kind), image),
        (eqx.nn.Conv1d(10, 6, 5, groups=2, key=KEY, dtype=kind), line),
        (eqx.nn.RotaryPositionalEmbedding(24), line),
    ):
        jax.jit(lambda x, f=layer: f(x))(x)
        jax.jit(jax.grad(lambda x, f=layer: (f(x) ** 2).astype("float32").sum()))(x)
    attention = eqx.nn.MultiheadAttention(4, 24, key=KEY, dtype=kind)
    jax.jit(lambda x: attention(x, x, x, mask=jnp.tril(jnp.ones((10, 10), bool))))(line)
    cell = eqx.nn.GRUCell(24, 16, key=KEY, dtype=kind)
    jax.jit(lambda x: jax.lax.scan(lambda h, r: (cell(r, h), h), jnp.zeros(16, kind), x))(line)
    cell = eqx.nn.LSTMCell(24, 16, key=KEY, dtype=kind)
    zero = jnp.zeros(16, kind)
    jax.jit(
        jax.grad(lambda x: jax.lax.scan(lambda h, r: (cell(r, h), None), (zero, zero), x)[0][0].astype("float32").sum())
    )(line)


@program(("float32", "float64"))
def differential_equations(kind):
    y0 = jnp.asarray([1.0, 0.5], kind)

    def field(t, y, k):
        return jnp.stack([y[0] * (k - y[1]), y[1] * (y[0] - k)])

    for solver in (
        diffrax.Tsit5(),
        diffrax.Dopri5(),
        diffrax.Heun(),
        diffrax.Kvaerno3(),
        diffrax.ImplicitEuler(),
        diffrax.Dopri8(),
    ):
        adaptive = diffrax.PIDController(1e-3, 1e-5)

        def solve(y0, k, solver=solver, adaptive=adaptive):
            save = diffrax.SaveAt(ts=jnp.linspace(0, 3, 7))
            return diffrax.diffeqsolve(
                diffrax.ODETerm(field), solver, 0.0, 3.0, 0.1, y0, k, saveat=save, stepsize_controller=adaptive
            ).ys

        jax.jit(solve)(y0, jnp.asarray(0.7, kind))
        if isinstance(solver, diffrax.Tsit5 | diffrax.Heun):
            jax.jit(jax.grad(lambda y, k, f=solve: f(y, k).sum()))(y0, jnp.asarray(0.7, kind))
    path = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-2, (), KEY)
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, a: -y), diffrax.ControlTerm(lambda t, y, a: 0.3 * y, path))
    jax.jit(lambda y: diffrax.diffeqsolve(terms, diffrax.EulerHeun(), 0.0, 1.0, 0.05, y).ys)(jnp.asarray(1.0, kind))


@program(("float32", "float64"))
def solvers(kind):
    def residual(y, a):
        return jnp.stack([10 * (y[1] - y[0] ** 2), a - y[0], y[0] * y[1] - 1])

    y, a = jnp.asarray([-1.2, 1.0], kind), jnp.asarray(1.0, kind)
    for solver in (optx.LevenbergMarquardt(1e-3, 1e-3), optx.GaussNewton(1e-3, 1e-3), optx.Dogleg(1e-3, 1e-3)):
        jax.jit(lambda y, a, s=solver: optx.least_squares(residual, s, y, a, max_steps=40, throw=False).value)(y, a)
    for solver in (
        optx.BFGS(1e-3, 1e-3),
        optx.NelderMead(1e-2, 1e-2),
        optx.NonlinearCG(1e-3, 1e-3),
        optx.LBFGS(1e-3, 1e-3),
    ):
        jax.jit(
            lambda y, a, s=solver: (
                optx.minimise(lambda y, a: (residual(y, a) ** 2).sum(), s, y, a, max_steps=40, throw=False).value
            )
        )(y, a)
    for solver in (
        optx.Newton(1e-3, 1e-3),
        optx.Broyden(1e-3, 1e-3) if hasattr(optx, "Broyden") else optx.Chord(1e-3, 1e-3),
    ):
        jax.jit(lambda y, a, s=solver: optx.root_find(lambda y, a: y**3 - a, s, y, a, max_steps=30, throw=False).value)(
            y, a
        )
    jax.jit(
        jax.grad(
            lambda a: optx.root_find(lambda y, a: y**3 - a, optx.Newton(1e-3, 1e-3), y, a, throw=False).value.sum()
        )
    )(a)
    m, b = random.normal(KEY, (9, 9), kind), random.normal(KEY, (9,), kind)
    s = m @ m.T + 9 * jnp.eye(9, dtype=kind)
    for operator, solver in (
        (lx.MatrixLinearOperator(m), lx.LU()),
        (lx.MatrixLinearOperator(m), lx.QR()),
        (lx.MatrixLinearOperator(m), lx.SVD()),
        (lx.MatrixLinearOperator(s, lx.positive_semidefinite_tag), lx.Cholesky()),
        (lx.MatrixLinearOperator(m), lx.GMRES(1e-4, 1e-4)),
        (lx.MatrixLinearOperator(s, lx.positive_semidefinite_tag), lx.CG(1e-4, 1e-4)),
        (lx.MatrixLinearOperator(m), lx.BiCGStab(1e-3, 1e-3)),
        (lx.TridiagonalLinearOperator(b + 4, b[:8], b[1:]), lx.Tridiagonal()),
        (lx.DiagonalLinearOperator(b), lx.Diagonal()),
    ):
        jax.jit(lambda o, b, s=solver: lx.linear_solve(o, b, s, throw=False).value)(operator, b)
        jax.jit(jax.grad(lambda b, o=operator, s=solver: lx.linear_solve(o, b, s, throw=False).value.sum()))(b)
