"""XLA as a second opinion: runs HLO text through XLA's CPU client, in a child process.

The Python with jax is named by the environment variable ``HLOTOOL_XLA_PYTHON`` (default: the running one).  This file
is also the program of the child, which sees nothing of hlotool: it needs jax, jaxlib, numpy and ml_dtypes only.

What to know of XLA's CPU backend when comparing with it: it sets denormals to zero in its threads, widens f8, f4 and
4-bit types to larger ones and may leave out roundings in between, and takes its modules through StableHLO, which
refuses some legal HLO (an error here, not an answer).
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

__all__ = ["Job", "RefusedError", "missing", "run_xla"]

Array: TypeAlias = np.ndarray[Any, Any]
Job: TypeAlias = tuple[str, Sequence[Array]]
"""HLO text, and arguments of its entry computation: one array per parameter, tuples flattened."""


class RefusedError(Exception):
    """XLA did not answer: its error message, or that it died."""


@functools.cache
def missing() -> str:
    """Why there is no XLA to ask; empty when there is.  For ``pytest.mark.skipif``."""
    python = _python()
    try:
        looks = "import sys, importlib.util as u; sys.exit(not (u.find_spec('jax') and u.find_spec('jaxlib')))"
        found = subprocess.run([python, "-c", looks], capture_output=True, timeout=60, check=False)
    except OSError as error:
        return f"{python} does not run: {error.strerror}"
    return "" if found.returncode == 0 else f"{python} has no jax (set HLOTOOL_XLA_PYTHON to one that has)"


def run_xla(jobs: Sequence[Job], timeout: float = 600, flags: str = "") -> list[list[Array] | RefusedError]:
    """The outputs of each module, one array per leaf of its root, or why there are none.

    All jobs share a child process (starting one takes seconds); when one kills it, another child takes the rest.
    `flags` are XLA's, as in the variable ``XLA_FLAGS``.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for number, (text, arguments) in enumerate(jobs):
            (directory / f"{number}.hlo").write_text(text)
            _write(directory / f"{number}.in", arguments)
        answers: list[list[Array] | RefusedError] = []
        while len(answers) < len(jobs):
            why = _run_child([_python(), __file__, name, str(len(answers))], timeout, flags)
            while len(answers) < len(jobs) and (found := _answer(directory, len(answers))) is not None:
                answers.append(found)
            if len(answers) < len(jobs):
                answers.append(RefusedError(why))
        return answers


def _run_child(command: list[str], timeout: float, flags: str) -> str:
    """Run jobs as far as it goes; why it ended."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return f"no answer in {timeout:g} s"
    if done.returncode == 1:  # what _child does not catch: it did not get to the first job
        raise RuntimeError(f"the child of XLA does not start:\n{done.stderr[-2000:]}")
    return f"died with {done.returncode}: {done.stderr.strip()[-2000:]}"


def _python() -> str:
    return os.environ.get("HLOTOOL_XLA_PYTHON") or sys.executable


def _answer(directory: Path, number: int) -> list[Array] | RefusedError | None:
    """What the child left for a job; None if it did not get that far."""
    if (directory / f"{number}.error").exists():
        return RefusedError((directory / f"{number}.error").read_text())
    return _read(directory / f"{number}.out") if (directory / f"{number}.out").exists() else None


def _write(path: Path, arrays: Sequence[Array]) -> None:
    """Bytes, types and sizes; the file appears under its name when it is complete."""
    kept = [np.ascontiguousarray(a) for a in arrays]
    header = json.dumps([[a.dtype.name, np.shape(a)] for a in arrays]).encode()
    part = path.with_suffix(".part")
    part.write_bytes(b"\n".join([header, b"".join(a.tobytes() for a in kept)]))
    part.rename(path)


def _read(path: Path) -> list[Array]:
    header, _, data = path.read_bytes().partition(b"\n")
    arrays: list[Array] = []
    at = 0
    for name, sizes in json.loads(header):
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        count = int(np.prod(sizes, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(sizes))
        at += count * dtype.itemsize
    return arrays


def _child(directory: Path, first: int) -> None:
    """Run the jobs from `first` on, leaving a file for each."""
    import jax
    from jaxlib import _hlo, _jax  # not a public interface: as of jaxlib 0.10

    jax.config.update("jax_enable_x64", True)
    device = jax.local_devices(backend="cpu")[0]
    devices = _jax.DeviceList((device,))
    number = first
    while (source := directory / f"{number}.hlo").exists():
        try:
            module = _hlo.hlo_module_from_text(source.read_text())
            stable = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
            executable = device.client.compile_and_load(stable, devices)
            arguments = [jax.device_put(a, device) for a in _read(directory / f"{number}.in")]
            _write(directory / f"{number}.out", [np.asarray(a) for a in executable.execute(arguments)])
        except Exception:
            (directory / f"{number}.error").write_text(traceback.format_exc(limit=0))
        number += 1


if __name__ == "__main__":
    _child(Path(sys.argv[1]), int(sys.argv[2]))
