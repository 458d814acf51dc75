"""Steps of optimisers (ai.onnx.preview.training): new tensors, of several at a time, and what is kept about each.

Inputs are the rate, the number of the step, all tensors, all gradients, and then all that is kept, kind by kind;
results are in the same order, tensors first.  The formulas are those of the operators' descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.onnx.lowering import PREVIEW_TRAINING, Context, lowering
from hlotool.onnx.ops.pieces import number

__all__: list[str] = []

_Update = Callable[..., tuple[Array, ...]]


def _each(given: Sequence[Array], kept: int, update: _Update) -> tuple[Array, ...]:
    """The results of `update`, which takes a tensor, its gradient, and the `kept` arrays about it."""
    count = len(given) // (2 + kept)
    steps = [update(*(given[kind * count + n] for kind in range(2 + kept))) for n in range(count)]
    return tuple(step[kind] for kind in range(1 + kept) for step in steps)


@lowering("Adagrad", domain=PREVIEW_TRAINING)
def adagrad(
    c: Context, rate: Array, step: Array, *given: Array, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Array, ...]:  # fmt: skip
    slower = rate / (np.astype(step, rate.dtype) * number(decay_factor, rate) + number(1, rate))

    def update(x: Array, gradient: Array, squares: Array) -> tuple[Array, ...]:
        gradient = gradient + x * number(norm_coefficient, x)
        squares = squares + gradient * gradient
        return x - np.astype(slower, x.dtype) * gradient / (np.sqrt(squares) + number(epsilon, x)), squares

    return _each(given, 1, update)


@lowering("Adam", domain=PREVIEW_TRAINING)
def adam(
    c: Context, rate: Array, step: Array, *given: Array, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> tuple[Array, ...]:  # fmt: skip
    one, count = number(1, rate), np.astype(step, rate.dtype)
    first, second = (one - np.power(number(decay, rate), count) for decay in (alpha, beta))
    corrected = np.where(count > number(0, rate), rate * np.sqrt(second) / first, rate)

    def update(x: Array, gradient: Array, mean: Array, squares: Array) -> tuple[Array, ...]:
        gradient = gradient + x * number(norm_coefficient, x)
        mean = mean * number(alpha, x) + gradient * number(1 - alpha, x)
        squares = squares * number(beta, x) + gradient * gradient * number(1 - beta, x)
        moved = x - np.astype(corrected, x.dtype) * (mean / (np.sqrt(squares) + number(epsilon, x)))
        return moved * number(1 - norm_coefficient_post, x), mean, squares

    return _each(given, 2, update)


@lowering("Momentum", domain=PREVIEW_TRAINING)
def momentum(
    c: Context, rate: Array, step: Array, *given: Array, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> tuple[Array, ...]:  # fmt: skip
    def update(x: Array, gradient: Array, speed: Array) -> tuple[Array, ...]:
        gradient = gradient + x * number(norm_coefficient, x)
        share = np.where(step > number(0, step), number(beta, x), number(1, x))  # all of it, the first time
        speed = speed * number(alpha, x) + gradient * share
        way = gradient + speed * number(alpha, x) if mode == "nesterov" else speed
        return x - np.astype(rate, x.dtype) * way, speed

    return _each(given, 1, update)
