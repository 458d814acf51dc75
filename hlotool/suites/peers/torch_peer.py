"""PyTorch, eagerly: its own functions for what it has functions for.  Images are channels_last in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from hlotool.suites.peers.programs import stepwise

__all__ = ["OPERATIONS", "arrays", "prepare", "tensors", "version"]


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def linear(x: Any, w: Any, b: Any) -> Any:
    return F.linear(x, w.T, b)


def linear_int8(x: Any, w: Any, scale: Any) -> Any:
    return torch.matmul(x, w.to(x.dtype)) * scale


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], gain, bias, 1e-5)


def rms_norm(x: Any, gain: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], gain, 1e-5)


def _first(x: Any) -> Any:
    """The same memory, features first."""
    return x.movedim(-1, 1)


def _last(x: Any) -> Any:
    return x.movedim(1, -1)


def _weights(w: Any) -> Any:
    """Weights as PyTorch has them; their order in memory is made the one that it wants."""
    form = torch.channels_last if w.ndim == 4 else torch.channels_last_3d
    return w.movedim((-1, -2), (0, 1)).contiguous(memory_format=form)


_turned: dict[int, tuple[Any, Any]] = {}


def _kept_weights(w: Any) -> Any:
    """The weights' other order, made once: frameworks hold weights as they want them."""
    if torch.compiler.is_compiling():
        return w.movedim((-1, -2), (0, 1))
    found = _turned.get(id(w))
    if found is None:
        found = _turned[id(w)] = (w, _weights(w))
    return found[1]


def convolution(x: Any, w: Any, stride: list[int], pad: list[int], groups: int = 1) -> Any:
    call = F.conv2d if x.ndim == 4 else F.conv3d
    return _last(call(_first(x), _kept_weights(w), stride=stride, padding=pad, groups=groups))


def convolution_gradients(x: Any, w: Any, slope: Any, stride: list[int], pad: list[int]) -> Any:
    dx, dw, _ = torch.ops.aten.convolution_backward(
        _first(slope), _first(x), _kept_weights(w), None, stride, pad, [1] * len(pad), False, [0] * len(pad), 1,
        [True, True, False],
    )  # fmt: skip
    return _last(dx), dw.movedim((0, 1), (-1, -2))


