#!/usr/bin/env python3
"""Libraries of `hlotool build` beside the code that this process loads: numbers, bytes, time.

    python tests/survey_build.py [--cpu NAME] [--no-run] [MODEL.hlo...]

One line a model (else the corpus): whether the results are the same bits, bytes of code, object and shared library,
what else the object asks for than copies of memory, nanoseconds of a call of the library and of the loaded code, in
turns, and their ratio.  The first is a tiny model, of which it is said what a call costs beyond the kernels.
  Takes a C compiler and nm.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from libraries import DRIVER, Built, build
from models import models

from hlotool.codegen.machine import Machine, default_machine, named, without_tiles
from hlotool.driver import compile_module
from hlotool.harness.inputs import random_inputs
from hlotool.ir import HloError, Module
from hlotool.runtime.memory import aligned
from hlotool.text.load import one_module, open_source
from hlotool.text.parser import parse

_COPIES = {"memcpy", "memmove", "memset"}
_ROUND = 2e6  # nanoseconds
TINY = """HloModule tiny
ENTRY e {
  x = f32[1,8] parameter(0)
  w = f32[8,8] parameter(1)
  b = f32[1,8] parameter(2)
  v = f32[8,4] parameter(3)
  h = f32[1,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[1,8] add(h, b)
  t = f32[1,8] tanh(s)
  ROOT y = f32[1,4] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


class Clock:
    """Times calls, by ``timing.c``."""

    def __init__(self, folder: Path) -> None:
        library = folder / "timing.so"
        source = DRIVER.parent / "timing.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        self._loaded = ctypes.CDLL(str(library))
        self._loaded.time_run.restype = self._loaded.time_code.restype = ctypes.c_double

    def both(self, built: Built, module: Module, machine: Machine, arrays: Sequence[Any], rounds: int) -> Any:
        """Results of library and loaded code, and nanoseconds of a call of each."""
        entry = built.library.interface.entries[0]
        loaded = ctypes.CDLL(str(built.folder / f"lib{built.name}.so"))
        results = [aligned(max(64, array.bytes)) for array in entry.results]
        workspace = aligned(entry.workspace_bytes)
        inputs = [np.ascontiguousarray(array) for array in arrays]
        given, taken = _pointers(inputs), _pointers(results)
        weights = _whole(built)
        context = (ctypes.c_void_p * 8)(None if weights is None else weights.ctypes.data)
        executable = compile_module(module, machine=machine, threads=1)
        code = executable.entry
        if code is None:
            return None
        # In the same memory: where arrays lie makes a difference.
        frame = (ctypes.c_void_p * (len(inputs) + len(results) + 4))(
            *given, *taken, workspace.ctypes.data, code.constants
        )
        status = len(inputs) + len(results) + 2

        def run(count: int, calls: int) -> float:
            return float(self._loaded.time_run(
                getattr(loaded, f"{built.name}_run"), given, taken, ctypes.c_void_p(workspace.ctypes.data),
                ctypes.c_size_t(entry.workspace_bytes), context, count, calls,
            ))  # fmt: skip

        def jitted(count: int, calls: int) -> float:
            address = ctypes.c_void_p(code.address)
            return float(self._loaded.time_code(address, frame, ctypes.c_size_t(status), count, calls))

        first = max(run(1, 1), 1.0)
        found = [result.tobytes() for result in results]
        for result in results:
            result[...] = 0xA5
        calls = max(1, int(_ROUND / max(first, jitted(1, 1))))
        same = all(
            one[: array.bytes] == other.tobytes()[: array.bytes]
            for one, other, array in zip(found, results, entry.results, strict=True)
        )
        times = [(run(1, calls), jitted(1, calls)) for _ in range(rounds)]
        return same, min(row[0] for row in times), min(row[1] for row in times)


def _pointers(arrays: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _whole(built: Built) -> Any:
    parts = built.library.weights
    if not parts:
        return None
    data = b"".join(parts)
    memory = aligned(len(data))
    memory[...] = np.frombuffer(data, np.uint8)
    return memory


def _asked(built: Built) -> list[str]:
    path = built.folder / "object"
    path.write_bytes(built.library.object)
    done = subprocess.run(["nm", "-u", str(path)], capture_output=True, text=True, check=True)
    return sorted(set(done.stdout.split()) - {"U"} - _COPIES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu")
    parser.add_argument("--no-run", action="store_true", help="look at bytes and symbols alone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("models", nargs="*", type=Path)
    options = parser.parse_args()
    machine = without_tiles(named(options.cpu) if options.cpu else default_machine())
    ratios, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(Path(folder))
        for number, path in enumerate([None, *(options.models or models())]):
            name = "tiny" if path is None else path.stem
            module = parse(TINY) if path is None else one_module(open_source(path))
            place = Path(folder) / str(number)
            try:
                built = build(module, place, name=f"m{number}", kind="shared", machines=[machine])
            except HloError as error:
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                continue
            code = sum(built.library.functions.values())
            shared = (place / f"libm{number}.so").stat().st_size
            said = f"{name}: code {code:,}, object {len(built.library.object):,}, shared {shared:,}"
            asked = _asked(built)
            wrong += bool(asked)
            said += f", asks for {' '.join(asked)}" if asked else ""
            if not options.no_run and not built.library.interface.functions:
                found = clock.both(built, module, machine, random_inputs(module, 0), options.rounds)
                if found is not None:
                    same, own, jitted = found
                    wrong += not same
                    said += f", {'same bits' if same else 'OTHER BITS'}, {own:,.1f} / {jitted:,.1f} ns"
                    said += f": {own / jitted:.3f}"
                    if path is None:
                        said += f"; {own - jitted:.1f} ns beyond the kernels"
                    else:
                        ratios.append(own / jitted)
            print(said, flush=True)
    if ratios:
        print(f"{len(ratios)} ratios, median {median(ratios):.3f}, geometric mean {geometric_mean(ratios):.3f}")
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
