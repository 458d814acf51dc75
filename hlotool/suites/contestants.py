"""The peers of a case, as contestants in `hlotool.harness.bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.harness.bench import Started
from hlotool.harness.peer_process import PeerProcess
from hlotool.harness.xla import Xla, XlaPeer
from hlotool.ir import UnsupportedError
from hlotool.suites.case import Case, to_json
from hlotool.suites.peers import child

__all__ = ["Peer", "difference", "limit_of", "peer_of"]

_PACKAGES = {"inductor": "torch", "onnxruntime": "onnxruntime onnx", "iree": "iree-base-compiler iree-base-runtime"}


class Peer:
    """A peer on one case, in a process of its own, to be timed."""

    def __init__(
        self, name: str, case: Case, arguments: Sequence[npt.NDArray[Any]], python: str | None, timeout: float,
        stablehlo: bytes | None = None,
    ) -> None:  # fmt: skip
        self.label = name
        self._case, self._arguments, self._stablehlo = case, arguments, stablehlo
        python = python or sys.executable
        hint = f"; '{python} -m pip install {_PACKAGES.get(name, name)}' installs it"
        hint += f", or name a Python that has it, by --against {name}=PYTHON"
        command = [python, child.__file__, name]
        self._process = PeerProcess(name, command, {"PYTHONSAFEPATH": "1"}, hint, timeout)

    def start(self) -> Started:
        path = self._process.path("program")
        path.write_bytes(json.dumps(to_json(self._case)).encode() if self._stablehlo is None else self._stablehlo)
        self._process.give(self._arguments)
        seconds: float = self._process.ask("compile", source=str(path))["seconds"]
        outputs, first = self._process.run()
        return Started(0.0, seconds, first, tuple(outputs))

    def version(self) -> str:
        found: str = self._process.ask("hello")["version"]
        return found

    def sample(self, seconds: float, batch: int) -> list[float]:
        return self._process.sample(seconds, batch)

    def close(self) -> None:
        self._process.close()


def peer_of(
    name: str, case: Case, text: str, arguments: Sequence[npt.NDArray[Any]], pythons: dict[str, str | None],
    timeout: float,
) -> Peer | XlaPeer:  # fmt: skip
    """A peer by its name, with the Pythons by name; UnsupportedError where it has no such programs."""
    if case.devices > 1:
        raise UnsupportedError(f"{name} has no program for several devices of one processor")
    if name == "xla":
        return XlaPeer(text, arguments, pythons.get("xla"), timeout)
    stable = None
    if name == "iree":
        with Xla(pythons.get("xla"), timeout=timeout) as xla:
            stable = xla.stablehlo(text)
    return Peer(name, case, arguments, pythons.get(name), timeout, stable)


def limit_of(array: npt.NDArray[Any]) -> float:
    """How much results may differ, as a part of the largest element: sums are added up in another order, and
    functions are computed by other formulas.  0 for whole numbers."""
    if array.dtype.kind in "iub":
        return 0.0
    return {"float64": 1e-9, "float32": 2e-4, "complex64": 2e-4, "complex128": 1e-9}.get(array.dtype.name, 3e-2)


def difference(got: Sequence[npt.NDArray[Any]], want: Sequence[npt.NDArray[Any]]) -> str:
    """Why results are not the same; nothing where they are."""
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.shape != w.shape:
            return f"result {number} has the shape {list(g.shape)} instead of {list(w.shape)}"
        if g.dtype != w.dtype:
            return f"result {number} is {g.dtype} instead of {w.dtype}"
        a, b = np.asarray(g).astype(np.float64), np.asarray(w).astype(np.float64)
        if not (np.isfinite(a) == np.isfinite(b)).all():
            return f"result {number} is not finite in the same places"
        finite = np.isfinite(b)
        largest = float(np.max(np.abs(b), initial=0.0, where=finite)) or 1.0
        found = float(np.max(np.abs(np.where(finite, a - b, 0.0)), initial=0.0)) / largest
        if found > limit_of(w):
            return f"result {number} differs by {found:.2g} of its largest element, more than {limit_of(w):g}"
    return ""
