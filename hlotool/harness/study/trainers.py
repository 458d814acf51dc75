"""Ways to run the training step of a perceptron here, to be timed: compiled, op by op, and written with NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
_AGAIN = 64
"""Steps after which the training begins again.

All ways train on the same steps then, however many they take in a second.  Later ones are not the same work: moments
of what has stopped learning fade away to denormal numbers, which processors are slow with, after some 800 steps."""


def batches(configuration: Configuration) -> list[Arrays]:
    """The batches of the steps that are timed, which begin the training."""
    data = data_set()
    return [batch_of(data, configuration.batch, step) for step in range(_AGAIN)]


class Trainer:
    """A training to be timed: `make` gives the function of one step, from state, features and targets to the loss and
    the next state.

    Every call trains on: state goes from step to step, and from the last batch back to the beginning.  `start` makes it
    and takes the steps that are compared: its outputs are their losses, and the weights and biases behind them.
    """

    def __init__(self, label: str, configuration: Configuration, make: Callable[[], Step]) -> None:
        self.label, self._configuration, self._make = label, configuration, make
        self._batches = batches(configuration)
        self._first = initial_state(configuration)
        self._done = 0
        self._state: Sequence[npt.NDArray[Any]] = ()
        self._step: Step | None = None

    def start(self) -> Started:
        clock = time.perf_counter
        begin = clock()
        step = self._step = self._make()
        made = clock()
        state: Sequence[npt.NDArray[Any]] = [one.copy() for one in self._first]
        losses, first = [], 0.0
        for given in self._batches[:CHECKED]:
            begun = clock()
            loss, *state = step(*state, *given)
            first = first or clock() - begun
            losses.append(float(loss))
        weights = [np.array(one) for one in state[: 2 * len(self._configuration.sizes)]]
        self._state, self._done = state, CHECKED
        return Started(0.0, made - begin, first, (np.array(losses), *weights))

    def sample(self, seconds: float, batch: int) -> list[float]:
        step, clock, state, done = self._step, time.perf_counter, self._state, self._done
        assert step is not None
        found = []
        end = clock() + seconds
        while True:
            if done + batch > _AGAIN:
                state, done = [one.copy() for one in self._first], 0
            given = self._batches[done : done + batch]
            begin = clock()
            for one in given:
                _, *state = step(*state, *one)
            now = clock()
            found.append((now - begin) / len(given))
            done += len(given)
            if now >= end:
                self._state, self._done = state, done
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
