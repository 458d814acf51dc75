"""LLVM's passes over functions whose variables are to be registers: those of small loops.

They make what such a function calls a part of it, write out the few trips of loops in that, and make registers of the
variables whose every access then has a place that is known; stores that nobody reads are left out.  No other code gets
any pass (`hlotool.runtime.target_machines`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llvmlite import binding

__all__ = ["PASSES", "pass_functions", "promote"]

PASSES = ("AlwaysInliner", "SROA", "LoopUnroll", "SROA", "DSE")
"""LLVM's names for them, in order.  The first SROA makes registers of the tables of addresses that kernels are given;
the second one then sees which variables these are of."""


def pass_functions() -> list[str]:
    """llvmlite's functions that append the passes to a manager."""
    return [f"LLVMPY_module_Add{name}Pass" for name in PASSES]


def promote(module: binding.ModuleRef, target: binding.TargetMachine) -> None:
    """Run the passes over all of `module`."""
    from llvmlite import binding
    from llvmlite.binding import ffi

    builder = binding.create_pass_builder(target, binding.create_pipeline_tuning_options())
    manager = binding.create_new_module_pass_manager()
    for name in pass_functions():
        getattr(ffi.lib, name)(manager)
    manager.run(module, builder)
