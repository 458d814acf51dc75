"""Processors as targets: those whose vector instructions are known, and all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from hlotool.codegen.cpu.costs import COSTS
from hlotool.codegen.cpu.host.entry import write_function
from hlotool.codegen.cpu.host.overlap import schedule
from hlotool.codegen.cpu.host.step_costs import is_split, shares_loop
from hlotool.codegen.kernel import Kernel
from hlotool.codegen.machine import Machine
from hlotool.codegen.target import Emitter, Target
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["CPU", "GENERIC"]


def _late(home: str, name: str) -> Callable[..., Kernel]:
    """A function of a file of code generation that is loaded when it is needed: most programs need few of them."""

    def emit(*arguments: object) -> Kernel:
        found: Callable[..., Kernel] = getattr(import_module(f"hlotool.codegen.{home}"), name)
        return found(*arguments)

    return emit


def _library(machine: Machine) -> tuple[str, ...]:
    from hlotool.codegen.cpu.products.bf16x3_product import library

    return library(machine)


def _emit_loops(
    name: str, instruction: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
) -> Kernel:
    # Single elements take none of this.
    from hlotool.codegen.cpu.fusions.fusion import can_emit, emit_fusion, emit_rest

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


def _emit_concatenate(
    name: str, whole: Instruction, machine: Machine, in_place: frozenset[int], there: frozenset[int]
) -> Kernel:
    return _late("algorithms.concatenate", "emit_concatenate")(name, whole, machine, there)


_EMITTERS: dict[str, Emitter] = {
    "cholesky": _algorithm(_late("algorithms.linear", "emit_cholesky")),
    "concatenate": _emit_concatenate,
    "convolution": _product(_late("cpu.products.conv", "emit_convolution")),
    "dot": _product(_late("cpu.products.contraction", "emit_product")),
    "fft": _algorithm(_late("algorithms.fft", "emit_fft")),
    "fusion": _emit_loops,
    "product fusion": _product(_late("cpu.products.contraction", "emit_fused_product")),
    "reduce-window": _algorithm(_late("algorithms.reduce_window", "emit_reduce_window")),
    "rng": _algorithm(_late("algorithms.rng", "emit_rng")),
    "rng-bit-generator": _algorithm(_late("algorithms.rng", "emit_rng_bit_generator")),
    "rng-get-and-update-state": _algorithm(_late("algorithms.rng", "emit_rng_get_and_update_state")),
    "scatter": _algorithm(_late("algorithms.scatter", "emit_scatter")),
    "select-and-scatter": _algorithm(_late("algorithms.select_and_scatter", "emit_select_and_scatter")),
    "sort": _algorithm(_late("algorithms.sort", "emit_sort")),
    "topk": _algorithm(_late("algorithms.topk", "emit_topk")),
    "triangular-solve": _algorithm(_late("algorithms.linear", "emit_triangular_solve")),
}

CPU = Target(
    name="cpu",
    costs=COSTS,
    emitters=_EMITTERS,
    schedule=schedule,
    shares_loop=shares_loop,
    shares_step=is_split,
    function=write_function,
    library=_library,
)

GENERIC = replace(CPU, name="generic")
"""Any processor that LLVM knows: the same emitters, for machines of which no instruction is taken for granted."""
