"""Libraries of `hlotool build` for tests: built in this process, linked to ``data/build/driver.c``, and run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hlotool.codegen.machine import Machine, default_machine, without_tiles
from hlotool.driver.library import LibraryOptions, build_library
from hlotool.ir import Module, dtype_of
from hlotool.passes import parse_pipeline
from hlotool.runtime.aot.files import files_of
from hlotool.runtime.aot.interface import Source
from hlotool.runtime.aot.library import Library

__all__ = ["DRIVER", "Built", "build", "c_program", "machine", "needs_cc", "ran", "run_driver"]

DRIVER = Path(__file__).parent / "data" / "build" / "driver.c"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
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


def machine() -> Machine:
    """The one that libraries are built for where nobody names others."""
    return without_tiles(default_machine())


def build(
    entries: Module | Mapping[str, Module], folder: Path, *, name: str = "model", kind: str = "static",
    machines: Sequence[Machine] = (), **options: Any,
) -> Built:  # fmt: skip
    """A library of a module, as the entry run, or of several."""
    modules = {"run": entries} if isinstance(entries, Module) else entries
    sources = {
        entry: Source(f"{entry}.hlo", sha256(entry.encode()).hexdigest(), module) for entry, module in modules.items()
    }
    chosen = LibraryOptions(
        machines=tuple(machines) or (machine(),), pipeline=parse_pipeline("default"), strict=True, **options
    )
    library = build_library(name, sources, chosen)
    folder.mkdir(parents=True, exist_ok=True)
    for path, parts in files_of(library, kind).items():
        (folder / path).write_bytes(b"".join(parts))
    return Built(library, folder, chosen.machines)


def ran(words: Sequence[object], folder: Path, code: int = 0) -> str:
    """What a command prints, that ends with `code`."""
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def c_program(built: Built, source: Path | str, *, program: str = "program", options: Sequence[str] = ()) -> Path:
    """A program in C, a file or its text, linked to the library."""
    path = built.folder / f"{program}.c"
    path.write_text(source.read_text() if isinstance(source, Path) else source)
    name = built.name
    macros = [f'-DHEADER="{name}.h"', f"-DLIBRARY={name}_library", f"-DMESSAGE={name}_message"]
    macros.append(f"-DCHECK={name}_weights_check")
    library = next(p.name for p in sorted(built.folder.iterdir()) if p.suffix in (".a", ".o", ".so"))
    words = ["cc", *_WARNINGS, *options, *macros, "-I.", path.name, library, "-pthread", "-o", program]
    ran([*words, "-Wl,-rpath,$ORIGIN"], built.folder)
    return built.folder / program


def run_driver(
    built: Built, arrays: Sequence[npt.NDArray[Any]], *, entry: int = 0, threads: int = 0, under: Sequence[str] = (),
    options: Sequence[str] = (), says: str = "done", code: int = 0,
) -> list[npt.NDArray[Any]]:  # fmt: skip
    """The results of an entry, by the driver, which runs under another program if there is one."""
    program = built.folder / f"driver{'_'.join(options)}"
    if not program.exists():
        c_program(built, DRIVER, program=program.name, options=options)
    (built.folder / "in").write_bytes(b"".join(array.tobytes() for array in arrays))
    weights = f"{built.name}.weights" if built.library.weights else ""
    words = [*under, f"./{program.name}", entry, "in", "out", weights, threads]
    assert ran(words, built.folder, code).splitlines() == [says]
    data, results, at = (built.folder / "out").read_bytes(), [], 0
    for array in built.library.interface.entries[entry].results:
        shape = array.shape
        part = np.frombuffer(data[at : at + array.bytes], dtype_of(shape.element_type))
        results.append(part.reshape(shape.dimensions))
        at += array.bytes
    assert at == len(data)
    return results
