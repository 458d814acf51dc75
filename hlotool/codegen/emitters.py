"""Which emitter makes the kernel of an instruction: one row per opcode that is not a loop over its result.

Those of products, which nearly every program has, are here from the start; the others are imported when a module first
needs them: most need few.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from hlotool.analysis.product_epilogue import fused_product
from hlotool.codegen.cpu.contraction import emit_convolution, emit_fused_product, emit_product
from hlotool.codegen.cpu.fusion import can_emit, emit_fusion, emit_rest
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["EMITTERS", "PRODUCT_EMITTERS", "emit_kernel"]

Emitter = Callable[[str, Instruction, Machine, bool], Kernel]

PRODUCT_EMITTERS: dict[str, Callable[[str, Instruction, Machine, frozenset[int]], Kernel]] = {
    "convolution": emit_convolution,
    "dot": emit_product,
    "product fusion": emit_fused_product,
}

EMITTERS: dict[str, str] = {
    "cholesky": "hlotool.codegen.cpu.cholesky:emit_cholesky",
    "fft": "hlotool.codegen.cpu.fft:emit_fft",
    "reduce-window": "hlotool.codegen.cpu.reduce_window:emit_reduce_window",
    "rng": "hlotool.codegen.cpu.rng_state:emit_rng",
    "rng-bit-generator": "hlotool.codegen.cpu.rng:emit_rng_bit_generator",
    "rng-get-and-update-state": "hlotool.codegen.cpu.rng_state:emit_rng_get_and_update_state",
    "scatter": "hlotool.codegen.cpu.scatter:emit_scatter",
    "select-and-scatter": "hlotool.codegen.cpu.select_and_scatter:emit_select_and_scatter",
    "sort": "hlotool.codegen.cpu.sort:emit_sort",
    "topk": "hlotool.codegen.cpu.topk:emit_topk",
    "triangular-solve": "hlotool.codegen.cpu.triangular_solve:emit_triangular_solve",
}
"""Opcode -> ``module:function`` of its emitter."""


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
        module, _, function = EMITTERS[kind].partition(":")
        emitter: Emitter = getattr(import_module(module), function)
        return emitter(name, instruction, machine, whole_in_place)
    if there:
        return emit_rest(name, instruction, machine, there)
    if can_emit(instruction):
        return emit_fusion(name, instruction, machine, in_place)
    raise UnsupportedError(f"{instruction.name}: {instruction.opcode} has no native code")
