"""A table of what hlotool's and XLA's optimisers leave of the same modules: instructions, kernels, bytes moved.

    python tests/against_xla.py [--format markdown|json] [--xla-python PYTHON] [--optimised DIR] FILE.hlo ...

XLA runs in a child process under a Python that has jax (``HLOTOOL_XLA_PYTHON``, else the running one); ``--optimised``
keeps its modules, and takes those that are there already.  Both modules are measured by the same rules, those of
`hlotool.analysis.cost`: bytes are operands read and results written by kernels, loops counted by their trips.
A kernel is an instruction that does work at run time: not parameters, constants, tuples, views and control flow.
Scalar arithmetic counts for neither side: hlotool writes it into the code around the kernels.  XLA's modules show the
copies that buffers need as instructions; hlotool decides on them afterwards, and they are added to its bytes.
Rows that are more than a tenth worse are explained in ``data/against_xla.toml``, which test_against_xla.py holds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.in_place import in_place_pairs, module_in_place_pairs, updates_part
from hlotool.codegen.plan.buffers import assign
from hlotool.codegen.plan.steps import needs_kernel
from hlotool.driver import LOWERING, optimise
from hlotool.harness.xla import RefusedError, Xla, xla_python
from hlotool.ir import Computation, Instruction, Module
from hlotool.passes.fuse.fusion import fusible_computations
from hlotool.text.parser import parse

__all__ = ["Row", "Size", "compare", "explanations", "optimised_by_xla", "size_of", "table"]


WORSE = 1.10
"""A ratio that wants an explanation."""


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
    def is_worse(self) -> bool:
        """By more than a tenth, in kernels or in bytes."""
        return max(self.kernels, self.bytes) > WORSE

    @property
    def kernels(self) -> float:
        return (self.ours.kernels + 1) / (self.xla.kernels + 1)

    @property
    def bytes(self) -> float:
        return (self.ours.bytes + 1) / (self.xla.bytes + 1)


def size_of(module: Module) -> Size:
    """The size of an optimised module."""
    costs = ModuleCost(module)
    runs = costs.executions()
    own = [i for c in fusible_computations(module) for i in c]
    work = [i for i in own if needs_kernel(i) or i.opcode == "custom-call"]
    return Size(len(own), len(work), sum(costs.own(i).bytes * runs[parent_of(i)] for i in work))


def parent_of(instruction: Instruction) -> Computation:
    assert instruction.parent is not None
    return instruction.parent


def copied_bytes(module: Module) -> int:
    """Bytes of the copies that the buffers of a module ask for: of loop state, results of branches and outputs, and of
    what is updated in a place of its own."""
    plan = assign(module.entry, module_in_place_pairs(module))
    runs = ModuleCost(module).executions()
    copies = [(copy, 1) for copy in plan.output_copies]
    for loop, (entering, repeating) in plan.loop_copies.items():
        copies += [(copy, runs[parent_of(loop)]) for copy in entering]
        copies += [(copy, runs[loop.attributes["body"]]) for copy in repeating]
    for (conditional, _), branch in plan.branch_copies.items():
        copies += [(copy, runs[parent_of(conditional)]) for copy in branch]
    total = sum(2 * copy.source.size * times for copy, times in copies)
    for instruction in plan.positions:
        for leaf, number in in_place_pairs(instruction):
            if updates_part(instruction, leaf) and leaf not in plan.in_place.get(instruction, ()):
                total += 2 * instruction.operands[number].shape.byte_size * runs[parent_of(instruction)]
    return total


def compare(name: str, text: str, optimised: str) -> Row:
    """One line of the table, from HLO text and what XLA made of it."""
    ours = optimise(optimise(parse(text)), LOWERING)
    size = size_of(ours)
    return Row(name, replace(size, bytes=size.bytes + copied_bytes(ours)), size_of(parse(optimised)))


def geomean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def explanations() -> dict[str, str]:
    """Why hlotool's module is the worse one, by name of the module."""
    found: dict[str, str] = tomllib.loads((Path(__file__).parent / "data" / "against_xla.toml").read_text())
    return found


def table(rows: Sequence[Row]) -> str:
    """Markdown, the worst bytes first."""
    why = explanations()
    lines = [
        "| module | instructions | XLA's | kernels | XLA's | ratio | bytes | XLA's | ratio | explanation |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in sorted(rows, key=lambda r: (-r.bytes, r.name)):
        a, b = row.ours, row.xla
        lines.append(
            f"| {row.name} | {a.instructions} | {b.instructions} | {a.kernels} | {b.kernels} | {row.kernels:.2f} "
            f"| {a.bytes:,} | {b.bytes:,} | {row.bytes:.2f} | {why.get(row.name, '?') if row.is_worse else ''} |"
        )
    kernels, moved = geomean([r.kernels for r in rows]), geomean([r.bytes for r in rows])
    lines.append(f"| **geometric mean** | | | | | **{kernels:.2f}** | | | **{moved:.2f}** | |")
    return "\n".join(lines)


def optimised_by_xla(files: Sequence[Path], directory: Path, python: str | None = None) -> dict[Path, str]:
    """What XLA's CPU compiler makes of each file, by file; those that it refuses are left out."""
    directory.mkdir(parents=True, exist_ok=True)
    targets = {file: directory / file.name for file in files}
    if missing := {file: target for file, target in targets.items() if not target.exists()}:
        # What LLVM makes of the modules is not looked at.
        quick = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"
        with Xla(python, quick) as xla:
            for file, target in missing.items():
                try:
                    xla.compile(file.read_text())
                    target.write_text(xla.optimised())
                except RefusedError as error:
                    print(f"{file}: {error}", file=sys.stderr)
    return {file: target.read_text() for file, target in targets.items() if target.exists()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What hlotool's and XLA's optimisers leave of the same modules.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.hlo")
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown", dest="form")
    parser.add_argument("--xla-python", default=xla_python())
    parser.add_argument("--optimised", type=Path, default=Path("optimised-by-xla"), metavar="DIR")
    options = parser.parse_args(arguments)
    made = optimised_by_xla(options.files, options.optimised, options.xla_python)
    rows = [compare(file.stem, file.read_text(), text) for file, text in made.items()]
    print(table(rows) if options.form == "markdown" else json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
