"""Parameters without running what would initialise them."""

from __future__ import annotations

import jax
import numpy as np
import optax

__all__ = ["filled", "normal", "train"]


def normal(seed, shape, kind="float32", scale=1.0):
    """Normal numbers that no module computes."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale).astype(jax.numpy.dtype(kind))


def filled(shapes):
    """A tree of arrays for a tree of shapes: weights by their fan-in, and vectors near one where they scale."""

    def fill(path, leaf):
        name, count = jax.tree_util.keystr(path), len(leaf.shape)
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
            return np.zeros(leaf.shape, leaf.dtype)
        if count < 2:
            middle = 1.0 if "scale" in name or "var" in name else 0.0
            return (middle + normal(count, leaf.shape, scale=0.05)).astype(leaf.dtype)
        return normal(count, leaf.shape, leaf.dtype, (1 / max(1, int(np.prod(leaf.shape[:-1])))) ** 0.5)

    return jax.tree_util.tree_map_with_path(fill, shapes)


def train(model, loss, *x, optimiser=None, **keywords):
    """Of a flax module: its outputs, and a step of training by ``loss(outputs)``."""
    variables = filled(jax.eval_shape(lambda: model.init(jax.random.key(0), *x, **keywords)))
    p, rest = variables["params"], {k: v for k, v in variables.items() if k != "params"}
    optimiser = optimiser or optax.adam(1e-3)

    def run(p, rest, *x):
        return model.apply({"params": p, **rest}, *x, mutable=list(rest), **keywords)

    @jax.jit
    def step(p, rest, state, *x):
        def measured(p):
            out, changed = run(p, rest, *x)
            return loss(out).astype("float32"), changed

        (value, changed), grads = jax.value_and_grad(measured, has_aux=True)(p)
        updates, state = optimiser.update(grads, state, p)
        return value, optax.apply_updates(p, updates), changed, state

    jax.jit(run)(p, rest, *x)
    step(p, rest, filled(jax.eval_shape(optimiser.init, p)), *x)
