"""Diffusion and advection on a periodic grid by Fourier transforms."""

import jax
import jax.numpy as jnp

size = 32
waves = jnp.fft.fftfreq(size) * size
laplacian = -(waves[:, None] ** 2 + waves**2)
velocity = jnp.sin(jnp.linspace(0, 2 * jnp.pi, size, endpoint=False))


@jax.jit
def run(field):
    def step(field, _):
        slope = jnp.fft.ifft2(1j * waves * jnp.fft.fft2(field)).real
        moved = field - 0.01 * velocity[:, None] * slope
        field = jnp.fft.ifft2(jnp.fft.fft2(moved) * jnp.exp(0.002 * laplacian)).real
        return field, jnp.sum(field**2)

    return jax.lax.scan(step, field, None, length=40)


field, energy = run(jax.random.normal(jax.random.key(0), (size, size)))
print(energy[::10])
print(float(field.sum()))
