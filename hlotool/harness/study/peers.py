"""TensorFlow and PyTorch training a perceptron, each in a child process under a Python that has it."""

from __future__ import annotations

import numpy as np

from hlotool.harness.bench import Started
from hlotool.harness.study import peer_child
from hlotool.harness.study.mlp import BETAS, EPSILON, RATE, Configuration, initial_state
from hlotool.harness.study.trainers import CHECKED, batches
from hlotool.harness.told import Told

__all__ = ["PEERS", "Peer", "peer_version"]

PEERS = ("tensorflow", "tensorflow-xla", "torch", "torch-compile")
"""Without their compilers, where each operation is run by itself, and with."""
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _child(label: str, python: str) -> Told:
    framework = label.partition("-")[0]
    hint = f"; --peer {label}=PYTHON takes a Python that has {framework}"
    return Told(label, python, peer_child.__file__, _QUIET, hint)


def peer_version(label: str, python: str) -> str:
    """The version of the framework; UnsupportedError where that Python does not have it."""
    child = _child(label, python)
    try:
        version: str = child.ask("version", framework=label.partition("-")[0])["version"]
        return version
    finally:
        child.close()


class Peer:
    """A framework, to be timed: a contestant that trains on in its own process.

    What the first steps take longer than the quickest of them counts as the time to compile: tracing and setting up
    are part of it.
    """

    def __init__(self, label: str, python: str, configuration: Configuration, threads: int | None) -> None:
        self.label, self._configuration, self._threads = label, configuration, threads
        self._child = _child(label, python)

    def start(self) -> Started:
        source, target = self._child.path("in.npz"), self._child.path("out.npz")
        layers = len(self._configuration.sizes)
        cut = batches(self._configuration)
        weights = initial_state(self._configuration)[: 2 * layers]
        arrays = {f"weight{number}": array for number, array in enumerate(weights)}
        for number, (features, targets) in enumerate(cut):
            arrays |= {f"features{number}": features, f"targets{number}": targets}
        np.savez(source, **arrays)  # type: ignore[arg-type]  # names that it has for its own use are not among these
        seconds: list[float] = self._child.ask(
            "start", way=self.label, source=str(source), target=str(target), layers=layers, batches=len(cut),
            checked=CHECKED, threads=self._threads, rate=RATE, betas=BETAS, epsilon=EPSILON,
        )["seconds"]  # fmt: skip
        with np.load(target) as file:
            outputs = (file["losses"], *(file[f"weight{number}"] for number in range(2 * layers)))
        return Started(0.0, sum(seconds) - len(seconds) * min(seconds), min(seconds), outputs)

    def sample(self, seconds: float, batch: int) -> list[float]:
        found: list[float] = self._child.ask("sample", seconds=seconds, batch=batch)["samples"]
        return found

    def close(self) -> None:
        self._child.close()
