"""Libraries of `hlotool build` for tests: built in this process, linked to ``data/build/driver.c``, and run.

Those for other processors are linked by a cross compiler, and run under an emulator; those for WebAssembly run in Node,
by ``data/build/driver.mjs``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hlotool.codegen.machine import WASM, Machine, default_machine, of_triple, without_tiles
from hlotool.driver.library import LibraryOptions, build_library
from hlotool.ir import Module, dtype_of
from hlotool.passes import parse_pipeline
from hlotool.runtime.aot.files import files_of
from hlotool.runtime.aot.interface import Source
from hlotool.runtime.aot.library import Library

__all__ = [
    "COPIES", "DRIVER", "FOREIGN", "ROUNDING", "Built", "Foreign", "build", "c_program", "machine", "needs_cc", "ran",
    "run_driver",
]  # fmt: skip

DRIVER = Path(__file__).parent / "data" / "build" / "driver.c"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
COPIES = {"memcpy", "memmove", "memset"}
"""All that libraries ask for."""
ROUNDING = """HloModule rounding
ENTRY e {
  x = f32[40] parameter(0)
  y = f64[40] parameter(1)
  f = f32[40] floor(x)
  c = f64[40] ceil(y)
  n = f32[40] round-nearest-even(x)
  a = f64[40] round-nearest-afz(y)
  r = f32[40] remainder(x, f)
  s = f64[40] remainder(y, c)
  p = f64[40] power(y, a)
  t = f64[40] tan(y)
  ROOT all = (f32[40], f64[40], f32[40], f64[40], f32[40], f64[40], f64[40], f64[40]) tuple(f, c, n, a, r, s, p, t)
}
"""
"""What plain processors have no instructions for."""
_WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]


@dataclass(frozen=True, slots=True)
class Built:
    """A library, in a folder."""

    library: Library
    folder: Path
    machines: tuple[Machine, ...]

    @property
    def name(self) -> str:
        return self.library.interface.name


@dataclass(frozen=True, slots=True)
class Foreign:
    """Another processor: the system that its programs are for, what runs them here, its name if there are more, and
    options that give the emulator the same instructions."""

    triple: str
    emulator: str
    cpu: str | None = None
    emulator_options: tuple[str, ...] = ()

    @property
    def compiler(self) -> str:
        """What links its programs."""
        return "wasm-ld" if self.machine.is_wasm else f"{self.triple}-gcc"

    @property
    def machine(self) -> Machine:
        return of_triple(self.triple, self.cpu)

    @property
    def missing(self) -> str:
        """What is not installed of that which it takes to run programs; empty if all of it is."""
        return " and ".join(tool for tool in (self.compiler, self.emulator) if shutil.which(tool) is None)

    def fault(self, folder: Path) -> str:
        """What the emulator itself computes wrongly, of what tests of its programs have found; empty if it is right.
        """
        if not self.triple.startswith("s390x"):
            return ""
        source = folder / "fault.c"
        source.write_text(_LONG_PRODUCT)
        ran([self.compiler, "-static", source.name, "-o", "fault"], folder)
        right = ran([self.emulator, "./fault"], folder) == "7.875"
        return "" if right else f"{self.emulator} multiplies pairs of f32 to f64 wrongly (MDEBR)"

    @property
    def swaps(self) -> bool:
        """Whether bytes of numbers are in the other order there."""
        return self.machine.is_big_endian != (sys.byteorder == "big")


def vectors_of(bits: int) -> tuple[str, str]:
    """Options for an emulated processor of Arm whose scalable vectors have so many bits."""
    return "-cpu", f"max,sve-default-vector-length={bits // 8}"


FOREIGN = {
    "aarch64": Foreign("aarch64-linux-gnu", "qemu-aarch64"),
    "neoverse-v1": Foreign("aarch64-linux-gnu", "qemu-aarch64", "neoverse-v1", vectors_of(256)),
    "a64fx": Foreign("aarch64-linux-gnu", "qemu-aarch64", "a64fx", vectors_of(512)),
    "riscv64": Foreign("riscv64-linux-gnu", "qemu-riscv64"),
    "rv64gcv": Foreign("riscv64-linux-gnu", "qemu-riscv64", "rv64gcv", ("-cpu", "rv64,v=true,vext_spec=v1.0")),
    "s390x": Foreign("s390x-linux-gnu", "qemu-s390x"),
    "ppc64le": Foreign("powerpc64le-linux-gnu", "qemu-ppc64le"),
    "wasm32": Foreign(WASM, "node", "wasm32"),
    "wasm32-simd128": Foreign(WASM, "node", "wasm32-simd128"),
}

_NARROW = ("s2", "s4")
_HELD: dict[str, Any] = {"f16": np.float32, "bf16": np.float32, **dict.fromkeys(_NARROW, np.int8)}
"""What JavaScript has numbers in whose bits it does not show."""

_LONG_PRODUCT = """#include <stdio.h>
int main(void) {
  union { float parts[2]; double all; } x = {{3.5f, 0}};
  float y = 2.25f;
  __asm__("mdebr %0,%1" : "+f"(x.all) : "f"(y));
  printf("%g", x.all);
}
"""


def machine() -> Machine:
    """The one that libraries are built for where nobody names others."""
    return without_tiles(default_machine())


def build(
    entries: Module | Mapping[str, Module], folder: Path, *, name: str = "model", kind: str | None = None,
    machines: Sequence[Machine] = (), **options: Any,
) -> Built:  # fmt: skip
    """A library of a module, as the entry run, or of several; static if it is of no other `kind` and not for
    WebAssembly."""
    modules = {"run": entries} if isinstance(entries, Module) else entries
    sources = {
        entry: Source(f"{entry}.hlo", sha256(entry.encode()).hexdigest(), module) for entry, module in modules.items()
    }
    chosen = LibraryOptions(
        machines=tuple(machines) or (machine(),), pipeline=parse_pipeline("default"), strict=True, **options
    )
    library = build_library(name, sources, chosen)
    folder.mkdir(parents=True, exist_ok=True)
    kind = kind or ("wasm" if chosen.machines[0].is_wasm else "static")
    for path, parts in files_of(library, kind).items():
        (folder / path).write_bytes(b"".join(parts))
    return Built(library, folder, chosen.machines)


class EmulatorError(Exception):
    """An emulator fails of itself."""


_EMULATOR = {"decode_save_opc: Assertion": "QEMU before 8.1 fails at some vectors of RISC-V (its issue 1441)"}
"""What emulators say as they fail, and what is known of it."""


def ran(words: Sequence[object], folder: Path, code: int = 0, timeout: float = 600) -> str:
    """What a command prints, that ends with `code`; EmulatorError where the emulator that runs it fails."""
    done = subprocess.run(
        list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, timeout=timeout
    )
    if known := next((what for said, what in _EMULATOR.items() if said in done.stderr), ""):
        raise EmulatorError(known)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def c_program(
    built: Built, source: Path | str, *, program: str = "program", options: Sequence[str] = (),
    on: Foreign | None = None,
) -> Path:  # fmt: skip
    """A program in C, a file or its text, linked to the library; one that needs nothing else if it is for another
    processor."""
    path = built.folder / f"{program}.c"
    path.write_text(source.read_text() if isinstance(source, Path) else source)
    name = built.name
    macros = [f'-DHEADER="{name}.h"', f"-DLIBRARY={name}_library", f"-DMESSAGE={name}_message"]
    macros.append(f"-DCHECK={name}_weights_check")
    library = next(p.name for p in sorted(built.folder.iterdir()) if p.suffix in (".a", ".o", ".so"))
    compiler = ["cc", "-Wl,-rpath,$ORIGIN"] if on is None else [on.compiler, "-static"]
    words = [*compiler, *_WARNINGS, *options, *macros, "-I.", path.name, library, "-pthread", "-o", program]
    ran(words, built.folder)
    return built.folder / program


def run_driver(
    built: Built, arrays: Sequence[npt.NDArray[Any]], *, entry: int = 0, threads: int = 0, under: Sequence[str] = (),
    options: Sequence[str] = (), says: str = "done", code: int = 0, on: Foreign | None = None,
    timeout: float = 600,
) -> list[npt.NDArray[Any]]:  # fmt: skip
    """The results of an entry, by the driver, which runs under another program, or on another processor, if there is
    one."""
    if on is not None and on.machine.is_wasm:
        return _run_node(built, arrays, entry, says, code, on, timeout)
    program = built.folder / f"driver{'_'.join(options)}"
    if not program.exists():
        c_program(built, DRIVER, program=program.name, options=options, on=on)
    swaps = on is not None and on.swaps
    given = map(_swapped, arrays) if swaps else arrays
    (built.folder / "in").write_bytes(b"".join(array.tobytes() for array in given))
    weights = f"{built.name}.weights" if built.library.weights else ""
    emulator = [] if on is None else [on.emulator, *on.emulator_options]
    words = [*under, *emulator, f"./{program.name}", entry, "in", "out", weights, threads]
    assert ran(words, built.folder, code, timeout).splitlines() == [says]
    data, results, at = (built.folder / "out").read_bytes(), [], 0
    for array in built.library.interface.entries[entry].results:
        shape = array.shape
        part = np.frombuffer(data[at : at + array.bytes], dtype_of(shape.element_type))
        results.append((_swapped(part) if swaps else part).reshape(shape.dimensions))
        at += array.bytes
    assert at == len(data)
    return results


def _run_node(
    built: Built, arrays: Sequence[npt.NDArray[Any]], entry: int, says: str, code: int, on: Foreign, timeout: float
) -> list[npt.NDArray[Any]]:
    """The results of an entry of a library for WebAssembly."""
    shapes = [array.shape for array in built.library.interface.entries[entry].arguments]
    given = (a.astype(np.int8) if s.element_type in _NARROW else a for a, s in zip(arrays, shapes, strict=True))
    (built.folder / "in").write_bytes(b"".join(array.tobytes() for array in given))
    weights = [f"{built.name}.weights"] if built.library.weights else []
    words = [on.emulator, DRIVER.with_suffix(".mjs"), f"{built.name}.mjs", entry, "in", "out", *weights]
    assert ran(words, built.folder, code, timeout).splitlines() == [says]
    if code:
        return []
    data, results, at = (built.folder / "out").read_bytes(), [], 0
    for array in built.library.interface.entries[entry].results:
        shape = array.shape
        wanted = dtype_of(shape.element_type)
        held = np.dtype(_HELD.get(shape.element_type, wanted))
        size = shape.size * held.itemsize
        part = np.frombuffer(data[at : at + size], held)
        results.append(part.astype(wanted).reshape(shape.dimensions))
        at += size
    assert at == len(data)
    return results


def _swapped(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The numbers whose bytes are in the other order."""
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    parts = np.frombuffer(array.tobytes(), np.uint8).reshape(-1, size)
    return np.frombuffer(parts[:, ::-1].tobytes(), array.dtype).reshape(array.shape)
