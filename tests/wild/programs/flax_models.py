"""Whole networks of flax as people write them, forward and a step of training."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from programs._filled import normal, train
from registry import program


def _square(out):
    return (out.astype("float32") ** 2).mean()


def _labels(out):
    labels = jnp.arange(out.shape[0]) % out.shape[-1]
    return optax.softmax_cross_entropy_with_integer_labels(out.astype("float32"), labels).mean()


def _next_token(tokens):
    return lambda out: optax.softmax_cross_entropy_with_integer_labels(
        out[:, :-1].astype("float32"), tokens[:, 1:]
    ).mean()


def _tokens(batch, length, vocabulary):
    return np.random.default_rng(0).integers(0, vocabulary, (batch, length)).astype("int32")


class _Mlp(nn.Module):
    width: int
    kind: str = "float32"

    @nn.compact
    def __call__(self, x):
        y = nn.gelu(nn.Dense(self.width, dtype=self.kind)(x))
        return nn.Dense(x.shape[-1], dtype=self.kind)(y)


@program(("float32", "bfloat16"))
def mlp_mixer(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(64, (8, 8), (8, 8), dtype=kind)(x).reshape(x.shape[0], -1, 64)
            for _ in range(2):
                y = _Mlp(48, kind)(jnp.swapaxes(nn.LayerNorm(dtype=kind)(x), 1, 2))
                x = x + jnp.swapaxes(y, 1, 2)
                x = x + _Mlp(128, kind)(nn.LayerNorm(dtype=kind)(x))
            return nn.Dense(10, dtype=kind)(x.mean(1))

    train(Net(), _labels, normal(0, (8, 64, 64, 3), kind))


@program(("float32", "bfloat16"))
def vision_transformer(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(96, (16, 16), (16, 16), padding="VALID", dtype=kind)(x).reshape(x.shape[0], -1, 96)
            token = self.param("token", nn.initializers.zeros, (1, 1, 96)).astype(kind)
            x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, 96)), x], 1)
            x = x + self.param("place", nn.initializers.normal(), (1, x.shape[1], 96)).astype(kind)
            for _ in range(2):
                y = nn.LayerNorm(dtype=kind)(x)
                x = x + nn.MultiHeadDotProductAttention(6, dtype=kind)(y, y)
                x = x + _Mlp(384, kind)(nn.LayerNorm(dtype=kind)(x))
            return nn.Dense(100, dtype=kind)(x[:, 0])

    train(Net(), _labels, normal(0, (4, 112, 112, 3), kind), optimiser=optax.adamw(1e-3))


@program(("float32", "bfloat16", "float16"))
def decoder_of_text(kind):
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            y = nn.LayerNorm(dtype=kind)(x)
            x = x + nn.SelfAttention(8, dtype=kind)(y, mask=nn.make_causal_mask(x[..., 0]))
            return x + _Mlp(512, kind)(nn.LayerNorm(dtype=kind)(x))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            embed = nn.Embed(2048, 128, dtype=kind)
            x = embed(tokens) + nn.Embed(64, 128, dtype=kind)(jnp.arange(tokens.shape[1]))
            for _ in range(2):
                x = nn.remat(Block)()(x)
            return embed.attend(nn.LayerNorm(dtype=kind)(x))

    tokens = _tokens(4, 64, 2048)
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 100)
    train(
        Net(),
        _next_token(tokens),
        tokens,
        optimiser=optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule)),
    )


@program(("float32", "bfloat16"))
def masked_language_model(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens, segments):
            x = nn.Embed(1000, 96, dtype=kind)(tokens) + nn.Embed(2, 96, dtype=kind)(segments)
            x = nn.LayerNorm(dtype=kind)(x + nn.Embed(128, 96, dtype=kind)(jnp.arange(tokens.shape[1])))
            mask = nn.make_attention_mask(tokens > 0, tokens > 0)
            for _ in range(2):
                x = nn.LayerNorm(dtype=kind)(x + nn.SelfAttention(4, dtype=kind)(x, mask=mask))
                x = nn.LayerNorm(dtype=kind)(x + _Mlp(384, kind)(x))
            return nn.Dense(1000, dtype=kind)(x)

    tokens = _tokens(4, 96, 1000) * (np.arange(96) < np.array([[96], [50], [70], [13]]))

    def loss(out):
        picked = jnp.take_along_axis(out, jnp.asarray(np.arange(0, 96, 7))[None, :, None], 1).astype("float32")
        return optax.softmax_cross_entropy_with_integer_labels(picked, tokens[:, ::7]).mean()

    train(Net(), loss, tokens, (np.arange(96) > 40).astype("int32")[None].repeat(4, 0), optimiser=optax.lamb(1e-3))


class _Bottleneck(nn.Module):
    width: int
    stride: int
    kind: str

    @nn.compact
    def __call__(self, x):
        def norm(y):
            return nn.BatchNorm(False, dtype=self.kind)(y)

        y = nn.relu(norm(nn.Conv(self.width, (1, 1), use_bias=False, dtype=self.kind)(x)))
        y = nn.relu(norm(nn.Conv(self.width, (3, 3), (self.stride,) * 2, use_bias=False, dtype=self.kind)(y)))
        y = norm(nn.Conv(self.width * 4, (1, 1), use_bias=False, dtype=self.kind)(y))
        if x.shape != y.shape:
            x = norm(nn.Conv(self.width * 4, (1, 1), (self.stride,) * 2, use_bias=False, dtype=self.kind)(x))
        return nn.relu(x + y)


@program(("float32", "bfloat16"))
def resnet_of_bottlenecks(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.BatchNorm(False, dtype=kind)(nn.Conv(32, (7, 7), (2, 2), dtype=kind)(x)))
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            for width, stride in ((16, 1), (32, 2), (64, 2)):
                x = _Bottleneck(width, stride, kind)(x)
            return nn.Dense(50, dtype=kind)(x.mean((1, 2)))

    train(Net(), _labels, normal(0, (4, 96, 96, 3), kind), optimiser=optax.sgd(0.1, 0.9, nesterov=True))


@program(("float32", "bfloat16"))
def unet(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            def twice(x, width):
                for _ in range(2):
                    x = nn.silu(nn.GroupNorm(8, dtype=kind)(nn.Conv(width, (3, 3), dtype=kind)(x)))
                return x

            kept = []
            for width in (16, 32):
                x = twice(x, width)
                kept.append(x)
                x = nn.avg_pool(x, (2, 2), (2, 2))
            x = twice(x, 64)
            for width in (32, 16):
                x = nn.ConvTranspose(width, (2, 2), (2, 2), dtype=kind)(x)
                x = twice(jnp.concatenate([x, kept.pop()], -1), width)
            return nn.Conv(2, (1, 1), dtype=kind)(x)

    train(Net(), _square, normal(0, (2, 48, 64, 3), kind))


@program(("float32",))
def convnext(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.LayerNorm()(nn.Conv(48, (4, 4), (4, 4))(x))
            for _ in range(2):
                y = nn.LayerNorm()(nn.Conv(48, (7, 7), feature_group_count=48)(x))
                y = nn.Dense(48)(nn.gelu(nn.Dense(192)(y), approximate=False))
                x = x + y * self.param(f"scale{_}", nn.initializers.ones, (48,))
            x = nn.Conv(96, (2, 2), (2, 2))(nn.LayerNorm()(x))
            return nn.Dense(20)(nn.LayerNorm()(x.mean((1, 2))))

    train(Net(), _labels, normal(0, (4, 64, 64, 3)), optimiser=optax.lion(1e-4))


@program(("float32", "float16"))
def mobile_blocks(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu6(nn.Conv(16, (3, 3), (2, 2), dtype=kind)(x))
            for width, stride, wider in ((16, 1, 4), (24, 2, 4), (24, 1, 6)):
                inner = x.shape[-1] * wider
                y = nn.relu6(nn.Conv(inner, (1, 1), dtype=kind)(x))
                y = nn.Conv(inner, (5, 5), (stride,) * 2, feature_group_count=inner, dtype=kind)(y)
                y = nn.hard_swish(y)
                s = nn.relu(nn.Dense(inner // 4, dtype=kind)(y.mean((1, 2))))
                y = y * nn.hard_sigmoid(nn.Dense(inner, dtype=kind)(s))[:, None, None]
                y = nn.Conv(width, (1, 1), dtype=kind)(y)
                x = x + y if x.shape == y.shape else y
            return nn.Dense(10, dtype=kind)(x.mean((1, 2)))

    train(Net(), _labels, normal(0, (4, 56, 56, 3), kind), optimiser=optax.rmsprop(1e-3, momentum=0.9))


@program(("float32",))
def densenet(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(24, (3, 3))(x)
            for _ in range(2):
                for _ in range(3):
                    y = nn.Conv(12, (3, 3))(nn.relu(nn.BatchNorm(False)(x)))
                    x = jnp.concatenate([x, y], -1)
                x = nn.avg_pool(nn.Conv(x.shape[-1] // 2, (1, 1))(x), (2, 2), (2, 2))
            return nn.Dense(10)(x.mean((1, 2)))

    train(Net(), _labels, normal(0, (4, 32, 32, 3)))


@program(("float32",))
def translation_with_attention(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, source, target):
            keys = nn.Bidirectional(nn.RNN(nn.LSTMCell(32)), nn.RNN(nn.LSTMCell(32)))(nn.Embed(300, 40)(source))
            x = nn.RNN(nn.LSTMCell(64))(nn.Embed(300, 40)(target))
            scores = nn.softmax(jnp.einsum("btd,bsd->bts", nn.Dense(64)(x), keys))
            return nn.Dense(300)(jnp.tanh(nn.Dense(64)(jnp.concatenate([x, scores @ keys], -1))))

    source, target = _tokens(4, 20, 300), _tokens(4, 17, 300)
    train(Net(), _next_token(target), source, target, optimiser=optax.adagrad(0.1))


@program(("float32",))
def adversarial_images(kind):
    class Generator(nn.Module):
        @nn.compact
        def __call__(self, z):
            x = nn.Dense(4 * 4 * 64)(z).reshape(-1, 4, 4, 64)
            for width in (32, 16):
                x = nn.relu(nn.BatchNorm(False)(nn.ConvTranspose(width, (4, 4), (2, 2))(x)))
            return jnp.tanh(nn.ConvTranspose(3, (4, 4), (2, 2))(x))

    class Critic(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (16, 32, 64):
                x = nn.leaky_relu(nn.Conv(width, (4, 4), (2, 2))(x), 0.2)
            return nn.Dense(1)(x.reshape(x.shape[0], -1))

    train(Generator(), lambda out: jax.nn.softplus(-out.sum((1, 2, 3))).mean(), normal(0, (8, 64)))
    critic, x = Critic(), normal(1, (6, 32, 32, 3))
    train(critic, lambda out: jax.nn.softplus(out).mean(), x)

    class Penalty(nn.Module):
        @nn.compact
        def __call__(self, x):
            inner = Critic()
            inner(x)
            p = inner.variables
            slopes = jax.grad(lambda x: Critic(parent=None).apply(p, x).sum())(x)
            return jnp.sqrt((slopes**2).sum((1, 2, 3)) + 1e-12) - 1

    train(Penalty(), _square, x)


@program(("float32", "bfloat16"))
def variational_autoencoder(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, noise):
            y = nn.relu(nn.Conv(16, (3, 3), (2, 2), dtype=kind)(x))
            y = nn.relu(nn.Conv(32, (3, 3), (2, 2), dtype=kind)(y)).reshape(x.shape[0], -1)
            mean, log = jnp.split(nn.Dense(40, dtype=kind)(y), 2, -1)
            z = mean + jnp.exp(0.5 * log) * noise
            y = nn.relu(nn.Dense(7 * 7 * 32, dtype=kind)(z)).reshape(-1, 7, 7, 32)
            y = nn.relu(nn.ConvTranspose(16, (3, 3), (2, 2), dtype=kind)(y))
            return nn.ConvTranspose(1, (3, 3), (2, 2), dtype=kind)(y), mean, log

    x = (normal(0, (8, 28, 28, 1)) > 0).astype("float32")

    def loss(out):
        image, mean, log = (a.astype("float32") for a in out)
        near = optax.sigmoid_binary_cross_entropy(image, x).sum((1, 2, 3))
        return (near + 0.5 * (jnp.exp(log) + mean**2 - 1 - log).sum(-1)).mean()

    train(Net(), loss, x.astype(jnp.dtype(kind)), normal(1, (8, 20), kind))


@program(("float32",))
def vector_quantised_codes(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            z = nn.Conv(16, (4, 4), (4, 4))(x)
            book = self.param("book", nn.initializers.normal(), (64, 16))
            far = (z**2).sum(-1, keepdims=True) - 2 * z @ book.T + (book**2).sum(-1)
            near = book[jnp.argmin(far, -1)]
            loss = ((lax.stop_gradient(z) - near) ** 2).mean() + 0.25 * ((z - lax.stop_gradient(near)) ** 2).mean()
            out = nn.ConvTranspose(3, (4, 4), (4, 4))(z + lax.stop_gradient(near - z))
            return out, loss

    x = normal(0, (4, 32, 32, 3))
    train(Net(), lambda out: ((out[0] - x) ** 2).mean() + out[1], x)


@program(("float32",))
def wavenet(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x, skip = nn.Dense(24)(nn.one_hot(x, 64)), 0.0
            for hole in (1, 2, 4, 8, 16):
                y = nn.Conv(48, (2,), padding="CAUSAL", kernel_dilation=(hole,))(x)
                a, b = jnp.split(y, 2, -1)
                y = jnp.tanh(a) * nn.sigmoid(b)
                skip = skip + nn.Dense(32)(y)
                x = x + nn.Dense(24)(y)
            return nn.Dense(64)(nn.relu(skip))

    tokens = _tokens(3, 200, 64)
    train(Net(), _next_token(tokens), tokens)


@program(("float32", "bfloat16"))
def relative_positions(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            t = x.shape[1]
            far = jnp.arange(t)[None] - jnp.arange(t)[:, None]
            near = jnp.abs(far)
            large = 8 + (jnp.log(near / 8 + 1e-6) / np.log(128 / 8) * 8).astype("int32")
            bucket = jnp.where(near < 8, near, jnp.minimum(large, 15)) + (far > 0) * 16
            bias = nn.Embed(32, 4, dtype=kind)(bucket).transpose(2, 0, 1)
            q, k, v = (nn.DenseGeneral((4, 16), use_bias=False, dtype=kind)(x) for _ in range(3))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + bias
            y = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)
            x = x + nn.DenseGeneral(64, axis=(-2, -1), use_bias=False, dtype=kind)(y)
            y = nn.RMSNorm(dtype=kind)(x)
            y = nn.gelu(nn.Dense(128, use_bias=False, dtype=kind)(y)) * nn.Dense(128, use_bias=False, dtype=kind)(y)
            return x + nn.Dense(64, use_bias=False, dtype=kind)(y)

    train(Net(), _square, normal(0, (2, 100, 64), kind), optimiser=optax.adafactor(1e-2))


@program(("float32", "bfloat16"))
def experts_of_capacity(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            n, d, e, c = x.shape[0], x.shape[1], 8, 20
            gates = nn.softmax(nn.Dense(e)(x.astype("float32")))
            weight, which = lax.top_k(gates, 2)
            sent = jnp.zeros((n, e, c), kind)
            used = jnp.zeros((e,), "int32")
            for k in range(2):
                hot = nn.one_hot(which[:, k], e, dtype="int32")
                place = jnp.cumsum(hot, 0) - 1 + used
                used = used + hot.sum(0)
                slot = nn.one_hot(jnp.where(place < c, place, -1), c, dtype=kind) * hot[..., None].astype(kind)
                sent = sent + slot * weight[:, k, None, None].astype(kind)
            up = self.param("up", nn.initializers.normal(), (e, d, 4 * d)).astype(kind)
            down = self.param("down", nn.initializers.normal(), (e, 4 * d, d)).astype(kind)
            y = jnp.einsum("nec,nd->ecd", (sent > 0).astype(kind), x)
            y = jnp.einsum("ecf,efd->ecd", nn.gelu(jnp.einsum("ecd,edf->ecf", y, up)), down)
            even = (gates.mean(0) * (nn.one_hot(which[:, 0], e).mean(0))).sum() * e
            return jnp.einsum("nec,ecd->nd", sent, y), even

    train(Net(), lambda out: _square(out[0]) + 0.01 * out[1], normal(0, (64, 48), kind))


@program(("float32",))
def diffusion_step(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, t, noise):
            beta = jnp.linspace(1e-4, 0.02, 100)
            kept = jnp.cumprod(1 - beta)[t][:, None, None, None]
            x = jnp.sqrt(kept) * x + jnp.sqrt(1 - kept) * noise
            turns = t[:, None] * jnp.exp(-jnp.arange(16) * jnp.log(1e4) / 15)
            when = nn.Dense(32)(nn.silu(nn.Dense(32)(jnp.concatenate([jnp.sin(turns), jnp.cos(turns)], -1))))
            y = nn.Conv(32, (3, 3))(x)
            for stride in (1, 2):
                z = nn.Conv(32, (3, 3), (stride,) * 2)(nn.silu(nn.GroupNorm(4)(y)))
                y = nn.Conv(32, (3, 3))(nn.silu(nn.GroupNorm(4)(z + when[:, None, None])))
            flat = nn.GroupNorm(4)(y).reshape(y.shape[0], -1, 32)
            y = y + nn.SelfAttention(2)(flat).reshape(y.shape)
            y = jax.image.resize(y, (y.shape[0], *x.shape[1:3], 32), "nearest")
            return nn.Conv(3, (3, 3))(y)

    noise = normal(1, (4, 24, 24, 3))
    train(Net(), lambda out: ((out - noise) ** 2).mean(), normal(0, (4, 24, 24, 3)), np.array([3, 99, 0, 50]), noise)


@program(("float32",))
def perceiver(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            z = self.param("latents", nn.initializers.normal(), (32, 64))[None].repeat(x.shape[0], 0)
            z = z + nn.MultiHeadDotProductAttention(1)(nn.LayerNorm()(z), nn.LayerNorm()(x))

            def turn(block, z, _):
                return z + block(nn.LayerNorm()(z)), None

            class Block(nn.Module):
                @nn.compact
                def __call__(self, z, _):
                    z = z + nn.SelfAttention(4)(nn.LayerNorm()(z))
                    return z + _Mlp(128)(nn.LayerNorm()(z)), None

            z, _ = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=4)()(z, None)
            return nn.Dense(12)(z.mean(1))

    train(Net(), _labels, normal(0, (4, 500, 20)))


@program(("float32", "float64"))
def contrastive_views(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, a, b):
            inner = nn.Sequential([nn.Dense(128), nn.relu, nn.Dense(64)])
            a, b = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (inner(a), inner(b)))
            return a @ b.T * jnp.exp(self.param("heat", nn.initializers.ones, ()))

    def both(out):
        n = jnp.arange(out.shape[0])
        f = optax.softmax_cross_entropy_with_integer_labels
        return (f(out, n) + f(out.T, n)).mean() / 2

    train(Net(), both, normal(0, (96, 200), kind), normal(1, (96, 200), kind))


@program(("float32",))
def recommender(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, dense, sparse):
            x = [nn.relu(nn.Dense(16)(nn.relu(nn.Dense(64)(dense))))]
            x += [nn.Embed(n, 16)(sparse[:, i]) for i, n in enumerate((1000, 50, 7, 300))]
            x = jnp.stack(x, 1)
            pairs = jnp.einsum("bid,bjd->bij", x, x)
            i, j = np.tril_indices(5, -1)
            return nn.Dense(1)(nn.relu(nn.Dense(32)(jnp.concatenate([pairs[:, i, j], x[:, 0]], -1))))[:, 0]

    sparse = np.random.default_rng(0).integers(0, 7, (128, 4)).astype("int32")

    def loss(out):
        return optax.sigmoid_binary_cross_entropy(out, (sparse[:, 0] % 2).astype("float32")).mean()

    train(Net(), loss, normal(0, (128, 13)), sparse, optimiser=optax.adagrad(0.05))


@program(("float32",))
def tagger_with_random_field(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Bidirectional(nn.RNN(nn.GRUCell(24)), nn.RNN(nn.GRUCell(24)))(nn.Embed(200, 32)(tokens))
            return nn.Dense(9)(x), self.param("moves", nn.initializers.zeros, (9, 9))

    tokens = _tokens(5, 30, 200)
    tags = tokens % 9

    def loss(out):
        scores, moves = out
        told = jnp.take_along_axis(scores, tags[..., None], 2).sum((1, 2)) + moves[tags[:, :-1], tags[:, 1:]].sum(1)

        def turn(a, s):
            return jax.nn.logsumexp(a[:, :, None] + moves + s[:, None], 1), None

        last, _ = lax.scan(turn, scores[:, 0], jnp.swapaxes(scores[:, 1:], 0, 1))
        return (jax.nn.logsumexp(last, 1) - told).mean()

    train(Net(), loss, tokens)


@program(("float32",))
def point_clouds(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            near = lax.top_k(-((x[:, :, None] - x[:, None]) ** 2).sum(-1), 8)[1]
            around = jax.vmap(lambda p, i: p[i])(x, near) - x[:, :, None]
            y = nn.relu(nn.Dense(32)(jnp.concatenate([around, x[:, :, None].repeat(8, 2)], -1))).max(2)
            y = nn.relu(nn.Dense(64)(y))
            return nn.Dense(10)(jnp.concatenate([y.max(1), y.mean(1)], -1))

    train(Net(), _labels, normal(0, (6, 128, 3)))


@program(("float32",))
def radiance_field(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, origin, direction):
            t = jnp.linspace(2.0, 6.0, 32)
            p = origin[:, None] + direction[:, None] * t[:, None]
            wave = p[..., None] * 2.0 ** jnp.arange(6)
            y = jnp.concatenate([jnp.sin(wave), jnp.cos(wave)], -1).reshape(*p.shape[:2], -1)
            z = y
            for n in range(4):
                z = nn.relu(nn.Dense(64)(z if n != 2 else jnp.concatenate([z, y], -1)))
            colour, thick = nn.sigmoid(nn.Dense(3)(z)), nn.softplus(nn.Dense(1)(z))[..., 0]
            clear = jnp.exp(-thick * (t[1] - t[0]))
            seen = jnp.cumprod(jnp.concatenate([jnp.ones_like(clear[:, :1]), clear[:, :-1] + 1e-10], 1), 1)
            return ((1 - clear) * seen)[..., None] * colour

    train(Net(), lambda out: ((out.sum(1) - 0.5) ** 2).mean(), normal(0, (64, 3)), normal(1, (64, 3)))


@program(("float32", "float64"))
def physics_informed(kind):
    class Wave(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = jnp.sin(30 * nn.Dense(32, param_dtype=kind)(x))
            x = jnp.sin(nn.Dense(32, param_dtype=kind)(x))
            return nn.Dense(1, param_dtype=kind)(x)[..., 0]

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            wave = Wave()
            wave(x)
            p = wave.variables

            def u(x):
                return Wave(parent=None).apply(p, x)

            second = jax.vmap(jax.hessian(u))(x)
            return second[:, 0, 0] - 0.5 * second[:, 1, 1] + jax.vmap(u)(x) * jax.vmap(jax.grad(u))(x)[:, 0]

    train(Net(), lambda out: (out**2).mean(), normal(0, (80, 2), kind))


@program(("float32",))
def learning_to_learn(kind):
    net = nn.Sequential([nn.Dense(40), nn.tanh, nn.Dense(1)])

    class Meta(nn.Module):
        @nn.compact
        def __call__(self, x, y):
            p = self.param("inner", lambda k: net.init(k, x[0]))

            def task(x, y):
                def loss(p):
                    return ((net.apply(p, x[:10])[:, 0] - y[:10]) ** 2).mean()

                fast = p
                for _ in range(2):
                    fast = jax.tree.map(lambda a, g: a - 0.1 * g, fast, jax.grad(loss)(fast))
                return ((net.apply(fast, x[10:])[:, 0] - y[10:]) ** 2).mean()

            return jax.vmap(task)(x, y)

    train(Meta(), jnp.mean, normal(0, (8, 20, 1)), normal(1, (8, 20)))


@program(("float32",))
def actor_and_critic(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = jnp.tanh(nn.Dense(64)(jnp.tanh(nn.Dense(64)(x))))
            return nn.Dense(6)(x), nn.Dense(1)(x)[..., 0]

    action, old, gain = np.arange(256) % 6, normal(1, 256, scale=0.1) - 1.8, normal(2, 256)

    def loss(out):
        logits, value = out
        logs = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(logs, action[:, None], 1)[:, 0] - old)
        kept = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)
        return -kept.mean() + 0.5 * ((value - gain) ** 2).mean() + 0.01 * (jnp.exp(logs) * logs).sum(-1).mean()

    train(
        Net(),
        loss,
        normal(0, (256, 17)),
        optimiser=optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4, eps=1e-5)),
    )


@program(("float32", "bfloat16"))
def low_rank_adapters(kind):
    class Adapted(nn.Module):
        @nn.compact
        def __call__(self, x):
            for n in range(3):
                w = self.param(f"w{n}", nn.initializers.normal(), (256, 256)).astype(kind)
                a = self.param(f"a{n}", nn.initializers.normal(), (256, 8)).astype(kind)
                b = self.param(f"b{n}", nn.initializers.zeros, (8, 256)).astype(kind)
                x = nn.silu(x @ lax.stop_gradient(w) + (x @ a) @ b * 2)
            return x

    def label(p):
        return {k: "fixed" if k.startswith("w") else "free" for k in p}

    optimiser = optax.multi_transform({"free": optax.adamw(1e-3), "fixed": optax.set_to_zero()}, label)
    train(Adapted(), _square, normal(0, (32, 256), kind), optimiser=optimiser)


@program(("float32", "bfloat16"))
def decoding_with_cache(kind):
    attention = nn.SelfAttention(4, decode=True, dtype=kind)
    shapes = jax.eval_shape(lambda: attention.init(jax.random.key(0), jnp.zeros((2, 24, 64), kind)))
    from programs._filled import filled

    variables = filled(shapes)

    @jax.jit
    def decode(variables, x):
        def turn(c, _):
            cache, x = c
            y, changed = attention.apply({"params": variables["params"], "cache": cache}, x, mutable=["cache"])
            return (changed["cache"], (x + y).astype(kind)), y.astype("float32").sum()

        return lax.scan(turn, (variables["cache"], x), None, 20)

    decode(variables, normal(0, (2, 1, 64), kind))


@program(("float32", "bfloat16", "float16"))
def llama(kind):
    def turned(x):
        angle = jnp.arange(x.shape[1])[:, None] * 1e4 ** (-jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
        a, b = x[..., ::2], x[..., 1::2]
        c, s = (f(angle)[None, :, None].astype(kind) for f in (jnp.cos, jnp.sin))
        return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            y = nn.RMSNorm(dtype=kind)(x)
            q = turned(nn.DenseGeneral((8, 16), use_bias=False, dtype=kind)(y))
            k = turned(nn.DenseGeneral((2, 16), use_bias=False, dtype=kind)(y)).repeat(4, 2)
            v = nn.DenseGeneral((2, 16), use_bias=False, dtype=kind)(y).repeat(4, 2)
            s = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type="float32") / 4
            s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, jnp.finfo("float32").min)
            y = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(s).astype(kind), v)
            x = x + nn.DenseGeneral(128, axis=(-2, -1), use_bias=False, dtype=kind)(y)
            y = nn.RMSNorm(dtype=kind)(x)
            y = nn.silu(nn.Dense(344, use_bias=False, dtype=kind)(y)) * nn.Dense(344, use_bias=False, dtype=kind)(y)
            return x + nn.Dense(128, use_bias=False, dtype=kind)(y), None

    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(1500, 128, dtype=kind)(tokens)
            blocks = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True}, length=2)
            x, _ = blocks()(x, None)
            return nn.Dense(1500, use_bias=False, dtype=kind)(nn.RMSNorm(dtype=kind)(x))

    tokens = _tokens(2, 80, 1500)
    train(
        Net(),
        _next_token(tokens),
        tokens,
        optimiser=optax.adamw(1e-3, mask=lambda p: jax.tree.map(lambda a: a.ndim > 1, p)),
    )


@program(("float32",))
def selective_state_space(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            d, n = 32, 8
            z, gate = jnp.split(nn.Dense(2 * d)(x), 2, -1)
            z = nn.silu(nn.Conv(d, (4,), padding="CAUSAL", feature_group_count=d)(z))
            step = nn.softplus(nn.Dense(d)(z))
            b, c = nn.Dense(n)(z), nn.Dense(n)(z)
            a = -jnp.exp(self.param("a", nn.initializers.normal(), (d, n)))
            keep = jnp.exp(step[..., None] * a)
            push = step[..., None] * b[:, :, None] * z[..., None]
            _, h = lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (keep, push), axis=1)
            return nn.Dense(x.shape[-1])(jnp.einsum("btdn,btn->btd", h, c) * nn.silu(gate))

    train(Net(), _square, normal(0, (2, 100, 24)))


@program(("float32",))
def long_convolutions(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            t = x.shape[1]
            kernel = (
                self.param("kernel", nn.initializers.normal(), (t, x.shape[2])) * jnp.exp(-jnp.arange(t) / 20)[:, None]
            )
            f = jnp.fft.rfft(kernel, 2 * t, axis=0)
            y = jnp.fft.irfft(jnp.fft.rfft(x, 2 * t, axis=1) * f, 2 * t, axis=1)[:, :t]
            return nn.Dense(x.shape[2])(nn.gelu(y + x)) * nn.sigmoid(nn.Dense(x.shape[2])(x))

    train(Net(), _square, normal(0, (2, 150, 24)))


@program(("float32", "bfloat16"))
def linear_attention(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            q, k, v = (nn.DenseGeneral((4, 16), dtype=kind)(x).astype("float32") for _ in range(3))
            q, k = nn.elu(q) + 1, nn.elu(k) + 1

            def turn(state, row):
                s, z = state
                q, k, v = row
                s, z = s * 0.99 + k[..., :, None] * v[..., None, :], z * 0.99 + k
                return (s, z), jnp.einsum("bhd,bhde->bhe", q, s) / ((q * z).sum(-1) + 1e-6)[..., None]

            rows = tuple(jnp.moveaxis(a, 1, 0) for a in (q, k, v))
            zero = (jnp.zeros((x.shape[0], 4, 16, 16)), jnp.zeros((x.shape[0], 4, 16)))
            _, y = lax.scan(turn, zero, rows)
            return nn.DenseGeneral(x.shape[-1], axis=(-2, -1), dtype=kind)(jnp.moveaxis(y, 0, 1).astype(kind))

    train(Net(), _square, normal(0, (3, 40, 48), kind))


@program(("float32",))
def memory_by_content(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            class Cell(nn.Module):
                @nn.compact
                def __call__(self, memory, x):
                    key, wipe, put = jnp.split(nn.Dense(48)(x), 3, -1)
                    like = jnp.einsum("bnd,bd->bn", memory, key) / (
                        jnp.linalg.norm(memory, axis=-1) * jnp.linalg.norm(key, axis=-1, keepdims=True) + 1e-4
                    )
                    w = nn.softmax(5 * like)
                    memory = memory * (1 - w[..., None] * nn.sigmoid(wipe)[:, None]) + w[..., None] * put[:, None]
                    return memory, jnp.einsum("bn,bnd->bd", w, memory)

            cell = nn.scan(Cell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)
            return cell()(jnp.full((x.shape[0], 20, 16), 0.1), x)[1]

    train(Net(), _square, normal(0, (4, 25, 12)))


@program(("float32",))
def spatial_transformer(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            t = nn.Dense(6)(nn.relu(nn.Dense(32)(x.reshape(x.shape[0], -1)))).reshape(-1, 2, 3) + jnp.eye(2, 3)
            grid = jnp.stack(jnp.meshgrid(jnp.linspace(-1, 1, 28), jnp.linspace(-1, 1, 28), indexing="ij"), -1)
            at = jnp.einsum("bij,hwj->ibhw", t[:, :, :2], grid) + t[:, :, 2].T[:, :, None, None]
            at = (at + 1) * 13.5
            sampled = jax.vmap(lambda image, y, x: jax.scipy.ndimage.map_coordinates(image, [y, x], 1))(x[..., 0], *at)
            return nn.Dense(10)(sampled.reshape(x.shape[0], -1))

    train(Net(), _labels, normal(0, (5, 28, 28, 1)))


@program(("float32",))
def mixture_density(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return jnp.split(nn.Dense(15)(jnp.tanh(nn.Dense(50)(x))), 3, -1)

    y = normal(1, (100, 1))

    def loss(out):
        weight, mean, log = out
        near = -0.5 * ((y - mean) / jnp.exp(log)) ** 2 - log
        return -jax.nn.logsumexp(jax.nn.log_softmax(weight) + near, axis=-1).mean()

    train(Net(), loss, normal(0, (100, 1)))


@program(("float32",))
def speech_recogniser(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            window = jnp.hanning(64)
            frames = jnp.asarray(x)[:, jnp.arange(60)[:, None] * 32 + jnp.arange(64)] * window
            power = jnp.abs(jnp.fft.rfft(frames)) ** 2
            y = jnp.log(power @ jnp.abs(jnp.asarray(normal(5, (33, 20)))) + 1e-3)
            y = nn.relu(nn.Conv(32, (5,), (2,))(nn.LayerNorm()(y)))
            return nn.Dense(11)(nn.RNN(nn.GRUCell(32))(y))

    labels = np.arange(8)[None].repeat(2, 0) % 10 + 1
    pad = np.zeros((2, 30), "float32")
    train(Net(), lambda out: optax.ctc_loss(out, pad, labels, np.zeros((2, 8), "float32")).mean(), normal(0, (2, 2000)))


@program(("float32", "bfloat16"))
def distillation(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            teacher = nn.Dense(30, dtype=kind)(nn.relu(nn.Dense(200, dtype=kind)(x)))
            student = nn.Dense(30, dtype=kind)(nn.relu(nn.Dense(20, dtype=kind)(x)))
            return lax.stop_gradient(teacher).astype("float32"), student.astype("float32")

    def loss(out):
        soft = [jax.nn.log_softmax(a / 4) for a in out]
        return (jnp.exp(soft[0]) * (soft[0] - soft[1])).sum(-1).mean() * 16

    train(Net(), loss, normal(0, (64, 100), kind))


@program(("float32",))
def training_for_integers(kind):
    def rounded(x, axis=None):
        scale = jnp.maximum(jnp.abs(x).max(axis, keepdims=axis is not None), 1e-6) / 127
        return x + lax.stop_gradient(jnp.clip(jnp.round(x / scale), -127, 127) * scale - x)

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            for n, width in enumerate((96, 10)):
                w = self.param(f"w{n}", nn.initializers.normal(), (x.shape[-1], width))
                x = rounded(x) @ rounded(w, 0)
                x = nn.relu(x) if n == 0 else x
            return x

    train(Net(), _labels, normal(0, (32, 120)))


@program(("float32",))
def capsules(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(32, (9, 9), (2, 2), padding="VALID")(x).reshape(x.shape[0], -1, 8)
            x = x / (1 + (x**2).sum(-1, keepdims=True))
            w = self.param("w", nn.initializers.normal(), (x.shape[1], 10, 8, 16))
            votes = jnp.einsum("bid,ijde->bije", x, w)
            b = jnp.zeros(votes.shape[:3])
            for _ in range(3):
                s = jnp.einsum("bij,bije->bje", nn.softmax(b, axis=2), votes)
                size = (s**2).sum(-1, keepdims=True)
                v = s * size / (1 + size) / jnp.sqrt(size + 1e-7)
                b = b + jnp.einsum("bije,bje->bij", votes, v)
            return jnp.sqrt((v**2).sum(-1) + 1e-7)

    train(Net(), _labels, normal(0, (3, 28, 28, 1)))


@program(("float32",))
def three_dimensions(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3, 3))(x))
            x = nn.max_pool(x, (2, 2, 2), (2, 2, 2))
            x = nn.relu(nn.BatchNorm(False)(nn.Conv(16, (3, 3, 3), (1, 2, 2))(x)))
            return nn.Dense(5)(x.mean((1, 2, 3)))

    train(Net(), _labels, normal(0, (2, 12, 24, 24, 2)))


@program(("float32",))
def dropout_and_noise(kind):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, seed):
            key = jax.random.key(seed)
            x = x + 0.1 * jax.random.normal(key, x.shape)
            for n in range(2):
                x = nn.relu(nn.Dense(100)(x))
                keep = jax.random.bernoulli(jax.random.fold_in(key, n), 0.7, x.shape)
                x = jnp.where(keep, x / 0.7, 0)
            return nn.Dense(10)(x)

    train(Net(), _labels, normal(0, (64, 60)), np.uint32(7))
