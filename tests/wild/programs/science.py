"""jaxopt, e3nn, jax-md, brax, evosax, ott, interpax, jax's own solvers, and simulations by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from registry import program

KEY = random.key(0)


@program(("float32", "float64"))
def jaxopt_solvers(kind):
    import jaxopt

    a, b = random.normal(KEY, (30, 6), kind), random.normal(KEY, (30,), kind)
    w = jnp.zeros(6, kind)

    def loss(w, a, b):
        return jnp.mean((a @ w - b) ** 2) + 1e-3 * jnp.sum(w**2)

    for solver in (
        jaxopt.GradientDescent(loss, maxiter=20),
        jaxopt.LBFGS(loss, maxiter=15),
        jaxopt.BFGS(loss, maxiter=10),
        jaxopt.NonlinearCG(loss, maxiter=10),
        jaxopt.GaussNewton(lambda w, a, b: a @ w - b, maxiter=5),
        jaxopt.LevenbergMarquardt(lambda w, a, b: a @ w - b, maxiter=5),
        jaxopt.PolyakSGD(loss, maxiter=9),
        jaxopt.ArmijoSGD(loss, maxiter=9),
    ):
        jax.jit(lambda w, a, b, s=solver: s.run(w, a, b).params)(w, a, b)
    lasso = jaxopt.ProximalGradient(loss, jaxopt.prox.prox_lasso, maxiter=20)
    jax.jit(lambda w: lasso.run(w, 0.1, a, b).params)(w)
    q = a.T @ a
    jax.jit(
        lambda q, c: jaxopt.BoxOSQP(maxiter=30).run(None, (q, c), jnp.eye(6, dtype=kind), (c - 1, c + 1)).params.primal
    )(q, w + 1)
    jax.jit(jaxopt.projection.projection_simplex)(b)
    jax.jit(jaxopt.projection.projection_l1_ball)(b)
    jax.jit(lambda x: jaxopt.AndersonAcceleration(lambda x: jnp.cos(x), maxiter=10).run(x).params)(w)


@program(("float32",))
def equivariant(kind):
    import e3nn_jax as e3nn

    x = e3nn.normal("8x0e + 4x1o + 2x2e", random.PRNGKey(0), (5,))
    jax.jit(lambda x: e3nn.tensor_product(x, x, filter_ir_out=["0e", "1o"]).array)(x)
    jax.jit(lambda v: e3nn.spherical_harmonics("0e+1o+2e+3o", v, True).array)(random.normal(KEY, (9, 3)))
    jax.jit(lambda x: e3nn.gate(e3nn.concatenate([x, e3nn.normal("6x0e", random.PRNGKey(1), (5,))])).array)(x)
    jax.jit(lambda a, x: x.transform_by_angles(a, a, a).array)(0.3, x)
    jax.jit(jax.grad(lambda v: (e3nn.spherical_harmonics("2e", v, True).array ** 2).sum()))(random.normal(KEY, (9, 3)))


@program(("float32", "float64"))
def molecules(kind):
    from jax_md import energy, minimize, quantity, simulate, space

    displacement, shift = space.periodic(6.0)
    r = random.uniform(KEY, (40, 3), kind) * 6
    for make in (energy.lennard_jones_pair, energy.soft_sphere_pair, energy.morse_pair):
        f = make(displacement)
        jax.jit(f)(r)
        jax.jit(quantity.force(f))(r)
    f = energy.soft_sphere_pair(displacement)
    init, step = simulate.nve(f, shift, 1e-3)
    jax.jit(lambda s: lax.fori_loop(0, 5, lambda i, s: step(s), s))(init(random.PRNGKey(0), r, kT=1.0))
    init, step = simulate.nvt_nose_hoover(f, shift, 1e-3, 1.0)
    jax.jit(step)(init(random.PRNGKey(0), r))
    init, step = minimize.fire_descent(f, shift)
    jax.jit(step)(init(r))


@program(("float32",))
def robots(kind):
    from brax import envs

    for name in ("inverted_pendulum", "reacher"):
        env = envs.get_environment(name, backend="spring")
        state = jax.jit(env.reset)(random.PRNGKey(0))
        jax.jit(env.step)(state, jnp.zeros(env.action_size))


@program(("float32",))
def evolution(kind):
    from evosax import algorithms

    for name in ("CMA_ES", "OpenES", "SimpleGA", "PSO", "DifferentialEvolution", "Sep_CMA_ES", "LES", "SNES", "xNES"):
        make = getattr(algorithms, name, None)
        if make is None:
            continue
        strategy = make(population_size=16, solution=jnp.zeros(6))
        p = strategy.default_params
        try:
            state = strategy.init(random.PRNGKey(0), jnp.zeros(6), p)
        except TypeError:
            state = strategy.init(random.PRNGKey(0), jnp.zeros((16, 6)), jnp.arange(16.0), p)
        jax.jit(
            lambda k, s: strategy.tell(k, strategy.ask(k, s, p)[0], (strategy.ask(k, s, p)[0] ** 2).sum(-1), s, p)[0]
        )(random.PRNGKey(1), state)


@program(("float32", "float64"))
def transport(kind):
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    a, b = random.normal(KEY, (30, 3), kind), random.normal(random.key(1), (25, 3), kind) + 1

    def cost(a, b):
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(a, b, epsilon=0.5))
        return sinkhorn.Sinkhorn(max_iterations=30, min_iterations=0)(problem).reg_ot_cost

    jax.jit(cost)(a, b)
    jax.jit(jax.grad(cost))(a, b)


@program(("float32", "float64"))
def interpolation(kind):
    import interpax

    x, y = jnp.linspace(0, 5, 20).astype(kind), jnp.sin(jnp.linspace(0, 5, 20)).astype(kind)
    for method in ("nearest", "linear", "cubic", "cubic2", "catmull-rom", "akima", "monotonic"):
        jax.jit(lambda q, m=method: interpax.interp1d(q, x, y, m))(x[:13] + 0.11)
        jax.jit(lambda q, m=method: interpax.interp2d(q, q, x, x, y[:, None] * y, m))(x[:13] + 0.11)


@program(("float32", "float64"))
def own_solvers(kind):
    from jax.experimental.ode import odeint
    from jax.scipy.optimize import minimize
    from jax.scipy.sparse.linalg import bicgstab, cg, gmres

    m = random.normal(KEY, (20, 20), kind)
    s, b = m @ m.T + 20 * jnp.eye(20, dtype=kind), random.normal(KEY, (20,), kind)
    jax.jit(lambda s, b: cg(s, b, maxiter=12)[0])(s, b)
    jax.jit(lambda s, b: gmres(s, b, maxiter=3)[0])(s, b)
    jax.jit(lambda s, b: bicgstab(s, b, maxiter=9)[0])(s, b)
    jax.jit(lambda x: minimize(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum() + x[0] ** 2, x, method="BFGS").x)(b[:4])
    t = jnp.linspace(0, 1, 5).astype(kind)
    jax.jit(lambda y: odeint(lambda y, t: -y * t + jnp.sin(y), y, t))(b[:3])
    jax.jit(jax.grad(lambda y: odeint(lambda y, t: -y * t, y, t).sum()))(b[:3])


@program(("float32", "float64"))
def simulations(kind):
    u = random.normal(KEY, (48, 56), kind)

    def laplace(u):
        return sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4 * u

    jax.jit(lambda u: lax.fori_loop(0, 10, lambda i, u: u + 0.1 * laplace(u), u))(u)
    jax.jit(
        lambda u: lax.scan(lambda c, _: ((c[1], 2 * c[1] - c[0] + 0.2 * laplace(c[1])), c[1].sum()), (u, u), None, 8)
    )(u)
    jax.jit(
        lambda u: lax.fori_loop(
            0, 4, lambda i, v: jnp.fft.ifft2(jnp.fft.fft2(v) * 0.9).real.astype(kind) + 0.1 * v**3 / (1 + v**2), u
        )
    )(u)
    life = u > 0
    jax.jit(lambda a: lax.fori_loop(0, 5, lambda i, a: _life(a), a))(life)
    x, v = random.normal(KEY, (50, 3), kind), jnp.zeros((50, 3), kind)

    def force(x):
        d = x[:, None] - x
        return -(d / (jnp.sum(d**2, -1, keepdims=True) + 0.1) ** 1.5).sum(1)

    jax.jit(lambda x, v: lax.fori_loop(0, 6, lambda i, s: (s[0] + 0.01 * s[1], s[1] + 0.01 * force(s[0])), (x, v)))(
        x, v
    )
    jax.jit(
        lambda k: lax.scan(
            lambda s, k: (s * jnp.exp(0.01 * random.normal(k, (64,), kind)), s.mean()),
            jnp.ones(64, kind),
            random.split(k, 20),
        )
    )(KEY)
    f = np.zeros((9, 20, 30)) + np.arange(9)[:, None, None]
    jax.jit(
        lambda f: lax.fori_loop(
            0,
            3,
            lambda i, f: (
                jnp.stack([jnp.roll(f[j], (j % 3 - 1, j // 3 - 1), (0, 1)) for j in range(9)]) * 0.9 + 0.1 * f.mean(0)
            ),
            f,
        )
    )(jnp.asarray(f, kind))
    jax.jit(lambda k: lax.while_loop(lambda s: s[0] < 1000, lambda s: (s[0] * 3 % 1013 + 1, s[1] + 1), (k, 0)))(7)
    jax.jit(
        lambda c: lax.fori_loop(
            0,
            12,
            lambda i, s: (jnp.where(jnp.abs(s[0]) < 2, s[0] ** 2 + c, s[0]), s[1] + (jnp.abs(s[0]) < 2)),
            (c * 0, jnp.zeros(c.shape, int)),
        )
    )((u[:20] + 1j * u[20:40]).astype("complex64" if kind == "float32" else "complex128"))


def _life(a):
    n = sum(jnp.roll(a, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1)) - a
    return (n == 3) | (a & (n == 2))


@program(("float32",))
def reinforcement(kind):
    import mctx
    import rlax

    r, d, v = random.normal(KEY, (20,)), jnp.full((20,), 0.99), random.normal(KEY, (21,))
    jax.jit(lambda: rlax.lambda_returns(r, d, v[1:], 0.9))()
    jax.jit(rlax.truncated_generalized_advantage_estimation, static_argnums=2)(r, d, 0.95, v)
    jax.jit(lambda v: rlax.vtrace(v[:-1], v[1:], r, d, jnp.ones(20)).astype("float32"))(v)
    root = mctx.RootFnOutput(prior_logits=random.normal(KEY, (3, 5)), value=jnp.zeros(3), embedding=jnp.zeros((3, 2)))

    def step(p, k, a, e):
        out = mctx.RecurrentFnOutput(
            reward=a * 0.1, discount=jnp.full((3,), 0.9), prior_logits=jnp.ones((3, 5)) * e.sum(), value=e[:, 0]
        )
        return out, e + 1

    jax.jit(lambda k: mctx.gumbel_muzero_policy((), k, root, step, 8).action_weights)(random.PRNGKey(0))


@program(("float32",))
def games(kind):
    import pgx

    for name in ("tic_tac_toe", "connect_four", "2048", "othello"):
        env = pgx.make(name)
        state = jax.jit(env.init)(random.PRNGKey(0))
        jax.jit(env.step)(state, jnp.argmax(state.legal_action_mask), random.PRNGKey(1))
