"""A table of what hlotool's and XLA's optimisers leave of the same modules: instructions, kernels, bytes moved.

    python tests/against_xla.py [--format markdown|json] [--xla-python PYTHON] [--optimised DIR] FILE.hlo ...

XLA runs in a child process under a Python that has jax (``HLOTOOL_XLA_PYTHON``, else the running one); ``--optimised``
keeps its modules, and takes those that are there already.  Both modules are measured by the same rules, those of
`hlotool.analysis.cost`: bytes are operands read and results written by kernels, loops counted by their trips.
A kernel is an instruction that does work at run time: not parameters, constants, tuples, views and control flow.
Scalar arithmetic counts for neither side: hlotool writes it into the code around the kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hlotool.analysis.cost import ModuleCost
from hlotool.codegen.program import needs_kernel
from hlotool.driver import LOWERING, optimise
from hlotool.ir import Module
from hlotool.passes.fusion import fusible_computations
from hlotool.text.parser import parse

__all__ = ["Row", "Size", "compare", "optimised_by_xla", "size_of", "table"]


@dataclass(frozen=True, slots=True)
class Size:
    """Instructions outside of fusions, kernels, and bytes moved in one run."""

    instructions: int
    kernels: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    ours: Size
    xla: Size

    @property
    def kernels(self) -> float:
        return (self.ours.kernels + 1) / (self.xla.kernels + 1)

    @property
    def bytes(self) -> float:
        return (self.ours.bytes + 1) / (self.xla.bytes + 1)


def size_of(module: Module) -> Size:
    """The size of an optimised module."""
    own = [i for c in fusible_computations(module) for i in c]
    work = [i for i in own if needs_kernel(i) or i.opcode == "custom-call"]
    return Size(len(own), len(work), ModuleCost(module).total.bytes)


def compare(name: str, text: str, optimised: str) -> Row:
    """One line of the table, from HLO text and what XLA made of it."""
    ours = optimise(optimise(parse(text)), LOWERING)
    return Row(name, size_of(ours), size_of(parse(optimised)))


def geomean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(rows: Sequence[Row]) -> str:
    """Markdown, the worst bytes first."""
    lines = [
        "| module | instructions | XLA's | kernels | XLA's | ratio | bytes | XLA's | ratio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in sorted(rows, key=lambda r: (-r.bytes, r.name)):
        a, b = row.ours, row.xla
        lines.append(
            f"| {row.name} | {a.instructions} | {b.instructions} | {a.kernels} | {b.kernels} | {row.kernels:.2f} "
            f"| {a.bytes:,} | {b.bytes:,} | {row.bytes:.2f} |"
        )
    kernels, moved = geomean([r.kernels for r in rows]), geomean([r.bytes for r in rows])
    lines.append(f"| **geometric mean** | | | | | **{kernels:.2f}** | | | **{moved:.2f}** |")
    return "\n".join(lines)


_CHILD = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
from jaxlib import _hlo, _jax
device = jax.local_devices(backend="cpu")[0]
devices = _jax.DeviceList((device,))
options = _hlo.HloPrintOptions()
options.print_large_constants = True
for line in sys.stdin:
    source, target = json.loads(line)
    try:
        proto = _hlo.hlo_module_from_text(open(source).read()).as_serialized_hlo_module_proto()
        made = device.client.compile_and_load(_jax.mlir.hlo_to_stablehlo(proto), devices)
        text = made.hlo_modules()[0].to_string(options)
    except Exception as error:
        print(f"{source}: XLA does not compile it: {str(error).splitlines()[0]}", file=sys.stderr)
        continue
    with open(target, "w") as file:
        file.write(text)
"""


def optimised_by_xla(files: Sequence[Path], directory: Path, python: str) -> dict[Path, str]:
    """What XLA's CPU compiler makes of each file, by file; those that it refuses are left out."""
    directory.mkdir(parents=True, exist_ok=True)
    targets = {file: directory / file.name for file in files}
    missing = [json.dumps([str(f), str(t)]) for f, t in targets.items() if not t.exists()]
    if missing:
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        subprocess.run([python, "-c", _CHILD], input="\n".join(missing), text=True, check=True, env=environment)
    return {file: target.read_text() for file, target in targets.items() if target.exists()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What hlotool's and XLA's optimisers leave of the same modules.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.hlo")
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown", dest="form")
    parser.add_argument("--xla-python", default=os.environ.get("HLOTOOL_XLA_PYTHON") or sys.executable)
    parser.add_argument("--optimised", type=Path, default=Path("optimised-by-xla"), metavar="DIR")
    options = parser.parse_args(arguments)
    made = optimised_by_xla(options.files, options.optimised, options.xla_python)
    rows = [compare(file.stem, file.read_text(), text) for file, text in made.items()]
    print(table(rows) if options.form == "markdown" else json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
