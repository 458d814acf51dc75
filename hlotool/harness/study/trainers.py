"""Ways to run the training step of a perceptron here, to be timed: compiled, op by op, and written with NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.driver import compile_module
from hlotool.harness.bench import Started
from hlotool.harness.op_by_op import op_by_op
from hlotool.harness.study.mlp import (
    BETAS,
    EPSILON,
    RATE,
    SAMPLES,
    Configuration,
    batch_of,
    data_set,
    initial_state,
    training_module,
)
from hlotool.ir import Module

__all__ = ["CHECKED", "Trainer", "batches", "compiled", "numpy_step", "one_by_one"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]
Step: TypeAlias = Callable[..., Sequence[npt.NDArray[Any]]]

CHECKED = 4
"""Steps from the beginning whose losses and weights are compared before anything is timed."""
_MOST_BATCHES = 64
"""Batches that are cut out ahead: enough that they are not always in the nearest cache."""


def batches(configuration: Configuration) -> list[Arrays]:
    """The first batches of the training."""
    data = data_set()
    count = max(CHECKED, min(_MOST_BATCHES, SAMPLES // configuration.batch))
    return [batch_of(data, configuration.batch, step) for step in range(count)]


class Trainer:
    """A training to be timed: `make` gives the function of one step, from state, features and targets to the loss and
    the next state.

    Every call trains on: state goes from step to step.  `start` makes it and takes the steps that are compared: its
    outputs are their losses, and the weights and biases behind them.
    """

    def __init__(self, label: str, configuration: Configuration, make: Callable[[], Step]) -> None:
        self.label, self._configuration, self._make = label, configuration, make
        self._batches = batches(configuration)
        self._next = cycle(self._batches)
        self._state: Sequence[npt.NDArray[Any]] = ()
        self._step: Step | None = None

    def start(self) -> Started:
        clock = time.perf_counter
        begin = clock()
        step = self._step = self._make()
        made = clock()
        state: Sequence[npt.NDArray[Any]] = initial_state(self._configuration)
        losses, first = [], 0.0
        for given in self._batches[:CHECKED]:
            begun = clock()
            loss, *state = step(*state, *given)
            first = first or clock() - begun
            losses.append(float(loss))
        weights = [np.array(one) for one in state[: 2 * len(self._configuration.sizes)]]
        self._state = state
        return Started(0.0, made - begin, first, (np.array(losses), *weights))

    def sample(self, seconds: float, batch: int) -> list[float]:
        step, clock, following, state = self._step, time.perf_counter, self._next, self._state
        assert step is not None
        found = []
        end = clock() + seconds
        while True:
            given = [next(following) for _ in range(batch)]
            begin = clock()
            for one in given:
                _, *state = step(*state, *one)
            now = clock()
            found.append((now - begin) / batch)
            if now >= end:
                self._state = state
                return found


def compiled(configuration: Configuration, threads: int | None, profiled: bool = False) -> Callable[[], Step]:
    """The step in one native program, which writes the next state over the last one: from nothing to code, with the
    module and its gradient."""

    def make() -> Step:
        module = training_module(configuration)
        state = range(len(module.entry.parameters) - 2)
        return compile_module(module, threads=threads, donate=state, profiled=profiled).run

    return make


def one_by_one(module: Module, threads: int | None) -> Callable[[], Step]:
    """The same module with a call for every instruction."""
    return lambda: op_by_op(module, threads)


def numpy_step(configuration: Configuration) -> Step:
    """The step as one writes it with NumPy, its gradient by hand; what can be is computed in place."""
    layers = len(configuration.sizes)
    mean_decay, square_decay = map(np.float32, BETAS)
    rate, epsilon, one = np.float32(RATE), np.float32(EPSILON), np.float32(1)

    def step(*arrays: npt.NDArray[Any]) -> Arrays:
        *state, done, features, targets = arrays
        weights, means, squares = (state[kind * 2 * layers : (kind + 1) * 2 * layers] for kind in range(3))
        values = [features]
        for layer in range(layers):
            value = values[-1] @ weights[2 * layer]
            value += weights[2 * layer + 1]
            if layer < layers - 1:
                np.maximum(value, 0, out=value)
            values.append(value)
        error = values.pop() - targets
        loss = np.mean(error * error)
        slope = error * np.float32(2 / len(error))
        gradients: list[npt.NDArray[Any]] = []
        for layer in reversed(range(layers)):
            gradients += [slope.sum(axis=0), values[layer].T @ slope]
            if layer:
                slope = slope @ weights[2 * layer].T
                slope *= values[layer] > 0
        done = done + one
        mean_scale, square_scale = one - mean_decay**done, one - square_decay**done
        for weight, mean, square, gradient in zip(weights, means, squares, reversed(gradients), strict=True):
            mean *= mean_decay
            mean += (one - mean_decay) * gradient
            square *= square_decay
            square += (one - square_decay) * (gradient * gradient)
            weight -= rate * (mean / mean_scale) / (np.sqrt(square / square_scale) + epsilon)
        return (loss, *state, done)

    return step
