"""Functions of arrays as executables: for backends that make no code which hlotool loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.codegen.plan.values import array_leaves
from hlotool.ir import ExecutionError, Module, Shape, dtype_of
from hlotool.ir.devices import topology_of
from hlotool.ir.dynamic import accepts
from hlotool.runtime.executable import Executable, Memory
from hlotool.runtime.marshalling import check_arrays

__all__ = ["executable_of"]


def executable_of(module: Module, function: Callable[..., Sequence[object]]) -> Executable:
    """`function` as the executable of `module`.

    It takes one array for each array in the entry's parameters, in order and of their types and dimensions, which it
    must not write to, and gives one for each array in the root; any number of threads may call it at once.  InputError
    for arguments that do not fit, ExecutionError for results that do not.
    """
    from hlotool.evaluate.interpreter import used_bits  # which native code does without

    parameters = tuple([leaf for one in module.entry.parameters for leaf in array_leaves(one.shape)])
    outputs = tuple(array_leaves(module.entry.root.shape))

    def run(*arrays: object) -> tuple[npt.NDArray[Any], ...]:
        given = [used_bits(*pair) for pair in zip(parameters, check_arrays(parameters, arrays), strict=True)]
        with np.errstate(all="ignore"):  # HLO knows no exceptions of arithmetic
            results = function(*given)
        if len(results) != len(outputs):
            raise ExecutionError(f"{module.name}: its backend gave {len(results)} results, not {len(outputs)}")
        return tuple([_checked(module, n, *pair) for n, pair in enumerate(zip(outputs, results, strict=True))])

    memory = Memory(0, sum(s.byte_size for s in parameters), sum(s.byte_size for s in outputs), 0)
    return Executable(module, parameters, outputs, memory, (), run, devices=topology_of(module).devices)


def _checked(module: Module, number: int, shape: Shape, value: object) -> npt.NDArray[Any]:
    found = np.asarray(value)
    if found.dtype != dtype_of(shape.element_type) or not accepts(shape, found.shape):
        given = f"{found.dtype} of shape {found.shape}"
        raise ExecutionError(f"{module.name}: its backend gave {given} as result {number}, which is {shape}")
    return found
