"""Processors as targets: those whose vector instructions are known, and all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hlotool.codegen.cpu.algorithms.concatenate import emit_concatenate
from hlotool.codegen.cpu.algorithms.fft import emit_fft
from hlotool.codegen.cpu.algorithms.linear import emit_cholesky, emit_triangular_solve
from hlotool.codegen.cpu.algorithms.reduce_window import emit_reduce_window
from hlotool.codegen.cpu.algorithms.rng import emit_rng, emit_rng_bit_generator, emit_rng_get_and_update_state
from hlotool.codegen.cpu.algorithms.scatter import emit_scatter
from hlotool.codegen.cpu.algorithms.select_and_scatter import emit_select_and_scatter
from hlotool.codegen.cpu.algorithms.sort import emit_sort
from hlotool.codegen.cpu.algorithms.topk import emit_topk
from hlotool.codegen.cpu.costs import COSTS
from hlotool.codegen.cpu.fusions.fusion import can_emit, emit_fusion, emit_rest
from hlotool.codegen.cpu.host.entry import write_function
from hlotool.codegen.cpu.host.overlap import schedule
from hlotool.codegen.cpu.host.step_costs import shares_loop
from hlotool.codegen.cpu.products.bf16x3_product import library
from hlotool.codegen.cpu.products.contraction import emit_convolution, emit_fused_product, emit_product
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine
from hlotool.codegen.target import Emitter, Target
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["CPU", "GENERIC"]


def _emit_loops(
    name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
) -> Kernel:
    if there:
        return emit_rest(name, instruction, machine, there)
    if can_emit(instruction):
        return emit_fusion(name, instruction, machine, in_place)
    raise UnsupportedError(f"{instruction.name}: {instruction.opcode} has no native code")


def _product(emit: Callable[[str, Instruction, Machine, frozenset[int]], Kernel]) -> Emitter:
    return lambda name, product, machine, in_place, _: emit(name, product, machine, in_place)


def _algorithm(emit: Callable[[str, Instruction, Machine, bool], Kernel]) -> Emitter:
    """An emitter that is told whether all of the result is in place."""
    return lambda name, instruction, machine, in_place, _: emit(
        name, instruction, machine, len(in_place) == sum(1 for _ in instruction.shape.leaves())
    )


_EMITTERS: dict[str, Emitter] = {
    "cholesky": _algorithm(emit_cholesky),
    "concatenate": lambda name, whole, machine, _, there: emit_concatenate(name, whole, machine, there),
    "convolution": _product(emit_convolution),
    "dot": _product(emit_product),
    "fft": _algorithm(emit_fft),
    "fusion": _emit_loops,
    "product fusion": _product(emit_fused_product),
    "reduce-window": _algorithm(emit_reduce_window),
    "rng": _algorithm(emit_rng),
    "rng-bit-generator": _algorithm(emit_rng_bit_generator),
    "rng-get-and-update-state": _algorithm(emit_rng_get_and_update_state),
    "scatter": _algorithm(emit_scatter),
    "select-and-scatter": _algorithm(emit_select_and_scatter),
    "sort": _algorithm(emit_sort),
    "topk": _algorithm(emit_topk),
    "triangular-solve": _algorithm(emit_triangular_solve),
}

CPU = Target(
    name="cpu",
    costs=COSTS,
    emitters=_EMITTERS,
    schedule=schedule,
    shares_loop=shares_loop,
    function=write_function,
    library=library,
)

GENERIC = replace(CPU, name="generic")
"""Any processor that LLVM knows: the same emitters, for machines of which no instruction is taken for granted."""
