"""Peak memory, measured: a child process loads compiled code, takes arguments, runs once, and says by how much the
memory that it holds grew meanwhile.

What the system counts is whole pages, and huge ones where it likes to; programs that take less than some megabytes
disappear among them, and in what a process takes anyway for threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import ExecutionError, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.runtime.image import image_to_bytes
from hlotool.runtime.memory import held_bytes

__all__ = ["Resident", "measure_resident", "process_bytes"]


@dataclass(frozen=True, slots=True)
class Resident:
    """`peak_bytes` are those by which the memory of a process grew at most, once its code was loaded, for arguments
    and a run that took `seconds`, and the constants.  `loaded_bytes` are those of code and constants, `argument_bytes`
    those of arguments."""

    peak_bytes: int
    loaded_bytes: int
    argument_bytes: int
    seconds: float


def process_bytes(executable: Executable) -> int:
    """What a process is to hold for a run: `Memory.peak_bytes`, with the arena and results in whole huge pages where
    the allocator asks for them."""
    memory, aliases = executable.memory, executable.donated
    own = (shape.byte_size for number, shape in enumerate(executable.outputs) if number not in aliases)
    return (
        memory.parameter_bytes + memory.constant_bytes + held_bytes(memory.arena_bytes) + sum(map(held_bytes, own))
    )


def measure_resident(
    executable: Executable, arrays: Sequence[npt.NDArray[Any]], threads: int | None = None
) -> Resident:
    """Run in a child process.  UnsupportedError where the system does not count, or code calls Python; ExecutionError
    where the child fails."""
    if not Path("/proc/self/clear_refs").exists():
        raise UnsupportedError("memory is measured on Linux only: this system does not say what a process held at most")
    if executable.image is None or executable.devices > 1:
        raise UnsupportedError("memory is measured of programs on one device that do not call Python")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "image").write_bytes(image_to_bytes(executable.image))
        for number, array in enumerate(arrays):
            np.ascontiguousarray(array).view(np.uint8).tofile(place / f"arg{number}")
        command = [sys.executable, "-m", "hlotool.harness.resident_child", folder, json.dumps(threads)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise ExecutionError(f"the process that was measured failed: {said[-1] if said else done.returncode}")
    return Resident(**json.loads(done.stdout))
