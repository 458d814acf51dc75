"""The program of a child process under a Python that has PyTorch or TensorFlow: trains a perceptron as programs of
these frameworks do, told what to do line by line.

It imports nothing of hlotool, which that Python need not have.  A request is a line of JSON, ``{"do": ..., ...}``, and
so is the answer.  State and batches come by a file of NumPy, losses and weights go by one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Step = Callable[[Any, Any], float]
"""One step of training on a batch; its loss."""
Made = tuple[Step, Callable[[Any], Any], Callable[[], list[Any]], Callable[[], None]]
"""A step, what makes arrays of the framework of those of NumPy, what gives the weights, and what begins again."""


class _Trainer:
    """A training in a framework; times in seconds."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self.reset: Callable[[], None] = lambda: None
        self.batches: list[tuple[Any, Any]] = []
        self.done = 0

    def start(
        self, way: str, source: str, target: str, layers: int, batches: int, checked: int, rate: float,
        betas: Sequence[float], epsilon: float,
    ) -> dict[str, Any]:
        """Train for `checked` steps; how long each took."""
        with np.load(source) as file:
            weights = [file[f"weight{number}"] for number in range(2 * layers)]
            given = [(file[f"features{number}"], file[f"targets{number}"]) for number in range(batches)]
        framework, _, compiled = way.partition("-")
        make = {"torch": _torch, "tensorflow": _tensorflow}[framework]
        step, convert, read, reset = make(weights, bool(compiled), rate, betas, epsilon)
        ready = [(convert(features), convert(targets)) for features, targets in given]
        losses, seconds = [], []
        for features, targets in ready[:checked]:
            begin = time.perf_counter()
            losses.append(step(features, targets))
            seconds.append(time.perf_counter() - begin)
        arrays = {f"weight{number}": array for number, array in enumerate(read())}
        np.savez(target, losses=np.array(losses), **arrays)
        self.step, self.reset, self.batches, self.done = step, reset, ready, checked
        return {"seconds": seconds}

    def sample(self, seconds: float, batch: int) -> dict[str, Any]:
        step, clock = self.step, time.perf_counter
        assert step is not None
        samples: list[float] = []
        end = clock() + seconds
        while not samples or clock() < end:
            if self.done + batch > len(self.batches):
                self.reset()
                self.done = 0
            given = self.batches[self.done : self.done + batch]
            begin = clock()
            for features, targets in given:
                step(features, targets)
            samples.append((clock() - begin) / len(given))
            self.done += len(given)
        return {"samples": samples}


def _torch(
    weights: Sequence[Any], compiled: bool, rate: float, betas: Sequence[float], epsilon: float
) -> Made:
    """Eager PyTorch with its own Adam; or the loss with its gradient, and Adam, by torch.compile."""
    import torch

    torch._dynamo.reset()
    own = [torch.from_numpy(weight.copy()).requires_grad_() for weight in weights]
    adam = torch.optim.Adam(own, lr=rate, betas=(betas[0], betas[1]), eps=epsilon)

    def loss_of(features: Any, targets: Any) -> Any:
        value = features
        for layer in range(0, len(own), 2):
            value = torch.addmm(own[layer + 1], value, own[layer])
            if layer + 2 < len(own):
                value = torch.relu(value)
        return torch.nn.functional.mse_loss(value, targets)

    function: Callable[..., Any] = torch.compile(loss_of) if compiled else loss_of
    update: Callable[..., Any] = torch.compile(adam.step) if compiled else adam.step

    def step(features: Any, targets: Any) -> float:
        adam.zero_grad()
        loss = function(features, targets)
        loss.backward()
        update()
        return float(loss)

    def reset() -> None:
        with torch.no_grad():
            for one, weight in zip(own, weights, strict=True):
                one.copy_(torch.from_numpy(weight))
                for moment in adam.state[one].values():
                    moment.zero_()

    return step, torch.from_numpy, lambda: [one.detach().numpy() for one in own], reset


def _tensorflow(
    weights: Sequence[Any], compiled: bool, rate: float, betas: Sequence[float], epsilon: float
) -> Made:
    """A step as tf.function, which runs operation by operation; or compiled by XLA."""
    import tensorflow as tf

    own = [tf.Variable(weight) for weight in weights]
    means, squares = ([tf.Variable(tf.zeros_like(one)) for one in own] for _ in range(2))
    done = tf.Variable(0.0)

    def train(features: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            value = features
            for layer in range(0, len(own), 2):
                value = value @ own[layer] + own[layer + 1]
                if layer + 2 < len(own):
                    value = tf.nn.relu(value)
            loss = tf.reduce_mean(tf.square(value - targets))
        done.assign_add(1.0)
        mean_scale, square_scale = (1 - tf.pow(beta, done) for beta in betas)
        for weight, mean, square, gradient in zip(own, means, squares, tape.gradient(loss, own), strict=True):
            mean.assign(betas[0] * mean + (1 - betas[0]) * gradient)
            square.assign(betas[1] * square + (1 - betas[1]) * tf.square(gradient))
            weight.assign_sub(rate * (mean / mean_scale) / (tf.sqrt(square / square_scale) + epsilon))
        return loss

    traced = tf.function(train, jit_compile=compiled)

    def step(features: Any, targets: Any) -> float:
        return float(traced(features, targets).numpy())

    def reset() -> None:
        for one, weight in zip(own, weights, strict=True):
            one.assign(weight)
        for moment in (*means, *squares, done):
            moment.assign(tf.zeros_like(moment))

    return step, tf.constant, lambda: [one.numpy() for one in own], reset


def _load(framework: str, threads: int | None) -> dict[str, Any]:
    """Load the framework; its version."""
    module = __import__(framework)
    if threads is not None and framework == "torch":
        module.set_num_threads(threads)
    elif threads is not None:
        module.config.threading.set_intra_op_parallelism_threads(threads)
    return {"version": module.__version__}


def _serve() -> None:
    trainer = _Trainer()
    tasks: dict[str, Callable[..., dict[str, Any]]] = {
        "load": _load, "start": trainer.start, "sample": trainer.sample,
    }  # fmt: skip
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = tasks[request.pop("do")](**request)
        except Exception as error:
            answer = {"error": (str(error).strip().splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
