"""A pass of one's own within JAX's compiler: it counts what XLA fused, and takes back what hlotool can simplify.

    python samples/jax/xla_pass.py
"""

from collections import Counter

import jax
import jax.numpy as jnp

import hlotool
from hlotool.jax import passes


def simplified(module: hlotool.Module) -> hlotool.Module:
    """What hlotool makes of a module that XLA has optimised."""
    print(module.name, dict(Counter(i.opcode for i in module.instructions() if i.opcode in ("fusion", "dot"))))
    return hlotool.optimise(module, "algebraic-simplifier,dce")


@jax.jit
def loss(weights, x):
    return jnp.mean(jnp.tanh(x @ weights) ** 2)


weights, x = jnp.full((4, 8), 0.1), jnp.ones((2, 4))
with passes.registered(simplified):
    print("loss", jax.jit(jax.value_and_grad(loss))(weights, x)[0])
