"""A causal transformer of flax.linen on a sequence that repeats."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(h, h, mask=mask)
        return x + nn.Dense(32)(nn.gelu(nn.Dense(64)(nn.LayerNorm()(x))))


class Language(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        mask = nn.make_causal_mask(tokens)
        x = nn.Embed(11, 32)(tokens) + nn.Embed(16, 32)(jnp.arange(tokens.shape[1]))
        for _ in range(2):
            x = Block()(x, mask)
        return nn.Dense(11)(x)


tokens = (jnp.arange(16)[None] * jnp.array([[1], [2], [3]])) % 11
model = Language()
params = model.init(jax.random.key(0), tokens)
optimiser = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 5, 30))
state = optimiser.init(params)


@jax.jit
def step(params, state):
    def loss(params):
        logits = model.apply(params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    value, slopes = jax.value_and_grad(loss)(params)
    updates, state = optimiser.update(slopes, state, params)
    return optax.apply_updates(params, updates), state, value


for number in range(30):
    params, state, value = step(params, state)
    if number % 10 == 0:
        print(number, float(value))
