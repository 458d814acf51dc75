"""Activation functions, softmax, and random dropping, which does nothing where a model is not trained."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import hlotool.numpy as np
from hlotool.numpy.array import Array
from hlotool.numpy.trace import apply
from hlotool.onnx.lowering import Context, Refused, lowering, normal_axes
from hlotool.onnx.ops.pieces import constant, in_f32, number

__all__ = ["activation", "softmax_of"]


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Narrow floats are computed in f32, and rounded once."""

    def computed(x: Array, *numbers: float) -> Array:
        wide = in_f32(x)
        return np.astype(function(wide, *(number(one, wide) for one in numbers)), x.dtype)

    return computed


def _softplus(x: Array) -> Array:
    return np.maximum(x, number(0, x)) + np.log1p(np.exp(-np.abs(x)))


_FUNCTIONS: dict[str, tuple[Callable[..., Array], dict[str, float]]] = {
    "Relu": (lambda x: np.maximum(x, number(0, x)), {}),
    "LeakyRelu": (lambda x, a: np.where(x < number(0, x), x * a, x), {"alpha": 0.01}),
    "ThresholdedRelu": (lambda x, a: np.where(x > a, x, number(0, x)), {"alpha": 1.0}),
    "Elu": (lambda x, a: np.where(x < number(0, x), a * np.expm1(x), x), {"alpha": 1.0}),
    "Celu": (
        lambda x, a: np.maximum(x, number(0, x)) + np.minimum(number(0, x), a * np.expm1(x / a)), {"alpha": 1.0}
    ),
    "Selu": (
        lambda x, a, g: g * np.where(x <= number(0, x), a * np.expm1(x), x),
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    "Tanh": (np.tanh, {}),
    "Sigmoid": (lambda x: apply("logistic", x), {}),
    "HardSigmoid": (
        lambda x, a, b: np.maximum(number(0, x), np.minimum(number(1, x), a * x + b)), {"alpha": 0.2, "beta": 0.5}
    ),
    "HardSwish": (
        lambda x: x * np.maximum(number(0, x), np.minimum(number(1, x), x * number(1 / 6, x) + number(0.5, x))), {}
    ),
    "Softsign": (lambda x: x / (number(1, x) + np.abs(x)), {}),
    "Softplus": (_softplus, {}),
    "Mish": (lambda x: x * np.tanh(_softplus(x)), {}),
    "Swish": (lambda x, a: x * apply("logistic", a * x), {"alpha": 1.0}),
    "Affine": (lambda x, a, b: a * x + b, {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), {"alpha": 1.0, "beta": 1.0}),
}  # fmt: skip
"""By name: the function of an array and numbers, and their names with what they are by default."""


def activation(name: str, alpha: float | None = None, beta: float | None = None) -> Callable[[Array], Array]:
    """The activation function of a recurrent layer, whose names have no fixed capitals."""
    found = next((row for key, row in _FUNCTIONS.items() if key.lower() == name.lower()), None)
    if found is None:
        raise Refused(f"the activation {name}")
    function, defaults = found
    given = {"alpha": alpha, "beta": beta}
    numbers = [default if given.get(key) is None else given[key] for key, default in defaults.items()]
    return lambda x: _wide(function)(x, *numbers)


def _enter(name: str, function: Callable[..., Array], defaults: dict[str, float]) -> None:
    @lowering(name)
    def lower(c: Context, x: Array, *, consumed_inputs: Any = None, **given: float) -> Array:
        odd = given.keys() - defaults.keys()
        if odd:
            raise Refused(f"the attribute {', '.join(sorted(odd))}")
        return _wide(function)(x, *(given.get(key, default) for key, default in defaults.items()))


for _name, (_function, _defaults) in _FUNCTIONS.items():
    if _name not in ("Tanh", "Sigmoid"):
        _enter(_name, _function, _defaults)


@lowering("Gelu")
def gelu(c: Context, x: Array, *, approximate: str = "none") -> Array:
    wide = in_f32(x)
    if approximate == "tanh":
        inner = number(sqrt(0.63661977236758134308), wide) * (wide + number(0.044715, wide) * wide * wide * wide)
        share = number(1, wide) + np.tanh(inner)
    else:
        share = number(1, wide) + apply("erf", wide * number(sqrt(0.5), wide))
    return np.astype(number(0.5, wide) * wide * share, x.dtype)


@lowering("Shrink")
def shrink(c: Context, x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    wide = in_f32(x)
    real = wide if wide.dtype.kind == "f" else np.astype(wide, "f32")
    low, high, by = number(-lambd, real), number(lambd, real), number(bias, real)
    found = np.where(real < low, real + by, np.where(real > high, real - by, number(0, real)))
    return np.astype(found, x.dtype)


def softmax_of(x: Array, axes: tuple[int, ...], log: bool = False) -> Array:
    """Softmax over `axes`, or its logarithm; narrow floats in f32."""
    wide = in_f32(x)
    shifted = wide - np.max(wide, axis=axes, keepdims=True) if wide.size else wide
    powers = np.exp(shifted)
    total = np.sum(powers, axis=axes, keepdims=True)
    return np.astype(shifted - np.log(total) if log else powers / total, x.dtype)


def _over(c: Context, x: Array, axis: int | None) -> tuple[int, ...]:
    """The dimensions that softmax is over: one, or, before version 13, that and all after it."""
    if c.version >= 13:
        return normal_axes([-1 if axis is None else axis], x.ndim)
    first = 1 if axis is None else axis
    return tuple(range(first + x.ndim if first < 0 else first, x.ndim))


@lowering("Softmax")
def softmax(c: Context, x: Array, *, axis: int | None = None) -> Array:
    return softmax_of(x, _over(c, x, axis))


@lowering("LogSoftmax")
def log_softmax(c: Context, x: Array, *, axis: int | None = None) -> Array:
    return softmax_of(x, _over(c, x, axis), log=True)


@lowering("Hardmax")
def hardmax(c: Context, x: Array, *, axis: int | None = None) -> Array:
    axes = _over(c, x, axis)
    rest = [n for n in range(x.ndim) if n not in axes]
    order = (*rest, *axes)
    turned = np.permute_dims(x, order)
    flat = np.reshape(turned, (*(x.shape[n] for n in rest), -1))
    best = np.expand_dims(np.argmax(flat, axis=-1), axis=-1)
    places = constant(range(flat.shape[-1]), "int64")
    found = np.astype(np.equal(best, np.broadcast_to(places, flat.shape)), x.dtype)
    back = sorted(range(x.ndim), key=order.__getitem__)
    return np.permute_dims(np.reshape(found, turned.shape), tuple(back))


@lowering("Dropout")
def dropout(
    c: Context, x: Array, ratio: Array | float | None = None, training: Array | None = None, *, seed: int = 0,
    is_test: int = 1, consumed_inputs: Any = None, **given: float,
) -> tuple[Array, ...]:  # fmt: skip
    """Nothing is dropped, unless the node says that it is for training."""
    if training is not None and bool(c.static(training, "training_mode")):
        share = 0.5 if ratio is None else float(c.static(np.reshape(ratio, ()), "the ratio"))
        if share:
            raise Refused("dropout for training, which is random")
    kept = np.ones(x.shape, bool if c.version >= 10 else x.dtype)
    return (x, kept)[: max(1, len(c.wanted))]
