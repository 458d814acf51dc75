"""Numpyro, blackjax, flowjax, tinygp, gpjax, dynamax: probabilistic programs and samplers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import random
from registry import program

KEY = random.key(0)


@program(("float32", "float64"))
def numpyro_models(kind):
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
    from numpyro.infer.util import log_density

    x = random.normal(KEY, (40, 3), kind)
    y = x @ jnp.asarray([1.0, -2.0, 0.5], kind)

    def regression(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]))
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        with numpyro.plate("n", len(x)):
            numpyro.sample("y", dist.StudentT(4.0, x @ w, s), obs=y)

    values = {"w": jnp.ones(3, kind), "s": jnp.asarray(0.5, kind)}
    jax.jit(jax.value_and_grad(lambda v: log_density(regression, (x, y), {}, v)[0]))(values)
    guide = autoguide.AutoMultivariateNormal(regression)
    svi = SVI(regression, guide, numpyro.optim.Adam(1e-2), Trace_ELBO(4))
    state = svi.init(KEY, x, y)
    jax.jit(lambda s: svi.update(s, x, y))(state)
    MCMC(NUTS(regression, max_tree_depth=3), num_warmup=5, num_samples=5, progress_bar=False).run(
        random.PRNGKey(0), x, y
    )


@program(("float32",))
def numpyro_laws(kind):
    from numpyro import distributions as dist

    laws = [
        dist.Normal(0, 1),
        dist.Gamma(2.0, 1.0),
        dist.Beta(2.0, 3.0),
        dist.Dirichlet(jnp.ones(4)),
        dist.LKJCholesky(3),
        dist.Poisson(3.0),
        dist.BinomialLogits(jnp.zeros(3), 5),
        dist.Categorical(jnp.ones(4) / 4),
        dist.VonMises(0.0, 2.0),
        dist.StudentT(3.0),
        dist.Weibull(1.0, 2.0),
        dist.NegativeBinomial2(3.0, 2.0),
        dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)),
        dist.TruncatedNormal(0.0, 1.0, low=-1.0),
        dist.GaussianRandomWalk(0.1, 9),
        dist.Wishart(5.0, jnp.eye(3)),
        dist.ZeroInflatedPoisson(0.3, 2.0),
        dist.BetaBinomial(2.0, 3.0, 7),
        dist.Kumaraswamy(2.0, 3.0),
        dist.CAR(0.0, 0.5, 1.0, 1 - jnp.eye(3)),
        dist.Levy(0.0, 1.0),
    ]
    for law in laws:
        try:
            sample = jax.jit(lambda k, d=law: d.sample(k, (6,)))(random.PRNGKey(3))
            jax.jit(lambda x, d=law: d.log_prob(x))(sample)
        except (TypeError, ValueError, NotImplementedError):
            continue


@program(("float32", "float64"))
def blackjax_kernels(kind):
    import blackjax

    def density(x):
        return -0.5 * jnp.sum((x[1:] - x[:-1] ** 2) ** 2) - 0.5 * (x[0] ** 2)

    start = jnp.ones(4, kind)
    mass = jnp.ones(4, kind)
    for kernel in (
        blackjax.hmc(density, 0.1, mass, 5),
        blackjax.nuts(density, 0.1, mass, max_num_doublings=4),
        blackjax.mala(density, 0.05),
        blackjax.additive_step_random_walk(density, blackjax.mcmc.random_walk.normal(mass * 0.1)),
        blackjax.ghmc(density, 0.1, mass, 0.5, 0.1),
        blackjax.mclmc(density, 2.0, 0.1) if hasattr(blackjax, "mclmc") else blackjax.mala(density, 0.01),
        blackjax.barker_proposal(density, 0.1),
    ):
        try:
            state = kernel.init(start)
        except TypeError:
            state = kernel.init(start, KEY)
        jax.jit(lambda k, s, f=kernel: jax.lax.scan(lambda s, k: (f.step(k, s)[0], s), s, random.split(k, 3)))(
            KEY, state
        )


@program(("float32",))
def flows(kind):
    import equinox as eqx
    from flowjax import distributions, flows

    base = distributions.Normal(jnp.zeros(4))
    x = random.normal(KEY, (16, 4))
    for make in (
        flows.coupling_flow,
        flows.masked_autoregressive_flow,
        flows.planar_flow,
        flows.block_neural_autoregressive_flow,
    ):
        keywords = (
            {"flow_layers": 2} if make is not flows.planar_flow else {"flow_layers": 2, "width_size": 8, "depth": 1}
        )
        flow = make(KEY, base_dist=base, **keywords)
        arrays, static = eqx.partition(flow, eqx.is_inexact_array)
        jax.jit(jax.value_and_grad(lambda a, s=static: -eqx.combine(a, s).log_prob(x).mean()))(arrays)


@program(("float32", "float64"))
def gaussian_processes(kind):
    from tinygp import GaussianProcess, kernels

    x, y = jnp.linspace(0, 4, 40).astype(kind), jnp.sin(jnp.linspace(0, 9, 40)).astype(kind)
    for kernel in (
        kernels.ExpSquared(0.7),
        kernels.Matern52(0.5),
        kernels.ExpSineSquared(scale=1.0, gamma=0.4),
        kernels.quasisep.Matern32(0.6),
    ):

        def likelihood(s, x, y, kernel=kernel):
            return GaussianProcess(s * kernel, x, diag=0.05).log_probability(y)

        jax.jit(jax.value_and_grad(likelihood))(jnp.asarray(1.3, kind), x, y)
        jax.jit(lambda x, y, k=kernel: GaussianProcess(k, x, diag=0.05).condition(y, x[:9] + 0.1).gp.variance)(x, y)


@program(("float64",))
def gpjax_regression(kind):
    import gpjax

    x = jnp.linspace(0, 4, 30)[:, None]
    data = gpjax.Dataset(x, jnp.sin(3 * x))
    prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=gpjax.kernels.RBF())
    posterior = prior * gpjax.likelihoods.Gaussian()
    jax.jit(lambda x: posterior.predict(x, train_data=data).mean)(x[:7] + 0.05)
    gpjax.objectives.conjugate_mll(posterior, data)


@program(("float32",))
def state_spaces(kind):
    from dynamax.hidden_markov_model import GaussianHMM
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    y = random.normal(KEY, (50, 2))
    for model in (GaussianHMM(3, 2), LinearGaussianSSM(3, 2)):
        parameters, _ = model.initialize(random.PRNGKey(0))
        jax.jit(model.marginal_log_prob)(parameters, y)
        jax.jit(model.smoother)(parameters, y)
        jax.jit(jax.grad(lambda p, m=model: m.marginal_log_prob(p, y)))(parameters)
        jax.jit(lambda k, p, m=model: m.sample(p, k, 20))(random.PRNGKey(1), parameters)
