"""XLA's CPU backend as a contestant: a child process under a Python that has jax.

This file is also the program of the child, which imports nothing of hlotool.  It reads one JSON line per request and
answers with one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["XlaPeer"]


class XlaPeer:
    """XLA on one module; UnsupportedError where the Python has no jax, or XLA refuses the module."""

    label = "xla"

    def __init__(self, text: str, arguments: Sequence[npt.NDArray[Any]], python: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        (folder / "module.hlo").write_text(text, "utf-8", "surrogateescape")
        _save(folder / "in", arguments)
        python = python or os.environ.get("HLOTOOL_XLA_PYTHON") or sys.executable
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONSAFEPATH": "1"}
        self._child = subprocess.Popen(
            [python, __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def start(self) -> Any:
        from hlotool.harness.bench import Started

        answer = self._ask({"do": "start"})
        outputs = tuple(_load(Path(self._folder.name) / "out"))
        return Started(0.0, answer["compile"], answer["first"], outputs)

    def sample(self, seconds: float, batch: int) -> list[float]:
        found: list[float] = self._ask({"do": "sample", "seconds": seconds, "batch": batch})["samples"]
        return found

    def close(self) -> None:
        """End the child process."""
        self._child.kill()
        self._child.communicate()
        self._folder.cleanup()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        from hlotool.ir import UnsupportedError

        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            said = [row for row in self._child.stderr.read().splitlines() if row.strip()]
            raise UnsupportedError(f"XLA does not answer: {said[-1] if said else 'the process died'}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UnsupportedError(f"XLA refuses the module: {answer['error']}")
        return answer


def _save(path: Path, arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Types, sizes and bytes: npy files do not hold all types."""
    header = json.dumps([[a.dtype.name, np.shape(a)] for a in arrays]).encode()
    path.write_bytes(header + b"\n" + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))


def _load(path: Path) -> list[npt.NDArray[Any]]:
    import ml_dtypes

    header, _, data = path.read_bytes().partition(b"\n")
    arrays: list[npt.NDArray[Any]] = []
    at = 0
    for name, sizes in json.loads(header):
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        count = int(np.prod(sizes, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(sizes))
        at += count * dtype.itemsize
    return arrays


def _serve(folder: Path) -> None:
    """The child: compile when told to start, then run as often as asked."""
    import jax
    from jaxlib import _hlo, _jax  # no public interface: as of jaxlib 0.10

    jax.config.update("jax_enable_x64", True)
    device = jax.local_devices(backend="cpu")[0]
    devices = _jax.DeviceList((device,))
    text = (folder / "module.hlo").read_text("utf-8", "surrogateescape")
    arguments = [jax.device_put(a, device) for a in _load(folder / "in")]
    jax.block_until_ready(arguments)
    clock = time.perf_counter

    def build(source: str) -> Any:
        proto = _hlo.hlo_module_from_text(source).as_serialized_hlo_module_proto()
        return device.client.compile_and_load(_jax.mlir.hlo_to_stablehlo(proto), devices)

    def run() -> Any:
        found = executable.execute(arguments)
        for array in found:
            array.block_until_ready()
        return found

    build("HloModule warm\nENTRY e { p = f32[8]{0} parameter(0)\n ROOT r = f32[8]{0} add(p, p) }")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "start":
                begin = clock()
                executable = build(text)
                compiled = clock()
                outputs = run()
                answer: dict[str, Any] = {"compile": compiled - begin, "first": clock() - compiled}
                _save(folder / "out", [np.asarray(a) for a in outputs])
            else:
                samples: list[float] = []
                end = clock() + request["seconds"]
                while not samples or clock() < end:
                    begin = clock()
                    for _ in range(request["batch"]):
                        run()
                    samples.append((clock() - begin) / request["batch"])
                answer = {"samples": samples}
        except Exception as error:
            answer = {"error": (str(error).splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