def batch_norm(x: Any, gain: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return _last(F.batch_norm(_first(x), mean, variance, gain, bias, eps=1e-5))


def max_pool(x: Any, window: list[int], stride: list[int], pad: list[int]) -> Any:
    return _last(F.max_pool2d(_first(x), window, stride, pad))


def spatial_mean(x: Any) -> Any:
    return x.mean(tuple(range(1, x.ndim - 1)))


def attention(q: Any, k: Any, v: Any, heads: int, kv_heads: int | None = None, causal: bool = False) -> Any:
    count, size = kv_heads or heads, q.shape[-1] // heads

    def split(x: Any, count: int) -> Any:
        return x.view(x.shape[0], x.shape[1], count, size).transpose(1, 2)

    found = F.scaled_dot_product_attention(
        split(q, heads), split(k, count), split(v, count), is_causal=causal, enable_gqa=count != heads
    )
    return found.transpose(1, 2).reshape(q.shape)


def rope(x: Any, cosines: Any, sines: Any, heads: int) -> Any:
    split = x.view(x.shape[0], x.shape[1], heads, -1)
    a, b = split.chunk(2, -1)
    c, s = cosines[:, None, :], sines[:, None, :]
    return torch.cat([a * c - b * s, b * c + a * s], -1).view(x.shape)


def interaction(*features: Any) -> Any:
    stacked = torch.stack(features, 1)
    products = torch.bmm(stacked, stacked.mT)
    i, j = torch.tril_indices(len(features), len(features), -1)
    return torch.cat([features[0], products[:, i, j]], 1)


def _recurrent(call: Any, x: Any, w: Any, r: Any, biases: Sequence[Any], states: int) -> Any:
    """PyTorch's own layer, whose weights are held the other way round."""
    zero = x.new_zeros((1, x.shape[1], r.shape[0]))
    held = [w.T, r.T, biases[0], biases[1] if len(biases) > 1 else torch.zeros_like(biases[0])]
    return call(x, (zero, zero) if states == 2 else zero, held, True, 1, 0.0, False, False, False)[0]


def rnn(x: Any, w: Any, r: Any, b: Any) -> Any:
    return _recurrent(torch.rnn_tanh, x, w, r, [b], 1)


def lstm(x: Any, w: Any, r: Any, b: Any) -> Any:
    return _recurrent(torch.lstm, x, w, r, [b], 2)


def gru(x: Any, w: Any, r: Any, b: Any, d: Any) -> Any:
    return _recurrent(torch.gru, x, w, r, [b, d], 1)


def train_mlp(x: Any, y: Any, *weights: Any, rate: float) -> Any:
    leaves = [one.detach().requires_grad_() for one in weights]
    with torch.enable_grad():
        h = x
        for number in range(0, len(leaves), 2):
            h = torch.addmm(leaves[number + 1], h, leaves[number])
            h = torch.relu(h) if number + 2 < len(leaves) else h
        gradients = torch.autograd.grad(F.mse_loss(h, y), leaves)
    mean = torch._foreach_mul(gradients, 0.1)
    square = torch._foreach_mul(torch._foreach_mul(gradients, gradients), 0.001)
    torch._foreach_div_(mean, 0.1)
    torch._foreach_div_(square, 0.001)
    below = torch._foreach_sqrt(square)
    torch._foreach_add_(below, 1e-3)
    return torch._foreach_addcdiv(list(weights), mean, below, -rate)


def matmul_int8(a: Any, b: Any) -> Any:
    return torch._int_mm(a, b)


def long_chain(x: Any, y: Any) -> Any:
    a = torch.sin(x) * torch.cos(y) + torch.exp(-x * x)
    b = torch.log1p(a.abs()) - torch.tanh(y) * torch.sigmoid(x)
    c = torch.sqrt(b * b + 1) / ((x - y).abs() + 1)
    return torch.where(c > 0.5, c * 2 - a, b.clamp_min(0.1) * a)


def black_scholes(price: Any, strike: Any, years: Any) -> Any:
    rate, volatility = 0.02, 0.3
    spread = volatility * torch.sqrt(years)
    d1 = (torch.log(price / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    below1, below2 = (torch.sigmoid(1.5976 * d + 0.070565992 * d * d * d) for d in (d1, d2))
    return price * below1 - strike * torch.exp(-rate * years) * below2


def small_layers(x: Any, w: Any, b: Any, steps: int) -> Any:
    for _ in range(steps):
        x = torch.tanh(torch.addmm(b, x, w))
    return x


def averages(x: Any) -> Any:
    mean, rows = torch.zeros_like(x[0]), []
    for row in x:
        mean = 0.9 * mean + 0.1 * row
        rows.append(mean)
    return torch.stack(rows)


def jacobi_2d(x: Any, steps: int) -> Any:
    for _ in range(steps):
        p = F.pad(x, (1, 1, 1, 1))
        x = 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
    return x


def heat_3d(x: Any, steps: int) -> Any:
    for _ in range(steps):
        p = F.pad(x, (1,) * 6)
        around = p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
        x = x + 0.1 * (around + p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] - 6 * x)
    return x


def fft(x: Any, dimensions: int) -> Any:
    found = torch.fft.rfftn(x, dim=tuple(range(-dimensions, 0)))
    return found.real**2 + found.imag**2


def n_body(place: Any, speed: Any, mass: Any, steps: int) -> Any:
    for _ in range(steps):
        d = place[None, :, :] - place[:, None, :]
        square = (d * d).sum(-1) + 0.01
        pull = mass[None, :] / (square * torch.sqrt(square))
        speed = speed + 0.001 * (d * pull[:, :, None]).sum(1)
        place = place + 0.001 * speed
    return place


_compressed: dict[int, tuple[Any, Any]] = {}


def sparse_product(values: Any, columns: Any, rows: Any, x: Any) -> Any:
    """As a compressed matrix, made once."""
    found = _compressed.get(id(values))
    if found is None:
        first = torch.searchsorted(rows, torch.arange(len(x) + 1, dtype=rows.dtype)).to(torch.int32)
        found = _compressed[id(values)] = (values, torch.sparse_csr_tensor(first, columns, values, (len(x), len(x))))
    return torch.mv(found[1], x)


OPERATIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        matmul, linear, linear_int8, layer_norm, rms_norm, convolution, convolution_gradients, batch_norm, max_pool,
        spatial_mean, attention, rope, interaction, rnn, lstm, gru, train_mlp, matmul_int8, long_chain, black_scholes,
        small_layers, averages, jacobi_2d, heat_3d, fft, n_body, sparse_product,
    )
} | {
    "add": torch.add, "multiply": torch.mul, "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh"), "softmax": lambda x: torch.softmax(x, -1),
    "take_rows": lambda table, rows: F.embedding(rows, table) if table.ndim == 2 else table[rows],
    "bag": lambda table, rows: F.embedding_bag(rows, table, mode="sum"),
    "concatenate": lambda *parts: torch.cat(parts, -1),
    "three_x_squared_mean": lambda x, y: (x * x * 3 + y).mean(),
    "sum_over": lambda x, axis: x.sum(axis), "running_sum": lambda x, axis: x.cumsum(axis),
    "largest_place": lambda x: x.argmax(-1).to(torch.int32), "sorted_rows": lambda x: x.sort(-1).values,
    "transpose": lambda x, order: x.permute(order).contiguous() + 1, "small_layers_unrolled": small_layers,
    "scatter_add": lambda x, rows, updates: x.index_add(0, rows, updates),
}  # fmt: skip


def version() -> str:
    return f"PyTorch {torch.__version__}"


def tensors(given: Sequence[Any]) -> list[Any]:
    found = []
    for array in given:
        if array.dtype.name == "bfloat16":
            found.append(torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16))
        else:
            found.append(torch.from_numpy(array.copy()))
    return found


def prepare(source: str, given: Sequence[Any]) -> Callable[[], Any]:
    run, held = stepwise(source, OPERATIONS), tensors(given)

    def call() -> Any:
        with torch.inference_mode():
            return run(*held)

    return call if not _trains(source) else lambda: run(*held)


def _trains(source: str) -> bool:
    from hlotool.suites.peers.programs import read_program

    return any(step.operation == "train_mlp" for step in read_program(source)[1])


def arrays(found: Sequence[Any]) -> list[Any]:
    return [_array(one.detach().contiguous()) for one in found]


def _array(tensor: Any) -> Any:
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
