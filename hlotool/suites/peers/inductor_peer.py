"""PyTorch by ``torch.compile``, whose default backend is inductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hlotool.suites.peers.programs import stepwise
from hlotool.suites.peers.torch_peer import OPERATIONS, arrays, tensors
from hlotool.suites.peers.torch_peer import version as torch_version

__all__ = ["arrays", "prepare", "version"]


def version() -> str:
    return f"inductor of {torch_version()}"


def prepare(source: str, given: Sequence[Any]) -> Callable[[], Any]:
    run, held = torch.compile(stepwise(source, OPERATIONS), dynamic=False, fullgraph=True), tensors(given)

    def call() -> Any:
        with torch.no_grad():
            return run(*held)

    call()  # compiles
    return call
