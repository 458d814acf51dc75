"""The process that `harness.resident` measures: ``python -m hlotool.harness.resident_child FOLDER THREADS``.

FOLDER holds an image of compiled code and the bytes of its arguments; what it took comes out as JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.driver import compile_module
from hlotool.harness.orphans import end_with_parent
from hlotool.ir import Shape, dtype_of
from hlotool.runtime.image import image_from_bytes, load_image
from hlotool.runtime.memory import release_kept
from hlotool.text.parser import parse

_WARM = """HloModule warm
ENTRY e {
  a = f32[65536] parameter(0)
  ROOT b = f32[65536] add(a, a)
}"""


def main(folder: Path, threads: int | None) -> dict[str, float]:
    """Load, take arguments, run; bytes and seconds."""
    end_with_parent()
    line = np.ones(65536, np.float32)
    compile_module(parse(_WARM), threads=threads)(line)  # what a process takes once: libraries, threads
    release_kept()
    before = _held()
    image = image_from_bytes((folder / "image").read_bytes())
    entry = load_image(image, threads)
    call, parameters = entry.function(image.releases_gil), image.parameters
    constants = image.constants.nbytes
    del image  # it holds constants once more
    loaded = _held()
    arrays = [_argument(folder / f"arg{number}", shape) for number, shape in enumerate(parameters)]
    given = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # what was held at most is from now on
    begin = time.perf_counter()
    results = call(*arrays)
    seconds = time.perf_counter() - begin
    peak = _status("VmHWM")
    del results
    return {
        "peak_bytes": peak - loaded + constants,
        "loaded_bytes": loaded - before,
        "argument_bytes": given - loaded,
        "seconds": seconds,
    }


def _argument(path: Path, shape: Shape) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.fromfile(path, np.uint8).view(dtype_of(shape.element_type))
    return found.reshape(shape.dimensions)


def _held() -> int:
    """Bytes that are held now, without freed ones that would be used again first."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return _status("VmRSS")


def _status(field: str) -> int:
    """A number of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]))))
