"""Operations over an array namespace, which may be NumPy's or hlotool's.

Images lie with features last, sequences as (batch, position, feature); weights of products are (from, to).  Sums and
normalisations of narrow floats are computed in f32, as frameworks do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hlotool.lazy_dataclass import dataclass

__all__ = ["PLAIN", "Tools", "adam"]


@dataclass(frozen=True, slots=True)
class Tools:
    """An array namespace with loops: ``repeat(count, body, x)``, and ``scan(f, carry, xs)`` over rows."""

    np: Any
    repeat: Callable[[int, Callable[[Any], Any], Any], Any]
    scan: Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any], tuple[Any, Any]]


def matmul(t: Tools, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    a = t.np.swapaxes(a, -1, -2) if transpose_a else a
    return t.np.matmul(a, t.np.swapaxes(b, -1, -2) if transpose_b else b)


def linear(t: Tools, x: Any, w: Any, b: Any) -> Any:
    return t.np.matmul(x, w) + b


def linear_int8(t: Tools, x: Any, w: Any, scale: Any) -> Any:
    """Weights of 8 bits with a scale for each column; sums in the type of x."""
    return t.np.matmul(x, t.np.astype(w, x.dtype)) * scale


def add(t: Tools, a: Any, b: Any) -> Any:
    return a + b


def multiply(t: Tools, a: Any, b: Any) -> Any:
    return a * b


def relu(t: Tools, x: Any) -> Any:
    return t.np.maximum(x, 0)


def tanh(t: Tools, x: Any) -> Any:
    return t.np.tanh(x)


def sigmoid(t: Tools, x: Any) -> Any:
    return 1 / (1 + t.np.exp(-x))


def silu(t: Tools, x: Any) -> Any:
    return x / (1 + t.np.exp(-x))


def gelu(t: Tools, x: Any) -> Any:
    """The approximation by a hyperbolic tangent."""
    return x * (0.5 + 0.5 * t.np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def softmax(t: Tools, x: Any) -> Any:
    wide = t.np.astype(x, t.np.float32)
    e = t.np.exp(wide - t.np.max(wide, axis=-1, keepdims=True))
    return t.np.astype(e / t.np.sum(e, axis=-1, keepdims=True), x.dtype)


def layer_norm(t: Tools, x: Any, gain: Any, bias: Any) -> Any:
    wide = t.np.astype(x, t.np.float32)
    centred = wide - t.np.mean(wide, axis=-1, keepdims=True)
    variance = t.np.mean(centred * centred, axis=-1, keepdims=True)
    return t.np.astype(centred / t.np.sqrt(variance + 1e-5), x.dtype) * gain + bias


def rms_norm(t: Tools, x: Any, gain: Any) -> Any:
    wide = t.np.astype(x, t.np.float32)
    square = t.np.mean(wide * wide, axis=-1, keepdims=True)
    return t.np.astype(wide / t.np.sqrt(square + 1e-5), x.dtype) * gain


def batch_norm(t: Tools, x: Any, gain: Any, bias: Any, mean: Any, variance: Any) -> Any:
    """With the statistics of training."""
    return (x - mean) * (gain / t.np.sqrt(variance + 1e-5)) + bias


def spatial_mean(t: Tools, x: Any) -> Any:
    return t.np.mean(x, axis=tuple(range(1, x.ndim - 1)))


def attention(t: Tools, q: Any, k: Any, v: Any, heads: int, kv_heads: int | None = None, causal: bool = False) -> Any:
    """Of q (batch, rows, heads * size) over k and v, whose heads may be fewer; row i of a causal one sees up to i."""
    shared = heads // (kv_heads or heads)
    batch, rows, width = q.shape
    size = width // heads

    def split(x: Any, count: int) -> Any:
        return t.np.transpose(t.np.reshape(x, (batch, x.shape[1], count, size)), (0, 2, 1, 3))

    groups = heads // shared
    queries = t.np.reshape(split(q, heads), (batch, groups, shared * rows, size))
    keys, values = split(k, groups), split(v, groups)
    scores = t.np.matmul(queries, t.np.swapaxes(keys, -1, -2)) * (1 / math.sqrt(size))
    if causal:
        seen = t.np.arange(rows)[:, None] >= t.np.arange(k.shape[1])[None, :]
        scores = t.np.reshape(scores, (batch, heads, rows, k.shape[1]))
        scores = t.np.where(seen, scores, t.np.astype(t.np.asarray(-1e30), scores.dtype))
        scores = t.np.reshape(scores, (batch, groups, shared * rows, k.shape[1]))
    mixed = t.np.reshape(t.np.matmul(softmax(t, scores), values), (batch, heads, rows, size))
    return t.np.reshape(t.np.transpose(mixed, (0, 2, 1, 3)), (batch, rows, width))


def rope(t: Tools, x: Any, cosines: Any, sines: Any, heads: int) -> Any:
    """Rotary positions: the halves of each head's features turn by angles of (rows, size / 2)."""
    batch, rows, width = x.shape
    half = width // heads // 2
    split = t.np.reshape(x, (batch, rows, heads, 2 * half))
    a, b = split[..., :half], split[..., half:]
    c, s = cosines[:, None, :], sines[:, None, :]
    return t.np.reshape(t.np.concatenate([a * c - b * s, b * c + a * s], axis=-1), (batch, rows, width))


