"""What a backend makes of a module, alone or with the backend that it falls back to."""

from __future__ import annotations

from hlotool.driver.backend import Backend
from hlotool.driver.options import CompileOptions
from hlotool.driver.program_shape import program_shape
from hlotool.driver.support import refuse_unsupported
from hlotool.ir import InputError, Module
from hlotool.passes.framework.manager import changes_program
from hlotool.runtime.executable import Executable

__all__ = ["compiled_by"]


def compiled_by(backend: Backend, module: Module, options: CompileOptions) -> Executable:
    """`module` compiled by `backend`, and by its fallback what it does not take; UnsupportedError where there is
    neither.  InputError where passes make a program with other arguments or results, as the partitioner does."""
    if backend.fallback is not None:
        from hlotool.driver.partitioned import in_parts  # which most programs do without

        return in_parts(backend, module, options, compiled_by)
    refuse_unsupported(backend, module, options)
    made: object = backend.compile(module, options)
    if not isinstance(made, Executable):
        raise TypeError(f"compile of backend {backend.name} has to give an Executable, not {type(made).__name__}")
    for wanted, found in zip(program_shape(module), (made.parameters, made.outputs), strict=True):
        if [(s.element_type, s.dimensions) for s in wanted] != [(s.element_type, s.dimensions) for s in found]:
            if any(map(changes_program, options.pipeline.passes())):
                raise InputError(
                    f"{options.pipeline} makes a program that takes or gives other arrays: write it "
                    "(hlotool opt FILE -p PIPELINE -o NEW), and compile what was written"
                )
            raise TypeError(f"the executable of backend {backend.name} takes or gives other arrays than its module")
    return made
