"""Models of numpyro, and distributions of distrax trained: densities, gradients, and steps of inference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.infer.util import log_density
from programs._filled import normal
from registry import program

FLOATS = ("float32", "float64")


def _slopes(model, arguments, values):
    jax.jit(jax.value_and_grad(lambda v, *a: log_density(model, a, {}, v)[0]))(values, *arguments)


@program(FLOATS)
def schools(kind):
    def model(y, s):
        middle, wide = numpyro.sample("m", dist.Normal(0, 5)), numpyro.sample("w", dist.HalfCauchy(5))
        with numpyro.plate("n", 8):
            z = numpyro.sample("z", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(middle + wide * z, s), obs=y)

    y = np.array([28, 8, -3, 7, -1, 1, 18, 12], kind)
    values = {"m": np.asarray(4, kind)[()], "w": np.asarray(3, kind)[()], "z": normal(0, 8, kind)}
    _slopes(model, (y, y * 0 + 12), values)


@program(FLOATS)
def sparse_regression(kind):
    def model(x, y):
        t = numpyro.sample("t", dist.HalfCauchy(1))
        r = numpyro.sample("r", dist.HalfCauchy(jnp.ones(20)))
        b = numpyro.sample("b", dist.Normal(0, t * r))
        numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)

    x = normal(0, (200, 20), kind)
    _slopes(
        model,
        (x, (x[:, 0] > 0).astype("int32")),
        {"t": np.asarray(1, kind)[()], "r": np.ones(20, kind), "b": normal(1, 20, kind)},
    )


@program(FLOATS)
def volatility(kind):
    def model(y):
        s = numpyro.sample("s", dist.Exponential(50.0))
        n = numpyro.sample("n", dist.Exponential(0.1))
        h = numpyro.sample("h", dist.GaussianRandomWalk(s, len(y)))
        numpyro.sample("y", dist.StudentT(n, 0.0, jnp.exp(h)), obs=y)

    values = {"s": np.asarray(0.1, kind)[()], "n": np.asarray(5, kind)[()], "h": normal(1, 100, kind, 0.1)}
    _slopes(model, (normal(0, 100, kind),), values)


@program(("float32",))
def bayesian_network(kind):
    def model(x, y):
        a = numpyro.sample("a", dist.Normal(jnp.zeros((5, 24)), 1))
        b = numpyro.sample("b", dist.Normal(jnp.zeros((24, 24)), 1))
        c = numpyro.sample("c", dist.Normal(jnp.zeros((24, 1)), 1))
        p = numpyro.sample("p", dist.Gamma(3.0, 1.0))
        numpyro.sample("y", dist.Normal((jnp.tanh(jnp.tanh(x @ a) @ b) @ c)[:, 0], 1 / jnp.sqrt(p)), obs=y)

    from numpyro.infer import SVI, Trace_ELBO, autoguide

    x, y = normal(0, (100, 5)), normal(1, 100)
    svi = SVI(model, autoguide.AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())
    state = jax.jit(svi.init)(jax.random.PRNGKey(0), x, y)
    jax.jit(svi.update)(state, x, y)


@program(("float32",))
def mixture_enumerated(kind):
    def model(y):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(4)))
        m = numpyro.sample("m", dist.Normal(jnp.zeros(4), 3))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(m, 0.5)), obs=y)

    _slopes(model, (normal(0, 150),), {"w": np.full(4, 0.25, kind), "m": normal(1, 4)})


@program(("float32", "float64"))
def hamiltonian_chain(kind):
    from numpyro.infer import HMC
    from numpyro.infer.util import initialize_model

    x = normal(0, (60, 4), kind)
    y = (x @ np.array([1, -1, 0.5, 0], kind) > 0).astype("int32")

    def model(x, y):
        b = numpyro.sample("b", dist.Normal(jnp.zeros(4), 2))
        numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)

    found = initialize_model(jax.random.PRNGKey(1), model, model_args=(x, y))
    kernel = HMC(potential_fn=found.potential_fn, num_steps=5)
    state = kernel.init(jax.random.PRNGKey(2), 2, found.param_info, model_args=(), model_kwargs={})
    jax.jit(lambda s: kernel.sample(s, (), {}))(state)


@program(("float32",))
def coupling_flow(kind):
    import distrax

    w = [normal(n, s, scale=0.2) for n, s in enumerate([(6, 32), (32, 6 * 13), (6, 32), (32, 6 * 13)])]

    def density(w, x):
        layers = []
        for n in range(2):
            mask = np.arange(6) % 2 == n

            def conditioner(y, a=w[2 * n], b=w[2 * n + 1]):
                return (jnp.tanh(y @ a) @ b).reshape(*y.shape, 13)

            layers.append(
                distrax.MaskedCoupling(
                    mask, conditioner=conditioner, bijector=lambda p: distrax.RationalQuadraticSpline(p, -3.0, 3.0)
                )
            )
        base = distrax.Independent(distrax.Normal(jnp.zeros(6), jnp.ones(6)), 1)
        return distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers))).log_prob(x).mean()

    jax.jit(jax.value_and_grad(density))(w, normal(9, (40, 6)))
