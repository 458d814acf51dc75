"""A hierarchical model by the No-U-Turn sampler of numpyro; means of what it draws."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools():
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        offset = numpyro.sample("offset", dist.Normal(0, 1))
        numpyro.sample("seen", dist.Normal(mean + spread * offset, errors), obs=effects)


sampler = MCMC(NUTS(schools), num_warmup=200, num_samples=200, progress_bar=False)
sampler.run(jax.random.key(0))
# A chain of floats goes apart with the last bit: what it draws on average is what stays.
print("mean above zero", bool(sampler.get_samples()["mean"].mean() > 0))
print("spread in range", bool(0.5 < sampler.get_samples()["spread"].mean() < 12))
