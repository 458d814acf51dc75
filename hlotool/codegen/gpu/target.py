"""Graphics processors as targets: their kernels are grids, and programs for them launches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import NoReturn

from hlotool.analysis.costs import Costs
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.cholesky import emit_cholesky
from hlotool.codegen.gpu.fusions import emit_concatenate, emit_fusion
from hlotool.codegen.gpu.scatter import emit_scatter
from hlotool.codegen.gpu.sort import emit_sort, emit_topk
from hlotool.codegen.gpu.tasks import as_grids
from hlotool.codegen.gpu.windows import emit_reduce_window
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine
from hlotool.codegen.target import Emitter, Target
from hlotool.ir import Instruction

__all__ = ["target_for"]

_ALGORITHMS = {
    "fft": "fft:emit_fft",
    "rng": "rng:emit_rng",
    "rng-bit-generator": "rng:emit_rng_bit_generator",
    "rng-get-and-update-state": "rng:emit_rng_get_and_update_state",
    "select-and-scatter": "select_and_scatter:emit_select_and_scatter",
    "triangular-solve": "linear:emit_triangular_solve",
}
"""Where those are in `codegen.algorithms` whose tasks threads do."""


@cache
def target_for(chip: Chip) -> Target:
    """The target of a chip, for `hlotool.codegen.gpu.program`: nothing is scheduled, as launches are in order, and
    no function runs them, but a list."""

    def fusion(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        return emit_fusion(name, instruction, chip, in_place)

    def concatenate(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        return emit_concatenate(name, instruction, chip, there)

    def scatter(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        return emit_scatter(name, instruction, chip, len(in_place) == len(instruction.operands) // 2)

    by_comparator, by_rows = _algorithm("sort:emit_sort", chip), _algorithm("topk:emit_topk", chip)

    def sort(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        def otherwise() -> Kernel:
            return by_comparator(name, instruction, machine, in_place, there)

        return emit_sort(name, instruction, chip, bool(in_place), otherwise)

    def topk(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        return emit_topk(name, instruction, chip, lambda: by_rows(name, instruction, machine, in_place, there))

    def cholesky(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        return emit_cholesky(name, instruction, chip)

    def windows(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        return emit_reduce_window(name, instruction, chip)

    grids = {"cholesky": cholesky, "reduce-window": windows, "scatter": scatter, "sort": sort, "topk": topk}
    algorithms = {opcode: _algorithm(home, chip) for opcode, home in _ALGORITHMS.items()}
    return Target(
        name="gpu", costs=Costs(prologues=False, byte_rows=False, row_bytes=0),
        emitters={**algorithms, **grids, "concatenate": concatenate, "fusion": fusion},
        schedule=_none, shares_loop=lambda step, trips: False, shares_step=lambda step, looped: False, function=_none,
        library=lambda machine: (), in_line=False,
    )  # fmt: skip


def _none(*arguments: object) -> NoReturn:
    raise NotImplementedError("a program of launches has no function of this processor")


def _algorithm(home: str, chip: Chip) -> Emitter:
    """An emitter that is told whether all of the result is in place, loaded when it is needed."""
    file, _, function = home.partition(":")

    def emit(
        name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
    ) -> Kernel:
        found: Callable[[str, Instruction, Machine, bool], Kernel] = getattr(
            import_module(f"hlotool.codegen.algorithms.{file}"), function
        )
        leaves = [sum(1 for leaf in i.shape.leaves() if leaf.is_array) for i in (*instruction.operands, instruction)]
        kernel = found(name, instruction, chip.machine, len(in_place) == leaves[-1])
        return as_grids(name, kernel, chip, sum(leaves))

    return emit
