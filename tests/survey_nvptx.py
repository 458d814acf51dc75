"""Models of the corpus on an emulated graphics processor: whether each is right, and what an assembler says of its PTX.

    python tests/survey_nvptx.py [--corpus FOLDER] [--sizes small,medium] [--ptxas PATH] [--chip sm_90] [--amd gfx90a]
                                 [--orders] [--assemble] [MODEL...]

A line has the verdict (right, wrong, or refused with the reason), the seconds of compilation and of the run, and with
``--ptxas`` (of the package nvidia-cuda-nvcc) the most registers of a kernel, bytes spilled in all, and the most bytes
of shared memory.  With ``--amd`` LLVM makes an object of the kernels for such a chip as well, which is to need nothing;
with ``--orders`` blocks and threads that do not wait for each other also run in other orders, and a program whose bits
depend on that is ``racing``.  Exit code 1 where a model is wrong or racing, or an assembler takes no kernel of it.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from hlotool.codegen.machine import host
from hlotool.driver import CompileOptions, compile_module, find_backend
from hlotool.ir import Module, UnsupportedError
from hlotool.passes import parse_pipeline
from hlotool.text.parser import parse

_HEADER = f"{'model':32} {'verdict':8} {'compile':>8} {'run':>8} {'registers':>9} {'spilled':>8} {'shared':>7}"


@dataclass(frozen=True, slots=True)
class Assembled:
    """What ``ptxas`` says of the kernels of a text."""

    registers: int
    spilled: int
    shared: int
    error: str = ""


def assembled(ptxas: str, chip: str, text: str) -> Assembled:
    """The report of ``ptxas -v``."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "unit.ptx")
        source.write_text(text, "ascii")
        done = subprocess.run(
            [ptxas, "-v", f"-arch={chip}", str(source), "-o", str(Path(folder, "unit.cubin"))],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def largest(pattern: str) -> int:
        return max(map(int, re.findall(pattern, done.stderr)), default=0)

    error = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[0]
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill", done.stderr)))
    return Assembled(largest(r"Used (\d+) registers"), spilled, largest(r"(\d+) bytes smem"), error)


def ptx(module: Module, chip: str) -> list[str]:
    """The texts of a module for a chip."""
    code = find_backend(f"nvptx:{chip}").code
    assert code is not None
    return list(code(module, CompileOptions(pipeline=parse_pipeline("default"), machine=host()), "asm"))


def amd_object(module: Module, chip: str) -> bytes:
    """The object with all kernels of a module for a chip of AMD."""
    return compile_module(module, f"amdgcn:{chip}", to_run=False).device_object()


def undefined(code: bytes) -> list[str]:
    """The symbols that an object (ELF, 64 bits, little-endian) takes from elsewhere."""
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [struct.unpack_from("<IIQQQQI", code, table + n * size) for n in range(count)]
    found = []
    for _, kind, _, _, start, length, link in sections:
        if kind != _SYMTAB:
            continue
        strings = sections[link][4]
        for at in range(start, start + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            text = code[strings + name : code.index(b"\0", strings + name)].decode()
            if not section and text:
                found.append(text)
    return found


_SYMTAB = 2


def same_bits(module: Module, arrays: Sequence[Any]) -> bool:
    """Whether the results are the same in whatever order blocks and threads run."""
    first, *others = (
        [np.asarray(result).tobytes() for result in compile_module(module, f"nvptx:{name}")(*arrays)]
        for name in ("emulate", "emulate-reversed", "emulate-shuffled")
    )
    return all(other == first for other in others)


def tried(case: Any, options: argparse.Namespace) -> tuple[str, str]:
    """The verdict on a case of the corpus, and its line."""
    module = parse(case.hlo)
    begun = perf_counter()
    compiled = ran = 0.0
    try:
        verdict, why = "", ""
        if not options.assemble:
            executable = compile_module(module, "nvptx:emulate")
            compiled = perf_counter() - begun
            arrays = case.inputs()
            begun = perf_counter()
            results = executable(*arrays)
            ran = perf_counter() - begun
            verdict = "right" if case.check(list(results))["ok"] else "wrong"
            if options.orders and verdict == "right" and not same_bits(module, arrays):
                verdict = "racing"
    except UnsupportedError as error:
        verdict, why = "refused", error.message
    columns = ""
    if options.ptxas and verdict != "refused":
        reports = [assembled(options.ptxas, options.chip, text) for text in ptx(module, options.chip)]
        registers, shared = (max(getattr(r, name) for r in reports) for name in ("registers", "shared"))
        columns = f"{registers:9} {sum(r.spilled for r in reports):8} {shared:7}"
        why = next((r.error for r in reports if r.error), why)
        verdict = "no code" if any(r.error for r in reports) else verdict or "takes"
    if options.amd and verdict != "refused":
        code = amd_object(module, options.amd)
        columns += f" {len(code):9}"
        why = ", ".join(undefined(code)) or why
        verdict = "no code" if undefined(code) else verdict or "takes"
    return verdict, f"{case.name:32} {verdict:8} {compiled:8.2f} {ran:8.2f} {columns} {why}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--corpus", default=str(Path(__file__).parents[2] / "shared" / "corpus"))
    parser.add_argument("--sizes", default="small,medium")
    parser.add_argument("--chip", default="sm_90")
    parser.add_argument("--ptxas")
    parser.add_argument("--amd", metavar="CHIP")
    parser.add_argument("--orders", action="store_true", help="other orders of blocks and threads give the same bits")
    parser.add_argument("--assemble", action="store_true", help="with --ptxas or --amd: run nothing")
    options = parser.parse_args()
    sys.path.insert(0, options.corpus)
    import corpus

    cases = [corpus.Case(path) for path in corpus.names()]
    cases = [case for case in cases if case.meta["size_class"] in options.sizes.split(",")]
    verdicts: Counter[str] = Counter()
    print(_HEADER)
    for case in cases:
        if not options.models or case.name in options.models:
            verdict, line = tried(case, options)
            verdicts[verdict] += 1
            print(line, flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return 1 if verdicts["wrong"] or verdicts["racing"] or verdicts["no code"] else 0


if __name__ == "__main__":
    sys.exit(main())