def take_rows(t: Tools, table: Any, rows: Any) -> Any:
    return t.np.take(table, rows, axis=0)


def bag(t: Tools, table: Any, rows: Any) -> Any:
    """The sum of some rows of a table, for each of a batch."""
    return t.np.sum(t.np.take(table, rows, axis=0), axis=1)


def interaction(t: Tools, *features: Any) -> Any:
    """DLRM's: products of all pairs of feature vectors, behind the first vector."""
    stacked = t.np.stack(features, axis=1)
    products = t.np.matmul(stacked, t.np.swapaxes(stacked, 1, 2))
    count = len(features)
    pairs = [i * count + j for i in range(count) for j in range(i)]
    flat = t.np.reshape(products, (products.shape[0], count * count))
    return t.np.concatenate([features[0], t.np.take(flat, t.np.asarray(pairs), axis=1)], axis=1)


def concatenate(t: Tools, *parts: Any) -> Any:
    return t.np.concatenate(parts, axis=-1)


# ---- recurrent, over x of (steps, batch, from): all outputs


def rnn(t: Tools, x: Any, w: Any, r: Any, b: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = t.np.tanh(row + t.np.matmul(h, r))
        return h, h

    return t.scan(step, t.np.zeros((x.shape[1], r.shape[0]), dtype=x.dtype), t.np.matmul(x, w) + b)[1]


def lstm(t: Tools, x: Any, w: Any, r: Any, b: Any) -> Any:
    """Gates in PyTorch's order: input, forget, cell, output."""
    size = r.shape[0]

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        gates = row + t.np.matmul(h, r)
        i, f, o = (sigmoid(t, gates[:, n * size : (n + 1) * size]) for n in (0, 1, 3))
        c = f * c + i * t.np.tanh(gates[:, 2 * size : 3 * size])
        h = o * t.np.tanh(c)
        return (h, c), h

    zero = t.np.zeros((x.shape[1], size), dtype=x.dtype)
    return t.scan(step, (zero, zero), t.np.matmul(x, w) + b)[1]


def gru(t: Tools, x: Any, w: Any, r: Any, b: Any, d: Any) -> Any:
    """Gates in PyTorch's order: reset, update, new; `d` is the bias of the products with the state."""
    size = r.shape[0]

    def step(h: Any, row: Any) -> Any:
        inner = t.np.matmul(h, r) + d
        reset, update = (sigmoid(t, row[:, n : n + size] + inner[:, n : n + size]) for n in (0, size))
        new = t.np.tanh(row[:, 2 * size :] + reset * inner[:, 2 * size :])
        h = new + update * (h - new)
        return h, h

    return t.scan(step, t.np.zeros((x.shape[1], size), dtype=x.dtype), t.np.matmul(x, w) + b)[1]


def adam(t: Tools, parameter: Any, gradient: Any, rate: float) -> Any:
    """The parameter after its first step of Adam (Kingma and Ba, 2015), with an epsilon of 0.001."""
    mean, square = 0.1 * gradient, 0.001 * gradient * gradient
    return parameter - rate * (mean / 0.1) / (t.np.sqrt(square / 0.001) + 1e-3)


# ---- small things, and loops of small things


def three_x_squared_mean(t: Tools, x: Any, y: Any) -> Any:
    return t.np.mean(x * x * 3 + y)


def long_chain(t: Tools, x: Any, y: Any) -> Any:
    a = t.np.sin(x) * t.np.cos(y) + t.np.exp(-x * x)
    b = t.np.log1p(t.np.abs(a)) - t.np.tanh(y) * sigmoid(t, x)
    c = t.np.sqrt(b * b + 1) / (t.np.abs(x - y) + 1)
    return t.np.where(c > 0.5, c * 2 - a, t.np.maximum(b, 0.1) * a)


def black_scholes(t: Tools, price: Any, strike: Any, years: Any) -> Any:
    """European calls at a rate of 2 % and a volatility of 30 %; the normal distribution by a logistic function."""
    rate, volatility = 0.02, 0.3
    spread = volatility * t.np.sqrt(years)
    d1 = (t.np.log(price / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread

    def below(d: Any) -> Any:
        return sigmoid(t, 1.5976 * d + 0.070565992 * d * d * d)

    return price * below(d1) - strike * t.np.exp(-rate * years) * below(d2)


def sum_over(t: Tools, x: Any, axis: int) -> Any:
    return t.np.sum(x, axis=axis)


def running_sum(t: Tools, x: Any, axis: int) -> Any:
    return t.np.cumsum(x, axis=axis)


def largest_place(t: Tools, x: Any) -> Any:
    return t.np.astype(t.np.argmax(x, axis=-1), t.np.int32)


def sorted_rows(t: Tools, x: Any) -> Any:
    return t.np.sort(x, axis=-1)


def transpose(t: Tools, x: Any, order: list[int]) -> Any:
    return t.np.transpose(x, tuple(order)) + 1


def small_layers(t: Tools, x: Any, w: Any, b: Any, steps: int) -> Any:
    """The same small layer so many times: each call is little work."""
    return t.repeat(steps, lambda h: t.np.tanh(t.np.matmul(h, w) + b), x)


def small_layers_unrolled(t: Tools, x: Any, w: Any, b: Any, steps: int) -> Any:
    for _ in range(steps):
        x = t.np.tanh(t.np.matmul(x, w) + b)
    return x


def averages(t: Tools, x: Any) -> Any:
    """Exponential averages of rows, one after the other."""

    def step(mean: Any, row: Any) -> Any:
        mean = 0.9 * mean + 0.1 * row
        return mean, mean

    return t.scan(step, t.np.zeros(x.shape[1:], dtype=x.dtype), x)[1]


# ---- numerical programs


def jacobi_2d(t: Tools, x: Any, steps: int) -> Any:
    """Means of four neighbours, with zeros around."""

    def step(x: Any) -> Any:
        p = t.np.pad(x, 1)
        return 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])

    return t.repeat(steps, step, x)


def heat_3d(t: Tools, x: Any, steps: int) -> Any:
    """Explicit steps of the heat equation, seven points, with zeros around."""

    def step(x: Any) -> Any:
        p = t.np.pad(x, 1)
        a, b, c = p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:], p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1], p[:-2, 1:-1, 1:-1]
        return x + 0.1 * (a + b + c + p[2:, 1:-1, 1:-1] - 6 * x)

    return t.repeat(steps, step, x)


