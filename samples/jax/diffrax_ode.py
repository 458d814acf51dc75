"""Lotka and Volterra's equations by diffrax, with an adaptive step."""

import diffrax
import jax
import jax.numpy as jnp


def field(t, y, rates):
    prey, hunters = y
    return jnp.array([rates[0] * prey - rates[1] * prey * hunters, -rates[2] * hunters + rates[3] * prey * hunters])


@jax.jit
def solve(rates):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 10.0, 0.1, jnp.array([2.0, 1.0]), args=rates,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 10, 6)), stepsize_controller=diffrax.PIDController(1e-5, 1e-6),
    ).ys  # fmt: skip


print(solve(jnp.array([1.1, 0.4, 0.4, 0.1])))
