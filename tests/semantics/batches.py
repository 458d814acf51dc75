"""The work of a long run, in modules that can go to other processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import semantics.families  # noqa: F401
from hlotool.codegen.machine import named
from semantics.check import Cell, Setting, groups_of, run_cells
from semantics.sample import CLASSES, FAMILIES

__all__ = ["ROUNDS", "Batch", "batches"]

ROUNDS = 20
"""Of values, for each module."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One module: cells are named by opcode, number of the family and type, so that they can go to another process."""

    opcode: str
    name: str
    seed: int
    cells: tuple[tuple[int, str], ...]
    setting: tuple[str, bool, bool] = ("", False, False)  # --cpu, --flush-denormals, --layouts

    def run(self) -> str:
        """What failed; empty when nothing did."""
        cells: list[Cell] = [(FAMILIES[self.opcode][number], kind) for number, kind in self.cells]
        cpu, flush, laid_out = self.setting
        setting = Setting(named(cpu) if cpu else None, flush_denormals=flush, laid_out=laid_out)
        return str(run_cells(cells, self.seed, ROUNDS, setting) or "")

    def again(self) -> str:
        kinds = "|".join(sorted({kind for _, kind in self.cells}))
        cpu, flush, laid_out = self.setting
        options = f" --cpu {cpu}" * bool(cpu) + " --flush-denormals" * flush + " --layouts" * laid_out
        where = f"--opcode '{self.opcode}' --type '{kinds}' --seed {self.seed}"
        return f"python -m semantics {where} --examples 1{options}"


def batches(
    examples: int, opcodes: str, types: str, seed: int, setting: tuple[str, bool, bool] = ("", False, False)
) -> Iterator[Batch]:
    """Enough modules for `examples` of each opcode on each class of types."""
    for opcode in FAMILIES:
        if not re.fullmatch(opcodes, opcode):
            continue
        for name in CLASSES:
            families = FAMILIES[opcode]
            legal = any(kind in CLASSES[name] for f in families for kind in f.types)
            groups = groups_of(opcode, name) if legal else []
            asked = [[c for c in cells if re.fullmatch(types, c[1])] for cells in groups]
            size = sum(map(len, asked))
            for number in range(-(-examples // (size * ROUNDS)) if size else 0):
                for cells in filter(None, asked):
                    places = ((next(n for n, f in enumerate(families) if f is way), kind) for way, kind in cells)
                    yield Batch(opcode, name, seed + number, tuple(places), setting)
