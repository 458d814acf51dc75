"""Kernels that cannot be had are replaced by simpler ones, and the rest of a program stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from hlotool.codegen.kernel import KernelCrash
from hlotool.driver.failures import report
from hlotool.driver.options import CompileOptions
from hlotool.ir import Instruction, Module
from hlotool.passes.framework.isolation import alone, simplify_kernel
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.object_code import CodeError

__all__ = ["with_simpler_kernels"]

_Made = TypeVar("_Made")


def with_simpler_kernels(
    made: Callable[[], _Made], lowered: Module, options: CompileOptions,
    refused: Callable[[], Mapping[Instruction, Exception]],
) -> _Made:  # fmt: skip
    """What `made` makes of `lowered`, once the instructions whose kernels fail were given to others.

    `refused` has those whose text LLVM does not take, where it does not take all.  With strict options a failure is an
    error.
    """
    log = options.log
    while True:
        start = len(log), log.rewrites
        causes: Mapping[Instruction, Exception]
        try:
            return made()
        except KernelCrash as crash:
            if options.strict:
                raise next(iter(crash.causes.values())) from None
            causes = crash.causes
        except CodeError:
            causes = {} if options.strict else refused()
            if not causes:
                raise
        log.rewind(*start)
        for instruction, cause in causes.items():
            shown = alone(instruction)
            name, instead = instruction.name, simplify_kernel(lowered, instruction)
            report(log, f"kernel {name}", cause, instead, shown, Pipeline(()))
        lowered.remove_unreachable()
