"""Algorithms in plain JAX: graphs, sequences, images, numbers, statistics; most of integers, sorts, gathers and loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from programs._filled import normal
from registry import program


def _integers(seed, shape, high, kind="int32"):
    return np.random.default_rng(seed).integers(0, high, shape).astype(kind)


# ---- graphs


@program(("float32", "int32"))
def shortest_paths(kind):
    n = 60
    far = np.where(_integers(0, (n, n), 5) == 0, _integers(1, (n, n), 30) + 1, 10_000).astype(kind)
    jax.jit(lambda d: lax.fori_loop(0, n, lambda k, d: jnp.minimum(d, d[:, k, None] + d[k]), d))(far)
    start, end, cost = _integers(2, 400, n), _integers(3, 400, n), (_integers(4, 400, 50) + 1).astype(kind)

    @jax.jit
    def relax(start, end, cost):
        d = jnp.full((n,), 10_000, kind).at[0].set(0)

        def turn(s):
            new = s[0].at[end].min(s[0][start] + cost)
            return new, jnp.any(new < s[0]), s[2] + 1

        return lax.while_loop(lambda s: s[1] & (s[2] < n), turn, (d, True, 0))

    relax(start, end, cost)


@program(("float32", "float64"))
def page_rank(kind):
    start, end = _integers(0, 3000, 500), _integers(1, 3000, 500)

    @jax.jit
    def rank(start, end):
        out = jnp.zeros(500, kind).at[start].add(1)

        def turn(s):
            p, _ = s
            flow = jnp.where(out > 0, p / jnp.maximum(out, 1), 0)[start]
            new = 0.15 / 500 + 0.85 * (jax.ops.segment_sum(flow, end, 500) + jnp.where(out == 0, p, 0).sum() / 500)
            return new.astype(kind), jnp.abs(new - p).sum()

        return lax.fori_loop(0, 20, lambda _, s: turn(s), (jnp.full(500, 1 / 500, kind), jnp.asarray(1.0, kind)))

    rank(start, end)


@program(("int32",))
def connected_components(kind):
    a, b = _integers(0, 300, 256), _integers(1, 300, 256)

    @jax.jit
    def label(a, b):
        def turn(s):
            p, _ = s
            low = jnp.minimum(p[a], p[b])
            new = p.at[a].min(low).at[b].min(low)
            new = new[new]
            return new, jnp.any(new != p)

        return lax.while_loop(lambda s: s[1], turn, (jnp.arange(256, dtype=kind), True))[0]

    label(a, b)


@program(("float32",))
def spanning_tree(kind):
    w = np.abs(normal(0, (40, 40)))

    @jax.jit
    def prim(w):
        w = jnp.where(jnp.eye(40, dtype=bool), jnp.inf, w + w.T)

        def turn(s, _):
            near, parent, done = s
            i = jnp.argmin(jnp.where(done, jnp.inf, near))
            done = done.at[i].set(True)
            better = (w[i] < near) & ~done
            return (jnp.where(better, w[i], near), jnp.where(better, i, parent), done), near[i]

        start = (jnp.full(40, jnp.inf).at[0].set(0), jnp.zeros(40, int), jnp.zeros(40, bool))
        return lax.scan(turn, start, None, 40)

    prim(w)


# ---- sequences


@program(("int32", "int16", "float32"))
def edit_distance(kind):
    a, b = _integers(0, 50, 4), _integers(1, 64, 4)

    @jax.jit
    def distance(a, b):
        def row(above, c):
            begin = above[0] + 1

            def cell(left, x):
                up, diagonal, d = x
                new = jnp.minimum(jnp.minimum(left, up) + 1, diagonal + (c != d).astype(kind)).astype(kind)
                return new, new

            _, rest = lax.scan(cell, begin, (above[1:], above[:-1], b))
            return jnp.concatenate([begin[None], rest]), None

        return lax.scan(row, jnp.arange(65).astype(kind), a)[0][-1]

    distance(a, b)


@program(("int32",))
def local_alignment(kind):
    a, b = _integers(0, 80, 20), _integers(1, 70, 20)
    score = (_integers(2, (20, 20), 9) - 4).astype(kind)

    @jax.jit
    def align(a, b, score):
        s = score[a[:, None], b]
        m, n = s.shape

        def turn(c, k):
            before, last = c
            i = jnp.arange(m)
            j = k - i
            inside = (j >= 0) & (j < n)
            here = s[i, jnp.clip(j, 0, n - 1)]
            diagonal = jnp.concatenate([jnp.zeros(1, kind), before[:-1]]) + here
            up = jnp.concatenate([jnp.zeros(1, kind), last[:-1]]) - 3
            new = jnp.where(inside, jnp.maximum(0, jnp.maximum(diagonal, jnp.maximum(up, last - 3))), 0)
            return (last, new), new.max()

        zero = jnp.zeros(m, kind)
        return lax.scan(turn, (zero, zero), jnp.arange(m + n - 1))[1].max()

    align(a, b, score)


@program(("float32", "float64"))
def hidden_markov(kind):
    first, move, emit = (np.abs(normal(n, s, kind)) + 0.1 for n, s in enumerate([(12,), (12, 12), (12, 30)]))
    seen = _integers(3, 100, 30)

    @jax.jit
    def viterbi(first, move, emit, seen):
        first, move, emit = (jnp.log(a / a.sum(-1, keepdims=True)) for a in (first, move, emit))

        def turn(v, o):
            s = v[:, None] + move
            return s.max(0) + emit[:, o], s.argmax(0)

        v, back = lax.scan(turn, first + emit[:, seen[0]], seen[1:])
        last = jnp.argmax(v)
        return v.max(), lax.scan(lambda s, b: (b[s], s), last, back, reverse=True)[1]

    @jax.jit
    def learn(first, move, emit, seen):
        def likelihood(p):
            first, move, emit = (jax.nn.log_softmax(a) for a in p)
            a = lax.scan(
                lambda a, o: (jax.nn.logsumexp(a[:, None] + move, 0) + emit[:, o], None),
                first + emit[:, seen[0]],
                seen[1:],
            )[0]
            return jax.nn.logsumexp(a)

        return jax.value_and_grad(likelihood)((first, move, emit))

    viterbi(first, move, emit, seen)
    learn(first, move, emit, seen)


@program(("float32", "float64"))
def kalman_by_scan(kind):
    f = (np.eye(4) + 0.1 * np.eye(4, k=2)).astype(kind)
    h, y = np.eye(2, 4).astype(kind), normal(0, (64, 2), kind)

    @jax.jit
    def filtered(f, h, y):
        q, r = 0.01 * jnp.eye(4, dtype=kind), 0.1 * jnp.eye(2, dtype=kind)

        def turn(s, y):
            m, p = s
            m, p = f @ m, f @ p @ f.T + q
            gain = jnp.linalg.solve(h @ p @ h.T + r, h @ p).T
            m = m + gain @ (y - h @ m)
            p = (jnp.eye(4, dtype=kind) - gain @ h) @ p
            return (m, p), (m, p)

        _, (m, p) = lax.scan(turn, (jnp.zeros(4, kind), jnp.eye(4, dtype=kind)), y)

        def back(s, x):
            m, p = x
            ahead = f @ p @ f.T + q
            g = jnp.linalg.solve(ahead, f @ p).T
            return (m + g @ (s[0] - f @ m), p + g @ (s[1] - ahead) @ g.T), None

        return lax.scan(back, (m[-1], p[-1]), (m[:-1], p[:-1]), reverse=True)[0]

    filtered(f, h, y)


@program(("float32",))
def particle_filter(kind):
    @jax.jit
    def run(y, noise, draws):
        def turn(x, row):
            y, e, u = row
            x = 0.5 * x + 25 * x / (1 + x**2) + 3 * e
            logs = -0.5 * (y - x**2 / 20) ** 2
            w = jax.nn.softmax(logs)
            at = jnp.searchsorted(jnp.cumsum(w), (jnp.arange(256) + u) / 256)
            return x[jnp.clip(at, 0, 255)], (jax.nn.logsumexp(logs), (w * x).sum(), 1 / (w**2).sum())

        return lax.scan(turn, noise[0], (y, noise, draws))

    run(normal(0, 30), normal(1, (30, 256)), np.random.default_rng(2).random(30).astype("float32"))


@program(("float32",))
def beam_search(kind):
    table, begin = normal(0, (40, 50)), normal(1, (50, 40))

    @jax.jit
    def search(table, begin):
        def turn(s):
            n, tokens, scores, state = s
            logs = jax.nn.log_softmax(state @ table)
            best, at = lax.top_k((scores[:, None] + logs).ravel(), 5)
            parent, token = at // 50, at % 50
            tokens = tokens[parent].at[:, n].set(token)
            return n + 1, tokens, best, jnp.tanh(state[parent] + begin[token])

        def more(s):
            return (s[0] < 16) & ~jnp.all(s[1][:, jnp.maximum(s[0] - 1, 0)] == 49)

        start = (0, jnp.zeros((5, 16), int), jnp.array([0.0, -1e9, -1e9, -1e9, -1e9]), jnp.zeros((5, 40)))
        return lax.while_loop(more, turn, start)

    search(table, begin)


@program(("float32", "bfloat16"))
def nucleus_sampling(kind):
    logits = normal(0, (8, 1000), kind, 3)

    @jax.jit
    def sample(logits, seed):
        logits = logits.astype("float32") / 0.8
        order = jnp.argsort(-logits, -1)
        ordered = jnp.take_along_axis(logits, order, -1)
        p = jax.nn.softmax(ordered)
        kept = jnp.where(jnp.cumsum(p, -1) - p < 0.9, ordered, -jnp.inf)
        at = jax.random.categorical(jax.random.key(seed), kept)
        return jnp.take_along_axis(order, at[:, None], -1)[:, 0]

    sample(logits, np.uint32(3))


# ---- integers


@program(("uint32",))
def hashes(kind):
    def rotated(x, n):
        return (x << n) | (x >> (32 - n))

    @jax.jit
    def chacha(state):
        def quarter(s, a, b, c, d):
            s = s.at[a].add(s[b])
            s = s.at[d].set(rotated(s[d] ^ s[a], 16))
            s = s.at[c].add(s[d])
            s = s.at[b].set(rotated(s[b] ^ s[c], 12))
            s = s.at[a].add(s[b])
            s = s.at[d].set(rotated(s[d] ^ s[a], 8))
            s = s.at[c].add(s[d])
            return s.at[b].set(rotated(s[b] ^ s[c], 7))

        def turn(_, s):
            for n in range(4):
                s = quarter(s, n, n + 4, n + 8, n + 12)
            for n in range(4):
                s = quarter(s, n, (n + 1) % 4 + 4, (n + 2) % 4 + 8, (n + 3) % 4 + 12)
            return s

        return lax.fori_loop(0, 10, turn, state) + state

    @jax.jit
    def crc(data):
        n = jnp.arange(256, dtype="uint32")
        table = lax.fori_loop(0, 8, lambda _, c: jnp.where(c & 1, (c >> 1) ^ jnp.uint32(0xEDB88320), c >> 1), n)
        return ~lax.scan(lambda c, b: (table[(c ^ b) & 255] ^ (c >> 8), None), jnp.uint32(0xFFFFFFFF), data)[0]

    @jax.jit
    def mixed(x):
        x = x ^ (x >> 16)
        x = x * jnp.uint32(0x85EBCA6B)
        x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
        return x ^ (x >> 16), lax.population_count(x), lax.clz(x)

    chacha(_integers(0, (16, 64), 2**32, kind))
    crc(_integers(1, 300, 256, kind))
    mixed(_integers(2, 5000, 2**32, kind))


@program(("uint32", "int32"))
def sorting_by_hand(kind):
    x = _integers(0, 1024, 2**20, kind)

    @jax.jit
    def bitonic(x):
        n = jnp.arange(1024)
        for k in range(1, 11):
            for j in range(k - 1, -1, -1):
                other = x[n ^ (1 << j)]
                low = ((n >> j) & 1 == 0) == ((n >> k) & 1 == 0)
                x = jnp.where(low, jnp.minimum(x, other), jnp.maximum(x, other))
        return x

    @jax.jit
    def radix(x):
        def turn(shift, x):
            digit = ((x >> shift.astype(kind) * 4) & 15).astype("int32")
            hot = digit[:, None] == jnp.arange(16)
            rank = jnp.cumsum(hot, 0, dtype="int32") - hot
            begin = jnp.cumsum(hot.sum(0)) - hot.sum(0)
            return jnp.zeros_like(x).at[begin[digit] + rank[jnp.arange(1024), digit]].set(x)

        return lax.fori_loop(0, 5, turn, x)

    @jax.jit
    def compacted(x):
        keep = x % 3 == 0
        return jnp.zeros_like(x).at[jnp.where(keep, jnp.cumsum(keep) - 1, 1024)].set(x, mode="drop"), keep.sum()

    bitonic(x), radix(x), compacted(x)


@program(("int32", "uint32"))
def sieve_and_powers(kind):
    @jax.jit
    def sieve():
        n = jnp.arange(2000)

        def turn(p, s):
            return jnp.where(s[p] & (n % p == 0) & (n > p), False, s)

        return lax.fori_loop(2, 45, turn, n > 1)

    @jax.jit
    def powers(b, e):
        def turn(s):
            r, b, e = s
            return jnp.where(e & 1, r * b % 9973, r), b * b % 9973, e >> 1

        return lax.while_loop(lambda s: jnp.any(s[2] > 0), turn, (jnp.ones_like(b), b % 9973, e))[0]

    @jax.jit
    def long_product(a, b):
        raw = jnp.convolve(a, b, precision="highest").astype(kind)
        return lax.scan(lambda c, x: ((x + c) // 10, (x + c) % 10), jnp.asarray(0, kind), raw)

    sieve()
    powers(_integers(0, 100, 9000, kind), _integers(1, 100, 5000, kind))
    long_product(_integers(2, 80, 10, kind), _integers(3, 90, 10, kind))


@program(("uint8",))
def packed_bytes(kind):
    x = _integers(0, (40, 64), 256, kind)

    @jax.jit
    def packed(x):
        words = lax.bitcast_convert_type(x.reshape(40, 16, 4), "uint32")
        halves = lax.bitcast_convert_type(x.reshape(40, 32, 2), "bfloat16").astype("float32")
        bits = jnp.unpackbits(x, axis=1)
        return words, jnp.where(jnp.isfinite(halves), halves, 0), bits.sum(1), jnp.packbits(bits[:, ::-1], axis=1)

    @jax.jit
    def coded(x):
        changed = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
        group = jnp.cumsum(changed) - 1
        count = jax.ops.segment_sum(jnp.ones(x.shape, "int32"), group, x.size)
        value = jnp.zeros(x.size, kind).at[group].set(x)
        return value, count, changed.sum()

    packed(x)
    coded(x.ravel() >> 6)


# ---- images


@program(("float32", "uint8"))
def image_filters(kind):
    image = (_integers(0, (60, 72), 256)).astype(kind)

    @jax.jit
    def edges(x):
        x = jnp.pad(x.astype("float32"), 1, mode="edge")
        v = x[:-2] + 2 * x[1:-1] + x[2:]
        h = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
        gx, gy = v[:, 2:] - v[:, :-2], h[2:] - h[:-2]
        size, turn = jnp.hypot(gx, gy), jnp.round(jnp.arctan2(gy, gx) / (jnp.pi / 4)).astype(int) % 4
        p = jnp.pad(size, 1)
        beside = jnp.stack([p[1:-1, 2:], p[2:, 2:], p[2:, 1:-1], p[2:, :-2]])
        against = jnp.stack([p[1:-1, :-2], p[:-2, :-2], p[:-2, 1:-1], p[:-2, 2:]])
        i, j = jnp.meshgrid(jnp.arange(60), jnp.arange(72), indexing="ij")
        return jnp.where((size >= beside[turn, i, j]) & (size >= against[turn, i, j]), size, 0)

    @jax.jit
    def median(x):
        p = jnp.pad(x, 1, mode="reflect")
        return jnp.sort(jnp.stack([p[i : i + 60, j : j + 72] for i in range(3) for j in range(3)]), 0)[4]

    @jax.jit
    def equalised(x):
        count = jnp.zeros(256, int).at[x.astype(int)].add(1)
        total = jnp.cumsum(count)
        return (total[x.astype(int)] * 255 // x.size).astype(kind)

    @jax.jit
    def bilateral(x):
        x = x.astype("float32")
        p = jnp.pad(x, 2, mode="symmetric")
        up = down = 0.0
        for i in range(5):
            for j in range(5):
                y = p[i : i + 60, j : j + 72]
                w = jnp.exp(-((i - 2) ** 2 + (j - 2) ** 2) / 8 - (y - x) ** 2 / 800)
                up, down = up + w * y, down + w
        return up / down

    @jax.jit
    def opened(x):
        low = lax.reduce_window(x, np.asarray(255, kind), lax.min, (3, 5), (1, 1), "SAME")
        return lax.reduce_window(low, np.asarray(0, kind), lax.max, (3, 5), (1, 1), "SAME")

    edges(image), median(image), equalised(image), bilateral(image), opened(image)


@program(("float32", "float16"))
def block_transform(kind):
    image = normal(0, (64, 80), kind)
    n = np.arange(8)
    cosines = (np.cos(np.pi * (2 * n + 1) * n[:, None] / 16) * np.where(n[:, None] == 0, 8**-0.5, 0.5)).astype(kind)
    table = (1 + n[:, None] + n).astype(kind) / 8

    @jax.jit
    def coded(x):
        blocks = x.reshape(8, 8, 10, 8).transpose(0, 2, 1, 3)
        c = jnp.einsum("ij,abjk,lk->abil", cosines, blocks, cosines)
        q = jnp.round(c / table)
        back = jnp.einsum("ji,abjk,kl->abil", cosines, q * table, cosines)
        return q.astype("int8"), back.transpose(0, 2, 1, 3).reshape(64, 80)

    coded(image)


@program(("float32",))
def optical_flow(kind):
    a = normal(0, (48, 48))

    @jax.jit
    def flow(a, b):
        gx, gy = jnp.gradient((a + b) / 2)
        box = lambda x: lax.reduce_window(x, 0.0, lax.add, (7, 7), (1, 1), "SAME")  # noqa: E731
        xx, xy, yy = box(gx * gx), box(gx * gy), box(gy * gy)
        xt, yt = box(gx * (b - a)), box(gy * (b - a))
        m = jnp.stack([jnp.stack([xx, xy], -1), jnp.stack([xy, yy], -1)], -2) + 0.1 * jnp.eye(2)
        return jnp.linalg.solve(m, -jnp.stack([xt, yt], -1)[..., None])[..., 0]

    flow(a, np.roll(a, 1, 0))


@program(("float32", "bfloat16"))
def ray_tracer(kind):
    @jax.jit
    def render(centres, radii, colours):
        y, x = jnp.meshgrid(jnp.linspace(1, -1, 40), jnp.linspace(-1.3, 1.3, 52), indexing="ij")
        ray = jnp.stack([x, y, jnp.ones_like(x)], -1).astype(kind)
        ray = ray / jnp.linalg.norm(ray.astype("float32"), axis=-1, keepdims=True).astype(kind)
        b = ray @ centres.T
        inside = b**2 - (centres**2).sum(-1) + radii**2
        t = jnp.where(inside > 0, b - jnp.sqrt(jnp.maximum(inside, 0)), jnp.inf)
        t = jnp.where(t > 0, t, jnp.inf)
        which, near = jnp.argmin(t, -1), t.min(-1)
        hit = jnp.isfinite(near)
        at = ray * jnp.where(hit, near, 0)[..., None]
        up = (at - centres[which]) / radii[which][..., None]
        light = jnp.maximum(up @ jnp.asarray([0.5, 0.7, -0.5], kind), 0)
        return jnp.where(hit[..., None], colours[which] * light[..., None], jnp.asarray(0.1, kind))

    far = np.array([0, 0, 5])
    render(
        (normal(0, (7, 3)) + far).astype(jnp.dtype(kind)),
        np.full(7, 0.7).astype(jnp.dtype(kind)),
        np.abs(normal(1, (7, 3), kind)),
    )


# ---- statistics


@program(("float32", "float64"))
def clusters(kind):
    x, c = normal(0, (500, 8), kind), normal(1, (10, 8), kind)

    @jax.jit
    def means(x, c):
        def turn(c, _):
            far = ((x[:, None] - c) ** 2).sum(-1)
            which = far.argmin(-1)
            n = jax.ops.segment_sum(jnp.ones(500, kind), which, 10)
            new = jax.ops.segment_sum(x, which, 10) / jnp.maximum(n, 1)[:, None]
            return jnp.where(n[:, None] > 0, new, c), far.min(-1).sum()

        return lax.scan(turn, c, None, 8)

    @jax.jit
    def mixture(x, c):
        def turn(s, _):
            mean, var, weight = s
            logs = -0.5 * (((x[:, None] - mean) ** 2) / var + jnp.log(var)).sum(-1) + jnp.log(weight)
            r = jax.nn.softmax(logs)
            n = r.sum(0) + 1e-3
            mean = r.T @ x / n[:, None]
            var = r.T @ x**2 / n[:, None] - mean**2 + 1e-2
            return (mean, var, n / n.sum()), jax.nn.logsumexp(logs, -1).mean()

        return lax.scan(turn, (c, jnp.ones((10, 8), kind), jnp.full(10, 0.1, kind)), None, 5)

    means(x, c), mixture(x, c)


@program(("float32", "float64"))
def factorisations(kind):
    x = np.abs(normal(0, (60, 45), kind))

    @jax.jit
    def parts(x, w, h):
        def turn(_, s):
            w, h = s
            h = h * (w.T @ x) / (w.T @ w @ h + 1e-6)
            return w * (x @ h.T) / (w @ h @ h.T + 1e-6), h

        return lax.fori_loop(0, 15, turn, (w, h))

    @jax.jit
    def principal(x, g):
        x = x - x.mean(0)
        q, _ = jnp.linalg.qr(x @ g)
        for _ in range(2):
            q, _ = jnp.linalg.qr(x @ (x.T @ q))
        return jnp.linalg.svd(q.T @ x, full_matrices=False)[1]

    @jax.jit
    def by_gram_schmidt(x):
        def turn(k, q):
            v = q[:, k]
            v = v / jnp.linalg.norm(v)
            rest = jnp.arange(q.shape[1]) > k
            return jnp.where(rest, q - v[:, None] * (v @ q), q).at[:, k].set(v)

        return lax.fori_loop(0, 20, turn, x[:, :20])

    parts(x, np.abs(normal(1, (60, 6), kind)), np.abs(normal(2, (6, 45), kind)))
    principal(x, normal(3, (45, 9), kind))
    by_gram_schmidt(x)


@program(("float32",))
def embedding_of_neighbours(kind):
    x, y = normal(0, (80, 20)), normal(1, (80, 2), scale=0.01)

    @jax.jit
    def step(x, y):
        d = ((x[:, None] - x) ** 2).sum(-1)

        def width(row):
            def turn(_, s):
                low, high = s
                b = (low + high) / 2
                p = jax.nn.softmax(-row * b)
                h = -(p * jnp.log(p + 1e-12)).sum()
                return jnp.where(h > 2.7, b, low), jnp.where(h > 2.7, high, b)

            return sum(lax.fori_loop(0, 20, turn, (0.0, 10.0))) / 2

        p = jax.nn.softmax(-d * jax.vmap(width)(d)[:, None])
        p = jnp.maximum((p + p.T) / 160, 1e-12)

        def loss(y):
            q = 1 / (1 + ((y[:, None] - y) ** 2).sum(-1)) * (1 - jnp.eye(80))
            return (p * jnp.log(p / jnp.maximum(q / q.sum(), 1e-12))).sum()

        return lax.fori_loop(0, 5, lambda _, y: y - 10 * jax.grad(loss)(y), y)

    step(x, y)


@program(("float32",))
def trees(kind):
    x = normal(0, (200, 10))
    feature, split = _integers(1, (8, 31), 10), normal(2, (8, 31))
    leaf = normal(3, (8, 32))

    @jax.jit
    def forest(x, feature, split, leaf):
        def one(feature, split, leaf):
            def turn(_, node):
                right = jnp.take_along_axis(x, feature[node][:, None], 1)[:, 0] > split[node]
                return 2 * node + 1 + right

            return leaf[lax.fori_loop(0, 5, turn, jnp.zeros(200, int)) - 31]

        return jax.vmap(one)(feature, split, leaf).sum(0)

    @jax.jit
    def best_split(x, g):
        edges = jnp.quantile(x, jnp.linspace(0.05, 0.95, 16), axis=0)
        left = (x[:, None] <= edges).astype("float32")
        a, n = jnp.einsum("nkf,n->kf", left, g), left.sum(0)
        gain = a**2 / (n + 1) + (g.sum() - a) ** 2 / (200 - n + 1)
        return jnp.unravel_index(jnp.argmax(gain), gain.shape), gain.max()

    forest(x, feature, split, leaf)
    best_split(x, leaf.ravel()[:200])


@program(("float32", "float64"))
def options_and_paths(kind):
    s = np.linspace(60, 140, 100).astype(kind)

    @jax.jit
    def lattice(s):
        n = 64
        up = jnp.exp(jnp.asarray(0.2, kind) * (1 / n) ** 0.5)
        p = (jnp.exp(jnp.asarray(0.03 / n, kind)) - 1 / up) / (up - 1 / up)
        steps = up ** (2 * jnp.arange(n + 1, dtype=kind) - n)
        v = jnp.maximum(100 - s[:, None] * steps, 0)

        def turn(i, v):
            held = (p * v[:, 1:] + (1 - p) * v[:, :-1]) * jnp.exp(jnp.asarray(-0.03 / n, kind))
            now = jnp.maximum(100 - s[:, None] * steps[:-1] * up ** (i + 1).astype(kind), 0)
            return jnp.pad(jnp.maximum(held, now), ((0, 0), (0, 1)))

        return lax.fori_loop(0, n, turn, v)[:, 0]

    @jax.jit
    def heston(z):
        def turn(c, z):
            x, v = c
            v = jnp.maximum(v, 0)
            x = x - v / 2 * 0.02 + jnp.sqrt(v * 0.02) * z[0]
            v = v + 2 * (0.04 - v) * 0.02 + 0.3 * jnp.sqrt(v * 0.02) * (-0.7 * z[0] + 0.714 * z[1])
            return (x, v), None

        x, _ = lax.scan(turn, (jnp.zeros(512, kind), jnp.full(512, 0.04, kind)), z)[0]
        pay = jnp.maximum(jnp.exp(x) - 1, 0)
        return pay.mean(), pay.std() / 512**0.5

    @jax.jit
    def greeks(s):
        def price(s, v):
            a = (jnp.log(s / 100) + v**2 / 2) / v
            return s * jax.scipy.special.ndtr(a) - 100 * jax.scipy.special.ndtr(a - v)

        first = jax.vmap(jax.grad(price, (0, 1)), (0, None))(s, jnp.asarray(0.2, kind))
        return first, jax.vmap(jax.grad(jax.grad(price)), (0, None))(s, jnp.asarray(0.2, kind))

    lattice(s), heston(normal(0, (50, 2, 512), kind)), greeks(s)
