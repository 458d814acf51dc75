"""Which emitter makes the kernel of an instruction: one row per opcode that is not a loop over its result.

`library` gives the functions that the kernels of all programs for a machine may call.
"""

from __future__ import annotations

from collections.abc import Callable

from hlotool.analysis.fusibility import has_many_sources
from hlotool.analysis.product_epilogue import fused_product
from hlotool.codegen.cpu.algorithms.cholesky import emit_cholesky
from hlotool.codegen.cpu.algorithms.concatenate import emit_concatenate
from hlotool.codegen.cpu.algorithms.fft import emit_fft
from hlotool.codegen.cpu.algorithms.reduce_window import emit_reduce_window
from hlotool.codegen.cpu.algorithms.rng import emit_rng_bit_generator
from hlotool.codegen.cpu.algorithms.rng_state import emit_rng, emit_rng_get_and_update_state
from hlotool.codegen.cpu.algorithms.scatter import emit_scatter
from hlotool.codegen.cpu.algorithms.select_and_scatter import emit_select_and_scatter
from hlotool.codegen.cpu.algorithms.sort import emit_sort
from hlotool.codegen.cpu.algorithms.topk import emit_topk
from hlotool.codegen.cpu.algorithms.triangular_solve import emit_triangular_solve
from hlotool.codegen.cpu.fusions.fusion import can_emit, emit_fusion, emit_rest
from hlotool.codegen.cpu.products.bf16x3_product import library
from hlotool.codegen.cpu.products.contraction import emit_convolution, emit_fused_product, emit_product
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["EMITTERS", "PRODUCT_EMITTERS", "emit_kernel", "library"]

PRODUCT_EMITTERS: dict[str, Callable[[str, Instruction, Machine, frozenset[int]], Kernel]] = {
    "convolution": emit_convolution,
    "dot": emit_product,
    "product fusion": emit_fused_product,
}

EMITTERS: dict[str, Callable[[str, Instruction, Machine, bool], Kernel]] = {
    "cholesky": emit_cholesky,
    "fft": emit_fft,
    "reduce-window": emit_reduce_window,
    "rng": emit_rng,
    "rng-bit-generator": emit_rng_bit_generator,
    "rng-get-and-update-state": emit_rng_get_and_update_state,
    "scatter": emit_scatter,
    "select-and-scatter": emit_select_and_scatter,
    "sort": emit_sort,
    "topk": emit_topk,
    "triangular-solve": emit_triangular_solve,
}


def emit_kernel(
    name: str,
    instruction: Instruction,
    machine: Machine,
    in_place: frozenset[int],
    there: frozenset[int] = frozenset(),
) -> Kernel:
    """The kernel of `instruction`; `in_place` are output leaves that share memory with the operand they update, `there`
    the operands of a concatenate that lie in its result already.

    UnsupportedError names the instruction when there is no native code for it.
    """
    kind = "product fusion" if fused_product(instruction) is not None else instruction.opcode
    if kind in PRODUCT_EMITTERS:
        return PRODUCT_EMITTERS[kind](name, instruction, machine, in_place)
    if kind in EMITTERS:
        whole_in_place = len(in_place) == sum(1 for _ in instruction.shape.leaves())
        return EMITTERS[kind](name, instruction, machine, whole_in_place)
    if has_many_sources(instruction):
        return emit_concatenate(name, instruction, machine, there)
    if there:
        return emit_rest(name, instruction, machine, there)
    if can_emit(instruction):
        return emit_fusion(name, instruction, machine, in_place)
    raise UnsupportedError(f"{instruction.name}: {instruction.opcode} has no native code")