def wave_2d(t: Tools, x: Any, steps: int) -> Any:
    """The wave equation: nine points of second differences of fourth order, with the step before."""

    def step(state: Any) -> Any:
        now, before = state
        p = t.np.pad(now, 2)
        n, m = now.shape
        around = sum(
            weight * (p[2 + d : 2 + d + n, 2 : 2 + m] + p[2 - d : 2 - d + n, 2 : 2 + m]
                      + p[2 : 2 + n, 2 + d : 2 + d + m] + p[2 : 2 + n, 2 - d : 2 - d + m])
            for d, weight in ((1, 4 / 3), (2, -1 / 12))
        )  # fmt: skip
        return 2 * now - before + 0.1 * (around - 5 * now), now

    return t.repeat(steps, step, (x, x))[0]


def fft(t: Tools, x: Any, dimensions: int) -> Any:
    """Of real numbers, over the last dimensions, as the power of each frequency."""
    found = t.np.fft.rfftn(x, axes=tuple(range(-dimensions, 0)))
    return t.np.astype(t.np.real(found) ** 2 + t.np.imag(found) ** 2, x.dtype)


def poisson_fft(t: Tools, x: Any) -> Any:
    """The periodic Poisson equation in two dimensions, solved among frequencies."""
    n, m = x.shape
    rows = t.np.astype(2 * t.np.cos(2 * math.pi * t.np.arange(n) / n) - 2, x.dtype)
    columns = t.np.astype(2 * t.np.cos(2 * math.pi * t.np.arange(m // 2 + 1) / m) - 2, x.dtype)
    values = rows[:, None] + columns[None, :]
    inverse = t.np.where(values == 0, 0 * values, 1 / t.np.where(values == 0, 1 + values, values))
    found = t.np.fft.irfftn(t.np.fft.rfftn(x, axes=(0, 1)) * inverse, s=(n, m), axes=(0, 1))
    return t.np.astype(found, x.dtype)


def n_body(t: Tools, place: Any, speed: Any, mass: Any, steps: int) -> Any:
    """All pairs under softened gravity, steps of a leapfrog: places at the end."""

    def step(state: Any) -> Any:
        x, v = state
        d = x[None, :, :] - x[:, None, :]
        square = t.np.sum(d * d, axis=-1) + 0.01
        pull = mass[None, :] / (square * t.np.sqrt(square))
        v = v + 0.001 * t.np.sum(d * pull[:, :, None], axis=1)
        return x + 0.001 * v, v

    return t.repeat(steps, step, (place, speed))[0]


def conjugate_gradients(t: Tools, b: Any, steps: int) -> Any:
    """So many steps for a two-dimensional Laplacian with 1 on its diagonal, without its matrix."""

    def product(x: Any) -> Any:
        p = t.np.pad(x, 1)
        return 5 * x - (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])

    def step(state: Any) -> Any:
        x, r, p, square = state
        q = product(p)
        length = square / t.np.sum(p * q)
        r = r - length * q
        new = t.np.sum(r * r)
        return x + length * p, r, r + new / square * p, new

    return t.repeat(steps, step, (0 * b, b, b, t.np.sum(b * b)))[0]


PLAIN: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        matmul, linear, linear_int8, add, multiply, relu, tanh, sigmoid, silu, gelu, softmax, layer_norm, rms_norm,
        batch_norm, spatial_mean, attention, rope, take_rows, bag, interaction, concatenate, rnn, lstm, gru,
        three_x_squared_mean, long_chain, black_scholes, sum_over, running_sum, largest_place, sorted_rows, transpose,
        small_layers, small_layers_unrolled, averages, jacobi_2d, heat_3d, wave_2d, fft, poisson_fft, n_body,
        conjugate_gradients,
    )
}  # fmt: skip
