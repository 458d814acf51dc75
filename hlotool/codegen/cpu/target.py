"""Processors as targets: those whose vector instructions are known, and all others."""

from __future__ import annotations

from dataclasses import replace

from hlotool.codegen.cpu.costs import COSTS
from hlotool.codegen.cpu.emitters import EMITTERS
from hlotool.codegen.cpu.host.entry import Entry
from hlotool.codegen.cpu.host.overlap import schedule
from hlotool.codegen.cpu.host.step_costs import shares_loop
from hlotool.codegen.cpu.products.bf16x3_product import library
from hlotool.codegen.target import Target

__all__ = ["CPU", "GENERIC"]

CPU = Target(
    name="cpu",
    costs=COSTS,
    emitters=EMITTERS,
    schedule=schedule,
    shares_loop=shares_loop,
    entry=Entry,
    library=library,
)

GENERIC = replace(CPU, name="generic")
"""Any processor that LLVM knows: the same emitters, for machines of which no instruction is taken for granted."""
