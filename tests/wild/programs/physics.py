"""Simulations in plain JAX: waves, fluids, particles, lattices, and the solvers that they need."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from programs._filled import normal
from registry import program

FLOATS = ("float32", "float64")


@program(FLOATS)
def electromagnetic_waves(kind):
    @jax.jit
    def run(e, hx, hy, eps):
        def turn(n, s):
            e, hx, hy = s
            hx = hx.at[:, :-1].add(-0.5 * (e[:, 1:] - e[:, :-1]))
            hy = hy.at[:-1].add(0.5 * (e[1:] - e[:-1]))
            e = e.at[1:-1, 1:-1].add(
                0.5 / eps[1:-1, 1:-1] * (hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2])
            )
            return e.at[20, 30].add(jnp.sin(0.3 * n).astype(kind)), hx, hy

        return lax.fori_loop(0, 30, turn, (e, hx, hy))

    zero = np.zeros((64, 72), kind)
    run(zero, zero, zero, 1 + np.abs(normal(0, (64, 72), kind)))


@program(FLOATS)
def shallow_water(kind):
    @jax.jit
    def run(h, u, v):
        def d(a, axis):
            return (jnp.roll(a, -1, axis) - jnp.roll(a, 1, axis)) / 2

        def slope(s):
            h, u, v = s
            return (
                -d(h * u, 0) - d(h * v, 1),
                -u * d(u, 0) - v * d(u, 1) - d(h, 0),
                -u * d(v, 0) - v * d(v, 1) - d(h, 1),
            )

        def turn(s, _):
            k1 = slope(s)
            k2 = slope(jax.tree.map(lambda a, k: a + 0.025 * k, s, k1))
            k3 = slope(jax.tree.map(lambda a, k: a + 0.025 * k, s, k2))
            k4 = slope(jax.tree.map(lambda a, k: a + 0.05 * k, s, k3))
            s = jax.tree.map(lambda a, p, q, r, t: a + 0.05 / 6 * (p + 2 * q + 2 * r + t), s, k1, k2, k3, k4)
            return s, s[0].sum()

        return lax.scan(turn, (h, u, v), None, 8)

    run(1 + 0.1 * normal(0, (48, 56), kind), *(0.1 * normal(n, (48, 56), kind) for n in (1, 2)))


@program(FLOATS)
def spectral_fluid(kind):
    @jax.jit
    def run(w):
        n = w.shape[0]
        kx = (jnp.fft.fftfreq(n) * n).astype(kind)[:, None]
        ky = (jnp.fft.rfftfreq(n) * n).astype(kind)
        k2 = kx**2 + ky**2
        kept = (jnp.abs(kx) < n / 3) & (ky < n / 3)

        def turn(_, w):
            f = jnp.fft.rfft2(w)
            p = f / jnp.where(k2 == 0, 1, k2)
            u, v, wx, wy = (jnp.fft.irfft2(1j * a) for a in (ky * p, -kx * p, kx * f, ky * f))
            f = (f - 0.01 * jnp.fft.rfft2(u * wx + v * wy)) / (1 + 0.01 * 0.01 * k2)
            return jnp.fft.irfft2(jnp.where(kept, f, 0)).astype(kind)

        return lax.fori_loop(0, 5, turn, w)

    run(normal(0, (48, 48), kind))


@program(("float32", "bfloat16", "float16"))
def reaction_and_diffusion(kind):
    @jax.jit
    def run(u, v):
        kernel = jnp.asarray([[0.05, 0.2, 0.05], [0.2, -1, 0.2], [0.05, 0.2, 0.05]], kind)[None, None]

        def laplace(a):
            a = jnp.pad(a, 1, mode="wrap")[None, None]
            return lax.conv_general_dilated(a, kernel, (1, 1), "VALID")[0, 0]

        def turn(_, s):
            u, v = s
            r = u * v * v
            return (u + (laplace(u) - r + 0.055 * (1 - u))).astype(kind), (
                v + (0.5 * laplace(v) + r - 0.117 * v)
            ).astype(kind)

        return lax.fori_loop(0, 12, turn, (u, v))

    run(np.ones((64, 64), jnp.dtype(kind)), (np.abs(normal(0, (64, 64), scale=0.3))).astype(jnp.dtype(kind)))


@program(FLOATS)
def multigrid(kind):
    @jax.jit
    def solve(f):
        def smooth(u, f, n):
            for _ in range(n):
                p = jnp.pad(u, 1)
                u = u + 0.8 * ((p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - f) / 4 - u)
            return u

        def cycle(u, f):
            u = smooth(u, f, 2)
            if min(f.shape) > 4:
                p = jnp.pad(u, 1)
                r = f - (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)
                m, n = r.shape
                coarse = r.reshape(m // 2, 2, n // 2, 2).sum((1, 3))
                u = u + jnp.repeat(jnp.repeat(cycle(jnp.zeros_like(coarse), coarse), 2, 0), 2, 1)
            return smooth(u, f, 2)

        return lax.fori_loop(0, 3, lambda _, u: cycle(u, f), jnp.zeros_like(f))

    solve(normal(0, (32, 32), kind))


@program(FLOATS)
def alternating_directions(kind):
    @jax.jit
    def run(u):
        n = u.shape[0]
        a = jnp.full(n, -0.4, kind).at[0].set(0)
        c = jnp.full(n, -0.4, kind).at[-1].set(0)
        b = jnp.full(n, 1.8, kind)

        def turn(u, _):
            u = lax.linalg.tridiagonal_solve(a, b, c, u)
            u = lax.linalg.tridiagonal_solve(a, b, c, u.T).T
            return u, jnp.abs(u).max()

        return lax.scan(turn, u, None, 4)

    def by_hand(d):
        def down(s, d):
            c, e = s
            m = 2.0 - -0.5 * c
            new = (-0.5 / m, (d - -0.5 * e) / m)
            return new, new

        _, (c, e) = lax.scan(down, (jnp.zeros((), kind), jnp.zeros(d.shape[1:], kind)), d)
        return lax.scan(
            lambda x, s: ((s[1] - s[0] * x).astype(kind),) * 2, jnp.zeros(d.shape[1:], kind), (c, e), reverse=True
        )[1]

    run(normal(0, (40, 40), kind))
    jax.jit(by_hand)(normal(1, (60, 9), kind))


@program(("float32",))
def magnets(kind):
    @jax.jit
    def run(s, seed):
        i, j = jnp.meshgrid(jnp.arange(48), jnp.arange(48), indexing="ij")

        def turn(s, key):
            for colour in (0, 1):
                around = sum(jnp.roll(s, n, axis) for n in (1, -1) for axis in (0, 1))
                u = jax.random.uniform(jax.random.fold_in(key, colour), s.shape)
                flip = (u < jnp.exp(-2 * 0.44 * (s * around).astype("float32"))) & ((i + j) % 2 == colour)
                s = jnp.where(flip, -s, s)
            return s, s.mean(dtype="float32")

        return lax.scan(turn, s, jax.random.split(jax.random.key(seed), 6))

    run(np.where(normal(0, (48, 48)) > 0, 1, -1).astype("int8"), np.uint32(1))


@program(FLOATS)
def oscillators(kind):
    @jax.jit
    def run(turn, own):
        def slope(a):
            return own + 1.5 * jnp.sin(a[None] - a[:, None]).mean(1)

        def step(a, _):
            b = slope(a)
            c = slope(a + 0.1 * b)
            a = (a + 0.05 * (b + c)) % jnp.asarray(2 * np.pi, kind)
            return a, jnp.abs(jnp.exp(1j * a).mean())

        return lax.scan(step, turn, None, 15)

    run(normal(0, 100, kind), normal(1, 100, kind))


@program(FLOATS)
def orbits(kind):
    @jax.jit
    def energy(q, p, m):
        d = q[:, None] - q
        far = jnp.sqrt((d**2).sum(-1) + 0.01)
        return (p**2 / m[:, None]).sum() / 2 - (jnp.triu(m * m[:, None], 1) / far).sum()

    @jax.jit
    def run(q, p, m):
        def turn(s, _):
            q, p = s
            p = p - 0.005 * jax.grad(energy)(q, p, m)
            q = q + 0.01 * jax.grad(energy, 1)(q, p, m)
            p = p - 0.005 * jax.grad(energy)(q, p, m)
            return (q, p), energy(q, p, m)

        return lax.scan(turn, (q, p), None, 12)

    run(normal(0, (20, 3), kind), normal(1, (20, 3), kind), 1 + np.abs(normal(2, 20, kind)))


@program(FLOATS)
def particles_in_cells(kind):
    @jax.jit
    def run(x, v):
        def turn(s, _):
            x, v = s
            left = jnp.floor(x).astype(int) % 64
            part = x - jnp.floor(x)
            rho = jnp.zeros(64, kind).at[left].add(1 - part).at[(left + 1) % 64].add(part) / 20 - 1
            k = (2 * np.pi * jnp.fft.rfftfreq(64)).astype(kind)
            f = jnp.fft.rfft(rho)
            field = jnp.fft.irfft(jnp.where(k == 0, 0, -1j * f / jnp.where(k == 0, 1, k))).astype(kind)
            v = v - 0.1 * (field[left] * (1 - part) + field[(left + 1) % 64] * part)
            x = (x + 0.1 * v) % 64
            return (x, v), (field**2).sum()

        return lax.scan(turn, (x, v), None, 10)

    run((np.abs(normal(0, 1280, kind)) * 20) % 64, normal(1, 1280, kind))


@program(FLOATS)
def elastic_cloth(kind):
    @jax.jit
    def run(x, v):
        def energy(x):
            total = 0.0
            for a, b in ((x[1:], x[:-1]), (x[:, 1:], x[:, :-1]), (x[1:, 1:], x[:-1, :-1])):
                d = jnp.sqrt(((a - b) ** 2).sum(-1) + 1e-8)
                total = total + (50 * (d - 0.1) ** 2).sum()
            return total + 0.981 * x[..., 2].sum()

        def turn(_, s):
            x, v = s
            v = 0.99 * (v - 0.01 * jax.grad(energy)(x))
            v = v.at[0].set(0)
            x = x + 0.01 * v
            r = jnp.linalg.norm(x, axis=-1, keepdims=True)
            return jnp.where(r < 0.3, x / r * 0.3, x), v

        return lax.fori_loop(0, 10, turn, (x, v))

    i, j = np.meshgrid(np.arange(16) * 0.1, np.arange(18) * 0.1, indexing="ij")
    run(np.stack([i + 0.4, j, 0 * i + 0.01 * i * j], -1).astype(kind), np.zeros((16, 18, 3), kind))


@program(("float32", "complex64"))
def quantum_circuit(kind):
    @jax.jit
    def run(angles):
        state = jnp.zeros((2,) * 8, "complex64").at[(0,) * 8].set(1)

        def apply(state, gate, *wires):
            k = len(wires)
            state = jnp.tensordot(gate.reshape((2,) * 2 * k), state, (tuple(range(k, 2 * k)), wires))
            return jnp.moveaxis(state, tuple(range(k)), wires)

        cross = jnp.eye(4, dtype="complex64")[jnp.array([0, 1, 3, 2])]
        for layer in range(2):
            for w in range(8):
                c, s = jnp.cos(angles[layer, w] / 2), jnp.sin(angles[layer, w] / 2)
                state = apply(state, jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])]).astype("complex64"), w)
            for w in range(8):
                state = apply(state, cross, w, (w + 1) % 8)
        p = jnp.abs(state) ** 2
        return (p.sum(tuple(range(1, 8))) * jnp.array([1.0, -1.0])).sum()

    jax.jit(jax.value_and_grad(run))(normal(0, (2, 8)))


@program(FLOATS)
def wave_function(kind):
    @jax.jit
    def run(psi, v):
        n = psi.shape[0]
        k = (2 * np.pi * jnp.fft.fftfreq(n, 0.1)).astype(kind)
        half, full = jnp.exp(-0.005j * v), jnp.exp(-0.005j * k**2)

        def turn(_, psi):
            psi = half * psi
            psi = jnp.fft.ifft(full * jnp.fft.fft(psi))
            return half * psi

        psi = lax.fori_loop(0, 20, turn, psi)
        return psi, (jnp.abs(psi) ** 2).sum()

    x = (np.arange(200) - 100) * 0.1
    wide = "complex64" if kind == "float32" else "complex128"
    run((np.exp(-(x**2)) * np.exp(3j * x)).astype(wide), (x**2 / 2).astype(kind))


@program(FLOATS)
def finite_elements(kind):
    n = 12
    grid = (
        np.stack(np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij"), -1).reshape(-1, 2).astype(kind)
    )
    corner = np.arange(n * n).reshape(n, n)[:-1, :-1].ravel()
    cells = np.concatenate(
        [np.stack([corner, corner + n, corner + 1], 1), np.stack([corner + n, corner + n + 1, corner + 1], 1)]
    )

    @jax.jit
    def solve(points, cells, load):
        p = points[cells]
        sides = jnp.stack([p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]], -1)
        slopes = jnp.asarray([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]], kind) @ jnp.linalg.inv(sides)
        local = jnp.einsum("cik,cjk,c->cij", slopes, slopes, jnp.abs(jnp.linalg.det(sides)) / 2)
        k = jnp.zeros((n * n, n * n), kind).at[cells[:, :, None], cells[:, None]].add(local)
        edge = (points == 0).any(1) | (points == 1).any(1)
        k = jnp.where(edge[:, None] | edge, jnp.eye(n * n, dtype=kind), k)
        f = jnp.where(edge, 0, load)
        return jnp.linalg.solve(k, f), jax.scipy.sparse.linalg.cg(lambda u: k @ u, f, maxiter=25)[0]

    solve(grid, cells, np.full(n * n, 0.01, kind))


@program(FLOATS)
def robot_arm(kind):
    @jax.jit
    def reach(q, goal):
        def hand(q):
            def turn(c, a):
                at, angle = c
                angle = angle + a
                return (at + jnp.stack([jnp.cos(angle), jnp.sin(angle)]), angle), None

            return lax.scan(turn, (jnp.zeros(2, kind), jnp.zeros((), kind)), q)[0][0]

        def turn(_, q):
            j = jax.jacobian(hand)(q)
            return q + j.T @ jnp.linalg.solve(j @ j.T + 0.1 * jnp.eye(2, dtype=kind), goal - hand(q))

        return lax.fori_loop(0, 10, turn, q)

    @jax.jit
    def regulator(a, b):
        def turn(p, _):
            k = jnp.linalg.solve(jnp.eye(2, dtype=kind) + b.T @ p @ b, b.T @ p @ a)
            return jnp.eye(6, dtype=kind) + a.T @ p @ (a - b @ k), k

        return lax.scan(turn, jnp.eye(6, dtype=kind), None, 20)

    reach(normal(0, 7, kind, 0.3), np.array([3, 2], kind))
    regulator(np.eye(6, dtype=kind) * 0.9 + normal(1, (6, 6), kind, 0.1), normal(2, (6, 2), kind))


@program(FLOATS)
def spline_and_quadrature(kind):
    @jax.jit
    def spline(x, y, q):
        h = x[1:] - x[:-1]
        n = x.shape[0]
        m = jnp.diag(jnp.concatenate([jnp.ones(1, kind), 2 * (h[1:] + h[:-1]), jnp.ones(1, kind)]))
        m = (
            m.at[jnp.arange(1, n - 1), jnp.arange(n - 2)]
            .set(h[:-1])
            .at[jnp.arange(1, n - 1), jnp.arange(2, n)]
            .set(h[1:])
        )
        s = jnp.diff(y) / h
        c = jnp.linalg.solve(m, jnp.pad(3 * (s[1:] - s[:-1]), 1))
        i = jnp.clip(jnp.searchsorted(x, q) - 1, 0, n - 2)
        t = q - x[i]
        b, d = s - h * (2 * c[:-1] + c[1:]) / 3, (c[1:] - c[:-1]) / (3 * h)
        return y[i] + t * (b[i] + t * (c[i] + t * d[i]))

    @jax.jit
    def integral(a, b):
        def f(x):
            return jnp.exp(-(x**2)) * jnp.cos(3 * x)

        rows = [(b - a) / 2 * (f(a) + f(b))]
        table = [rows]
        for k in range(1, 6):
            n = 2**k
            x = a + (b - a) * (jnp.arange(1, n, 2).astype(kind) / n)
            row = [table[-1][0] / 2 + (b - a) / n * f(x).sum()]
            for j in range(1, k + 1):
                row.append(row[-1] + (row[-1] - table[-1][j - 1]) / (4**j - 1))
            table.append(row)
        return table[-1][-1]

    x = np.sort(normal(0, 30, kind))
    spline(x, np.sin(x), np.linspace(-1, 1, 50).astype(kind))
    integral(np.asarray(0.0, kind)[()], np.asarray(2.0, kind)[()])
