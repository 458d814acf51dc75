"""Every optimiser of optax on one network, and its losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jax import random
from registry import program

_NAMES = """adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb lars lion nadam
nadamw noisy_sgd novograd optimistic_adam_v2 radam rmsprop rprop sgd sign_sgd sm3 yogi polyak_sgd"""


@program(("float32", "bfloat16"))
def optimisers(kind):
    p = {"w": random.normal(random.key(0), (130, 140), kind), "b": jnp.ones((70,), kind)}
    g = jax.tree.map(lambda a: a * a + jnp.asarray(0.1, kind), p)
    for name in _NAMES.split():
        make = getattr(optax, name, None)
        if make is None:
            continue
        try:
            optimiser = make(learning_rate=0.01)
            state = optimiser.init(p)
            jax.jit(lambda g, s, p, o=optimiser: o.update(g, s, p, **({"value": 0.3} if name == "polyak_sgd" else {})))(
                g, state, p
            )
        except (TypeError, ValueError):
            continue


@program(("float32",))
def chains(kind):
    p = {"w": random.normal(random.key(0), (30, 40))}
    g = jax.tree.map(jnp.cos, p)
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100)
    for optimiser in (
        optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule)),
        optax.MultiSteps(optax.sgd(0.1), 4),
        optax.chain(optax.adaptive_grad_clip(0.1), optax.trace(0.9), optax.add_noise(0.1, 0.5, 1)),
        optax.lookahead(optax.sgd(0.1), 5, 0.5) if False else optax.apply_if_finite(optax.adam(0.1), 5),
        optax.contrib.muon(0.1),
        optax.contrib.prodigy(),
        optax.contrib.schedule_free_sgd(),
        optax.contrib.dadapt_adamw(),
        optax.contrib.sophia(0.1),
        optax.centralize(),
    ):
        try:
            jax.jit(lambda g, s, p, o=optimiser: o.update(g, s, p))(g, optimiser.init(p), p)
        except (TypeError, ValueError):
            continue
    solver = optax.lbfgs()
    f = lambda p: jnp.sum((p["w"] - 1) ** 4)  # noqa: E731
    state = solver.init(p)
    jax.jit(lambda g, s, p: solver.update(g, s, p, value=f(p), grad=g, value_fn=f))(jax.grad(f)(p), state, p)


@program(("float32", "bfloat16"))
def losses(kind):
    a, b = random.normal(random.key(0), (12, 9), kind), jax.nn.softmax(random.normal(random.key(1), (12, 9), kind))
    label = jnp.arange(12) % 9
    for name in [
        "cosine_distance",
        "cosine_similarity",
        "hinge_loss",
        "huber_loss",
        "kl_divergence",
        "l2_loss",
        "log_cosh",
        "sigmoid_binary_cross_entropy",
        "softmax_cross_entropy",
        "squared_error",
        "sigmoid_focal_loss",
        "poly_loss_cross_entropy",
        "convex_kl_divergence",
        "perceptron_loss",
        "safe_softmax_cross_entropy",
    ]:
        f = getattr(optax.losses, name, None)
        if f is not None:
            jax.jit(jax.value_and_grad(lambda a, b, f=f: f(a, b).astype("float32").mean()))(a, b)
    f = optax.softmax_cross_entropy_with_integer_labels
    jax.jit(jax.grad(lambda a: f(a, label).mean()))(a)
    logits, pad = random.normal(random.key(2), (3, 20, 7)), jnp.zeros((3, 20))
    labels = jnp.ones((3, 5), int)
    jax.jit(jax.grad(lambda x: optax.ctc_loss(x, pad, labels, jnp.zeros((3, 5))).sum()))(logits)
    jax.jit(optax.projections.projection_simplex)(a[0].astype("float32"))
    jax.jit(lambda c: optax.assignment.hungarian_algorithm(c))(random.normal(random.key(3), (6, 8)))
