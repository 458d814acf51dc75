"""Grids of tasks: kernels whose steps are divided into tasks already, each of which a thread does.

Results do not depend on how the tasks of a step are split, so that all of them may run at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import open_grid
from hlotool.codegen.gpu.items import THREADS
from hlotool.codegen.kernel import Definition, Kernel, Note, Step
from hlotool.codegen.llvm.control import allocate, call, when
from hlotool.codegen.llvm.values import Index, Int
from hlotool.codegen.llvm.writer import Unit

__all__ = ["as_grids"]

_MANY: Annotated[int, Threshold("tasks")] = 1 << 16
"""Tasks that are enough for large blocks on all of a chip."""


def as_grids(name: str, kernel: Kernel, chip: Chip, buffers: int) -> Kernel:
    """`kernel`, called `name`, which takes so many buffers, and one of scratch if it has some, as grids.

    A processor runs its steps as they are.
    """
    tasks = max((step.tasks for step in kernel.steps), default=0)
    notes = (*kernel.notes, Note("thread-per-task", "its algorithm has no form for blocks", (("tasks", tasks),)))
    if chip.emulated:
        return replace(kernel, notes=notes)
    unit = Unit(chip.machine)
    buffers += bool(kernel.scratch)
    steps = [_grid(unit, f"g{n}_{name}", step, chip, buffers) for n, step in enumerate(kernel.steps)]
    definitions: tuple[Definition, ...] = (*kernel.definitions, *unit.definitions)
    return replace(
        kernel, declarations={**kernel.declarations, **unit.declarations}, definitions=definitions, steps=tuple(steps),
        notes=notes,
    )  # fmt: skip


def _grid(unit: Unit, name: str, step: Step, chip: Chip, buffers: int) -> Step:
    threads = THREADS if step.tasks >= _MANY else chip.warp if step.tasks > 1 else 1
    grid = open_grid(unit, name, chip, -(-step.tasks // threads), threads, buffers)
    table = allocate(grid.f, "ptr", buffers + 1) + 8
    for number in range(buffers):
        table.at("ptr", number).store(grid.argument(number))

    def run(task: Index) -> None:
        call(grid.f, f"@{step.function}", table, task, task + 1)

    with grid.phase(last=True) as thread:
        own: Int = thread.plus(grid.block * threads)
        when(own < step.tasks if step.tasks % threads else True, lambda: run(own))
    return grid.finish()
