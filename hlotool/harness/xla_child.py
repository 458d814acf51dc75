"""The program of a child process under a Python that has jax: XLA's CPU client, told what to do line by line.

It imports nothing of hlotool, which that Python need not have.  A request is a line of JSON, ``{"do": ..., ...}``, and
so is the answer: what was measured, or ``{"error": message}``.  Modules and arrays come and go by files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["load", "save"]


def save(path: Path, arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Types, sizes and bytes: npy files do not hold all types."""
    header = json.dumps([[a.dtype.name, np.shape(a)] for a in arrays]).encode()
    path.write_bytes(header + b"\n" + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))


def load(path: Path) -> list[npt.NDArray[Any]]:
    """What `save` wrote, read-only."""
    header, _, data = path.read_bytes().partition(b"\n")
    arrays: list[npt.NDArray[Any]] = []
    at = 0
    for name, sizes in json.loads(header):
        dtype = _dtype(name)
        count = int(np.prod(sizes, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(sizes))
        at += count * dtype.itemsize
    return arrays


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


class _Client:
    """XLA's CPU client with one program and its arguments; times in seconds."""

    def __init__(self) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax = jax
        self.device = jax.local_devices(backend="cpu")[0]
        self.executable: Any = None
        self.arguments: list[Any] = []

    def compile(self, source: str) -> dict[str, Any]:
        from jaxlib import _jax

        text = Path(source).read_text("utf-8", "surrogateescape")
        begin = time.perf_counter()
        stable = _stablehlo(text)
        self.executable = self.device.client.compile_and_load(stable, _jax.DeviceList((self.device,)))
        return {"seconds": time.perf_counter() - begin}

    def hello(self) -> dict[str, Any]:
        import jaxlib

        return {"version": f"XLA of jaxlib {jaxlib.__version__}"}

    def stablehlo(self, source: str, target: str) -> dict[str, Any]:
        Path(target).write_bytes(_stablehlo(Path(source).read_text("utf-8", "surrogateescape")))
        return {}

    def text_of(self, source: str, target: str) -> dict[str, Any]:
        from jax._src.interpreters.mlir import make_ir_context
        from jaxlib.mlir.dialects import stablehlo

        with make_ir_context() as context:
            module = stablehlo.deserialize_portable_artifact(context, Path(source).read_bytes())
            Path(target).write_text(module.operation.get_asm(enable_debug_info=True), "utf-8")
        return {}

    def print(self, target: str) -> dict[str, Any]:
        """The module as XLA optimised it, with all its constants."""
        from jaxlib import _hlo

        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        (module,) = self.executable.hlo_modules()
        Path(target).write_text(module.to_string(options), "utf-8")
        return {}

    def give(self, source: str) -> dict[str, Any]:
        self.arguments = [self.jax.device_put(a, self.device) for a in load(Path(source))]
        self.jax.block_until_ready(self.arguments)
        return {}

    def run(self, target: str) -> dict[str, Any]:
        begin = time.perf_counter()
        found = self._run()
        seconds = time.perf_counter() - begin
        save(Path(target), [np.asarray(a) for a in found])
        return {"seconds": seconds}

    def sample(self, seconds: float, batch: int) -> dict[str, Any]:
        samples: list[float] = []
        clock = time.perf_counter
        end = clock() + seconds
        while not samples or clock() < end:
            begin = clock()
            for _ in range(batch):
                self._run()
            samples.append((clock() - begin) / batch)
        return {"samples": samples}

    def _run(self) -> list[Any]:
        found: list[Any] = self.executable.execute(self.arguments)
        for array in found:
            array.block_until_ready()
        return found


def _stablehlo(text: str) -> bytes:
    """A module in MLIR's binary form."""
    from jaxlib import _hlo, _jax  # no public interface: as of jaxlib 0.10

    found: bytes = _jax.mlir.hlo_to_stablehlo(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    return found


def _serve() -> None:
    client = _Client()
    names = ("hello", "compile", "stablehlo", "text_of", "print", "give", "run", "sample")
    tasks = {name: getattr(client, name) for name in names}
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = tasks[request.pop("do")](**request)
        except Exception as error:
            answer = {"error": (str(error).splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
