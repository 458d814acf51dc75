"""A multilayer perceptron, its data set and its training step as a module: mean squared error, Adam, all in f32."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.module import Computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.autodiff import gradient_module
from hlotool.passes.framework.manager import run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline

__all__ = [
    "BETAS", "EPOCHS", "EPSILON", "FEATURES", "RATE", "SAMPLES", "Configuration", "batch_of", "data_set",
    "initial_state", "training_module",
]  # fmt: skip

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

FEATURES, SAMPLES, EPOCHS = 13, 506, 20
"""Those of the experiment: the Boston housing data have so many columns and rows."""
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-7
"""Of Adam (Kingma and Ba, 2015), as Keras sets them."""

_TIDY = "dce,cse,dce"
"""What is dead or there twice is no operation of an eager framework either."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A perceptron with so many hidden `layers` of `width` units, trained on `batch` samples at a time."""

    layers: int
    width: int
    batch: int

    @property
    def steps(self) -> int:
        """Steps of all epochs: batches are taken around the data set, whose end is in the middle of one."""
        return math.ceil(EPOCHS * SAMPLES / self.batch)

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the weights, layer by layer."""
        units = (FEATURES, *[self.width] * self.layers, 1)
        return tuple(pairwise(units))

    @property
    def parameters(self) -> int:
        """Weights and biases together."""
        return sum(rows * columns + columns for rows, columns in self.sizes)

    def __str__(self) -> str:
        return f"{self.layers} x {self.width}, batch {self.batch}"


def data_set() -> Arrays:
    """Features f32[506,13] and targets f32[506,1], the same each time: a smooth function of the features, and noise."""
    draws = np.random.default_rng(506)
    features = draws.standard_normal((SAMPLES, FEATURES))
    mixed = features @ draws.standard_normal((FEATURES, 4)) / math.sqrt(FEATURES)
    targets = np.tanh(mixed[:, :1]) + mixed[:, 1:2] * mixed[:, 2:3] + 0.5 * mixed[:, 3:]
    targets += 0.1 * draws.standard_normal((SAMPLES, 1))
    return features.astype(np.float32), targets.astype(np.float32)


def batch_of(data: Arrays, batch: int, step: int) -> Arrays:
    """The rows that a step trains on; `step` counts from 0, and behind the last row comes the first."""
    rows = np.arange(step * batch, (step + 1) * batch) % SAMPLES
    return tuple(np.ascontiguousarray(column[rows]) for column in data)


def initial_state(configuration: Configuration) -> Arrays:
    """What a step takes and gives: weights and biases of each layer, then first and second moments of these, then the
    number of steps so far, f32.  Weights are normal with variance 2 / rows (He et al., 2015)."""
    draws = np.random.default_rng(configuration.layers * 10**6 + configuration.width)
    weights: list[npt.NDArray[Any]] = []
    for rows, columns in configuration.sizes:
        weights.append((draws.standard_normal((rows, columns)) * math.sqrt(2 / rows)).astype(np.float32))
        weights.append(np.zeros(columns, np.float32))
    zeros = [np.zeros_like(one) for one in weights]
    return (*weights, *zeros, *(zero.copy() for zero in zeros), np.zeros((), np.float32))


def training_module(configuration: Configuration) -> Module:
    """The module of a step: from the state, features and targets to the loss and the next state.

    The gradient is that of `hlotool.passes.autodiff`.
    """
    weights = 2 * len(configuration.sizes)
    module = gradient_module(_loss(configuration), range(weights), value=True)
    build, entry = Builder(module.entry), module.entry
    state, (loss, *gradients) = entry.parameters[:-2], entry.root.operands
    step = build.binary("add", state[-1], build.scalar_constant(1, "f32"))
    unbiased = [_one_minus_power(build, beta, step) for beta in BETAS]
    changed = [
        _adam(build, *one, *unbiased)
        for one in zip(
            state[:weights], state[weights : 2 * weights], state[2 * weights : -1], gradients, strict=True
        )
    ]  # fmt: skip
    entry.root = build.tuple([loss, *(one[kind] for kind in range(3) for one in changed), step])
    run_pipeline(module, parse_pipeline(_TIDY))
    return module


def _loss(configuration: Configuration) -> Module:
    """The mean squared error, with all parameters of the step, in their order."""
    sizes, batch = configuration.sizes, configuration.batch
    module = Module(f"mlp_{configuration.layers}x{configuration.width}_batch_{batch}")
    entry = Computation("main")
    build = Builder(entry)
    add = module.add(binary_computation("add", "f32", "sum"))
    kinds = [f"{kind}{layer}" for layer in range(len(sizes)) for kind in ("weight", "bias")]
    names = [*kinds, *(f"mean_{one}" for one in kinds), *(f"square_{one}" for one in kinds)]
    shapes = [array("f32", dimensions) for one in sizes for dimensions in (one, one[1:])] * 3
    state = [build.parameter(number, *one) for number, one in enumerate(zip(shapes, names, strict=True))]
    build.parameter(len(state), array("f32", ()), "step")
    value = build.parameter(len(state) + 1, array("f32", (batch, FEATURES)), "features")
    targets = build.parameter(len(state) + 2, array("f32", (batch, 1)), "targets")
    for layer in range(len(sizes)):
        weight, bias = state[2 * layer : 2 * layer + 2]
        value = build.dot(value, weight, ((1,), (0,)))
        value = build.binary("add", value, build.broadcast(bias, (1,), value.shape))
        if layer < len(sizes) - 1:
            zeros = build.splat(0, value.shape)  # as frameworks have it, the slope at zero is zero
            value = build.select(build.compare(value, zeros, "GT"), value, zeros)
    error = build.binary("subtract", value, targets)
    squared = build.binary("multiply", error, error)
    total = build.reduce(squared, build.scalar_constant(0, "f32"), (0, 1), add)
    entry.root = build.binary("divide", total, build.scalar_constant(batch, "f32"))
    module.add(entry, entry=True)
    return module


def _one_minus_power(build: Builder, beta: float, step: Instruction) -> Instruction:
    """1 - beta ** step: what Adam divides moments by, which begin at zero."""
    power = build.binary("power", build.scalar_constant(beta, "f32"), step)
    return build.binary("subtract", build.scalar_constant(1, "f32"), power)


def _adam(
    build: Builder, weight: Instruction, mean: Instruction, square: Instruction, gradient: Instruction,
    mean_scale: Instruction, square_scale: Instruction,
) -> tuple[Instruction, Instruction, Instruction]:
    """The next values of weights and their moments."""
    shape = weight.shape

    def times(factor: float, value: Instruction) -> Instruction:
        return build.binary("multiply", build.splat(factor, shape), value)

    mean = build.binary("add", times(BETAS[0], mean), times(1 - BETAS[0], gradient))
    gradient_squared = build.binary("multiply", gradient, gradient)
    square = build.binary("add", times(BETAS[1], square), times(1 - BETAS[1], gradient_squared))
    direction = build.binary("divide", mean, build.broadcast(mean_scale, (), shape))
    spread = build.unary("sqrt", build.binary("divide", square, build.broadcast(square_scale, (), shape)))
    change = build.binary("divide", times(RATE, direction), build.binary("add", spread, build.splat(EPSILON, shape)))
    return build.binary("subtract", weight, change), mean, square
