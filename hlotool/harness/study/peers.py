"""TensorFlow and PyTorch training perceptrons, each in a child process under a Python that has it."""

from __future__ import annotations

import numpy as np

from hlotool.harness.bench import Started
from hlotool.harness.peer_process import PeerProcess
from hlotool.harness.study import peer_child
from hlotool.harness.study.mlp import BETAS, EPSILON, RATE, Configuration, initial_state
from hlotool.harness.study.trainers import CHECKED, batches
from hlotool.ir import UnsupportedError

__all__ = ["PEERS", "Framework", "Peer"]

PEERS = ("tensorflow", "tensorflow-xla", "torch", "torch-compile")
"""Without their compilers, where each operation is run by itself, and with."""
_SETTINGS = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
"""Few words, the processor alone, and nothing that was compiled before."""
_TINY = Configuration(1, 3, 2)


class Framework:
    """A framework in a child process, for all configurations.  UnsupportedError where that Python does not have it.

    A tiny training comes first: what a process sets up once is nobody's compile time.
    """

    def __init__(self, label: str, python: str, threads: int | None) -> None:
        framework = label.partition("-")[0]
        hint = f"; --peer {label}=PYTHON takes a Python that has {framework}"
        self.label = label
        self.child = PeerProcess(label, [python, peer_child.__file__], {"PYTHONSAFEPATH": "1", **_SETTINGS}, hint)
        try:
            self.version: str = self.child.ask("load", framework=framework, threads=threads)["version"]
        except UnsupportedError:
            self.child.close()
            raise

    def warm_up(self) -> None:
        """The tiny training."""
        Peer(self, _TINY).start()

    def close(self) -> None:
        """End the child process."""
        self.child.close()


class Peer:
    """A configuration in a framework, to be timed: a contestant that trains on in the other process.

    What the first steps take longer than the quickest of them counts as the time to compile: tracing and setting up
    are part of it.
    """

    def __init__(self, process: Framework, configuration: Configuration) -> None:
        self.label, self._configuration, self._child = process.label, configuration, process.child

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
            checked=CHECKED, rate=RATE, betas=BETAS, epsilon=EPSILON,
        )["seconds"]  # fmt: skip
        with np.load(target) as file:
            outputs = (file["losses"], *(file[f"weight{number}"] for number in range(2 * layers)))
        return Started(0.0, sum(seconds) - len(seconds) * min(seconds), min(seconds), outputs)

    def sample(self, seconds: float, batch: int) -> list[float]:
        found: list[float] = self._child.ask("sample", seconds=seconds, batch=batch)["samples"]
        return found
