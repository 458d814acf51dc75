"""Programs of JAX on stock, on hlotool's plug-in and through ``hlotool.jax.jit``: how long does a call take?

    python tests/survey_jax_speed.py [NAME...] [--seconds 1.5]

A line per program: medians in microseconds and ratios to stock, which is what counts on a busy machine; at the end the
geometric means, and the programs that are slower than stock by more than a tenth.  The three run in turns, in two child
processes, one with either platform.  Results go in as arguments again where a program is a step of a loop.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _mlp(sizes: list[int], batch: int) -> Case:
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), len(sizes))
    weights = [
        (jax.random.normal(k, (a, b)) / a**0.5, jnp.zeros(b))
        for k, a, b in zip(keys, sizes, sizes[1:], strict=False)
    ]

    def loss(weights: Any, x: Any) -> Any:
        for w, b in weights[:-1]:
            x = jnp.tanh(x @ w + b)
        return jnp.mean((x @ weights[-1][0] + weights[-1][1]) ** 2)

    return jax.value_and_grad(loss), (weights, jax.random.normal(keys[-1], (batch, sizes[0])))


def _attention(batch: int, length: int, width: int, heads: int) -> Case:
    import jax
    import jax.numpy as jnp

    def attend(x: Any, w: Any) -> Any:
        q, k, v = jnp.split((x @ w).reshape(batch, length, heads, -1), 3, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, length, -1)

    key = jax.random.key(0)
    return attend, (jax.random.normal(key, (batch, length, width)), jax.random.normal(key, (width, 3 * width)) * 0.1)


def _rnn(steps: int, width: int, gradient: bool) -> Case:
    import jax
    import jax.numpy as jnp

    def run(w: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros(width), xs)[0].sum()

    key = jax.random.key(0)
    arguments = jax.random.normal(key, (width, width)) * 0.1, jax.random.normal(key, (steps, width))
    return (jax.grad(run) if gradient else run), arguments


def _optax(name: str, **options: Any) -> Case:
    import jax
    import jax.numpy as jnp
    import optax

    optimiser = getattr(optax, name)(1e-3, **options)
    weights = {f"layer{n}": {"w": jnp.ones((32, 32)), "b": jnp.ones(32)} for n in range(6)}

    def step(weights: Any, state: Any) -> Any:
        updates, state = optimiser.update(jax.tree.map(jnp.sin, weights), state, weights)
        return optax.apply_updates(weights, updates), state

    return step, (weights, optimiser.init(weights))


def _convolutions(batch: int, size: int, channels: int, gradient: bool) -> Case:
    import jax

    def net(weights: Any, x: Any) -> Any:
        for w in weights:
            layout = ("NHWC", "HWIO", "NHWC")
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout))
        return (x**2).mean()

    key = jax.random.key(0)
    shapes = [(3, 3, 3, channels), (3, 3, channels, channels)]
    weights = [jax.random.normal(key, shape) * 0.1 for shape in shapes]
    return (jax.grad(net) if gradient else net), (weights, jax.random.normal(key, (batch, size, size, 3)))


def cases() -> dict[str, Callable[[], Case]]:
    """The programs by name; each is made when it is asked for."""
    import jax
    import jax.numpy as jnp

    def of(function: Any, *shapes: tuple[int, ...]) -> Callable[[], Case]:
        return lambda: (function, tuple(jax.random.normal(jax.random.key(n), s) for n, s in enumerate(shapes)))

    def many(*arrays: Any) -> Any:
        return [a + 1 for a in arrays]

    def tiny_loop(count: int) -> Any:
        return lambda x: jax.lax.fori_loop(0, count, lambda i, c: c * 0.999 + i, x)

    def collatz(x: Any) -> Any:
        def move(c: Any) -> Any:
            return c[0] + jnp.abs(jnp.sin(c[1])) + 0.1, c[1] + 1

        return jax.lax.while_loop(lambda c: c[0] < 5000.0, move, (x, x))

    def layer_norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def newton(x: Any) -> Any:
        return jnp.linalg.solve(x @ x.T + jnp.eye(16), x[0])

    def oscillator(y: Any) -> Any:
        def field(y: Any) -> Any:
            return jnp.stack([y[1], -jnp.sin(y[0])])

        def step(y: Any, _: Any) -> Any:
            a = field(y)
            b = field(y + 0.005 * a)
            c = field(y + 0.005 * b)
            d = field(y + 0.01 * c)
            return y + 0.01 / 6 * (a + 2 * b + 2 * c + d), y[0]

        return jax.lax.scan(step, y, None, length=500)[1]

    def lorenz(y: Any) -> Any:
        def field(y: Any) -> Any:
            return jnp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

        def step(y: Any, _: Any) -> Any:
            a = field(y)
            b = field(y + 0.005 * a)
            c = field(y + 0.005 * b)
            y = y + 0.01 / 6 * (a + 2 * b + 2 * c + field(y + 0.01 * c))
            return y, y

        return jax.lax.scan(step, y, None, length=1000)[1]

    def rotation(rates: Any) -> Any:
        def step(q: Any, w: Any) -> Any:
            a, (x, y, z) = q[0], w
            turn = jnp.array([[0, -x, -y, -z], [x, 0, z, -y], [y, -z, 0, x], [z, y, -x, 0]])
            q = q + 0.005 * turn @ q
            return q / jnp.sqrt((q * q).sum()), a

        return jax.lax.scan(step, jnp.array([1.0, 0, 0, 0]), rates)

    def neurons(currents: Any) -> Any:
        def step(v: Any, current: Any) -> Any:
            v = v + 0.1 * (current - v)
            return jnp.where(v > 1, 0.0, v), v > 1

        return jax.lax.scan(step, jnp.zeros(currents.shape[1]), currents)[1]

    def forward_algorithm(transitions: Any, likelihoods: Any) -> Any:
        def step(a: Any, seen: Any) -> Any:
            a = a @ transitions * seen
            return a / a.sum(), jnp.log(a.sum())

        transitions, likelihoods = jax.nn.softmax(transitions), jnp.exp(likelihoods)
        return jax.lax.scan(step, jnp.ones(5) / 5, likelihoods)[1].sum()

    def nested(x: Any) -> Any:
        def outer(i: Any, x: Any) -> Any:
            return jax.lax.fori_loop(0, 10, lambda j, x: x * 0.99 + j, x) + i

        return jax.lax.fori_loop(0, 200, outer, x)

    def thermostat(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return jax.lax.cond(x.sum() > 0, lambda x: x * 0.9 - 0.1, lambda x: x * 1.1 + 0.2, x)

        return jax.lax.fori_loop(0, 1000, step, x)

    def gauss_seidel(x: Any) -> Any:
        def sweep(_: Any, x: Any) -> Any:
            return jax.lax.fori_loop(1, 31, lambda i, x: x.at[i].set(0.5 * (x[i - 1] + x[i + 1])), x)

        return jax.lax.fori_loop(0, 30, sweep, x)

    def walk(x: Any) -> Any:
        return jnp.cumsum(jax.random.normal(jax.random.key(0), (20000,))) + x

    def embedding(table: Any) -> Any:
        return jax.grad(lambda t: jnp.sum(t[jnp.arange(512) * 7 % 1000] ** 2))(table)

    def logistic(w: Any, x: Any) -> Any:
        return jax.hessian(lambda w: jnp.mean(jnp.logaddexp(0.0, x @ w)))(w)

    def bellman(values: Any) -> Any:
        def sweep(_: Any, v: Any) -> Any:
            return jnp.maximum(v, 0.9 * jnp.maximum(jnp.roll(v, 1), jnp.roll(v, -1)))

        return jax.lax.fori_loop(0, 50, sweep, values)

    return {
        "add": of(lambda x: x + 1, (4,)),
        "add two trees": of(many, *[(3,)] * 12),
        "scalar chain": of(lambda x: jnp.sin(jnp.exp(-x)) * x + 2, ()),
        "dot small": of(lambda x, y: x @ y, (8, 8), (8, 8)),
        "dot 256": of(lambda x, y: x @ y, (256, 256), (256, 256)),
        "dot 1024": of(lambda x, y: x @ y, (1024, 1024), (1024, 1024)),
        "elementwise 1e6": of(lambda x: jnp.tanh(x) * jnp.exp(-x), (1_000_000,)),
        "sum rows": of(lambda x: x.sum(1), (1000, 1000)),
        "sum columns": of(lambda x: x.sum(0), (1000, 1000)),
        "softmax": of(jax.nn.softmax, (256, 1000)),
        "log-sum-exp": of(jax.nn.logsumexp, (100_000,)),
        "layer norm": of(layer_norm, (512, 256)),
        "transpose": of(lambda x: x.transpose(2, 0, 1) + 0, (100, 100, 100)),
        "sort": of(lambda x: jnp.sort(x), (50_000,)),
        "argmax": of(lambda x: jnp.argmax(x, 1), (500, 500)),
        "top k": of(lambda x: jax.lax.top_k(x, 8), (64, 2000)),
        "gather": of(lambda x: x[jnp.arange(0, 5000, 7) % 1000], (1000, 64)),
        "embedding grad": of(embedding, (1000, 64)),
        "cumulative sum": of(lambda x: jnp.cumsum(x), (100_000,)),
        "random walk": of(walk, ()),
        "fft": of(lambda x: jnp.abs(jnp.fft.fft(x)), (64, 1024)),
        "cholesky 16 solve": of(newton, (16, 16)),
        "cholesky 200": of(lambda x: jnp.linalg.cholesky(x @ x.T + 200 * jnp.eye(200)), (200, 200)),
        "mlp 13-64-64-1": lambda: _mlp([13, 64, 64, 1], 32),
        "mlp 784-256-10": lambda: _mlp([784, 256, 10], 64),
        "mlp 512x6": lambda: _mlp([512] * 6, 128),
        "attention small": lambda: _attention(2, 32, 32, 4),
        "attention": lambda: _attention(4, 128, 128, 8),
        "rnn": lambda: _rnn(100, 32, False),
        "rnn grad": lambda: _rnn(100, 32, True),
        "adam": lambda: _optax("adam"),
        "adamw": lambda: _optax("adamw"),
        "convolutions": lambda: _convolutions(4, 28, 16, False),
        "convolutions grad": lambda: _convolutions(4, 28, 16, True),
        "tiny loop 1000": of(tiny_loop(1000), ()),
        "tiny loop 10000": of(tiny_loop(10000), (3,)),
        "while": of(collatz, ()),
        "runge-kutta": of(oscillator, (2,)),
        "lorenz": of(lorenz, (3,)),
        "rotation": of(rotation, (500, 3)),
        "neurons": of(neurons, (1000, 10)),
        "hidden markov": of(forward_algorithm, (5, 5), (300, 5)),
        "nested loops": of(nested, (5,)),
        "branches in a loop": of(thermostat, (3,)),
        "gauss-seidel": of(gauss_seidel, (32,)),
        "bellman": of(bellman, (1000,)),
        "hessian": of(logistic, (20,), (200, 20)),
    }


def serve() -> None:
    """A child: for each line with a name, compile; for each further line "go", a list of times in seconds."""
    import jax
    import numpy as np

    import hlotool.jax

    ours = "--ours" in sys.argv
    programs, function, arguments = cases(), None, ()
    for request in map(str.strip, sys.stdin):
        if request != "go":
            made, arguments = programs[request]()
            begin = time.perf_counter()
            function = hlotool.jax.jit(made) if ours else jax.jit(made)
            if ours:
                arguments = jax.tree.map(np.asarray, arguments)
            jax.block_until_ready(function(*arguments))
            print(json.dumps(time.perf_counter() - begin), flush=True)
            continue
        times, end = [], time.perf_counter() + 0.1
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            for _ in range(5):
                found = function(*arguments)
            jax.block_until_ready(found)
            times.append((time.perf_counter() - begin) / 5)
        print(json.dumps(times), flush=True)


class Child:
    """One of the three, in a process of its own."""

    def __init__(self, platform: str, *options: str) -> None:
        environment = {**os.environ, "JAX_PLATFORMS": platform, "HLOTOOL_FALLBACK": "error"}
        command = [sys.executable, __file__, "--serve", *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{request}: the process ended with {self._process.wait()}")
        return json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each program, all three together")
    options = parser.parse_args()
    makers = {"stock": ("cpu",), "plugin": ("hlotool",), "jit": ("cpu", "--ours")}
    children = {kind: Child(*arguments) for kind, arguments in makers.items()}
    ratios: dict[str, dict[str, float]] = {"plugin": {}, "jit": {}}
    head = "".join(f"{kind:>11}" for kind in children)
    print(f"{'program':20}{head} us {'plugin':>8}{'jit':>8}   first call: stock, plugin, jit")
    for name in options.names or list(cases()):
        times: dict[str, list[float]] = {kind: [] for kind in children}
        first: dict[str, float] = {}
        for kind in list(children):
            try:
                first[kind] = children[kind].ask(name)
            except RuntimeError as error:
                print(f"{name:20}{kind}: {error}", flush=True)
                children[kind] = Child(*makers[kind])
        if len(first) < 3:
            continue
        for _ in range(max(1, round(options.seconds / 0.3))):
            for kind, child in children.items():
                times[kind] += child.ask("go")
        medians = {kind: statistics.median(found) for kind, found in times.items()}
        for kind in ratios:
            ratios[kind][name] = medians[kind] / medians["stock"]
        shown = "".join(f"{medians[kind] * 1e6:11.1f}" for kind in children)
        shares = "".join(f"{ratios[kind][name]:8.2f}" for kind in ratios)
        starts = ", ".join(f"{first[kind]:.2f}" for kind in children)
        print(f"{name:20}{shown}    {shares}   {starts} s", flush=True)
    for kind, found in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, found.values()))) if found else float("nan")
        slower = [name for name, ratio in found.items() if ratio > 1.1]
        print(f"{kind}: geometric mean {mean:.2f} over {len(found)}; slower than stock: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
